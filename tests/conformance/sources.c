/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Who sent a message: receives that name their source, and sources that completions tell. */
#include "groups.h"
#include "traffic.h"

/* Large enough that some stay with their sender until they are received. */
static const size_t lengths[] = { 1, 5000, 300000 };

static ssize_t send_to(struct side *s, fi_addr_t to, int tagged, size_t len, void *context)
{
	return tagged ? fi_tsend(s->ep, s->out, len, s->out_desc, to, 8, context) :
			fi_send(s->ep, s->out, len, s->out_desc, to, context);
}

static ssize_t receive_from(struct side *s, fi_addr_t from, int tagged, size_t at, void *context)
{
	unsigned char *place = s->in + (at << 20);
	const size_t room = (size_t) 1 << 20;

	return tagged ? fi_trecv(s->ep, place, room, s->in_desc, from, 8, 0, context) :
			fi_recv(s->ep, place, room, s->in_desc, from, context);
}

static void want_source(struct wish *wish)
{
	wish->caps |= FI_SOURCE;
}

static void told(struct side *s)
{
	for (int i = 0; i < 6; i++) {
		const int tagged = i % 2;
		const size_t len = lengths[i / 2];
		struct done done;

		if (s->role == 0) {
			POST(s, send_to(s, s->peer, tagged, len, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND, len);
			continue;
		}
		OK(receive_from(s, FI_ADDR_UNSPEC, tagged, 0, &s->ctx[0]));
		finished_at(HERE, s, s->rx, &s->ctx[0], FI_RECV, len, &done);
		EQUAL(done.source, s->peer);
	}
}

static void oneself(struct side *s)
{
	for (int i = 0; i < 6; i++) {
		const int tagged = i % 2;
		const size_t len = lengths[i / 2];
		struct done done;

		OK(receive_from(s, FI_ADDR_UNSPEC, tagged, 0, &s->ctx[0]));
		fill(s->out, len, (size_t) i);
		POST(s, send_to(s, s->self, tagged, len, &s->ctx[1]));
		finished_at(HERE, s, s->rx, &s->ctx[0], FI_RECV, len, &done);
		EQUAL(done.source, s->self);
		FINISHED(s, s->tx, &s->ctx[1], FI_SEND, len);
		FILLED(s->in, len, (size_t) i);
	}
}

/* Side 1 does not know side 0 at first, then does, then no longer. */
static void unknown(struct side *s)
{
	char mine[256] = "", theirs[256] = "";
	fi_addr_t peer = FI_ADDR_NOTAVAIL;
	struct done done;

	side_info(s);
	side_objects(s);
	side_buffers(s);
	OK(fi_enable(s->ep));
	side_name(s, mine, sizeof(mine));
	swap(s, mine, theirs, sizeof(mine));
	if (s->role == 0)
		EQUAL(fi_av_insert(s->av, theirs, 1, &s->peer, 0, NULL), 1);
	for (int i = 0; i < 3; i++) {
		if (s->role == 1 && i == 1)
			EQUAL(fi_av_insert(s->av, theirs, 1, &peer, 0, NULL), 1);
		if (s->role == 1 && i == 2) {
			OK(fi_av_remove(s->av, &peer, 1, 0));
			peer = FI_ADDR_NOTAVAIL;
		}
		barrier(s);
		if (s->role == 0) {
			POST(s, send_to(s, s->peer, 0, 100, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, 100);
		} else {
			OK(receive_from(s, FI_ADDR_UNSPEC, 0, 0, &s->ctx[0]));
			finished_at(HERE, s, s->rx, &s->ctx[0], FI_RECV | FI_MSG, 100, &done);
			EQUAL(done.source, peer);
		}
		barrier(s);
	}
	side_close(s);
}

static void want_directed(struct wish *wish)
{
	wish->caps |= FI_DIRECTED_RECV | FI_SOURCE;
}

/* Receives of both kinds that name oneself and the peer, in an order that only sources tell. */
static void directed(struct side *s, int tagged, int messages_first)
{
	struct done done;

	for (size_t i = 0; i < 3; i++) {
		const size_t len = lengths[i];

		if (s->role == 0) {
			if (!messages_first)
				barrier(s);
			fill(s->out, len, 1);
			POST(s, send_to(s, s->peer, tagged, len, &s->ctx[0]));
			if (messages_first)
				barrier(s);
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND, len);
			barrier(s);
			continue;
		}
		if (messages_first)
			barrier(s);
		OK(receive_from(s, s->self, tagged, 0, &s->ctx[0]));
		OK(receive_from(s, s->peer, tagged, 1, &s->ctx[1]));
		if (!messages_first)
			barrier(s);
		finished_at(HERE, s, s->rx, &s->ctx[1], FI_RECV, len, &done);
		EQUAL(done.source, s->peer);
		FILLED(s->in + ((size_t) 1 << 20), len, 1);
		QUIET(s, s->rx);
		fill(s->out, len, 2);
		POST(s, send_to(s, s->self, tagged, len, &s->ctx[2]));
		finished_at(HERE, s, s->rx, &s->ctx[0], FI_RECV, len, &done);
		EQUAL(done.source, s->self);
		FINISHED(s, s->tx, &s->ctx[2], FI_SEND, len);
		FILLED(s->in, len, 2);
		barrier(s);
	}
}

static void directed_receive(struct side *s)
{
	directed(s, 0, 0);
	barrier(s);
	directed(s, 0, 1);
}

static void directed_tagged(struct side *s)
{
	directed(s, 1, 0);
	barrier(s);
	directed(s, 1, 1);
}

/* Of a receive that names the sender and one that names nobody, the first posted takes it. */
static void wildcard(struct side *s)
{
	for (int tagged = 0; tagged < 2; tagged++)
		for (int wild_first = 0; wild_first < 2; wild_first++) {
			struct done done;

			if (s->role == 0) {
				barrier(s);
				for (int i = 0; i < 2; i++) {
					POST(s, send_to(s, s->peer, tagged, 8, &s->ctx[i]));
					FINISHED(s, s->tx, &s->ctx[i], FI_SEND, 8);
				}
				continue;
			}
			OK(receive_from(s, wild_first ? FI_ADDR_UNSPEC : s->peer, tagged, 0, &s->ctx[0]));
			OK(receive_from(s, wild_first ? s->peer : FI_ADDR_UNSPEC, tagged, 1, &s->ctx[1]));
			barrier(s);
			for (int i = 0; i < 2; i++) {
				finished_at(HERE, s, s->rx, &s->ctx[i], FI_RECV, 8, &done);
				EQUAL(done.source, s->peer);
			}
		}
}

/* Without the capability the address of a receive is ignored. */
static void not_directed(struct side *s)
{
	for (int tagged = 0; tagged < 2; tagged++) {
		if (s->role == 0) {
			barrier(s);
			POST(s, send_to(s, s->peer, tagged, 8, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND, 8);
		} else {
			OK(receive_from(s, s->self, tagged, 0, &s->ctx[0]));
			barrier(s);
			FINISHED(s, s->rx, &s->ctx[0], FI_RECV, 8);
		}
	}
}

#define BOTH	(FI_MSG | FI_TAGGED)

static const struct conformance_case sources_cases[] = {
	{ "told", "fi_cq(3)", "With FI_SOURCE, fi_cq_readfrom tells the sender's address in the receiver's vector.",
	  BOTH, EP_RDM, VARY_AV | VARY_FORMAT | VARY_API, 0, want_source, told },
	{ "oneself", "fi_cq(3)", "Messages to oneself come from oneself.",
	  BOTH, EP_RDM, VARY_AV, 0, want_source, oneself },
	{ "unknown", "fi_cq(3)", "A source that is not in the vector at the time is FI_ADDR_NOTAVAIL.",
	  BOTH, EP_RDM, VARY_AV, 1, want_source, unknown },
	{ "directed-receive", "fi_getinfo(3)", "With FI_DIRECTED_RECV, a receive that names its source takes nobody else's message.",
	  BOTH, EP_RDM, VARY_AV | VARY_PROGRESS, 0, want_directed, directed_receive },
	{ "directed-tagged", "fi_getinfo(3)", "The same of tagged receives.",
	  BOTH, EP_RDM, VARY_AV | VARY_PROGRESS, 0, want_directed, directed_tagged },
	{ "wildcard", "fi_msg(3)", "FI_ADDR_UNSPEC is any source; receives are matched in the order of posting, whether they name one or not.",
	  BOTH, EP_RDM, VARY_AV, 0, want_directed, wildcard },
	{ "not-directed", "fi_msg(3)", "Without FI_DIRECTED_RECV, the source of a receive is ignored.",
	  BOTH, EP_RDM, VARY_AV, 0, NULL, not_directed },
};
GROUP(sources);
