/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages longer than their buffer. Side 0 sends, side 1 receives. */
#include "groups.h"
#include "traffic.h"

#define TAG	3
#define ROOM	40

static const size_t lengths[] = { 100, 50000, (size_t) 1 << 20 };

/* 0: the connection has ended already, and takes nothing more. */
static int sends(struct side *s, int tagged, size_t len, void *context)
{
	double late = 0;
	ssize_t ret;

	while ((ret = tagged ? fi_tsend(s->ep, s->out, len, s->out_desc, s->peer, TAG, context) :
			       fi_send(s->ep, s->out, len, s->out_desc, s->peer, context)) ==
	       -FI_EAGAIN) {
		progress(s);
		late_at(HERE, &late, "room for a message");
	}
	if (ret && s->type == FI_EP_MSG)
		return 0;
	OK(ret);
	return 1;
}

static void receives(struct side *s, int tagged, void *buf, void *context)
{
	if (tagged)
		OK(fi_trecv(s->ep, buf, ROOM, s->in_desc, FI_ADDR_UNSPEC, TAG, 0, context));
	else
		OK(fi_recv(s->ep, buf, ROOM, s->in_desc, FI_ADDR_UNSPEC, context));
}

/* To the sender nothing is wrong, unless the connection has ended. */
static void await_sends(struct side *s, int count, int *ended)
{
	struct fi_cq_err_entry err;
	struct done done;
	int failed = count < 2;

	for (int k = 0; k < count; k++)
		failed |= !OUTCOME(s, s->tx, &done, &err);
	swap(s, &failed, ended, sizeof(failed));
	CHECK(!failed || *ended);
}

/*
 * Matched in order, but complete in any. To a device, a message that is too long may be the end of the
 * connection: then it tells no lengths, and the other receive ends with it.
 */
static void await_receives(struct side *s, int tagged, size_t len, int *ended)
{
	const uint64_t kind = tagged ? FI_TAGGED : FI_MSG;
	struct fi_cq_err_entry err = { 0 }, entry;
	struct done done;
	int failed;

	*ended = 0;
	for (int k = 0; k < 2; k++) {
		if (OUTCOME(s, s->rx, &done, &entry)) {
			CHECK(done.context == &s->ctx[1]);
			TOLD(s, len, FI_CQ_FORMAT_MSG, &done, 30);
		} else if (entry.op_context == &s->ctx[1]) {
			EQUAL(s->type, FI_EP_MSG);
			EQUAL((*ended)++, 0);
		} else {
			EQUAL(err.err, 0);
			err = entry;
		}
	}
	EQUAL(err.err, FI_ETRUNC);
	CHECK(err.op_context == &s->ctx[0]);
	EQUAL(err.flags & (FI_RECV | kind), FI_RECV | kind);
	if (!*ended) {
		EQUAL(err.olen, len - ROOM);
		EQUAL(err.len, ROOM);
		if (tagged)
			EQUAL(err.tag, TAG);
	}
	QUIET(s, s->rx);
	swap(s, ended, &failed, sizeof(failed));
}

/* A too long message, and a fitting one behind it that must not suffer. 0: the connection is over. */
static int cut(struct side *s, int tagged, int message_first)
{
	int ended = 0;

	for (size_t i = 0; i < 3 && !ended; i++) {
		if (s->role == 0) {
			int count = 0;

			fill(s->out, lengths[i], i);
			if (!message_first)
				barrier(s);
			for (size_t k = 0; k < 2; k++)
				count += sends(s, tagged, k ? 30 : lengths[i], &s->ctx[k]);
			if (message_first)
				barrier(s);
			await_sends(s, count, &ended);
			continue;
		}
		memset(s->in, 0xee, 200);
		if (message_first)
			barrier(s);
		for (size_t k = 0; k < 2; k++)
			receives(s, tagged, s->in + k * 100, &s->ctx[k]);
		if (!message_first)
			barrier(s);
		await_receives(s, tagged, lengths[i], &ended);
		for (size_t at = ROOM; at < 100; at++)
			EQUAL(s->in[at], 0xee);
		EQUAL(s->in[130], 0xee);
		if (!ended) {
			FILLED(s->in, ROOM, i);
			FILLED(s->in + 100, 30, i);
		}
	}
	return !ended;
}

static void untagged(struct side *s)
{
	if (cut(s, 0, 0))
		cut(s, 0, 1);
}

static void tagged(struct side *s)
{
	if (cut(s, 1, 0))
		cut(s, 1, 1);
}

/* No room at all. */
static void nowhere(struct side *s)
{
	struct fi_cq_err_entry err;
	struct done done;
	int ended = 0, theirs = 0;

	for (size_t i = 0; i < 3 && !ended; i++) {
		if (s->role == 0) {
			barrier(s);
			POST(s, fi_send(s->ep, s->out, lengths[i], s->out_desc, s->peer, &s->ctx[0]));
			ended = !OUTCOME(s, s->tx, &done, &err);
			CHECK(!ended || s->type == FI_EP_MSG);
			swap(s, &ended, &theirs, sizeof(ended));
			continue;
		}
		OK(fi_recv(s->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, &s->ctx[0]));
		barrier(s);
		ERROR(s, s->rx, FI_ETRUNC, &s->ctx[0], &err);
		swap(s, &theirs, &ended, sizeof(ended));
		if (!ended) {
			EQUAL(err.olen, lengths[i]);
			EQUAL(err.len, 0);
		}
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
	{ "untagged", "fi_cq(3)", "A message longer than its receive is FI_ETRUNC: len is what was placed, olen what was lost; nothing is written behind the buffer, and the next message is whole. A connection may end instead.",
	  FI_MSG, EP_RELIABLE, VARY_FORMAT | VARY_PROGRESS, 0, want_order, untagged },
	{ "tagged", "fi_cq(3)", "The same of tagged messages, whose tag is in the error's entry.",
	  FI_TAGGED, EP_RELIABLE, VARY_FORMAT | VARY_PROGRESS, 0, want_order, tagged },
	{ "nowhere", "fi_msg(3)", "A receive without room takes an empty message only.",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, nowhere },
	{ "multi-recv", "fi_msg(3)", "A message longer than a whole FI_MULTI_RECV buffer is cut, and the next one is in the next buffer.",
	  FI_MSG | FI_MULTI_RECV, EP_RELIABLE, 0, 0, want_order, multi_recv },
};
GROUP(truncation);
