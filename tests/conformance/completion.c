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

/* Side 1 takes as many messages as are sent. */
static void take(struct side *s, int count)
{
	for (int i = 0; i < count; i++) {
		struct done done;

		OK(fi_recv(s->ep, s->in, 64, s->in_desc, FI_ADDR_UNSPEC,
			   &s->ctx[i]));
		if (!(s->wish.bind_flags & FI_SELECTIVE_COMPLETION))
			COMPLETION(s, s->rx, &done);
	}
}

static ssize_t send_with(struct side *s, uint64_t flags, void *context)
{
	struct iovec iov = { s->out, 8 };
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.context = context,
	};

	return fi_sendmsg(s->ep, &msg, flags);
}

static void selective(struct side *s, uint64_t defaults)
{
	side_info(s);
	/* What an endpoint does by default is its opener's to say. */
	s->info->tx_attr->op_flags = defaults;
	s->info->rx_attr->op_flags = defaults;
	side_objects(s);
	side_connect(s);
	side_buffers(s);
	barrier(s);
	if (s->role == 1)
		take(s, 4);
	barrier(s);
	if (s->role == 0) {
		POST(s, fi_inject(s->ep, s->out, 8, s->peer));
		POST(s, send_with(s, 0, &s->ctx[1]));
		POST(s, send_with(s, FI_COMPLETION, &s->ctx[2]));
		FINISHED(s, s->tx, &s->ctx[2], FI_MSG | FI_SEND, 8);
		POST(s, fi_send(s->ep, s->out, 8, s->out_desc, s->peer, &s->ctx[3]));
		if (defaults & FI_COMPLETION)
			FINISHED(s, s->tx, &s->ctx[3], FI_MSG | FI_SEND, 8);
	} else {
		for (int i = 0; defaults & FI_COMPLETION && i < 4; i++)
			FINISHED(s, s->rx, &s->ctx[i], FI_MSG | FI_RECV, 8);
	}
	barrier(s);
	QUIET(s, s->tx);
	QUIET(s, s->rx);
	barrier(s);
	side_close(s);
}

static void selective_silent(struct side *s)
{
	selective(s, 0);
}

static void selective_default(struct side *s)
{
	selective(s, FI_COMPLETION);
}

static void want_selective(struct wish *wish)
{
	wish->bind_flags = FI_SELECTIVE_COMPLETION;
}

/* No entry was asked for, and yet the failure has one. */
static void silent_error(struct side *s)
{
	struct fi_cq_err_entry err;
	struct remote r;

	side_info(s);
	s->info->tx_attr->op_flags = 0;
	side_objects(s);
	side_connect(s);
	side_buffers(s);
	remote_open(s, &r);
	if (s->role == 0) {
		POST(s, write_with(s, s->out, 8, r.far.addr, r.far.key + 12345, 0, 0, &s->ctx[1]));
		ERROR(s, s->tx, FI_ENOKEY, &s->ctx[1], &err);
		POST(s, fi_read(s->ep, s->out, 8, s->out_desc, s->peer, r.far.addr + ARENA, r.far.key,
				&s->ctx[2]));
		ERROR(s, s->tx, FI_EINVAL, &s->ctx[2], &err);
		QUIET(s, s->tx);
	}
	remote_close(s, &r);
	side_close(s);
}

