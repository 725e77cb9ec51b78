/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A peer that stops, with more sent to it than sockets hold, and then ends: what has not left is no
 * success of any kind, and fails once, whether it was to have an entry or not.
 */
#define PROVIDER	"tcp"
#define NODE		"127.0.0.1"
#define CAPS		(FI_MSG | FI_TAGGED)
#include "../pair.h"

enum { COUNT = 120000, LEN = 100 };

static char bytes[LEN];
static struct fi_context2 contexts[COUNT];
static unsigned char ends[COUNT];

static struct fid_cntr *open_counted(struct node *n)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE };
	const struct wish wish = { .bind_flags = FI_SELECTIVE_COMPLETION };
	struct fid_cntr *counter;

	open_node(n, &wish);
	OK(fi_cntr_open(n->domain, &attr, &counter, NULL));
	OK(fi_ep_bind(n->ep, &counter->fid, FI_SEND));
	connect_node(n);
	return counter;
}

static int post(struct node *n, int i)
{
	struct iovec piece = { bytes, LEN };
	struct fi_msg message = { .msg_iov = &piece, .iov_count = 1, .addr = n->peer,
				  .context = &contexts[i] };
	ssize_t ret;

	/* With an entry, without one, and with none to ask for. */
	switch (i % 3) {
	case 0:
		ret = fi_sendmsg(n->ep, &message, FI_COMPLETION);
		break;
	case 1:
		ret = fi_sendmsg(n->ep, &message, 0);
		break;
	default:
		ret = fi_inject(n->ep, bytes, LEN, n->peer);
	}
	if (ret && ret != -FI_EAGAIN)
		FAIL("post %d: %s", i, fi_strerror((int) -ret));
	return !ret;
}

/* Returns the successes with an entry; those that fail without a context were injected. */
static int reap(struct node *n, int *failed, int *injected)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err;
	int successes = 0;
	ssize_t ret;

	while ((ret = fi_cq_read(n->tx, &entry, 1)) != -FI_EAGAIN) {
		void *context = entry.op_context;

		if (ret == 1) {
			successes++;
			EQUAL(((struct fi_context2 *) context - contexts) % 3, 0);
		} else {
			memset(&err, 0, sizeof(err));
			EQUAL(ret, -FI_EAVAIL);
			EQUAL(fi_cq_readerr(n->tx, &err, 0), 1);
			(*failed)++;
			context = err.op_context;
		}
		if (context)
			EQUAL(ends[(struct fi_context2 *) context - contexts]++, 0);
		else
			(*injected)++;
	}
	return successes;
}

static void stops(struct node *n)
{
	OK(fi_recv(n->ep, bytes, LEN, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	barrier(n);
	raise(SIGSTOP);
	FAIL("it went on");
}

static void sends(struct node *n, struct fid_cntr *counter, pid_t other)
{
	int accepted = 1, with_entry = 1, posted_injected = 0;
	int successes = 0, failed = 0, injected = 0, status;
	const struct timespec moment = { .tv_nsec = 1000000 };

	while (!post(n, 0))
		progress(n);
	/* The connection is up. */
	while (fi_cntr_read(counter) < 1)
		nanosleep(&moment, NULL);
	barrier(n);
	CHECK(waitpid(other, &status, WUNTRACED) == other && WIFSTOPPED(status));
	for (int i = 1; i < COUNT && post(n, i); i++) {
		accepted++;
		with_entry += i % 3 == 0;
		posted_injected += i % 3 == 2;
	}
	successes = reap(n, &failed, &injected);
	EQUAL(failed, 0);
	CHECK(successes < with_entry);
	/* Those without an entry leave in their turn: no more of them have than of the others. */
	CHECK(fi_cntr_read(counter) < (uint64_t) accepted);
	CHECK(fi_cntr_read(counter) <= (uint64_t) successes * 3);

	OK(kill(other, SIGKILL));
	CHECK(waitpid(other, &status, 0) == other && WIFSIGNALED(status));
	while (fi_cntr_read(counter) + fi_cntr_readerr(counter) < (uint64_t) accepted)
		nanosleep(&moment, NULL);
	successes += reap(n, &failed, &injected);
	EQUAL(fi_cntr_read(counter) + fi_cntr_readerr(counter), accepted);
	EQUAL(fi_cntr_readerr(counter), failed);
	CHECK(failed > 0 && injected <= posted_injected);
	/* Every operation with a context of its own has one end, or had a success without an entry. */
	for (int i = 0; i < accepted; i += 3)
		EQUAL(ends[i], 1);
}

int main(void)
{
	struct fid_cntr *counter;
	struct node n;
	pid_t mine, other;

	split();
	counter = open_counted(&n);
	mine = getpid();
	swap(NULL, &mine, &other, sizeof(mine));
	if (role == 1)
		stops(&n);
	sends(&n, counter, other);
	OK(fi_close(&n.ep->fid));
	OK(fi_close(&counter->fid));
	OK(fi_close(&n.tx->fid));
	OK(fi_close(&n.rx->fid));
	OK(fi_close(&n.av->fid));
	OK(fi_close(&n.domain->fid));
	OK(fi_close(&n.fabric->fid));
	fi_freeinfo(n.info);
	return 0;
}
