/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Atomic operations of two processes on memory of process 1, over shared memory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pair.h"

#define COUNT	3
#define ROUNDS	5000

static union {
	uint64_t words[512];
	unsigned char bytes[4096];
} memory;

static struct { uint64_t base, key; } remote;
static struct fi_context2 context;

/* The target of process 0 is its peer; process 1 reaches its own memory in the same way. */
static fi_addr_t target(const struct node *n)
{
	return role == 0 ? n->peer : n->self;
}

static void base_op(struct node *n, const void *operand, enum fi_datatype type, enum fi_op op)
{
	struct fi_cq_tagged_entry entry;

	POST(n, fi_atomic(n->ep, operand, COUNT, NULL, target(n), remote.base, remote.key, type,
			  op, &context));
	COMPLETION(n, n->tx, &entry);
	CHECK(entry.op_context == &context);
	EQUAL(entry.flags & FI_ATOMIC, FI_ATOMIC);
}

static void fetch_op(struct node *n, const void *operand, void *result, enum fi_datatype type,
		     enum fi_op op)
{
	POST(n, fi_fetch_atomic(n->ep, operand, COUNT, NULL, result, NULL, target(n), remote.base,
				remote.key, type, op, &context));
	FINISHED(n, n->tx, &context);
}

static void compare_op(struct node *n, const void *operand, const void *compare, void *result,
		       enum fi_datatype type, enum fi_op op)
{
	POST(n, fi_compare_atomic(n->ep, operand, COUNT, NULL, compare, NULL, result, NULL,
				  target(n), remote.base, remote.key, type, op, &context));
	FINISHED(n, n->tx, &context);
}

#define MINIMUM(t, a, b)	((t) ((b) < (a) ? (b) : (a)))
#define MAXIMUM(t, a, b)	((t) ((b) > (a) ? (b) : (a)))

/*
 * One operation on elements old[], in the base and in the fetching family: memory must
 * hold the expression afterwards, and the old values come back.
 */
