/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One-sided operations of many pieces, and many operations at once. */
#include "groups.h"
#include "remote.h"
#include "settings.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECES	16

static void check_limits(const struct side *s)
{
	CHECK(s->info->tx_attr->iov_limit >= 1 && s->info->tx_attr->iov_limit < PIECES);
	CHECK(s->info->tx_attr->rma_iov_limit >= 1 && s->info->tx_attr->rma_iov_limit < PIECES);
}

/* Cuts memory into pieces of different lengths with a gap between them; the total. */
static size_t cut(unsigned char *base, size_t unit, struct iovec iov[PIECES], size_t count)
{
	size_t total = 0;

	for (size_t i = 0; i < count; i++) {
		iov[i] = (struct iovec) { base, unit * (i + 1) };
		base += iov[i].iov_len + 24;
		total += iov[i].iov_len;
	}
	return total;
}

/* The same total, cut in the other order. */
static void cut_far(uint64_t addr, uint64_t key, size_t total, struct fi_rma_iov far[PIECES],
		    size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const size_t len = i + 1 == count ? total : total / 2 + 1;

		far[i] = (struct fi_rma_iov) { addr, len < total ? len : total, key };
		addr += far[i].len + 40;
		total -= far[i].len;
	}
}

static void fill_pieces(const struct iovec *iov, size_t count, size_t seed)
{
	for (size_t i = 0; i < count; i++)
		fill(iov[i].iov_base, iov[i].iov_len, seed + i);
}

static void check_pieces(const struct iovec *iov, size_t count, size_t seed)
{
	for (size_t i = 0; i < count; i++)
		FILLED(iov[i].iov_base, iov[i].iov_len, seed + i);
}

static const size_t units[] = { 1, 10, 600, 5000, 30000 };

#define UNITS	(sizeof(units) / sizeof(units[0]))

/* A vector here, one range there, and back into other pieces. */
static void vectors(struct side *s)
{
	const size_t limit = s->info->tx_attr->iov_limit;
	void *out_desc[PIECES], *in_desc[PIECES];
	struct iovec from[PIECES], to[PIECES];
	struct remote r;

	check_limits(s);
	remote_open(s, &r);
	for (size_t i = 0; i < PIECES; i++) {
		out_desc[i] = s->out_desc;
		in_desc[i] = s->in_desc;
	}
	for (size_t u = 0; s->role == 0 && u < UNITS; u++) {
		const size_t total = cut(s->out, units[u], from, limit);

		cut(s->in, units[u], to, limit);
		if (total > s->largest)
			break;
		fill_pieces(from, limit, u);
		POST(s, fi_writev(s->ep, from, out_desc, limit, s->peer, r.far.addr + 5, r.far.key,
				  &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, total);
		barrier(s);
		barrier(s);
		memset(s->in, 0, ARENA);
		POST(s, fi_readv(s->ep, to, in_desc, limit, s->peer, r.far.addr + 5, r.far.key,
				 &s->ctx[1]));
		FINISHED(s, s->tx, &s->ctx[1], FI_RMA | FI_READ, total);
		check_pieces(to, limit, u);
		EQUAL(fi_writev(s->ep, from, out_desc, limit + 1, s->peer, r.far.addr, r.far.key,
				&s->ctx[0]), -FI_EINVAL);
		EQUAL(fi_readv(s->ep, to, in_desc, limit + 1, s->peer, r.far.addr, r.far.key,
			       &s->ctx[0]), -FI_EINVAL);
		QUIET(s, s->tx);
	}
	for (size_t u = 0; s->role == 1 && u < UNITS; u++) {
		unsigned char *at = s->in + 5;

		if (cut(s->out, units[u], from, limit) > s->largest)
			break;
		barrier(s);
		for (size_t i = 0; i < limit; at += from[i++].iov_len)
			AWAIT_FILLED(s, at, from[i].iov_len, u + i);
		barrier(s);
	}
	remote_close(s, &r);
}

/* Pieces on both sides that do not have the same bounds. */
static void pieces(struct side *s)
{
	const size_t limit = s->info->tx_attr->iov_limit, far_limit = s->info->tx_attr->rma_iov_limit;
	void *out_desc[PIECES], *in_desc[PIECES];
	struct iovec from[PIECES], to[PIECES];
	struct fi_rma_iov far[PIECES];
	struct remote r;

	check_limits(s);
	remote_open(s, &r);
	for (size_t i = 0; i < PIECES; i++) {
		out_desc[i] = s->out_desc;
		in_desc[i] = s->in_desc;
	}
	for (size_t u = 0; s->role == 0 && u < UNITS; u++)
		for (size_t near = 1; near <= limit; near++)
			for (size_t there = 1; there <= far_limit; there++) {
				const size_t total = cut(s->out, units[u], from, near);
				struct fi_msg_rma msg = {
					.msg_iov = from, .desc = out_desc, .iov_count = near,
					.addr = s->peer, .rma_iov = far, .rma_iov_count = there,
					.context = &s->ctx[0],
				};

				if (total > s->largest || total < there)
					continue;
				cut(s->in, units[u], to, near);
				cut_far(r.far.addr, r.far.key, total, far, there);
				fill_pieces(from, near, u + there);
				memset(s->in, 0, total + 24 * near);
				POST(s, fi_writemsg(s->ep, &msg, FI_DELIVERY_COMPLETE |
						    FI_COMPLETION));
				FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, total);
				msg.msg_iov = to;
				msg.desc = in_desc;
				POST(s, fi_readmsg(s->ep, &msg, FI_COMPLETION));
				FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_READ, total);
				check_pieces(to, near, u + there);
			}
	remote_close(s, &r);
}

