/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What server and client of the remote procedure calls share: the endpoint, opened with the
 * hints of storage systems; how it sleeps; what is said between the two.
 *
 * A request is an unexpected message: its tag travels as remote CQ data, and the address of
 * its sender at its front.  An answer is an expected one: a tagged message to a receive that
 * was posted before the request.  Bulk data is moved by the server alone, which reads and
 * writes the memory that a request names.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../pair.h"

#include <sys/epoll.h>
#include <sys/prctl.h>

#define RPC_VERSION	FI_VERSION(1, 20)
#define RPC_CAPS	(FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_MULTI_RECV)
#define REQUEST_ROOM	((size_t) 4096)
#define BULK_ROOM	((size_t) 256 << 10)

enum {
	CQ_SIZE = 131072, BATCH = 16,
	NAME_ROOM = 128,
	PIECES = 4,
	/* Milliseconds in which something that was started must have ended. */
	PATIENCE = 20000,
	/* The longest run of all. */
	DEADLINE_SECONDS = 900,
};

enum procedure { ECHO, FETCH, STORE, GOODBYE, STOP, PROCEDURES };

struct piece {
	uint64_t	addr, key, len;
};

struct request {
	char		name[NAME_ROOM];	/* of the sender, as fi_getname gave it */
	uint32_t	name_len;
	uint32_t	procedure;
	uint64_t	seed;			/* of the patterns in all payloads */
	uint32_t	payload;		/* bytes behind this */
	uint32_t	answer;			/* bytes wanted behind the response */
	uint32_t	pieces;
	struct piece	piece[PIECES];
};

struct response {
	uint64_t	seed;
	uint64_t	moved;			/* bytes of bulk data */
};

/* An operation's context; it completes exactly once. */
struct op {
	struct fi_context2	context;
	int			pending;
	uint64_t		since;		/* milliseconds */
};

struct endpoint {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;
	struct fid_cq		*cq;
	struct fid_ep		*ep;
	int			wait_fd, epoll_fd;
	char			name[NAME_ROOM];
	size_t			name_len;
	uint64_t		next_key;
	unsigned long		posted, completed, slept;
	/* The end of an operation: the entry, or the error. */
	void			(*ended)(struct op *, const struct fi_cq_tagged_entry *,
					 const struct fi_cq_err_entry *);
};

static inline uint64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* Ends with its parent, and by itself at the latest. */
static inline void deadline(unsigned int seconds)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	alarm(seconds);
}

static inline int over_shm(const char *provider)
{
	return !strcmp(provider, "shm");
}

static inline struct fi_info *find_provider(const char *provider, const char *node,
					    const char *service, size_t size)
{
	const uint64_t flags = node || service ? FI_SOURCE | FI_NUMERICHOST : 0;
	struct fi_info *hints = fi_allocinfo(), *info = NULL, *each;

	CHECK(hints);
	hints->caps = RPC_CAPS;
	hints->mode = FI_ASYNC_IOV | FI_CONTEXT | FI_CONTEXT2;
	hints->addr_format = over_shm(provider) ? FI_ADDR_STR : FI_SOCKADDR_IN;
	hints->ep_attr->type = FI_EP_RDM;
	hints->ep_attr->protocol = over_shm(provider) ? FI_PROTO_SHM :
		strstr(provider, "ofi_rxm") ? FI_PROTO_RXM : FI_PROTO_XNET;
	hints->tx_attr->op_flags = FI_INJECT_COMPLETE;
	hints->tx_attr->size = size;
	hints->rx_attr->size = size;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
				      FI_MR_LOCAL | FI_MR_ENDPOINT;
	hints->fabric_attr->prov_name = strdup(provider);
	OK(fi_getinfo(RPC_VERSION, node, service, flags, hints, &info));
	for (each = info; each; each = each->next) {
		EQUAL(strcmp(each->fabric_attr->prov_name, provider), 0);
		EQUAL(each->addr_format, hints->addr_format);
		EQUAL(each->caps & RPC_CAPS, RPC_CAPS);
		EQUAL(each->domain_attr->threading, FI_THREAD_DOMAIN);
		CHECK(each->domain_attr->cq_data_size >= 4);
		CHECK(each->tx_attr->size >= size && each->rx_attr->size >= size);
	}
	fi_freeinfo(hints);
	return info;
}

