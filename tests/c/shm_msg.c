/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages between two processes over shared memory: process 0 sends, process 1 receives. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pair.h"

#define LARGEST	((size_t) 4 << 20)
#define TAG	0x1234567800000001ull
#define DATA	0xfeedfacecafebeefull

static const size_t sizes[] = {
	0, 1, 7, 8, 63, 64, 65, 1000, 4095, 4096, 4097, 16383, 16384, 16385, 65536, 100001,
	(size_t) 1 << 20, LARGEST,
};

#define SIZES	(sizeof(sizes) / sizeof(sizes[0]))

static unsigned char *out, *in;
static struct fi_context2 contexts[16];

static void check_received(const struct fi_cq_tagged_entry *entry, void *context,
			   uint64_t flags, size_t size)
{
	EQUAL(entry->op_context == context, 1);
	EQUAL(entry->flags, flags);
	EQUAL(entry->len, size);
}

/* Every size, tagged or not, receive first or message first. */
static void test_sizes(struct node *n, int tagged, int unexpected)
{
	const uint64_t flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG);
	struct fi_cq_tagged_entry entry;
	size_t i;

	for (i = 0; i < SIZES; i++) {
		if (role == 0) {
			fill(out, sizes[i], i);
			if (!unexpected)
				barrier(n);
			if (tagged)
				POST(n, fi_tsend(n->ep, out, sizes[i], NULL, n->peer, TAG + i,
						 &contexts[0]));
			else
				POST(n, fi_send(n->ep, out, sizes[i], NULL, n->peer,
						&contexts[0]));
			if (unexpected)
				barrier(n);
			COMPLETION(n, n->tx, &entry);
			CHECK(entry.op_context == &contexts[0]);
			EQUAL(entry.flags, FI_SEND | (tagged ? FI_TAGGED : FI_MSG));
		} else {
			memset(in, 0xee, sizes[i] + 1);
			if (unexpected)
				barrier(n);
			if (tagged)
				OK(fi_trecv(n->ep, in, LARGEST, NULL, FI_ADDR_UNSPEC, TAG + i, 0,
					    &contexts[1]));
			else
				OK(fi_recv(n->ep, in, LARGEST, NULL, FI_ADDR_UNSPEC,
					   &contexts[1]));
			if (!unexpected)
				barrier(n);
			EQUAL(COMPLETION(n, n->rx, &entry), n->peer);
			check_received(&entry, &contexts[1], flags, sizes[i]);
			if (tagged)
				EQUAL(entry.tag, TAG + i);
			CHECK_FILL(in, sizes[i], i);
			EQUAL(in[sizes[i]], 0xee);
		}
	}
	barrier(n);
}

/* A burst that is longer than any queue keeps its order. */
static void test_burst(struct node *n)
{
	enum { COUNT = 5000 };
	struct fi_cq_tagged_entry entry;
	uint64_t i, value;

	if (role == 0) {
		for (i = 0; i < COUNT; i++)
			POST(n, fi_inject(n->ep, &i, sizeof(i), n->peer));
		barrier(n);
	} else {
		barrier(n);
		for (i = 0; i < COUNT; i++) {
			OK(fi_recv(n->ep, &value, sizeof(value), NULL, FI_ADDR_UNSPEC, NULL));
			COMPLETION(n, n->rx, &entry);
			EQUAL(value, i);
		}
	}
	barrier(n);
}

static void test_vectors(struct node *n)
{
	struct iovec iov[5];
	struct fi_cq_tagged_entry entry;
	const size_t piece = 5000;
	size_t i;

	for (i = 0; i < 5; i++) {
		iov[i].iov_base = (role ? in : out) + i * (piece + 1);
		iov[i].iov_len = piece;
	}
	if (role == 0) {
		for (i = 0; i < 4; i++)
			fill(iov[i].iov_base, piece, i);
		barrier(n);
		EQUAL(fi_sendv(n->ep, iov, NULL, 5, n->peer, NULL), -FI_EINVAL);
		OK(fi_sendv(n->ep, iov, NULL, 4, n->peer, &contexts[0]));
		FINISHED(n, n->tx, &contexts[0]);
	} else {
		OK(fi_recvv(n->ep, iov, NULL, 4, FI_ADDR_UNSPEC, &contexts[1]));
		barrier(n);
		COMPLETION(n, n->rx, &entry);
		check_received(&entry, &contexts[1], FI_RECV | FI_MSG, 4 * piece);
		for (i = 0; i < 4; i++)
			CHECK_FILL(iov[i].iov_base, piece, i);
	}
	barrier(n);
}

