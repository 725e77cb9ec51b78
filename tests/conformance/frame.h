/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a conformance case sees: its side of a pair, ways to post and to wait, and checks.
 *
 * A case is one function that both sides run, told apart by `role`. The sides are two processes or
 * two threads of one process; a case does not know which. All they share is the fabric under test
 * and a channel for `barrier` and `swap`.
 */
#ifndef CONFORMANCE_FRAME_H
#define CONFORMANCE_FRAME_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* Room of the two buffers of a side, and the largest message of the cases. */
#define ARENA		((size_t) 4 << 20)
#define CONTEXTS	64

/* How the objects of a side are opened. Zero is what programs usually ask for. */
struct wish {
	uint64_t		caps;
	uint64_t		order;		/* of transmits and receives */
	uint64_t		tx_flags;	/* default flags of operations */
	uint64_t		bind_flags;	/* besides the directions of the queues */
	int			mr_mode;
	enum fi_threading	threading;
	enum fi_progress	progress;
	enum fi_av_type		av_type;
	enum fi_cq_format	format;
	enum fi_wait_obj	wait;
	size_t			cq_size;
	uint32_t		api;		/* of fi_getinfo; zero is that of the headers */
};

struct side {
	int			role;		/* 0 or 1 */
	int			channel;	/* to the other side */
	enum fi_ep_type		type;
	struct wish		wish;
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_eq		*eq;		/* connected endpoints only */
	struct fid_av		*av;		/* endpoints with addresses only */
	struct fid_cq		*tx, *rx;
	struct fid_ep		*ep;
	fi_addr_t		peer, self;	/* FI_ADDR_UNSPEC if there are no addresses */
	/* Buffers of ARENA bytes, registered where the domain wants that of local memory. */
	unsigned char		*out, *in;
	struct fid_mr		*out_mr, *in_mr;
	void			*out_desc, *in_desc;
	size_t			largest;	/* message: ARENA, or the endpoint's limit */
	struct fi_context2	ctx[CONTEXTS];
};

/* A completion, as far as the queue's format tells; the rest has these values. */
#define NOT_TOLD	0xdedededededededeull
struct done {
	void		*context;
	uint64_t	flags;
	size_t		len;
	void		*buf;
	uint64_t	data;
	uint64_t	tag;
	fi_addr_t	source;
};

/* A region of the other side. */
struct region {
	uint64_t	addr, key;
};

/*
 * Opening and closing. `side_open` does all; the parts are for cases that look at the way there.
 */
void side_open(struct side *s);
void side_info(struct side *s);		/* fi_getinfo by the wish */
void side_objects(struct side *s);	/* fabric to endpoint, bound, not enabled */
void side_connect(struct side *s);	/* enables, and makes the sides known to each other */
void side_buffers(struct side *s);
void side_close(struct side *s);
struct fi_info *wished_hints(const struct side *s);
/* fi_getinfo at this version of the interface (zero: the newest), at the node of the command line. */
int ask(uint32_t api, const struct fi_info *hints, struct fi_info **info);

/* The own address and one of the other side's making. */
size_t side_name(struct side *s, void *name, size_t room);

/* Both sides get on when both are here; progress is driven meanwhile if there is an endpoint. */
void barrier(struct side *s);
/* The same, and each gets the other's bytes. */
void swap(struct side *s, const void *mine, void *theirs, size_t size);

/* One round of progress of both queues. */
void progress(struct side *s);

/* Registration as the domain's mr_mode demands, enabled. */
struct fid_mr *side_register(struct side *s, void *buf, size_t len, uint64_t access, uint64_t key);
/* Tells the other side of a region, and hears of its own. */
struct region swap_regions(struct side *s, struct fid_mr *mr, const void *buf);

double now(void);
double cpu_time(void);
int open_fds(void);
long resident_kib(void);

unsigned char pattern(size_t seed, size_t at);
void fill(void *buf, size_t len, size_t seed);

/* The next entry of a queue, which must be a success. */
void completion_at(const char *at, struct side *s, struct fid_cq *cq, struct done *done);
/* The next must be an error of this reason for this operation. */
void error_at(const char *at, struct side *s, struct fid_cq *cq, int reason, void *context,
	      struct fi_cq_err_entry *err);
