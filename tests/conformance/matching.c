/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which receive takes which message: tags, ignored bits, order. Side 0 sends, side 1 receives. */
#include "groups.h"
#include "traffic.h"
#include "settings.h"

static const struct { uint64_t wanted, ignore, sent; int matches; } pairs[] = {
	{ 0, 0, 0, 1 },
	{ 0, 0, 1, 0 },
	{ 0x0123456789abcdefull, 0, 0x0123456789abcdefull, 1 },
	{ 0x0123456789abcdefull, 0, 0x0123456789abcdeeull, 0 },
	{ 0x0123456789abcdefull, 0, 0x0023456789abcdefull, 0 },
	{ 0x10, 0x0f, 0x1f, 1 },
	{ 0x1f, 0x0f, 0x10, 1 },
	{ 0x10, 0x0f, 0x2f, 0 },
	{ 0x5500000000ull, 0xffffffffull, 0x55deadbeefull, 1 },
	{ 0x5500000000ull, 0xffffffffull, 0x54deadbeefull, 0 },
	{ 7, 0xffff0000ffff0000ull, 0x0123000045670007ull, 1 },
	{ 7, 0xffff0000ffff0000ull, 0x0123000145670007ull, 0 },
	{ 99, ~0ull, 0x0fedcba987654321ull, 1 },
};

/* A receive with these bits, and behind it one that takes what the first does not. */
static void ignore_bits(struct side *s)
{
	for (size_t i = 0; i < 2 * (sizeof(pairs) / sizeof(pairs[0])); i++) {
		const size_t at = i / 2;
		const uint64_t sent = tag_of(s, pairs[at].sent);
		const int late = i % 2;
		struct fi_cq_err_entry err;
		struct done done;

		if (s->role == 0) {
			if (!late)
				barrier(s);
			POST(s, fi_tinject(s->ep, s->out, 0, s->peer, sent));
			barrier(s);
			if (late)
				barrier(s);
			continue;
		}
		if (late) {
			/* The message has been sent, and mostly waits here already. */
			barrier(s);
			for (int k = 0; k < 50; k++)
				progress(s);
		}
		OK(receive_tagged(s, s->in, 8, FI_ADDR_UNSPEC, tag_of(s, pairs[at].wanted),
				  pairs[at].ignore, &s->ctx[0], FI_COMPLETION));
		OK(receive_tagged(s, s->in, 8, FI_ADDR_UNSPEC, 0, ~0ull, &s->ctx[1], FI_COMPLETION));
		if (!late)
			barrier(s);
		finished_at(HERE, s, s->rx, &s->ctx[!pairs[at].matches], FI_RECV | FI_TAGGED, 0, &done);
		TOLD(s, tag, FI_CQ_FORMAT_TAGGED, &done, sent);
		OK(fi_cancel(&s->ep->fid, &s->ctx[pairs[at].matches]));
		ERROR(s, s->rx, FI_ECANCELED, &s->ctx[pairs[at].matches], &err);
		barrier(s);
	}
}

static void want_order(struct wish *wish)
{
	wish->order = FI_ORDER_SAS;
}

/* Each message takes the first receive that it fits, in the order of posting. */
static void posting_order(struct side *s)
{
	static const struct { uint64_t tag, ignore; } posted[] = {
		{ 1, 0 }, { 2, 0 }, { 0, ~0ull }, { 1, 0 }, { 2, 1 }, { 0, ~0ull },
	};
	/* Tag of each message, and the receive that is its. */
	static const struct { uint64_t tag; size_t receive; } sent[] = {
		{ 2, 1 }, { 2, 2 }, { 1, 0 }, { 3, 4 }, { 1, 3 }, { 9, 5 },
	};

	for (size_t i = 0; s->role == 1 && i < 6; i++)
		OK(fi_trecv(s->ep, s->in + i, 1, s->in_desc, FI_ADDR_UNSPEC, posted[i].tag,
			    posted[i].ignore, &s->ctx[i]));
	barrier(s);
	for (size_t i = 0; i < 6; i++) {
		if (s->role == 0) {
			s->out[0] = (unsigned char) i;
			POST(s, fi_tinject(s->ep, s->out, 1, s->peer, sent[i].tag));
		} else {
			FINISHED(s, s->rx, &s->ctx[sent[i].receive], FI_RECV | FI_TAGGED, 1);
			EQUAL(s->in[sent[i].receive], i);
		}
	}
}

/* Each receive takes the first message that it fits, in the order of sending. */
static void arrival_order(struct side *s)
{
	static const uint64_t sent[] = { 5, 6, 5, 7, 6 };
	static const struct { uint64_t tag, ignore; size_t message; } posted[] = {
		{ 6, 0, 1 }, { 5, 0, 0 }, { 0, ~0ull, 2 }, { 6, 1, 3 }, { 6, 0, 4 },
	};

	for (size_t i = 0; s->role == 0 && i < 5; i++) {
		s->out[0] = (unsigned char) i;
		POST(s, fi_tinject(s->ep, s->out, 1, s->peer, sent[i]));
	}
	barrier(s);
	for (size_t i = 0; s->role == 1 && i < 5; i++) {
		OK(fi_trecv(s->ep, s->in, 1, s->in_desc, FI_ADDR_UNSPEC, posted[i].tag,
			    posted[i].ignore, &s->ctx[i]));
		FINISHED(s, s->rx, &s->ctx[i], FI_RECV | FI_TAGGED, 1);
		EQUAL(s->in[0], posted[i].message);
	}
}

