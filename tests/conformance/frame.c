/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Opening a side, talking to the other one, completions and checks. */
#include "frame.h"

#include <dirent.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "settings.h"

/* Rounds of progress after which a completion that has not come is not coming. */
#define QUIET_ROUNDS	200

__thread const char *side_title = "set-up";
__thread int side_role;

struct fi_info *wished_hints(const struct side *s)
{
	const struct wish *wish = &s->wish;
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints);
	hints->caps = wish->caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	/* Programs with connections know that data of writes may take receives. */
	if (s->type == FI_EP_MSG)
		hints->mode |= FI_RX_CQ_DATA;
	hints->ep_attr->type = s->type;
	hints->domain_attr->mr_mode = settings.mr_mode | wish->mr_mode;
	hints->domain_attr->threading = wish->threading;
	hints->domain_attr->data_progress = wish->progress;
	hints->domain_attr->av_type = wish->av_type;
	hints->tx_attr->msg_order = wish->order;
	hints->rx_attr->msg_order = wish->order;
	hints->tx_attr->op_flags = wish->tx_flags;
	hints->fabric_attr->prov_name = strdup(settings.provider);
	return hints;
}

int ask(uint32_t api, const struct fi_info *hints, struct fi_info **info)
{
	const uint32_t headers = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
	const char *node;

	/* What both know, unless the case says otherwise. */
	if (!api)
		api = fi_version() < headers ? fi_version() : headers;
	node = settings.nodes[side_role];
	return fi_getinfo(api, node, NULL, node ? FI_SOURCE : 0, hints, info);
}

void side_info(struct side *s)
{
	struct fi_info *hints = wished_hints(s);

	/* Cases have threads of their own. */
	side_role = s->role;
	OK(ask(s->wish.api, hints, &s->info));
	CHECK(s->info);
	EQUAL(s->info->caps & s->wish.caps, s->wish.caps);
	EQUAL(s->info->ep_attr->type, s->type);
	fi_freeinfo(hints);
	s->largest = s->info->ep_attr->max_msg_size < ARENA ? s->info->ep_attr->max_msg_size : ARENA;
}

void side_objects(struct side *s)
{
	struct fi_cq_attr cq = {
		.format = s->wish.format, .wait_obj = s->wish.wait, .size = s->wish.cq_size,
	};
	struct fi_av_attr av = { .type = s->wish.av_type };

	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
	OK(fi_cq_open(s->domain, &cq, &s->tx, NULL));
	OK(fi_cq_open(s->domain, &cq, &s->rx, NULL));
	if (s->type == FI_EP_MSG)
		return;		/* The endpoint comes with the connection. */
	OK(fi_av_open(s->domain, &av, &s->av, NULL));
	OK(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	OK(fi_ep_bind(s->ep, &s->av->fid, 0));
	OK(fi_ep_bind(s->ep, &s->tx->fid, FI_TRANSMIT | s->wish.bind_flags));
	OK(fi_ep_bind(s->ep, &s->rx->fid, FI_RECV | s->wish.bind_flags));
}

size_t side_name(struct side *s, void *name, size_t room)
{
	size_t len = 0;

	EQUAL(fi_getname(&s->ep->fid, NULL, &len), -FI_ETOOSMALL);
	CHECK(len > 0 && len <= room);
	OK(fi_getname(&s->ep->fid, name, &len));
	return len;
}

/* Enables a connected endpoint for one end of the connection. */
static void make_connected(struct side *s, struct fi_info *info)
{
	OK(fi_endpoint(s->domain, info, &s->ep, NULL));
	OK(fi_ep_bind(s->ep, &s->eq->fid, 0));
	OK(fi_ep_bind(s->ep, &s->tx->fid, FI_TRANSMIT | s->wish.bind_flags));
	OK(fi_ep_bind(s->ep, &s->rx->fid, FI_RECV | s->wish.bind_flags));
	OK(fi_enable(s->ep));
}

static void expect_event(struct side *s, uint32_t expected, struct fi_eq_cm_entry *entry)
{
	double late = 0;
	uint32_t event = 0;
	ssize_t got;

	while ((got = fi_eq_read(s->eq, &event, entry, sizeof(*entry), 0)) == -FI_EAGAIN) {
		progress(s);
		late_at(HERE, &late, "a connection event");
	}
	if (got < 0)
		FAIL("fi_eq_read: %s", fi_strerror((int) -got));
	EQUAL(event, expected);
}

/* Side 0 listens, side 1 connects. */
static void connect_pair(struct side *s)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fi_eq_cm_entry entry;
	char mine[256] = "", theirs[256] = "";
	size_t len = sizeof(mine);
	struct fid_pep *pep;

	OK(fi_eq_open(s->fabric, &attr, &s->eq, NULL));
	if (s->role == 0) {
		OK(fi_passive_ep(s->fabric, s->info, &pep, NULL));
		OK(fi_pep_bind(pep, &s->eq->fid, 0));
		OK(fi_listen(pep));
		OK(fi_getname(&pep->fid, mine, &len));
		swap(s, mine, theirs, sizeof(mine));
		expect_event(s, FI_CONNREQ, &entry);
		make_connected(s, entry.info);
		OK(fi_accept(s->ep, NULL, 0));
		fi_freeinfo(entry.info);
		expect_event(s, FI_CONNECTED, &entry);
		OK(fi_close(&pep->fid));
	} else {
		swap(s, mine, theirs, sizeof(mine));
		make_connected(s, s->info);
		OK(fi_connect(s->ep, theirs, NULL, 0));
		expect_event(s, FI_CONNECTED, &entry);
	}
	s->peer = s->self = FI_ADDR_UNSPEC;
}