static void test_inject_and_data(struct node *n)
{
	const size_t limit = n->info->tx_attr->inject_size;
	struct fi_cq_tagged_entry entry;
	struct fi_msg message = { .addr = n->peer, .data = DATA, .context = &contexts[0] };
	int i;

	if (role == 0) {
		barrier(n);
		fill(out, limit, 1);
		OK(fi_inject(n->ep, out, limit, n->peer));
		OK(fi_tinject(n->ep, out, limit, n->peer, TAG));
		OK(fi_injectdata(n->ep, out, limit, DATA, n->peer));
		OK(fi_tinjectdata(n->ep, out, limit, DATA + 1, n->peer, TAG));
		memset(out, 0, limit);
		EQUAL(fi_inject(n->ep, out, limit + 1, n->peer), -FI_EINVAL);
		QUIET(n, n->tx);
		OK(fi_senddata(n->ep, out, 0, NULL, DATA + 2, n->peer, &contexts[0]));
		FINISHED(n, n->tx, &contexts[0]);
		OK(fi_tsenddata(n->ep, out, 0, NULL, DATA + 3, n->peer, TAG, &contexts[0]));
		FINISHED(n, n->tx, &contexts[0]);
		OK(fi_sendmsg(n->ep, &message, FI_REMOTE_CQ_DATA));
		FINISHED(n, n->tx, &contexts[0]);
	} else {
		for (i = 0; i < 7; i++) {
			const int tagged = i == 1 || i == 3 || i == 5;
			const int has_data = i >= 2;
			const uint64_t data = i == 6 ? DATA : DATA + (uint64_t) i - 2;

			if (tagged)
				OK(fi_trecv(n->ep, in, LARGEST, NULL, n->peer, TAG, 0,
					    &contexts[i]));
			else
				OK(fi_recv(n->ep, in, LARGEST, NULL, n->peer, &contexts[i]));
			if (i == 0)
				barrier(n);
			COMPLETION(n, n->rx, &entry);
			check_received(&entry, &contexts[i],
				       FI_RECV | (tagged ? FI_TAGGED : FI_MSG) |
				       (has_data ? FI_REMOTE_CQ_DATA : 0), i < 4 ? limit : 0);
			if (has_data)
				EQUAL(entry.data, data);
			CHECK_FILL(in, entry.len, 1);
		}
	}
	barrier(n);
}

static void test_matching(struct node *n)
{
	struct fi_cq_tagged_entry entry;
	const char a = 'a', b = 'b', c = 'c';
	char got[3] = "";

	if (role == 0) {
		barrier(n);
		OK(fi_tinject(n->ep, &a, 1, n->peer, 0xa1));
		OK(fi_tinject(n->ep, &b, 1, n->peer, 0xb1));
		OK(fi_inject(n->ep, &c, 1, n->peer));
	} else {
		OK(fi_trecv(n->ep, &got[0], 1, NULL, FI_ADDR_UNSPEC, 0xb0, 0x0f, &contexts[0]));
		OK(fi_trecv(n->ep, &got[1], 1, NULL, FI_ADDR_UNSPEC, 0, ~0ull, &contexts[1]));
		OK(fi_recv(n->ep, &got[2], 1, NULL, FI_ADDR_UNSPEC, &contexts[2]));
		barrier(n);
		COMPLETION(n, n->rx, &entry);
		CHECK(entry.op_context == &contexts[1]);
		EQUAL(entry.tag, 0xa1);
		COMPLETION(n, n->rx, &entry);
		CHECK(entry.op_context == &contexts[0]);
		EQUAL(entry.tag, 0xb1);
		FINISHED(n, n->rx, &contexts[2]);
		CHECK(!memcmp(got, "bac", 3));
	}
	barrier(n);
}

static void tagged_recvmsg(struct node *n, uint64_t tag, size_t size, uint64_t flags,
			   void *context)
{
	struct iovec iov = { .iov_base = in, .iov_len = size };
	struct fi_msg_tagged message = {
		.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = tag,
		.context = context,
	};

	OK(fi_trecvmsg(n->ep, &message, flags));
}

