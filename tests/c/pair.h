/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two processes with an endpoint each, that know each other's address.
 *
 * What fails is printed with its place, and the process ends with exit code 1.  A process
 * that does not get on is ended by its alarm after DEADLINE seconds.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define DEADLINE	60
/* Programs may name others before they include this. */
#ifndef PROVIDER
#define PROVIDER	"shm"
#endif
#ifndef NODE		/* own address, for providers that listen at one */
#define NODE		NULL
#endif
#ifndef CAPS
#define CAPS		(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | \
			 FI_DIRECTED_RECV | FI_MULTI_RECV | FI_RMA_EVENT)
#endif

static int role;		/* 0 or 1 */
static int channel = -1;	/* to the other process */

static inline void fail_at(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4), noreturn));

static inline void fail_at(const char *file, int line, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s:%d: process %d: ", file, line, role);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	fflush(stderr);
	_exit(1);
}

static inline void check_equal(const char *file, int line, const char *what, long long found,
			       long long expected)
{
	if (found != expected)
		fail_at(file, line, "%s is %lld (0x%llx), expected %lld (0x%llx)", what,
			found, found, expected, expected);
}

static inline void check_result(const char *file, int line, const char *call, long long result)
{
	if (result)
		fail_at(file, line, "%s returned %lld (%s)", call, result,
			fi_strerror((int) -result));
}

#define FAIL(...)	fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(what) \
	do { if (!(what)) FAIL("not true: %s", #what); } while (0)
#define EQUAL(found, expected) \
	check_equal(__FILE__, __LINE__, #found, (long long) (found), (long long) (expected))
#define OK(call)	check_result(__FILE__, __LINE__, #call, (long long) (call))

/* The objects of one process. */
struct node {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_domain	*domain;
	struct fid_av		*av;
	struct fid_cq		*tx, *rx;
	struct fid_ep		*ep;
	fi_addr_t		peer, self;
};

/* How they are opened; zero is usual. */
struct wish {
	uint64_t		bind_flags;	/* added to the directions of the queues */
	enum fi_wait_obj	wait;
	int			mr_mode;
	uint64_t		order;		/* of transmits */
};

/* Splits the process; to be called before anything else. */
static inline void split(void)
{
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		FAIL("socketpair: %s", strerror(errno));
	child = fork();
	if (child < 0)
		FAIL("fork: %s", strerror(errno));
	role = child == 0;
	channel = ends[role];
	close(ends[!role]);
	signal(SIGPIPE, SIG_IGN);
	alarm(DEADLINE);
}

/* The two ends of a TCP connection instead: 0 listens at a port of this host, 1 connects to it. */
static inline void meet(int which, int port)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t) port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const struct timespec moment = { .tv_nsec = 10000000 };
	int on = 1, listener;

	role = which;
	signal(SIGPIPE, SIG_IGN);
	alarm(DEADLINE);
	if (role == 1) {
		for (;;) {
			channel = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
			if (!connect(channel, (const void *) &address, sizeof(address)))
				return;
			close(channel);
			nanosleep(&moment, NULL);
		}
	}
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(listener, (const void *) &address, sizeof(address)) || listen(listener, 1))
		FAIL("port %d: %s", port, strerror(errno));
	channel = accept(listener, NULL, NULL);
	if (channel < 0)
		FAIL("accept: %s", strerror(errno));
	close(listener);
}

/* Waits for the other process; returns the exit code of the program. */
static inline int join(void)
{
	int status;

	if (role == 1)
		return 0;
	if (wait(&status) < 0)
		FAIL("wait: %s", strerror(errno));
	if (WIFSIGNALED(status))
		FAIL("the other process was ended by signal %d", WTERMSIG(status));
	EQUAL(WEXITSTATUS(status), 0);
	return 0;
}

/* Lets both endpoints move on, on machines with one processor too. */
static inline void progress(struct node *n)
{
	ssize_t ret;

	ret = fi_cq_read(n->tx, NULL, 0);
	if (ret != 0 && ret != -FI_EAGAIN)
		FAIL("progress: %s", fi_strerror((int) -ret));
	ret = fi_cq_read(n->rx, NULL, 0);
	if (ret != 0 && ret != -FI_EAGAIN)
		FAIL("progress: %s", fi_strerror((int) -ret));
	if (ret)
		sched_yield();
}

