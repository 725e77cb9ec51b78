/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One run of a case in processes of its own. */
#ifndef CONFORMANCE_INSTANCE_H
#define CONFORMANCE_INSTANCE_H

#include "variants.h"

enum outcome { PASSED, FAILED, NOT_OFFERED };

struct instance {
	const struct conformance_case	*what;
	const struct variant		*variant;
	int				threads;
};

/* Finds out which registration bits the provider demands of everybody; zero if there is none. */
int find_demands(void);

/* Runs it to its end, or to the deadline. Nothing of it is left running. */
enum outcome run(const struct instance *instance);

/* What the last run wrote. */
void show_output(void);

#endif