static inline void open_endpoint(struct endpoint *e, const char *provider, const char *node,
				 const char *service, size_t size)
{
	struct fi_cq_attr cq = { .size = CQ_SIZE, .format = FI_CQ_FORMAT_TAGGED,
				 .wait_obj = FI_WAIT_FD, .wait_cond = FI_CQ_COND_NONE };
	struct fi_av_attr av = { .type = FI_AV_UNSPEC };
	struct epoll_event readable = { .events = EPOLLIN };
	size_t least = 0, length = sizeof(least);
	fi_addr_t self = FI_ADDR_UNSPEC;

	e->info = find_provider(provider, node, service, size);
	OK(fi_fabric(e->info->fabric_attr, &e->fabric, NULL));
	OK(fi_domain(e->fabric, e->info, &e->domain, NULL));
	OK(fi_av_open(e->domain, &av, &e->av, NULL));
	OK(fi_cq_open(e->domain, &cq, &e->cq, NULL));
	OK(fi_endpoint(e->domain, e->info, &e->ep, NULL));
	OK(fi_ep_bind(e->ep, &e->av->fid, 0));
	OK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_getopt(&e->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &length));
	EQUAL(length, sizeof(least));
	least = REQUEST_ROOM;
	OK(fi_setopt(&e->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, length));
	OK(fi_enable(e->ep));
	e->name_len = sizeof(e->name);
	OK(fi_getname(&e->ep->fid, e->name, &e->name_len));
	EQUAL(fi_av_insert(e->av, e->name, 1, &self, 0, NULL), 1);
	OK(fi_control(&e->cq->fid, FI_GETWAIT, &e->wait_fd));
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	CHECK(e->epoll_fd >= 0);
	EQUAL(epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, e->wait_fd, &readable), 0);
}

/* Everything that was started has ended. */
static inline void close_endpoint(struct endpoint *e)
{
	struct fi_cq_tagged_entry entry;
	int fd = -1;

	EQUAL(fi_cq_read(e->cq, &entry, 1), -FI_EAGAIN);
	EQUAL(e->completed, e->posted);
	OK(fi_control(&e->cq->fid, FI_GETWAIT, &fd));
	EQUAL(fd, e->wait_fd);
	close(e->epoll_fd);
	OK(fi_close(&e->ep->fid));
	OK(fi_close(&e->cq->fid));
	OK(fi_close(&e->av->fid));
	OK(fi_close(&e->domain->fid));
	OK(fi_close(&e->fabric->fid));
	fi_freeinfo(e->info);
}

/* The books of an operation; a post that was refused has none. */
static inline ssize_t started(struct endpoint *e, struct op *op, ssize_t posted)
{
	if (posted == 0) {
		CHECK(!op->pending);
		op->pending = 1;
		op->since = milliseconds();
		e->posted++;
	}
	return posted;
}

static inline void finished(struct endpoint *e, struct op *op)
{
	op->pending = 0;
	e->completed++;
}

/* Whether this is what the end of a peer looks like. */
static inline int is_loss(int err)
{
	switch (err) {
	case FI_ECANCELED: case FI_ENOTCONN: case FI_ECONNREFUSED: case FI_ECONNRESET:
	case FI_ECONNABORTED: case FI_ESHUTDOWN: case FI_EHOSTUNREACH: case FI_EIO:
	case FI_ETIMEDOUT:
		return 1;
	default:
		return 0;
	}
}

/* Whether an entry is the last of its operation: of a buffer for many messages, it says so. */
static inline int is_last(const struct op *op, uint64_t flags)
{
	CHECK(op && op->pending == 1);
	return (flags & FI_MULTI_RECV) || !(flags & FI_RECV) || (flags & FI_TAGGED);
}

/* Handles one batch of completions; returns their number. */
static inline int handle_completions(struct endpoint *e)
{
	struct fi_cq_tagged_entry entries[BATCH];
	struct fi_cq_err_entry err = { .err_data_size = 0 };
	fi_addr_t sources[BATCH];
	ssize_t count, i;

	count = fi_cq_readfrom(e->cq, entries, BATCH, sources);
	if (count == -FI_EAGAIN)
		return 0;
	if (count == -FI_EAVAIL) {
		EQUAL(fi_cq_readerr(e->cq, &err, 0), 1);
		CHECK(err.err > 0);
		if (is_last(err.op_context, err.flags))
			finished(e, err.op_context);
		e->ended(err.op_context, NULL, &err);
		return 1;
	}
	CHECK(count > 0 && count <= BATCH);
	for (i = 0; i < count; i++) {
		if (is_last(entries[i].op_context, entries[i].flags))
			finished(e, entries[i].op_context);
		e->ended(entries[i].op_context, &entries[i], NULL);
	}
	return (int) count;
}

/* Sleeps until there is something to do, as long as the queue allows to sleep. */
static inline void sleep_until_ready(struct endpoint *e, int timeout)
{
	struct fid *fids[1] = { &e->cq->fid };
	struct epoll_event event;
	const int may_sleep = fi_trywait(e->fabric, fids, 1);

	if (may_sleep == -FI_EAGAIN)
		return;
	EQUAL(may_sleep, 0);
	e->slept++;
	if (epoll_wait(e->epoll_fd, &event, 1, timeout) < 0)
		EQUAL(errno, EINTR);
}

static inline struct fid_mr *registered(struct endpoint *e, void *memory, size_t size,
					uint64_t access)
{
	const int mode = e->info->domain_attr->mr_mode;
	struct iovec iov = { .iov_base = memory, .iov_len = size };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = access };
	struct fid_mr *mr = NULL;

	if (!(mode & FI_MR_PROV_KEY))
		attr.requested_key = ++e->next_key;
	OK(fi_mr_regattr(e->domain, &attr, 0, &mr));
	if (mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(mr, &e->ep->fid, 0));
		OK(fi_mr_enable(mr));
	}
	CHECK(fi_mr_key(mr) != FI_KEY_NOTAVAIL);
	return mr;
}