void side_connect(struct side *s)
{
	char mine[256] = "", theirs[256] = "";

	if (s->type == FI_EP_MSG) {
		connect_pair(s);
		return;
	}
	OK(fi_enable(s->ep));
	side_name(s, mine, sizeof(mine));
	swap(s, mine, theirs, sizeof(mine));
	EQUAL(fi_av_insert(s->av, theirs, 1, &s->peer, 0, NULL), 1);
	EQUAL(fi_av_insert(s->av, mine, 1, &s->self, 0, NULL), 1);
	CHECK(s->peer != s->self);
}

void side_buffers(struct side *s)
{
	const uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;

	s->out = calloc(1, ARENA + 1);
	s->in = calloc(1, ARENA + 1);
	CHECK(s->out && s->in);
	if (s->info->domain_attr->mr_mode & FI_MR_LOCAL) {
		s->out_mr = side_register(s, s->out, ARENA, access, 0x7001);
		s->in_mr = side_register(s, s->in, ARENA, access, 0x7002);
		s->out_desc = fi_mr_desc(s->out_mr);
		s->in_desc = fi_mr_desc(s->in_mr);
	}
}

void side_open(struct side *s)
{
	side_info(s);
	side_objects(s);
	side_connect(s);
	side_buffers(s);
}

static void close_if(struct fid *fid)
{
	if (fid)
		result_at(HERE, "fi_close", fi_close(fid));
}

void side_close(struct side *s)
{
	close_if(s->out_mr ? &s->out_mr->fid : NULL);
	close_if(s->in_mr ? &s->in_mr->fid : NULL);
	close_if(s->ep ? &s->ep->fid : NULL);
	close_if(s->tx ? &s->tx->fid : NULL);
	close_if(s->rx ? &s->rx->fid : NULL);
	close_if(s->av ? &s->av->fid : NULL);
	close_if(s->eq ? &s->eq->fid : NULL);
	close_if(s->domain ? &s->domain->fid : NULL);
	close_if(s->fabric ? &s->fabric->fid : NULL);
	fi_freeinfo(s->info);
	free(s->out);
	free(s->in);
	*s = (struct side) {
		.role = s->role, .channel = s->channel, .type = s->type, .wish = s->wish,
	};
}

void swap(struct side *s, const void *mine, void *theirs, size_t size)
{
	size_t done = 0;
	ssize_t got;

	if (send(s->channel, mine, size, MSG_NOSIGNAL) != (ssize_t) size)
		FAIL("the other side has ended");
	while (done < size) {
		got = recv(s->channel, (char *) theirs + done, size - done, s->ep ? MSG_DONTWAIT : 0);
		if (got == 0 || (got < 0 && errno == ECONNRESET))
			FAIL("the other side has ended");
		if (got > 0)
			done += (size_t) got;
		else if (errno != EAGAIN && errno != EINTR)
			FAIL("recv: %s", strerror(errno));
		if (s->ep)
			progress(s);
	}
}

void barrier(struct side *s)
{
	char mine = 'b', theirs = 0;

	swap(s, &mine, &theirs, 1);
	EQUAL(theirs, 'b');
}

