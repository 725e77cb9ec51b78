/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Atomic operations of both sides; unless said otherwise side 0 acts on memory of side 1. */
#include "groups.h"

#include "atomic_model.h"
#include "remote.h"
#include "traffic.h"

#define OPS		32	/* beyond the last one */
#define RESULT		4096	/* offsets into the buffers */
#define COMPARED	8192

/* FI_DELIVERY_COMPLETE: else it may be complete before the target has looked at it. */
static ssize_t update(struct side *s, const struct region *at, size_t count, enum fi_datatype type,
		      enum fi_op op)
{
	struct fi_ioc piece = { s->out, count };
	struct fi_rma_ioc far = { at->addr, count, at->key };
	struct fi_msg_atomic msg = {
		.msg_iov = &piece, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.rma_iov = &far, .rma_iov_count = 1, .datatype = type, .op = op,
		.context = &s->ctx[0],
	};

	return fi_atomicmsg(s->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION);
}

static ssize_t post(struct side *s, enum family family, const struct region *at, size_t count,
		    enum fi_datatype type, enum fi_op op, fi_addr_t to)
{
	unsigned char *operand = op == FI_ATOMIC_READ ? NULL : s->out;

	switch (family) {
	case BASE:
		return fi_atomic(s->ep, operand, count, s->out_desc, to, at->addr, at->key, type, op,
				 &s->ctx[0]);
	case FETCH:
		return fi_fetch_atomic(s->ep, operand, count, s->out_desc, s->in + RESULT,
				       s->in_desc, to, at->addr, at->key, type, op, &s->ctx[0]);
	default:
		return fi_compare_atomic(s->ep, operand, count, s->out_desc, s->out + COMPARED,
					 s->out_desc, s->in + RESULT, s->in_desc, to, at->addr,
					 at->key, type, op, &s->ctx[0]);
	}
}

static int valid(struct side *s, enum family family, enum fi_datatype type, enum fi_op op,
		 size_t *count)
{
	return family == BASE ? fi_atomicvalid(s->ep, type, op, count) :
	       family == FETCH ? fi_fetch_atomicvalid(s->ep, type, op, count) :
	       fi_compare_atomicvalid(s->ep, type, op, count);
}

static const uint64_t query_flags[] = { 0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC };

/* The values of the target, behind the operation, whose completion need not mean that it is done. */
static void read_back(struct side *s, const struct remote *r, const struct model *model, size_t count)
{
	const size_t bytes = count * model->size;
	size_t most;

	if (!valid(s, FETCH, model->type, FI_ATOMIC_READ, &most)) {
		POST(s, post(s, FETCH, &r->far, count, model->type, FI_ATOMIC_READ, s->peer));
		FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, bytes);
	} else {
		POST(s, read_with(s, s->in + RESULT, bytes, r->far.addr, r->far.key, FI_COMPLETION,
				  &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_READ, bytes);
	}
}

/* Performs one operation on memory of known values, and compares with the model. */
static void perform(struct side *s, const struct remote *r, const struct model *model,
		    enum family family, enum fi_op op, size_t count)
{
	unsigned char expected[ELEMENTS * 32];
	const size_t bytes = count * model->size;

	/* The target's memory is plain bytes to writes and reads. */
	memcpy(s->out, model->old, bytes);
	POST(s, write_with(s, s->out, bytes, r->far.addr, r->far.key,
			   FI_DELIVERY_COMPLETE | FI_COMPLETION, 0, &s->ctx[1]));
	FINISHED(s, s->tx, &s->ctx[1], FI_RMA | FI_WRITE, bytes);
	memcpy(s->out, model->operand, bytes);
	memcpy(s->out + COMPARED, model->compare, bytes);
	memcpy(expected, model->old, bytes);
	for (size_t i = 0; i < count; i++)
		CHECK(model->apply(family, op, expected + i * model->size,
				   s->out + i * model->size, s->out + COMPARED + i * model->size));
	memset(s->in + RESULT, 0, bytes);
	POST(s, post(s, family, &r->far, count, model->type, op, s->peer));
	FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, bytes);
	for (size_t i = 0; family != BASE && i < count; i++)
		if (!model->equal(s->in + RESULT + i * model->size,
				  (const unsigned char *) model->old + i * model->size))
			FAIL("%s, operation %d, family %d: old value of element %zu", model->name, op,
			     family, i);
	read_back(s, r, model, count);
	for (size_t i = 0; i < count; i++)
		if (!model->equal(s->in + RESULT + i * model->size, expected + i * model->size))
			FAIL("%s, operation %d, family %d: new value of element %zu", model->name, op,
			     family, i);
}

