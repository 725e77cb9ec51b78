/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Calls that are refused, and how errors are read. */
#include "groups.h"
#include "traffic.h"

#include <stddef.h>
#include <unistd.h>

static void not_enabled(struct side *s)
{
	struct fi_msg msg = { .context = &s->ctx[0] };
	struct fi_msg_tagged tagged = { .context = &s->ctx[0] };
	char byte = 0;

	side_info(s);
	side_objects(s);
	EQUAL(fi_send(s->ep, &byte, 1, NULL, 0, &s->ctx[0]), -FI_EOPBADSTATE);
	EQUAL(fi_sendmsg(s->ep, &msg, 0), -FI_EOPBADSTATE);
	EQUAL(fi_inject(s->ep, &byte, 1, 0), -FI_EOPBADSTATE);
	EQUAL(fi_recv(s->ep, &byte, 1, NULL, FI_ADDR_UNSPEC, &s->ctx[0]), -FI_EOPBADSTATE);
	EQUAL(fi_recvmsg(s->ep, &msg, 0), -FI_EOPBADSTATE);
	EQUAL(fi_tsend(s->ep, &byte, 1, NULL, 0, 1, &s->ctx[0]), -FI_EOPBADSTATE);
	EQUAL(fi_tinject(s->ep, &byte, 1, 0, 1), -FI_EOPBADSTATE);
	EQUAL(fi_trecv(s->ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &s->ctx[0]), -FI_EOPBADSTATE);
	EQUAL(fi_trecvmsg(s->ep, &tagged, 0), -FI_EOPBADSTATE);
	OK(fi_enable(s->ep));
	OK(fi_recv(s->ep, &byte, 1, NULL, FI_ADDR_UNSPEC, &s->ctx[0]));
	side_close(s);
}

static void no_vector(struct side *s)
{
	const fi_addr_t to = s->peer, any = FI_ADDR_UNSPEC;
	struct fi_msg msg = { .iov_count = 1, .addr = to, .context = &s->ctx[0] };
	struct fi_msg_tagged tagged = { .iov_count = 1, .addr = to, .context = &s->ctx[0] };

	EQUAL(fi_sendv(s->ep, NULL, NULL, 1, to, &s->ctx[0]), -FI_EINVAL);
	EQUAL(fi_recvv(s->ep, NULL, NULL, 1, any, &s->ctx[0]), -FI_EINVAL);
	EQUAL(fi_tsendv(s->ep, NULL, NULL, 1, to, 1, &s->ctx[0]), -FI_EINVAL);
	EQUAL(fi_trecvv(s->ep, NULL, NULL, 1, any, 1, 0, &s->ctx[0]), -FI_EINVAL);
	EQUAL(fi_sendmsg(s->ep, &msg, 0), -FI_EINVAL);
	EQUAL(fi_recvmsg(s->ep, &msg, 0), -FI_EINVAL);
	EQUAL(fi_tsendmsg(s->ep, &tagged, 0), -FI_EINVAL);
	EQUAL(fi_trecvmsg(s->ep, &tagged, 0), -FI_EINVAL);
	QUIET(s, s->tx);
	QUIET(s, s->rx);
}