static void far_limit(struct side *s)
{
	const size_t limit = s->info->tx_attr->rma_iov_limit;
	struct iovec iov = { s->out, limit + 1 };
	struct fi_rma_iov far[PIECES];
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.rma_iov = far, .rma_iov_count = limit + 1, .context = &s->ctx[0],
	};
	struct remote r;

	check_limits(s);
	remote_open(s, &r);
	for (size_t i = 0; i < PIECES; i++)
		far[i] = (struct fi_rma_iov) { r.far.addr + i, 1, r.far.key };
	if (s->role == 0) {
		REJECTED(s, fi_writemsg(s->ep, &msg, FI_COMPLETION), FI_EINVAL);
		REJECTED(s, fi_readmsg(s->ep, &msg, FI_COMPLETION), FI_EINVAL);
		QUIET(s, s->tx);
	}
	remote_close(s, &r);
}

/* Injected words beyond any queue's room; the last is seen last, and none is lost. */
static void many_injected(struct side *s)
{
	const uint64_t count = settings.brief ? 1000 : 5000;
	const volatile uint64_t *words = (const uint64_t *) s->in;
	struct remote r;
	double late = 0;

	remote_open(s, &r);
	for (uint64_t i = 1; s->role == 0 && i <= count; i++)
		POST(s, fi_inject_write(s->ep, &i, sizeof(i), s->peer,
					r.far.addr + (i - 1) * sizeof(i), r.far.key));
	barrier(s);
	for (uint64_t i = 0; s->role == 1 && i < count; i++)
		while (words[i] != i + 1) {
			progress(s);
			late_at(HERE, &late, "an injected word");
		}
	QUIET(s, s->tx);
	remote_close(s, &r);
}

/* Reads and writes, small and large, that are all under way; each completes once. */
static void many_outstanding(struct side *s)
{
	enum { ROUNDS = 12, AT_ONCE = CONTEXTS };
	const size_t unit = ARENA / AT_ONCE;
	static const size_t lengths[] = { 8, 60000, 1, 4097, 0, 30000 };
	struct remote r;

	remote_open(s, &r);
	fill(s->in, ARENA, s->role ? 4 : 5);
	barrier(s);
	for (size_t round = 0; s->role == 0 && round < ROUNDS; round++) {
		int seen[AT_ONCE] = { 0 };

		fill(s->out, ARENA, round);
		for (size_t i = 0; i < AT_ONCE; i++) {
			const size_t len = lengths[(i + round) % 6];
			const uint64_t addr = r.far.addr + i * unit;

			if (i % 2)
				POST(s, fi_write(s->ep, s->out + i * unit, len, s->out_desc, s->peer,
						 addr, r.far.key, &s->ctx[i]));
			else
				POST(s, fi_read(s->ep, s->in + i * unit, len, s->in_desc, s->peer,
						addr, r.far.key, &s->ctx[i]));
		}
		for (size_t i = 0; i < AT_ONCE; i++) {
			struct done done;
			size_t which;

			COMPLETION(s, s->tx, &done);
			which = (size_t) ((struct fi_context2 *) done.context - s->ctx);
			CHECK(which < AT_ONCE && !seen[which]++);
			TOLD(s, flags, FI_CQ_FORMAT_MSG, &done,
			     FI_RMA | (which % 2 ? FI_WRITE : FI_READ));
		}
	}
	for (size_t i = 0; s->role == 0 && i < AT_ONCE; i += 2)
		for (size_t k = 0; k < lengths[(i + ROUNDS - 1) % 6]; k++)
			EQUAL(s->in[i * unit + k], pattern(4, i * unit + k));
	remote_close(s, &r);
}

/* How long an ordered operation may be. */
static size_t ordered_size(size_t wanted, size_t limit)
{
	return wanted < limit ? wanted : limit;
}

