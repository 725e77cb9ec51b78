/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the groups that send and receive have in common. */
#ifndef CONFORMANCE_TRAFFIC_H
#define CONFORMANCE_TRAFFIC_H

#include "frame.h"

/* Lengths around the places where software usually changes its ways, in ascending order. */
extern const size_t sizes[];
extern const size_t size_count;

/* For cases whose messages come before their receives: without FI_RM_ENABLED, that is the program's fault. */
void messages_wait(const struct side *s);

/* Number of these lengths that the endpoint can send. */
size_t usable_sizes(const struct side *s);

/* The bits of a tag, and of remote data, that the provider carries. */
uint64_t tag_of(const struct side *s, uint64_t tag);
uint64_t carried(const struct side *s, uint64_t data);

/*
 * Cuts the side's buffer into pieces of this length with gaps between them, one more than the
 * endpoint's limit, which is returned.
 */
#define PIECES	64
size_t cut_vector(struct side *s, size_t piece, struct iovec *iov, void **desc);

/* A tagged receive of one buffer by fi_trecvmsg. */
ssize_t receive_tagged(struct side *s, void *buf, size_t len, fi_addr_t source, uint64_t tag,
		       uint64_t ignore, void *context, uint64_t flags);
/* An untagged one by fi_recvmsg. */
ssize_t receive_untagged(struct side *s, void *buf, size_t len, fi_addr_t source, void *context,
			 uint64_t flags);
/* A tagged send by fi_tsendmsg, and an untagged one by fi_sendmsg. */
ssize_t send_tagged(struct side *s, const void *buf, size_t len, uint64_t tag, uint64_t data,
		    void *context, uint64_t flags);
ssize_t send_untagged(struct side *s, const void *buf, size_t len, uint64_t data, void *context,
		      uint64_t flags);

/*
 * Waits for the next entry of a queue: 1 for a success, with the members that the format tells and
 * zero in the others, or 0 for an error.
 */
int outcome_at(const char *at, struct side *s, struct fid_cq *cq, struct done *done,
	       struct fi_cq_err_entry *err);

#define OUTCOME(s, cq, done, err)	outcome_at(HERE, s, cq, done, err)

#endif
