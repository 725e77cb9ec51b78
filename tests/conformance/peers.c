/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Side 1 goes away, and nothing of side 0's stays without an end. */
#include "groups.h"
#include "traffic.h"

#include <unistd.h>

enum { SENDS = 6 };

/* Posted operations, and how often each has completed. */
struct pending {
	void	*context;
	int	posted, ended;
};

static void end_of(struct side *s, struct fid_cq *cq, struct pending *all, size_t count)
{
	struct fi_cq_err_entry err;
	struct done done;
	void *context;

	context = OUTCOME(s, cq, &done, &err) ? done.context : err.op_context;
	for (size_t i = 0; i < count; i++)
		if (all[i].context == context) {
			EQUAL(all[i].posted, 1);
			EQUAL(all[i].ended++, 0);
			return;
		}
	FAIL("completion of context %p, which is unknown", context);
}

static void all_end(struct side *s, struct fid_cq *cq, struct pending *all, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (all[i].posted)
			end_of(s, cq, all, count);
	QUIET(s, cq);
}

static int processes(struct side *s)
{
	pid_t mine = getpid(), theirs = 0;

	swap(s, &mine, &theirs, sizeof(mine));
	return mine != theirs;
}

/* Small and large ones, of which only small ones can have left. */
static void post_sends(struct side *s, struct pending *sends)
{
	for (size_t i = 0; i < SENDS; i++) {
		const size_t len = i < 2 ? 8 : 300000;
		ssize_t ret;

		sends[i] = (struct pending) { &s->ctx[i], 0, 0 };
		ret = i % 2 ? fi_tsend(s->ep, s->out, len, s->out_desc, s->peer, 4, &s->ctx[i]) :
			      fi_send(s->ep, s->out, len, s->out_desc, s->peer, &s->ctx[i]);
		sends[i].posted = !ret;
		CHECK(!ret || ret == -FI_EAGAIN);
	}
}

/*
 * Whether the peer is known to be gone or not: the call fails, or the operation ends. Two at a time,
 * since a provider may try for a while to reach it again.
 */
static void send_more(struct side *s)
{
	for (size_t round = 0; round < 2; round++) {
		struct pending sends[2];

		for (size_t i = 0; i < 2; i++) {
			const size_t len = i ? 8 : 300000;
			double late = 0;
			ssize_t ret;

			sends[i] = (struct pending) { &s->ctx[20 + i], 0, 0 };
			while ((ret = fi_send(s->ep, s->out, len, s->out_desc, s->peer,
					      &s->ctx[20 + i])) == -FI_EAGAIN) {
				progress(s);
				late_at(HERE, &late, "room for a send");
			}
			sends[i].posted = !ret;
		}
		all_end(s, s->tx, sends, 2);
	}
}

static void without_peer(struct side *s, struct pending *sends)
{
	struct pending receives[3];

	all_end(s, s->tx, sends, SENDS);
	send_more(s);
	/* Receives wait on, for others, or have ended; cancelled, all have. */
	for (size_t i = 0; i < 3; i++) {
		receives[i] = (struct pending) { &s->ctx[10 + i], 1, 0 };
		OK(fi_cancel(&s->ep->fid, &s->ctx[10 + i]));
	}
	all_end(s, s->rx, receives, 3);
}

/* The endpoint goes, by itself or with its process. */
static void leave(struct side *s, int by_exit)
{
	if (by_exit)
		_exit(0);
	OK(fi_close(&s->ep->fid));
	s->ep = NULL;
}

static void gone(struct side *s, int by_exit)
{
	struct pending sends[SENDS];

	side_open(s);
	by_exit = processes(s) && by_exit;
	if (s->role == 0) {
		OK(fi_recv(s->ep, s->in, 8, s->in_desc, s->peer, &s->ctx[10]));
		OK(fi_trecv(s->ep, s->in + 8, 8, s->in_desc, s->peer, 1, 0, &s->ctx[11]));
		OK(fi_recv(s->ep, s->in + 16, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[12]));
		post_sends(s, sends);
	}
	barrier(s);
	if (s->role == 1) {
		leave(s, by_exit);
	} else {
		without_peer(s, sends);
	}
	if (!by_exit)
		barrier(s);
	side_close(s);
}