/* Sends bytes to the other process and takes as many of its own, driving progress (if n). */
static inline void swap(struct node *n, const void *mine, void *theirs, size_t size)
{
	size_t done = 0;
	ssize_t ret;

	if (write(channel, mine, size) != (ssize_t) size)
		FAIL("the other process has ended");
	while (done < size) {
		ret = recv(channel, (char *) theirs + done, size - done, n ? MSG_DONTWAIT : 0);
		if (ret == 0 || (ret < 0 && errno == ECONNRESET))
			FAIL("the other process has ended");
		if (ret > 0)
			done += (size_t) ret;
		else if (errno != EAGAIN && errno != EINTR)
			FAIL("recv: %s", strerror(errno));
		if (n)
			progress(n);
	}
}

/* Returns when both processes are here. */
static inline void barrier(struct node *n)
{
	char mine = 'b', theirs = 0;

	swap(n, &mine, &theirs, 1);
	EQUAL(theirs, 'b');
}

static inline struct fi_info *get_info(const struct wish *wish)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	CHECK(hints);
	hints->caps = CAPS;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = wish->mr_mode;
	hints->tx_attr->msg_order = wish->order;
	hints->fabric_attr->prov_name = strdup(PROVIDER);
	OK(fi_getinfo(FI_VERSION(2, 0), NODE, NULL, NODE ? FI_SOURCE : 0, hints, &info));
	CHECK(info);
	EQUAL(info->caps & CAPS, CAPS);
	fi_freeinfo(hints);
	return info;
}

/* Opens everything; FI_MR_* of the hints decide how remote memory is addressed. */
static inline void open_node(struct node *n, const struct wish *wish)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = wish->wait };
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	n->info = get_info(wish);
	OK(fi_fabric(n->info->fabric_attr, &n->fabric, NULL));
	OK(fi_domain(n->fabric, n->info, &n->domain, NULL));
	OK(fi_av_open(n->domain, &av, &n->av, NULL));
	OK(fi_cq_open(n->domain, &cq, &n->tx, NULL));
	OK(fi_cq_open(n->domain, &cq, &n->rx, NULL));
	OK(fi_endpoint(n->domain, n->info, &n->ep, NULL));
	OK(fi_ep_bind(n->ep, &n->av->fid, 0));
	OK(fi_ep_bind(n->ep, &n->tx->fid, FI_TRANSMIT | wish->bind_flags));
	OK(fi_ep_bind(n->ep, &n->rx->fid, FI_RECV | wish->bind_flags));
}

/* Enables the endpoint and exchanges addresses, by name. */
static inline void connect_node(struct node *n)
{
	char mine[256] = "", theirs[256] = "";
	size_t length = 0;

	OK(fi_enable(n->ep));
	EQUAL(fi_getname(&n->ep->fid, NULL, &length), -FI_ETOOSMALL);
	CHECK(length > 1 && length <= sizeof(mine));
	OK(fi_getname(&n->ep->fid, mine, &length));
	swap(NULL, mine, theirs, sizeof(mine));
	EQUAL(fi_av_insert(n->av, theirs, 1, &n->peer, 0, NULL), 1);
	EQUAL(fi_av_insert(n->av, mine, 1, &n->self, 0, NULL), 1);
	CHECK(n->peer != n->self);
}

static inline void close_node(struct node *n)
{
	EQUAL(fi_close(&n->domain->fid), -FI_EBUSY);
	EQUAL(fi_close(&n->av->fid), -FI_EBUSY);
	EQUAL(fi_close(&n->tx->fid), -FI_EBUSY);
	OK(fi_close(&n->ep->fid));
	OK(fi_close(&n->tx->fid));
	OK(fi_close(&n->rx->fid));
	OK(fi_close(&n->av->fid));
	OK(fi_close(&n->domain->fid));
	OK(fi_close(&n->fabric->fid));
	fi_freeinfo(n->info);
	memset(n, 0, sizeof(*n));
}

static inline void fail_with_error(const char *file, int line, struct fid_cq *cq)
	__attribute__((noreturn));

