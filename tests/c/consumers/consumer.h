/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two endpoints of one application, each with objects of its own as in two processes, opened
 * the way that the application opens them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../pair.h"

/* What is opened; zero is none or the default. */
struct objects {
	enum fi_av_type		av_type;
	size_t			av_count;
	enum fi_cq_format	format;
	size_t			cq_size;
	uint64_t		cq_flags;	/* added to both directions */
	uint64_t		cntr_flags;	/* 0: no counter */
	enum fi_wait_obj	wait;
	size_t			min_multi_recv;
};

struct side {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;
	struct fid_cq		*cq;
	struct fid_cntr		*cntr;
	struct fid_ep		*ep;
	fi_addr_t		peer;
};

/* Other hosts are reached. */
static inline int over_tcp(void)
{
	const char *provider = getenv("FI_PROVIDER");

	return provider && !strcmp(provider, "tcp");
}

/* a does, b is done to. */
static struct side a, b;

static inline void open_side(struct side *s, const struct fi_info *info,
			     const struct objects *wanted)
{
	struct fi_av_attr av = { .type = wanted->av_type, .count = wanted->av_count };
	struct fi_cq_attr cq = { .format = wanted->format, .size = wanted->cq_size,
				 .wait_obj = wanted->wait };
	struct fi_cntr_attr cntr = { .events = FI_CNTR_EVENTS_COMP };
	size_t least = wanted->min_multi_recv;

	s->info = fi_dupinfo(info);
	CHECK(s->info);
	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
	OK(fi_av_open(s->domain, &av, &s->av, NULL));
	OK(fi_cq_open(s->domain, &cq, &s->cq, NULL));
	OK(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	OK(fi_ep_bind(s->ep, &s->av->fid, 0));
	OK(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV | wanted->cq_flags));
	if (wanted->cntr_flags) {
		OK(fi_cntr_open(s->domain, &cntr, &s->cntr, NULL));
		OK(fi_ep_bind(s->ep, &s->cntr->fid, wanted->cntr_flags));
	}
	if (least)
		OK(fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			     sizeof(least)));
	OK(fi_enable(s->ep));
}

static inline void introduce(struct side *s, struct side *other)
{
	char name[256];
	size_t length = sizeof(name);

	OK(fi_getname(&other->ep->fid, name, &length));
	EQUAL(fi_av_insert(s->av, name, 1, &s->peer, 0, NULL), 1);
}

static inline void open_both(const struct fi_info *info, const struct objects *wanted)
{
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	open_side(&a, info, wanted);
	open_side(&b, info, wanted);
	introduce(&a, &b);
	introduce(&b, &a);
}

static inline void close_side(struct side *s)
{
	OK(fi_close(&s->ep->fid));
	if (s->cntr)
		OK(fi_close(&s->cntr->fid));
	OK(fi_close(&s->cq->fid));
	OK(fi_close(&s->av->fid));
	OK(fi_close(&s->domain->fid));
	OK(fi_close(&s->fabric->fid));
	fi_freeinfo(s->info);
}

static inline void close_both(void)
{
	close_side(&a);
	close_side(&b);
}

static inline void drive_side(struct side *s)
{
	const ssize_t ret = fi_cq_read(s->cq, NULL, 0);

	if (ret && ret != -FI_EAGAIN && ret != -FI_EAVAIL)
		FAIL("progress: %s", fi_strerror((int) -ret));
}

static inline void drive(void)
{
	drive_side(&a);
	drive_side(&b);
}

/* Waits for the next completion of a side, with both sides moving on. */
static inline void completes_at(const char *file, int line, struct side *s,
				struct fi_cq_tagged_entry *entry)
{
	ssize_t ret;

	do {
		drive();
		ret = fi_cq_read(s->cq, entry, 1);
	} while (ret == -FI_EAGAIN);
	if (ret == -FI_EAVAIL)
		fail_with_error(file, line, s->cq);
	check_equal(file, line, "the number of completions", ret, 1);
}

/* The next completion is the one of this context, with these flags. */
static inline void done_at(const char *file, int line, struct side *s, void *context,
			   uint64_t flags)
{
	struct fi_cq_tagged_entry entry;

	memset(&entry, 0, sizeof(entry));
	completes_at(file, line, s, &entry);
	if (entry.op_context != context)
		fail_at(file, line, "completion of %p, expected %p", entry.op_context, context);
	check_equal(file, line, "flags", (long long) entry.flags, (long long) flags);
}

