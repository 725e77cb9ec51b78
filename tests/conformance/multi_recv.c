/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* FI_MULTI_RECV: one buffer for many messages. Side 0 sends, side 1 receives. */
#include "groups.h"
#include "traffic.h"

static void set_least(struct side *s, size_t least)
{
	size_t value = 0, len = sizeof(value);

	OK(fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	OK(fi_getopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	EQUAL(value, least);
	EQUAL(len, sizeof(value));
}

static ssize_t post(struct side *s, void *buf, size_t len, void *context)
{
	return receive_untagged(s, buf, len, FI_ADDR_UNSPEC, context, FI_MULTI_RECV | FI_COMPLETION);
}

/* Where the next message goes, and what has been heard of a buffer. */
struct buffer {
	unsigned char	*next, *end;
	int		released;
};

/*
 * Takes the next entry: a message of this buffer, right behind the one before, or its release, or
 * both. Returns the message's length, or -1 for a release alone.
 */
static ssize_t take(struct side *s, struct buffer *buffer, void *context, size_t seed)
{
	struct done done;

	COMPLETION(s, s->rx, &done);
	CHECK(done.context == context);
	CHECK(!buffer->released);
	buffer->released = !!(done.flags & FI_MULTI_RECV);
	if (!(done.flags & FI_RECV)) {
		CHECK(buffer->released);
		return -1;
	}
	EQUAL(done.flags & ~FI_MULTI_RECV, FI_RECV | FI_MSG);
	/* The provider may align it; not before the last one, nor outside. */
	CHECK((unsigned char *) done.buf >= buffer->next);
	CHECK((unsigned char *) done.buf + done.len <= buffer->end);
	FILLED(done.buf, done.len, seed);
	buffer->next = (unsigned char *) done.buf + done.len;
	return (ssize_t) done.len;
}

static void send_many(struct side *s, size_t count, size_t len)
{
	for (size_t i = 0; i < count; i++) {
		struct done done;

		fill(s->out, len, i);
		POST(s, fi_send(s->ep, s->out, len, s->out_desc, s->peer, &s->ctx[0]));
		COMPLETION(s, s->tx, &done);
	}
}

/* As many buffers as it takes, two posted at a time, used in order. */
static void receive_many(struct side *s, size_t count, size_t least, size_t room,
			 size_t *released)
{
	struct buffer buffers[2];
	size_t used = 0, i = 0;

	*released = 0;
	for (size_t k = 0; k < 2; k++) {
		buffers[k] = (struct buffer) { s->in + k * room, s->in + (k + 1) * room, 0 };
		OK(post(s, buffers[k].next, room, &s->ctx[k]));
	}
	barrier(s);
	/* A release may be told apart from the last message. */
	while (i < count || buffers[used].next + least > buffers[used].end) {
		if (take(s, &buffers[used], &s->ctx[used], i) >= 0)
			i++;
		if (!buffers[used].released)
			continue;
		++*released;
		/* Its own again, so it can be posted anew. */
		buffers[used] = (struct buffer) { s->in + used * room, s->in + (used + 1) * room, 0 };
		OK(post(s, buffers[used].next, room, &s->ctx[used]));
		used = !used;
	}
	for (size_t k = 0; k < 2; k++) {
		struct fi_cq_err_entry err;

		OK(fi_cancel(&s->ep->fid, &s->ctx[used]));
		ERROR(s, s->rx, FI_ECANCELED, &s->ctx[used], &err);
		EQUAL(err.flags & FI_MULTI_RECV, FI_MULTI_RECV);
		used = !used;
	}
	QUIET(s, s->rx);
}

/* Room that is left is enough for a message, or the buffer is given back. */
static void many(struct side *s, size_t count, size_t len, size_t room)
{
	const size_t least = len < 1000 ? 1000 : len;
	size_t released;

	if (s->role == 0) {
		barrier(s);
		send_many(s, count, len);
	} else {
		set_least(s, least);
		receive_many(s, count, least, room, &released);
		CHECK(released >= count * len / room);
		CHECK(released <= count * len / (room - least - len) + 1);
	}
	barrier(s);
}

static void packing(struct side *s)
{
	many(s, 100, 1000, 10500);
	many(s, 300, 8, 1500);
	many(s, 50, 5000, 23000);
}

/* Messages that come in more than one piece, and stay with their sender until there is room. */
static void large(struct side *s)
{
	many(s, 20, 200000, 900000);
}

/* All lengths into one large buffer, the last one filling it. */
static void mixed(struct side *s)
{
	static const size_t lengths[] = { 0, 10, 70000, 1, 300000, 4096, 0, 100000, 64, 16385 };
	enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
	struct buffer buffer = { s->in, s->in + ARENA, 0 };
	struct fi_cq_err_entry err;

	if (s->role == 0) {
		barrier(s);
		for (size_t i = 0; i < 2 * COUNT; i++) {
			struct done done;

			fill(s->out, lengths[i % COUNT], i);
			POST(s, fi_send(s->ep, s->out, lengths[i % COUNT], s->out_desc, s->peer,
					&s->ctx[0]));
			COMPLETION(s, s->tx, &done);
		}
		return;
	}
	OK(post(s, s->in, ARENA, &s->ctx[1]));
	barrier(s);
	for (size_t i = 0; i < 2 * COUNT; i++)
		EQUAL(take(s, &buffer, &s->ctx[1], i), lengths[i % COUNT]);
	QUIET(s, s->rx);
	OK(fi_cancel(&s->ep->fid, &s->ctx[1]));
	ERROR(s, s->rx, FI_ECANCELED, &s->ctx[1], &err);
	QUIET(s, s->rx);
}

/* Messages that wait go in when the buffer is posted, and complete in any order. */
static void message_first(struct side *s)
{
	enum { COUNT = 9 };
	static const size_t lengths[] = { 100, 3000, 200000 };

	for (size_t k = 0; k < 3; k++) {
		const size_t len = lengths[k], room = COUNT * len;
		unsigned char *places[COUNT];
		int released = 0;
		struct done done;

		if (s->role == 0) {
			fill(s->out, len, k);
			for (size_t i = 0; i < COUNT; i++)
				POST(s, fi_send(s->ep, s->out, len, s->out_desc, s->peer, &s->ctx[i]));
			barrier(s);
			for (size_t i = 0; i < COUNT; i++)
				COMPLETION(s, s->tx, &done);
			continue;
		}
		set_least(s, 64);
		barrier(s);
		OK(post(s, s->in, room, &s->ctx[0]));
		for (size_t i = 0; i < COUNT; i++) {
			CHECK(!released);
			finished_at(HERE, s, s->rx, &s->ctx[0], FI_RECV | FI_MSG, len, &done);
			released = !!(done.flags & FI_MULTI_RECV);
			places[i] = done.buf;
			CHECK(places[i] >= s->in && places[i] + len <= s->in + room);
			for (size_t other = 0; other < i; other++)
				CHECK(places[i] >= places[other] + len || places[i] + len <= places[other]);
			FILLED(places[i], len, k);
		}
		if (!released) {
			COMPLETION(s, s->rx, &done);
			EQUAL(done.flags, FI_MULTI_RECV);
		}
		QUIET(s, s->rx);
	}
}

/* The limit decides when a buffer is given back. */
static void least_room(struct side *s)
{
	static const size_t least[] = { 1, 100, 101, 900, 901, 1000 };
	/* Messages of 100 bytes that a buffer of 1000 takes until less than that is left. */
	static const size_t taken[] = { 10, 10, 9, 2, 1, 1 };

	for (size_t k = 0; k < 6; k++) {
		struct buffer buffer = { s->in, s->in + 1000, 0 };

		if (s->role == 0) {
			barrier(s);
			send_many(s, taken[k], 100);
			barrier(s);
			continue;
		}
		set_least(s, least[k]);
		OK(post(s, s->in, 1000, &s->ctx[0]));
		barrier(s);
		for (size_t i = 0; i < taken[k]; i++) {
			CHECK(!buffer.released);
			EQUAL(take(s, &buffer, &s->ctx[0], i), 100);
		}
		if (!buffer.released)
			EQUAL(take(s, &buffer, &s->ctx[0], 0), -1);
		barrier(s);
	}
}

static void option(struct side *s)
{
	size_t value = 7, len = sizeof(value);

	OK(fi_getopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	EQUAL(len, sizeof(value));
	CHECK(value > 0);
	set_least(s, 1);
	set_least(s, 123456);
	len = sizeof(value) - 1;
	EQUAL(fi_getopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len),
	      -FI_ETOOSMALL);
	EQUAL(len, sizeof(value));
	EQUAL(fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 1), -FI_EINVAL);
	OK(fi_getopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	EQUAL(value, 123456);
}

static void cancel(struct side *s)
{
	struct buffer buffer = { s->in, s->in + ARENA, 0 };
	struct fi_cq_err_entry err;

	if (s->role == 0) {
		barrier(s);
		send_many(s, 3, 100);
		barrier(s);
		return;
	}
	/* An untouched one, then one with messages in it. */
	OK(post(s, s->in, ARENA, &s->ctx[0]));
	OK(fi_cancel(&s->ep->fid, &s->ctx[0]));
	ERROR(s, s->rx, FI_ECANCELED, &s->ctx[0], &err);
	EQUAL(err.flags & (FI_RECV | FI_MULTI_RECV), FI_RECV | FI_MULTI_RECV);
	OK(post(s, s->in, ARENA, &s->ctx[1]));
	barrier(s);
	for (size_t i = 0; i < 3; i++) {
		EQUAL(take(s, &buffer, &s->ctx[1], i), 100);
		CHECK(!buffer.released);
	}
	OK(fi_cancel(&s->ep->fid, &s->ctx[1]));
	ERROR(s, s->rx, FI_ECANCELED, &s->ctx[1], &err);
	EQUAL(err.flags & (FI_RECV | FI_MULTI_RECV), FI_RECV | FI_MULTI_RECV);
	OK(fi_cancel(&s->ep->fid, &s->ctx[1]));
	OK(fi_cancel(&s->ep->fid, &s->ctx[0]));
	QUIET(s, s->rx);
	barrier(s);
}

/* Whatever has begun to come is received first; the rest waits for other receives. */
static void cancel_under_way(struct side *s)
{
	enum { COUNT = 3 };
	const size_t len = 1000000;

	for (size_t round = 0; round < 6; round++) {
		struct buffer buffer = { s->in, s->in + ARENA, 0 };
		struct fi_cq_err_entry err;
		struct done done;
		size_t i = 0;

		if (s->role == 0) {
			barrier(s);
			for (; i < COUNT; i++) {
				fill(s->out + i * len, len, i);
				POST(s, fi_send(s->ep, s->out + i * len, len, s->out_desc, s->peer,
						&s->ctx[i]));
			}
			for (i = 0; i < COUNT; i++)
				COMPLETION(s, s->tx, &done);
			barrier(s);
			continue;
		}
		OK(post(s, s->in, ARENA, &s->ctx[0]));
		barrier(s);
		for (size_t k = 0; k < round * 20; k++)
			progress(s);
		OK(fi_cancel(&s->ep->fid, &s->ctx[0]));
		for (; OUTCOME(s, s->rx, &done, &err); i++) {
			CHECK(done.context == &s->ctx[0] && !(done.flags & FI_MULTI_RECV));
			CHECK((unsigned char *) done.buf + done.len <= buffer.end);
			FILLED(done.buf, len, (size_t) ((unsigned char *) done.buf - s->in) / len);
		}
		EQUAL(err.err, FI_ECANCELED);
		CHECK(err.op_context == &s->ctx[0]);
		EQUAL(err.flags & FI_MULTI_RECV, FI_MULTI_RECV);
		for (; i < COUNT; i++) {
			OK(fi_recv(s->ep, s->in, len, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
			FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_MSG, len);
			FILLED(s->in, len, i);
		}
		QUIET(s, s->rx);
		barrier(s);
	}
}

static void want_selective(struct wish *wish)
{
	wish->bind_flags = FI_SELECTIVE_COMPLETION;
}

/* The queue tells of what was asked for only, but always of a buffer that is given back. */
static void selective(struct side *s)
{
	enum { COUNT = 10, EACH = 50 };
	struct done done;

	if (s->role == 0) {
		barrier(s);
		for (size_t i = 0; i < COUNT; i++)
			POST(s, fi_inject(s->ep, s->out, EACH, s->peer));
		barrier(s);
		return;
	}
	set_least(s, EACH);
	OK(receive_untagged(s, s->in, COUNT * EACH, FI_ADDR_UNSPEC, &s->ctx[0], FI_MULTI_RECV));
	barrier(s);
	COMPLETION(s, s->rx, &done);
	CHECK(done.context == &s->ctx[0]);
	EQUAL(done.flags & FI_MULTI_RECV, FI_MULTI_RECV);
	QUIET(s, s->rx);
	barrier(s);
}

#define MULTI	(FI_MSG | FI_MULTI_RECV)

static const struct conformance_case multi_recv_cases[] = {
	{ "packing", "fi_msg(3)", "Messages are packed into a buffer until it is given back, exactly once and last, by FI_MULTI_RECV; then the next buffer is used.",
	  MULTI, EP_RELIABLE, VARY_MR | VARY_THREADING | VARY_PROGRESS, 0, NULL, packing },
	{ "large", "fi_msg(3)", "The same with messages that are larger than any queue.",
	  MULTI, EP_RELIABLE, VARY_PROGRESS, 0, NULL, large },
	{ "mixed", "fi_cq(3)", "The entry of each message tells its place and length.",
	  MULTI, EP_RELIABLE, VARY_AV | VARY_PROGRESS, 0, NULL, mixed },
	{ "message-first", "fi_msg(3)", "Messages that came before the buffer are put into it, each in a place of its own.",
	  MULTI, EP_RELIABLE, VARY_PROGRESS, 0, NULL, message_first },
	{ "least-room", "fi_endpoint(3)", "A buffer is given back when less room is left than FI_OPT_MIN_MULTI_RECV was when it was posted.",
	  MULTI, EP_RELIABLE, 0, 0, NULL, least_room },
	{ "option", "fi_endpoint(3)", "FI_OPT_MIN_MULTI_RECV is a size_t that can be set and read back; other sizes are refused.",
	  MULTI, EP_RELIABLE, VARY_API, 0, NULL, option },
	{ "cancel", "fi_endpoint(3)", "A buffer that is cancelled, used or not, is given back by one FI_ECANCELED.",
	  MULTI, EP_RELIABLE, VARY_PROGRESS, 0, NULL, cancel },
	{ "cancel-under-way", "fi_endpoint(3)", "Cancelled while messages come, a buffer is given back once, behind those that it takes, and none is lost.",
	  MULTI, EP_RELIABLE, VARY_PROGRESS, 0, NULL, cancel_under_way },
	{ "selective", "fi_msg(3)", "That a buffer is given back is reported even where completions are only reported on demand.",
	  MULTI, EP_RELIABLE, 0, 0, want_selective, selective },
};
GROUP(multi_recv);
