/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Looking at messages before receiving them: FI_PEEK, FI_CLAIM, FI_DISCARD. Side 0 sends messages,
 * tagged by their number, side 1 looks.
 */
#include <sched.h>

#include "groups.h"
#include "traffic.h"

#define TAG	0x1234567800000000ull
#define DATA	0xdecafbadull

/* Small ones, and such as stay with their sender until they are received. */
static const size_t lengths[] = { 0, 10, 5000, 300000 };

#define COUNT	(sizeof(lengths) / sizeof(lengths[0]))

static ssize_t look(struct side *s, uint64_t tag, uint64_t flags, void *context)
{
	struct fi_msg_tagged msg = {
		.addr = FI_ADDR_UNSPEC, .tag = tag, .context = context,
	};

	return fi_trecvmsg(s->ep, &msg, flags | FI_COMPLETION);
}

static void check_missed(const char *at, struct side *s, void *context)
{
	struct fi_cq_err_entry err;

	error_at(at, s, s->rx, FI_ENOMSG, context, &err);
	equal_at(at, "flags", (long long) (err.flags & (FI_RECV | FI_TAGGED)), FI_RECV | FI_TAGGED);
}

/* Nothing with this tag is there. */
#define MISSED(s, tag) \
	do { OK(look(s, tag, FI_PEEK, &(s)->ctx[60])); check_missed(HERE, s, &(s)->ctx[60]); } while (0)

/* Looks until the message, which has been sent or will be, has come. */
static void found_at(const char *at, struct side *s, uint64_t tag, uint64_t flags, void *context,
		     size_t len, struct done *done)
{
	double late = 0;

	for (;;) {
		struct fi_cq_err_entry err;

		result_at(at, "fi_trecvmsg", look(s, tag, FI_PEEK | flags, context));
		if (outcome_at(at, s, s->rx, done, &err))
			break;
		equal_at(at, "error of a peek", err.err, FI_ENOMSG);
		/* Reading the answers must be enough for messages to come in. */
		sched_yield();
		late_at(at, &late, "a message");
	}
	if (done->context != context)
		fail_at(at, "peek of context %p, expected %p", done->context, context);
	TOLD(s, len, FI_CQ_FORMAT_MSG, done, len);
	TOLD(s, flags & (FI_RECV | FI_TAGGED), FI_CQ_FORMAT_MSG, done, FI_RECV | FI_TAGGED);
}

static void found(struct side *s, size_t i, uint64_t flags, void *context)
{
	struct done done;

	found_at(HERE, s, tag_of(s, TAG + i), flags, context, lengths[i], &done);
	TOLD(s, tag, FI_CQ_FORMAT_TAGGED, &done, tag_of(s, TAG + i));
}

/* All lengths, each filled from its own place; they complete when the other side is done. */
static void send_all(struct side *s)
{
	for (size_t i = 0; i < COUNT; i++) {
		fill(s->out + (i << 19), lengths[i], i);
		POST(s, fi_tsend(s->ep, s->out + (i << 19), lengths[i], s->out_desc, s->peer,
				 tag_of(s, TAG + i), &s->ctx[i]));
	}
	barrier(s);
	/* Each in its own time, so in any order. */
	for (size_t i = 0; i < COUNT; i++) {
		struct done done;

		COMPLETION(s, s->tx, &done);
	}
	barrier(s);
}

static void received(struct side *s, size_t i, uint64_t flags, void *context)
{
	memset(s->in, 0xee, lengths[i] + 1);
	OK(receive_tagged(s, s->in, ARENA, FI_ADDR_UNSPEC, tag_of(s, TAG + i), 0, context,
			  flags | FI_COMPLETION));
	FINISHED(s, s->rx, context, FI_RECV | FI_TAGGED, lengths[i]);
	FILLED(s->in, lengths[i], i);
	EQUAL(s->in[lengths[i]], 0xee);
}

static void miss(struct side *s)
{
	if (s->role == 1) {
		for (int i = 0; i < 3; i++)
			MISSED(s, tag_of(s, TAG));
		QUIET(s, s->rx);
	}
}