/* A vector of no pieces needs no array, and is an empty message. */
static void empty_vector(struct side *s)
{
	if (s->role == 0) {
		barrier(s);
		POST(s, fi_sendv(s->ep, NULL, NULL, 0, s->peer, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_MSG, 0);
		POST(s, fi_tsendv(s->ep, NULL, NULL, 0, s->peer, 1, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_SEND | FI_TAGGED, 0);
	} else {
		OK(fi_recvv(s->ep, NULL, NULL, 0, FI_ADDR_UNSPEC, &s->ctx[0]));
		OK(fi_trecvv(s->ep, NULL, NULL, 0, FI_ADDR_UNSPEC, 1, 0, &s->ctx[1]));
		barrier(s);
		FINISHED(s, s->rx, &s->ctx[0], FI_RECV | FI_MSG, 0);
		FINISHED(s, s->rx, &s->ctx[1], FI_RECV | FI_TAGGED, 0);
	}
}

/* Refused by the call or by an error entry, but not with success. */
static void check_unsent(struct side *s, ssize_t ret)
{
	struct fi_cq_err_entry err;
	struct done done;

	CHECK(ret != -FI_EAGAIN);
	if (!ret) {
		EQUAL(OUTCOME(s, s->tx, &done, &err), 0);
		CHECK(err.op_context == &s->ctx[0]);
	}
	QUIET(s, s->tx);
}

static void unknown_address(struct side *s)
{
	static const fi_addr_t unknown[] = { FI_ADDR_UNSPEC, 77, 123456789, (fi_addr_t) 1 << 40 };

	for (size_t i = 0; s->role == 0 && i < 4; i++) {
		check_unsent(s, fi_send(s->ep, s->out, 1, s->out_desc, unknown[i], &s->ctx[0]));
		check_unsent(s, fi_tsend(s->ep, s->out, 1, s->out_desc, unknown[i], 1, &s->ctx[0]));
	}
	/* Nothing is broken. */
	if (s->role == 0) {
		POST(s, fi_inject(s->ep, s->out, 1, s->peer));
	} else {
		OK(fi_recv(s->ep, s->in, 1, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		FINISHED(s, s->rx, &s->ctx[0], FI_RECV | FI_MSG, 1);
	}
}

/* Posts until there is no more room, while the other side looks away. */
static void queue_full(struct side *s)
{
	enum { LENGTH = 1024, MOST = ARENA / LENGTH };
	uint64_t count = 0, theirs = 0;

	messages_wait(s);
	if (s->role == 0) {
		for (uint64_t i = 0; i < MOST; i++) {
			unsigned char *at = s->out + i * LENGTH;
			ssize_t ret;

			memcpy(at, &i, sizeof(i));
			ret = fi_send(s->ep, at, LENGTH, s->out_desc, s->peer, at);
			if (ret == -FI_EAGAIN)
				break;
			OK(ret);
			count++;
		}
		/* That is how the endpoint's size is meant. */
		CHECK(count >= s->info->tx_attr->size || count == MOST);
		swap(s, &count, &theirs, sizeof(count));
		for (uint64_t i = 0; i < count; i++)
			FINISHED(s, s->tx, s->out + i * LENGTH, FI_SEND | FI_MSG, LENGTH);
		QUIET(s, s->tx);
		return;
	}
	usleep(50000);
	swap(s, &count, &theirs, sizeof(count));
	for (uint64_t i = 0; i < theirs; i++) {
		OK(fi_recv(s->ep, s->in, LENGTH, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
		FINISHED(s, s->rx, &s->ctx[0], FI_RECV | FI_MSG, LENGTH);
		if (memcmp(s->in, &i, sizeof(i)))
			FAIL("message %" PRIu64 " is another one", i);
	}
}

/* Leaves an error in the receive queue. */
static void make_error(struct side *s, void *context)
{
	ssize_t ret;

	OK(fi_recv(s->ep, s->in, 8, s->in_desc, FI_ADDR_UNSPEC, context));
	ret = fi_cancel(&s->ep->fid, context);
	/* A device that has a receive may not give it back. */
	if (ret == -FI_ENOSYS && s->type == FI_EP_MSG)
		not_offered();
	OK(ret);
}

static void in_order(struct side *s)
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entries[8];
	double late = 0;
	ssize_t got;

	EQUAL(fi_cq_readerr(s->rx, &err, 0), -FI_EAGAIN);
	make_error(s, &s->ctx[0]);
	while ((got = fi_cq_read(s->rx, entries, 8)) == -FI_EAGAIN)
		late_at(HERE, &late, "an error");
	for (int i = 0; i < 3; i++) {
		EQUAL(got, -FI_EAVAIL);
		got = fi_cq_read(s->rx, entries, 8);
	}
	make_error(s, &s->ctx[1]);
	for (int i = 0; i < 2; i++) {
		ERROR(s, s->rx, FI_ECANCELED, &s->ctx[i], &err);
		EQUAL(err.flags & FI_RECV, FI_RECV);
		EQUAL(err.olen, 0);
	}
	EQUAL(fi_cq_readerr(s->rx, &err, 0), -FI_EAGAIN);
	EQUAL(fi_cq_read(s->rx, entries, 8), -FI_EAGAIN);
}

/* What the entry of the asked version has is written, and no byte behind it. */
static void entry_size(struct side *s)
{
	union {
		struct fi_cq_err_entry	entry;
		unsigned char		bytes[sizeof(struct fi_cq_err_entry) + 64];
	} room;
	char data[16];
	size_t size = sizeof(room.entry);
	double late = 0;

#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 20
	if (s->wish.api && s->wish.api < FI_VERSION(1, 20))
		size = offsetof(struct fi_cq_err_entry, src_addr);
#endif
	make_error(s, &s->ctx[0]);
	while (fi_cq_read(s->rx, NULL, 0) == -FI_EAGAIN)
		late_at(HERE, &late, "an error");
	memset(&room, 0xde, sizeof(room));
	memset(data, 0x77, sizeof(data));
	room.entry.err_data = data;
	room.entry.err_data_size = 8;
	/* Through the table: the headers' function sets members of the newest entry itself. */
	EQUAL(s->rx->ops->readerr(s->rx, &room.entry, 0), 1);
	EQUAL(room.entry.err, FI_ECANCELED);
	CHECK(room.entry.op_context == &s->ctx[0]);
	/* The program's room for data is not exceeded. */
	CHECK(room.entry.err_data_size <= 8);
	for (size_t i = 8; i < sizeof(data); i++)
		EQUAL(data[i], 0x77);
	for (size_t i = size; i < sizeof(room); i++)
		if (room.bytes[i] != 0xde)
			FAIL("byte %zu behind an entry of %zu was written", i, size);

	/* Without room the data, if any, are the library's. */
	make_error(s, &s->ctx[1]);
	while (fi_cq_read(s->rx, NULL, 0) == -FI_EAGAIN)
		late_at(HERE, &late, "an error");
	memset(&room.entry, 0, sizeof(room.entry));
	EQUAL(fi_cq_readerr(s->rx, &room.entry, 0), 1);
	CHECK(!room.entry.err_data_size || room.entry.err_data);
}

static void texts(struct side *s)
{
	struct fi_cq_err_entry err;
	char buf[64], cut[4];
	const char *text;

	make_error(s, &s->ctx[0]);
	ERROR(s, s->rx, FI_ECANCELED, &s->ctx[0], &err);
	text = fi_cq_strerror(s->rx, err.prov_errno, err.err_data, NULL, 0);
	CHECK(text && *text);
	memset(buf, 'x', sizeof(buf));
	text = fi_cq_strerror(s->rx, err.prov_errno, err.err_data, buf, sizeof(buf));
	CHECK(text && *text);
	CHECK(memchr(buf, 0, sizeof(buf)));
	memset(cut, 'x', sizeof(cut));
	CHECK(fi_cq_strerror(s->rx, err.prov_errno, err.err_data, cut, sizeof(cut) - 1));
	EQUAL(cut[3], 'x');
	CHECK(memchr(cut, 0, 3));
	CHECK(*fi_strerror(FI_ETRUNC) && strcmp(fi_strerror(FI_ETRUNC), fi_strerror(FI_EAVAIL)));
}

#define BOTH	(FI_MSG | FI_TAGGED)

static const struct conformance_case errors_cases[] = {
	{ "not-enabled", "fi_endpoint(3)", "Posting to an endpoint that is not enabled is -FI_EOPBADSTATE, and does not harm it.",
	  BOTH, EP_RDM, 0, 1, NULL, not_enabled },
	{ "no-vector", "fi_msg(3)", "A vector of pieces that is not there is -FI_EINVAL.",
	  BOTH, EP_RELIABLE, 0, 0, NULL, no_vector },
	{ "empty-vector", "fi_msg(3)", "A vector without pieces may be NULL, and is an empty message.",
	  BOTH, EP_RELIABLE, 0, 0, NULL, empty_vector },
	{ "unknown-address", "fi_msg(3)", "A send to an address that was not inserted fails, at the call or by an error entry.",
	  BOTH, EP_RDM, VARY_AV, 0, NULL, unknown_address },
	{ "queue-full", "fi_domain(3)", "A send beyond all room is -FI_EAGAIN and has not been posted; those before it all complete.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS, 0, NULL, queue_full },
	{ "in-order", "fi_cq(3)", "Reads say -FI_EAVAIL until the error has been taken by fi_cq_readerr, which says -FI_EAGAIN without one.",
	  FI_MSG, EP_RELIABLE, VARY_FORMAT, 0, NULL, in_order },
	{ "entry-size", "fi_cq(3)", "fi_cq_readerr writes the entry that the asked version knows, and error data up to err_data_size.",
	  FI_MSG, EP_RELIABLE, VARY_API, 0, NULL, entry_size },
	{ "texts", "fi_cq(3)", "fi_cq_strerror has a text for prov_errno, and copies of it as much as there is room for.",
	  FI_MSG, EP_RELIABLE, 0, 0, NULL, texts },
};
GROUP(errors);
