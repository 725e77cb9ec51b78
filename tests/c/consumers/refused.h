/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Refusals that are by design: discovery finds nothing, and says why. */
#include "consumer.h"

#if __has_include(<rdma/percale.h>)
#include <rdma/percale.h>
#endif

/* The reasons of the last discovery name the provider and this. */
static inline void refused_because_of(const char *what)
{
#ifdef PERCALE_EXPLAIN
	struct fid *fid;
	const char *text;

	OK(fi_open(FI_VERSION(1, 13), PERCALE_EXPLAIN, NULL, 0, 0, &fid, NULL));
	text = ((struct fid_percale_explain *) fid)->text;
	if (!strstr(text, over_tcp() ? "tcp" : "shm") || !strstr(text, what))
		FAIL("no word of %s in: %s", what, text);
	OK(fi_close(fid));
#else
	(void) what;
#endif
}

static inline void refused(uint32_t version, const struct fi_info *hints, const char *what)
{
	struct fi_info *info = NULL;

	EQUAL(fi_getinfo(version, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	CHECK(!info);
	refused_because_of(what);
}
