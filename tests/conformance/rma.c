/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reads and writes of the other side's memory: side 0 acts, side 1's memory is the target. */
#include "groups.h"
#include "remote.h"

#define DATA	0xfeedfacecafebeefull
#define EVENT	(FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)

static const size_t sizes[] = {
	0, 1, 7, 8, 64, 511, 512, 513, 4095, 4096, 4097, 16384, 16385, 65536, 100001,
	(size_t) 1 << 20, ARENA,
};

#define SIZES	(sizeof(sizes) / sizeof(sizes[0]))

enum call { PLAIN, VECTOR, MESSAGE, INJECT, WITH_DATA, INJECT_DATA, CALLS };

/* A write by one of the calls, and whether it writes an entry of its own. */
static void write_by(struct side *s, enum call call, const void *buf, size_t len,
		     const struct remote *r, size_t offset)
{
	const uint64_t addr = r->far.addr + offset, key = r->far.key;
	struct iovec iov = { (void *) (uintptr_t) buf, len };

	switch (call) {
	case PLAIN:
		POST(s, fi_write(s->ep, buf, len, s->out_desc, s->peer, addr, key, &s->ctx[call]));
		break;
	case VECTOR:
		POST(s, fi_writev(s->ep, &iov, &s->out_desc, 1, s->peer, addr, key, &s->ctx[call]));
		break;
	case MESSAGE:
		POST(s, write_with(s, buf, len, addr, key, FI_COMPLETION, 0, &s->ctx[call]));
		break;
	case INJECT:
		POST(s, fi_inject_write(s->ep, buf, len, s->peer, addr, key));
		return;
	case WITH_DATA:
		POST(s, fi_writedata(s->ep, buf, len, s->out_desc, DATA, s->peer, addr, key,
				     &s->ctx[call]));
		break;
	default:
		POST(s, fi_inject_writedata(s->ep, buf, len, DATA, s->peer, addr, key));
		return;
	}
	FINISHED(s, s->tx, &s->ctx[call], FI_RMA | FI_WRITE, len);
}

/* Without data there are two calls less. */
static int calls_of(const struct side *s)
{
	return s->info->domain_attr->cq_data_size ? CALLS : WITH_DATA;
}

/* What a write with data tells at its target: no context, for nobody asked, but that of the receive. */
static void check_event(struct side *s, size_t len, uint64_t data)
{
	void *context = takes_receives(s) ? &s->ctx[CONTEXTS - 1] : NULL;
	struct done done;

	if (context)
		OK(fi_recv(s->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, context));
	finished_at(HERE, s, s->rx, context, EVENT, len, &done);
	TOLD(s, flags, FI_CQ_FORMAT_MSG, &done, EVENT);
	TOLD(s, len, FI_CQ_FORMAT_MSG, &done, len);
	TOLD(s, data, FI_CQ_FORMAT_DATA, &done, carried_data(s, data));
}

/* The bytes reach the end of the region and nothing else. */
static void write_sizes(struct side *s)
{
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; i < SIZES && sizes[i] <= s->largest; i++) {
		const size_t len = sizes[i], at = ARENA - len;

		if (s->role == 0) {
			fill(s->out, len, i);
			barrier(s);
			write_by(s, PLAIN, s->out, len, &r, at);
		} else {
			memset(s->in, 0xee, ARENA);
			barrier(s);
			AWAIT_FILLED(s, s->in + at, len, i);
			CHECK(!at || s->in[at - 1] == 0xee);
		}
		barrier(s);
	}
	QUIET(s, s->rx);
	remote_close(s, &r);
}

static void read_sizes(struct side *s)
{
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; i < SIZES && sizes[i] <= s->largest; i++) {
		const size_t len = sizes[i], at = ARENA - len;

		if (s->role == 1) {
			fill(s->in + at, len, i);
			barrier(s);
		} else {
			memset(s->in, 0xee, ARENA);
			barrier(s);
			POST(s, fi_read(s->ep, s->in, len, s->in_desc, s->peer, r.far.addr + at,
					r.far.key, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_READ, len);
			FILLED(s->in, len, i);
			CHECK(len == ARENA || s->in[len] == 0xee);
		}
		barrier(s);
	}
	QUIET(s, s->rx);
	remote_close(s, &r);
}

