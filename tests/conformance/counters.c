/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counters of what has ended: side 0 acts, side 1 is its target. */
#include "groups.h"

#include <unistd.h>

#include "remote.h"

#define ALL	(FI_MSG | FI_RMA | FI_ATOMIC)
#define LEN	2000
/* FI_CNTR_EVENTS_BYTES, which older headers lack. */
#define EVENTS_BYTES	((enum fi_cntr_events) (FI_CNTR_EVENTS_COMP + 1))

enum { SENDS, RECEIVES, READS, WRITES, REMOTE_READS, REMOTE_WRITES, KINDS };

static const uint64_t binds[KINDS] = {
	FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE,
};

/* One counter of each kind, on an endpoint that is not enabled yet. */
static void open_counters(struct side *s, struct fid_cntr *cntr[KINDS], int kinds,
			  enum fi_wait_obj wait)
{
	side_info(s);
	side_objects(s);
	for (int i = 0; i < kinds; i++) {
		cntr[i] = open_counter(s, wait);
		OK(fi_ep_bind(s->ep, &cntr[i]->fid, binds[i]));
	}
	side_connect(s);
	side_buffers(s);
}

static void close_counters(struct side *s, struct fid_cntr *cntr[KINDS], int kinds)
{
	barrier(s);
	for (int i = 0; i < kinds; i++)
		EQUAL(fi_close(&cntr[i]->fid), -FI_EBUSY);
	OK(fi_close(&s->ep->fid));
	s->ep = NULL;
	for (int i = 0; i < kinds; i++)
		OK(fi_close(&cntr[i]->fid));
	side_close(s);
}

static void check_counters(const char *at, struct side *s, struct fid_cntr *cntr[KINDS], int kinds,
			   const uint64_t expected[KINDS])
{
	for (int i = 0; i < kinds; i++) {
		counted_at(at, s, cntr[i], expected[i]);
		equal_at(at, "errors", (long long) fi_cntr_readerr(cntr[i]), 0);
	}
}

/* Three of each operation, some without an entry; each counter counts its own. */
static void act(struct side *s, const struct remote *r)
{
	uint64_t *out = (uint64_t *) s->out;
	const struct region far = r->far;

	for (int i = 0; i < 3; i++) {
		POST(s, fi_send(s->ep, s->out, LEN, s->out_desc, s->peer, &s->ctx[0]));
		POST(s, fi_inject(s->ep, s->out, 8, s->peer));
		POST(s, fi_write(s->ep, s->out, LEN, s->out_desc, s->peer, far.addr, far.key,
				 &s->ctx[1]));
		POST(s, fi_inject_write(s->ep, s->out, 8, s->peer, far.addr, far.key));
		POST(s, fi_read(s->ep, s->in, LEN, s->in_desc, s->peer, far.addr, far.key,
				&s->ctx[2]));
		POST(s, fi_atomic(s->ep, out, 1, s->out_desc, s->peer, far.addr, far.key, FI_UINT64,
				  FI_SUM, &s->ctx[3]));
		POST(s, fi_fetch_atomic(s->ep, out, 1, s->out_desc, s->in, s->in_desc, s->peer,
					far.addr, far.key, FI_UINT64, FI_SUM, &s->ctx[4]));
	}
}

