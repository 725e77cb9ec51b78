/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Untagged messages: side 0 sends, side 1 receives. */
#include "groups.h"
#include "traffic.h"

#include "settings.h"

#define DATA	0xfeedfacecafebeefull

static void check_receive(struct side *s, void *context, size_t len, size_t seed)
{
	struct done done;

	finished_at(HERE, s, s->rx, context, FI_RECV | FI_MSG, len, &done);
	TOLD(s, flags, FI_CQ_FORMAT_MSG, &done, FI_RECV | FI_MSG);
	FILLED(s->in, len, seed);
	EQUAL(s->in[len], 0xee);
}

static void receive_first(struct side *s)
{
	for (size_t i = 0; i < usable_sizes(s); i++) {
		if (s->role == 0) {
			fill(s->out, sizes[i], i);
			barrier(s);
			POST(s, fi_send(s->ep, s->out, sizes[i], s->out_desc, s->peer, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, sizes[i]);
		} else {
			memset(s->in, 0xee, sizes[i] + 1);
			OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
			barrier(s);
			check_receive(s, &s->ctx[1], sizes[i], i);
		}
	}
}

static void message_first(struct side *s)
{
	messages_wait(s);
	for (size_t i = 0; i < usable_sizes(s); i++) {
		if (s->role == 0) {
			fill(s->out, sizes[i], i);
			POST(s, fi_send(s->ep, s->out, sizes[i], s->out_desc, s->peer, &s->ctx[0]));
			barrier(s);
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, sizes[i]);
		} else {
			memset(s->in, 0xee, sizes[i] + 1);
			barrier(s);
			OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
			check_receive(s, &s->ctx[1], sizes[i], i);
		}
	}
}

/* More messages than any queue has room for. Without receives, endpoints may refuse the rest. */
static void burst(struct side *s)
{
	enum { ROUNDS = 1000, WINDOW = 32 };
	const uint64_t count = settings.brief ? 1000 : 5000;
	uint64_t i, *value = (uint64_t *) s->in;
	int rounds = 0;

	messages_wait(s);
	for (i = 0; s->role == 0 && i < count; i++) {
		ssize_t ret;

		while (rounds < ROUNDS &&
		       (ret = fi_inject(s->ep, &i, sizeof(i), s->peer)) == -FI_EAGAIN) {
			rounds++;
			progress(s);
		}
		if (rounds == ROUNDS)
			break;
		OK(ret);
		rounds = 0;
	}
	barrier(s);
	for (; s->role == 0 && i < count; i++)
		POST(s, fi_inject(s->ep, &i, sizeof(i), s->peer));
	if (s->role == 0)
		return;
	for (i = 0; i < count + WINDOW; i++) {
		const uint64_t which = i % WINDOW;

		if (i >= WINDOW) {
			FINISHED(s, s->rx, &s->ctx[which], FI_RECV, sizeof(*value));
			EQUAL(value[which], i - WINDOW);
		}
		if (i < count)
			OK(fi_recv(s->ep, &value[which], sizeof(*value), s->in_desc, FI_ADDR_UNSPEC,
				   &s->ctx[which]));
	}
}

/* Large and small in turn: a small one does not overtake. */
static void mixed_order(struct side *s)
{
	enum { COUNT = 40 };
	static const size_t lengths[] = { 8, 300000, 0, 5000, 70000 };

	messages_wait(s);
	for (size_t i = 0; i < COUNT; i++) {
		const size_t len = lengths[i % 5], at = i / 5 * 400000 + i % 5 * 8;

		if (s->role == 0) {
			fill(s->out + at, len, i);
			POST(s, fi_send(s->ep, s->out + at, len, s->out_desc, s->peer,
					&s->ctx[i]));
			/* The next of this length has another place, but fill overlaps. */
			FINISHED(s, s->tx, &s->ctx[i], FI_SEND, len);
		} else {
			OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
			FINISHED(s, s->rx, &s->ctx[i], FI_RECV | FI_MSG, len);
			FILLED(s->in, len, i);
		}
	}
}

