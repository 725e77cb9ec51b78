/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One of two processes over tcp, or a layer above it, that may run on different libraries:
 *
 *	peer 0|1 PORT PROVIDER [long] [leave]
 *
 * Both do the same to each other: messages of many sizes whose receives are there or not, messages
 * in another order than their receives, one-sided operations under keys of the application's choice,
 * both directions at once; atomic operations where both libraries have the same. All bytes are checked.
 * With `leave` nothing is closed in the end.
 */
static const char *provider;

#define PROVIDER	provider
#define NODE		"127.0.0.1"
#define CAPS		(FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE | FI_DIRECTED_RECV | \
			 (has_atomics() ? FI_ATOMIC : 0))

static unsigned long has_atomics(void);

#include "../pair.h"

/* Upstream has no atomic operations over tcp alone. */
static unsigned long has_atomics(void)
{
	return strchr(provider, ';') != NULL;
}

#define MOST		((size_t) 4 << 20)
#define COUNT		64
#define KEY		0x1234567890ull
#define DATA		0xfedcba9876543210ull

/* Around the places where software changes its ways; the last ones for long runs. */
static const size_t sizes[] = {
	0, 1, 7, 8, 64, 127, 128, 129, 1024, 4095, 4096, 4097, 16384, 20000, 65535, 65536, 65537,
	100000, 262144, 1000001, (size_t) 2 << 20, MOST - 1, MOST,
};

#define SIZES	(sizeof(sizes) / sizeof(sizes[0]))
#define SHORT	(SIZES - 3)

static size_t size_count = SHORT;
static unsigned char *out, *in;
static struct fi_context2 ctx[2 * COUNT];

static size_t seed_of(int whose, size_t number)
{
	return number * 2 + (size_t) whose + 1;
}

static ssize_t send_tagged(struct node *n, size_t size, uint64_t tag, uint64_t flags, void *context)
{
	struct iovec iov = { out, size };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = n->peer, .tag = tag, .context = context,
		.data = DATA,
	};

	return fi_tsendmsg(n->ep, &msg, flags | FI_COMPLETION);
}

/* The next completion of a receive: its tag, its length, its data if there are any. */
static void got(struct node *n, void *context, size_t size, uint64_t tag, int data)
{
	struct fi_cq_tagged_entry entry;

	EQUAL(COMPLETION(n, n->rx, &entry), n->peer);
	CHECK(entry.op_context == context);
	EQUAL(entry.len, size);
	EQUAL(entry.flags & FI_TAGGED, FI_TAGGED);
	EQUAL(entry.tag, tag);
	EQUAL(!!(entry.flags & FI_REMOTE_CQ_DATA), data);
	if (data)
		EQUAL(entry.data, DATA);
}

/* One message each way; every other one with data, every third acknowledged. */
static void tagged_sizes(struct node *n, int receive_first)
{
	for (size_t i = 0; i < size_count; i++) {
		const size_t size = sizes[i];
		const int data = i % 2 == 1;
		const uint64_t flags = (data ? FI_REMOTE_CQ_DATA : 0) |
				       (i % 3 == 0 ? FI_DELIVERY_COMPLETE : 0);

		fill(out, size, seed_of(role, i));
		memset(in, 0xee, size);
		if (receive_first)
			POST(n, fi_trecv(n->ep, in, MOST, NULL, n->peer, i, 0, &ctx[0]));
		barrier(n);
		POST(n, send_tagged(n, size, i, flags, &ctx[1]));
		if (!receive_first) {
			/* Time for it to arrive. */
			for (int rounds = 0; rounds < 20; rounds++)
				progress(n);
			barrier(n);
			POST(n, fi_trecv(n->ep, in, MOST, NULL, FI_ADDR_UNSPEC, i, 0, &ctx[0]));
		}
		got(n, &ctx[0], size, i, data);
		CHECK_FILL(in, size, seed_of(!role, i));
		FINISHED(n, n->tx, &ctx[1]);
		barrier(n);
	}
}

