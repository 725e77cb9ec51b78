/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How connections come and go: requests, answers, refusals, data beside them, names, ends. */
#include "groups.h"
#include "traffic.h"

#include <stddef.h>
#include <time.h>

#define ROOM	256

/* What an event queue tells of connections. */
struct event {
	fid_t		fid;
	struct fi_info	*info;
	uint8_t		data[ROOM];
};

/* The next event must be this one; returns the bytes of data beside it. */
static size_t event_at(const char *at, struct side *s, uint32_t expected, struct event *event)
{
	uint32_t kind = 0;
	double late = 0;
	ssize_t got;

	memset(event, 0, sizeof(*event));
	while ((got = fi_eq_read(s->eq, &kind, event, sizeof(*event), 0)) == -FI_EAGAIN) {
		progress(s);
		late_at(at, &late, "a connection event");
	}
	if (got == -FI_EAVAIL) {
		struct fi_eq_err_entry err = { 0 };

		fi_eq_readerr(s->eq, &err, 0);
		fail_at(at, "error event %d (%s)", err.err, fi_strerror(err.err));
	}
	equal_at(at, "the event", kind, expected);
	if (got < (ssize_t) offsetof(struct event, data))
		fail_at(at, "fi_eq_read returned %zd", got);
	return (size_t) got - offsetof(struct event, data);
}

#define EVENT(s, expected, event)	event_at(HERE, s, expected, event)

/* The next event must be an error of this object. */
static void error_event(struct side *s, fid_t fid, int reason, const void *data, size_t len)
{
	struct fi_eq_err_entry err = { 0 };
	uint8_t room[ROOM] = "";
	uint32_t kind = 0;
	double late = 0;
	ssize_t got;

	while ((got = fi_eq_read(s->eq, &kind, room, sizeof(room), 0)) == -FI_EAGAIN) {
		progress(s);
		late_at(HERE, &late, "the error of a connection");
	}
	EQUAL(got, -FI_EAVAIL);
	err.err_data = room;
	err.err_data_size = sizeof(room);
	EQUAL(fi_eq_readerr(s->eq, &err, 0), sizeof(err));
	CHECK(err.fid == fid);
	EQUAL(err.err, reason);
	EQUAL(err.err_data_size, len);
	CHECK(!memcmp(err.err_data, data, len));
	EQUAL(fi_eq_read(s->eq, &kind, room, sizeof(room), 0), -FI_EAGAIN);
}

static void no_event(struct side *s)
{
	struct event event;
	uint32_t kind;

	for (int rounds = 0; rounds < 200; rounds++) {
		progress(s);
		EQUAL(fi_eq_read(s->eq, &kind, &event, sizeof(event), FI_PEEK), -FI_EAGAIN);
	}
}

static struct fid_ep *open_end(struct side *s, struct fi_info *info)
{
	struct fid_ep *ep;

	OK(fi_endpoint(s->domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &s->eq->fid, 0));
	OK(fi_ep_bind(ep, &s->tx->fid, FI_TRANSMIT));
	OK(fi_ep_bind(ep, &s->rx->fid, FI_RECV));
	return ep;
}

/* Side 0 listens; side 1 knows where. */
struct meeting {
	struct fid_pep	*pep;
	char		address[ROOM];
};

static void meet(struct side *s, struct meeting *m)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	char mine[ROOM] = "";
	size_t len = sizeof(mine);

	m->pep = NULL;
	side_info(s);
	side_objects(s);
	side_buffers(s);
	OK(fi_eq_open(s->fabric, &attr, &s->eq, NULL));
	if (s->role == 0) {
		OK(fi_passive_ep(s->fabric, s->info, &m->pep, NULL));
		OK(fi_pep_bind(m->pep, &s->eq->fid, 0));
		OK(fi_listen(m->pep));
		OK(fi_getname(&m->pep->fid, mine, &len));
	}
	swap(s, mine, m->address, sizeof(mine));
}

static void part(struct side *s, struct meeting *m)
{
	barrier(s);
	if (m->pep)
		OK(fi_close(&m->pep->fid));
	side_close(s);
}

/* Side 1 asks with some bytes of data, side 0 takes it with others. */
static struct fid_ep *connect_with(struct side *s, struct meeting *m, const void *data, size_t len)
{
	struct event event;
	struct fid_ep *ep;