static void vectors(struct side *s)
{
	const size_t piece = 5000;
	struct iovec iov[PIECES];
	void *desc[PIECES];
	const size_t limit = cut_vector(s, piece, iov, desc);

	if (s->role == 0) {
		for (size_t i = 0; i < limit; i++)
			fill(iov[i].iov_base, piece, i);
		barrier(s);
		EQUAL(fi_sendv(s->ep, iov, desc, limit + 1, s->peer, &s->ctx[0]), -FI_EINVAL);
		POST(s, fi_sendv(s->ep, iov, desc, limit, s->peer, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, limit * piece);
	} else {
		OK(fi_recvv(s->ep, iov, desc, limit, FI_ADDR_UNSPEC, &s->ctx[1]));
		barrier(s);
		FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_MSG, limit * piece);
		for (size_t i = 0; i < limit; i++)
			FILLED(iov[i].iov_base, piece, i);
	}
}

static void inject_lengths(const struct side *s, size_t lengths[5], size_t *count)
{
	const size_t limit = s->info->tx_attr->inject_size;
	const size_t wanted[] = { 0, 1, limit / 2, limit - 1, limit };

	*count = 0;
	for (size_t i = 0; i < 5 && limit; i++)
		lengths[(*count)++] = wanted[i];
}

/* The buffer is the program's again at once, and nothing is written to the queue. */
static void inject(struct side *s)
{
	size_t lengths[5], count;

	messages_wait(s);
	inject_lengths(s, lengths, &count);
	if (s->role == 0) {
		barrier(s);
		for (size_t i = 0; i < count; i++) {
			fill(s->out, lengths[i], i);
			POST(s, fi_inject(s->ep, s->out, lengths[i], s->peer));
			memset(s->out, 0, lengths[i]);
		}
		EQUAL(fi_inject(s->ep, s->out, s->info->tx_attr->inject_size + 1, s->peer), -FI_EINVAL);
		QUIET(s, s->tx);
	} else {
		barrier(s);
		for (size_t i = 0; i < count; i++) {
			memset(s->in, 0xee, lengths[i] + 1);
			OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
			check_receive(s, &s->ctx[i], lengths[i], i);
		}
	}
}

static void inject_flag(struct side *s)
{
	const size_t len = s->info->tx_attr->inject_size;
	struct iovec iov = { s->out, len };
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.context = &s->ctx[0],
	};

	if (s->role == 0) {
		barrier(s);
		fill(s->out, len, 3);
		POST(s, fi_sendmsg(s->ep, &msg, FI_INJECT | FI_COMPLETION));
		memset(s->out, 0, len);
		FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, len);
		iov.iov_len = len + 1;
		EQUAL(fi_sendmsg(s->ep, &msg, FI_INJECT | FI_COMPLETION), -FI_EINVAL);
		QUIET(s, s->tx);
	} else {
		memset(s->in, 0xee, len + 1);
		OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		barrier(s);
		check_receive(s, &s->ctx[0], len, 3);
	}
}

static void remote_data(struct side *s)
{
	struct fi_msg msg = { .addr = s->peer, .data = DATA + 2, .context = &s->ctx[2] };
	struct done done;

	/* iWARP has none. */
	if (s->type == FI_EP_MSG && !s->info->domain_attr->cq_data_size)
		not_offered();
	CHECK(s->info->domain_attr->cq_data_size >= 4);
	if (s->role == 0) {
		barrier(s);
		POST(s, fi_injectdata(s->ep, s->out, 0, DATA, s->peer));
		POST(s, fi_senddata(s->ep, s->out, 100, s->out_desc, DATA + 1, s->peer, &s->ctx[1]));
		FINISHED(s, s->tx, &s->ctx[1], FI_SEND | FI_MSG, 100);
		POST(s, fi_sendmsg(s->ep, &msg, FI_REMOTE_CQ_DATA | FI_COMPLETION));
		FINISHED(s, s->tx, &s->ctx[2], FI_SEND | FI_MSG, 0);
		POST(s, fi_senddata(s->ep, s->out, s->largest, s->out_desc, DATA + 3, s->peer,
				    &s->ctx[3]));
		FINISHED(s, s->tx, &s->ctx[3], FI_SEND | FI_MSG, s->largest);
	} else {
		const size_t lengths[] = { 0, 100, 0, s->largest };

		for (size_t i = 0; i < 4; i++)
			OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
		barrier(s);
		for (size_t i = 0; i < 4; i++) {
			finished_at(HERE, s, s->rx, &s->ctx[i], FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA,
				    lengths[i], &done);
			TOLD(s, data, FI_CQ_FORMAT_DATA, &done, carried(s, DATA + i));
		}
	}
}