/* Untagged ones, and injected ones of both kinds. */
static void untagged_sizes(struct node *n)
{
	struct fi_cq_tagged_entry entry;
	const size_t inject = n->info->tx_attr->inject_size;

	for (size_t i = 0; i < size_count; i++) {
		const size_t size = sizes[i];

		fill(out, size, seed_of(role, i));
		POST(n, fi_recv(n->ep, in, MOST, NULL, FI_ADDR_UNSPEC, &ctx[0]));
		barrier(n);
		if (size <= inject)
			POST(n, fi_inject(n->ep, out, size, n->peer));
		else
			POST(n, fi_send(n->ep, out, size, NULL, n->peer, &ctx[1]));
		EQUAL(COMPLETION(n, n->rx, &entry), n->peer);
		EQUAL(entry.len, size);
		EQUAL(entry.flags & FI_MSG, FI_MSG);
		CHECK_FILL(in, size, seed_of(!role, i));
		if (size > inject)
			FINISHED(n, n->tx, &ctx[1]);
		barrier(n);
	}
	fill(out, 64, seed_of(role, 99));
	POST(n, fi_tinject(n->ep, out, 64, n->peer, 99));
	POST(n, fi_trecv(n->ep, in, 64, NULL, n->peer, 99, 0, &ctx[0]));
	got(n, &ctx[0], 64, 99, 0);
	CHECK_FILL(in, 64, seed_of(!role, 99));
	barrier(n);
}

/* Messages of three sizes, all before any receive, which come in the opposite order. */
static void unexpected(struct node *n)
{
	static const size_t three[] = { 100, 10000, 70000 };

	for (size_t i = 0; i < COUNT; i++) {
		fill(out + i * 70000 / 2, three[i % 3] / 2, seed_of(role, i));
		POST(n, fi_tsend(n->ep, out + i * 70000 / 2, three[i % 3] / 2, NULL, n->peer, 1000 + i,
				 &ctx[COUNT + i]));
	}
	barrier(n);
	for (size_t i = COUNT; i-- > 0; ) {
		POST(n, fi_trecv(n->ep, in, MOST, NULL, n->peer, 1000 + i, 0, &ctx[i]));
		got(n, &ctx[i], three[i % 3] / 2, 1000 + i, 0);
		CHECK_FILL(in, three[i % 3] / 2, seed_of(!role, i));
	}
	for (size_t i = 0; i < COUNT; i++)
		FINISHED(n, n->tx, &ctx[COUNT + i]);
	barrier(n);
}

/* Large announced messages, several at once and in both directions. */
static void at_once(struct node *n)
{
	const size_t piece = MOST / 8, size = piece - 3;
	struct fi_cq_tagged_entry entry;

	for (size_t i = 0; i < 8; i++) {
		fill(out + i * piece, size, seed_of(role, i));
		POST(n, fi_trecv(n->ep, in + i * piece, piece, NULL, n->peer, i, 0, &ctx[i]));
	}
	for (size_t i = 8; i-- > 0; )
		POST(n, fi_tsend(n->ep, out + i * piece, size, NULL, n->peer, i, &ctx[COUNT + i]));
	for (size_t i = 0; i < 8; i++)
		COMPLETION(n, n->rx, &entry);
	for (size_t i = 0; i < 8; i++)
		COMPLETION(n, n->tx, &entry);
	for (size_t i = 0; i < 8; i++)
		CHECK_FILL(in + i * piece, size, seed_of(!role, i));
	barrier(n);
}

static void write_with(struct node *n, size_t size, uint64_t flags, void *context)
{
	struct iovec iov = { out, size };
	struct fi_rma_iov far = { 0, size, KEY + (uint64_t) !role };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = n->peer, .rma_iov = &far,
		.rma_iov_count = 1, .context = context, .data = DATA,
	};

	POST(n, fi_writemsg(n->ep, &msg, flags | FI_COMPLETION));
}

