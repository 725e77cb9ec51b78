/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One-sided operations that must fail: one error each, and no harm to anybody. */
#include "groups.h"
#include "remote.h"
#include "traffic.h"

/* Lengths that take different ways to the target. */
static const size_t lengths[] = { 8, 3000, 100000 };

#define LENGTHS		(sizeof(lengths) / sizeof(lengths[0]))
#define SEED		9

static void refused_write(const char *at, struct side *s, size_t len, uint64_t addr, uint64_t key,
			  int reason)
{
	/* At other levels a write may be complete before the target has looked at it. */
	POST(s, write_with(s, s->out, len, addr, key, FI_DELIVERY_COMPLETE | FI_COMPLETION, 0,
			   &s->ctx[3]));
	refused_at(at, s, reason, FI_RMA | FI_WRITE, &s->ctx[3]);
}

static void refused_read(const char *at, struct side *s, size_t len, uint64_t addr, uint64_t key,
			 int reason)
{
	memset(s->in, 0xee, len);
	POST(s, fi_read(s->ep, s->in, len, s->in_desc, s->peer, addr, key, &s->ctx[4]));
	refused_at(at, s, reason, FI_RMA | FI_READ, &s->ctx[4]);
	for (size_t i = 0; i < len; i++)
		EQUAL(s->in[i], 0xee);
}

#define REFUSED_WRITE(...)	refused_write(HERE, __VA_ARGS__)
#define REFUSED_READ(...)	refused_read(HERE, __VA_ARGS__)

