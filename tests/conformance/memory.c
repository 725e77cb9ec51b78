/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Registration of memory: side 1's regions are the targets of side 0. */
#include "groups.h"

#include <sys/mman.h>
#include <unistd.h>

#include "remote.h"

static int has_mode(const struct side *s, int mode)
{
	const int all = s->info->domain_attr->mr_mode;
	const int basic = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

	return all == FI_MR_BASIC ? basic & mode : all & mode;
}

static void reads_well(const char *at, struct side *s, size_t len, uint64_t addr, uint64_t key,
		       size_t seed)
{
	struct done done;

	memset(s->out, 0, len);
	POST(s, fi_read(s->ep, s->out, len, s->out_desc, s->peer, addr, key, &s->ctx[0]));
	finished_at(at, s, s->tx, &s->ctx[0], FI_RMA | FI_READ, len, &done);
	filled_at(at, s->out, len, seed);
}

#define READS_WELL(...)		reads_well(HERE, __VA_ARGS__)

static void finish_region(struct side *s, struct fid_mr *mr)
{
	if (has_mode(s, FI_MR_ENDPOINT)) {
		OK(fi_mr_bind(mr, &s->ep->fid, 0));
		OK(fi_mr_enable(mr));
	}
}

/* The same memory, registered by each of the three calls. */
static void three_calls(struct side *s)
{
	struct { uint64_t addr[3], key[3]; } near, far;
	struct iovec iov = { s->in, 10000 };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = REMOTE_ACCESS, .requested_key = 3,
		.context = &s->ctx[9],
	};
	struct fid_mr *mr[3];

	fill(s->in, 10000, 8);
	OK(fi_mr_reg(s->domain, s->in, 10000, REMOTE_ACCESS, 0, 1, 0, &mr[0], &s->ctx[7]));
	OK(fi_mr_regv(s->domain, &iov, 1, REMOTE_ACCESS, 0, 2, 0, &mr[1], &s->ctx[8]));
	OK(fi_mr_regattr(s->domain, &attr, 0, &mr[2]));
	for (int i = 0; i < 3; i++) {
		EQUAL(mr[i]->fid.fclass, FI_CLASS_MR);
		CHECK(mr[i]->fid.context == &s->ctx[7 + i]);
		finish_region(s, mr[i]);
		near.addr[i] = remote_address(s, s->in);
		near.key[i] = fi_mr_key(mr[i]);
		CHECK(near.key[i] != FI_KEY_NOTAVAIL);
		if (!has_mode(s, FI_MR_PROV_KEY))
			EQUAL(near.key[i], i + 1);
	}
	swap(s, &near, &far, sizeof(near));
	for (int i = 0; s->role == 0 && i < 3; i++)
		READS_WELL(s, 9000, far.addr[i], far.key[i], 8);
	barrier(s);
	for (int i = 0; i < 3; i++)
		OK(fi_close(&mr[i]->fid));
}

/* Several buffers are one region, from one offset to the next. */
static void many_buffers(struct side *s)
{
	const size_t limit = s->info->domain_attr->mr_iov_limit, len = 3000;
	struct iovec iov[16];
	struct region near, far;
	struct fid_mr *mr = NULL;
	size_t i, at = 0;

	CHECK(limit >= 1);
	if (limit > 16)
		return;
	for (i = 0; i < limit; i++) {
		iov[i] = (struct iovec) { s->in + i * 5000, len };
		for (size_t k = 0; k < len; k++)
			s->in[i * 5000 + k] = pattern(6, at++);
	}
	OK(fi_mr_regv(s->domain, iov, limit, REMOTE_ACCESS, 0, 77, 0, &mr, NULL));
	finish_region(s, mr);
	near = (struct region) { remote_address(s, s->in), fi_mr_key(mr) };
	swap(s, &near, &far, sizeof(near));
	/* With virtual addresses only the buffers themselves have a name. */
	if (s->role == 0)
		READS_WELL(s, has_mode(s, FI_MR_VIRT_ADDR) ? len : limit * len, far.addr, far.key, 6);
	barrier(s);
	OK(fi_close(&mr->fid));
}

