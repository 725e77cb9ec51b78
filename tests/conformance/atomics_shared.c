/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Atomic operations in vectors, and both sides at the same word of side 1. */
#include "groups.h"
#include "remote.h"
#include "settings.h"

/* Fewer on devices that are slow. */
#define ROUNDS	(settings.brief ? 100 : 10000)

/* Side 1 reaches its own memory as a peer would, where it can. */
static fi_addr_t target(const struct side *s)
{
	return s->role ? s->self : s->peer;
}

static struct region shared(const struct side *s, const struct remote *r)
{
	return s->role ? r->near : r->far;
}

static void clear(struct side *s, struct remote *r)
{
	remote_open(s, r);
	if (s->role == 1)
		memset(s->in, 0, 4096);
	barrier(s);
}

static void fetch(struct side *s, struct region at, enum fi_op op, uint64_t operand, uint64_t *old)
{
	uint64_t *out = (uint64_t *) s->out, *result = (uint64_t *) (s->in + 8192);

	*out = operand;
	POST(s, fi_fetch_atomic(s->ep, out, 1, s->out_desc, result, s->in_desc, target(s), at.addr,
				at.key, FI_UINT64, op, &s->ctx[0]));
	FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 8);
	*old = *(volatile uint64_t *) result;
}

/* Each old value is seen once, so they grow. */
static void sum(struct side *s)
{
	struct remote r;
	struct region at;
	uint64_t old, last = 0;

	clear(s, &r);
	at = shared(s, &r);
	for (int i = 0; i < ROUNDS; i++) {
		fetch(s, at, FI_SUM, 1, &old);
		CHECK(i == 0 || old > last);
		last = old;
	}
	barrier(s);
	if (s->role == 1)
		EQUAL(*(uint64_t *) s->in, 2 * ROUNDS);
	remote_close(s, &r);
}