static void miss_other_tag(struct side *s)
{
	if (s->role == 0) {
		send_all(s);
		return;
	}
	barrier(s);
	found(s, COUNT - 1, 0, &s->ctx[0]);
	MISSED(s, tag_of(s, TAG + COUNT));
	MISSED(s, 0);
	for (size_t i = 0; i < COUNT; i++)
		received(s, i, 0, &s->ctx[i]);
	for (size_t i = 0; i < COUNT; i++)
		MISSED(s, tag_of(s, TAG + i));
	barrier(s);
}

static void look_twice(struct side *s)
{
	if (s->role == 0) {
		send_all(s);
		return;
	}
	barrier(s);
	for (size_t i = COUNT; i-- > 0;) {
		found(s, i, 0, &s->ctx[i]);
		found(s, i, 0, &s->ctx[i + COUNT]);
	}
	for (size_t i = COUNT; i-- > 0;)
		received(s, i, 0, &s->ctx[i]);
	QUIET(s, s->rx);
	barrier(s);
}

static void remote_data(struct side *s)
{
	struct done done;

	if (s->role == 0) {
		POST(s, fi_tsenddata(s->ep, s->out, 100, s->out_desc, DATA, s->peer, 1, &s->ctx[0]));
		barrier(s);
		FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_TAGGED, 100);
		barrier(s);
		return;
	}
	barrier(s);
	found_at(HERE, s, 1, 0, &s->ctx[0], 100, &done);
	TOLD(s, flags & FI_REMOTE_CQ_DATA, FI_CQ_FORMAT_MSG, &done, FI_REMOTE_CQ_DATA);
	TOLD(s, data, FI_CQ_FORMAT_DATA, &done, carried(s, DATA));
	OK(fi_trecv(s->ep, s->in, 100, s->in_desc, FI_ADDR_UNSPEC, 1, 0, &s->ctx[1]));
	finished_at(HERE, s, s->rx, &s->ctx[1], FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA, 100, &done);
	TOLD(s, data, FI_CQ_FORMAT_DATA, &done, carried(s, DATA));
	barrier(s);
}

/* Of several that fit, a peek and the receive behind it speak of the same one. */
static void earliest(struct side *s)
{
	struct fi_msg_tagged msg = {
		.addr = FI_ADDR_UNSPEC, .tag = 0, .ignore = ~0ull, .context = &s->ctx[0],
	};
	struct done done;

	if (s->role == 0) {
		send_all(s);
		return;
	}
	barrier(s);
	found(s, COUNT - 1, 0, &s->ctx[0]);
	for (size_t i = 0; i < COUNT; i++) {
		OK(fi_trecvmsg(s->ep, &msg, FI_PEEK | FI_COMPLETION));
		finished_at(HERE, s, s->rx, &s->ctx[0], FI_RECV | FI_TAGGED, lengths[i], &done);
		TOLD(s, tag, FI_CQ_FORMAT_TAGGED, &done, tag_of(s, TAG + i));
		OK(fi_trecv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, 0, ~0ull, &s->ctx[1]));
		finished_at(HERE, s, s->rx, &s->ctx[1], FI_RECV | FI_TAGGED, lengths[i], &done);
		TOLD(s, tag, FI_CQ_FORMAT_TAGGED, &done, tag_of(s, TAG + i));
		FILLED(s->in, lengths[i], i);
	}
	barrier(s);
}

/* A message that has a receive is not there to be looked at. */
static void beside_receives(struct side *s)
{
	if (s->role == 0) {
		barrier(s);
		send_all(s);
		return;
	}
	for (size_t i = 0; i < COUNT; i++)
		OK(fi_trecv(s->ep, s->in + (i << 19), (size_t) 1 << 19, s->in_desc, FI_ADDR_UNSPEC,
			    tag_of(s, TAG + i), 0, &s->ctx[i]));
	barrier(s);
	barrier(s);
	for (size_t i = 0; i < COUNT; i++) {
		struct done done;

		COMPLETION(s, s->rx, &done);
	}
	for (size_t i = 0; i < COUNT; i++) {
		MISSED(s, tag_of(s, TAG + i));
		FILLED(s->in + (i << 19), lengths[i], i);
	}
	barrier(s);
}

