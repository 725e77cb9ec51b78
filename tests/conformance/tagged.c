/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tagged messages: side 0 sends, side 1 receives. */
#include "groups.h"
#include "traffic.h"

#define TAG	0x1234567800000001ull
#define DATA	0xfeedfacecafebeefull

/* The ways to send one message, whose tag, seed and remote data follow from `at`. */
enum sender {
	TSEND, TSENDV, TSENDMSG, TSENDDATA, TSENDMSG_DATA, TINJECT, TINJECTDATA, SENDERS,
};
enum receiver { TRECV, TRECVV, TRECVMSG, RECEIVERS };

static int sends_data(enum sender how)
{
	return how == TSENDDATA || how == TSENDMSG_DATA || how == TINJECTDATA;
}

static ssize_t send_by(struct side *s, enum sender how, size_t len, size_t at, void *context)
{
	struct iovec iov = { s->out, len };
	const uint64_t tag = tag_of(s, TAG + at), data = DATA + at;

	switch (how) {
	case TSEND:
		return fi_tsend(s->ep, s->out, len, s->out_desc, s->peer, tag, context);
	case TSENDV:
		return fi_tsendv(s->ep, &iov, &s->out_desc, 1, s->peer, tag, context);
	case TSENDMSG:
		return send_tagged(s, s->out, len, tag, data, context, FI_COMPLETION);
	case TSENDDATA:
		return fi_tsenddata(s->ep, s->out, len, s->out_desc, data, s->peer, tag, context);
	case TSENDMSG_DATA:
		return send_tagged(s, s->out, len, tag, data, context,
				   FI_COMPLETION | FI_REMOTE_CQ_DATA);
	case TINJECT:
		return fi_tinject(s->ep, s->out, len, s->peer, tag);
	default:
		return fi_tinjectdata(s->ep, s->out, len, data, s->peer, tag);
	}
}

static ssize_t receive_by(struct side *s, enum receiver how, size_t len, size_t at, void *context)
{
	struct iovec iov = { s->in, len };
	const uint64_t tag = tag_of(s, TAG + at);

	switch (how) {
	case TRECV:
		return fi_trecv(s->ep, s->in, len, s->in_desc, FI_ADDR_UNSPEC, tag, 0, context);
	case TRECVV:
		return fi_trecvv(s->ep, &iov, &s->in_desc, 1, FI_ADDR_UNSPEC, tag, 0, context);
	default:
		return receive_tagged(s, s->in, len, FI_ADDR_UNSPEC, tag, 0, context, FI_COMPLETION);
	}
}

static void check_receive(struct side *s, void *context, size_t len, size_t at, int data)
{
	const uint64_t flags = FI_RECV | FI_TAGGED | (data ? FI_REMOTE_CQ_DATA : 0);
	struct done done;

	finished_at(HERE, s, s->rx, context, flags, len, &done);
	TOLD(s, flags, FI_CQ_FORMAT_MSG, &done, flags);
	TOLD(s, tag, FI_CQ_FORMAT_TAGGED, &done, tag_of(s, TAG + at));
	if (data)
		TOLD(s, data, FI_CQ_FORMAT_DATA, &done, carried(s, DATA + at));
	FILLED(s->in, len, at);
	EQUAL(s->in[len], 0xee);
}

/* One message by these calls, before or after its receive. */
static void one(struct side *s, enum sender send, enum receiver receive, size_t len, size_t at,
		int message_first)
{
	if (s->role == 0) {
		fill(s->out, len, at);
		if (!message_first)
			barrier(s);
		POST(s, send_by(s, send, len, at, &s->ctx[0]));
		if (message_first)
			barrier(s);
		if (send < TINJECT)
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_TAGGED, len);
	} else {
		memset(s->in, 0xee, len + 1);
		if (message_first)
			barrier(s);
		OK(receive_by(s, receive, ARENA, at, &s->ctx[1]));
		if (!message_first)
			barrier(s);
		check_receive(s, &s->ctx[1], len, at, sends_data(send));
	}
}