/* Every call that writes, one after the other, at places of their own. */
static void calls(struct side *s)
{
	const size_t len = s->info->tx_attr->inject_size < 8 ? 0 : 8, room = 64;
	struct remote r;

	remote_open(s, &r);
	if (s->role == 1)
		memset(s->in, 0, ARENA);
	barrier(s);
	for (int call = 0; s->role == 0 && call < calls_of(s); call++) {
		fill(s->out, len, (size_t) call);
		write_by(s, (enum call) call, s->out, len, &r, (size_t) call * room);
	}
	if (s->role == 1) {
		for (int call = WITH_DATA; call < calls_of(s); call++)
			check_event(s, len, DATA);
		for (int call = 0; call < calls_of(s); call++)
			AWAIT_FILLED(s, s->in + (size_t) call * room, len, (size_t) call);
	}
	QUIET(s, s->tx);
	QUIET(s, s->rx);
	remote_close(s, &r);
}

/* Nothing is moved, and yet all of it completes; buffers need not exist. */
static void nothing(struct side *s)
{
	struct remote r;
	struct fi_msg_rma msg = { .addr = s->peer, .context = &s->ctx[8], .data = DATA };
	struct fi_rma_iov piece;
	const uint64_t with = s->info->domain_attr->cq_data_size ? FI_REMOTE_CQ_DATA : 0;

	remote_open(s, &r);
	piece = (struct fi_rma_iov) { r.far.addr, 0, r.far.key };
	msg.rma_iov = &piece;
	msg.rma_iov_count = 1;
	if (s->role == 0) {
		for (int call = 0; call < calls_of(s); call++)
			if (call != VECTOR && call != MESSAGE)
				write_by(s, (enum call) call, NULL, 0, &r, 0);
		POST(s, fi_writemsg(s->ep, &msg, with | FI_COMPLETION));
		FINISHED(s, s->tx, &s->ctx[8], FI_RMA | FI_WRITE, 0);
		POST(s, fi_readmsg(s->ep, &msg, FI_COMPLETION));
		FINISHED(s, s->tx, &s->ctx[8], FI_RMA | FI_READ, 0);
		POST(s, fi_read(s->ep, NULL, 0, NULL, s->peer, r.far.addr, r.far.key, &s->ctx[9]));
		FINISHED(s, s->tx, &s->ctx[9], FI_RMA | FI_READ, 0);
	} else {
		for (int i = 0; with && i < 3; i++)
			check_event(s, 0, DATA);
	}
	QUIET(s, s->tx);
	remote_close(s, &r);
}

static void inject(struct side *s)
{
	const size_t limit = s->info->tx_attr->inject_size;
	const size_t lengths[] = { 0, limit ? 1 : 0, limit / 2, limit };
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; i < 4; i++) {
		if (s->role == 0) {
			fill(s->out, lengths[i], i);
			POST(s, fi_inject_write(s->ep, s->out, lengths[i], s->peer, r.far.addr,
						r.far.key));
			memset(s->out, 0, lengths[i]);
		} else {
			AWAIT_FILLED(s, s->in, lengths[i], i);
		}
		barrier(s);
	}
	if (s->role == 0) {
		EQUAL(fi_inject_write(s->ep, s->out, limit + 1, s->peer, r.far.addr, r.far.key),
		      -FI_EINVAL);
		EQUAL(fi_inject_writedata(s->ep, s->out, limit + 1, DATA, s->peer, r.far.addr,
					  r.far.key), -FI_EINVAL);
	}
	QUIET(s, s->tx);
	QUIET(s, s->rx);
	remote_close(s, &r);
}

static void inject_flag(struct side *s)
{
	const size_t limit = s->info->tx_attr->inject_size;
	struct remote r;

	remote_open(s, &r);
	if (s->role == 0) {
		fill(s->out, limit, 3);
		POST(s, write_with(s, s->out, limit, r.far.addr, r.far.key,
				   FI_INJECT | FI_COMPLETION, 0, &s->ctx[0]));
		memset(s->out, 0, limit);
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, limit);
		EQUAL(write_with(s, s->out, limit + 1, r.far.addr, r.far.key,
				 FI_INJECT | FI_COMPLETION, 0, &s->ctx[0]), -FI_EINVAL);
		QUIET(s, s->tx);
	} else {
		AWAIT_FILLED(s, s->in, limit, 3);
	}
	remote_close(s, &r);
}

