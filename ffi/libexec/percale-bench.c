/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One end of what `percale bench --vs` measures, on a libfabric of choice:
 *
 *	percale-bench LIBRARY client|server PROVIDER|- [PROCESSOR]
 *
 * It does what the lines of its standard input say; percale/src/cli/bench/words.rs has the language.
 * The library is opened and not linked with, so that two of them can be measured by one program.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#define MEMORY		((size_t) 1 << 26)
#define MAX_WINDOW	4096
#define MAX_COUNT	((size_t) 1 << 20)
#define MAX_LINE	4096
#define NAME_MAX_LEN	256
#define ENTRIES		64
#define SMALL		((size_t) 8)
#define KEY		0x5eed
#define DUTIES		(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/* Areas of the memory: what the other end reaches, what is sent, and where it is received. */
enum area { SHARED, OUT, IN, AREAS };

/* What a peer's memory is named by, as it travels in hexadecimal. */
struct remote {
	uint64_t	base, key, len;
};

/* What was opened of the library. */
static struct {
	int		(*getinfo)(uint32_t version, const char *node, const char *service,
				   uint64_t flags, const struct fi_info *hints,
				   struct fi_info **info);
	struct fi_info	*(*dupinfo)(const struct fi_info *info);
	int		(*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
				  void *context);
	uint32_t	(*version)(void);
	const char	*(*strerror)(int errnum);
} lib;

static struct fi_info *info;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep;
static struct fid_mr *regions[AREAS];
static char *areas[AREAS];
static fi_addr_t peer;
static struct remote remote;
static double *nanos;
/* Of what was posted and has not ended, and by whose contexts that is told. */
static size_t pending[2];
static struct fi_context2 contexts[2][MAX_WINDOW];

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The conductor gets the reason. */
static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("failed ", stdout);
	vprintf(format, args);
	putchar('\n');
	fflush(stdout);
	va_end(args);
	exit(1);
}

static void check(const char *call, long result)
{
	if (result < 0)
		fail("%s: %s", call, lib.strerror((int) -result));
}

#define OK(call)	check(#call, (long) (call))

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

static void *symbol(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	if (!found)
		fail("%s: %s", name, dlerror());
	return found;
}

static void open_library(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fail("%s", dlerror());
	lib.getinfo = symbol(handle, "fi_getinfo");
	lib.dupinfo = symbol(handle, "fi_dupinfo");
	lib.fabric = symbol(handle, "fi_fabric");
	lib.version = symbol(handle, "fi_version");
	lib.strerror = symbol(handle, "fi_strerror");
}

/* The first offer with these capabilities, of the provider itself where `is_exact`: its name takes
 * layers over it, too. */
static struct fi_info *offer(const char *provider, uint64_t caps, int is_exact)
{
	struct fi_info *hints = lib.dupinfo(NULL), *found;

	if (!hints)
		fail("no memory");
	hints->caps = caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->mr_mode = DUTIES;
	hints->fabric_attr->prov_name = strcmp(provider, "-") ? strdup(provider) : NULL;
	if (lib.getinfo(FI_VERSION(1, 15), NULL, NULL, 0, hints, &found))
		return NULL;
	while (found && is_exact && strcmp(found->fabric_attr->prov_name, provider))
		found = found->next;
	return found;
}

/* The offer with most of what can be measured. */
static void choose(const char *provider)
{
	static const uint64_t ladder[] = {
		FI_MSG | FI_RMA | FI_ATOMIC, FI_MSG | FI_RMA, FI_MSG,
	};

	for (int is_exact = 1; is_exact >= 0; is_exact--)
		for (size_t i = 0; i < sizeof(ladder) / sizeof(*ladder); i++) {
			info = offer(provider, ladder[i], is_exact);
			if (info)
				return;
		}
	fail("no offer of %s", strcmp(provider, "-") ? provider : "any provider");
}

static void open_memory(void)
{
	static const uint64_t access[AREAS] = {
		[SHARED] = FI_REMOTE_READ | FI_REMOTE_WRITE,
		[OUT] = FI_SEND | FI_WRITE | FI_READ,
		[IN] = FI_RECV | FI_READ,
	};
	const int is_local = !!(info->domain_attr->mr_mode & FI_MR_LOCAL);

	for (int i = 0; i < AREAS; i++) {
		areas[i] = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (areas[i] == MAP_FAILED)
			fail("no memory");
		memset(areas[i], i == OUT ? 0x55 : 0, MEMORY);
		if (i == SHARED ? !(info->caps & FI_RMA) : !is_local)
			continue;
		OK(fi_mr_reg(domain, areas[i], MEMORY, access[i], 0, KEY + (uint64_t) i, 0,
			     &regions[i], NULL));
	}
	nanos = malloc(MAX_COUNT * sizeof(*nanos));
	if (!nanos)
		fail("no memory");
}

