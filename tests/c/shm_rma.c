/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One-sided operations between two processes over shared memory: process 0 reads and writes
 * memory of process 1.  Once with virtual addresses, once with offsets and every order.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pair.h"

#define ROOM	((size_t) 4 << 20)
#define DATA	0xfeedfacecafebeefull
#define KEY	0x4242ull

static const size_t sizes[] = {
	0, 1, 8, 511, 512, 513, 4095, 4096, 4097, 16384, 16385, 65536, 100001,
	(size_t) 1 << 20, ROOM,
};

#define SIZES	(sizeof(sizes) / sizeof(sizes[0]))

/* What process 1 tells of its regions. */
struct remote {
	uint64_t base, key;		/* may be read and written */
	uint64_t read_only_key, write_only_key;
	uint64_t closed_key;
};

static unsigned char *memory;		/* the target's region, the initiator's buffer */
static struct remote remote;
static struct fid_cntr *writes, *reads, *remote_writes, *region_writes;
static struct fid_mr *region, *read_only, *write_only;
static struct fi_context2 contexts[8];

static struct fid_cntr *counter(struct node *n, uint64_t events)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP };
	struct fid_cntr *cntr;

	OK(fi_cntr_open(n->domain, &attr, &cntr, NULL));
	EQUAL(fi_cntr_read(cntr), 0);
	if (events)
		OK(fi_ep_bind(n->ep, &cntr->fid, events));
	return cntr;
}

static struct fid_mr *registered(struct node *n, uint64_t access, uint64_t key)
{
	struct fid_mr *mr;

	OK(fi_mr_reg(n->domain, memory, ROOM, access, 0, key, 0, &mr, NULL));
	return mr;
}