static void claim(struct side *s)
{
	if (s->role == 0) {
		send_all(s);
		return;
	}
	barrier(s);
	for (size_t i = 0; i < COUNT; i++) {
		found(s, i, FI_CLAIM, &s->ctx[i]);
		MISSED(s, tag_of(s, TAG + i));
	}
	/* In another order than they were claimed in: the context says which one. */
	for (size_t i = COUNT; i-- > 0;)
		received(s, i, FI_CLAIM, &s->ctx[i]);
	QUIET(s, s->rx);
	barrier(s);
}

/* The second message with the same tag goes to who did not claim the first. */
static void claimed_is_hidden(struct side *s)
{
	struct fi_cq_err_entry err;
	struct done done;

	for (unsigned char i = 0; s->role == 0 && i < 2; i++)
		POST(s, fi_tinject(s->ep, &i, 1, s->peer, 4));
	barrier(s);
	if (s->role == 1) {
		found_at(HERE, s, 4, FI_CLAIM, &s->ctx[0], 1, &done);
		OK(fi_trecv(s->ep, s->in, 1, s->in_desc, FI_ADDR_UNSPEC, 4, 0, &s->ctx[1]));
		FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_TAGGED, 1);
		EQUAL(s->in[0], 1);
		/* It waits, although a claimed message has its tag. */
		OK(fi_trecv(s->ep, s->in, 1, s->in_desc, FI_ADDR_UNSPEC, 4, 0, &s->ctx[1]));
		QUIET(s, s->rx);
		OK(receive_tagged(s, s->in + 8, 1, FI_ADDR_UNSPEC, 4, 0, &s->ctx[0],
				  FI_CLAIM | FI_COMPLETION));
		FINISHED(s, s->rx, &s->ctx[0], FI_RECV | FI_TAGGED, 1);
		EQUAL(s->in[8], 0);
		OK(fi_cancel(&s->ep->fid, &s->ctx[1]));
		ERROR(s, s->rx, FI_ECANCELED, &s->ctx[1], &err);
	}
}

/* Senders complete, whether their message was received or dropped. */
static void peek_discard(struct side *s)
{
	if (s->role == 0) {
		send_all(s);
		return;
	}
	barrier(s);
	for (size_t i = 0; i < COUNT; i++) {
		found(s, i, FI_DISCARD, &s->ctx[i]);
		MISSED(s, tag_of(s, TAG + i));
	}
	QUIET(s, s->rx);
	barrier(s);
}

static void claim_discard(struct side *s)
{
	if (s->role == 0) {
		send_all(s);
		return;
	}
	barrier(s);
	for (size_t i = 0; i < COUNT; i++)
		found(s, i, FI_CLAIM, &s->ctx[i]);
	memset(s->in, 0xee, 64);
	for (size_t i = COUNT; i-- > 0;) {
		struct done done;

		OK(receive_tagged(s, s->in, 64, FI_ADDR_UNSPEC, tag_of(s, TAG + i), 0, &s->ctx[i],
				  FI_CLAIM | FI_DISCARD | FI_COMPLETION));
		/* The manual does not say whether the length is that of what was dropped. */
		COMPLETION(s, s->rx, &done);
		CHECK(done.context == &s->ctx[i]);
		MISSED(s, tag_of(s, TAG + i));
	}
	for (size_t i = 0; i < 64; i++)
		EQUAL(s->in[i], 0xee);
	QUIET(s, s->rx);
	barrier(s);
}

/* Others keep their order around one that is taken out. */
static void discard_between(struct side *s)
{
	enum { MESSAGES = 9 };
	struct done done;

	for (unsigned char i = 0; s->role == 0 && i < MESSAGES; i++)
		POST(s, fi_tinject(s->ep, &i, 1, s->peer, i % 3));
	barrier(s);
	if (s->role == 1) {
		for (int i = 0; i < MESSAGES / 3; i++)
			found_at(HERE, s, 1, FI_DISCARD, &s->ctx[0], 1, &done);
		for (int i = 0; i < MESSAGES; i++) {
			if (i % 3 == 1)
				continue;
			OK(fi_trecv(s->ep, s->in, 1, s->in_desc, FI_ADDR_UNSPEC, 0, ~0ull, &s->ctx[1]));
			FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_TAGGED, 1);
			EQUAL(s->in[0], i);
		}
		MISSED(s, 1);
	}
}

