/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fi_cancel. Side 0 sends, side 1 receives. */
#include "groups.h"
#include "traffic.h"

enum { COUNT = 8 };

static ssize_t receive(struct side *s, int tagged, size_t at, void *context)
{
	return tagged ? fi_trecv(s->ep, s->in + at * 8, 8, s->in_desc, FI_ADDR_UNSPEC, 2, 0, context) :
			fi_recv(s->ep, s->in + at * 8, 8, s->in_desc, FI_ADDR_UNSPEC, context);
}

/* A device that has a receive may not give it back; then it says so. */
static void cancel_receive(struct side *s, void *context)
{
	const ssize_t ret = fi_cancel(&s->ep->fid, context);

	if (ret == -FI_ENOSYS && s->type == FI_EP_MSG) {
		QUIET(s, s->rx);
		not_offered();
	}
	OK(ret);
}

static void cancelled(struct side *s, int tagged, void *context)
{
	const uint64_t flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG);
	struct fi_cq_err_entry err;

	cancel_receive(s, context);
	ERROR(s, s->rx, FI_ECANCELED, context, &err);
	EQUAL(err.flags & flags, flags);
}

/* Every second of some receives; the others keep their order. */
static void between(struct side *s, int tagged)
{
	for (size_t i = 0; s->role == 1 && i < COUNT; i++)
		OK(receive(s, tagged, i, &s->ctx[i]));
	for (size_t i = 0; s->role == 1 && i < COUNT; i += 2)
		cancelled(s, tagged, &s->ctx[i]);
	barrier(s);
	for (size_t i = 1; i < COUNT; i += 2) {
		if (s->role == 0) {
			s->out[0] = (unsigned char) i;
			POST(s, tagged ? fi_tinject(s->ep, s->out, 1, s->peer, 2) :
					 fi_inject(s->ep, s->out, 1, s->peer));
		} else {
			FINISHED(s, s->rx, &s->ctx[i], FI_RECV, 1);
			EQUAL(s->in[i * 8], i);
		}
	}
	QUIET(s, s->rx);
	barrier(s);
}

static void untagged(struct side *s)
{
	between(s, 0);
}

static void tagged(struct side *s)
{
	between(s, 1);
}

static void nothing(struct side *s)
{
	int other;

	OK(fi_cancel(&s->ep->fid, &other));
	OK(fi_cancel(&s->ep->fid, NULL));
	if (s->role == 1) {
		OK(receive(s, 0, 0, &s->ctx[0]));
		OK(fi_cancel(&s->ep->fid, &s->ctx[1]));
		QUIET(s, s->rx);
		cancelled(s, 0, &s->ctx[0]);
		OK(fi_cancel(&s->ep->fid, &s->ctx[0]));
	}
	QUIET(s, s->rx);
	QUIET(s, s->tx);
}

/* After the message: the receive's own completion is all there is. */
static void too_late(struct side *s)
{
	for (size_t i = 0; i < 20; i++) {
		struct fi_cq_err_entry err;
		struct done done;

		if (s->role == 0) {
			barrier(s);
			POST(s, fi_inject(s->ep, s->out, 8, s->peer));
			barrier(s);
			barrier(s);
			continue;
		}
		OK(receive(s, 0, 0, &s->ctx[0]));
		barrier(s);
		barrier(s);
		/* The message is here or on its way, so either may be first, but only one comes. */
		cancel_receive(s, &s->ctx[0]);
		if (OUTCOME(s, s->rx, &done, &err)) {
			CHECK(done.context == &s->ctx[0]);
		} else {
			EQUAL(err.err, FI_ECANCELED);
			CHECK(err.op_context == &s->ctx[0]);
			/* The message still needs a receive. */
			OK(receive(s, 0, 0, &s->ctx[1]));
			FINISHED(s, s->rx, &s->ctx[1], FI_RECV, 8);
		}
		QUIET(s, s->rx);
		barrier(s);
	}
}