/* The entry comes after the bytes. */
static void remote_data(struct side *s)
{
	const size_t limit = s->info->tx_attr->inject_size;
	struct remote r;

	if (calls_of(s) != CALLS)
		not_offered();
	remote_open(s, &r);
	for (size_t i = 0; i < SIZES && sizes[i] <= s->largest; i++) {
		if (s->role == 0) {
			fill(s->out, sizes[i], i);
			POST(s, fi_writedata(s->ep, s->out, sizes[i], s->out_desc, DATA + i, s->peer,
					     r.far.addr, r.far.key, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, sizes[i]);
			POST(s, write_with(s, s->out, sizes[i], r.far.addr, r.far.key,
					   FI_REMOTE_CQ_DATA | FI_COMPLETION, ~DATA, &s->ctx[1]));
			FINISHED(s, s->tx, &s->ctx[1], FI_RMA | FI_WRITE, sizes[i]);
		} else {
			check_event(s, sizes[i], DATA + i);
			FILLED(s->in, sizes[i], i);
			check_event(s, sizes[i], ~DATA);
		}
		barrier(s);
	}
	if (s->role == 0) {
		fill(s->out, limit, 77);
		POST(s, fi_inject_writedata(s->ep, s->out, limit, DATA, s->peer, r.far.addr,
					    r.far.key));
		memset(s->out, 0, limit);
		QUIET(s, s->tx);
	} else {
		check_event(s, limit, DATA);
		FILLED(s->in, limit, 77);
	}
	remote_close(s, &r);
}

/* Data of writes takes no posted receive unless the mode says so. */
static void data_beside_receives(struct side *s)
{
	struct remote r;

	if (calls_of(s) != CALLS || takes_receives(s))
		not_offered();
	remote_open(s, &r);
	if (s->role == 1)
		OK(fi_recv(s->ep, s->in + 4096, 64, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[0]));
	barrier(s);
	if (s->role == 0) {
		fill(s->out, 64, 1);
		POST(s, fi_writedata(s->ep, s->out, 64, s->out_desc, DATA, s->peer, r.far.addr,
				     r.far.key, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, 64);
		barrier(s);
		POST(s, fi_send(s->ep, s->out, 64, s->out_desc, s->peer, &s->ctx[1]));
		FINISHED(s, s->tx, &s->ctx[1], FI_MSG | FI_SEND, 64);
	} else {
		check_event(s, 64, DATA);
		barrier(s);
		FINISHED(s, s->rx, &s->ctx[0], FI_MSG | FI_RECV, 64);
		FILLED(s->in + 4096, 64, 1);
	}
	remote_close(s, &r);
}

static void write_level(struct side *s, uint64_t level)
{
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; i < SIZES && sizes[i] <= s->largest; i++) {
		if (s->role == 0) {
			fill(s->out, sizes[i], i);
			POST(s, write_with(s, s->out, sizes[i], r.far.addr, r.far.key,
					   level | FI_COMPLETION, 0, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, sizes[i]);
			/* The buffer is ours again at any level. */
			memset(s->out, 0, sizes[i]);
		}
		barrier(s);
		if (s->role == 1 && level == FI_DELIVERY_COMPLETE)
			FILLED(s->in, sizes[i], i);
		if (s->role == 1)
			AWAIT_FILLED(s, s->in, sizes[i], i);
		barrier(s);
	}
	remote_close(s, &r);
}

static void inject_complete(struct side *s)
{
	write_level(s, FI_INJECT_COMPLETE);
}

static void transmit_complete(struct side *s)
{
	write_level(s, FI_TRANSMIT_COMPLETE);
}

static void delivery_complete(struct side *s)
{
	write_level(s, FI_DELIVERY_COMPLETE);
}

/* The read is posted before the write has completed. */
static void fence(struct side *s)
{
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; s->role == 0 && i < SIZES && sizes[i] <= s->largest; i++) {
		fill(s->out, sizes[i], i + 50);
		memset(s->in, 0, sizes[i]);
		POST(s, fi_write(s->ep, s->out, sizes[i], s->out_desc, s->peer, r.far.addr,
				 r.far.key, &s->ctx[0]));
		POST(s, read_with(s, s->in, sizes[i], r.far.addr, r.far.key,
				  FI_FENCE | FI_COMPLETION, &s->ctx[1]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, sizes[i]);
		FINISHED(s, s->tx, &s->ctx[1], FI_RMA | FI_READ, sizes[i]);
		FILLED(s->in, sizes[i], i + 50);
	}
	remote_close(s, &r);
}

/* Both sides write halves of each other's memory and read the other halves, at once. */
static void both_ways(struct side *s)
{
	const size_t half = ARENA / 2, len = s->largest < half / 2 ? s->largest : half / 2;
	const size_t theirs = s->role ? 7 : 6, mine = s->role ? 6 : 7;
	struct remote r;

	remote_open(s, &r);
	for (size_t round = 0; round < 8; round++) {
		fill(s->in + half, len, mine + round);
		fill(s->out, len, mine + round + 20);
		barrier(s);
		POST(s, fi_write(s->ep, s->out, len, s->out_desc, s->peer, r.far.addr, r.far.key,
				 &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, len);
		POST(s, fi_read(s->ep, s->out + half, len, s->out_desc, s->peer,
				r.far.addr + half, r.far.key, &s->ctx[1]));
		FINISHED(s, s->tx, &s->ctx[1], FI_RMA | FI_READ, len);
		FILLED(s->out + half, len, theirs + round);
		AWAIT_FILLED(s, s->in, len, theirs + round + 20);
		barrier(s);
	}
	remote_close(s, &r);
}

static void loopback(struct side *s)
{
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; i < SIZES && sizes[i] <= s->largest / 2; i++) {
		fill(s->out, sizes[i], i);
		POST(s, fi_write(s->ep, s->out, sizes[i], s->out_desc, s->self, r.near.addr,
				 r.near.key, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, sizes[i]);
		AWAIT_FILLED(s, s->in, sizes[i], i);
		POST(s, fi_read(s->ep, s->out + ARENA / 2, sizes[i], s->out_desc, s->self,
				r.near.addr, r.near.key, &s->ctx[1]));
		FINISHED(s, s->tx, &s->ctx[1], FI_RMA | FI_READ, sizes[i]);
		FILLED(s->out + ARENA / 2, sizes[i], i);
	}
	POST(s, fi_writedata(s->ep, s->out, 8, s->out_desc, DATA, s->self, r.near.addr, r.near.key,
			     &s->ctx[2]));
	FINISHED(s, s->tx, &s->ctx[2], FI_RMA | FI_WRITE, 8);
	check_event(s, 8, DATA);
	remote_close(s, &r);
}

static void want_delivery(struct wish *wish)
{
	wish->tx_flags = FI_DELIVERY_COMPLETE;
}

static const struct conformance_case rma_cases[] = {
	{ "write", "fi_rma(3)", "A write changes the addressed bytes and no others, and its target hears nothing of it.",
	  FI_RMA, EP_RELIABLE, VARY_AV | VARY_FORMAT | VARY_MR | VARY_THREADING | VARY_PROGRESS |
	  VARY_WAIT | VARY_API, 0, NULL, write_sizes },
	{ "read", "fi_rma(3)", "A read is complete when all bytes are in its buffer.",
	  FI_RMA, EP_RELIABLE, VARY_AV | VARY_FORMAT | VARY_MR | VARY_THREADING | VARY_PROGRESS |
	  VARY_WAIT | VARY_API, 0, NULL, read_sizes },
	{ "calls", "fi_rma(3)", "All calls write the same way; those with data write one entry at the target each.",
	  FI_RMA, EP_RELIABLE, VARY_FORMAT | VARY_MR, 0, NULL, calls },
	{ "nothing", "fi_rma(3)", "Operations of no bytes complete as others do, without a buffer.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, nothing },
	{ "inject", "fi_rma(3)", "The buffer of an injected write can be reused at once, nothing is written to the queue, and inject_size is the limit.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, inject },
	{ "inject-flag", "fi_rma(3)", "FI_INJECT gives the buffer of a write back at once and still completes.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, inject_flag },
	{ "remote-data", "fi_cq(3)", "Data of a write is in an entry of the target's, which tells the length and comes after the bytes.",
	  FI_RMA, EP_RELIABLE, VARY_FORMAT | VARY_MR | VARY_PROGRESS | VARY_API, 0, NULL,
	  remote_data },
	{ "data-beside-receives", "fi_getinfo(3)", "Without FI_RX_CQ_DATA, data of a write takes no posted receive.",
	  FI_RMA | FI_MSG, EP_RELIABLE, VARY_MR, 0, NULL, data_beside_receives },
	{ "inject-complete", "fi_cq(3)", "FI_INJECT_COMPLETE of a write: complete once the buffer can be reused.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, inject_complete },
	{ "transmit-complete", "fi_cq(3)", "FI_TRANSMIT_COMPLETE of a write: complete once the peer's endpoint has taken it over.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, transmit_complete },
	{ "delivery-complete", "fi_cq(3)", "FI_DELIVERY_COMPLETE of a write: complete once the target can see it.",
	  FI_RMA, EP_RELIABLE, VARY_MR | VARY_PROGRESS, 0, NULL, delivery_complete },
	{ "delivery-complete-default", "fi_endpoint(3)", "Default flags of the endpoint hold for writes by calls without flags.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, want_delivery, write_sizes },
	{ "fence", "fi_rma(3)", "A fenced operation sees what all earlier ones to its peer have done.",
	  FI_RMA | FI_FENCE, EP_RELIABLE, VARY_MR | VARY_PROGRESS, 0, NULL, fence },
	{ "both-ways", "fi_rma(3)", "Both sides may act on each other's memory at once.",
	  FI_RMA, EP_RELIABLE, VARY_MR | VARY_THREADING | VARY_PROGRESS, 0, NULL, both_ways },
	{ "loopback", "fi_rma(3)", "An endpoint may be the target of its own operations.",
	  FI_RMA, EP_RDM, VARY_AV | VARY_MR, 0, NULL, loopback },
};
GROUP(rma);