	if (s->role == 1) {
		ep = open_end(s, s->info);
		OK(fi_connect(ep, m->address, data, len));
		EQUAL(EVENT(s, FI_CONNECTED, &event), len);
	} else {
		EQUAL(EVENT(s, FI_CONNREQ, &event), len);
		CHECK(event.fid == &m->pep->fid);
		CHECK(!memcmp(event.data, data, len));
		CHECK(event.info && event.info->handle);
		ep = open_end(s, event.info);
		fi_freeinfo(event.info);
		OK(fi_accept(ep, data, len));
		EVENT(s, FI_CONNECTED, &event);
	}
	CHECK(event.fid == &ep->fid);
	if (s->role == 1)
		CHECK(!memcmp(event.data, data, len));
	return ep;
}

/* Both ends are closed: their ends may be told. */
static void forget(struct side *s)
{
	struct event event;
	uint32_t kind;

	barrier(s);
	for (int rounds = 0; rounds < 50; rounds++) {
		progress(s);
		if (fi_eq_read(s->eq, &kind, &event, sizeof(event), 0) > 0)
			EQUAL(kind, FI_SHUTDOWN);
	}
	barrier(s);
}

static void data(struct side *s)
{
	size_t lengths[] = { 0, 1, 0 }, size = sizeof(lengths[2]);
	uint8_t bytes[ROOM];
	struct meeting m;
	struct fid_ep *ep;

	meet(s, &m);
	fill(bytes, sizeof(bytes), 5);
	ep = open_end(s, s->info);
	OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &lengths[2], &size));
	OK(fi_close(&ep->fid));
	CHECK(lengths[2] >= 16);
	if (lengths[2] > ROOM)
		lengths[2] = ROOM;
	for (size_t i = 0; i < 3; i++) {
		ep = connect_with(s, &m, bytes, lengths[i]);
		barrier(s);
		OK(fi_close(&ep->fid));
		forget(s);
	}
	part(s, &m);
}

static void refusal(struct side *s)
{
	static const char reason[] = "not today";
	struct event event;
	struct meeting m;
	struct fid_ep *ep;

	meet(s, &m);
	for (int i = 0; i < 2; i++) {
		const size_t len = i ? sizeof(reason) : 0;

		if (s->role == 1) {
			ep = open_end(s, s->info);
			OK(fi_connect(ep, m.address, NULL, 0));
			error_event(s, &ep->fid, FI_ECONNREFUSED, reason, len);
			CHECK(fi_send(ep, s->out, 8, s->out_desc, FI_ADDR_UNSPEC, &s->ctx[0]) < 0);
			OK(fi_close(&ep->fid));
		} else {
			EVENT(s, FI_CONNREQ, &event);
			OK(fi_reject(m.pep, event.info->handle, len ? reason : NULL, len));
			fi_freeinfo(event.info);
		}
	}
	/* The next one is taken. */
	ep = connect_with(s, &m, "x", 1);
	barrier(s);
	OK(fi_close(&ep->fid));
	part(s, &m);
}

/* Nobody listens any more. */
static void nobody(struct side *s)
{
	struct meeting m;
	struct fid_ep *ep;

	meet(s, &m);
	if (m.pep)
		OK(fi_close(&m.pep->fid));
	m.pep = NULL;
	barrier(s);
	if (s->role == 1) {
		ep = open_end(s, s->info);
		OK(fi_connect(ep, m.address, NULL, 0));
		error_event(s, &ep->fid, FI_ECONNREFUSED, NULL, 0);
		OK(fi_close(&ep->fid));
	}
	part(s, &m);
}

static void names(struct side *s)
{
	struct { char name[ROOM], peer[ROOM]; } mine = { "", "" }, theirs;
	size_t len = ROOM, peer_len = ROOM;
	struct meeting m;
	struct fid_ep *ep;

	meet(s, &m);
	ep = connect_with(s, &m, NULL, 0);
	OK(fi_getname(&ep->fid, mine.name, &len));
	OK(fi_getpeer(ep, mine.peer, &peer_len));
	EQUAL(peer_len, len);
	swap(s, &mine, &theirs, sizeof(mine));
	CHECK(!memcmp(mine.peer, theirs.name, len));
	CHECK(!memcmp(mine.name, theirs.peer, len));
	if (s->role == 1)
		CHECK(!memcmp(mine.peer, m.address, len));
	OK(fi_close(&ep->fid));
	part(s, &m);
}