/* A read posted behind a write sees what it wrote. */
static void read_after_write(struct side *s)
{
	static const size_t lengths[] = { 8, 4096, 20000, 300000 };
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; s->role == 0 && i < 40; i++) {
		const size_t len = ordered_size(lengths[i % 4], s->info->ep_attr->max_order_raw_size);

		fill(s->out, len, i);
		memset(s->in, 0, len);
		POST(s, fi_write(s->ep, s->out, len, s->out_desc, s->peer, r.far.addr, r.far.key,
				 &s->ctx[0]));
		POST(s, fi_read(s->ep, s->in, len, s->in_desc, s->peer, r.far.addr, r.far.key,
				&s->ctx[1]));
		for (int k = 0; k < 2; k++) {
			struct done done;

			COMPLETION(s, s->tx, &done);
		}
		FILLED(s->in, len, i);
	}
	remote_close(s, &r);
}

/* A read is not overtaken by a write posted behind it. */
static void write_after_read(struct side *s)
{
	static const size_t lengths[] = { 8, 4096, 20000, 300000 };
	const size_t limit = s->info->ep_attr->max_order_war_size;
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; s->role == 0 && i < 40; i++) {
		const size_t len = ordered_size(lengths[i % 4], limit), at = i % 4 * 500000;
		const size_t before = i < 4 ? 0 : i - 4;

		/* Each length has a place of its own, which the last round of it has written. */
		if (i < 4) {
			fill(s->out, len, 0);
			POST(s, write_with(s, s->out, len, r.far.addr + at, r.far.key,
					   FI_DELIVERY_COMPLETE | FI_COMPLETION, 0, &s->ctx[0]));
			FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, len);
		}
		fill(s->out, len, i);
		POST(s, fi_read(s->ep, s->in, len, s->in_desc, s->peer, r.far.addr + at, r.far.key,
				&s->ctx[0]));
		POST(s, write_with(s, s->out, len, r.far.addr + at, r.far.key,
				   FI_DELIVERY_COMPLETE | FI_COMPLETION, 0, &s->ctx[1]));
		for (int k = 0; k < 2; k++) {
			struct done done;

			COMPLETION(s, s->tx, &done);
		}
		FILLED(s->in, len, before);
	}
	remote_close(s, &r);
}

/* Of many writes to one place the last one stays, large or small. */
static void write_after_write(struct side *s)
{
	enum { COUNT = 32 };
	static const size_t lengths[] = { 300000, 8, 20000, 1000 };
	const size_t limit = s->info->ep_attr->max_order_waw_size;
	struct remote r;

	remote_open(s, &r);
	for (size_t round = 0; round < 4; round++) {
		const size_t last = ordered_size(lengths[(COUNT - 1) % 4], limit);
		unsigned char *from = s->out;

		for (size_t i = 0; s->role == 0 && i < COUNT; i++) {
			const size_t len = ordered_size(lengths[i % 4], limit);

			fill(from, len, round + i);
			POST(s, fi_write(s->ep, from, len, s->out_desc, s->peer, r.far.addr,
					 r.far.key, &s->ctx[i]));
			from += len;
		}
		/* They need not complete in order. */
		for (size_t i = 0; s->role == 0 && i < COUNT; i++) {
			struct done done;

			COMPLETION(s, s->tx, &done);
		}
		barrier(s);
		if (s->role == 1)
			AWAIT_FILLED(s, s->in, last, round + COUNT - 1);
		barrier(s);
	}
	remote_close(s, &r);
}

/* A message behind a write tells its receiver that the bytes are there. */
static void send_after_write(struct side *s)
{
	static const size_t lengths[] = { 8, 5000, 100000, 1000000 };
	struct remote r;

	remote_open(s, &r);
	for (size_t i = 0; i < 40; i++) {
		const size_t len = lengths[i % 4];

		if (s->role == 0) {
			fill(s->out, len, i);
			POST(s, fi_write(s->ep, s->out, len, s->out_desc, s->peer, r.far.addr,
					 r.far.key, &s->ctx[0]));
			POST(s, fi_send(s->ep, s->out, 0, s->out_desc, s->peer, &s->ctx[1]));
			for (int k = 0; k < 2; k++) {
				struct done done;

				COMPLETION(s, s->tx, &done);
			}
		} else {
			OK(fi_recv(s->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, &s->ctx[0]));
			FINISHED(s, s->rx, &s->ctx[0], FI_MSG | FI_RECV, 0);
			FILLED(s->in, len, i);
		}
		barrier(s);
	}
	remote_close(s, &r);
}