static void exchange_regions(struct node *n)
{
	const int virtual_addresses = n->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
	struct remote mine;
	struct fid_mr *closed;

	region = registered(n, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
	OK(fi_mr_bind(region, &region_writes->fid, FI_REMOTE_WRITE));
	OK(fi_mr_enable(region));
	read_only = registered(n, FI_REMOTE_READ, KEY + 1);
	write_only = registered(n, FI_REMOTE_WRITE, KEY + 2);
	closed = registered(n, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY + 3);
	mine.base = virtual_addresses ? (uint64_t) (uintptr_t) memory : 0;
	mine.key = fi_mr_key(region);
	mine.read_only_key = fi_mr_key(read_only);
	mine.write_only_key = fi_mr_key(write_only);
	mine.closed_key = fi_mr_key(closed);
	OK(fi_close(&closed->fid));
	swap(NULL, &mine, &remote, sizeof(mine));
}

static void test_write(struct node *n)
{
	const uint64_t before = fi_cntr_read(remote_writes), bound = fi_cntr_read(region_writes);
	const uint64_t done = fi_cntr_read(writes);
	struct fi_cq_tagged_entry entry;
	size_t i;

	for (i = 0; i < SIZES; i++) {
		if (role == 0) {
			fill(memory, sizes[i], i);
			POST(n, fi_write(n->ep, memory, sizes[i], NULL, n->peer,
					 remote.base + ROOM - sizes[i], remote.key,
					 &contexts[0]));
			COMPLETION(n, n->tx, &entry);
			CHECK(entry.op_context == &contexts[0]);
			EQUAL(entry.flags, FI_RMA | FI_WRITE);
			barrier(n);
			barrier(n);
		} else {
			barrier(n);
			CHECK_FILL(memory + ROOM - sizes[i], sizes[i], i);
			memset(memory, 0, ROOM);
			barrier(n);
		}
	}
	if (role == 0) {
		EQUAL(fi_cntr_read(writes), done + SIZES);
	} else {
		QUIET(n, n->rx);
		EQUAL(fi_cntr_read(remote_writes), before + SIZES);
		EQUAL(fi_cntr_read(region_writes), bound + SIZES);
	}
	barrier(n);
}

static void test_read(struct node *n)
{
	const uint64_t done = fi_cntr_read(reads);
	struct fi_cq_tagged_entry entry;
	size_t i;

	for (i = 0; i < SIZES; i++) {
		if (role == 1) {
			fill(memory + ROOM - sizes[i], sizes[i], i);
			barrier(n);
			barrier(n);
		} else {
			memset(memory, 0xee, sizes[i]);
			barrier(n);
			POST(n, fi_read(n->ep, memory, sizes[i], NULL, n->peer,
					remote.base + ROOM - sizes[i], remote.key,
					&contexts[0]));
			COMPLETION(n, n->tx, &entry);
			CHECK(entry.op_context == &contexts[0]);
			EQUAL(entry.flags, FI_RMA | FI_READ);
			CHECK_FILL(memory, sizes[i], i);
			barrier(n);
		}
	}
	if (role == 0)
		EQUAL(fi_cntr_read(reads), done + SIZES);
	barrier(n);
}

static void test_inject(struct node *n)
{
	const size_t limit = n->info->tx_attr->inject_size;
	struct fi_cq_tagged_entry entry;

	if (role == 0) {
		fill(memory, limit, 3);
		OK(fi_inject_write(n->ep, memory, limit, n->peer, remote.base, remote.key));
		OK(fi_inject_writedata(n->ep, memory, limit, DATA, n->peer, remote.base + limit,
				       remote.key));
		memset(memory, 0, limit);
		EQUAL(fi_inject_write(n->ep, memory, limit + 1, n->peer, remote.base,
				      remote.key), -FI_EINVAL);
		QUIET(n, n->tx);
	} else {
		COMPLETION(n, n->rx, &entry);
		EQUAL(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		EQUAL(entry.data, DATA);
		EQUAL(entry.len, limit);
		CHECK(!entry.op_context);
		CHECK_FILL(memory + limit, limit, 3);
		CHECK_FILL(memory, limit, 3);
	}
	barrier(n);
}

static void test_data(struct node *n)
{
	struct fi_cq_tagged_entry entry;
	size_t i;

	for (i = 0; i < SIZES; i++) {
		if (role == 0) {
			fill(memory, sizes[i], i);
			POST(n, fi_writedata(n->ep, memory, sizes[i], NULL, DATA + i, n->peer,
					     remote.base, remote.key, &contexts[0]));
			FINISHED(n, n->tx, &contexts[0]);
		} else {
			COMPLETION(n, n->rx, &entry);
			EQUAL(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
			EQUAL(entry.data, DATA + i);
			EQUAL(entry.len, sizes[i]);
			CHECK_FILL(memory, sizes[i], i);
		}
		barrier(n);
	}
}

/* Three local and two remote pieces. */
static void test_vectors(struct node *n, size_t scale)
{
	const size_t local[3] = { 1 * scale, 5 * scale, 4 * scale };
	const size_t far[2] = { 7 * scale, 3 * scale };
	unsigned char *copy = memory + ROOM / 2;
	struct iovec iov[3];
	struct fi_rma_iov pieces[2];
	struct fi_msg_rma message = {
		.msg_iov = iov, .iov_count = 3, .addr = n->peer, .rma_iov = pieces,
		.rma_iov_count = 2, .context = &contexts[1],
	};
	size_t i, at = 0;

	if (role == 0) {
		for (i = 0; i < 3; i++) {
			iov[i].iov_base = memory + i * (6 * scale);
			iov[i].iov_len = local[i];
			fill(iov[i].iov_base, local[i], i);
		}
		for (i = 0; i < 2; i++) {
			pieces[i].addr = remote.base + i * (8 * scale);
			pieces[i].len = far[i];
			pieces[i].key = remote.key;
		}
		POST(n, fi_writemsg(n->ep, &message, FI_COMPLETION));
		FINISHED(n, n->tx, &contexts[1]);
		for (i = 0; i < 3; i++)
			iov[i].iov_base = copy + i * (6 * scale);
		POST(n, fi_readmsg(n->ep, &message, FI_COMPLETION));
		FINISHED(n, n->tx, &contexts[1]);
		for (i = 0; i < 3; i++)
			CHECK_FILL(copy + i * (6 * scale), local[i], i);
		pieces[0].len++;
		EQUAL(fi_readmsg(n->ep, &message, 0), -FI_EINVAL);
		message.iov_count = 5;
		EQUAL(fi_readmsg(n->ep, &message, 0), -FI_EINVAL);

		POST(n, fi_writev(n->ep, iov, NULL, 3, n->peer, remote.base + ROOM / 2,
				  remote.key, &contexts[2]));
		FINISHED(n, n->tx, &contexts[2]);
		memset(copy, 0, 18 * scale);
		POST(n, fi_readv(n->ep, iov, NULL, 3, n->peer, remote.base + ROOM / 2,
				 remote.key, &contexts[2]));
		FINISHED(n, n->tx, &contexts[2]);
		for (i = 0; i < 3; i++)
			CHECK_FILL(copy + i * (6 * scale), local[i], i);
	}
	barrier(n);
	if (role == 1) {
		for (i = 0; i < 3; i++) {
			CHECK_FILL(copy + at, local[i], i);
			at += local[i];
		}
	}
	barrier(n);
}

static void refused(struct node *n, int reading, size_t size, uint64_t addr, uint64_t key,
		    int reason)
{
	const uint64_t errors = fi_cntr_readerr(reading ? reads : writes);
	struct fi_cq_err_entry err;

	if (reading)
		POST(n, fi_read(n->ep, memory, size, NULL, n->peer, addr, key, &contexts[3]));
	else
		POST(n, fi_write(n->ep, memory, size, NULL, n->peer, addr, key, &contexts[3]));
	ERROR(n, n->tx, reason, &contexts[3], &err);
	EQUAL(err.flags & FI_RMA, FI_RMA);
	EQUAL(fi_cntr_readerr(reading ? reads : writes), errors + 1);
}

/* Accesses that the target must refuse; its memory stays as it is. */
static void test_refusals(struct node *n)
{
	static const size_t lengths[] = { 8, 100000 };
	size_t i;
	int reading;

	if (role == 1)
		fill(memory, ROOM, 9);
	barrier(n);
	for (i = 0; role == 0 && i < 2; i++) {
		const size_t size = lengths[i];

		memset(memory, 0xee, size);
		for (reading = 0; reading < 2; reading++) {
			refused(n, reading, size, remote.base, 0xdead, FI_ENOKEY);
			refused(n, reading, size, remote.base, remote.closed_key, FI_ENOKEY);
			refused(n, reading, size, remote.base + ROOM - size + 1, remote.key,
				FI_EINVAL);
			refused(n, reading, size, remote.base + ROOM, remote.key, FI_EINVAL);
			refused(n, reading, size, ~0ull - 3, remote.key, FI_EINVAL);
			if (remote.base)
				refused(n, reading, size, remote.base - 1, remote.key, FI_EINVAL);
		}
		refused(n, 1, size, remote.base, remote.write_only_key, FI_EACCES);
		refused(n, 0, size, remote.base, remote.read_only_key, FI_EACCES);
		EQUAL(memory[0], 0xee);
	}
	barrier(n);
	if (role == 1)
		CHECK_FILL(memory, ROOM, 9);
	barrier(n);
}

/* A fenced read sees every write before it. */
static void test_fence(struct node *n)
{
	struct fi_cq_tagged_entry entry;
	size_t i;
	int done;

	for (i = 0; role == 0 && i < SIZES; i++) {
		struct iovec iov = { .iov_base = memory + ROOM / 2, .iov_len = sizes[i] / 2 };
		struct fi_rma_iov piece = {
			.addr = remote.base, .len = sizes[i] / 2, .key = remote.key,
		};
		struct fi_msg_rma message = {
			.msg_iov = &iov, .iov_count = 1, .addr = n->peer, .rma_iov = &piece,
			.rma_iov_count = 1, .context = &contexts[1],
		};

		fill(memory, sizes[i] / 2, i + 50);
		memset(iov.iov_base, 0, iov.iov_len);
		POST(n, fi_write(n->ep, memory, iov.iov_len, NULL, n->peer, remote.base,
				 remote.key, &contexts[0]));
		POST(n, fi_readmsg(n->ep, &message, FI_FENCE | FI_COMPLETION));
		for (done = 0; done < 2; done++)
			COMPLETION(n, n->tx, &entry);
		CHECK_FILL(iov.iov_base, iov.iov_len, i + 50);
	}
	barrier(n);
}

/* More operations at once than there is room for. */
static void test_many(struct node *n)
{
	enum { COUNT = 3000 };
	const uint64_t before = fi_cntr_read(writes);
	uint64_t i;

	if (role == 0) {
		for (i = 0; i < COUNT; i++)
			POST(n, fi_inject_write(n->ep, &i, sizeof(i), n->peer,
						remote.base + i * sizeof(i), remote.key));
		while (fi_cntr_read(writes) < before + COUNT)
			progress(n);
		EQUAL(fi_cntr_readerr(writes) + fi_cntr_read(writes) - before,
		      COUNT + fi_cntr_readerr(writes));
	}
	barrier(n);
	for (i = 0; role == 1 && i < COUNT; i++)
		EQUAL(((uint64_t *) (void *) memory)[i], i);
	barrier(n);
}

static void run(const struct wish *wish)
{
	struct node node, *n = &node;

	open_node(n, wish);
	EQUAL(n->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR, wish->mr_mode & FI_MR_VIRT_ADDR);
	writes = counter(n, FI_WRITE);
	reads = counter(n, FI_READ);
	remote_writes = counter(n, FI_REMOTE_WRITE);
	region_writes = counter(n, 0);
	connect_node(n);
	exchange_regions(n);

	test_write(n);
	test_read(n);
	test_inject(n);
	test_data(n);
	test_vectors(n, 10);
	test_vectors(n, 30000);
	test_refusals(n);
	test_fence(n);
	test_many(n);

	EQUAL(fi_close(&region_writes->fid), -FI_EBUSY);
	OK(fi_close(&region->fid));
	OK(fi_close(&read_only->fid));
	OK(fi_close(&write_only->fid));
	OK(fi_close(&region_writes->fid));
	EQUAL(fi_close(&writes->fid), -FI_EBUSY);
	OK(fi_close(&n->ep->fid));
	OK(fi_close(&writes->fid));
	OK(fi_close(&reads->fid));
	OK(fi_close(&remote_writes->fid));
	OK(fi_endpoint(n->domain, n->info, &n->ep, NULL));
	OK(fi_ep_bind(n->ep, &n->av->fid, 0));
	OK(fi_ep_bind(n->ep, &n->tx->fid, FI_TRANSMIT | FI_RECV));
	close_node(n);
}

int main(void)
{
	const struct wish direct = { .mr_mode = FI_MR_VIRT_ADDR };
	const struct wish ordered = { .order = FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAS };

	split();
	memory = malloc(ROOM);
	CHECK(memory);
	run(&direct);
	run(&ordered);
	free(memory);
	return join();
}