void progress(struct side *s)
{
	struct fid_cq *queues[] = { s->tx, s->rx };
	int idle = 1;

	for (int i = 0; i < 2; i++) {
		ssize_t got = queues[i] ? fi_cq_read(queues[i], NULL, 0) : -FI_EAGAIN;

		if (got != 0 && got != -FI_EAGAIN && got != -FI_EAVAIL)
			FAIL("progress: %s", fi_strerror((int) -got));
		idle &= got == -FI_EAGAIN;
	}
	if (idle)
		sched_yield();
}

struct fid_mr *side_register(struct side *s, void *buf, size_t len, uint64_t access, uint64_t key)
{
	const int mode = s->info->domain_attr->mr_mode;
	struct fid_mr *mr = NULL;

	OK(fi_mr_reg(s->domain, buf, len, access, 0, key, 0, &mr, NULL));
	if (mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(mr, &s->ep->fid, 0));
		OK(fi_mr_enable(mr));
	}
	return mr;
}

struct region swap_regions(struct side *s, struct fid_mr *mr, const void *buf)
{
	const int mode = s->info->domain_attr->mr_mode;
	const int virtual = mode == FI_MR_BASIC || (mode & FI_MR_VIRT_ADDR);
	struct region mine = { virtual ? (uint64_t) (uintptr_t) buf : 0, fi_mr_key(mr) }, theirs;

	CHECK(mine.key != FI_KEY_NOTAVAIL);
	swap(s, &mine, &theirs, sizeof(mine));
	return theirs;
}