static void *desc(enum area area)
{
	return area != SHARED && regions[area] ? fi_mr_desc(regions[area]) : NULL;
}

static void open_endpoint(void)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT, .size = 2 * MAX_WINDOW };
	struct fid_fabric *fabric;

	OK(lib.fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_av_open(domain, &av_attr, &av, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	OK(fi_endpoint(domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
}

static void print_hex(const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		printf("%02x", ((const unsigned char *) bytes)[i]);
}

static size_t read_hex(const char *text, void *bytes, size_t room)
{
	size_t len = 0;
	unsigned int byte;

	for (; len < room && sscanf(text, "%2x", &byte) == 1; text += 2)
		((unsigned char *) bytes)[len++] = (unsigned char) byte;
	return len;
}

static void introduce(void)
{
	char name[NAME_MAX_LEN];
	size_t len = sizeof(name);
	const uint32_t version = lib.version();

	OK(fi_getname(&ep->fid, name, &len));
	printf("ready provider=%s version=%u.%u address=", info->fabric_attr->prov_name,
	       FI_MAJOR(version), FI_MINOR(version));
	print_hex(name, len);
	if (regions[SHARED]) {
		const int is_virtual = !!(info->domain_attr->mr_mode & FI_MR_VIRT_ADDR);
		const struct remote own = {
			.base = is_virtual ? (uint64_t) (uintptr_t) areas[SHARED] : 0,
			.key = fi_mr_key(regions[SHARED]),
			.len = MEMORY,
		};

		printf(" remote=");
		print_hex(&own, sizeof(own));
	}
	printf(" atomics=%d\n", !!(info->caps & FI_ATOMIC));
	fflush(stdout);
}

static void meet(const char *line)
{
	const char *address = strstr(line, "address="), *memory = strstr(line, "remote=");
	char name[NAME_MAX_LEN] = "";

	if (!address || !memory)
		fail("not understood: %s", line);
	read_hex(address + strlen("address="), name, sizeof(name));
	read_hex(memory + strlen("remote="), &remote, sizeof(remote));
	if (fi_av_insert(av, name, 1, &peer, 0, NULL) != 1)
		fail("the peer's address is refused");
	puts("met");
	fflush(stdout);
}

/* Takes what has completed. */
static void reap(void)
{
	struct fi_cq_entry entries[ENTRIES];
	struct fi_cq_err_entry error = { 0 };
	const ssize_t n = fi_cq_read(cq, entries, ENTRIES);

	if (n == -FI_EAGAIN)
		return;
	if (n < 0) {
		fi_cq_readerr(cq, &error, 0);
		fail("completion: %s", lib.strerror(error.err ? error.err : (int) -n));
	}
	for (ssize_t i = 0; i < n; i++)
		pending[(struct fi_context2 *) entries[i].op_context >= contexts[1]]--;
}

/* Whose completions are awaited: receives, or what was sent, written and read. */
enum { RECEIVES, OTHERS };

static void finish(int which)
{
	while (pending[which])
		reap();
}

#define POST(which, call) \
	do { \
		ssize_t posted; \
		while ((posted = (call)) == -FI_EAGAIN) \
			reap(); \
		check(#call, posted); \
		pending[which]++; \
	} while (0)

static void expect(size_t count, size_t size)
{
	for (size_t i = 0; i < count; i++)
		POST(RECEIVES, fi_recv(ep, areas[IN] + i * size, size, desc(IN), FI_ADDR_UNSPEC,
				       &contexts[RECEIVES][i]));
}

static void send_all(size_t count, size_t size)
{
	for (size_t i = 0; i < count; i++)
		POST(OTHERS, fi_send(ep, areas[OUT] + i * size, size, desc(OUT), peer,
				     &contexts[OTHERS][i]));
}

/* One operation of `kind` on the i-th place of the other end's memory. */
static void reach(const char *kind, size_t i, size_t size)
{
	char *at = areas[OUT] + i * size, *result = areas[IN] + i * size;
	const uint64_t addr = remote.base + i * size;
	const uint64_t flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	void *context = &contexts[OTHERS][i], *mr = desc(OUT);
	struct iovec iov = { at, size };
	struct fi_rma_iov rma_iov = { addr, size, remote.key };
	struct fi_msg_rma rma = {
		.msg_iov = &iov, .desc = &mr, .iov_count = 1, .addr = peer,
		.rma_iov = &rma_iov, .rma_iov_count = 1, .context = context,
	};
	struct fi_ioc ioc = { at, 1 };
	struct fi_rma_ioc rma_ioc = { addr, 1, remote.key };
	struct fi_msg_atomic atomic = {
		.msg_iov = &ioc, .desc = &mr, .iov_count = 1, .addr = peer, .rma_iov = &rma_ioc,
		.rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = context,
	};

	if (!strcmp(kind, "write"))
		POST(OTHERS, fi_writemsg(ep, &rma, flags));
	else if (!strcmp(kind, "read"))
		POST(OTHERS, fi_read(ep, result, size, desc(IN), peer, addr, remote.key, context));
	else if (!strcmp(kind, "add"))
		POST(OTHERS, fi_atomicmsg(ep, &atomic, flags));
	else
		POST(OTHERS, fi_fetch_atomic(ep, at, 1, mr, result, desc(IN), peer, addr, remote.key,
					     FI_UINT64, FI_SUM, context));
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

/* What was measured; `count` times of single operations, or none. */
static void tell(double seconds, size_t count)
{
	static const struct {
		const char	*name;
		double		part;
	} percentiles[] = {
		{ "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p999", 0.999 }, { "max", 1 },
	};

	qsort(nanos, count, sizeof(*nanos), compare);
	printf("done seconds=%.9f", seconds);
	for (size_t i = 0; i < sizeof(percentiles) / sizeof(*percentiles); i++) {
		const size_t at = count ? (size_t) ((double) (count - 1) * percentiles[i].part + 0.5)
					: 0;

		printf(" %s=%.1f", percentiles[i].name, count ? nanos[at] : 0.0);
	}
	putchar('\n');
	fflush(stdout);
}

static void ask(const char *kind, size_t size, size_t window, size_t count)
{
	const int is_latency = !strcmp(kind, "latency"), is_messages = !strcmp(kind, "messages");
	const int is_single = is_latency || (!is_messages && window == 1);
	const double begin = now();
	double last = begin, end;

	for (size_t i = 0; i < count; i++) {
		if (is_latency || is_messages) {
			expect(1, is_latency ? size : SMALL);
			send_all(window, size);
		} else {
			for (size_t place = 0; place < window; place++)
				reach(kind, place, size);
		}
		finish(OTHERS);
		finish(RECEIVES);
		if (is_single) {
			end = now();
			nanos[i] = (end - last) / (is_latency ? 2 : 1);
			last = end;
		}
	}
	end = now();
	if (!is_latency && !is_messages) {
		send_all(1, SMALL);
		finish(OTHERS);
	}
	tell((end - begin) / 1e9, is_single ? count : 0);
}

static void answer(const char *kind, size_t size, size_t window, size_t count)
{
	const int is_latency = !strcmp(kind, "latency");

	if (!is_latency && strcmp(kind, "messages")) {
		/* The other end reaches this one's memory until it says that it has finished. */
		expect(1, SMALL);
		finish(RECEIVES);
		tell(0, 0);
		return;
	}
	expect(window, size);
	for (size_t i = 0; i < count; i++) {
		finish(RECEIVES);
		/* There are places for the next window before the answer asks for it. */
		if (i + 1 < count)
			expect(window, size);
		send_all(1, is_latency ? size : SMALL);
		finish(OTHERS);
	}
	tell(0, 0);
}

int main(int argc, char **argv)
{
	char line[MAX_LINE], kind[16];
	size_t size, window, count;
	int is_server;

	if (argc < 4)
		fail("usage: percale-bench LIBRARY client|server PROVIDER|- [PROCESSOR]");
	is_server = !strcmp(argv[2], "server");
	/* While it waits for its peer it does not see that its input has ended. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc > 4) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET((size_t) atoi(argv[4]), &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	open_library(argv[1]);
	choose(argv[3]);
	open_endpoint();
	open_memory();
	introduce();
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "peer ", 5)) {
			meet(line);
			continue;
		}
		if (sscanf(line, "run %15s %zu %zu %zu", kind, &size, &window, &count) != 4 ||
		    !window || window > MAX_WINDOW || !count || count > MAX_COUNT ||
		    size > MEMORY / window)
			fail("not understood: %s", line);
		if (is_server)
			answer(kind, size, window, count);
		else
			ask(kind, size, window, count);
	}
	return 0;
}