static void table(struct side *s)
{
	struct remote r;
	unsigned performed = 0;

	remote_open(s, &r);
	for (size_t i = 0; s->role == 0 && i < model_count; i++)
		for (enum family family = BASE; family < FAMILIES; family++)
			for (enum fi_op op = 0; op <= FI_MSWAP; op++) {
				unsigned char scratch[32] = { 0 };
				size_t count = 0;

				if (valid(s, family, models[i].type, op, &count))
					continue;
				CHECK(count > 0);
				if (!models[i].apply(family, op, scratch, models[i].operand,
						     models[i].compare))
					FAIL("%s, operation %d, family %d is said to be valid",
					     models[i].name, op, family);
				perform(s, &r, &models[i], family, op,
					count < ELEMENTS ? count : ELEMENTS);
				performed++;
			}
	if (s->role == 0)
		CHECK(performed > 0);
	remote_close(s, &r);
}

/* The two ways to ask agree on everything; and the basics that programs rely on. */
static void queries(struct side *s)
{
	unsigned some = 0;

	for (enum family family = BASE; family < FAMILIES; family++)
		for (unsigned type = 0; type < OPS; type++)
			for (unsigned op = 0; op < OPS; op++) {
				struct fi_atomic_attr attr = { 0, 0 };
				size_t count = 0;
				const int ret = valid(s, family, (enum fi_datatype) type,
						      (enum fi_op) op, &count);

				EQUAL(fi_query_atomic(s->domain, (enum fi_datatype) type,
						      (enum fi_op) op, &attr, query_flags[family]),
				      ret);
				some += !ret;
				if (!ret) {
					EQUAL(attr.count, count);
					CHECK(count > 0);
					CHECK(attr.size == models[type].size);
				} else if (ret != -FI_EINVAL) {
					EQUAL(ret, -FI_EOPNOTSUPP);
				}
			}
	CHECK(some > 0);
	/* Connections may have what a device has, and no more. */
	for (enum fi_datatype type = FI_INT32; s->type == FI_EP_RDM && type <= FI_UINT64; type++) {
		size_t count = 0;

		OK(fi_atomicvalid(s->ep, type, FI_SUM, &count));
		OK(fi_fetch_atomicvalid(s->ep, type, FI_SUM, &count));
		OK(fi_fetch_atomicvalid(s->ep, type, FI_ATOMIC_READ, &count));
		OK(fi_compare_atomicvalid(s->ep, type, FI_CSWAP, &count));
	}
}

static void bad_queries(struct side *s)
{
	static const int numbers[] = { 255, 256, 1 << 16, INT32_MAX };
	struct fi_atomic_attr attr;
	size_t count;

	EQUAL(fi_atomicvalid(s->ep, FI_UINT64, FI_ATOMIC_READ, &count), -FI_EOPNOTSUPP);
	EQUAL(fi_atomicvalid(s->ep, FI_UINT64, FI_CSWAP, &count), -FI_EOPNOTSUPP);
	EQUAL(fi_compare_atomicvalid(s->ep, FI_UINT64, FI_SUM, &count), -FI_EOPNOTSUPP);
	EQUAL(fi_atomicvalid(s->ep, FI_DOUBLE, FI_BAND, &count), -FI_EOPNOTSUPP);
	EQUAL(fi_atomicvalid(s->ep, FI_FLOAT_COMPLEX, FI_MIN, &count), -FI_EOPNOTSUPP);
	for (size_t i = 0; i < 4; i++) {
		const enum fi_datatype type = (enum fi_datatype) numbers[i];
		const enum fi_op op = (enum fi_op) numbers[i];

		EQUAL(fi_atomicvalid(s->ep, type, FI_SUM, &count), -FI_EOPNOTSUPP);
		EQUAL(fi_fetch_atomicvalid(s->ep, FI_UINT8, op, &count), -FI_EOPNOTSUPP);
		EQUAL(fi_compare_atomicvalid(s->ep, type, op, &count), -FI_EOPNOTSUPP);
	}
	EQUAL(fi_query_atomic(s->domain, FI_UINT64, FI_SUM, &attr,
			      FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC), -FI_EBADFLAGS);
	EQUAL(fi_query_atomic(s->domain, FI_UINT64, FI_SUM, &attr, FI_PEEK), -FI_EBADFLAGS);
}