#define UPDATE(t, type, op, expression) do { \
	int family_; \
	for (family_ = 0; family_ < 2; family_++) { \
		base_op(n, old, type, FI_ATOMIC_WRITE); \
		if (family_) { \
			memset(got, 0, sizeof(got)); \
			fetch_op(n, operand, got, type, op); \
			for (i = 0; i < COUNT; i++) \
				if (got[i] != old[i]) \
					FAIL(#type " " #op ": old value of %d", i); \
		} else { \
			base_op(n, operand, type, op); \
		} \
		fetch_op(n, NULL, got, type, FI_ATOMIC_READ); \
		for (i = 0; i < COUNT; i++) { \
			const t a = old[i], b = operand[i]; \
			const t expected = (t) (expression); \
			(void) a; \
			(void) b; \
			if (got[i] != expected) \
				FAIL(#type " " #op ": new value of %d", i); \
		} \
	} \
} while (0)

/* One comparing operation: swapped where the condition holds. */
#define COMPARE(t, type, op, expression) do { \
	base_op(n, old, type, FI_ATOMIC_WRITE); \
	memset(got, 0, sizeof(got)); \
	compare_op(n, operand, compare, got, type, op); \
	for (i = 0; i < COUNT; i++) \
		if (got[i] != old[i]) \
			FAIL(#type " " #op ": old value of %d", i); \
	fetch_op(n, NULL, got, type, FI_ATOMIC_READ); \
	for (i = 0; i < COUNT; i++) { \
		const t a = old[i], b = operand[i], c = compare[i]; \
		const t expected = (t) (expression); \
		if (got[i] != expected) \
			FAIL(#type " " #op ": new value of %d", i); \
	} \
} while (0)

#define ARITHMETIC(t, type) \
	const t old[COUNT] = { 7, 0, 100 }, operand[COUNT] = { 3, 5, 2 }; \
	const t compare[COUNT] = { 7, 1, 5 }; \
	t got[COUNT]; \
	int i; \
	UPDATE(t, type, FI_MIN, MINIMUM(t, a, b)); \
	UPDATE(t, type, FI_MAX, MAXIMUM(t, a, b)); \
	UPDATE(t, type, FI_SUM, a + b); \
	UPDATE(t, type, FI_PROD, a * b); \
	UPDATE(t, type, FI_LOR, a || b); \
	UPDATE(t, type, FI_LAND, a && b); \
	UPDATE(t, type, FI_LXOR, !a != !b); \
	UPDATE(t, type, FI_ATOMIC_WRITE, b); \
	COMPARE(t, type, FI_CSWAP, c == a ? b : a); \
	COMPARE(t, type, FI_CSWAP_NE, c != a ? b : a); \
	COMPARE(t, type, FI_CSWAP_LE, c <= a ? b : a); \
	COMPARE(t, type, FI_CSWAP_LT, c < a ? b : a); \
	COMPARE(t, type, FI_CSWAP_GE, c >= a ? b : a); \
	COMPARE(t, type, FI_CSWAP_GT, c > a ? b : a)

#define BITWISE(t, type) \
	UPDATE(t, type, FI_BOR, a | b); \
	UPDATE(t, type, FI_BAND, a & b); \
	UPDATE(t, type, FI_BXOR, a ^ b); \
	COMPARE(t, type, FI_MSWAP, (b & c) | (a & ~c))

#define INTEGER_TEST(t, type) \
static void test_##t(struct node *n) { ARITHMETIC(t, type); BITWISE(t, type); }

#define FLOAT_TEST(t, type) \
static void test_##t(struct node *n) { ARITHMETIC(t, type); }

INTEGER_TEST(int8_t, FI_INT8)
INTEGER_TEST(uint8_t, FI_UINT8)
INTEGER_TEST(int16_t, FI_INT16)
INTEGER_TEST(uint16_t, FI_UINT16)
INTEGER_TEST(int32_t, FI_INT32)
INTEGER_TEST(uint32_t, FI_UINT32)
INTEGER_TEST(int64_t, FI_INT64)
INTEGER_TEST(uint64_t, FI_UINT64)
FLOAT_TEST(float, FI_FLOAT)
FLOAT_TEST(double, FI_DOUBLE)

static void test_types(struct node *n)
{
	if (role == 0) {
		test_int8_t(n);
		test_uint8_t(n);
		test_int16_t(n);
		test_uint16_t(n);
		test_int32_t(n);
		test_uint32_t(n);
		test_int64_t(n);
		test_uint64_t(n);
		test_float(n);
		test_double(n);
	}
	barrier(n);
}

/* Two pieces here, two there, and the same through the inject call. */
static void test_vectors(struct node *n)
{
	uint32_t operand[4] = { 1, 2, 3, 4 }, compare[4] = { 11, 12, 13, 14 }, result[4];
	struct fi_ioc ops[2] = { { operand, 1 }, { operand + 1, 3 } };
	struct fi_ioc compares[2] = { { compare, 3 }, { compare + 3, 1 } };
	struct fi_ioc results[2] = { { result, 2 }, { result + 2, 2 } };
	struct fi_rma_ioc pieces[2] = {
		{ remote.base + 64, 2, remote.key }, { remote.base + 128, 2, remote.key },
	};
	struct fi_msg_atomic message = {
		.msg_iov = ops, .iov_count = 2, .addr = target(n), .rma_iov = pieces,
		.rma_iov_count = 2, .datatype = FI_UINT32, .op = FI_SUM, .context = &context,
	};
	const uint32_t ten[1] = { 10 };
	int i;

	if (role == 1) {
		for (i = 0; i < 2; i++)
			memory.words[8 + i] = memory.words[16 + i] = 0;
		barrier(n);
		barrier(n);
		return;
	}
	barrier(n);
	OK(fi_atomicmsg(n->ep, &message, FI_COMPLETION));
	FINISHED(n, n->tx, &context);
	for (i = 0; i < 4; i++)
		POST(n, fi_inject_atomic(n->ep, ten, 1, target(n),
					 remote.base + (i < 2 ? 64 : 120) + 4 * (uint64_t) i,
					 remote.key, FI_UINT32, FI_SUM));
	QUIET(n, n->tx);

	message.op = FI_CSWAP;
	OK(fi_compare_atomicmsg(n->ep, &message, compares, NULL, 2, results, NULL, 2,
				FI_COMPLETION));
	FINISHED(n, n->tx, &context);
	for (i = 0; i < 4; i++)
		EQUAL(result[i], 11 + i);

	message.op = FI_ATOMIC_READ;
	message.msg_iov = NULL;
	message.iov_count = 0;
	OK(fi_fetch_atomicmsg(n->ep, &message, results, NULL, 2, FI_COMPLETION));
	FINISHED(n, n->tx, &context);
	for (i = 0; i < 4; i++)
		EQUAL(result[i], 1 + i);

	OK(fi_atomicv(n->ep, ops, NULL, 2, target(n), remote.base + 64, remote.key, FI_UINT32,
		      FI_ATOMIC_WRITE, &context));
	FINISHED(n, n->tx, &context);
	OK(fi_fetch_atomicv(n->ep, ops, NULL, 2, results, NULL, 2, target(n), remote.base + 64,
			    remote.key, FI_UINT32, FI_SUM, &context));
	FINISHED(n, n->tx, &context);
	for (i = 0; i < 4; i++)
		EQUAL(result[i], operand[i]);
	OK(fi_compare_atomicv(n->ep, ops, NULL, 2, compares, NULL, 2, results, NULL, 2, target(n),
			      remote.base + 64, remote.key, FI_UINT32, FI_CSWAP_NE, &context));
	FINISHED(n, n->tx, &context);
	for (i = 0; i < 4; i++)
		EQUAL(result[i], 2 * operand[i]);
	barrier(n);
}

/* Both processes add at the same time: every old value is seen once, the sum is exact. */
static void test_sum(struct node *n)
{
	const uint64_t at = remote.base + 1024, one = 1;
	uint64_t old = 0, last = 0;
	int i;

	if (role == 1)
		memory.words[128] = memory.words[129] = 0;
	barrier(n);
	for (i = 0; i < ROUNDS; i++) {
		POST(n, fi_fetch_atomic(n->ep, &one, 1, NULL, &old, NULL, target(n), at,
					remote.key, FI_UINT64, FI_SUM, &context));
		FINISHED(n, n->tx, &context);
		CHECK(i == 0 || old > last);
		last = old;
		POST(n, fi_inject_atomic(n->ep, &one, 1, target(n), at + 8, remote.key,
					 FI_UINT64, FI_SUM));
	}
	/* Behind the injects, since operations to one peer keep their order here. */
	OK(fi_fetch_atomic(n->ep, NULL, 1, NULL, &old, NULL, target(n), at + 8, remote.key,
			   FI_UINT64, FI_ATOMIC_READ, &context));
	FINISHED(n, n->tx, &context);
	barrier(n);
	if (role == 1) {
		EQUAL(memory.words[128], 2 * ROUNDS);
		EQUAL(memory.words[129], 2 * ROUNDS);
	}
	barrier(n);
}

/* A lock made of compare-and-swap guards a plain read and write. */
static void test_lock(struct node *n)
{
	const uint64_t at = remote.base + 2048, zero = 0, mine = (uint64_t) role + 1;
	uint64_t old, value;
	int i;

	if (role == 1)
		memory.words[256] = memory.words[257] = 0;
	barrier(n);
	for (i = 0; i < 500; i++) {
		do {
			POST(n, fi_compare_atomic(n->ep, &mine, 1, NULL, &zero, NULL, &old, NULL,
						  target(n), at, remote.key, FI_UINT64, FI_CSWAP,
						  &context));
			FINISHED(n, n->tx, &context);
		} while (old != 0);
		POST(n, fi_fetch_atomic(n->ep, NULL, 1, NULL, &value, NULL, target(n), at + 8,
					remote.key, FI_UINT64, FI_ATOMIC_READ, &context));
		FINISHED(n, n->tx, &context);
		value++;
		POST(n, fi_atomic(n->ep, &value, 1, NULL, target(n), at + 8, remote.key,
				  FI_UINT64, FI_ATOMIC_WRITE, &context));
		FINISHED(n, n->tx, &context);
		POST(n, fi_atomic(n->ep, &zero, 1, NULL, target(n), at, remote.key, FI_UINT64,
				  FI_ATOMIC_WRITE, &context));
		FINISHED(n, n->tx, &context);
	}
	barrier(n);
	if (role == 1)
		EQUAL(memory.words[257], 1000);
	barrier(n);
}

static void test_queries(struct node *n)
{
	struct fi_atomic_attr attr;
	size_t count = 0;

	OK(fi_atomicvalid(n->ep, FI_UINT64, FI_SUM, &count));
	CHECK(count >= 8);
	OK(fi_fetch_atomicvalid(n->ep, FI_UINT8, FI_ATOMIC_READ, &count));
	CHECK(count >= 64);
	OK(fi_compare_atomicvalid(n->ep, FI_DOUBLE, FI_CSWAP, &count));
	EQUAL(fi_atomicvalid(n->ep, FI_UINT64, FI_ATOMIC_READ, &count), -FI_EOPNOTSUPP);
	EQUAL(fi_atomicvalid(n->ep, FI_DOUBLE, FI_BAND, &count), -FI_EOPNOTSUPP);
	EQUAL(fi_compare_atomicvalid(n->ep, FI_UINT64, FI_SUM, &count), -FI_EOPNOTSUPP);
	EQUAL(fi_atomicvalid(n->ep, FI_LONG_DOUBLE, FI_SUM, &count), -FI_EOPNOTSUPP);
	OK(fi_query_atomic(n->domain, FI_UINT32, FI_SUM, &attr, FI_FETCH_ATOMIC));
	EQUAL(attr.size, 4);
	CHECK(attr.count >= 16);
	barrier(n);
}

static void test_refusals(struct node *n)
{
	struct fi_cq_err_entry err;
	uint64_t value = 1, old = 77;
	size_t limit;

	if (role == 0) {
		OK(fi_atomicvalid(n->ep, FI_UINT64, FI_SUM, &limit));
		EQUAL(fi_atomic(n->ep, &value, 0, NULL, n->peer, remote.base, remote.key,
				FI_UINT64, FI_SUM, NULL), -FI_EINVAL);
		EQUAL(fi_atomic(n->ep, &value, ~(size_t) 0 / 8, NULL, n->peer, remote.base,
				remote.key, FI_UINT64, FI_SUM, NULL) < 0, 1);
		EQUAL(fi_atomic(n->ep, memory.words, limit + 1, NULL, n->peer, remote.base,
				remote.key, FI_UINT64, FI_SUM, NULL) < 0, 1);
		EQUAL(fi_atomic(n->ep, &value, 1, NULL, n->peer, remote.base, remote.key,
				FI_DOUBLE, FI_BXOR, NULL), -FI_EOPNOTSUPP);
		OK(fi_atomic(n->ep, &value, 1, NULL, n->peer, remote.base, 0xdead, FI_UINT64,
			     FI_SUM, &context));
		ERROR(n, n->tx, FI_ENOKEY, &context, &err);
		EQUAL(err.flags & FI_ATOMIC, FI_ATOMIC);
		OK(fi_fetch_atomic(n->ep, &value, 1, NULL, &old, NULL, n->peer,
				   remote.base + sizeof(memory) - 7, remote.key, FI_UINT64,
				   FI_SUM, &context));
		ERROR(n, n->tx, FI_EINVAL, &context, &err);
		EQUAL(old, 77);
		/* Not aligned */
		OK(fi_atomic(n->ep, &value, 1, NULL, n->peer, remote.base + 1, remote.key,
			     FI_UINT64, FI_SUM, &context));
		ERROR(n, n->tx, FI_EINVAL, &context, &err);
	}
	barrier(n);
}

int main(void)
{
	const struct wish wish = { .mr_mode = FI_MR_VIRT_ADDR };
	struct node node, *n = &node;
	struct fid_mr *mr;

	split();
	open_node(n, &wish);
	connect_node(n);
	OK(fi_mr_reg(n->domain, &memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5,
		     0, &mr, NULL));
	remote.base = n->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ?
		      (uint64_t) (uintptr_t) &memory : 0;
	remote.key = fi_mr_key(mr);
	if (role == 0)
		swap(NULL, &remote, &remote, sizeof(remote));
	else {
		unsigned char ignored[sizeof(remote)];

		swap(NULL, &remote, ignored, sizeof(remote));
	}

	test_types(n);
	test_vectors(n);
	test_sum(n);
	test_lock(n);
	test_queries(n);
	test_refusals(n);

	OK(fi_close(&mr->fid));
	close_node(n);
	return join();
}