/* The next entry is this error of this context. */
static inline void fails_at(const char *file, int line, struct side *s, void *context, int reason,
			    struct fi_cq_err_entry *err)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	do {
		drive();
		ret = fi_cq_read(s->cq, &entry, 1);
	} while (ret == -FI_EAGAIN);
	check_equal(file, line, "fi_cq_read", ret, -FI_EAVAIL);
	check_equal(file, line, "fi_cq_readerr", fi_cq_readerr(s->cq, err, 0), 1);
	check_equal(file, line, "the error", err->err, reason);
	if (err->op_context != context)
		fail_at(file, line, "error of %p, expected %p", err->op_context, context);
}

/* Nothing completes on either side, with rounds of progress. */
static inline void silent_at(const char *file, int line)
{
	struct fi_cq_tagged_entry entry;
	int i;

	for (i = 0; i < 200; i++) {
		drive();
		check_equal(file, line, "fi_cq_read of a", fi_cq_read(a.cq, &entry, 1),
			    -FI_EAGAIN);
		check_equal(file, line, "fi_cq_read of b", fi_cq_read(b.cq, &entry, 1),
			    -FI_EAGAIN);
	}
}

#define COMPLETES(s, entry)		completes_at(__FILE__, __LINE__, s, entry)
#define DONE(s, context, flags)		done_at(__FILE__, __LINE__, s, context, flags)
#define FAILS(s, context, reason, err)	fails_at(__FILE__, __LINE__, s, context, reason, err)
#define SILENT()			silent_at(__FILE__, __LINE__)

/* Repeats a post while there is no room, as all of them do. */
#define PUT(call) \
	do { \
		ssize_t put_; \
		while ((put_ = (call)) == -FI_EAGAIN) \
			drive(); \
		check_result(__FILE__, __LINE__, #call, put_); \
	} while (0)

/* Waits until a counter has this value, and never more. */
#define COUNTED(counter, value) \
	do { \
		const uint64_t wanted_ = (value); \
		while (fi_cntr_read(counter) < wanted_) \
			drive(); \
		EQUAL(fi_cntr_read(counter), wanted_); \
		EQUAL(fi_cntr_readerr(counter), 0); \
	} while (0)

/* The bits of mr_mode decide how remote memory is addressed. */
static inline uint64_t remote_address(const struct side *s, const void *base, size_t offset)
{
	const int mode = s->info->domain_attr->mr_mode;

	if (mode == FI_MR_BASIC || (mode != FI_MR_SCALABLE && (mode & FI_MR_VIRT_ADDR)))
		return (uint64_t) (uintptr_t) base + offset;
	return offset;
}

/* The three queries of all combinations that the interface has ever had, and of some that it
 * has not; returns how many are served. */
static inline int query_atomics(struct fid_ep *ep, int datatypes, int ops)
{
	static const int outside[] = { -1, 20, 100, 255, 256, 257, 1000, INT32_MAX };
	int (*const query[3])(struct fid_ep *, enum fi_datatype, enum fi_op, size_t *) = {
		fi_atomicvalid, fi_fetch_atomicvalid, fi_compare_atomicvalid,
	};
	const size_t outsiders = sizeof(outside) / sizeof(outside[0]);
	int served = 0, kind, type, op, ret;
	size_t count, i, k;

	for (kind = 0; kind < 3; kind++) {
		for (type = 0; type < datatypes; type++) {
			for (op = 0; op < ops; op++) {
				count = 0;
				ret = query[kind](ep, (enum fi_datatype) type, (enum fi_op) op,
						  &count);
				if (ret == 0)
					CHECK(count > 0);
				else
					EQUAL(ret, -FI_EOPNOTSUPP);
				served += ret == 0;
			}
		}
		for (i = 0; i < outsiders; i++) {
			EQUAL(query[kind](ep, FI_INT64, (enum fi_op) outside[i], &count),
			      -FI_EOPNOTSUPP);
			for (k = 0; k < outsiders; k++)
				EQUAL(query[kind](ep, (enum fi_datatype) outside[k],
						  (enum fi_op) outside[i], &count),
				      -FI_EOPNOTSUPP);
		}
	}
	return served;
}