/* What is not valid is not posted either. */
static void refused_posts(struct side *s)
{
	struct remote r;

	remote_open(s, &r);
	if (s->role == 1)
		memset(s->in, 0x11, 4096);
	barrier(s);
	for (enum family family = BASE; s->role == 0 && family < FAMILIES; family++)
		for (unsigned type = 0; type < OPS; type++)
			for (unsigned op = 0; op < OPS; op++) {
				size_t count = 0;
				ssize_t ret;

				if (!valid(s, family, (enum fi_datatype) type, (enum fi_op) op,
					   &count))
					continue;
				while ((ret = post(s, family, &r.far, 1, (enum fi_datatype) type,
						   (enum fi_op) op, s->peer)) == -FI_EAGAIN)
					progress(s);
				if (ret != -FI_EINVAL)
					EQUAL(ret, -FI_EOPNOTSUPP);
			}
	QUIET(s, s->tx);
	barrier(s);
	for (size_t i = 0; s->role == 1 && i < 4096; i++)
		EQUAL(s->in[i], 0x11);
	remote_close(s, &r);
}

/* The first type that can be added to, blindly and fetching. */
static const struct model *addable(struct side *s)
{
	size_t count;

	for (size_t i = 0; i < model_count; i++)
		if (models[i].type <= FI_UINT64 && !valid(s, BASE, models[i].type, FI_SUM, &count) &&
		    !valid(s, FETCH, models[i].type, FI_SUM, &count) &&
		    !valid(s, FETCH, models[i].type, FI_ATOMIC_READ, &count))
			return &models[i];
	not_offered();
}

static void counts(struct side *s)
{
	const struct model *model = addable(s);
	const enum fi_datatype type = model->type;
	const size_t size = model->size;
	struct remote r;
	size_t limit = 0, fetched = 0;

	remote_open(s, &r);
	if (s->role == 0) {
		OK(fi_atomicvalid(s->ep, type, FI_SUM, &limit));
		OK(fi_fetch_atomicvalid(s->ep, type, FI_SUM, &fetched));
		CHECK(limit * size <= ARENA / 2 && fetched * size <= ARENA / 2);
		/* As many as are said to go. */
		memset(s->out, 1, limit * size);
		POST(s, post(s, BASE, &r.far, limit, type, FI_SUM, s->peer));
		FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, limit * size);
		memset(s->in + RESULT, 0xee, fetched * size + 1);
		POST(s, post(s, FETCH, &r.far, fetched, type, FI_ATOMIC_READ, s->peer));
		FINISHED(s, s->tx, &s->ctx[0], FI_ATOMIC, fetched * size);
		for (size_t i = 0; i < fetched * size; i++)
			EQUAL(s->in[RESULT + i], i < limit * size);
		EQUAL(s->in[RESULT + fetched * size], 0xee);
		CHECK(post(s, BASE, &r.far, limit + 1, type, FI_SUM, s->peer) < 0);
		CHECK(post(s, FETCH, &r.far, fetched + 1, type, FI_SUM, s->peer) < 0);
		CHECK(post(s, BASE, &r.far, SIZE_MAX / 8 + 2, FI_UINT64, FI_SUM, s->peer) < 0);
		QUIET(s, s->tx);
	}
	remote_close(s, &r);
}

