/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory that the other side reaches, for the groups of one-sided operations. */
#ifndef CONFORMANCE_REMOTE_H
#define CONFORMANCE_REMOTE_H

#include "frame.h"

#define REMOTE_ACCESS	(FI_REMOTE_READ | FI_REMOTE_WRITE)

/* Both sides' `in` may be read and written by the other. */
struct remote {
	struct fid_mr	*mr;
	struct region	near, far;
};

void remote_open(struct side *s, struct remote *r);
/* Waits for the other side first, which may still be at it. */
void remote_close(struct side *s, struct remote *r);

/* How peers name memory of this side. */
uint64_t remote_address(const struct side *s, const void *buf);

/* The bits of remote data that the provider carries. */
uint64_t carried_data(const struct side *s, uint64_t data);
/* Whether data of a write takes a receive (FI_RX_CQ_DATA). */
int takes_receives(const struct side *s);

/* Progress until memory has this pattern, put there by the other side. */
void await_filled_at(const char *at, struct side *s, const void *buf, size_t len, size_t seed);
#define AWAIT_FILLED(s, buf, len, seed)	await_filled_at(HERE, s, buf, len, seed)

/* fi_writemsg and fi_readmsg of one piece. */
ssize_t write_with(struct side *s, const void *buf, size_t len, uint64_t addr, uint64_t key,
		   uint64_t flags, uint64_t data, void *context);
ssize_t read_with(struct side *s, void *buf, size_t len, uint64_t addr, uint64_t key,
		  uint64_t flags, void *context);

/* An operation that must fail for this reason, with one error and nothing else. */
void refused_at(const char *at, struct side *s, int reason, uint64_t kind, void *context);
#define REFUSED(s, call, reason, kind, context) \
	do { POST(s, call); refused_at(HERE, s, reason, kind, context); } while (0)

/* A device looks at keys by itself, and tells that it has refused an access, but not why. */
int looks_by_itself(const struct side *s);
/* Such a device's connections end with the access. */
int ends_with_errors(const struct side *s);
/* Whether a reason is one that an access can be refused for. */
int refusal(int reason);

/* The next entry of the transmit queue is the error of an access that was refused for this reason. */
void refusal_at(const char *at, struct side *s, int reason, void *context,
		struct fi_cq_err_entry *err);
#define REFUSAL(s, reason, context, err)	refusal_at(HERE, s, reason, context, err)

/* A call that must fail when it is posted; a connection may have to be made first. */
#define REJECTED(s, call, reason) \
	do { \
		ssize_t got_; \
		double late_ = 0; \
		while ((got_ = (call)) == -FI_EAGAIN) { \
			progress(s); \
			late_at(HERE, &late_, #call); \
		} \
		equal_at(HERE, #call, (long long) got_, -(reason)); \
	} while (0)

/* Another counter of operations that end. */
struct fid_cntr *open_counter(struct side *s, enum fi_wait_obj wait);

#endif