static void own_keys(struct side *s)
{
	struct fid_mr *mr[2], *none = NULL;

	if (has_mode(s, FI_MR_PROV_KEY)) {
		/* The provider's own, whatever is asked for. */
		for (int i = 0; i < 2; i++)
			OK(fi_mr_reg(s->domain, s->in, 64, REMOTE_ACCESS, 0, 5, 0, &mr[i], NULL));
		CHECK(fi_mr_key(mr[0]) != fi_mr_key(mr[1]));
	} else {
		OK(fi_mr_reg(s->domain, s->in, 64, REMOTE_ACCESS, 0, 5, 0, &mr[0], NULL));
		EQUAL(fi_mr_reg(s->domain, s->in, 64, REMOTE_ACCESS, 0, 5, 0, &none, NULL),
		      -FI_ENOKEY);
		CHECK(!none);
		OK(fi_mr_reg(s->domain, s->in, 64, REMOTE_ACCESS, 0, 6, 0, &mr[1], NULL));
		EQUAL(fi_mr_key(mr[0]), 5);
		EQUAL(fi_mr_key(mr[1]), 6);
	}
	OK(fi_close(&mr[0]->fid));
	OK(fi_close(&mr[1]->fid));
	/* Free again. */
	OK(fi_mr_reg(s->domain, s->in, 64, REMOTE_ACCESS, 0, 5, 0, &mr[0], NULL));
	OK(fi_close(&mr[0]->fid));
}

/* The same key, and then it stands for other memory. */
static void key_again(struct side *s)
{
	struct region far;
	struct fid_mr *mr;

	for (size_t i = 0; i < 20; i++) {
		unsigned char *at = s->in + i * 4096;

		fill(at, 4096, i);
		mr = side_register(s, at, 4096, REMOTE_ACCESS, 0x33);
		far = swap_regions(s, mr, at);
		if (s->role == 0)
			READS_WELL(s, 4096, far.addr, far.key, i);
		barrier(s);
		OK(fi_close(&mr->fid));
		barrier(s);
	}
}

/* A region that is not bound and enabled yet is nobody's target. */
static void disabled_region(struct side *s)
{
	struct { uint64_t addr, key; } near, far;
	struct fid_mr *mr = NULL;

	fill(s->in, 4096, 2);
	OK(fi_mr_reg(s->domain, s->in, 4096, REMOTE_ACCESS, 0, 0x44, 0, &mr, NULL));
	near.addr = remote_address(s, s->in);
	near.key = fi_mr_key(mr);
	swap(s, &near, &far, sizeof(near));
	if (has_mode(s, FI_MR_ENDPOINT)) {
		if (s->role == 0 && far.key != FI_KEY_NOTAVAIL)
			REFUSED(s, fi_read(s->ep, s->out, 8, s->out_desc, s->peer, far.addr, far.key,
					   &s->ctx[0]), FI_ENOKEY, FI_RMA | FI_READ, &s->ctx[0]);
		barrier(s);
		CHECK(fi_mr_enable(mr) < 0);
		finish_region(s, mr);
		CHECK(fi_mr_bind(mr, &s->ep->fid, 0) < 0);
		near.key = fi_mr_key(mr);
		swap(s, &near, &far, sizeof(near));
	}
	if (s->role == 0)
		READS_WELL(s, 4096, far.addr, far.key, 2);
	barrier(s);
	OK(fi_close(&mr->fid));
}

/* Memory that may not be written can be read by the peer. */
static void read_only_page(struct side *s)
{
	const size_t len = (size_t) sysconf(_SC_PAGESIZE) * 8;
	struct region far;
	struct fid_mr *mr;
	void *page = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED);
	fill(page, len, 11);
	CHECK(!mprotect(page, len, PROT_READ));
	mr = side_register(s, page, len, FI_REMOTE_READ, 0x55);
	far = swap_regions(s, mr, page);
	if (s->role == 0) {
		READS_WELL(s, len, far.addr, far.key, 11);
		READS_WELL(s, 8, far.addr, far.key, 11);
	}
	barrier(s);
	OK(fi_close(&mr->fid));
	munmap(page, len);
}

static void bad_requests(struct side *s)
{
	struct iovec iov[2] = { { s->in, 64 }, { s->in + 64, 64 } };
	struct fi_mr_attr attr = { .mr_iov = iov, .iov_count = 1, .access = REMOTE_ACCESS };
	struct fid_mr *mr = NULL;

	EQUAL(fi_mr_reg(s->domain, s->in, 64, REMOTE_ACCESS, 1, 1, 0, &mr, NULL), -FI_EINVAL);
	EQUAL(fi_mr_reg(s->domain, s->in, 64, REMOTE_ACCESS, 0, 1, FI_PEEK, &mr, NULL),
	      -FI_EBADFLAGS);
	EQUAL(fi_mr_reg(s->domain, s->in, 64, FI_PEEK, 0, 1, 0, &mr, NULL), -FI_EINVAL);
	EQUAL(fi_mr_regv(s->domain, iov, 0, REMOTE_ACCESS, 0, 1, 0, &mr, NULL), -FI_EINVAL);
	EQUAL(fi_mr_regv(s->domain, iov, s->info->domain_attr->mr_iov_limit + 1, REMOTE_ACCESS, 0, 1,
			 0, &mr, NULL), -FI_EINVAL);
	attr.offset = 8;
	EQUAL(fi_mr_regattr(s->domain, &attr, 0, &mr), -FI_EINVAL);
	attr.offset = 0;
	EQUAL(fi_mr_regattr(s->domain, &attr, FI_PEEK, &mr), -FI_EBADFLAGS);
	CHECK(!mr);
	/* Nothing stays of them. */
	OK(fi_mr_reg(s->domain, s->in, 64, REMOTE_ACCESS, 0, 1, 0, &mr, NULL));
	OK(fi_close(&mr->fid));
}