static void closed(struct side *s)
{
	gone(s, 0);
}

static void ended(struct side *s)
{
	gone(s, 1);
}

/*
 * Side 1 goes while its messages come or wait: each receive ends once, in time, and what has come
 * is whole.
 */
static void sender_gone(struct side *s)
{
	enum { COUNT = 8 };
	struct pending receives[COUNT];
	int by_exit;

	side_open(s);
	by_exit = processes(s);
	for (size_t i = 0; i < COUNT; i++) {
		const size_t len = i % 2 ? 400000 : 100;

		receives[i] = (struct pending) { &s->ctx[i], 1, 0 };
		if (s->role == 1) {
			ssize_t ret;

			fill(s->out, ARENA, 1);
			ret = fi_tsend(s->ep, s->out, len, s->out_desc, s->peer, i, &s->ctx[i]);
			CHECK(!ret || ret == -FI_EAGAIN);
		} else if (i < COUNT / 2) {
			OK(fi_trecv(s->ep, s->in + i * 400000, 400000, s->in_desc, FI_ADDR_UNSPEC, i, 0,
				    &s->ctx[i]));
		}
	}
	barrier(s);
	if (s->role == 1) {
		leave(s, by_exit);
	} else {
		/* Late ones, for messages that wait or have gone with their sender. */
		for (int i = 0; i < 2000; i++)
			progress(s);
		for (size_t i = COUNT / 2; i < COUNT; i++)
			OK(fi_trecv(s->ep, s->in + i * 400000, 400000, s->in_desc, FI_ADDR_UNSPEC, i, 0,
				    &s->ctx[i]));
		for (size_t i = 0; i < COUNT; i++)
			OK(fi_cancel(&s->ep->fid, &s->ctx[i]));
		for (size_t i = 0; i < COUNT; i++) {
			struct fi_cq_err_entry err;
			struct done done;
			size_t at;

			if (OUTCOME(s, s->rx, &done, &err)) {
				at = (size_t) ((struct fi_context2 *) done.context - s->ctx);
				CHECK(at < COUNT);
				EQUAL(done.len, at % 2 ? 400000 : 100);
				FILLED(s->in + at * 400000, done.len, 1);
			} else {
				at = (size_t) ((struct fi_context2 *) err.op_context - s->ctx);
				CHECK(at < COUNT);
			}
			EQUAL(receives[at].ended++, 0);
		}
		QUIET(s, s->rx);
	}
	if (!by_exit)
		barrier(s);
	side_close(s);
}

/* A claimed message that was still with its sender: the call or the completion tells. */
static void claimed_gone(struct side *s)
{
	struct fi_cq_err_entry err;
	struct done done;
	double late = 0;
	int by_exit, found = 0;
	ssize_t ret;

	side_open(s);
	by_exit = processes(s);
	if (s->role == 1)
		POST(s, fi_tsend(s->ep, s->out, 400000, s->out_desc, s->peer, 9, &s->ctx[0]));
	barrier(s);
	while (s->role == 0 && !found) {
		OK(receive_tagged(s, NULL, 0, FI_ADDR_UNSPEC, 9, 0, &s->ctx[1],
				  FI_PEEK | FI_CLAIM | FI_COMPLETION));
		found = OUTCOME(s, s->rx, &done, &err);
		progress(s);
		late_at(HERE, &late, "the message");
	}
	barrier(s);
	if (s->role == 1) {
		leave(s, by_exit);
	} else {
		for (int i = 0; i < 2000; i++)
			progress(s);
		ret = receive_tagged(s, s->in, ARENA, FI_ADDR_UNSPEC, 9, 0, &s->ctx[1],
				     FI_CLAIM | FI_COMPLETION);
		if (!ret)
			OUTCOME(s, s->rx, &done, &err);
		QUIET(s, s->rx);
	}
	if (!by_exit)
		barrier(s);
	side_close(s);
}