static inline void fail_with_error(const char *file, int line, struct fid_cq *cq)
{
	struct fi_cq_err_entry err;

	memset(&err, 0, sizeof(err));
	if (fi_cq_readerr(cq, &err, 0) != 1)
		fail_at(file, line, "an error was announced, but there is none");
	fail_at(file, line, "completion with error %d (%s), flags 0x%" PRIx64 ", context %p",
		err.err, fi_strerror(err.err), err.flags, err.op_context);
}

/* Waits for the next completion; returns its source. */
static inline fi_addr_t completion_at(const char *file, int line, struct node *n,
				      struct fid_cq *cq, struct fi_cq_tagged_entry *entry)
{
	fi_addr_t source = 12345;
	ssize_t ret;

	do {
		progress(n);
		ret = fi_cq_readfrom(cq, entry, 1, &source);
	} while (ret == -FI_EAGAIN);
	if (ret == -FI_EAVAIL)
		fail_with_error(file, line, cq);
	if (ret != 1)
		fail_at(file, line, "fi_cq_readfrom returned %zd", ret);
	return source;
}

/* Waits for a completion with this context. */
static inline void finished_at(const char *file, int line, struct node *n, struct fid_cq *cq,
			       void *context)
{
	struct fi_cq_tagged_entry entry;

	completion_at(file, line, n, cq, &entry);
	if (entry.op_context != context)
		fail_at(file, line, "completion of %p, expected %p", entry.op_context, context);
}

/* Waits for an error entry with this reason and context. */
static inline void error_at(const char *file, int line, struct node *n, struct fid_cq *cq,
			    int reason, void *context, struct fi_cq_err_entry *err)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	do {
		progress(n);
		ret = fi_cq_read(cq, &entry, 1);
	} while (ret == -FI_EAGAIN);
	if (ret != -FI_EAVAIL)
		fail_at(file, line, "fi_cq_read returned %zd, expected an error", ret);
	memset(err, 0, sizeof(*err));
	if (fi_cq_readerr(cq, err, 0) != 1)
		fail_at(file, line, "an error was announced, but there is none");
	if (err->err != reason || err->op_context != context)
		fail_at(file, line, "error %d (%s) of %p, expected %d (%s) of %p", err->err,
			fi_strerror(err->err), err->op_context, reason, fi_strerror(reason),
			context);
}

/* Checks that nothing completes, with some rounds of progress. */
static inline void quiet_at(const char *file, int line, struct node *n, struct fid_cq *cq)
{
	struct fi_cq_tagged_entry entry;
	int i;

	for (i = 0; i < 200; i++) {
		progress(n);
		if (fi_cq_read(cq, &entry, 1) != -FI_EAGAIN)
			fail_at(file, line, "a completion that nobody asked for, flags 0x%" PRIx64,
				entry.flags);
	}
}

#define COMPLETION(n, cq, entry)	completion_at(__FILE__, __LINE__, n, cq, entry)
#define FINISHED(n, cq, context)	finished_at(__FILE__, __LINE__, n, cq, context)
#define ERROR(n, cq, reason, context, err) \
	error_at(__FILE__, __LINE__, n, cq, reason, context, err)
#define QUIET(n, cq)			quiet_at(__FILE__, __LINE__, n, cq)

/* Repeats a post while there is no room. */
#define POST(n, call) \
	do { \
		ssize_t posted_; \
		while ((posted_ = (call)) == -FI_EAGAIN) \
			progress(n); \
		check_result(__FILE__, __LINE__, #call, posted_); \
	} while (0)

static inline unsigned char pattern(size_t seed, size_t at)
{
	return (unsigned char) (seed * 31 + at * 7 + (at >> 8) * 13);
}

static inline void fill(void *buffer, size_t size, size_t seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		((unsigned char *) buffer)[i] = pattern(seed, i);
}

static inline void check_fill_at(const char *file, int line, const void *buffer, size_t size,
				 size_t seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (((const unsigned char *) buffer)[i] != pattern(seed, i))
			fail_at(file, line, "byte %zu of %zu is %u, expected %u", i, size,
				((const unsigned char *) buffer)[i], pattern(seed, i));
}

#define CHECK_FILL(buffer, size, seed)	check_fill_at(__FILE__, __LINE__, buffer, size, seed)