/* Side 1 goes, by fi_shutdown or by closing; what came before is there, what waits ends. */
static void leave(struct side *s, int closes)
{
	struct event event;
	struct meeting m;
	struct fid_ep *ep;

	meet(s, &m);
	ep = connect_with(s, &m, NULL, 0);
	if (s->role == 0) {
		OK(fi_recv(ep, s->in, 5000, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		OK(fi_recv(ep, s->in + 8192, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]));
	}
	barrier(s);
	fill(s->out, 5000, 3);
	if (s->role == 1) {
		POST(s, fi_send(ep, s->out, 5000, s->out_desc, FI_ADDR_UNSPEC, &s->ctx[2]));
		FINISHED(s, s->tx, &s->ctx[2], FI_MSG | FI_SEND, 0);
		if (closes)
			OK(fi_close(&ep->fid));
		else
			OK(fi_shutdown(ep, 0));
	} else {
		struct fi_cq_err_entry err;
		struct done done;
		double late = 0;

		COMPLETION(s, s->rx, &done);
		CHECK(done.context == &s->ctx[0]);
		FILLED(s->in, 5000, 3);
		EVENT(s, FI_SHUTDOWN, &event);
		CHECK(event.fid == &ep->fid);
		while (fi_cq_read(s->rx, &done, 1) != -FI_EAVAIL) {
			progress(s);
			late_at(HERE, &late, "the end of a receive");
		}
		memset(&err, 0, sizeof(err));
		EQUAL(fi_cq_readerr(s->rx, &err, 0), 1);
		CHECK(err.op_context == &s->ctx[1] && err.err > 0);
		CHECK(fi_send(ep, s->out, 8, s->out_desc, FI_ADDR_UNSPEC, &s->ctx[3]) < 0);
		QUIET(s, s->rx);
		no_event(s);
	}
	barrier(s);
	if (!closes || s->role == 0)
		OK(fi_close(&ep->fid));
	part(s, &m);
}

static void shutdown_end(struct side *s)
{
	leave(s, 0);
}

static void close_end(struct side *s)
{
	leave(s, 1);
}

/* The post is refused, for the time being or for good, or the operation ends. */
static void ends_or_waits(struct side *s, ssize_t ret, struct fid_cq *cq, void *context)
{
	struct fi_cq_err_entry err;
	struct done done;

	if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
		return;
	OK(ret);
	EQUAL(OUTCOME(s, cq, &done, &err), 0);
	CHECK(err.op_context == context && err.err > 0);
}

/* Side 1 goes, and side 0 posts before it has read so. */
static void unread_end(struct side *s)
{
	struct event event;
	struct meeting m;
	struct fid_ep *ep;

	meet(s, &m);
	ep = connect_with(s, &m, NULL, 0);
	barrier(s);
	if (s->role == 0) {
		ends_or_waits(s, fi_recv(ep, s->in, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]),
			      s->rx, &s->ctx[0]);
		ends_or_waits(s, fi_recv(ep, s->in, 8, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[1]),
			      s->rx, &s->ctx[1]);
		ends_or_waits(s, fi_send(ep, s->out, 8, s->out_desc, FI_ADDR_UNSPEC, &s->ctx[2]),
			      s->tx, &s->ctx[2]);
		QUIET(s, s->tx);
		QUIET(s, s->rx);
		EVENT(s, FI_SHUTDOWN, &event);
		no_event(s);
	}
	OK(fi_close(&ep->fid));
	part(s, &m);
}

