/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages longer than their buffer. Side 0 sends, side 1 receives. */
#include "groups.h"
#include "traffic.h"

#define TAG	3
#define ROOM	40

static const size_t lengths[] = { 100, 50000, (size_t) 1 << 20 };

/* A too long message, and a fitting one behind it that must not suffer. */
static void cut(struct side *s, int tagged, int message_first)
{
	const uint64_t kind = tagged ? FI_TAGGED : FI_MSG;

	for (size_t i = 0; i < 3; i++) {
		struct fi_cq_err_entry err = { 0 };
		struct done done;

		if (s->role == 0) {
			fill(s->out, lengths[i], i);
			if (!message_first)
				barrier(s);
			for (size_t k = 0; k < 2; k++) {
				const size_t len = k ? 30 : lengths[i];

				if (tagged)
					POST(s, fi_tsend(s->ep, s->out, len, s->out_desc, s->peer, TAG,
							 &s->ctx[k]));
				else
					POST(s, fi_send(s->ep, s->out, len, s->out_desc, s->peer,
							&s->ctx[k]));
			}
			if (message_first)
				barrier(s);
			/* To the sender nothing is wrong. */
			COMPLETION(s, s->tx, &done);
			COMPLETION(s, s->tx, &done);
			barrier(s);
			continue;
		}
		memset(s->in, 0xee, 200);
		if (message_first)
			barrier(s);
		for (size_t k = 0; k < 2; k++) {
			if (tagged)
				OK(fi_trecv(s->ep, s->in + k * 100, ROOM, s->in_desc, FI_ADDR_UNSPEC, TAG,
					    0, &s->ctx[k]));
			else
				OK(fi_recv(s->ep, s->in + k * 100, ROOM, s->in_desc, FI_ADDR_UNSPEC,
					   &s->ctx[k]));
		}
		if (!message_first)
			barrier(s);
		/* Matched in order, but complete in any. */
		for (int errors = 0, k = 0; k < 2; k++) {
			struct fi_cq_err_entry entry;

			if (OUTCOME(s, s->rx, &done, &entry)) {
				CHECK(done.context == &s->ctx[1]);
				TOLD(s, len, FI_CQ_FORMAT_MSG, &done, 30);
			} else {
				EQUAL(errors++, 0);
				err = entry;
			}
		}
		EQUAL(err.err, FI_ETRUNC);
		CHECK(err.op_context == &s->ctx[0]);
		EQUAL(err.olen, lengths[i] - ROOM);
		EQUAL(err.len, ROOM);
		EQUAL(err.flags & (FI_RECV | kind), FI_RECV | kind);
		if (tagged)
			EQUAL(err.tag, TAG);
		FILLED(s->in, ROOM, i);
		for (size_t at = ROOM; at < 100; at++)
			EQUAL(s->in[at], 0xee);
		FILLED(s->in + 100, 30, i);
		EQUAL(s->in[130], 0xee);
		QUIET(s, s->rx);
		barrier(s);
	}
}

static void untagged(struct side *s)
{
	cut(s, 0, 0);
	cut(s, 0, 1);
}

static void tagged(struct side *s)
{
	cut(s, 1, 0);
	cut(s, 1, 1);
}

/* No room at all. */
static void nowhere(struct side *s)
{
	struct fi_cq_err_entry err;

	for (size_t i = 0; i < 3; i++) {
		if (s->role == 0) {
			barrier(s);
			POST(s, fi_send(s->ep, s->out, lengths[i], s->out_desc, s->peer, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, lengths[i]);
			continue;
		}
		OK(fi_recv(s->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, &s->ctx[0]));
		barrier(s);
		ERROR(s, s->rx, FI_ETRUNC, &s->ctx[0], &err);
		EQUAL(err.olen, lengths[i]);
		EQUAL(err.len, 0);
	}
}

/* The first message of a multi-receive buffer is longer than all of it. */
static void multi_recv(struct side *s)
{
	const size_t least = 10;

	for (size_t i = 0; i < 3; i++) {
		struct fi_cq_err_entry err;
		struct done done;

		if (s->role == 0) {
			fill(s->out, lengths[i], i);
			barrier(s);
			POST(s, fi_send(s->ep, s->out, lengths[i], s->out_desc, s->peer, &s->ctx[0]));
			POST(s, fi_send(s->ep, s->out, 30, s->out_desc, s->peer, &s->ctx[1]));
			COMPLETION(s, s->tx, &done);
			COMPLETION(s, s->tx, &done);
			continue;
		}
		memset(s->in, 0xee, 200);
		OK(fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
		OK(receive_untagged(s, s->in, ROOM, FI_ADDR_UNSPEC, &s->ctx[0],
				    FI_MULTI_RECV | FI_COMPLETION));
		OK(receive_untagged(s, s->in + 100, 100, FI_ADDR_UNSPEC, &s->ctx[1],
				    FI_MULTI_RECV | FI_COMPLETION));
		barrier(s);
		for (int whole = 0, released = 0, cut = 0; !whole || !released || !cut;) {
			if (!OUTCOME(s, s->rx, &done, &err)) {
				EQUAL(cut++, 0);
				EQUAL(err.err, FI_ETRUNC);
				CHECK(err.op_context == &s->ctx[0]);
				EQUAL(err.olen, lengths[i] - ROOM);
				EQUAL(err.len, ROOM);
				released += !!(err.flags & FI_MULTI_RECV);
			} else if (done.context == &s->ctx[0]) {
				/* The release, where the error has not told it. */
				EQUAL(done.flags, FI_MULTI_RECV);
				EQUAL(released++, 0);
			} else {
				EQUAL(whole++, 0);
				CHECK(done.context == &s->ctx[1]);
				EQUAL(done.len, 30);
				FILLED(done.buf, 30, i);
			}
		}
		FILLED(s->in, ROOM, i);
		for (size_t at = ROOM; at < 100; at++)
			EQUAL(s->in[at], 0xee);
		OK(fi_cancel(&s->ep->fid, &s->ctx[1]));
		ERROR(s, s->rx, FI_ECANCELED, &s->ctx[1], &err);
	}
}

static void want_order(struct wish *wish)
{
	wish->order = FI_ORDER_SAS;
}

static const struct conformance_case truncation_cases[] = {
	{ "untagged", "fi_cq(3)", "A message longer than its receive is FI_ETRUNC: len is what was placed, olen what was lost; nothing is written behind the buffer, and the next message is whole.",
	  FI_MSG, EP_RELIABLE, VARY_FORMAT | VARY_PROGRESS, 0, want_order, untagged },
	{ "tagged", "fi_cq(3)", "The same of tagged messages, whose tag is in the error's entry.",
	  FI_TAGGED, EP_RELIABLE, VARY_FORMAT | VARY_PROGRESS, 0, want_order, tagged },
	{ "nowhere", "fi_msg(3)", "A receive without room takes an empty message only.",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, nowhere },
	{ "multi-recv", "fi_msg(3)", "A message longer than a whole FI_MULTI_RECV buffer is cut, and the next one is in the next buffer.",
	  FI_MSG | FI_MULTI_RECV, EP_RELIABLE, 0, 0, want_order, multi_recv },
};
GROUP(truncation);