/* Reads one entry in the format of the queue, and its source. */
static ssize_t read_entry(struct side *s, struct fid_cq *cq, struct done *done)
{
	union {
		struct fi_cq_entry		context;
		struct fi_cq_msg_entry		msg;
		struct fi_cq_data_entry		data;
		struct fi_cq_tagged_entry	tagged;
		/* No format writes behind its entry. */
		unsigned char			bytes[2 * sizeof(struct fi_cq_tagged_entry)];
	} entry;
	static const size_t sizes[] = {
		[FI_CQ_FORMAT_UNSPEC] = 0,
		[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
		[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
		[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
		[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
	};
	const enum fi_cq_format format = s->wish.format;
	ssize_t got;

	memset(&entry, 0xde, sizeof(entry));
	*done = (struct done) {
		NULL, NOT_TOLD, NOT_TOLD, NULL, NOT_TOLD, NOT_TOLD, FI_ADDR_NOTAVAIL,
	};
	got = fi_cq_readfrom(cq, &entry, 1, &done->source);
	if (got != 1)
		return got;
	for (size_t i = sizes[format]; sizes[format] && i < sizeof(entry); i++)
		if (entry.bytes[i] != 0xde)
			FAIL("byte %zu behind an entry of %zu was written", i, sizes[format]);
	done->context = entry.context.op_context;
	if (format >= FI_CQ_FORMAT_MSG) {
		done->flags = entry.msg.flags;
		done->len = entry.msg.len;
	}
	if (format >= FI_CQ_FORMAT_DATA) {
		done->buf = entry.data.buf;
		done->data = entry.data.data;
	}
	if (format >= FI_CQ_FORMAT_TAGGED)
		done->tag = entry.tagged.tag;
	return 1;
}

void completion_at(const char *at, struct side *s, struct fid_cq *cq, struct done *done)
{
	struct fi_cq_err_entry err;
	double late = 0;
	ssize_t got;

	while ((got = read_entry(s, cq, done)) == -FI_EAGAIN) {
		progress(s);
		late_at(at, &late, "a completion");
	}
	if (got == 1)
		return;
	if (got != -FI_EAVAIL)
		fail_at(at, "fi_cq_readfrom returned %zd", got);
	memset(&err, 0, sizeof(err));
	if (fi_cq_readerr(cq, &err, 0) != 1)
		fail_at(at, "an error was announced, but there is none");
	fail_at(at, "completion with error %d (%s), flags 0x%" PRIx64 ", context %p", err.err,
		fi_strerror(err.err), err.flags, err.op_context);
}

void finished_at(const char *at, struct side *s, struct fid_cq *cq, void *context,
		 uint64_t flags, size_t len, struct done *done)
{
	completion_at(at, s, cq, done);
	if (done->context != context)
		fail_at(at, "completion of context %p, expected %p", done->context, context);
	if (s->wish.format < FI_CQ_FORMAT_MSG)
		return;
	if ((done->flags & flags) != flags)
		fail_at(at, "flags of a completion are 0x%" PRIx64 ", expected 0x%" PRIx64,
			done->flags, flags);
	/* Transmits need not tell a length. */
	if (flags & FI_RECV)
		equal_at(at, "length of a completion", (long long) done->len, (long long) len);
}

void error_at(const char *at, struct side *s, struct fid_cq *cq, int reason, void *context,
	      struct fi_cq_err_entry *err)
{
	struct done done;
	double late = 0;
	ssize_t got;

	while ((got = read_entry(s, cq, &done)) == -FI_EAGAIN) {
		progress(s);
		late_at(at, &late, "an error");
	}
	if (got != -FI_EAVAIL)
		fail_at(at, "fi_cq_readfrom returned %zd, expected an error", got);
	memset(err, 0, sizeof(*err));
	if (fi_cq_readerr(cq, err, 0) != 1)
		fail_at(at, "an error was announced, but there is none");
	if (err->err != reason || err->op_context != context)
		fail_at(at, "error %d (%s) of %p, expected %d (%s) of %p", err->err,
			fi_strerror(err->err), err->op_context, reason, fi_strerror(reason), context);
}

void quiet_at(const char *at, struct side *s, struct fid_cq *cq)
{
	struct done done;

	for (int i = 0; i < QUIET_ROUNDS; i++) {
		progress(s);
		if (read_entry(s, cq, &done) != -FI_EAGAIN)
			fail_at(at, "a completion that nobody asked for, context %p", done.context);
	}
}

void counted_at(const char *at, struct side *s, struct fid_cntr *cntr, uint64_t value)
{
	double late = 0;

	while (fi_cntr_read(cntr) < value) {
		progress(s);
		late_at(at, &late, "a counter");
	}
	for (int i = 0; i < QUIET_ROUNDS; i++) {
		progress(s);
		equal_at(at, "counter", (long long) fi_cntr_read(cntr), (long long) value);
	}
}

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

double cpu_time(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/*
 * The connection manager's library opens each RDMA device for the life of the process, and with it the
 * descriptor of the device's events: so many are not counted.
 */
int open_fds(void)
{
	static const char device[] = "/dev/infiniband/uverbs", events[] = "[infinibandevent]";
	DIR *dir = opendir("/proc/self/fd");
	int count = 0, devices = 0, notices = 0;
	struct dirent *entry;

	CHECK(dir);
	while ((entry = readdir(dir))) {
		char target[256] = "";
		const ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		target[len > 0 ? len : 0] = 0;
		if (!strncmp(target, device, sizeof(device) - 1))
			devices++;
		else if (strstr(target, events))
			notices++;
		else
			count++;
	}
	closedir(dir);
	return count + (notices > devices ? notices - devices : 0);
}

long resident_kib(void)
{
	long total, resident;
	FILE *file = fopen("/proc/self/statm", "re");

	CHECK(file && fscanf(file, "%ld %ld", &total, &resident) == 2);
	fclose(file);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

unsigned char pattern(size_t seed, size_t at)
{
	return (unsigned char) (seed * 31 + at * 7 + (at >> 8) * 13);
}

void fill(void *buf, size_t len, size_t seed)
{
	for (size_t i = 0; i < len; i++)
		((unsigned char *) buf)[i] = pattern(seed, i);
}

void filled_at(const char *at, const void *buf, size_t len, size_t seed)
{
	for (size_t i = 0; i < len; i++)
		if (((const unsigned char *) buf)[i] != pattern(seed, i))
			fail_at(at, "byte %zu of %zu is %u, expected %u", i, len,
				((const unsigned char *) buf)[i], pattern(seed, i));
}

void late_at(const char *at, double *deadline, const char *what)
{
	if (*deadline == 0)
		*deadline = now() + settings.deadline / 2;
	else if (now() > *deadline)
		fail_at(at, "%s does not come", what);
}

void equal_at(const char *at, const char *what, long long found, long long expected)
{
	if (found != expected)
		fail_at(at, "%s is %lld (0x%llx), expected %lld (0x%llx)", what, found,
			(unsigned long long) found, expected, (unsigned long long) expected);
}

void result_at(const char *at, const char *call, long long result)
{
	if (result)
		fail_at(at, "%s returned %lld (%s)", call, result, fi_strerror((int) -result));
}

void not_offered(void)
{
	_exit(EXIT_NOT_OFFERED);
}

void fail_at(const char *at, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* One write, so that the words of two sides do not mix. */
	dprintf(STDERR_FILENO, "    %s: %s: %s\n", side_title, at, text);
	_exit(1);
}
