/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What Percale adds to the interface. Programs that use it still run with other
 * implementations: fi_open answers -FI_ENOSYS for names that it does not know.
 */
#ifndef PERCALE_H
#define PERCALE_H

#include <rdma/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Why fi_getinfo found nothing, or less than expected.
 *
 *	struct fid *fid;
 *
 *	if (fi_open(FI_VERSION(1, 13), PERCALE_EXPLAIN, NULL, 0, 0, &fid, NULL) == 0) {
 *		fputs(((struct fid_percale_explain *) fid)->text, stderr);
 *		fi_close(fid);
 *	}
 *
 * The text is about the last fi_getinfo of the calling thread: a line for each
 * reason, nearest miss first, and empty if nothing was rejected. It is valid until
 * the object is closed, and does not change meanwhile. It is meant for people, its
 * wording may change.
 */
#define PERCALE_EXPLAIN "percale_explain"

struct fid_percale_explain {
	struct fid	fid;
	const char	*text;
};

#ifdef __cplusplus
}
#endif

#endif /* PERCALE_H */