/* Another endpoint at a new address is a peer like any other. */
static void replaced(struct side *s)
{
	char mine[256] = "", theirs[256] = "";
	struct pending sends[SENDS];

	side_open(s);
	if (s->role == 0) {
		for (size_t i = 10; i < 13; i++)
			OK(fi_recv(s->ep, s->in, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
		post_sends(s, sends);
	}
	barrier(s);
	if (s->role == 1)
		side_close(s);
	else
		without_peer(s, sends);
	if (s->role == 1) {
		side_info(s);
		side_objects(s);
		side_buffers(s);
		OK(fi_enable(s->ep));
	}
	side_name(s, mine, sizeof(mine));
	swap(s, mine, theirs, sizeof(mine));
	if (s->role == 0)
		OK(fi_av_remove(s->av, &s->peer, 1, 0));
	EQUAL(fi_av_insert(s->av, theirs, 1, &s->peer, 0, NULL), 1);
	for (size_t i = 0; i < 3; i++) {
		const size_t len = i ? i * 200000 : 8;

		if (s->role == 0) {
			fill(s->out, len, i);
			POST(s, fi_send(s->ep, s->out, len, s->out_desc, s->peer, &s->ctx[i]));
			FINISHED(s, s->tx, &s->ctx[i], FI_SEND | FI_MSG, len);
		} else {
			OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
			FINISHED(s, s->rx, &s->ctx[i], FI_RECV | FI_MSG, len);
			FILLED(s->in, len, i);
		}
	}
	barrier(s);
	side_close(s);
}

/* A message that is here stays when its sender goes. */
static void message_stays(struct side *s)
{
	side_open(s);
	for (size_t i = 0; s->role == 1 && i < 5; i++) {
		struct done done;

		fill(s->out, 1000, i);
		POST(s, send_untagged(s, s->out, 1000, 0, &s->ctx[0],
				      FI_DELIVERY_COMPLETE | FI_COMPLETION));
		COMPLETION(s, s->tx, &done);
	}
	for (size_t i = 0; s->role == 0 && i < 5; i++)
		OK(fi_recv(s->ep, s->in + i * 1000, 1000, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	if (s->role == 1) {
		OK(fi_close(&s->ep->fid));
		s->ep = NULL;
	} else {
		for (size_t i = 0; i < 5; i++) {
			FINISHED(s, s->rx, &s->ctx[i], FI_RECV | FI_MSG, 1000);
			FILLED(s->in + i * 1000, 1000, i);
		}
	}
	barrier(s);
	side_close(s);
}

#define BOTH	(FI_MSG | FI_TAGGED)

static void want_directed(struct wish *wish)
{
	if (wish->caps & FI_TAGGED)
		wish->caps |= FI_DIRECTED_RECV;
}

static const struct conformance_case peers_cases[] = {
	{ "closed", "fi_endpoint(3)", "When a peer closes its endpoint, everything posted to it completes, once.",
	  BOTH, EP_RDM, VARY_PROGRESS | VARY_AV, 1, want_directed, closed },
	{ "ended", "fi_endpoint(3)", "The same when its process ends without closing anything.",
	  BOTH, EP_RDM, VARY_PROGRESS, 1, want_directed, ended },
	{ "sender-gone", "fi_endpoint(3)", "When a sender goes while its messages come or wait, each receive completes once, and success means that all is there.",
	  FI_TAGGED, EP_RDM, VARY_PROGRESS, 1, NULL, sender_gone },
	{ "claimed-gone", "fi_tagged(3)", "A claimed message that went with its sender is told by the call or by one completion.",
	  FI_TAGGED, EP_RDM, VARY_PROGRESS, 1, NULL, claimed_gone },
	{ "replaced", "fi_av(3)", "After a peer has gone, another one can take its place in the address vector.",
	  BOTH, EP_RDM, VARY_AV, 1, NULL, replaced },
	{ "message-stays", "fi_cq(3)", "A delivered message is received even if its sender has closed since.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS, 1, NULL, message_stays },
};
GROUP(peers);
