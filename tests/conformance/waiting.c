/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sleeping until something happens: no wake-up is lost, and none is made up. */
#include "groups.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "remote.h"
#include "settings.h"

#define PATIENCE	20000	/* ms without any wake-up, which is then a lost one */
#define IDLE		0.7	/* s */
#define LARGE		((size_t) 300000)

static int descriptor(struct fid *fid)
{
	int fd = -1;

	OK(fi_control(fid, FI_GETWAIT, &fd));
	CHECK(fd >= 0);
	return fd;
}

/* Sleeps on some objects for at most so many ms; 0 if nothing happened. */
static int nap(struct side *s, struct fid **fids, int count, int timeout)
{
	struct pollfd fds[4];
	int ret = fi_trywait(s->fabric, fids, count);

	if (ret == -FI_EAGAIN)
		return 1;
	OK(ret);
	for (int i = 0; i < count; i++)
		fds[i] = (struct pollfd) { descriptor(fids[i]), POLLIN, 0 };
	do {
		ret = poll(fds, (nfds_t) count, timeout);
	} while (ret < 0 && errno == EINTR);
	CHECK(ret >= 0);
	return ret;
}

static int nap_on_queues(struct side *s, int timeout)
{
	struct fid *fids[] = { &s->tx->fid, &s->rx->fid };

	return nap(s, fids, 2, timeout);
}