/* Of two operations with one context, one is cancelled at a time. */
static void same_context(struct side *s)
{
	if (s->role == 1) {
		OK(receive(s, 0, 0, &s->ctx[0]));
		OK(receive(s, 1, 1, &s->ctx[0]));
		for (int i = 0; i < 2; i++) {
			struct fi_cq_err_entry err;

			OK(fi_cancel(&s->ep->fid, &s->ctx[0]));
			ERROR(s, s->rx, FI_ECANCELED, &s->ctx[0], &err);
			QUIET(s, s->rx);
		}
	}
}

static void want_selective(struct wish *wish)
{
	wish->bind_flags = FI_SELECTIVE_COMPLETION;
}

/* A receive that would not report its success reports this. */
static void selective(struct side *s)
{
	if (s->role == 1) {
		OK(receive_untagged(s, s->in, 8, FI_ADDR_UNSPEC, &s->ctx[0], 0));
		cancelled(s, 0, &s->ctx[0]);
		OK(receive_tagged(s, s->in, 8, FI_ADDR_UNSPEC, 1, 0, &s->ctx[0], 0));
		cancelled(s, 1, &s->ctx[0]);
	}
}

/* Queues that report only what is asked for, and failures. */
static void on_demand(struct side *s)
{
	if (s->role == 0) {
		barrier(s);
		POST(s, send_untagged(s, s->out, 8, 0, &s->ctx[0], 0));
		POST(s, send_tagged(s, s->out, 8, 1, 0, &s->ctx[1], 0));
		QUIET(s, s->tx);
		POST(s, send_untagged(s, s->out, 8, 0, &s->ctx[2], FI_COMPLETION));
		FINISHED(s, s->tx, &s->ctx[2], FI_SEND | FI_MSG, 8);
		POST(s, send_tagged(s, s->out, 8, 1, 0, &s->ctx[3], FI_COMPLETION));
		FINISHED(s, s->tx, &s->ctx[3], FI_SEND | FI_TAGGED, 8);
		QUIET(s, s->tx);
		barrier(s);
		return;
	}
	OK(receive_untagged(s, s->in, 8, FI_ADDR_UNSPEC, &s->ctx[0], 0));
	OK(receive_tagged(s, s->in, 8, FI_ADDR_UNSPEC, 1, 0, &s->ctx[1], 0));
	OK(receive_untagged(s, s->in, 8, FI_ADDR_UNSPEC, &s->ctx[2], FI_COMPLETION));
	OK(receive_tagged(s, s->in, 8, FI_ADDR_UNSPEC, 1, 0, &s->ctx[3], FI_COMPLETION));
	barrier(s);
	FINISHED(s, s->rx, &s->ctx[2], FI_RECV | FI_MSG, 8);
	FINISHED(s, s->rx, &s->ctx[3], FI_RECV | FI_TAGGED, 8);
	QUIET(s, s->rx);
	barrier(s);
}

static const struct conformance_case cancel_cases[] = {
	{ "untagged", "fi_endpoint(3)", "A cancelled receive completes once, with FI_ECANCELED; those around it keep their order.",
	  FI_MSG, EP_RELIABLE, VARY_FORMAT | VARY_PROGRESS, 0, NULL, untagged },
	{ "tagged", "fi_endpoint(3)", "The same of tagged receives.",
	  FI_TAGGED, EP_RELIABLE, VARY_FORMAT | VARY_PROGRESS, 0, NULL, tagged },
	{ "nothing", "fi_endpoint(3)", "Cancelling what is not there, or no longer, is no error and reports nothing.",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, nothing },
	{ "too-late", "fi_endpoint(3)", "Whether the message or the cancellation is first, the receive completes once and the message is not lost.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS, 0, NULL, too_late },
	{ "same-context", "fi_endpoint(3)", "Of several operations with one context, one is cancelled.",
	  FI_MSG | FI_TAGGED, EP_RELIABLE, 0, 0, NULL, same_context },
	{ "selective", "fi_cq(3)", "FI_SELECTIVE_COMPLETION does not hide failures.",
	  FI_MSG | FI_TAGGED, EP_RELIABLE, 0, 0, want_selective, selective },
	{ "on-demand", "fi_cq(3)", "With FI_SELECTIVE_COMPLETION, success is reported where FI_COMPLETION asks for it.",
	  FI_MSG | FI_TAGGED, EP_RELIABLE, VARY_FORMAT, 0, want_selective, on_demand },
};
GROUP(cancel);