/* Both directions of an endpoint write to one queue. */
static void one_queue(struct side *s)
{
	struct fi_cq_attr attr = { .format = s->wish.format };
	struct fi_av_attr av = { .type = s->wish.av_type };
	int sent = 0, received = 0;

	side_info(s);
	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
	OK(fi_av_open(s->domain, &av, &s->av, NULL));
	OK(fi_cq_open(s->domain, &attr, &s->tx, NULL));
	OK(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	OK(fi_ep_bind(s->ep, &s->av->fid, 0));
	OK(fi_ep_bind(s->ep, &s->tx->fid, FI_TRANSMIT | FI_RECV));
	side_connect(s);
	side_buffers(s);
	for (int i = 0; i < 20; i++)
		OK(fi_recv(s->ep, s->in, 64, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	for (int i = 0; i < 20; i++)
		POST(s, fi_send(s->ep, s->out, 8, s->out_desc, s->peer, &s->ctx[20 + i]));
	while (sent < 20 || received < 20) {
		struct done done;

		COMPLETION(s, s->tx, &done);
		if (done.context == &s->ctx[received])
			received++;
		else if (done.context == &s->ctx[20 + sent])
			sent++;
		else
			FAIL("context %p, after %d sent and %d received", done.context, sent,
			     received);
	}
	QUIET(s, s->tx);
	barrier(s);
	side_close(s);
}

/* A second endpoint on the same queues, which the other side knows, too. */
static void shared_queues(struct side *s)
{
	char mine[256] = "", theirs[256] = "";
	size_t len = sizeof(mine);
	fi_addr_t second;
	struct fid_ep *ep;
	struct done done;
	int seen[2] = { 0 };

	OK(fi_endpoint(s->domain, s->info, &ep, NULL));
	OK(fi_ep_bind(ep, &s->av->fid, 0));
	OK(fi_ep_bind(ep, &s->tx->fid, FI_TRANSMIT));
	OK(fi_ep_bind(ep, &s->rx->fid, FI_RECV));
	OK(fi_enable(ep));
	OK(fi_getname(&ep->fid, mine, &len));
	swap(s, mine, theirs, sizeof(mine));
	EQUAL(fi_av_insert(s->av, theirs, 1, &second, 0, NULL), 1);
	for (int i = 0; i < 20; i++)
		OK(fi_recv(i % 2 ? ep : s->ep, s->in, 64, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	for (int i = 0; i < 20; i++)
		POST(s, fi_send(i % 2 ? ep : s->ep, s->out, 8, s->out_desc,
				i % 4 < 2 ? s->peer : second, &s->ctx[20 + i]));
	for (int i = 0; i < 20; i++) {
		COMPLETION(s, s->tx, &done);
		COMPLETION(s, s->rx, &done);
		seen[((struct fi_context2 *) done.context - s->ctx) % 2]++;
	}
	EQUAL(seen[0], 10);
	EQUAL(seen[1], 10);
	QUIET(s, s->tx);
	QUIET(s, s->rx);
	barrier(s);
	EQUAL(fi_close(&s->rx->fid), -FI_EBUSY);
	OK(fi_close(&ep->fid));
}

/* Queues of four entries, and nobody reads until everything has been sent or does not go on. */
static void tiny_queue(struct side *s)
{
	enum { COUNT = 300 };
	struct fid_cq *cq = s->role ? s->rx : s->tx;
	int posted = 0, seen = 0;
	double late = 0;

	while (seen < COUNT) {
		struct fi_cq_tagged_entry entry;
		ssize_t ret = -FI_EAGAIN;

		if (posted < COUNT)
			ret = s->role ? fi_recv(s->ep, s->in, 64, s->in_desc, FI_ADDR_UNSPEC,
						&s->ctx[posted % CONTEXTS]) :
			      fi_send(s->ep, s->out, 8, s->out_desc, s->peer,
				      &s->ctx[posted % CONTEXTS]);
		if (!ret) {
			posted++;
			continue;
		}
		EQUAL(ret, -FI_EAGAIN);
		ret = fi_cq_read(cq, &entry, 1);
		late_at(HERE, &late, "a completion");
		if (ret == 1)
			CHECK(entry.op_context == &s->ctx[seen++ % CONTEXTS]);
		else
			EQUAL(ret, -FI_EAGAIN);
		progress(s);
	}
	QUIET(s, cq);
	barrier(s);
}

static void want_tiny(struct wish *wish)
{
	wish->cq_size = 4;
}

/* A message too long for the second of three receives. */
static void error_among_others(struct side *s)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	double late = 0;
	int good = 0, bad = 0;

	EQUAL(fi_cq_readerr(s->rx, &err, 0), -FI_EAGAIN);
	for (int i = 0; s->role == 1 && i < 3; i++)
		OK(fi_recv(s->ep, s->in, i == 1 ? 8 : 64, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	for (int i = 0; s->role == 0 && i < 3; i++)
		POST(s, fi_inject(s->ep, s->out, 16, s->peer));
	while (s->role == 1 && good + bad < 3) {
		const ssize_t got = fi_cq_read(s->rx, &entry, 1);

		if (got == 1) {
			CHECK(entry.op_context == &s->ctx[good ? 2 : 0]);
			good++;
		} else if (got == -FI_EAVAIL) {
			/* It stays until it is fetched. */
			EQUAL(fi_cq_read(s->rx, &entry, 1), -FI_EAVAIL);
			EQUAL(fi_cq_readerr(s->rx, &err, 0), 1);
			CHECK(err.op_context == &s->ctx[1]);
			EQUAL(err.err, FI_ETRUNC);
			EQUAL(err.olen, 8);
			CHECK(fi_cq_strerror(s->rx, err.prov_errno, err.err_data, NULL, 0));
			EQUAL(fi_cq_readerr(s->rx, &err, 0), -FI_EAGAIN);
			bad++;
		} else {
			EQUAL(got, -FI_EAGAIN);
			progress(s);
			late_at(HERE, &late, "a completion");
		}
	}
	if (s->role == 1)
		EQUAL(bad, 1);
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
	{ "selective-silent", "fi_endpoint(3)", "With FI_SELECTIVE_COMPLETION only operations flagged FI_COMPLETION write entries.",
	  FI_MSG, EP_RDM, VARY_FORMAT, 1, want_selective, selective_silent },
	{ "selective-default", "fi_endpoint(3)", "FI_COMPLETION as a default flag holds for calls without flags, not for those with.",
	  FI_MSG, EP_RDM, VARY_FORMAT, 1, want_selective, selective_default },
	{ "silent-error", "fi_cq(3)", "A failure writes an entry whether or not one was asked for.",
	  FI_RMA, EP_RDM, VARY_MR, 1, want_selective, silent_error },
	{ "one-queue", "fi_endpoint(3)", "One queue may take the completions of both directions.",
	  FI_MSG, EP_RDM, VARY_FORMAT | VARY_THREADING, 1, NULL, one_queue },
	{ "shared-queues", "fi_endpoint(3)", "Several endpoints may write to the same queues, which are busy until the last is closed.",
	  FI_MSG, EP_RDM, VARY_THREADING, 0, NULL, shared_queues },
	{ "tiny-queue", "fi_domain(3)", "With resource management no completion is lost for lack of room in a queue.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS, 0, want_tiny, tiny_queue },
	{ "error-among-others", "fi_cq(3)", "An error is announced until it is fetched, and is not mixed with successes.",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, error_among_others },
};
GROUP(completion);