/* The next completion of a queue, without spinning. */
static void slept_at(const char *at, struct side *s, struct fid_cq *cq, void *context)
{
	struct fi_cq_tagged_entry entry;
	ssize_t got;

	while ((got = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		if (!nap_on_queues(s, PATIENCE))
			fail_at(at, "nothing has woken us for %d ms", PATIENCE);
	equal_at(at, "fi_cq_read", got, 1);
	if (entry.op_context != context)
		fail_at(at, "completion of %p, expected %p", entry.op_context, context);
}

#define SLEPT(s, cq, context)	slept_at(HERE, s, cq, context)

/* Each side sleeps until the other's message is there; a lost wake-up ends it. */
static void ping_pong(struct side *s)
{
	const uint64_t rounds = settings.brief ? 500 : 20000;
	uint64_t *value = (uint64_t *) s->in;

	for (uint64_t i = 0; i < rounds; i++) {
		if (s->role == 0)
			POST(s, fi_inject(s->ep, &i, sizeof(i), s->peer));
		OK(fi_recv(s->ep, value, sizeof(i), s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		SLEPT(s, s->rx, &s->ctx[0]);
		EQUAL(*value, i);
		if (s->role == 1)
			POST(s, fi_inject(s->ep, &i, sizeof(i), s->peer));
	}
}

static void tagged_ping_pong(struct side *s)
{
	const uint64_t rounds = settings.brief ? 500 : 3000;

	for (uint64_t i = 0; i < rounds; i++) {
		if (s->role == 0)
			POST(s, fi_tinject(s->ep, &i, sizeof(i), s->peer, i));
		OK(fi_trecv(s->ep, s->in, sizeof(i), s->in_desc, FI_ADDR_UNSPEC, i, 0, &s->ctx[0]));
		SLEPT(s, s->rx, &s->ctx[0]);
		if (s->role == 1)
			POST(s, fi_tinject(s->ep, &i, sizeof(i), s->peer, i));
	}
}

/* Messages that are not complete before the receiver has answered. */
static void large(struct side *s)
{
	for (size_t i = 0; i < 100; i++) {
		fill(s->out, LARGE, i + (size_t) s->role);
		OK(fi_recv(s->ep, s->in, LARGE, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		POST(s, fi_send(s->ep, s->out, LARGE, s->out_desc, s->peer, &s->ctx[1]));
		SLEPT(s, s->tx, &s->ctx[1]);
		SLEPT(s, s->rx, &s->ctx[0]);
		FILLED(s->in, LARGE, i + (size_t) !s->role);
	}
}

/* Each side writes with data and reads; the target sleeps, too, and yet it is served. */
static void one_sided(struct side *s)
{
	void *context = takes_receives(s) ? &s->ctx[2] : NULL;
	struct remote r;

	if (!s->info->domain_attr->cq_data_size)
		not_offered();
	remote_open(s, &r);
	for (size_t i = 0; i < 300; i++) {
		const size_t len = i % 4 ? 64 : LARGE;

		if (s->role == (int) (i & 1)) {
			POST(s, fi_read(s->ep, s->out, len, s->out_desc, s->peer, r.far.addr,
					r.far.key, &s->ctx[0]));
			SLEPT(s, s->tx, &s->ctx[0]);
			POST(s, fi_writedata(s->ep, s->out, len, s->out_desc, i, s->peer, r.far.addr,
					     r.far.key, &s->ctx[1]));
			SLEPT(s, s->tx, &s->ctx[1]);
		} else {
			if (context)
				OK(fi_recv(s->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, context));
			SLEPT(s, s->rx, context);
		}
	}
	remote_close(s, &r);
}

static void counters(struct side *s)
{
	struct fid_cntr *cntr;
	struct fid *fid;
	double late = 0;

	side_info(s);
	side_objects(s);
	cntr = open_counter(s, FI_WAIT_FD);
	fid = &cntr->fid;
	OK(fi_ep_bind(s->ep, &cntr->fid, FI_RECV));
	side_connect(s);
	side_buffers(s);
	for (uint64_t i = 0; i < 2000; i++) {
		if (s->role == 0)
			POST(s, fi_inject(s->ep, &i, sizeof(i), s->peer));
		OK(fi_recv(s->ep, s->in, sizeof(i), s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		while (fi_cntr_read(cntr) != i + 1) {
			if (!nap(s, &fid, 1, PATIENCE))
				FAIL("nothing has woken us for %d ms", PATIENCE);
			late_at(HERE, &late, "a message");
		}
		FINISHED(s, s->rx, &s->ctx[0], FI_MSG | FI_RECV, sizeof(i));
		if (s->role == 1)
			POST(s, fi_inject(s->ep, &i, sizeof(i), s->peer));
	}
	barrier(s);
	OK(fi_close(&s->ep->fid));
	s->ep = NULL;
	OK(fi_close(&cntr->fid));
	side_close(s);
}

static void idle(struct side *s)
{
	double start, used;
	int naps = 0;

	barrier(s);
	/* What the other side still has to say comes first. */
	while (nap_on_queues(s, 200))
		progress(s);
	start = now();
	used = cpu_time();
	while (now() - start < IDLE) {
		if (nap_on_queues(s, (int) ((start + IDLE - now()) * 1000) + 1))
			progress(s);
		if (++naps > 1000)
			FAIL("woken %d times without a reason", naps);
	}
	used = cpu_time() - used;
	if (used > 0.05)
		FAIL("%.0f ms of processor time in %.1f s of sleep", used * 1000, IDLE);
	/* The other one may sleep a little longer, undisturbed. */
	usleep(300000);
	barrier(s);
}

static void sread(struct side *s)
{
	struct fi_cq_tagged_entry entries[4];
	fi_addr_t source = 0;
	double start = now();

	EQUAL(fi_cq_sread(s->rx, entries, 4, NULL, 0), -FI_EAGAIN);
	EQUAL(fi_cq_sread(s->rx, entries, 4, NULL, 100), -FI_EAGAIN);
	CHECK(now() - start >= 0.099);
	start = now();
	EQUAL(fi_cq_sreadfrom(s->rx, entries, 1, &source, NULL, 100), -FI_EAGAIN);
	CHECK(now() - start >= 0.099);
	barrier(s);
	for (uint64_t i = 0; i < 200; i++) {
		ssize_t got;

		if (s->role == 0) {
			if (i % 20 == 0)
				usleep(5000);
			POST(s, fi_inject(s->ep, &i, sizeof(i), s->peer));
			continue;
		}
		OK(fi_recv(s->ep, s->in, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		/* A condition is a hint; it may be there too early. */
		do {
			got = fi_cq_sreadfrom(s->rx, entries, 4, &source, (void *) 1,
					      i % 2 ? PATIENCE : -1);
		} while (got == -FI_EAGAIN && i % 2 == 0);
		EQUAL(got, 1);
		CHECK(entries[0].op_context == &s->ctx[0]);
	}
	QUIET(s, s->rx);
}

static void *sleep_without_end(void *cq)
{
	struct fi_cq_tagged_entry entry;

	return (void *) (intptr_t) fi_cq_sread(cq, &entry, 1, NULL, PATIENCE * 2);
}

/* Side 1 may signal before there is a sleeper. */
static void wake(struct side *s)
{
	pthread_t sleeper;
	void *result;
	double start = now();

	CHECK(!pthread_create(&sleeper, NULL, sleep_without_end, s->rx));
	usleep(s->role ? 0 : 50000);
	OK(fi_cq_signal(s->rx));
	CHECK(!pthread_join(sleeper, &result));
	EQUAL((intptr_t) result, -FI_EAGAIN);
	CHECK(now() - start < PATIENCE / 1000.0);
}

/* All of several sleepers get up if there is a signal for each. */
static void wake_all(struct side *s)
{
	enum { SLEEPERS = 4 };
	pthread_t sleepers[SLEEPERS];
	int left = SLEEPERS;
	double late = 0;

	for (int i = 0; i < SLEEPERS; i++)
		CHECK(!pthread_create(&sleepers[i], NULL, sleep_without_end, s->rx));
	while (left) {
		void *result;

		OK(fi_cq_signal(s->rx));
		usleep(1000);
		for (int i = 0; left && i < SLEEPERS; i++)
			if (sleepers[i] && !pthread_tryjoin_np(sleepers[i], &result)) {
				EQUAL((intptr_t) result, -FI_EAGAIN);
				sleepers[i] = 0;
				left--;
			}
		late_at(HERE, &late, "the last sleeper");
	}
}

static void want_fd(struct wish *wish)
{
	wish->wait = FI_WAIT_FD;
}

static void want_unspec(struct wish *wish)
{
	wish->wait = FI_WAIT_UNSPEC;
}

static void want_yield(struct wish *wish)
{
	wish->wait = FI_WAIT_YIELD;
}

/* Without a wait object there is nothing to get, and blocking calls give nothing. */
static void no_object(struct side *s)
{
	struct fi_cq_tagged_entry entry;
	struct fid_cntr *cntr = open_counter(s, FI_WAIT_NONE);
	int fd = -1;

	CHECK(fi_cq_sread(s->rx, &entry, 1, NULL, 50) < 0);
	CHECK(fi_cntr_wait(cntr, 1, 50) < 0);
	CHECK(fi_control(&s->rx->fid, FI_GETWAIT, &fd) < 0);
	CHECK(fi_control(&cntr->fid, FI_GETWAIT, &fd) < 0);
	EQUAL(fd, -1);
	OK(fi_close(&cntr->fid));
}

static void several(struct side *s)
{
	struct fid_cntr *cntr = open_counter(s, FI_WAIT_FD);
	struct fid *fids[] = { &s->tx->fid, &s->rx->fid, &cntr->fid };
	struct fid *wrong[] = { &s->domain->fid };

	CHECK(fi_trywait(s->fabric, wrong, 1) < 0);
	while (nap(s, fids, 3, 50))
		progress(s);
	barrier(s);
	if (s->role == 0) {
		usleep(20000);
		POST(s, fi_inject(s->ep, s->out, 8, s->peer));
	} else {
		OK(fi_recv(s->ep, s->in, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		while (fi_cq_read(s->rx, NULL, 0) == -FI_EAGAIN)
			if (!nap(s, fids, 3, PATIENCE))
				FAIL("nothing has woken us for %d ms", PATIENCE);
		/* As long as there is something to read, there is no sleep. */
		EQUAL(fi_trywait(s->fabric, fids, 3), -FI_EAGAIN);
		FINISHED(s, s->rx, &s->ctx[0], FI_MSG | FI_RECV, 8);
	}
	barrier(s);
	/* A change by hand wakes, too. */
	while (nap(s, fids, 3, 50))
		progress(s);
	OK(fi_cntr_add(cntr, 1));
	CHECK(nap(s, fids + 2, 1, PATIENCE));
	OK(fi_close(&cntr->fid));
}

/* Deprecated; it works or says that it does not. */
static void old_sets(struct side *s)
{
	struct fi_wait_attr wait_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_poll_attr poll_attr = { .flags = 0 };
	struct fid_wait *wait = NULL;
	struct fid_poll *poll = NULL;
	int ret = fi_wait_open(s->fabric, &wait_attr, &wait);

	if (!ret)
		OK(fi_close(&wait->fid));
	else
		EQUAL(ret, -FI_ENOSYS);
	ret = fi_poll_open(s->domain, &poll_attr, &poll);
	if (!ret)
		OK(fi_close(&poll->fid));
	else
		EQUAL(ret, -FI_ENOSYS);
}

static const struct conformance_case waiting_cases[] = {
	{ "ping-pong", "fi_poll(3)", "Who sleeps after fi_trywait has agreed is woken by the next message.",
	  FI_MSG, EP_RELIABLE, 0, 0, want_fd, ping_pong },
	{ "tagged", "fi_poll(3)", "The same of tagged messages.",
	  FI_TAGGED, EP_RDM, VARY_PROGRESS, 0, want_fd, tagged_ping_pong },
	{ "large", "fi_poll(3)", "What an operation needs besides its message wakes, too.",
	  FI_MSG, EP_RELIABLE, VARY_MR | VARY_PROGRESS, 0, want_fd, large },
	{ "one-sided", "fi_poll(3)", "A target that sleeps is woken to serve reads and writes.",
	  FI_RMA, EP_RELIABLE, VARY_MR | VARY_PROGRESS, 0, want_fd, one_sided },
	{ "counters", "fi_cntr(3)", "A counter's descriptor wakes when it changes.",
	  FI_MSG, EP_RDM, VARY_PROGRESS, 1, want_fd, counters },
	{ "idle", "fi_poll(3)", "Nothing wakes a sleeper without a reason, and sleep costs no processor time.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS, 0, want_fd, idle },
	{ "sread", "fi_cq(3)", "A blocking read ends with a completion or at its time, not before.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS | VARY_THREADING, 0, want_unspec, sread },
	{ "sread-fd", "fi_cq(3)", "The same with a descriptor as wait object.",
	  FI_MSG, EP_RELIABLE, 0, 0, want_fd, sread },
	{ "sread-yield", "fi_cq(3)", "The same with FI_WAIT_YIELD.",
	  FI_MSG, EP_RELIABLE, 0, 0, want_yield, sread },
	{ "signal", "fi_cq(3)", "fi_cq_signal ends a blocking read, even if it comes first.",
	  FI_MSG, EP_RELIABLE, 0, 0, want_unspec, wake },
	{ "signal-all", "fi_cq(3)", "Signals end the blocking reads of several threads.",
	  FI_MSG, EP_RELIABLE, 0, 0, want_fd, wake_all },
	{ "no-object", "fi_cq(3)", "Without a wait object there is nothing for FI_GETWAIT, and blocking calls give nothing.",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, no_object },
	{ "several", "fi_poll(3)", "fi_trywait takes queues and counters together, and refuses as long as any has something to read.",
	  FI_MSG, EP_RELIABLE, 0, 0, want_fd, several },
	{ "old-sets", "fi_poll(3)", "Poll sets and wait sets work or are refused (FI_ENOSYS).",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, old_sets },
};
GROUP(waiting);
