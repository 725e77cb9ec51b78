/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What entries of completion queues tell, and which operations write them. */
#include "groups.h"
#include "remote.h"

#define DATA	0x1122334455667788ull
#define TAG	0x0102030405060708ull
#define LEN	600
#define ALL	(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC)
/* Bits that say what has completed. */
#define KIND	(ALL | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | \
		 FI_REMOTE_CQ_DATA | FI_MULTI_RECV)

struct call {
	const char	*name;
	uint64_t	own;		/* flags here */
	uint64_t	there;		/* flags there; none: no entry */
	ssize_t		(*post)(struct side *s, const struct remote *r, void *context);
};

#define CALL(name) \
	static ssize_t name(struct side *s, const struct remote *r, void *context)

CALL(send_)
{
	(void) r;
	return fi_send(s->ep, s->out, LEN, s->out_desc, s->peer, context);
}

CALL(senddata)
{
	(void) r;
	return fi_senddata(s->ep, s->out, LEN, s->out_desc, DATA, s->peer, context);
}

CALL(tsend)
{
	(void) r;
	return fi_tsend(s->ep, s->out, LEN, s->out_desc, s->peer, TAG, context);
}

CALL(tsenddata)
{
	(void) r;
	return fi_tsenddata(s->ep, s->out, LEN, s->out_desc, DATA, s->peer, TAG, context);
}

CALL(write_)
{
	return fi_write(s->ep, s->out, LEN, s->out_desc, s->peer, r->far.addr, r->far.key, context);
}

CALL(writedata)
{
	return fi_writedata(s->ep, s->out, LEN, s->out_desc, DATA, s->peer, r->far.addr, r->far.key,
			    context);
}

CALL(read_)
{
	return fi_read(s->ep, s->out, LEN, s->out_desc, s->peer, r->far.addr, r->far.key, context);
}

CALL(atomic)
{
	return fi_atomic(s->ep, s->out, 1, s->out_desc, s->peer, r->far.addr, r->far.key, FI_UINT64,
			 FI_SUM, context);
}

CALL(fetch)
{
	return fi_fetch_atomic(s->ep, s->out, 1, s->out_desc, s->out + 64, s->out_desc, s->peer,
			       r->far.addr, r->far.key, FI_UINT64, FI_SUM, context);
}

CALL(compare)
{
	return fi_compare_atomic(s->ep, s->out, 1, s->out_desc, s->out + 8, s->out_desc,
				 s->out + 64, s->out_desc, s->peer, r->far.addr, r->far.key,
				 FI_UINT64, FI_CSWAP, context);
}

static const struct call calls[] = {
	{ "send", FI_MSG | FI_SEND, FI_MSG | FI_RECV, send_ },
	{ "senddata", FI_MSG | FI_SEND, FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA, senddata },
	{ "tsend", FI_TAGGED | FI_SEND, FI_TAGGED | FI_RECV, tsend },
	{ "tsenddata", FI_TAGGED | FI_SEND, FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA, tsenddata },
	{ "write", FI_RMA | FI_WRITE, 0, write_ },
	{ "writedata", FI_RMA | FI_WRITE, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, writedata },
	{ "read", FI_RMA | FI_READ, 0, read_ },
	{ "atomic", FI_ATOMIC | FI_WRITE, 0, atomic },
	{ "fetch", FI_ATOMIC | FI_READ, 0, fetch },
	{ "compare", FI_ATOMIC | FI_READ, 0, compare },
};

#define CALLS	(sizeof(calls) / sizeof(calls[0]))

static void check_kind(const struct side *s, const struct call *call, const struct done *done,
		       uint64_t expected)
{
	/* A transmit may or may not tell that data went with it. */
	const uint64_t mask = expected & (FI_SEND | FI_WRITE) ? KIND & ~FI_REMOTE_CQ_DATA : KIND;

	if (s->wish.format >= FI_CQ_FORMAT_MSG && (done->flags & mask) != expected)
		FAIL("%s: flags are 0x%" PRIx64 ", expected 0x%" PRIx64, call->name, done->flags,
		     expected);
}

