/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Address vectors under traffic: changes, duplicates, the program's own numbers. */
#include "groups.h"
#include "traffic.h"

#define ROOM	256
#define NUMBER	0xfeed0001ull

/* Headers before 1.20 do not know how to set numbers. */
#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 20
#define set_user_id	fi_av_set_user_id
#define SETS_USER_ID	1
#else
#define set_user_id(av, at, number, flags)	((void) (av), (void) (at), (void) (number), -FI_ENOSYS)
#define SETS_USER_ID	0
#endif

/* A message from side 0, who must be this source to side 1. */
static void message(struct side *s, fi_addr_t to, fi_addr_t source, size_t len)
{
	struct done done;

	if (s->role == 0) {
		barrier(s);
		POST(s, fi_send(s->ep, s->out, len, s->out_desc, to, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, len);
	} else {
		OK(fi_recv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		barrier(s);
		finished_at(HERE, s, s->rx, &s->ctx[0], FI_RECV | FI_MSG, len, &done);
		EQUAL(done.source, source);
	}
	barrier(s);
}

static void names(struct side *s, char *mine, char *theirs)
{
	side_name(s, mine, ROOM);
	swap(s, mine, theirs, ROOM);
}

/* Everything is moved to other places, some of which were the other's. */
static void reuse(struct side *s)
{
	char mine[ROOM] = "", theirs[ROOM] = "";

	names(s, mine, theirs);
	for (int round = 0; round < 4; round++) {
		message(s, s->peer, s->peer, round % 2 ? 200000 : 100);
		OK(fi_av_remove(s->av, &s->peer, 1, 0));
		OK(fi_av_remove(s->av, &s->self, 1, 0));
		if (round % 2) {
			EQUAL(fi_av_insert(s->av, theirs, 1, &s->peer, 0, NULL), 1);
			EQUAL(fi_av_insert(s->av, mine, 1, &s->self, 0, NULL), 1);
		} else {
			EQUAL(fi_av_insert(s->av, mine, 1, &s->self, 0, NULL), 1);
			EQUAL(fi_av_insert(s->av, theirs, 1, &s->peer, 0, NULL), 1);
		}
		message(s, s->peer, s->peer, 100);
	}
}

/* What the manual leaves open is only which handle a source has. */
static void duplicates(struct side *s)
{
	char mine[ROOM] = "", theirs[ROOM] = "";
	fi_addr_t twice = FI_ADDR_UNSPEC;
	struct done done;

	names(s, mine, theirs);
	if (fi_av_insert(s->av, theirs, 1, &twice, 0, NULL) != 1)
		twice = s->peer;
	for (int i = 0; i < 3; i++) {
		if (s->role == 0) {
			POST(s, fi_send(s->ep, s->out, 8, s->out_desc, i ? s->peer : twice, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, 8);
		} else {
			OK(fi_recv(s->ep, s->in, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
			finished_at(HERE, s, s->rx, &s->ctx[0], FI_RECV | FI_MSG, 8, &done);
			CHECK(done.source == s->peer || done.source == twice);
		}
		/* One insertion taken back, the other one still stands. */
		if (i == 0 && twice != s->peer)
			OK(fi_av_remove(s->av, &twice, 1, 0));
		if (i == 0)
			twice = s->peer;
		barrier(s);
	}
}

/* Sends under way when their address goes all end, either way. */
static void remove_pending(struct side *s)
{
	enum { COUNT = 4 };
	char mine[ROOM] = "", theirs[ROOM] = "";
	struct fi_cq_err_entry err;
	struct done done;

	names(s, mine, theirs);
	if (s->role == 0) {
		for (int i = 0; i < COUNT; i++)
			POST(s, fi_tsend(s->ep, s->out, 300000, s->out_desc, s->peer, 1, &s->ctx[i]));
		OK(fi_av_remove(s->av, &s->peer, 1, 0));
		barrier(s);
		for (int i = 0; i < COUNT; i++)
			OUTCOME(s, s->tx, &done, &err);
		QUIET(s, s->tx);
		barrier(s);
		EQUAL(fi_av_insert(s->av, theirs, 1, &s->peer, 0, NULL), 1);
	} else {
		for (int i = 0; i < COUNT; i++)
			OK(fi_trecv(s->ep, s->in, ARENA, s->in_desc, FI_ADDR_UNSPEC, 1, 0, &s->ctx[i]));
		barrier(s);
		barrier(s);
		/* Some may have come, or come later without a receive. */
		for (int i = 0; i < COUNT; i++)
			OK(fi_cancel(&s->ep->fid, &s->ctx[i]));
		for (int i = 0; i < COUNT; i++)
			OUTCOME(s, s->rx, &done, &err);
	}
	message(s, s->peer, s->peer, 100);
}

static void want_user_ids(struct wish *wish)
{
	wish->caps |= FI_SOURCE | FI_AV_USER_ID;
}

/* Numbers that the insertion brings. */
static void numbers_inserted(struct side *s)
{
	char mine[ROOM] = "", theirs[ROOM] = "";
	fi_addr_t at = NUMBER;

	names(s, mine, theirs);
	OK(fi_av_remove(s->av, &s->peer, 1, 0));
	EQUAL(fi_av_insert(s->av, theirs, 1, &at, FI_AV_USER_ID, NULL), 1);
	CHECK(at != NUMBER);
	message(s, at, NUMBER, 100);
	message(s, at, NUMBER, 200000);
	EQUAL(fi_av_insert(s->av, theirs, 1, NULL, FI_AV_USER_ID, NULL), -FI_EINVAL);
	/* Inserted without, it has its handle again. */
	OK(fi_av_remove(s->av, &at, 1, 0));
	EQUAL(fi_av_insert(s->av, theirs, 1, &at, 0, NULL), 1);
	message(s, at, at, 100);
}

/* Numbers set apart, in a vector that was opened for them. */
static void numbers_set(struct side *s)
{
	struct fi_av_attr attr = { .type = s->wish.av_type, .flags = FI_AV_USER_ID };
	char mine[ROOM] = "", theirs[ROOM] = "";

	side_info(s);
	side_objects(s);
	/* The vector of the endpoint is another one here. */
	OK(fi_close(&s->ep->fid));
	OK(fi_close(&s->av->fid));
	OK(fi_av_open(s->domain, &attr, &s->av, NULL));
	OK(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	OK(fi_ep_bind(s->ep, &s->av->fid, 0));
	OK(fi_ep_bind(s->ep, &s->tx->fid, FI_TRANSMIT));
	OK(fi_ep_bind(s->ep, &s->rx->fid, FI_RECV));
	side_buffers(s);
	OK(fi_enable(s->ep));
	names(s, mine, theirs);
	EQUAL(fi_av_insert(s->av, theirs, 1, &s->peer, 0, NULL), 1);
	message(s, s->peer, FI_ADDR_NOTAVAIL, 100);
	for (uint64_t i = 0; SETS_USER_ID && i < 3; i++) {
		OK(set_user_id(s->av, s->peer, NUMBER + i, 0));
		message(s, s->peer, NUMBER + i, 100);
	}
	if (SETS_USER_ID)
		EQUAL(set_user_id(s->av, 4711, NUMBER, 0), -FI_EINVAL);
	side_close(s);
}

static void numbers_refused(struct side *s)
{
	if (SETS_USER_ID)
		CHECK(set_user_id(s->av, s->peer, NUMBER, 0) < 0);
	message(s, s->peer, s->peer, 8);
}

static void want_source(struct wish *wish)
{
	wish->caps |= FI_SOURCE;
}

static const struct conformance_case vectors_cases[] = {
	{ "reuse", "fi_av(3)", "A handle that is given out again is the new address, to sends and to completions.",
	  FI_MSG, EP_RDM, VARY_AV | VARY_PROGRESS, 0, want_source, reuse },
	{ "duplicates", "fi_av(3)", "An address that was inserted twice, if that is accepted, works until both insertions are taken back.",
	  FI_MSG, EP_RDM, VARY_AV, 0, want_source, duplicates },
	{ "remove-pending", "fi_av(3)", "Operations to an address that is removed all end, and it can be inserted again.",
	  FI_MSG | FI_TAGGED, EP_RDM, VARY_AV | VARY_PROGRESS, 0, want_source, remove_pending },
	{ "numbers-inserted", "fi_av(3)", "With FI_AV_USER_ID an insertion brings the number that completions tell as source.",
	  FI_MSG, EP_RDM, VARY_AV, 0, want_user_ids, numbers_inserted },
	{ "numbers-set", "fi_av(3)", "In a vector opened with FI_AV_USER_ID, sources are what fi_av_set_user_id says, FI_ADDR_NOTAVAIL before.",
	  FI_MSG, EP_RDM, VARY_AV, 1, want_user_ids, numbers_set },
	{ "numbers-refused", "fi_av(3)", "Without that, handles have no other numbers.",
	  FI_MSG, EP_RDM, 0, 0, want_user_ids, numbers_refused },
};
GROUP(vectors);
