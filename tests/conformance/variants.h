/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The values that a case runs with besides its own. */
#ifndef CONFORMANCE_VARIANTS_H
#define CONFORMANCE_VARIANTS_H

#include "frame.h"

struct variant {
	unsigned	axis;		/* VARY_*; zero is the case as it is */
	const char	*name;
	uint64_t	value;
};

extern const struct variant variants[];
extern const size_t variant_count;

void apply_variant(const struct variant *variant, struct wish *wish);

#endif
