/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the command line chose, for all of the program. */
#ifndef CONFORMANCE_SETTINGS_H
#define CONFORMANCE_SETTINGS_H

#include <rdma/fi_endpoint.h>

struct settings {
	const char	*provider;
	const char	*nodes[2];	/* own addresses of the sides to listen at, or NULL */
	enum fi_ep_type	type;
	/* Seconds after which a case that has not ended is ended and has failed. */
	int		deadline;
	int		brief;		/* long loops are short */
	int		instrumented;	/* the library has descriptors that are not its own */
	int		mr_mode;	/* bits that the provider demands of everybody */
};

extern struct settings settings;

#endif
