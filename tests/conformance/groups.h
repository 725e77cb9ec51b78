/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every group of cases, one file each. */
#ifndef CONFORMANCE_GROUPS_H
#define CONFORMANCE_GROUPS_H

#include "frame.h"

#define GROUPS(X) \
	X(messages) \
	X(tagged) \
	X(matching) \
	X(peek) \
	X(sources) \
	X(multi_recv) \
	X(truncation) \
	X(cancel) \
	X(errors) \
	X(peers) \
	X(addresses) \
	X(vectors) \
	X(datagrams) \
	X(objects) \
	X(controls) \
	X(events) \
	X(connections) \
	X(discovery) \
	X(hints) \
	X(concurrency) \
	X(rma) \
	X(rma_many) \
	X(rma_errors) \
	X(memory) \
	X(atomics) \
	X(atomics_shared) \
	X(completion) \
	X(queues) \
	X(counters) \
	X(waiting) \
	X(threads)

#define DECLARE(name)	extern const struct conformance_group name##_group;
GROUPS(DECLARE)
#undef DECLARE

#endif