#define REFUSED_ATOMIC(count, reason) \
	REFUSED(s, family == BASE ? update(s, &bad, count, FI_UINT64, op) : \
		   post(s, family, &bad, count, FI_UINT64, op, s->peer), \
		reason, FI_ATOMIC, &s->ctx[0])

static void errors(struct side *s)
{
	struct fid_mr *mr;
	struct region near, far, bad;
	struct fi_cq_err_entry err;
	struct remote r;
	struct done done;

	remote_open(s, &r);
	mr = side_register(s, s->in, 4096, FI_REMOTE_READ, 0x91);
	near = (struct region) { 0, fi_mr_key(mr) };
	swap(s, &near, &far, sizeof(near));
	if (s->role == 1)
		memset(s->in, 0x22, 4096);
	barrier(s);
	for (enum family family = BASE; s->role == 0 && family < FAMILIES; family++) {
		const enum fi_op op = family == COMPARE ? FI_CSWAP : FI_SUM;
		size_t count;

		if (valid(s, family, FI_UINT64, op, &count))
			continue;
		memset(s->in + RESULT, 0xee, 8);
		if (ends_with_errors(s)) {
			bad = (struct region) { r.far.addr, r.far.key + 12345 };
			POST(s, post(s, family, &bad, 1, FI_UINT64, op, s->peer));
			EQUAL(OUTCOME(s, s->tx, &done, &err), 0);
			CHECK(err.op_context == &s->ctx[0] && refusal(err.err));
			QUIET(s, s->tx);
			break;
		}
		bad = (struct region) { r.far.addr, r.far.key + 12345 };
		REFUSED_ATOMIC(1, FI_ENOKEY);
		bad = (struct region) { r.far.addr + ARENA, r.far.key };
		REFUSED_ATOMIC(1, FI_EINVAL);
		bad = (struct region) { ~0ull - 7, r.far.key };
		REFUSED_ATOMIC(2, FI_EINVAL);
		/* Not where a word can be. */
		bad = (struct region) { r.far.addr + 1, r.far.key };
		REFUSED_ATOMIC(1, FI_EINVAL);
		bad = (struct region) { r.far.addr, far.key };
		REFUSED_ATOMIC(1, FI_EACCES);
		for (size_t i = 0; i < 8; i++)
			EQUAL(s->in[RESULT + i], 0xee);
	}
	barrier(s);
	for (size_t i = 0; s->role == 1 && i < 4096; i++)
		EQUAL(s->in[i], 0x22);
	barrier(s);
	OK(fi_close(&mr->fid));
	remote_close(s, &r);
}

static const struct conformance_case atomics_cases[] = {
	{ "table", "fi_atomic(3)", "Every operation that is valid changes each element as defined; fetching ones give the old value.",
	  FI_ATOMIC | FI_RMA, EP_RELIABLE, VARY_MR | VARY_API, 0, NULL, table },
	{ "queries", "fi_atomic(3)", "All ways to ask what is valid give the same answer for every type, operation and family.",
	  FI_ATOMIC, EP_RELIABLE, 0, 0, NULL, queries },
	{ "bad-queries", "fi_atomic(3)", "What does not exist is not valid (FI_EOPNOTSUPP); flags that exclude each other are refused (FI_EBADFLAGS).",
	  FI_ATOMIC, EP_RELIABLE, 0, 0, NULL, bad_queries },
	{ "refused", "fi_atomic(3)", "An operation that is not valid is refused when it is posted.",
	  FI_ATOMIC, EP_RELIABLE, 0, 0, NULL, refused_posts },
	{ "counts", "fi_atomic(3)", "As many elements go as the query says, and not one more.",
	  FI_ATOMIC, EP_RELIABLE, VARY_MR, 0, NULL, counts },
	{ "errors", "fi_atomic(3)", "A bad key, range, address or access is one error of the initiator's, and changes nothing.",
	  FI_ATOMIC, EP_RELIABLE, VARY_MR | VARY_FORMAT, 0, NULL, errors },
};
GROUP(atomics);