/* Each writes to the other's memory, tells of it, and reads it back. */
static void one_sided(struct node *n)
{
	unsigned char *memory = calloc(1, MOST);
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;

	CHECK(memory);
	OK(fi_mr_reg(n->domain, memory, MOST, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
		     KEY + (uint64_t) role, 0, &mr, NULL));
	EQUAL(fi_mr_key(mr), KEY + (uint64_t) role);
	barrier(n);
	for (size_t i = 0; i < size_count; i++) {
		const size_t size = sizes[i];

		/* Nobody writes while the other still looks. */
		fill(out, size, seed_of(role, i));
		write_with(n, size, FI_DELIVERY_COMPLETE, &ctx[0]);
		FINISHED(n, n->tx, &ctx[0]);
		barrier(n);
		CHECK_FILL(memory, size, seed_of(!role, i));
		barrier(n);
		fill(out, size, seed_of(role, i + 50));
		write_with(n, size, FI_REMOTE_CQ_DATA, &ctx[1]);
		FINISHED(n, n->tx, &ctx[1]);
		COMPLETION(n, n->rx, &entry);
		EQUAL(entry.flags & (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA),
		      FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		EQUAL(entry.data, DATA);
		CHECK_FILL(memory, size, seed_of(!role, i + 50));
		memset(in, 0, size);
		POST(n, fi_read(n->ep, in, size, NULL, n->peer, 0, KEY + (uint64_t) !role, &ctx[2]));
		FINISHED(n, n->tx, &ctx[2]);
		CHECK_FILL(in, size, seed_of(role, i + 50));
		barrier(n);
	}
	OK(fi_close(&mr->fid));
	free(memory);
}

/* Both add to the same words, and swap one of their own. */
static void atomics(struct node *n)
{
	enum { WORDS = 100, ROUNDS = 50 };
	uint64_t *words = calloc(WORDS + 2, sizeof(*words));
	uint64_t add[WORDS], old[WORDS], seen = 0, mine = 7, expected = 0;
	struct fid_mr *mr;

	CHECK(words);
	for (size_t i = 0; i < WORDS; i++)
		add[i] = i + 1;
	OK(fi_mr_reg(n->domain, words, (WORDS + 2) * sizeof(*words),
		     FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY + (uint64_t) role, 0, &mr, NULL));
	barrier(n);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		POST(n, fi_atomic(n->ep, add, WORDS, NULL, n->peer, 0, KEY + (uint64_t) !role,
				  FI_UINT64, FI_SUM, &ctx[0]));
		FINISHED(n, n->tx, &ctx[0]);
		POST(n, fi_fetch_atomic(n->ep, add, WORDS, NULL, old, NULL, n->peer, 0,
					KEY + (uint64_t) !role, FI_UINT64, FI_SUM, &ctx[1]));
		FINISHED(n, n->tx, &ctx[1]);
		for (size_t i = 0; i < WORDS; i++)
			EQUAL(old[i], (2 * round + 1) * (i + 1));
		POST(n, fi_compare_atomic(n->ep, &mine, 1, NULL, &expected, NULL, &seen, NULL,
					  n->peer, WORDS * sizeof(*words), KEY + (uint64_t) !role,
					  FI_UINT64, FI_CSWAP, &ctx[2]));
		FINISHED(n, n->tx, &ctx[2]);
		EQUAL(seen, expected);
		expected = mine;
		mine += 3;
	}
	barrier(n);
	for (size_t i = 0; i < WORDS; i++)
		EQUAL(words[i], 2 * ROUNDS * (i + 1));
	EQUAL(words[WORDS], expected);
	POST(n, fi_fetch_atomic(n->ep, NULL, 1, NULL, &seen, NULL, n->peer, WORDS * sizeof(*words),
				KEY + (uint64_t) !role, FI_UINT64, FI_ATOMIC_READ, &ctx[3]));
	FINISHED(n, n->tx, &ctx[3]);
	EQUAL(seen, expected);
	barrier(n);
	OK(fi_close(&mr->fid));
	free(words);
}

int main(int argc, char **argv)
{
	const struct wish wish = { .order = FI_ORDER_SAS };
	struct node n;
	int leave = 0;

	if (argc < 4)
		return 2;
	provider = argv[3];
	for (int i = 4; i < argc; i++) {
		if (strcmp(argv[i], "long") == 0)
			size_count = SIZES;
		else
			leave = 1;
	}
	meet(argv[1][0] == '1', atoi(argv[2]));
	out = malloc(MOST);
	in = malloc(MOST);
	CHECK(out && in);
	memset(&n, 0, sizeof(n));
	open_node(&n, &wish);
	connect_node(&n);
	barrier(&n);
	tagged_sizes(&n, 1);
	tagged_sizes(&n, 0);
	untagged_sizes(&n);
	unexpected(&n);
	at_once(&n);
	one_sided(&n);
	if (has_atomics())
		atomics(&n);
	barrier(&n);
	if (leave)
		_exit(0);
	close_node(&n);
	free(out);
	free(in);
	return 0;
}