/* One tag, large and small in turn, received before and after they come. */
static void mixed_order(struct side *s)
{
	enum { COUNT = 40 };
	static const size_t lengths[] = { 8, 300000, 0, 5000, 70000 };

	/* On both sides, so that one knows what the other sends; messages overlap in it. */
	fill(s->out, ARENA, 0);
	for (size_t i = 0; s->role == 0 && i < COUNT; i++) {
		unsigned char *at = s->out + i * 100000;

		POST(s, fi_tsend(s->ep, at, lengths[i % 5], s->out_desc, s->peer, 3, &s->ctx[i]));
		if (i == COUNT / 2)
			barrier(s);
	}
	if (s->role == 0) {
		for (size_t i = 0; i < COUNT; i++) {
			struct done done;

			COMPLETION(s, s->tx, &done);
		}
		return;
	}
	barrier(s);
	for (size_t i = 0; i < COUNT; i++) {
		const size_t len = lengths[i % 5];

		OK(fi_trecv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, 3, 0, &s->ctx[i]));
		FINISHED(s, s->rx, &s->ctx[i], FI_RECV | FI_TAGGED, len);
		if (memcmp(s->in, s->out + i * 100000, len))
			FAIL("message %zu is another one", i);
	}
}

static void burst(struct side *s)
{
	const uint64_t count = settings.brief ? 1000 : 4000;
	uint64_t i, *value = (uint64_t *) s->in;

	for (i = 0; s->role == 0 && i < count; i++)
		POST(s, fi_tinject(s->ep, &i, sizeof(i), s->peer, i % 3));
	barrier(s);
	for (i = 0; s->role == 1 && i < count; i++) {
		OK(fi_trecv(s->ep, value, sizeof(*value), s->in_desc, FI_ADDR_UNSPEC, i % 3, 0,
			    &s->ctx[0]));
		FINISHED(s, s->rx, &s->ctx[0], FI_RECV | FI_TAGGED, sizeof(*value));
		EQUAL(*value, i);
	}
}

/* Messages without tags and with tag zero do not mix, whatever is ignored. */
static void apart_from_untagged(struct side *s)
{
	if (s->role == 0) {
		barrier(s);
		fill(s->out, 2, 0);
		POST(s, fi_inject(s->ep, s->out, 1, s->peer));
		POST(s, fi_tinject(s->ep, s->out, 2, s->peer, 0));
		barrier(s);
		POST(s, fi_tinject(s->ep, s->out, 2, s->peer, 0));
		POST(s, fi_inject(s->ep, s->out, 1, s->peer));
		barrier(s);
		return;
	}
	OK(fi_trecv(s->ep, s->in, 2, s->in_desc, FI_ADDR_UNSPEC, 0, ~0ull, &s->ctx[0]));
	OK(fi_recv(s->ep, s->in + 8, 2, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
	barrier(s);
	FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_MSG, 1);
	FINISHED(s, s->rx, &s->ctx[0], FI_RECV | FI_TAGGED, 2);
	barrier(s);
	barrier(s);
	OK(fi_recv(s->ep, s->in + 8, 2, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
	FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_MSG, 1);
	OK(fi_trecv(s->ep, s->in, 2, s->in_desc, FI_ADDR_UNSPEC, 0, ~0ull, &s->ctx[0]));
	FINISHED(s, s->rx, &s->ctx[0], FI_RECV | FI_TAGGED, 2);
}

static const struct conformance_case matching_cases[] = {
	{ "ignore-bits", "fi_tagged(3)", "A receive takes a message whose tag is equal in all bits that it does not ignore, and no other.",
	  FI_TAGGED, EP_RELIABLE, VARY_FORMAT, 0, NULL, ignore_bits },
	{ "posting-order", "fi_tagged(3)", "Of several receives that fit, a message takes the one posted first.",
	  FI_TAGGED, EP_RELIABLE, 0, 0, want_order, posting_order },
	{ "arrival-order", "fi_tagged(3)", "Of several messages that fit, a receive takes the one sent first.",
	  FI_TAGGED, EP_RELIABLE, VARY_PROGRESS, 0, want_order, arrival_order },
	{ "mixed-order", "fi_endpoint(3)", "With FI_ORDER_SAS, messages of one tag are matched in the order of sending, large or small.",
	  FI_TAGGED, EP_RELIABLE, VARY_PROGRESS, 0, want_order, mixed_order },
	{ "burst", "fi_domain(3)", "With resource management, messages beyond all queues wait for their receives, and none is lost.",
	  FI_TAGGED, EP_RELIABLE, VARY_THREADING, 0, want_order, burst },
	{ "apart-from-untagged", "fi_tagged(3)", "Tagged and untagged messages are matched apart from each other.",
	  FI_MSG | FI_TAGGED, EP_RELIABLE, 0, 0, NULL, apart_from_untagged },
};
GROUP(matching);