static void check_there(struct side *s, const struct call *call, int context)
{
	struct done done;

	finished_at(call->name, s, s->rx, call->there & FI_RECV ? &s->ctx[context] : NULL,
		    call->there, LEN, &done);
	check_kind(s, call, &done, call->there);
	TOLD(s, len, FI_CQ_FORMAT_MSG, &done, LEN);
	if (call->there & FI_REMOTE_CQ_DATA)
		TOLD(s, data, FI_CQ_FORMAT_DATA, &done, carried_data(s, DATA));
	if (call->there & FI_TAGGED)
		TOLD(s, tag, FI_CQ_FORMAT_TAGGED, &done, TAG);
}

static void fields(struct side *s)
{
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; i < CALLS; i++) {
		const int context = (int) i + 1;

		if (s->role == 1 && (calls[i].there & FI_TAGGED))
			OK(fi_trecv(s->ep, s->in + 4096, LEN * 2, s->in_desc, FI_ADDR_UNSPEC, TAG, 0,
				    &s->ctx[context]));
		else if (s->role == 1 && (calls[i].there & FI_MSG))
			OK(fi_recv(s->ep, s->in + 4096, LEN * 2, s->in_desc, FI_ADDR_UNSPEC,
				   &s->ctx[context]));
		barrier(s);
		if (s->role == 0) {
			struct done done;

			POST(s, calls[i].post(s, &r, &s->ctx[context]));
			finished_at(calls[i].name, s, s->tx, &s->ctx[context], calls[i].own, LEN,
				    &done);
			check_kind(s, &calls[i], &done, calls[i].own);
		} else if (calls[i].there) {
			check_there(s, &calls[i], context);
		}
		barrier(s);
		QUIET(s, s->tx);
		QUIET(s, s->rx);
		barrier(s);
	}
	remote_close(s, &r);
}