static void test_peek(struct node *n)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err;
	const size_t large = 200000;
	int i;

	if (role == 0) {
		for (i = 0; i < 4; i++) {
			const size_t size = i % 2 ? large : 10;

			fill(out + (size_t) i * large, size, (size_t) i);
			OK(fi_tsend(n->ep, out + (size_t) i * large, size, NULL, n->peer,
				    TAG + (uint64_t) i, &contexts[i]));
		}
		barrier(n);
		for (i = 0; i < 4; i++)
			COMPLETION(n, n->tx, &entry);
		barrier(n);
		return;
	}
	barrier(n);

	tagged_recvmsg(n, TAG + 99, 0, FI_PEEK, &contexts[8]);
	ERROR(n, n->rx, FI_ENOMSG, &contexts[8], &err);
	EQUAL(err.flags & (FI_RECV | FI_TAGGED), FI_RECV | FI_TAGGED);

	for (i = 0; i < 2; i++) {
		/* Looking twice, the message stays. */
		tagged_recvmsg(n, TAG, 0, FI_PEEK, &contexts[0]);
		COMPLETION(n, n->rx, &entry);
		CHECK(entry.op_context == &contexts[0]);
		EQUAL(entry.len, 10);
		EQUAL(entry.tag, TAG);
	}

	/* Claimed: invisible to others, received with the same context. */
	tagged_recvmsg(n, TAG + 1, 0, FI_PEEK | FI_CLAIM, &contexts[1]);
	COMPLETION(n, n->rx, &entry);
	EQUAL(entry.len, large);
	tagged_recvmsg(n, TAG + 1, 0, FI_PEEK, &contexts[2]);
	ERROR(n, n->rx, FI_ENOMSG, &contexts[2], &err);
	tagged_recvmsg(n, TAG + 1, large, FI_CLAIM, &contexts[1]);
	COMPLETION(n, n->rx, &entry);
	CHECK(entry.op_context == &contexts[1]);
	EQUAL(entry.len, large);
	CHECK_FILL(in, large, 1);

	/* Dropped at once, and after a claim. */
	tagged_recvmsg(n, TAG + 2, 0, FI_PEEK | FI_DISCARD, &contexts[2]);
	FINISHED(n, n->rx, &contexts[2]);
	tagged_recvmsg(n, TAG + 3, 0, FI_PEEK | FI_CLAIM, &contexts[3]);
	FINISHED(n, n->rx, &contexts[3]);
	tagged_recvmsg(n, TAG + 3, 0, FI_CLAIM | FI_DISCARD, &contexts[3]);
	FINISHED(n, n->rx, &contexts[3]);
	for (i = 2; i < 4; i++) {
		tagged_recvmsg(n, TAG + (uint64_t) i, 0, FI_PEEK, &contexts[4]);
		ERROR(n, n->rx, FI_ENOMSG, &contexts[4], &err);
	}

	OK(fi_trecv(n->ep, in, 10, NULL, FI_ADDR_UNSPEC, TAG, 0, &contexts[0]));
	FINISHED(n, n->rx, &contexts[0]);
	CHECK_FILL(in, 10, 0);
	barrier(n);
}

/* A receive that names its sender takes nobody else's message. */
static void test_directed(struct node *n)
{
	struct fi_cq_tagged_entry entry;
	char own = 'o', theirs = 't', got[2] = "";

	if (role == 0) {
		barrier(n);
		OK(fi_inject(n->ep, &theirs, 1, n->peer));
	} else {
		OK(fi_recv(n->ep, &got[0], 1, NULL, n->self, &contexts[0]));
		OK(fi_recv(n->ep, &got[1], 1, NULL, n->peer, &contexts[1]));
		barrier(n);
		EQUAL(COMPLETION(n, n->rx, &entry), n->peer);
		CHECK(entry.op_context == &contexts[1]);
		POST(n, fi_inject(n->ep, &own, 1, n->self));
		EQUAL(COMPLETION(n, n->rx, &entry), n->self);
		CHECK(entry.op_context == &contexts[0]);
		CHECK(!memcmp(got, "ot", 2));
	}
	barrier(n);
}