static void run_kinds(struct side *s, int kinds)
{
	/* A fetching atomic is a read at both sides. */
	static const uint64_t here[KINDS] = { [SENDS] = 6, [READS] = 6, [WRITES] = 9 };
	struct fid_cntr *cntr[KINDS];
	struct remote r;

	open_counters(s, cntr, kinds, FI_WAIT_NONE);
	remote_open(s, &r);
	for (int i = 0; s->role == 1 && i < 6; i++)
		OK(fi_recv(s->ep, s->in + ARENA / 2, LEN, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	if (s->role == 0)
		act(s, &r);
	if (s->role == 0) {
		check_counters(HERE, s, cntr, kinds, here);
	} else {
		COUNTED(s, cntr[RECEIVES], 6);
		if (kinds > REMOTE_WRITES) {
			COUNTED(s, cntr[REMOTE_READS], 6);
			COUNTED(s, cntr[REMOTE_WRITES], 9);
		}
		EQUAL(fi_cntr_read(cntr[SENDS]), 0);
		EQUAL(fi_cntr_read(cntr[READS]), 0);
		EQUAL(fi_cntr_read(cntr[WRITES]), 0);
	}
	remote_close(s, &r);
	close_counters(s, cntr, kinds);
}

static void kinds(struct side *s)
{
	run_kinds(s, REMOTE_READS);
}

static void remote_kinds(struct side *s)
{
	run_kinds(s, KINDS);
}

static void want_selective(struct wish *wish)
{
	wish->bind_flags = FI_SELECTIVE_COMPLETION;
}

/* One counter for several kinds. */
static void one_counter(struct side *s)
{
	struct fid_cntr *cntr;
	struct remote r;

	side_info(s);
	side_objects(s);
	cntr = open_counter(s, FI_WAIT_NONE);
	OK(fi_ep_bind(s->ep, &cntr->fid, FI_SEND | FI_RECV | FI_READ | FI_WRITE));
	side_connect(s);
	side_buffers(s);
	remote_open(s, &r);
	for (int i = 0; s->role == 1 && i < 6; i++)
		OK(fi_recv(s->ep, s->in + ARENA / 2, LEN, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	if (s->role == 0)
		act(s, &r);
	COUNTED(s, cntr, s->role ? 6 : 21);
	remote_close(s, &r);
	OK(fi_close(&s->ep->fid));
	s->ep = NULL;
	OK(fi_close(&cntr->fid));
	side_close(s);
}

static void failures(struct side *s)
{
	struct fid_cntr *cntr[KINDS];
	struct fi_cq_err_entry err;
	struct remote r;

	open_counters(s, cntr, REMOTE_READS, FI_WAIT_NONE);
	remote_open(s, &r);
	if (s->role == 1)
		OK(fi_recv(s->ep, s->in, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
	barrier(s);
	if (s->role == 0) {
		POST(s, fi_read(s->ep, s->out, 8, s->out_desc, s->peer, r.far.addr,
				r.far.key + 12345, &s->ctx[0]));
		REFUSAL(s, FI_ENOKEY, &s->ctx[0], &err);
		EQUAL(fi_cntr_readerr(cntr[READS]), 1);
		EQUAL(fi_cntr_read(cntr[READS]), 0);
		POST(s, write_with(s, s->out, 8, r.far.addr + ARENA, r.far.key,
				   FI_DELIVERY_COMPLETE | FI_COMPLETION, 0, &s->ctx[1]));
		REFUSAL(s, FI_EINVAL, &s->ctx[1], &err);
		EQUAL(fi_cntr_readerr(cntr[WRITES]), 1);
		EQUAL(fi_cntr_read(cntr[WRITES]), 0);
		POST(s, fi_inject(s->ep, s->out, 50, s->peer));
		COUNTED(s, cntr[SENDS], 1);
	} else {
		ERROR(s, s->rx, FI_ETRUNC, &s->ctx[1], &err);
		EQUAL(fi_cntr_readerr(cntr[RECEIVES]), 1);
		EQUAL(fi_cntr_read(cntr[RECEIVES]), 0);
	}
	remote_close(s, &r);
	close_counters(s, cntr, REMOTE_READS);
}

static void await_value(struct side *s, struct fid_cntr *cntr, uint64_t value, uint64_t errors)
{
	double late = 0;

	while (fi_cntr_read(cntr) != value || fi_cntr_readerr(cntr) != errors) {
		progress(s);
		late_at(HERE, &late, "a counter's value");
	}
}

static void by_hand(struct side *s)
{
	struct fid_cntr *cntr = open_counter(s, FI_WAIT_NONE);

	OK(fi_cntr_add(cntr, 5));
	await_value(s, cntr, 5, 0);
	OK(fi_cntr_add(cntr, 1ull << 40));
	await_value(s, cntr, (1ull << 40) + 5, 0);
	OK(fi_cntr_adderr(cntr, 3));
	await_value(s, cntr, (1ull << 40) + 5, 3);
	OK(fi_cntr_set(cntr, 7));
	await_value(s, cntr, 7, 3);
	OK(fi_cntr_seterr(cntr, 1));
	await_value(s, cntr, 7, 1);
	OK(fi_cntr_set(cntr, 0));
	OK(fi_cntr_seterr(cntr, 0));
	await_value(s, cntr, 0, 0);
	OK(fi_close(&cntr->fid));
}

/* What happens later starts from what was set. */
static void set_and_counted(struct side *s)
{
	struct fid_cntr *cntr[KINDS];

	open_counters(s, cntr, RECEIVES + 1, FI_WAIT_NONE);
	OK(fi_cntr_set(cntr[SENDS], 100));
	await_value(s, cntr[SENDS], 100, 0);
	barrier(s);
	for (int i = 0; i < 5; i++) {
		OK(fi_recv(s->ep, s->in, LEN, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
		POST(s, fi_inject(s->ep, s->out, 8, s->peer));
	}
	COUNTED(s, cntr[SENDS], 105);
	COUNTED(s, cntr[RECEIVES], 5);
	close_counters(s, cntr, RECEIVES + 1);
}

static void wait(struct side *s)
{
	struct fid_cntr *cntr[KINDS];
	struct fi_cq_err_entry err;
	double start;

	open_counters(s, cntr, RECEIVES + 1, FI_WAIT_UNSPEC);
	start = now();
	EQUAL(fi_cntr_wait(cntr[RECEIVES], 1, 100), -FI_ETIMEDOUT);
	CHECK(now() - start >= 0.099);
	EQUAL(fi_cntr_readerr(cntr[RECEIVES]), 0);
	EQUAL(fi_cntr_wait(cntr[RECEIVES], 1, 0), -FI_ETIMEDOUT);
	OK(fi_cntr_wait(cntr[RECEIVES], 0, 0));
	OK(fi_cntr_wait(cntr[RECEIVES], 0, -1));
	for (int i = 0; s->role == 1 && i < 11; i++)
		OK(fi_recv(s->ep, s->in, i < 10 ? 64 : 4, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	if (s->role == 0) {
		for (int i = 0; i < 10; i++)
			POST(s, fi_inject(s->ep, s->out, 8, s->peer));
		OK(fi_cntr_wait(cntr[SENDS], 10, 20000));
		barrier(s);
		/* A wait is unblocked by errors that come while it lasts. */
		usleep(200000);
		POST(s, fi_inject(s->ep, s->out, 8, s->peer));
	} else {
		/* Not all of them at once. */
		OK(fi_cntr_wait(cntr[RECEIVES], 3, 20000));
		OK(fi_cntr_wait(cntr[RECEIVES], 10, -1));
		EQUAL(fi_cntr_read(cntr[RECEIVES]), 10);
		for (int i = 0; i < 10; i++)
			FINISHED(s, s->rx, &s->ctx[i], FI_MSG | FI_RECV, 8);
		barrier(s);
		/* The last one is too long for its buffer, and there is no success to wait for. */
		if (!fi_cntr_readerr(cntr[RECEIVES]))
			EQUAL(fi_cntr_wait(cntr[RECEIVES], 11, 20000), -FI_EAVAIL);
		EQUAL(fi_cntr_read(cntr[RECEIVES]), 10);
		EQUAL(fi_cntr_readerr(cntr[RECEIVES]), 1);
		ERROR(s, s->rx, FI_ETRUNC, &s->ctx[10], &err);
	}
	close_counters(s, cntr, RECEIVES + 1);
}

static void bad_binds(struct side *s)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .flags = 1ull << 33 };
	struct fid_cntr *cntr, *other = NULL;

	CHECK(fi_cntr_open(s->domain, &attr, &other, NULL) < 0);
	CHECK(!other);
	side_close(s);
	side_info(s);
	side_objects(s);
	cntr = open_counter(s, FI_WAIT_NONE);
	other = open_counter(s, FI_WAIT_NONE);
	EQUAL(fi_ep_bind(s->ep, &cntr->fid, FI_TAGGED), -FI_EBADFLAGS);
	OK(fi_ep_bind(s->ep, &cntr->fid, FI_SEND));
	EQUAL(fi_ep_bind(s->ep, &other->fid, FI_SEND), -FI_EINVAL);
	OK(fi_ep_bind(s->ep, &other->fid, FI_RECV));
	EQUAL(fi_close(&s->domain->fid), -FI_EBUSY);
	OK(fi_close(&s->ep->fid));
	s->ep = NULL;
	OK(fi_close(&cntr->fid));
	OK(fi_close(&other->fid));
	side_close(s);
}

static void open_bad_binds(struct side *s)
{
	side_open(s);
	barrier(s);
	bad_binds(s);
}

/* The same transfers as bytes. */
static void bytes(struct side *s)
{
	struct fi_cntr_attr attr = { .events = EVENTS_BYTES };
	struct fid_cntr *sent, *received;

	side_info(s);
	side_objects(s);
	OK(fi_cntr_open(s->domain, &attr, &sent, NULL));
	OK(fi_cntr_open(s->domain, &attr, &received, NULL));
	OK(fi_ep_bind(s->ep, &sent->fid, FI_SEND));
	OK(fi_ep_bind(s->ep, &received->fid, FI_RECV));
	side_connect(s);
	side_buffers(s);
	OK(fi_recv(s->ep, s->in, LEN, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
	OK(fi_recv(s->ep, s->in + LEN, ARENA - LEN, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
	barrier(s);
	POST(s, fi_inject(s->ep, s->out, 50, s->peer));
	POST(s, fi_send(s->ep, s->out, 50000, s->out_desc, s->peer, &s->ctx[2]));
	COUNTED(s, sent, 50050);
	COUNTED(s, received, 50050);
	barrier(s);
	OK(fi_close(&s->ep->fid));
	s->ep = NULL;
	OK(fi_close(&sent->fid));
	OK(fi_close(&received->fid));
	side_close(s);
}

static const struct conformance_case counters_cases[] = {
	{ "kinds", "fi_endpoint(3)", "A counter counts the operations of the kinds it is bound for, injected ones too.",
	  ALL, EP_RDM, VARY_MR | VARY_PROGRESS | VARY_THREADING, 1, NULL, kinds },
	{ "without-entries", "fi_cntr(3)", "Operations that write no entry are counted.",
	  ALL, EP_RDM, 0, 1, want_selective, kinds },
	{ "remote-kinds", "fi_endpoint(3)", "With FI_RMA_EVENT, what peers do to one's memory is counted.",
	  ALL | FI_RMA_EVENT, EP_RDM, VARY_MR | VARY_PROGRESS, 1, NULL, remote_kinds },
	{ "one-counter", "fi_endpoint(3)", "One counter may be bound for several kinds, and counts them together.",
	  ALL, EP_RDM, 0, 1, NULL, one_counter },
	{ "failures", "fi_cntr(3)", "A failed operation adds to the error value and not to the other.",
	  FI_MSG | FI_RMA, EP_RDM, VARY_MR, 1, NULL, failures },
	{ "by-hand", "fi_cntr(3)", "Both values can be set and added to.",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, by_hand },
	{ "set-and-counted", "fi_cntr(3)", "Operations add to a value that was set.",
	  FI_MSG, EP_RDM, 0, 1, NULL, set_and_counted },
	{ "wait", "fi_cntr(3)", "A wait ends at its threshold, by its timeout (FI_ETIMEDOUT) or by an error (FI_EAVAIL).",
	  FI_MSG, EP_RDM, VARY_PROGRESS | VARY_THREADING, 1, NULL, wait },
	{ "bad-binds", "fi_endpoint(3)", "Unknown flags (FI_EBADFLAGS) and a second counter of a kind (FI_EINVAL) are refused; what is bound is busy.",
	  FI_MSG, EP_RDM, 0, 1, NULL, open_bad_binds },
	{ "bytes", "fi_cntr(3)", "A counter of FI_CNTR_EVENTS_BYTES adds the bytes transferred.",
	  FI_MSG, EP_RDM, 0, 1, NULL, bytes },
};
GROUP(counters);