/* Adding without fetching, by the injecting call too; then both wait for the total. */
static void blind_sum(struct side *s)
{
	const uint64_t one = 1;
	struct remote r;
	struct region at;
	uint64_t old = 0;
	double late = 0;

	clear(s, &r);
	at = shared(s, &r);
	*(uint64_t *) s->out = 1;
	for (int i = 0; i < ROUNDS / 2; i++) {
		POST(s, fi_inject_atomic(s->ep, &one, 1, target(s), at.addr, at.key, FI_UINT64,
					 FI_SUM));
		POST(s, fi_atomic(s->ep, s->out, 1, s->out_desc, target(s), at.addr, at.key,
				  FI_UINT64, FI_SUM, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 8);
	}
	/* Side 1 is done long before, and would keep the processor busy. */
	barrier(s);
	while (old != 2 * ROUNDS) {
		progress(s);
		fetch(s, at, FI_ATOMIC_READ, 0, &old);
		late_at(HERE, &late, "the sum");
	}
	QUIET(s, s->tx);
	remote_close(s, &r);
}

/* A lock made of compare-and-swap guards a plain read and write. */
static void lock(struct side *s)
{
	const int times = settings.brief ? 20 : 300;
	struct remote r;
	struct region at, guarded;
	uint64_t *out = (uint64_t *) s->out, *result = (uint64_t *) (s->in + 8192), old;

	clear(s, &r);
	at = guarded = shared(s, &r);
	guarded.addr += 64;
	for (int i = 0; i < times; i++) {
		double late = 0;

		do {
			out[0] = (uint64_t) s->role + 1;
			out[1] = 0;
			POST(s, fi_compare_atomic(s->ep, out, 1, s->out_desc, out + 1, s->out_desc,
						  result, s->in_desc, target(s), at.addr, at.key,
						  FI_UINT64, FI_CSWAP, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 8);
			progress(s);
			late_at(HERE, &late, "the lock");
		} while (*(volatile uint64_t *) result != 0);
		fetch(s, guarded, FI_ATOMIC_READ, 0, &old);
		fetch(s, guarded, FI_ATOMIC_WRITE, old + 1, &old);
		fetch(s, at, FI_ATOMIC_WRITE, 0, &old);
		EQUAL(old, s->role + 1);
	}
	barrier(s);
	if (s->role == 1)
		EQUAL(*(uint64_t *) (s->in + 64), 2 * times);
	remote_close(s, &r);
}

/* Two pieces here and two there, in each family; two is within any provider's limits of four. */
static void vectors(struct side *s)
{
	uint32_t *operand = (uint32_t *) s->out, *compare = operand + 16;
	uint32_t *result = (uint32_t *) (s->in + 8192);
	struct fi_ioc ops[2] = { { operand, 1 }, { operand + 1, 3 } };
	struct fi_ioc compares[2] = { { compare, 3 }, { compare + 3, 1 } };
	struct fi_ioc results[2] = { { result, 2 }, { result + 2, 2 } };
	void *out_desc[2] = { s->out_desc, s->out_desc }, *in_desc[2] = { s->in_desc, s->in_desc };
	struct fi_rma_ioc far[2];
	struct fi_msg_atomic msg = {
		.msg_iov = ops, .desc = out_desc, .iov_count = 2, .addr = s->peer, .rma_iov = far,
		.rma_iov_count = 2, .datatype = FI_UINT32, .op = FI_SUM, .context = &s->ctx[0],
	};
	struct remote r;

	clear(s, &r);
	far[0] = (struct fi_rma_ioc) { r.far.addr + 64, 2, r.far.key };
	far[1] = (struct fi_rma_ioc) { r.far.addr + 128, 2, r.far.key };
	if (s->role == 0 && s->info->tx_attr->iov_limit >= 2 &&
	    s->info->tx_attr->rma_iov_limit >= 2) {
		for (uint32_t i = 0; i < 4; i++) {
			operand[i] = i + 1;
			compare[i] = 10 * (i + 1);
		}
		for (int i = 0; i < 10; i++) {
			POST(s, fi_atomicmsg(s->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
			FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 16);
		}
		/* Tenfold, as compared with. */
		msg.op = FI_CSWAP;
		POST(s, fi_compare_atomicmsg(s->ep, &msg, compares, out_desc, 2, results, in_desc, 2,
					     FI_COMPLETION));
		FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 16);
		for (uint32_t i = 0; i < 4; i++)
			EQUAL(result[i], 10 * (i + 1));
		msg.op = FI_ATOMIC_READ;
		msg.msg_iov = NULL;
		msg.iov_count = 0;
		POST(s, fi_fetch_atomicmsg(s->ep, &msg, results, in_desc, 2, FI_COMPLETION));
		FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 16);
		for (uint32_t i = 0; i < 4; i++)
			EQUAL(result[i], i + 1);

		/* The calls with one place there. */
		POST(s, fi_atomicv(s->ep, ops, out_desc, 2, s->peer, r.far.addr, r.far.key, FI_UINT32,
				   FI_ATOMIC_WRITE, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 16);
		POST(s, fi_fetch_atomicv(s->ep, ops, out_desc, 2, results, in_desc, 2, s->peer,
					 r.far.addr, r.far.key, FI_UINT32, FI_SUM, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 16);
		for (uint32_t i = 0; i < 4; i++)
			EQUAL(result[i], i + 1);
		POST(s, fi_compare_atomicv(s->ep, ops, out_desc, 2, compares, out_desc, 2, results,
					   in_desc, 2, s->peer, r.far.addr, r.far.key, FI_UINT32,
					   FI_CSWAP_NE, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 16);
		for (uint32_t i = 0; i < 4; i++)
			EQUAL(result[i], 2 * (i + 1));
		QUIET(s, s->tx);
	}
	remote_close(s, &r);
}

/* The target can see the result when the initiator hears of it. */
static void delivery(struct side *s)
{
	struct fi_ioc piece = { s->out, 4 };
	struct fi_rma_ioc far;
	struct fi_msg_atomic msg = {
		.msg_iov = &piece, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.rma_iov = &far, .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM,
		.context = &s->ctx[0],
	};
	struct remote r;
	size_t most = 0, count;

	clear(s, &r);
	far = (struct fi_rma_ioc) { r.far.addr, 4, r.far.key };
	OK(fi_atomicvalid(s->ep, FI_UINT64, FI_SUM, &most));
	piece.count = far.count = count = most < 4 ? most : 4;
	for (uint64_t i = 0; i < count; i++)
		((uint64_t *) s->out)[i] = i + 1;
	for (uint64_t round = 1; round <= 50; round++) {
		if (s->role == 0) {
			POST(s, fi_atomicmsg(s->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
			FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, 8 * count);
		}
		barrier(s);
		for (uint64_t i = 0; s->role == 1 && i < count; i++)
			EQUAL(((volatile uint64_t *) s->in)[i], round * (i + 1));
		barrier(s);
	}
	remote_close(s, &r);
}

/* The operand can be reused at once, and nothing is written to the queue. */
static void inject(struct side *s)
{
	struct remote r;
	uint64_t operand[4];
	size_t count = 0;

	clear(s, &r);
	OK(fi_atomicvalid(s->ep, FI_UINT64, FI_SUM, &count));
	count = count < 4 ? count : 4;
	for (uint32_t round = 0; s->role == 0 && round < 100; round++) {
		for (uint32_t i = 0; i < count; i++)
			operand[i] = i + 1;
		POST(s, fi_inject_atomic(s->ep, operand, count, s->peer, r.far.addr, r.far.key,
					 FI_UINT64, FI_SUM));
		memset(operand, 0xff, sizeof(operand));
	}
	QUIET(s, s->tx);
	for (uint32_t i = 0; s->role == 1 && i < count; i++) {
		double late = 0;

		while (((volatile uint64_t *) s->in)[i] != 100 * (i + 1)) {
			progress(s);
			late_at(HERE, &late, "an injected sum");
		}
	}
	QUIET(s, s->rx);
	remote_close(s, &r);
}

static const struct conformance_case atomics_shared_cases[] = {
	{ "sum", "fi_atomic(3)", "Additions of several endpoints to one word are never lost, and each old value is seen once.",
	  FI_ATOMIC, EP_RDM, VARY_THREADING | VARY_PROGRESS, 0, NULL, sum },
	{ "blind-sum", "fi_atomic(3)", "Additions that fetch nothing are not lost either.",
	  FI_ATOMIC, EP_RDM, VARY_PROGRESS, 0, NULL, blind_sum },
	{ "lock", "fi_atomic(3)", "A compare-and-swap succeeds for one of several endpoints.",
	  FI_ATOMIC, EP_RDM, VARY_PROGRESS, 0, NULL, lock },
	{ "vectors", "fi_atomic(3)", "Pieces of operands, comparison values, results and targets need not have the same bounds.",
	  FI_ATOMIC, EP_RELIABLE, VARY_MR | VARY_FORMAT, 0, NULL, vectors },
	{ "delivery-complete", "fi_cq(3)", "FI_DELIVERY_COMPLETE of an atomic: complete once the target can see it.",
	  FI_ATOMIC, EP_RELIABLE, VARY_MR | VARY_PROGRESS, 0, NULL, delivery },
	{ "inject", "fi_atomic(3)", "Operands of an injected atomic can be reused at once, and nothing is written to the queue.",
	  FI_ATOMIC, EP_RELIABLE, VARY_MR, 0, NULL, inject },
};
GROUP(atomics_shared);