/* Several to one listener, told apart by their data. */
static void several(struct side *s)
{
	enum { COUNT = 8 };
	struct fid_ep *eps[COUNT];
	struct meeting m;
	size_t len;

	meet(s, &m);
	len = s->info->tx_attr->inject_size < 100 ? s->info->tx_attr->inject_size : 100;
	for (uint8_t i = 0; i < COUNT; i++) {
		eps[i] = connect_with(s, &m, &i, 1);
		/* A request may overtake the last word of the connection before. */
		barrier(s);
	}
	for (size_t i = 0; i < COUNT; i++) {
		OK(fi_recv(eps[i], s->in + i * 128, 128, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
		fill(s->out + i * 128, len, i + 10 * (size_t) s->role);
	}
	barrier(s);
	for (size_t i = COUNT; i-- > 0; )
		POST(s, fi_inject(eps[i], s->out + i * 128, len, FI_ADDR_UNSPEC));
	for (size_t i = 0; i < COUNT; i++) {
		struct done done;

		COMPLETION(s, s->rx, &done);
	}
	for (size_t i = 0; i < COUNT; i++)
		FILLED(s->in + i * 128, len, i + 10 * (size_t) !s->role);
	barrier(s);
	for (size_t i = 0; i < COUNT; i++)
		OK(fi_close(&eps[i]->fid));
	part(s, &m);
}

/* Data calls and answers in the wrong state, and bad arguments. */
static void wrong_order(struct side *s)
{
	static const uint8_t long_data[4096];
	struct meeting m;
	struct fid_ep *ep;

	meet(s, &m);
	if (s->role == 0) {
		CHECK(fi_listen(m.pep) < 0);
	} else {
		ep = open_end(s, s->info);
		CHECK(fi_accept(ep, NULL, 0) < 0);
		CHECK(fi_send(ep, s->out, 8, s->out_desc, FI_ADDR_UNSPEC, &s->ctx[0]) < 0);
		CHECK(fi_connect(ep, NULL, NULL, 0) < 0);
		CHECK(fi_connect(ep, m.address, long_data, sizeof(long_data)) < 0);
		OK(fi_close(&ep->fid));
	}
	barrier(s);
	ep = connect_with(s, &m, "y", 1);
	CHECK(fi_connect(ep, m.address, NULL, 0) < 0);
	CHECK(fi_accept(ep, NULL, 0) < 0);
	barrier(s);
	OK(fi_close(&ep->fid));
	part(s, &m);
}

/* Who sleeps in fi_eq_sread is woken by a request, and by its acceptance. */
static void sleeping(struct side *s)
{
	const struct timespec moment = { .tv_nsec = 30000000 };
	struct event event;
	struct meeting m;
	struct fid_ep *ep;
	uint32_t kind = 0;

	meet(s, &m);
	if (s->role == 1) {
		nanosleep(&moment, NULL);
		ep = open_end(s, s->info);
		OK(fi_connect(ep, m.address, NULL, 0));
		CHECK(fi_eq_sread(s->eq, &kind, &event, sizeof(event), 20000, 0) > 0);
		EQUAL(kind, FI_CONNECTED);
	} else {
		CHECK(fi_eq_sread(s->eq, &kind, &event, sizeof(event), 20000, 0) > 0);
		EQUAL(kind, FI_CONNREQ);
		ep = open_end(s, event.info);
		fi_freeinfo(event.info);
		nanosleep(&moment, NULL);
		OK(fi_accept(ep, NULL, 0));
		CHECK(fi_eq_sread(s->eq, &kind, &event, sizeof(event), 20000, 0) > 0);
		EQUAL(kind, FI_CONNECTED);
	}
	barrier(s);
	OK(fi_close(&ep->fid));
	part(s, &m);
}

static const struct conformance_case connections_cases[] = {
	{ "data", "fi_cm(3)", "Data goes with a request and with its acceptance.",
	  FI_MSG, EP_MSG, 0, 1, NULL, data },
	{ "refusal", "fi_cm(3)", "A refusal is an error event (FI_ECONNREFUSED) with the data that came with it.",
	  FI_MSG, EP_MSG, 0, 1, NULL, refusal },
	{ "nobody", "fi_cm(3)", "Where nobody listens, a connection is refused.",
	  FI_MSG, EP_MSG, 0, 1, NULL, nobody },
	{ "names", "fi_cm(3)", "Each end knows its own address and the other's.",
	  FI_MSG, EP_MSG, 0, 1, NULL, names },
	{ "shutdown", "fi_cm(3)", "After fi_shutdown the peer has what was sent, hears of the end once, and its receives end.",
	  FI_MSG, EP_MSG, VARY_PROGRESS, 1, NULL, shutdown_end },
	{ "close", "fi_cm(3)", "The same when an endpoint is closed.",
	  FI_MSG, EP_MSG, VARY_PROGRESS, 1, NULL, close_end },
	{ "unread-end", "fi_cm(3)", "What is posted before the end of the connection is read is not lost: it ends.",
	  FI_MSG, EP_MSG, VARY_PROGRESS, 1, NULL, unread_end },
	{ "several", "fi_cm(3)", "One passive endpoint takes several connections, each for itself.",
	  FI_MSG, EP_MSG, VARY_THREADING | VARY_PROGRESS, 1, NULL, several },
	{ "wrong-order", "fi_cm(3)", "Calls that the state of an endpoint does not allow are refused, and do no harm.",
	  FI_MSG, EP_MSG, 0, 1, NULL, wrong_order },
	{ "sleeping", "fi_eq(3)", "A blocking read of an event queue ends with a request, and with an answer.",
	  FI_MSG, EP_MSG, VARY_PROGRESS, 1, NULL, sleeping },
};
GROUP(connections);