static void every_call(struct side *s, int message_first)
{
	const size_t limit = s->info->tx_attr->inject_size, len = limit < 100 ? limit : 100;
	size_t at = 0;

	for (int send = 0; send < SENDERS; send++)
		for (int receive = 0; receive < RECEIVERS; receive++)
			one(s, (enum sender) send, (enum receiver) receive, len, at++, message_first);
	QUIET(s, s->tx);
}

static void calls(struct side *s)
{
	every_call(s, 0);
	barrier(s);
	every_call(s, 1);
}

static void receive_first(struct side *s)
{
	for (size_t i = 0; i < usable_sizes(s); i++)
		one(s, TSEND, TRECV, sizes[i], i, 0);
}

static void message_first(struct side *s)
{
	for (size_t i = 0; i < usable_sizes(s); i++)
		one(s, TSEND, TRECV, sizes[i], i, 1);
}

static void with_data(struct side *s)
{
	for (size_t i = 0; i < usable_sizes(s); i++)
		one(s, TSENDDATA, TRECV, sizes[i], i, i % 2);
}

/* At every limit, and one beyond. */
static void inject(struct side *s)
{
	const size_t limit = s->info->tx_attr->inject_size;
	const size_t lengths[] = { 0, limit / 2, limit };

	for (size_t i = 0; i < 3; i++)
		one(s, i % 2 ? TINJECTDATA : TINJECT, TRECV, lengths[i], i, 1);
	EQUAL(fi_tinject(s->ep, s->out, limit + 1, s->peer, 0), -FI_EINVAL);
	EQUAL(fi_tinjectdata(s->ep, s->out, limit + 1, 0, s->peer, 0), -FI_EINVAL);
	EQUAL(send_tagged(s, s->out, limit + 1, 0, 0, &s->ctx[0], FI_INJECT), -FI_EINVAL);
	QUIET(s, s->tx);
}

/* The buffer is overwritten as soon as the call returns. */
static void reuse_after_inject(struct side *s)
{
	enum { COUNT = 20 };
	const size_t len = s->info->tx_attr->inject_size;

	if (s->role == 0) {
		for (size_t i = 0; i < COUNT; i++) {
			fill(s->out, len, i);
			if (i % 2) {
				POST(s, send_tagged(s, s->out, len, tag_of(s, TAG + i), 0, &s->ctx[i],
						    FI_INJECT | FI_COMPLETION));
				memset(s->out, 0, len);
				FINISHED(s, s->tx, &s->ctx[i], FI_SEND | FI_TAGGED, len);
			} else {
				POST(s, fi_tinject(s->ep, s->out, len, s->peer, tag_of(s, TAG + i)));
				memset(s->out, 0, len);
			}
		}
		barrier(s);
		QUIET(s, s->tx);
		return;
	}
	barrier(s);
	/* Backwards, so that all but one are received after others that came later. */
	for (size_t i = COUNT; i-- > 0;) {
		memset(s->in, 0xee, len + 1);
		OK(receive_by(s, TRECV, ARENA, i, &s->ctx[i]));
		check_receive(s, &s->ctx[i], len, i, 0);
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
		EQUAL(fi_tsendv(s->ep, iov, desc, limit + 1, s->peer, 5, &s->ctx[0]), -FI_EINVAL);
		POST(s, fi_tsendv(s->ep, iov, desc, limit, s->peer, 5, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_TAGGED, limit * piece);
	} else {
		EQUAL(fi_trecvv(s->ep, iov, desc, limit + 1, FI_ADDR_UNSPEC, 5, 0, &s->ctx[1]),
		      -FI_EINVAL);
		OK(fi_trecvv(s->ep, iov, desc, limit, FI_ADDR_UNSPEC, 5, 0, &s->ctx[1]));
		barrier(s);
		FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_TAGGED, limit * piece);
		for (size_t i = 0; i < limit; i++)
			FILLED(iov[i].iov_base, piece, i);
	}
}