static void want_directed(struct wish *wish)
{
	wish->caps |= FI_DIRECTED_RECV | FI_SOURCE;
}

/* A peek that names a source sees nobody else's messages. */
static void directed(struct side *s)
{
	struct fi_msg_tagged msg = { .addr = s->peer, .tag = 6, .context = &s->ctx[0] };
	struct done done;

	if (s->role == 0) {
		POST(s, fi_tinject(s->ep, s->out, 7, s->peer, 6));
		barrier(s);
		return;
	}
	barrier(s);
	found_at(HERE, s, 6, 0, &s->ctx[0], 7, &done);
	EQUAL(done.source, s->peer);
	msg.addr = s->self;
	OK(fi_trecvmsg(s->ep, &msg, FI_PEEK | FI_COMPLETION));
	check_missed(HERE, s, &s->ctx[0]);
	msg.addr = s->peer;
	OK(fi_trecvmsg(s->ep, &msg, FI_PEEK | FI_DISCARD | FI_COMPLETION));
	FINISHED(s, s->rx, &s->ctx[0], FI_RECV | FI_TAGGED, 7);
	MISSED(s, 6);
}

static const struct conformance_case peek_cases[] = {
	{ "miss", "fi_tagged(3)", "A peek that finds nothing is an error entry with FI_ENOMSG; it never stays posted.",
	  FI_TAGGED, EP_RELIABLE, VARY_FORMAT | VARY_PROGRESS, 0, NULL, miss },
	{ "miss-other-tag", "fi_tagged(3)", "A peek finds messages of its tag only, and none that has been received.",
	  FI_TAGGED, EP_RELIABLE, 0, 0, NULL, miss_other_tag },
	{ "look-twice", "fi_tagged(3)", "A peek tells length, tag and flags, and leaves the message where it is.",
	  FI_TAGGED, EP_RELIABLE, VARY_FORMAT | VARY_PROGRESS, 0, NULL, look_twice },
	{ "remote-data", "fi_tagged(3)", "A peek tells the data that came beside the message.",
	  FI_TAGGED, EP_RELIABLE, VARY_FORMAT, 0, NULL, remote_data },
	{ "earliest", "fi_tagged(3)", "A peek finds the message that a receive with its tag and ignored bits would take.",
	  FI_TAGGED, EP_RELIABLE, 0, 0, NULL, earliest },
	{ "beside-receives", "fi_tagged(3)", "A message with a posted receive goes there, and no peek finds it.",
	  FI_TAGGED, EP_RELIABLE, 0, 0, NULL, beside_receives },
	{ "claim", "fi_tagged(3)", "A claimed message is received by FI_CLAIM with the same context, in any order.",
	  FI_TAGGED, EP_RELIABLE, VARY_AV | VARY_PROGRESS, 0, NULL, claim },
	{ "claimed-is-hidden", "fi_tagged(3)", "No other receive takes a claimed message.",
	  FI_TAGGED, EP_RELIABLE, 0, 0, NULL, claimed_is_hidden },
	{ "peek-discard", "fi_tagged(3)", "FI_PEEK with FI_DISCARD drops the message that it finds.",
	  FI_TAGGED, EP_RELIABLE, VARY_PROGRESS, 0, NULL, peek_discard },
	{ "claim-discard", "fi_tagged(3)", "FI_CLAIM with FI_DISCARD drops a claimed message, whatever buffer it is given.",
	  FI_TAGGED, EP_RELIABLE, VARY_PROGRESS, 0, NULL, claim_discard },
	{ "discard-between", "fi_tagged(3)", "Messages around one that was dropped keep their order.",
	  FI_TAGGED, EP_RELIABLE, 0, 0, NULL, discard_between },
	{ "directed", "fi_tagged(3)", "With FI_DIRECTED_RECV, a peek that names a source finds only its messages.",
	  FI_TAGGED, EP_RDM, VARY_AV, 0, want_directed, directed },
};
GROUP(peek);