/* A completion of this level, asked for one operation. */
static void send_with(struct side *s, uint64_t flags)
{
	for (size_t i = 0; i < usable_sizes(s); i++) {
		struct iovec iov = { s->out, sizes[i] };
		struct fi_msg msg = {
			.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
			.context = &s->ctx[0],
		};

		if (s->role == 0) {
			fill(s->out, sizes[i], i);
			barrier(s);
			POST(s, fi_sendmsg(s->ep, &msg, flags | FI_COMPLETION));
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, sizes[i]);
		} else {
			memset(s->in, 0xee, sizes[i] + 1);
			OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
			barrier(s);
			check_receive(s, &s->ctx[1], sizes[i], i);
		}
	}
}

static void inject_complete(struct side *s)
{
	send_with(s, FI_INJECT_COMPLETE);
}

static void transmit_complete(struct side *s)
{
	send_with(s, FI_TRANSMIT_COMPLETE);
}

/* The receiver has the bytes when the sender hears of it, and may look at them without a queue. */
static void delivery_complete(struct side *s)
{
	struct iovec iov = { s->out, 100 };
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.context = &s->ctx[0],
	};

	send_with(s, FI_DELIVERY_COMPLETE);
	if (s->role == 0) {
		fill(s->out, 100, 5);
		barrier(s);
		POST(s, fi_sendmsg(s->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
		FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, 100);
		barrier(s);
	} else {
		OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
		barrier(s);
		barrier(s);
		FILLED(s->in, 100, 5);
		FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_MSG, 100);
	}
}

static void want_delivery(struct wish *wish)
{
	wish->tx_flags = FI_DELIVERY_COMPLETE;
}

static const struct conformance_case messages_cases[] = {
	{ "receive-first", "fi_msg(3)", "A message fills the receive that waits for it, whatever its size.",
	  FI_MSG, EP_ANY, VARY_AV | VARY_FORMAT | VARY_MR | VARY_THREADING | VARY_PROGRESS |
	  VARY_WAIT | VARY_API, 0, NULL, receive_first },
	{ "message-first", "fi_msg(3)", "A message that comes before its receive is kept for it.",
	  FI_MSG, EP_RELIABLE, VARY_AV | VARY_FORMAT | VARY_MR | VARY_THREADING | VARY_PROGRESS |
	  VARY_WAIT, 0, NULL, message_first },
	{ "burst", "fi_domain(3)", "With resource management, sends beyond all queues wait or say FI_EAGAIN; none is lost, and all keep their order.",
	  FI_MSG, EP_RELIABLE, VARY_THREADING | VARY_PROGRESS, 0, NULL, burst },
	{ "mixed-order", "fi_endpoint(3)", "Messages are matched in the order in which they were sent, large or small.",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, mixed_order },
	{ "vectors", "fi_msg(3)", "A vector of up to iov_limit pieces is one message; a longer one is refused.",
	  FI_MSG, EP_RELIABLE, VARY_MR, 0, NULL, vectors },
	{ "inject", "fi_msg(3)", "An injected buffer can be reused at once, writes no entry, and is at most inject_size long.",
	  FI_MSG, EP_RELIABLE, VARY_AV | VARY_FORMAT | VARY_THREADING, 0, NULL, inject },
	{ "inject-flag", "fi_msg(3)", "FI_INJECT gives the buffer back at once and still completes.",
	  FI_MSG, EP_ANY, 0, 0, NULL, inject_flag },
	{ "remote-data", "fi_cq(3)", "Data sent beside a message is in the receiver's entry, flagged FI_REMOTE_CQ_DATA.",
	  FI_MSG, EP_ANY, VARY_FORMAT | VARY_API, 0, NULL, remote_data },
	{ "inject-complete", "fi_cq(3)", "FI_INJECT_COMPLETE: complete once the buffer can be reused.",
	  FI_MSG, EP_ANY, 0, 0, NULL, inject_complete },
	{ "transmit-complete", "fi_cq(3)", "FI_TRANSMIT_COMPLETE: complete once the peer's endpoint has taken it over.",
	  FI_MSG, EP_ANY, 0, 0, NULL, transmit_complete },
	{ "delivery-complete", "fi_cq(3)", "FI_DELIVERY_COMPLETE: complete once the peer has processed it.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS | VARY_MR, 0, NULL, delivery_complete },
	{ "delivery-complete-default", "fi_endpoint(3)", "The default flags of the endpoint hold for calls without flags.",
	  FI_MSG, EP_RELIABLE, 0, 0, want_delivery, receive_first },
};
GROUP(messages);