/* The receiver has the bytes when the sender hears of it. */
static void delivery_complete(struct side *s)
{
	for (size_t i = 0; i < usable_sizes(s); i++) {
		if (s->role == 0) {
			fill(s->out, sizes[i], i);
			barrier(s);
			POST(s, send_tagged(s, s->out, sizes[i], i, 0, &s->ctx[0],
					    FI_DELIVERY_COMPLETE | FI_COMPLETION));
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_TAGGED, sizes[i]);
			barrier(s);
		} else {
			OK(fi_trecv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, i, 0, &s->ctx[1]));
			barrier(s);
			barrier(s);
			FILLED(s->in, sizes[i], i);
			FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_TAGGED, sizes[i]);
		}
	}
}

static int refused(ssize_t ret)
{
	return ret == -FI_EINVAL || ret == -FI_EBADFLAGS || ret == -FI_EOPNOTSUPP ||
	       ret == -FI_ENOSYS;
}

/* A provider may refuse this level; if it does not, it waits for the receive. */
static void match_complete(struct side *s)
{
	static const size_t lengths[] = { 0, 8, 5000, 200000 };
	int goes_on = 1, theirs;

	for (size_t i = 0; i < 4 && goes_on; i++) {
		if (s->role == 0) {
			double late = 0;
			ssize_t ret;

			while ((ret = send_tagged(s, s->out, lengths[i], i, 0, &s->ctx[0],
						  FI_MATCH_COMPLETE | FI_COMPLETION)) == -FI_EAGAIN) {
				progress(s);
				late_at(HERE, &late, "a send");
			}
			goes_on = !refused(ret);
			swap(s, &goes_on, &theirs, sizeof(goes_on));
			if (!goes_on)
				return;
			OK(ret);
			QUIET(s, s->tx);
			barrier(s);
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_TAGGED, lengths[i]);
		} else {
			swap(s, &goes_on, &theirs, sizeof(goes_on));
			goes_on = theirs;
			if (!goes_on)
				return;
			barrier(s);
			OK(fi_trecv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, i, 0, &s->ctx[1]));
			FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_TAGGED, lengths[i]);
		}
	}
}

#define USUAL	(VARY_AV | VARY_FORMAT | VARY_MR | VARY_THREADING | VARY_PROGRESS | VARY_WAIT)

static const struct conformance_case tagged_cases[] = {
	{ "calls", "fi_tagged(3)", "Every way to send reaches every way to receive; tag and remote data are in the receiver's entry.",
	  FI_TAGGED, EP_RELIABLE, VARY_FORMAT | VARY_MR | VARY_API, 0, NULL, calls },
	{ "receive-first", "fi_tagged(3)", "A message fills the receive of its tag, whatever its size.",
	  FI_TAGGED, EP_RELIABLE, USUAL, 0, NULL, receive_first },
	{ "message-first", "fi_tagged(3)", "A message that comes before its receive is kept for it, and its bytes and tag with it.",
	  FI_TAGGED, EP_RELIABLE, USUAL, 0, NULL, message_first },
	{ "remote-data", "fi_tagged(3)", "Data sent beside a message of any size is in the receiver's entry.",
	  FI_TAGGED, EP_RELIABLE, VARY_FORMAT, 0, NULL, with_data },
	{ "inject", "fi_tagged(3)", "Injected messages write no entry and are at most inject_size long.",
	  FI_TAGGED, EP_RELIABLE, 0, 0, NULL, inject },
	{ "inject-reuse", "fi_tagged(3)", "The buffer of an injected message is the program's again when the call returns.",
	  FI_TAGGED, EP_RELIABLE, VARY_THREADING, 0, NULL, reuse_after_inject },
	{ "vectors", "fi_tagged(3)", "A vector of up to iov_limit pieces is one message; a longer one is refused.",
	  FI_TAGGED, EP_RELIABLE, VARY_MR, 0, NULL, vectors },
	{ "delivery-complete", "fi_cq(3)", "FI_DELIVERY_COMPLETE: complete once the peer has the message.",
	  FI_TAGGED, EP_RELIABLE, VARY_PROGRESS, 0, NULL, delivery_complete },
	{ "match-complete", "fi_cq(3)", "FI_MATCH_COMPLETE, unless refused: complete once a receive has been matched, not before.",
	  FI_TAGGED, EP_RELIABLE, VARY_PROGRESS, 0, NULL, match_complete },
};
GROUP(tagged);