/* Reads of several entries give them in order; reads of none drive progress only. */
static void batches(struct side *s)
{
	enum { COUNT = 50, ROOM = 16 };
	struct fi_cq_tagged_entry entries[ROOM + 1];
	double late = 0;
	int seen = 0;

	EQUAL(fi_cq_read(s->rx, NULL, 0), -FI_EAGAIN);
	EQUAL(fi_cq_read(s->rx, entries, ROOM), -FI_EAGAIN);
	for (int i = 0; s->role == 1 && i < COUNT; i++)
		OK(fi_recv(s->ep, s->in + 64 * i, 64, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	for (int i = 0; s->role == 0 && i < COUNT; i++)
		POST(s, fi_inject(s->ep, s->out, 8, s->peer));
	while (s->role == 1 && fi_cq_read(s->rx, NULL, 0) == -FI_EAGAIN) {
		progress(s);
		late_at(HERE, &late, "the first completion");
	}
	while (s->role == 1 && seen < COUNT) {
		ssize_t got;

		memset(entries, 0xde, sizeof(entries));
		got = fi_cq_read(s->rx, entries, ROOM);
		if (got == -FI_EAGAIN) {
			progress(s);
			late_at(HERE, &late, "a completion");
			continue;
		}
		CHECK(got > 0 && got <= ROOM);
		for (ssize_t k = 0; k < got; k++)
			CHECK(entries[k].op_context == &s->ctx[seen++]);
		EQUAL(((unsigned char *) &entries[got])[0], 0xde);
	}
	QUIET(s, s->rx);
}

static void check_source(struct side *s, fi_addr_t expected)
{
	struct done done;

	if (s->role == 0) {
		barrier(s);
		POST(s, fi_send(s->ep, s->out, 8, s->out_desc, s->peer, &s->ctx[0]));
		COMPLETION(s, s->tx, &done);
		CHECK(done.source == FI_ADDR_NOTAVAIL);
	} else {
		OK(fi_recv(s->ep, s->in, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		barrier(s);
		COMPLETION(s, s->rx, &done);
		if (done.source != expected)
			FAIL("source is 0x%" PRIx64 ", expected 0x%" PRIx64, done.source, expected);
	}
}

static void source(struct side *s)
{
	check_source(s, s->peer);
}

static void no_source(struct side *s)
{
	CHECK(!(s->info->caps & FI_SOURCE));
	check_source(s, FI_ADDR_NOTAVAIL);
}

/* A message too long for the second of three receives. */
static void error_among_others(struct side *s)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	double late = 0;
	int good = 0, bad = 0, ended = 0;

	EQUAL(fi_cq_readerr(s->rx, &err, 0), -FI_EAGAIN);
	for (int i = 0; s->role == 1 && i < 3; i++)
		OK(fi_recv(s->ep, s->in, i == 1 ? 8 : 64, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	for (int i = 0; s->role == 0 && i < 3; i++) {
		ssize_t ret;

		while ((ret = fi_inject(s->ep, s->out, 16, s->peer)) == -FI_EAGAIN) {
			progress(s);
			late_at(HERE, &late, "room for a message");
		}
		if (ret && i == 2 && s->type == FI_EP_MSG)
			break;		/* The connection has ended with the message before. */
		OK(ret);
	}
	while (s->role == 1 && good + bad < 3) {
		const ssize_t got = fi_cq_read(s->rx, &entry, 1);

		if (got == 1) {
			CHECK(entry.op_context == &s->ctx[good ? 2 : 0]);
			good++;
		} else if (got == -FI_EAVAIL) {
			/* It stays until it is fetched. */
			EQUAL(fi_cq_read(s->rx, &entry, 1), -FI_EAVAIL);
			EQUAL(fi_cq_readerr(s->rx, &err, 0), 1);
			if (!bad) {
				CHECK(err.op_context == &s->ctx[1]);
				EQUAL(err.err, FI_ETRUNC);
				/* Where the connection ends with it, the other receive does, too. */
				ended = s->type == FI_EP_MSG && !err.olen;
				CHECK(ended || err.olen == 8);
			} else {
				CHECK(ended && err.op_context == &s->ctx[2]);
			}
			CHECK(fi_cq_strerror(s->rx, err.prov_errno, err.err_data, NULL, 0));
			if (!ended)
				EQUAL(fi_cq_readerr(s->rx, &err, 0), -FI_EAGAIN);
			bad++;
		} else {
			EQUAL(got, -FI_EAGAIN);
			progress(s);
			late_at(HERE, &late, "a completion");
		}
	}
	if (s->role == 1)
		EQUAL(bad, 1 + ended);
	QUIET(s, s->rx);
}

static void want_source(struct wish *wish)
{
	wish->caps |= FI_SOURCE;
}

static const struct conformance_case completion_cases[] = {
	{ "fields", "fi_cq(3)", "Entries say what has completed at which side, with length, data and tag as far as the format goes.",
	  ALL, EP_RDM, VARY_FORMAT | VARY_MR | VARY_API, 0, NULL, fields },
	{ "batches", "fi_cq(3)", "A read gives up to count entries in order; one of none drives progress and takes nothing.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS | VARY_THREADING, 0, NULL, batches },
	{ "source", "fi_cq(3)", "With FI_SOURCE a receive tells the sender's address, and a transmit none.",
	  FI_MSG, EP_RDM, VARY_AV | VARY_FORMAT, 0, want_source, source },
	{ "no-source", "fi_cq(3)", "Without FI_SOURCE no source is told.",
	  FI_MSG | FI_SEND | FI_RECV, EP_RELIABLE, VARY_AV, 0, NULL, no_source },
	{ "error-among-others", "fi_cq(3)", "An error is announced until it is fetched, and is not mixed with successes.",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, error_among_others },
};
GROUP(completion);
