/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As Sandia OpenSHMEM: one-sided operations that are counted and rarely reported, on memory
 * addressed by virtual address or as one region that is the whole address space.
 */
#include "consumer.h"

enum { SIZE = 1 << 20 };

static struct fi_context2 context[4];
static struct fid_cntr *put, *get, *target;
static unsigned char *local, *remote;

static struct fi_info *discover(int mr_mode, uint64_t more_caps, enum fi_threading threading,
				int automatic)
{
	struct fi_info hints;
	struct fi_tx_attr tx;
	struct fi_ep_attr ep;
	struct fi_domain_attr domain;
	struct fi_fabric_attr fabric;
	struct fi_info *info = NULL;

	/* On the stack, and without a receive side. */
	memset(&hints, 0, sizeof(hints));
	memset(&tx, 0, sizeof(tx));
	memset(&ep, 0, sizeof(ep));
	memset(&domain, 0, sizeof(domain));
	memset(&fabric, 0, sizeof(fabric));
	hints.caps = FI_RMA | FI_ATOMIC | more_caps;
	hints.addr_format = FI_FORMAT_UNSPEC;
	hints.tx_attr = &tx;
	hints.ep_attr = &ep;
	hints.domain_attr = &domain;
	hints.fabric_attr = &fabric;
	ep.type = FI_EP_RDM;
	tx.op_flags = FI_DELIVERY_COMPLETE;
	tx.inject_size = 16;
	domain.data_progress = automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_UNSPEC;
	domain.control_progress = domain.data_progress;
	domain.resource_mgmt = FI_RM_ENABLED;
	domain.mr_mode = mr_mode;
	domain.mr_key_size = 1;
	domain.threading = threading;
	OK(fi_getinfo(FI_VERSION(1, 5), NULL, NULL, 0, &hints, &info));
	CHECK(info->tx_attr->inject_size >= 16);
	CHECK(info->ep_attr->max_msg_size > 0);
	EQUAL(info->domain_attr->mr_mode & ~mr_mode, 0);
	EQUAL(info->domain_attr->threading, threading);
	EQUAL(info->caps & more_caps, more_caps);
	if (automatic)
		EQUAL(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
	return info;
}

/* Counters first, then the queue; a shared transmit context is answered with "there is none". */
static void open_contexts(struct side *s, const struct fi_info *info)
{
	struct fi_cntr_attr events = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_CONTEXT };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_tx_attr attr = { .caps = FI_RMA };
	struct fid_stx *shared;

	s->info = fi_dupinfo(info);
	CHECK(s->info);
	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
	EQUAL(fi_stx_context(s->domain, &attr, &shared, NULL), -FI_ENOSYS);
	OK(fi_av_open(s->domain, &av, &s->av, NULL));
	OK(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	if (s == &a) {
		OK(fi_cntr_open(s->domain, &events, &put, NULL));
		OK(fi_cntr_open(s->domain, &events, &get, NULL));
		OK(fi_ep_bind(s->ep, &put->fid, FI_WRITE));
		OK(fi_ep_bind(s->ep, &get->fid, FI_READ));
	} else {
		OK(fi_cntr_open(s->domain, &events, &target, NULL));
		OK(fi_ep_bind(s->ep, &target->fid, FI_REMOTE_WRITE));
	}
	OK(fi_cq_open(s->domain, &cq, &s->cq, NULL));
	OK(fi_ep_bind(s->ep, &s->cq->fid, FI_SELECTIVE_COMPLETION | FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(s->ep, &s->av->fid, 0));
	OK(fi_enable(s->ep));
}

static void puts_and_gets(uint64_t base, uint64_t key, uint64_t puts)
{
	struct iovec iov = { local, SIZE };
	struct fi_rma_iov place = { .addr = base, .len = SIZE, .key = key };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = a.peer,
				  .rma_iov = &place, .rma_iov_count = 1, .context = &context[0] };

	PUT(fi_inject_write(a.ep, local, 16, a.peer, base, key));
	COUNTED(put, ++puts);
	PUT(fi_write(a.ep, local, 5000, NULL, a.peer, base, key, &context[0]));
	COUNTED(put, ++puts);
	CHECK_FILL(remote, 5000, 6);
	PUT(fi_writemsg(a.ep, &msg, FI_DELIVERY_COMPLETE));
	COUNTED(put, ++puts);
	CHECK_FILL(remote, SIZE, 6);
	iov.iov_len = place.len = 8;
	PUT(fi_writemsg(a.ep, &msg, FI_DELIVERY_COMPLETE | FI_INJECT));
	COUNTED(put, ++puts);
	SILENT();
	PUT(fi_writemsg(a.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
	COUNTED(put, ++puts);
	{
		struct fi_cq_entry entry;

		while (fi_cq_read(a.cq, &entry, 1) == -FI_EAGAIN)
			drive();
		CHECK(entry.op_context == &context[0]);
	}
	memset(local, 0, SIZE);
	PUT(fi_read(a.ep, local, SIZE, NULL, a.peer, base, key, &context[1]));
	COUNTED(get, 1);
	CHECK_FILL(local, SIZE, 6);
	SILENT();
	COUNTED(target, puts);
}

/* A fence: what comes behind it happens after what was before it. */
static void fenced(uint64_t base, uint64_t key)
{
	const uint64_t puts = fi_cntr_read(put), gets = fi_cntr_read(get);
	unsigned char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct fi_rma_iov place = { .addr = base + SIZE - 1, .len = 1, .key = key };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = a.peer,
				  .rma_iov = &place, .rma_iov_count = 1, .context = &context[3] };

	fill(remote, SIZE, 5);
	byte = (unsigned char) ~remote[SIZE - 1];
	PUT(fi_read(a.ep, local, SIZE, NULL, a.peer, base, key, &context[2]));
	PUT(fi_writemsg(a.ep, &msg, FI_FENCE | FI_DELIVERY_COMPLETE));
	COUNTED(put, puts + 1);
	EQUAL(fi_cntr_read(get), gets + 1);
	CHECK_FILL(local, SIZE, 5);
	EQUAL(remote[SIZE - 1], byte);
}

static uint64_t word(int op, uint64_t base, uint64_t key, uint64_t value, uint64_t compare,
		     uint64_t gets)
{
	uint64_t old = 0;

	if (op == FI_CSWAP || op == FI_MSWAP)
		PUT(fi_compare_atomic(a.ep, &value, 1, NULL, &compare, NULL, &old, NULL, a.peer,
				      base, key, FI_UINT64, (enum fi_op) op, &context[2]));
	else
		PUT(fi_fetch_atomic(a.ep, &value, 1, NULL, &old, NULL, a.peer, base, key,
				    FI_UINT64, (enum fi_op) op, &context[2]));
	COUNTED(get, gets);
	return old;
}

static void atomics(uint64_t base, uint64_t key)
{
	uint64_t *there = (uint64_t *) remote, done = fi_cntr_read(get);
	const uint64_t puts = fi_cntr_read(put);
	uint64_t value = 6;
	double real = 1.5;

	*there = 10;
	PUT(fi_inject_atomic(a.ep, &value, 1, a.peer, base, key, FI_UINT64, FI_SUM));
	COUNTED(put, puts + 1);
	EQUAL(*there, 16);
	PUT(fi_atomic(a.ep, &value, 1, NULL, a.peer, base, key, FI_UINT64, FI_BXOR, &context[0]));
	COUNTED(put, puts + 2);
	EQUAL(*there, 16 ^ 6);
	EQUAL(word(FI_SUM, base, key, 2, 0, ++done), 16 ^ 6);
	EQUAL(word(FI_ATOMIC_READ, base, key, 0, 0, ++done), 24);
	EQUAL(word(FI_ATOMIC_WRITE, base, key, 100, 0, ++done), 24);
	EQUAL(word(FI_CSWAP, base, key, 7, 99, ++done), 100);
	EQUAL(word(FI_CSWAP, base, key, 7, 100, ++done), 100);
	EQUAL(word(FI_MSWAP, base, key, 0xf0, 0xf0, ++done), 7);
	EQUAL(word(FI_MIN, base, key, 3, 0, ++done), 0xf7);
	EQUAL(*there, 3);
	memcpy(remote, &real, sizeof(real));
	PUT(fi_atomic(a.ep, &real, 1, NULL, a.peer, base, key, FI_DOUBLE, FI_SUM, &context[0]));
	COUNTED(put, puts + 3);
	memcpy(&real, remote, sizeof(real));
	CHECK(real == 3.0);
	SILENT();
}

/* What it cannot do without: non-zero or a count of 0 makes it give up. */
static void mandatory_atomics(struct fid_ep *ep)
{
	static const enum fi_datatype integers[] = { FI_INT32, FI_INT64, FI_UINT32, FI_UINT64 };
	static const enum fi_op plain[] = { FI_SUM, FI_BAND, FI_BOR, FI_BXOR, FI_MIN, FI_MAX,
					    FI_PROD, FI_ATOMIC_WRITE };
	static const enum fi_op fetch[] = { FI_SUM, FI_BAND, FI_BOR, FI_BXOR, FI_ATOMIC_READ,
					    FI_ATOMIC_WRITE };
	static const enum fi_op compare[] = { FI_CSWAP, FI_MSWAP };
	size_t type, op, count;

	for (type = 0; type < 4; type++) {
		for (op = 0; op < sizeof(plain) / sizeof(plain[0]); op++) {
			count = 0;
			OK(fi_atomicvalid(ep, integers[type], plain[op], &count));
			CHECK(count > 0);
		}
		for (op = 0; op < sizeof(fetch) / sizeof(fetch[0]); op++) {
			count = 0;
			OK(fi_fetch_atomicvalid(ep, integers[type], fetch[op], &count));
			CHECK(count > 0);
		}
		for (op = 0; op < 2; op++) {
			count = 0;
			OK(fi_compare_atomicvalid(ep, integers[type], compare[op], &count));
			CHECK(count > 0);
		}
	}
	OK(fi_atomicvalid(ep, FI_DOUBLE, FI_SUM, &count));
	OK(fi_atomicvalid(ep, FI_FLOAT, FI_MAX, &count));
}

/* Everything is one region: addresses are offsets from 0. */
static void run(int mr_mode, uint64_t more_caps, enum fi_threading threading, int automatic)
{
	struct fi_info *info = discover(mr_mode, more_caps, threading, automatic);
	const int whole = !(info->domain_attr->mr_mode & FI_MR_VIRT_ADDR);
	struct fid_mr *mr;
	uint64_t base;

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	open_contexts(&a, info);
	open_contexts(&b, info);
	introduce(&a, &b);
	introduce(&b, &a);
	mandatory_atomics(a.ep);
	query_atomics(a.ep, 14, 19);
	OK(fi_mr_reg(b.domain, whole ? NULL : remote, whole ? SIZE_MAX : SIZE,
		     FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	base = (uint64_t) (uintptr_t) remote;
	memset(remote, 0, SIZE);
	fill(local, SIZE, 6);
	puts_and_gets(base, fi_mr_key(mr), 0);
	atomics(base, fi_mr_key(mr));
	if (info->caps & FI_FENCE)
		fenced(base, fi_mr_key(mr));
	/* Waiting instead of looking; with what has happened, and with time. */
	OK(fi_cntr_wait(put, fi_cntr_read(put), -1));
	EQUAL(fi_cntr_wait(put, fi_cntr_read(put) + 1, 10), -FI_ETIMEDOUT);
	OK(fi_close(&mr->fid));
	OK(fi_close(&a.ep->fid));
	OK(fi_close(&b.ep->fid));
	OK(fi_close(&put->fid));
	OK(fi_close(&get->fid));
	OK(fi_close(&target->fid));
	OK(fi_close(&a.cq->fid));
	OK(fi_close(&b.cq->fid));
	OK(fi_close(&a.av->fid));
	OK(fi_close(&b.av->fid));
	OK(fi_close(&a.domain->fid));
	OK(fi_close(&b.domain->fid));
	OK(fi_close(&a.fabric->fid));
	OK(fi_close(&b.fabric->fid));
	fi_freeinfo(a.info);
	fi_freeinfo(b.info);
	fi_freeinfo(info);
}

int main(void)
{
	const int virtual_addresses = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

	alarm(DEADLINE);
	local = malloc(SIZE);
	remote = malloc(SIZE);
	CHECK(local && remote);
	run(0, FI_RMA_EVENT, FI_THREAD_DOMAIN, 0);
	run(virtual_addresses, FI_RMA_EVENT, FI_THREAD_SAFE, 0);
	run(virtual_addresses | FI_MR_ENDPOINT | FI_MR_RMA_EVENT, FI_RMA_EVENT | FI_FENCE,
	    FI_THREAD_COMPLETION, 0);
	run(virtual_addresses, FI_RMA_EVENT, FI_THREAD_SAFE, 1);
	free(local);
	free(remote);
	return 0;
}