static void test_multi_recv(struct node *n)
{
	enum { MESSAGES = 40, SIZE = 1000, ROOM = 10500 };
	struct iovec iov;
	struct fi_msg message = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };
	struct fi_cq_tagged_entry entry;
	unsigned char *last[2] = { NULL, NULL };
	size_t min = 1000, length = sizeof(min);
	int i, released = 0, received = 0;

	if (role == 0) {
		barrier(n);
		for (i = 0; i < MESSAGES; i++) {
			fill(out, SIZE, (size_t) i);
			POST(n, fi_inject(n->ep, out, SIZE, n->peer));
		}
		barrier(n);
		return;
	}
	OK(fi_setopt(&n->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	min = 0;
	OK(fi_getopt(&n->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, &length));
	EQUAL(min, 1000);

	/* Each of the four posts takes ten messages, and has less than min left then. */
	for (i = 0; i < 2; i++) {
		iov.iov_base = last[i] = in + i * ROOM;
		iov.iov_len = ROOM;
		message.context = &contexts[i];
		OK(fi_recvmsg(n->ep, &message, FI_MULTI_RECV));
	}
	barrier(n);
	while (released < 4) {
		COMPLETION(n, n->rx, &entry);
		i = entry.op_context == &contexts[1];
		CHECK(entry.op_context == &contexts[i]);
		if (entry.flags & FI_RECV && entry.len) {
			EQUAL(entry.len, SIZE);
			CHECK(entry.buf == last[i]);
			CHECK_FILL(entry.buf, SIZE, (size_t) received);
			last[i] += SIZE;
			received++;
		}
		if (entry.flags & FI_MULTI_RECV) {
			EQUAL(received % 10, 0);
			released++;
			if (released <= 2) {
				iov.iov_base = last[i] = in + i * ROOM;
				iov.iov_len = ROOM;
				message.context = &contexts[i];
				OK(fi_recvmsg(n->ep, &message, FI_MULTI_RECV));
			}
		}
	}
	EQUAL(received, MESSAGES);
	QUIET(n, n->rx);
	barrier(n);
}

static void test_cancel(struct node *n)
{
	struct fi_cq_err_entry err;

	OK(fi_trecv(n->ep, in, 10, NULL, FI_ADDR_UNSPEC, 77, 0, &contexts[0]));
	OK(fi_recv(n->ep, in, 10, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	OK(fi_cancel(&n->ep->fid, &contexts[0]));
	ERROR(n, n->rx, FI_ECANCELED, &contexts[0], &err);
	EQUAL(err.flags & (FI_RECV | FI_TAGGED), FI_RECV | FI_TAGGED);
	OK(fi_cancel(&n->ep->fid, &contexts[1]));
	ERROR(n, n->rx, FI_ECANCELED, &contexts[1], &err);
	OK(fi_cancel(&n->ep->fid, &contexts[0]));
	QUIET(n, n->rx);
	barrier(n);
}

static void test_truncation(struct node *n)
{
	static const size_t lengths[] = { 100, 50000, (size_t) 1 << 20 };
	struct fi_cq_err_entry err;
	size_t i;

	for (i = 0; i < 3; i++) {
		if (role == 0) {
			fill(out, lengths[i], i);
			OK(fi_send(n->ep, out, lengths[i], NULL, n->peer, &contexts[0]));
			barrier(n);
			FINISHED(n, n->tx, &contexts[0]);
		} else {
			memset(in, 0xee, 41);
			if (i)
				barrier(n);
			OK(fi_recv(n->ep, in, 40, NULL, FI_ADDR_UNSPEC, &contexts[1]));
			if (!i)
				barrier(n);
			ERROR(n, n->rx, FI_ETRUNC, &contexts[1], &err);
			EQUAL(err.olen, lengths[i] - 40);
			EQUAL(in[40], 0xee);
		}
		barrier(n);
	}
}

static void test_delivery(struct node *n)
{
	struct iovec iov = { .iov_base = out, .iov_len = 0 };
	struct fi_msg message = {
		.msg_iov = &iov, .iov_count = 1, .addr = n->peer, .context = &contexts[0],
	};
	size_t i;

	for (i = 0; i < SIZES; i++) {
		if (role == 0) {
			fill(out, sizes[i], i);
			iov.iov_len = sizes[i];
			barrier(n);
			POST(n, fi_sendmsg(n->ep, &message, FI_DELIVERY_COMPLETE));
			FINISHED(n, n->tx, &contexts[0]);
		} else {
			OK(fi_recv(n->ep, in, LARGEST, NULL, FI_ADDR_UNSPEC, &contexts[1]));
			barrier(n);
			FINISHED(n, n->rx, &contexts[1]);
			CHECK_FILL(in, sizes[i], i);
		}
	}
	barrier(n);
}

static void test_options(struct node *n)
{
	static const int optional[] = {
		FI_OPT_CUDA_API_PERMITTED, FI_OPT_SHARED_MEMORY_PERMITTED, FI_OPT_FI_HMEM_P2P,
	};
	size_t i, value = 0, length = 1;
	int no = 0, ret;

	EQUAL(fi_getopt(&n->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length),
	      -FI_ETOOSMALL);
	EQUAL(length, sizeof(size_t));
	EQUAL(fi_getopt(&n->ep->fid, 7, FI_OPT_MIN_MULTI_RECV, &value, &length),
	      -FI_ENOPROTOOPT);
	for (i = 0; i < sizeof(optional) / sizeof(optional[0]); i++) {
		ret = fi_setopt(&n->ep->fid, FI_OPT_ENDPOINT, optional[i], &no, sizeof(no));
		CHECK(ret == 0 || ret == -FI_ENOPROTOOPT || ret == -FI_EOPNOTSUPP);
	}
	EQUAL(fi_sendv(n->ep, NULL, NULL, 1, n->peer, NULL), -FI_EINVAL);
	barrier(n);
}

/* Queues that report only what is asked for. */
static void test_selective(void)
{
	const struct wish wish = { .bind_flags = FI_SELECTIVE_COMPLETION };
	struct iovec iov = { .iov_base = role ? in : out, .iov_len = 8 };
	struct fi_msg message = {
		.msg_iov = &iov, .iov_count = 1, .context = &contexts[1],
	};
	struct fi_cq_err_entry err;
	struct node node, *n = &node;

	open_node(n, &wish);
	connect_node(n);
	if (role == 0) {
		message.addr = n->peer;
		barrier(n);
		OK(fi_send(n->ep, out, 8, NULL, n->peer, &contexts[0]));
		OK(fi_sendmsg(n->ep, &message, 0));
		QUIET(n, n->tx);
		OK(fi_sendmsg(n->ep, &message, FI_COMPLETION));
		FINISHED(n, n->tx, &contexts[1]);
		QUIET(n, n->tx);
		barrier(n);
	} else {
		message.addr = FI_ADDR_UNSPEC;
		OK(fi_recv(n->ep, in, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
		OK(fi_recvmsg(n->ep, &message, 0));
		OK(fi_recvmsg(n->ep, &message, FI_COMPLETION));
		barrier(n);
		FINISHED(n, n->rx, &contexts[1]);
		QUIET(n, n->rx);
		/* Failures are reported all the same. */
		OK(fi_recv(n->ep, in, 8, NULL, FI_ADDR_UNSPEC, &contexts[2]));
		OK(fi_cancel(&n->ep->fid, &contexts[2]));
		ERROR(n, n->rx, FI_ECANCELED, &contexts[2], &err);
		barrier(n);
	}
	barrier(n);
	close_node(n);
}

int main(void)
{
	const struct wish wish = { 0 };
	struct node node, *n = &node;

	split();
	out = malloc(LARGEST + 1);
	in = malloc(LARGEST + 1);
	CHECK(out && in);

	open_node(n, &wish);
	EQUAL(fi_send(n->ep, out, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
	connect_node(n);
	test_sizes(n, 0, 0);
	test_sizes(n, 0, 1);
	test_sizes(n, 1, 0);
	test_sizes(n, 1, 1);
	test_burst(n);
	test_vectors(n);
	test_inject_and_data(n);
	test_matching(n);
	test_peek(n);
	test_directed(n);
	test_multi_recv(n);
	test_cancel(n);
	test_truncation(n);
	test_delivery(n);
	test_options(n);
	close_node(n);
	test_selective();
	free(out);
	free(in);
	return join();
}