static void raw_keys(struct side *s)
{
	struct { uint8_t bytes[256]; uint64_t base; size_t size; } near, far;
	struct fid_mr *mr;
	uint64_t mapped = 0;

	fill(s->in, 4096, 3);
	mr = side_register(s, s->in, 4096, REMOTE_ACCESS, 0x66);
	memset(&near, 0, sizeof(near));
	near.size = 0;
	EQUAL(fi_mr_raw_attr(mr, &near.base, near.bytes, &near.size, 0), -FI_ETOOSMALL);
	EQUAL(near.size, s->info->domain_attr->mr_key_size);
	CHECK(near.size <= sizeof(near.bytes));
	OK(fi_mr_raw_attr(mr, &near.base, near.bytes, &near.size, 0));
	EQUAL(near.base, remote_address(s, s->in));
	swap(s, &near, &far, sizeof(near));
	OK(fi_mr_map_raw(s->domain, far.base, far.bytes, far.size, &mapped, 0));
	if (s->role == 0)
		READS_WELL(s, 4096, far.base, mapped, 3);
	OK(fi_mr_unmap_key(s->domain, mapped));
	barrier(s);
	OK(fi_close(&mr->fid));
}

/* The pages below a region are replaced. */
static void refresh(struct side *s)
{
	const size_t len = (size_t) sysconf(_SC_PAGESIZE) * 4;
	struct iovec part;
	struct region far;
	struct fid_mr *mr;
	int ret;
	void *page = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED);
	fill(page, len, 1);
	mr = side_register(s, page, len, REMOTE_ACCESS, 0x67);
	far = swap_regions(s, mr, page);
	if (s->role == 0)
		READS_WELL(s, len, far.addr, far.key, 1);
	barrier(s);
	CHECK(mmap(page, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		   0) == page);
	fill(page, len, 4);
	part = (struct iovec) { page, len };
	ret = fi_mr_refresh(mr, &part, 1, 0);
	/* Devices keep the pages that a region was registered with. */
	if (ret == -FI_ENOSYS && has_mode(s, FI_MR_ALLOCATED) && !has_mode(s, FI_MR_MMU_NOTIFY))
		not_offered();
	/* Nobody has to offer the call who does not need it. */
	if (ret != -FI_ENOSYS || has_mode(s, FI_MR_MMU_NOTIFY))
		OK(ret);
	barrier(s);
	if (s->role == 0)
		READS_WELL(s, len, far.addr, far.key, 4);
	barrier(s);
	OK(fi_close(&mr->fid));
	munmap(page, len);
}

/* Thousands of regions, closed in another order; the one that is left keeps working. */
static void thousands(struct side *s)
{
	enum { COUNT = 3000 };
	struct fid_mr **mr = calloc(COUNT, sizeof(struct fid_mr *)), *lasting;
	struct region far;

	CHECK(mr);
	fill(s->in, 4096, 5);
	lasting = side_register(s, s->in, 4096, REMOTE_ACCESS, 1u << 20);
	far = swap_regions(s, lasting, s->in);
	for (size_t i = 0; i < COUNT; i++)
		mr[i] = side_register(s, s->in + i * 8, 64, REMOTE_ACCESS, i);
	for (size_t i = 0; i < COUNT; i++) {
		const size_t which = i * 7 % COUNT;

		if (mr[which])
			OK(fi_close(&mr[which]->fid));
		mr[which] = NULL;
		if (s->role == 0 && i % 500 == 0)
			READS_WELL(s, 4096, far.addr, far.key, 5);
	}
	barrier(s);
	if (s->role == 0)
		READS_WELL(s, 4096, far.addr, far.key, 5);
	barrier(s);
	OK(fi_close(&lasting->fid));
	free(mr);
}

/* Regions come and go while another is read and written. */
static void churn(struct side *s)
{
	struct remote r;

	remote_open(s, &r);
	fill(s->in, 60000, 12);
	barrier(s);
	for (size_t i = 0; i < 300; i++) {
		if (s->role == 0) {
			READS_WELL(s, i % 2 ? 60000 : 100, r.far.addr, r.far.key, 12);
		} else {
			struct fid_mr *mr = side_register(s, s->in, 60000, REMOTE_ACCESS, i + 1);

			progress(s);
			OK(fi_close(&mr->fid));
		}
	}
	remote_close(s, &r);
}

