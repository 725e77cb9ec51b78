/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sleeping until something happens, over shared memory: no wake-up is lost, and none is made up. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <poll.h>
#include <pthread.h>
#include <sys/resource.h>

#include "pair.h"

#define ROUNDS		10000
#define LARGE		((size_t) 300000)
#define PATIENCE	10000	/* ms without any wake-up, which is then a lost one */
#define IDLE		2000	/* ms */
#define IDLE_CPU	50	/* ms */

static struct fi_context2 contexts[4];
static struct fid_cntr *received;
static unsigned char *out, *in;

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static long cpu(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
	       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static int descriptor(struct fid *fid)
{
	int fd = -1;

	OK(fi_control(fid, FI_GETWAIT, &fd));
	CHECK(fd >= 0);
	return fd;
}

/* Sleeps on both queues for at most this long; 0 if nothing happened. */
static int nap(struct node *n, int timeout)
{
	struct fid *fids[2];
	struct pollfd fds[2];
	int ret;

	fids[0] = &n->tx->fid;
	fids[1] = &n->rx->fid;
	ret = fi_trywait(n->fabric, fids, 2);
	if (ret == -FI_EAGAIN)
		return 1;
	OK(ret);
	fds[0].fd = descriptor(fids[0]);
	fds[1].fd = descriptor(fids[1]);
	fds[0].events = fds[1].events = POLLIN;
	do {
		ret = poll(fds, 2, timeout);
	} while (ret < 0 && errno == EINTR);
	CHECK(ret >= 0);
	return ret;
}

/* Waits for a completion without spinning. */
static void slept(struct node *n, struct fid_cq *cq, void *context)
{
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		if (!nap(n, PATIENCE))
			FAIL("nothing has woken us for %d ms", PATIENCE);
	if (ret == -FI_EAVAIL)
		fail_with_error(__FILE__, __LINE__, cq);
	EQUAL(ret, 1);
	CHECK(entry.op_context == context);
}

static void test_ping_pong(struct node *n)
{
	uint64_t i, value;

	for (i = 0; i < ROUNDS; i++) {
		if (role == 0)
			POST(n, fi_inject(n->ep, &i, sizeof(i), n->peer));
		OK(fi_recv(n->ep, &value, sizeof(value), NULL, FI_ADDR_UNSPEC, &contexts[0]));
		slept(n, n->rx, &contexts[0]);
		EQUAL(value, i);
		if (role == 1)
			POST(n, fi_inject(n->ep, &i, sizeof(i), n->peer));
	}
}

/* Messages that need an answer of the receiver's before they are complete. */
static void test_large(struct node *n)
{
	int i;

	for (i = 0; i < 200; i++) {
		fill(out, LARGE, (size_t) (i + role));
		OK(fi_recv(n->ep, in, LARGE, NULL, FI_ADDR_UNSPEC, &contexts[0]));
		POST(n, fi_send(n->ep, out, LARGE, NULL, n->peer, &contexts[1]));
		slept(n, n->tx, &contexts[1]);
		slept(n, n->rx, &contexts[0]);
		CHECK_FILL(in, LARGE, (size_t) (i + !role));
	}
}

static void test_idle(struct node *n)
{
	long start, used;
	int naps = 0;

	barrier(n);
	/* What the other process still has to say comes first. */
	while (nap(n, 200))
		progress(n);
	start = now();
	used = cpu();
	while (now() - start < IDLE) {
		if (nap(n, (int) (start + IDLE - now()) + 1))
			progress(n);
		if (++naps > 1000)
			FAIL("woken %d times without a reason", naps);
	}
	used = cpu() - used;
	if (used > IDLE_CPU)
		FAIL("%ld ms of processor time in %d ms of sleep", used, IDLE);
	swap(NULL, "i", in, 1);
}

static void test_sread(struct node *n)
{
	struct fi_cq_tagged_entry entry;
	long start = now();
	int i;

	EQUAL(fi_cq_sread(n->rx, &entry, 1, NULL, 0), -FI_EAGAIN);
	EQUAL(fi_cq_sread(n->rx, &entry, 1, NULL, 100), -FI_EAGAIN);
	CHECK(now() - start >= 99);
	CHECK(now() - start < 5000);
	barrier(n);
	for (i = 0; i < 50; i++) {
		if (role == 0) {
			usleep(2000);
			POST(n, fi_inject(n->ep, &i, sizeof(i), n->peer));
		} else {
			OK(fi_recv(n->ep, in, sizeof(i), NULL, FI_ADDR_UNSPEC, &contexts[0]));
			EQUAL(fi_cq_sread(n->rx, &entry, 1, NULL, PATIENCE), 1);
			CHECK(entry.op_context == &contexts[0]);
		}
	}
	barrier(n);
}

static void *signals(void *cq)
{
	usleep(100000);
	OK(fi_cq_signal(cq));
	return NULL;
}

static void test_signal(struct node *n)
{
	struct fi_cq_tagged_entry entry;
	pthread_t thread;
	long start = now();

	CHECK(!pthread_create(&thread, NULL, signals, n->rx));
	EQUAL(fi_cq_sread(n->rx, &entry, 1, NULL, -1), -FI_EAGAIN);
	CHECK(now() - start >= 90);
	CHECK(!pthread_join(thread, NULL));

	/* Kept until somebody waits, and used up then. */
	start = now();
	OK(fi_cq_signal(n->rx));
	EQUAL(fi_cq_sread(n->rx, &entry, 1, NULL, PATIENCE), -FI_EAGAIN);
	CHECK(now() - start < PATIENCE);
	start = now();
	EQUAL(fi_cq_sread(n->rx, &entry, 1, NULL, 100), -FI_EAGAIN);
	CHECK(now() - start >= 99);
	barrier(n);
}

static void test_counter(struct node *n)
{
	const uint64_t before = fi_cntr_read(received);
	struct fi_cq_err_entry err;
	long start = now();
	int i;

	EQUAL(fi_cntr_wait(received, before + 1, 100), -FI_ETIMEDOUT);
	CHECK(now() - start >= 99);
	OK(fi_cntr_wait(received, before, 0));
	if (role == 1) {
		for (i = 0; i < 3; i++)
			OK(fi_recv(n->ep, in, 8, NULL, FI_ADDR_UNSPEC, &contexts[i]));
		barrier(n);
		OK(fi_cntr_wait(received, before + 2, PATIENCE));
		EQUAL(fi_cntr_read(received), before + 2);
		for (i = 0; i < 2; i++)
			FINISHED(n, n->rx, &contexts[i]);
		barrier(n);
		/* The third is too long for its buffer. */
		EQUAL(fi_cntr_wait(received, before + 3, PATIENCE), -FI_EAVAIL);
		EQUAL(fi_cntr_readerr(received), 1);
		ERROR(n, n->rx, FI_ETRUNC, &contexts[2], &err);
	} else {
		barrier(n);
		for (i = 0; i < 2; i++) {
			usleep(20000);
			OK(fi_inject(n->ep, out, 8, n->peer));
		}
		barrier(n);
		usleep(20000);
		OK(fi_inject(n->ep, out, 9, n->peer));
	}
	barrier(n);
}

int main(void)
{
	const struct wish wish = { .wait = FI_WAIT_FD };
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD };
	struct node node, *n = &node;

	split();
	out = calloc(1, LARGE);
	in = calloc(1, LARGE);
	CHECK(out && in);
	open_node(n, &wish);
	OK(fi_cntr_open(n->domain, &attr, &received, NULL));
	OK(fi_ep_bind(n->ep, &received->fid, FI_RECV));
	connect_node(n);

	test_ping_pong(n);
	test_large(n);
	test_idle(n);
	test_sread(n);
	test_signal(n);
	test_counter(n);

	OK(fi_close(&n->ep->fid));
	OK(fi_close(&received->fid));
	free(out);
	free(in);
	return join();
}