/* The endpoint goes on, and the target's memory is as it was. */
static void still_works(struct side *s, const struct remote *r)
{
	if (s->role == 0) {
		POST(s, fi_read(s->ep, s->in, 5000, s->in_desc, s->peer, r->far.addr, r->far.key,
				&s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_READ, 5000);
		FILLED(s->in, 5000, SEED);
	}
	barrier(s);
	if (s->role == 1) {
		FILLED(s->in, ARENA, SEED);
		QUIET(s, s->rx);
	}
}

static void open_filled(struct side *s, struct remote *r)
{
	fill(s->in, ARENA, SEED);
	remote_open(s, r);
	barrier(s);
}

static void unknown_key(struct side *s)
{
	struct remote r;

	open_filled(s, &r);
	for (size_t i = 0; s->role == 0 && i < LENGTHS; i++) {
		REFUSED_WRITE(s, lengths[i], r.far.addr, r.far.key + 12345, FI_ENOKEY);
		REFUSED_READ(s, lengths[i], r.far.addr, r.far.key + 12345, FI_ENOKEY);
	}
	still_works(s, &r);
	remote_close(s, &r);
}

/* The region was used before it is closed. */
static void closed_key(struct side *s)
{
	struct region near, far;
	struct fid_mr *mr;
	struct remote r;

	open_filled(s, &r);
	mr = side_register(s, s->in, ARENA, REMOTE_ACCESS, 0x99);
	near = (struct region) { 0, fi_mr_key(mr) };
	swap(s, &near, &far, sizeof(near));
	if (s->role == 0) {
		POST(s, fi_read(s->ep, s->in, 100, s->in_desc, s->peer, r.far.addr, far.key,
				&s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_READ, 100);
	}
	barrier(s);
	OK(fi_close(&mr->fid));
	barrier(s);
	for (size_t i = 0; s->role == 0 && i < LENGTHS; i++) {
		REFUSED_WRITE(s, lengths[i], r.far.addr, far.key, FI_ENOKEY);
		REFUSED_READ(s, lengths[i], r.far.addr, far.key, FI_ENOKEY);
	}
	still_works(s, &r);
	remote_close(s, &r);
}

static void out_of_range(struct side *s)
{
	struct remote r;

	open_filled(s, &r);
	for (size_t i = 0; s->role == 0 && i < LENGTHS; i++) {
		const size_t len = lengths[i];

		REFUSED_WRITE(s, len, r.far.addr + ARENA - len + 1, r.far.key, FI_EINVAL);
		REFUSED_READ(s, len, r.far.addr + ARENA - len + 1, r.far.key, FI_EINVAL);
		REFUSED_WRITE(s, len, r.far.addr + ARENA, r.far.key, FI_EINVAL);
		REFUSED_READ(s, len, r.far.addr + ARENA, r.far.key, FI_EINVAL);
		REFUSED_WRITE(s, len, r.far.addr - 1, r.far.key, FI_EINVAL);
		REFUSED_READ(s, len, r.far.addr - 1, r.far.key, FI_EINVAL);
	}
	still_works(s, &r);
	remote_close(s, &r);
}

/* The end of the range is beyond the last address. */
static void overflow(struct side *s)
{
	const uint64_t addresses[] = { ~0ull - 7, ~0ull, ~0ull - 99999, 1ull << 63 };
	struct remote r;

	open_filled(s, &r);
	for (size_t i = 0; s->role == 0 && i < 4; i++) {
		REFUSED_WRITE(s, 64, addresses[i], r.far.key, FI_EINVAL);
		REFUSED_READ(s, 64, addresses[i], r.far.key, FI_EINVAL);
		REFUSED_WRITE(s, 100000, addresses[i], r.far.key, FI_EINVAL);
		REFUSED_READ(s, 100000, addresses[i], r.far.key, FI_EINVAL);
	}
	still_works(s, &r);
	remote_close(s, &r);
}

static void wrong_access(struct side *s)
{
	struct { uint64_t readable, writable, local; } near, far;
	struct fid_mr *mr[3];
	struct remote r;

	open_filled(s, &r);
	mr[0] = side_register(s, s->in, ARENA, FI_REMOTE_READ, 0x101);
	mr[1] = side_register(s, s->in, ARENA, FI_REMOTE_WRITE, 0x102);
	mr[2] = side_register(s, s->in, ARENA, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0x103);
	near.readable = fi_mr_key(mr[0]);
	near.writable = fi_mr_key(mr[1]);
	near.local = fi_mr_key(mr[2]);
	swap(s, &near, &far, sizeof(near));
	for (size_t i = 0; s->role == 0 && i < LENGTHS; i++) {
		REFUSED_WRITE(s, lengths[i], r.far.addr, far.readable, FI_EACCES);
		REFUSED_READ(s, lengths[i], r.far.addr, far.writable, FI_EACCES);
		if (far.local == FI_KEY_NOTAVAIL)
			continue;
		REFUSED_WRITE(s, lengths[i], r.far.addr, far.local, FI_EACCES);
		REFUSED_READ(s, lengths[i], r.far.addr, far.local, FI_EACCES);
	}
	still_works(s, &r);
	barrier(s);
	for (int i = 0; i < 3; i++)
		OK(fi_close(&mr[i]->fid));
	remote_close(s, &r);
}

/* It may be out of sight when it fails; if that is told, then as an error. */
static void failed_inject(struct side *s)
{
	struct remote r;

	open_filled(s, &r);
	if (s->role == 0) {
		int errors = 0, done = 0, ended = 0;
		double late = 0;

		POST(s, fi_inject_write(s->ep, s->out, 8, s->peer, r.far.addr, r.far.key + 12345));
		POST(s, fi_read(s->ep, s->in, 5000, s->in_desc, s->peer, r.far.addr, r.far.key,
				&s->ctx[0]));
		for (int rounds = 0; !done || rounds < 1000; rounds += done) {
			struct fi_cq_tagged_entry entry;
			struct fi_cq_err_entry err = { 0 };
			const ssize_t got = fi_cq_read(s->tx, &entry, 1);

			progress(s);
			if (got == 1) {
				CHECK(entry.op_context == &s->ctx[0] && !done++);
			} else if (got == -FI_EAVAIL) {
				EQUAL(fi_cq_readerr(s->tx, &err, 0), 1);
				/* A device's connection ends with it, and what is behind it, too. */
				ended = looks_by_itself(s) && err.op_context == &s->ctx[0];
				if (ended) {
					CHECK(!done++);
					continue;
				}
				CHECK(err.err == FI_ENOKEY || (looks_by_itself(s) && refusal(err.err)));
				EQUAL(++errors, 1);
			} else {
				EQUAL(got, -FI_EAGAIN);
				late_at(HERE, &late, "a read");
			}
		}
		if (ended) {
			POST(s, fi_read(s->ep, s->in, 5000, s->in_desc, s->peer, r.far.addr,
					r.far.key, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_READ, 5000);
		}
		FILLED(s->in, 5000, SEED);
	}
	barrier(s);
	if (s->role == 1)
		FILLED(s->in, ARENA, SEED);
	remote_close(s, &r);
}

/* One bad piece of two: an error for the operation as a whole. */
static void one_bad_piece(struct side *s)
{
	struct iovec iov = { s->out, 2000 };
	struct fi_rma_iov far[2];
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.rma_iov = far, .rma_iov_count = 2, .context = &s->ctx[5],
	};
	struct remote r;

	open_filled(s, &r);
	if (s->info->tx_attr->rma_iov_limit >= 2 && s->role == 0) {
		far[0] = (struct fi_rma_iov) { r.far.addr, 1000, r.far.key };
		far[1] = (struct fi_rma_iov) { r.far.addr + 1000, 1000, r.far.key + 12345 };
		REFUSED(s, fi_readmsg(s->ep, &msg, FI_COMPLETION), FI_ENOKEY, FI_RMA | FI_READ, &s->ctx[5]);
		REFUSED(s, fi_writemsg(s->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION),
			FI_ENOKEY, FI_RMA | FI_WRITE, &s->ctx[5]);
		far[1] = (struct fi_rma_iov) { r.far.addr + ARENA - 999, 1000, r.far.key };
		REFUSED(s, fi_readmsg(s->ep, &msg, FI_COMPLETION), FI_EINVAL, FI_RMA | FI_READ, &s->ctx[5]);
	}
	remote_close(s, &r);
}

/*
 * The same on connections, one for each access: some have no word for a refusal but their end, so
 * only that there is one error is sure.
 */
static void on_connection(struct side *s)
{
	static const struct { int writes; uint64_t key, offset; size_t len; } accesses[] = {
		{ 0, 12345, 0, 8 }, { 1, 12345, 0, 8 }, { 0, 12345, 0, 100000 },
		{ 1, 12345, 0, 100000 }, { 0, 0, ARENA - 7, 8 }, { 1, 0, ARENA - 7, 8 },
		{ 0, 0, ARENA - 99999, 100000 }, { 1, 0, ARENA - 99999, 100000 },
		{ 0, 0, -(uint64_t) 1, 8 }, { 1, 0, -(uint64_t) 1, 8 },
	};
	const struct side fresh = *s;

	for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++) {
		const uint64_t len = accesses[i].len;
		struct remote r;

		*s = fresh;
		side_open(s);
		open_filled(s, &r);
		if (s->role == 0) {
			const uint64_t addr = r.far.addr + accesses[i].offset;
			const uint64_t key = r.far.key + accesses[i].key;
			struct fi_cq_err_entry err;
			struct done done;

			memset(s->out, 0xee, len);
			if (accesses[i].writes)
				POST(s, write_with(s, s->out, len, addr, key,
						   FI_DELIVERY_COMPLETE | FI_COMPLETION, 0,
						   &s->ctx[1]));
			else
				POST(s, fi_read(s->ep, s->out, len, s->out_desc, s->peer, addr, key,
						&s->ctx[1]));
			EQUAL(OUTCOME(s, s->tx, &done, &err), 0);
			CHECK(err.op_context == &s->ctx[1]);
			CHECK(err.err > 0);
			EQUAL(err.flags & FI_RMA, FI_RMA);
			QUIET(s, s->tx);
			for (size_t k = 0; k < len; k++)
				EQUAL(s->out[k], 0xee);
		}
		barrier(s);
		if (s->role == 1) {
			FILLED(s->in, ARENA, SEED);
			QUIET(s, s->rx);
		}
		remote_close(s, &r);
		side_close(s);
	}
}

/* The target's endpoint is closed after it has been used. What was under way or comes later fails; others are served. */
static void target_gone(struct side *s)
{
	unsigned pending = 0;
	struct remote r;
	ssize_t got;

	open_filled(s, &r);
	if (s->role == 0) {
		POST(s, fi_read(s->ep, s->out, 5000, s->out_desc, s->peer, r.far.addr, r.far.key,
				&s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_READ, 5000);
	}
	barrier(s);
	if (s->role == 1) {
		OK(fi_close(&r.mr->fid));
		side_close(s);
		barrier(s);
		barrier(s);
		return;
	}
	barrier(s);
	for (size_t i = 0; i < LENGTHS; i++) {
		got = fi_read(s->ep, s->out, lengths[i], s->out_desc, s->peer, r.far.addr, r.far.key,
			      &s->ctx[i]);
		/* Known at once or later, but once. */
		pending |= (unsigned) !got << i;
	}
	while (pending) {
		struct fi_cq_err_entry err;
		struct done done;
		size_t which;

		EQUAL(OUTCOME(s, s->tx, &done, &err), 0);
		which = (size_t) ((struct fi_context2 *) err.op_context - s->ctx);
		CHECK(which < LENGTHS && pending & 1u << which);
		pending &= ~(1u << which);
		CHECK(err.err > 0);
	}
	QUIET(s, s->tx);
	POST(s, fi_read(s->ep, s->out, 5000, s->out_desc, s->self, r.near.addr, r.near.key,
			&s->ctx[0]));
	FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_READ, 5000);
	FILLED(s->out, 5000, SEED);
	barrier(s);
	OK(fi_close(&r.mr->fid));
	side_close(s);
}

static void open_then_lose(struct side *s)
{
	side_open(s);
	target_gone(s);
}

static const struct conformance_case rma_errors_cases[] = {
	{ "unknown-key", "fi_mr(3)", "A key that no region has is an error of the initiator's (FI_ENOKEY).",
	  FI_RMA, EP_RDM, VARY_MR | VARY_FORMAT, 0, NULL, unknown_key },
	{ "closed-key", "fi_mr(3)", "The key of a closed region is one that no region has.",
	  FI_RMA, EP_RDM, VARY_MR, 0, NULL, closed_key },
	{ "out-of-range", "fi_mr(3)", "A range that leaves its region is an error (FI_EINVAL), and no byte is touched.",
	  FI_RMA, EP_RDM, VARY_MR | VARY_PROGRESS, 0, NULL, out_of_range },
	{ "overflow", "fi_mr(3)", "A range beyond the last address is out of range, too.",
	  FI_RMA, EP_RDM, VARY_MR, 0, NULL, overflow },
	{ "wrong-access", "fi_mr(3)", "A region is read or written only as its access bits say (FI_EACCES).",
	  FI_RMA, EP_RDM, VARY_MR, 0, NULL, wrong_access },
	{ "failed-inject", "fi_cq(3)", "An injected operation that fails writes no success, and at most one error.",
	  FI_RMA, EP_RDM, VARY_MR, 0, NULL, failed_inject },
	{ "one-bad-piece", "fi_rma(3)", "One bad remote piece is an error of the operation.",
	  FI_RMA, EP_RDM, VARY_MR, 0, NULL, one_bad_piece },
	{ "on-connection", "fi_cq(3)", "On a connection, a refused access is one error, too, and touches nothing.",
	  FI_RMA, EP_MSG, VARY_MR, 1, NULL, on_connection },
	{ "target-gone", "fi_cq(3)", "Each operation on an endpoint that is gone fails once; others go on.",
	  FI_RMA, EP_RDM, VARY_MR, 1, NULL, open_then_lose },
};
GROUP(rma_errors);