/* Other memory at the same address, or the same without its pages. */
static void renew(unsigned char *at, size_t len, size_t round)
{
	const int rights = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
	void *moved;

	switch (round % 5) {
	case 0:
		CHECK(!munmap(at, len));
		break;
	case 1:
		moved = mremap(at, len, 2 * len, MREMAP_MAYMOVE);
		CHECK(moved != MAP_FAILED && !munmap(moved, 2 * len));
		break;
	case 2:
		CHECK(!madvise(at, len, MADV_DONTNEED));
		return;
	case 3:
		CHECK(!syscall(SYS_munmap, at, len));
		break;
	}
	/* On top of what is there, or where nothing is. */
	moved = mmap(at, len, rights, kind | (round % 5 == 4 ? MAP_FIXED : MAP_FIXED_NOREPLACE), -1, 0);
	CHECK(moved == at);
}

/* Local memory goes and comes back at its address between operations, which move what is there now. */
static void remapped(struct side *s)
{
	const size_t rounds = settings.brief ? 25 : 100;
	const size_t len = 200000, room = (size_t) 1 << 20;
	struct remote r;
	/* With a neighbourhood that nobody gets. */
	unsigned char *all = mmap(NULL, 4 * room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *at = all + room;

	CHECK(all != MAP_FAILED && s->largest >= len);
	CHECK(mmap(at, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		   0) == at);
	remote_open(s, &r);
	for (size_t i = 0; i < rounds; i++) {
		struct fid_mr *mr = NULL;
		void *desc = NULL;

		if (s->role == 1) {
			fill(s->in + ARENA / 2, len, i + 7);
			barrier(s);
			AWAIT_FILLED(s, s->in, len, i);
			barrier(s);
			continue;
		}
		renew(at, room, i);
		fill(at, len, i);
		if (s->info->domain_attr->mr_mode & FI_MR_LOCAL) {
			mr = side_register(s, at, room, FI_READ | FI_WRITE, 0x71);
			desc = fi_mr_desc(mr);
		}
		barrier(s);
		POST(s, fi_write(s->ep, at, len, desc, s->peer, r.far.addr, r.far.key, &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, len);
		POST(s, fi_read(s->ep, at + room / 2, len, desc, s->peer, r.far.addr + ARENA / 2,
				r.far.key, &s->ctx[1]));
		FINISHED(s, s->tx, &s->ctx[1], FI_RMA | FI_READ, len);
		FILLED(at + room / 2, len, i + 7);
		barrier(s);
		if (mr)
			OK(fi_close(&mr->fid));
	}
	remote_close(s, &r);
	munmap(all, 4 * room);
}

static void want_raw(struct wish *wish)
{
	wish->order = FI_ORDER_RAW;
}

static void want_war(struct wish *wish)
{
	wish->order = FI_ORDER_WAR;
}

static void want_waw(struct wish *wish)
{
	wish->order = FI_ORDER_WAW;
}

static void want_saw(struct wish *wish)
{
	wish->order = FI_ORDER_SAW;
}

static const struct conformance_case rma_many_cases[] = {
	{ "vectors", "fi_rma(3)", "Up to iov_limit local pieces are one range of the target's; more are refused.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, vectors },
	{ "pieces", "fi_rma(3)", "Local and remote pieces need not have the same bounds.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, pieces },
	{ "far-limit", "fi_endpoint(3)", "More than rma_iov_limit remote pieces are refused.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, far_limit },
	{ "injected", "fi_domain(3)", "With resource management, writes beyond all queues wait or say FI_EAGAIN; none is lost.",
	  FI_RMA, EP_RELIABLE, VARY_MR | VARY_THREADING | VARY_PROGRESS, 0, NULL, many_injected },
	{ "outstanding", "fi_rma(3)", "Every operation under way completes once.",
	  FI_RMA, EP_RELIABLE, VARY_MR | VARY_THREADING | VARY_PROGRESS, 0, NULL,
	  many_outstanding },
	{ "remapped", "fi_domain(3)", "Memory may be unmapped, moved, given back and mapped anew between operations; each moves what is there then.",
	  FI_RMA, EP_RELIABLE, VARY_MR | VARY_PROGRESS, 0, NULL, remapped },
	{ "read-after-write", "fi_endpoint(3)", "FI_ORDER_RAW: a read sees the writes posted before it, up to max_order_raw_size.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, want_raw, read_after_write },
	{ "write-after-read", "fi_endpoint(3)", "FI_ORDER_WAR: a read does not see the writes posted after it, up to max_order_war_size.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, want_war, write_after_read },
	{ "write-after-write", "fi_endpoint(3)", "FI_ORDER_WAW: writes to one place take effect in their order, up to max_order_waw_size.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, want_waw, write_after_write },
	{ "send-after-write", "fi_endpoint(3)", "FI_ORDER_SAW: a message is taken in after the writes posted before it.",
	  FI_RMA | FI_MSG, EP_RELIABLE, VARY_MR, 0, want_saw, send_after_write },
};
GROUP(rma_many);