/* The domain is not closed, and goes on. */
static void busy_domain(struct side *s)
{
	struct fid_mr *mr = side_register(s, s->in, 64, REMOTE_ACCESS, 9);

	EQUAL(fi_close(&s->domain->fid), -FI_EBUSY);
	OK(fi_close(&mr->fid));
}

/* A counter of remote writes to one region of two. */
static void region_counter(struct side *s)
{
	const uint64_t flags = has_mode(s, FI_MR_RMA_EVENT) ? FI_RMA_EVENT : 0;
	struct fid_cntr *cntr = open_counter(s, FI_WAIT_NONE);
	struct region near, far, other;
	struct fid_mr *mr = NULL;
	struct remote r;

	remote_open(s, &r);
	OK(fi_mr_reg(s->domain, s->in, ARENA, REMOTE_ACCESS, 0, 0x88, flags, &mr, NULL));
	OK(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	if (has_mode(s, FI_MR_ENDPOINT))
		OK(fi_mr_bind(mr, &s->ep->fid, 0));
	if (has_mode(s, FI_MR_ENDPOINT | FI_MR_RMA_EVENT))
		OK(fi_mr_enable(mr));
	EQUAL(fi_close(&cntr->fid), -FI_EBUSY);
	near = (struct region) { remote_address(s, s->in), fi_mr_key(mr) };
	swap(s, &near, &far, sizeof(near));
	other = r.far;
	for (size_t i = 0; s->role == 0 && i < 30; i++) {
		const size_t len = i % 3 ? 8 : 40000;

		POST(s, fi_write(s->ep, s->out, len, s->out_desc, s->peer, far.addr, far.key,
				 &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, len);
		POST(s, fi_write(s->ep, s->out, len, s->out_desc, s->peer, other.addr, other.key,
				 &s->ctx[0]));
		FINISHED(s, s->tx, &s->ctx[0], FI_RMA | FI_WRITE, len);
		READS_WELL(s, 0, far.addr, far.key, 0);
	}
	if (s->role == 1)
		COUNTED(s, cntr, 30);
	QUIET(s, s->rx);
	barrier(s);
	OK(fi_close(&mr->fid));
	OK(fi_close(&cntr->fid));
	remote_close(s, &r);
}

static const struct conformance_case memory_cases[] = {
	{ "three-calls", "fi_mr(3)", "fi_mr_reg, fi_mr_regv and fi_mr_regattr make the same regions, with their context.",
	  FI_RMA, EP_RELIABLE, VARY_MR | VARY_API, 0, NULL, three_calls },
	{ "many-buffers", "fi_mr(3)", "Up to mr_iov_limit buffers are one region; an offset runs from one to the next.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, many_buffers },
	{ "keys", "fi_mr(3)", "A requested key is given, once (FI_ENOKEY); with FI_MR_PROV_KEY keys differ whatever is requested.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, own_keys },
	{ "key-again", "fi_mr(3)", "A closed region's key may be requested for another one.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, key_again },
	{ "disabled", "fi_mr(3)", "With FI_MR_ENDPOINT a region is nobody's target until it is bound and enabled, and is bound no more afterwards.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, disabled_region },
	{ "read-only-page", "fi_mr(3)", "Memory that cannot be written can be registered to be read.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, read_only_page },
	{ "bad-requests", "fi_mr(3)", "Offsets, unknown access bits and too many buffers are refused (FI_EINVAL), unknown flags too (FI_EBADFLAGS).",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, bad_requests },
	{ "raw-keys", "fi_mr(3)", "Raw keys can be taken from any region, tell the room they need, and are usable once mapped.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, raw_keys },
	{ "refresh", "fi_mr(3)", "Pages below a region may be replaced if the provider is told of it.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, refresh },
	{ "thousands", "fi_mr(3)", "Thousands of regions may be open at once, and are closed in any order.",
	  FI_RMA, EP_RELIABLE, VARY_MR, 0, NULL, thousands },
	{ "churn", "fi_mr(3)", "Opening and closing regions does not disturb accesses to others.",
	  FI_RMA, EP_RELIABLE, VARY_MR | VARY_THREADING, 0, NULL, churn },
	{ "busy-domain", "fi_domain(3)", "A domain with open regions is busy.",
	  FI_RMA, EP_RELIABLE, 0, 0, NULL, busy_domain },
	{ "counter", "fi_mr(3)", "A counter bound to a region counts the remote writes to it and nothing else.",
	  FI_RMA | FI_RMA_EVENT, EP_RELIABLE, VARY_MR | VARY_PROGRESS, 0, NULL, region_counter },
};
GROUP(memory);
