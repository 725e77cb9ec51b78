/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Unreliable datagrams. Side 0 sends, side 1 receives. */
#include "groups.h"
#include "traffic.h"

static void sent(struct side *s, size_t len, void *context)
{
	POST(s, fi_send(s->ep, s->out, len, s->out_desc, s->peer, context));
	FINISHED(s, s->tx, context, FI_SEND | FI_MSG, len);
}

static void receive(struct side *s, size_t room, void *context)
{
	memset(s->in, 0xee, room + 1);
	OK(fi_recv(s->ep, s->in, room, s->in_desc, FI_ADDR_UNSPEC, context));
}

static void received(struct side *s, size_t len, size_t seed, void *context)
{
	FINISHED(s, s->rx, context, FI_RECV | FI_MSG, len);
	FILLED(s->in, len, seed);
	EQUAL(s->in[len], 0xee);
}

/* Nobody waits for the first message. */
static void lost(struct side *s)
{
	if (s->role == 0) {
		fill(s->out, 100, 1);
		sent(s, 100, &s->ctx[0]);
		barrier(s);
		barrier(s);
		fill(s->out, 60, 2);
		sent(s, 60, &s->ctx[1]);
	} else {
		barrier(s);
		QUIET(s, s->rx);
		receive(s, ARENA, &s->ctx[0]);
		barrier(s);
		received(s, 60, 2, &s->ctx[0]);
	}
}

static void limits(struct side *s)
{
	const size_t most = s->info->ep_attr->max_msg_size;

	CHECK(most > 0 && most <= ARENA);
	if (s->role == 0) {
		fill(s->out, most, 3);
		EQUAL(fi_send(s->ep, s->out, most + 1, s->out_desc, s->peer, &s->ctx[0]), -FI_EMSGSIZE);
		EQUAL(fi_send(s->ep, s->out, 8, s->out_desc, 12345, &s->ctx[0]), -FI_EINVAL);
		EQUAL(fi_send(s->ep, s->out, 8, s->out_desc, FI_ADDR_NOTAVAIL, &s->ctx[0]), -FI_EINVAL);
		QUIET(s, s->tx);
		barrier(s);
		sent(s, most, &s->ctx[0]);
	} else {
		receive(s, most, &s->ctx[0]);
		barrier(s);
		received(s, most, 3, &s->ctx[0]);
	}
}

static void too_long(struct side *s)
{
	struct fi_cq_err_entry err;

	if (s->role == 0) {
		fill(s->out, 100, 4);
		barrier(s);
		sent(s, 100, &s->ctx[0]);
		barrier(s);
		for (int i = 1; i < 3; i++)
			sent(s, 30, &s->ctx[i]);
	} else {
		receive(s, 40, &s->ctx[0]);
		for (int i = 1; i < 3; i++)
			OK(fi_recv(s->ep, s->in + i * 100, 40, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
		barrier(s);
		ERROR(s, s->rx, FI_ETRUNC, &s->ctx[0], &err);
		EQUAL(err.flags & (FI_RECV | FI_MSG), FI_RECV | FI_MSG);
		EQUAL(s->in[40], 0xee);
		QUIET(s, s->rx);
		barrier(s);
		for (int i = 1; i < 3; i++) {
			FINISHED(s, s->rx, &s->ctx[i], FI_RECV | FI_MSG, 30);
			FILLED(s->in + i * 100, 30, 4);
		}
	}
}

/* The program leaves room in front, wherever the mode of that side says so. */
static void prefix(struct side *s)
{
	struct fi_info *hints = wished_hints(s);
	size_t here, there;
	struct done done;

	hints->mode |= FI_MSG_PREFIX;
	OK(ask(s->wish.api, hints, &s->info));
	fi_freeinfo(hints);
	there = s->info->tx_attr->mode & FI_MSG_PREFIX ? s->info->ep_attr->msg_prefix_size : 0;
	here = s->info->rx_attr->mode & FI_MSG_PREFIX ? s->info->ep_attr->msg_prefix_size : 0;
	if (s->info->mode & FI_MSG_PREFIX)
		CHECK(s->info->ep_attr->msg_prefix_size > 0);
	EQUAL(s->info->ep_attr->msg_prefix_size % 8, 0);
	side_objects(s);
	side_connect(s);
	side_buffers(s);
	s->largest = s->info->ep_attr->max_msg_size;
	for (size_t i = 0; i < usable_sizes(s); i++) {
		const size_t len = sizes[i];

		if (s->role == 0) {
			fill(s->out + there, len, i);
			barrier(s);
			sent(s, there + len, &s->ctx[0]);
		} else {
			receive(s, here + len, &s->ctx[0]);
			barrier(s);
			finished_at(HERE, s, s->rx, &s->ctx[0], FI_RECV | FI_MSG, here + len, &done);
			FILLED(s->in + here, len, i);
			EQUAL(s->in[here + len], 0xee);
		}
	}
	barrier(s);
	side_close(s);
}

static void want_source(struct wish *wish)
{
	wish->caps |= FI_SOURCE;
}

/* Of the peer, of oneself, and of a peer that is known no more. */
static void sources(struct side *s)
{
	struct done done;

	if (s->role == 0) {
		for (int i = 0; i < 2; i++) {
			barrier(s);
			sent(s, 8, &s->ctx[0]);
		}
		return;
	}
	receive(s, 100, &s->ctx[0]);
	barrier(s);
	COMPLETION(s, s->rx, &done);
	EQUAL(done.source, s->peer);
	receive(s, 100, &s->ctx[0]);
	POST(s, fi_send(s->ep, s->out, 8, s->out_desc, s->self, &s->ctx[1]));
	COMPLETION(s, s->rx, &done);
	EQUAL(done.source, s->self);
	FINISHED(s, s->tx, &s->ctx[1], FI_SEND | FI_MSG, 8);
	OK(fi_av_remove(s->av, &s->peer, 1, 0));
	receive(s, 100, &s->ctx[0]);
	barrier(s);
	COMPLETION(s, s->rx, &done);
	EQUAL(done.source, FI_ADDR_NOTAVAIL);
}

static const struct conformance_case datagrams_cases[] = {
	{ "lost", "fi_endpoint(3)", "A message that nobody has a receive for may be lost; its sender completes, and later messages arrive.",
	  FI_MSG, EP_DGRAM, VARY_FORMAT | VARY_THREADING | VARY_PROGRESS, 0, NULL, lost },
	{ "limits", "fi_endpoint(3)", "A message of max_msg_size bytes arrives; longer ones and unknown handles are refused.",
	  FI_MSG, EP_DGRAM, VARY_API, 0, NULL, limits },
	{ "too-long", "fi_cq(3)", "A message that is longer than its receive is FI_ETRUNC; the receives behind it wait on.",
	  FI_MSG, EP_DGRAM, VARY_FORMAT, 0, NULL, too_long },
	{ "prefix", "fi_getinfo(3)", "With FI_MSG_PREFIX, room in front of the message is counted by completions, and not by limits.",
	  FI_MSG, EP_DGRAM, VARY_FORMAT | VARY_API, 1, NULL, prefix },
	{ "sources", "fi_cq(3)", "With FI_SOURCE, fi_cq_readfrom tells the sender's handle, or FI_ADDR_NOTAVAIL.",
	  FI_MSG, EP_DGRAM, VARY_AV | VARY_FORMAT, 0, want_source, sources },
};
GROUP(datagrams);