/* The next must be this operation's, with these flags and this length. */
void finished_at(const char *at, struct side *s, struct fid_cq *cq, void *context,
		 uint64_t flags, size_t len, struct done *done);
/* Nothing completes in some rounds of progress. */
void quiet_at(const char *at, struct side *s, struct fid_cq *cq);
/* The counter gets to this value, and not further. */
void counted_at(const char *at, struct side *s, struct fid_cntr *cntr, uint64_t value);

/* Which side this thread is, for messages and for the choice of its node. */
extern __thread const char *side_title;
extern __thread int side_role;

void fail_at(const char *at, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/* Ends the instance, which cannot be done: what it needs is offered by no attribute, but by a call. */
void not_offered(void) __attribute__((noreturn));
#define EXIT_NOT_OFFERED	77
void equal_at(const char *at, const char *what, long long found, long long expected);
void result_at(const char *at, const char *call, long long result);
void filled_at(const char *at, const void *buf, size_t len, size_t seed);
void late_at(const char *at, double *deadline, const char *what);

#define STRING_(x)	#x
#define STRING(x)	STRING_(x)
#define HERE		__FILE__ ":" STRING(__LINE__)

#define FAIL(...)	fail_at(HERE, __VA_ARGS__)
#define CHECK(what)	do { if (!(what)) FAIL("not true: %s", #what); } while (0)
#define EQUAL(found, expected) \
	equal_at(HERE, #found, (long long) (found), (long long) (expected))
#define OK(call)	result_at(HERE, #call, (long long) (call))
#define FILLED(buf, len, seed)		filled_at(HERE, buf, len, seed)
#define COMPLETION(s, cq, done)		completion_at(HERE, s, cq, done)
#define ERROR(s, cq, reason, context, err)	error_at(HERE, s, cq, reason, context, err)
#define FINISHED(s, cq, context, flags, len) \
	do { struct done done_; \
	     finished_at(HERE, s, cq, context, flags, len, &done_); } while (0)
#define QUIET(s, cq)			quiet_at(HERE, s, cq)
#define COUNTED(s, cntr, value)		counted_at(HERE, s, cntr, value)
/* A member of a completion, where the format tells it. */
#define TOLD(s, member, least, found, expected) \
	do { if ((s)->wish.format >= (least)) EQUAL((found)->member, expected); } while (0)

/* A data call, repeated with progress while there is no room. */
#define POST(s, call) \
	do { \
		ssize_t posted_; \
		double late_ = 0; \
		while ((posted_ = (call)) == -FI_EAGAIN) { \
			progress(s); \
			late_at(HERE, &late_, #call); \
		} \
		result_at(HERE, #call, posted_); \
	} while (0)

/* What may vary around a case: it runs once as it is and once with each other value. */
#define VARY_AV		0x01u	/* address vector: map, table */
#define VARY_FORMAT	0x02u	/* of queue entries */
#define VARY_MR		0x04u	/* memory registration modes */
#define VARY_THREADING	0x08u
#define VARY_PROGRESS	0x10u
#define VARY_WAIT	0x20u	/* wait object of the queues */
#define VARY_API	0x40u	/* version asked of fi_getinfo */

#define EP_RDM		(1u << FI_EP_RDM)
#define EP_MSG		(1u << FI_EP_MSG)
#define EP_DGRAM	(1u << FI_EP_DGRAM)
#define EP_RELIABLE	(EP_RDM | EP_MSG)
#define EP_NAMED	(EP_RDM | EP_DGRAM)	/* with address vectors */
#define EP_ANY		(EP_RELIABLE | EP_DGRAM)

struct conformance_case {
	const char	*name;
	const char	*page;	/* of the manual, with its section */
	const char	*rule;	/* what it demands, in one sentence */
	uint64_t	caps;	/* what it needs; a provider without is not asked */
	unsigned	types;	/* of endpoints */
	unsigned	vary;
	int		closed;	/* the case opens (and closes) its objects by itself */
	void		(*wish)(struct wish *);	/* what it needs besides, or NULL */
	void		(*run)(struct side *);
};

struct conformance_group {
	const char			*name;
	const struct conformance_case	*cases;
	size_t				count;
};

#define GROUP(group) \
	const struct conformance_group group##_group = { \
		#group, group##_cases, sizeof(group##_cases) / sizeof(group##_cases[0]) \
	}

#endif
