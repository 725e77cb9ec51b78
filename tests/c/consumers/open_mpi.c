/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As Open MPI: its message layer (mtl/ofi) needs other hosts and is told so; its one-sided
 * layer (btl/ofi) runs.
 */
#include "refused.h"

#include <rdma/fi_ext.h>

enum { SIZE = 256 << 10, ROUNDS = 100 };

static struct fi_context2 context[4];

static void message_layer(uint32_t version, uint64_t more_caps, int mr_mode)
{
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints);
	hints->caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV | more_caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->tx_attr->op_flags = FI_COMPLETION;
	hints->rx_attr->op_flags = FI_COMPLETION;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->cq_data_size = 4;
	hints->domain_attr->mr_mode = mr_mode;
	refused(version, hints, "FI_REMOTE_COMM");
	fi_freeinfo(hints);
}

static struct fi_info *one_sided_info(uint32_t version, uint64_t more_caps, int mr_mode)
{
	struct fi_info hints;
	struct fi_tx_attr tx;
	struct fi_rx_attr rx;
	struct fi_ep_attr ep;
	struct fi_domain_attr domain;
	struct fi_fabric_attr fabric;
	struct fi_info *info = NULL;
	int ret;

	/* Its hints are on the stack. */
	memset(&hints, 0, sizeof(hints));
	memset(&tx, 0, sizeof(tx));
	memset(&rx, 0, sizeof(rx));
	memset(&ep, 0, sizeof(ep));
	memset(&domain, 0, sizeof(domain));
	memset(&fabric, 0, sizeof(fabric));
	hints.tx_attr = &tx;
	hints.rx_attr = &rx;
	hints.ep_attr = &ep;
	hints.domain_attr = &domain;
	hints.fabric_attr = &fabric;
	hints.caps = FI_RMA | FI_ATOMIC | more_caps;
	ep.type = FI_EP_RDM;
	tx.iov_limit = 1;
	rx.iov_limit = 1;
	tx.op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
	rx.op_flags = FI_COMPLETION;
	domain.mr_mode = mr_mode;
	domain.threading = FI_THREAD_DOMAIN;
	domain.control_progress = FI_PROGRESS_UNSPEC;
	domain.data_progress = FI_PROGRESS_UNSPEC;
	domain.resource_mgmt = FI_RM_ENABLED;
	domain.av_type = FI_AV_MAP;
	ret = fi_getinfo(version, NULL, NULL, 0, &hints, &info);
	if (ret) {
		EQUAL(ret, -FI_ENODATA);
		return NULL;
	}
	CHECK(!strstr(info->fabric_attr->prov_name, "ofi_rxm"));
	EQUAL(info->domain_attr->threading, FI_THREAD_DOMAIN);
	/* It refuses all modes but these. */
	if (info->domain_attr->mr_mode != FI_MR_BASIC && info->domain_attr->mr_mode != FI_MR_SCALABLE)
		EQUAL(info->domain_attr->mr_mode & ~mr_mode, 0);
	EQUAL(info->domain_attr->mr_key_size, 8);
	return info;
}

/* A key is an address on the heap where the provider makes none, and is used again and again. */
static struct fid_mr *registered(struct side *s, void *base, uint64_t key)
{
	struct iovec iov = { base, SIZE };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .requested_key = key,
				   .access = FI_READ | FI_WRITE | FI_REMOTE_READ |
					     FI_REMOTE_WRITE };
	struct fid_mr *mr;

	OK(fi_mr_regattr(s->domain, &attr, 0, &mr));
	if (!(s->info->domain_attr->mr_mode & FI_MR_PROV_KEY) &&
	    s->info->domain_attr->mr_mode != FI_MR_BASIC)
		EQUAL(fi_mr_key(mr), key);
	return mr;
}

static void one_sided_layer(struct fi_info *info)
{
	const struct objects objects = { .av_type = FI_AV_MAP, .format = FI_CQ_FORMAT_CONTEXT };
	unsigned char *memory, *local;
	struct fi_cq_entry entry[64];
	int64_t value = 5, old = 0, compare;
	struct fid_mr *mine, *theirs = NULL, *twice = NULL;
	uint64_t base, key, asked;
	int i;

	open_both(info, &objects);
	EQUAL(fi_cq_read(a.cq, entry, 64), -FI_EAGAIN);
	memory = calloc(1, SIZE);
	local = calloc(1, SIZE);
	CHECK(memory && local);
	asked = (uint64_t) (uintptr_t) memory;
	mine = registered(&a, local, (uint64_t) (uintptr_t) local);
	for (i = 0; i < ROUNDS; i++) {
		theirs = registered(&b, memory, asked);
		if (i < ROUNDS - 1)
			OK(fi_close(&theirs->fid));
	}
	if (fi_mr_key(theirs) == asked) {
		struct iovec iov = { memory, SIZE };
		struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .requested_key = asked,
					   .access = FI_REMOTE_READ };

		EQUAL(fi_mr_regattr(b.domain, &attr, 0, &twice), -FI_ENOKEY);
	}
	key = fi_mr_key(theirs);
	base = remote_address(&b, memory, 0);
	fill(local, SIZE, 8);
	PUT(fi_write(a.ep, local, SIZE, fi_mr_desc(mine), a.peer, base, key, &context[0]));
	for (i = 0; (i = (int) fi_cq_read(a.cq, entry, 64)) == -FI_EAGAIN;)
		drive();
	EQUAL(i, 1);
	CHECK(entry[0].op_context == &context[0]);
	CHECK_FILL(memory, SIZE, 8);
	memset(local, 0, SIZE);
	PUT(fi_read(a.ep, local, SIZE, fi_mr_desc(mine), a.peer, base, key, &context[1]));
	while ((i = (int) fi_cq_read(a.cq, entry, 64)) == -FI_EAGAIN)
		drive();
	EQUAL(i, 1);
	CHECK_FILL(local, SIZE, 8);

	memset(memory, 0, 8);
	PUT(fi_atomic(a.ep, &value, 1, NULL, a.peer, base, key, FI_INT64, FI_SUM, &context[0]));
	PUT(fi_fetch_atomic(a.ep, &value, 1, NULL, &old, NULL, a.peer, base, key, FI_INT64, FI_SUM,
			    &context[1]));
	for (i = 0; i < 2;) {
		const ssize_t got = fi_cq_read(a.cq, entry, 64);

		CHECK(got > 0 || got == -FI_EAGAIN);
		i += got > 0 ? (int) got : 0;
		drive();
	}
	EQUAL(old, 5);
	EQUAL(*(int64_t *) memory, 10);
	compare = 10;
	PUT(fi_compare_atomic(a.ep, &value, 1, NULL, &compare, NULL, &old, NULL, a.peer, base, key,
			      FI_INT64, FI_CSWAP, &context[2]));
	while ((i = (int) fi_cq_read(a.cq, entry, 64)) == -FI_EAGAIN)
		drive();
	EQUAL(i, 1);
	CHECK(entry[0].op_context == &context[2]);
	EQUAL(old, 10);
	EQUAL(*(int64_t *) memory, 5);
	CHECK(query_atomics(a.ep, 14, 19) > 0);
	OK(fi_close(&mine->fid));
	OK(fi_close(&theirs->fid));
	close_both();
	free(memory);
	free(local);
}

/* Two-sided use, and what is asked of a name. */
static void two_sided_layer(struct fi_info *info)
{
	const struct objects objects = { .av_type = FI_AV_MAP, .format = FI_CQ_FORMAT_TAGGED };
	unsigned char out[500], in[500];
	char name[256];
	size_t needed = 0, length = 1;

	open_both(info, &objects);
	EQUAL(fi_getname(&a.ep->fid, NULL, &needed), -FI_ETOOSMALL);
	EQUAL(needed > 1 && needed < sizeof(name), 1);
	EQUAL(fi_getname(&a.ep->fid, name, &length), -FI_ETOOSMALL);
	EQUAL(length, needed);
	OK(fi_getname(&a.ep->fid, name, &length));
	EQUAL(length, needed);
	/* The same address twice is the same peer. */
	introduce(&b, &a);
	fill(out, sizeof(out), 4);
	PUT(fi_recv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, &context[0]));
	PUT(fi_send(a.ep, out, sizeof(out), NULL, a.peer, &context[1]));
	DONE(&b, &context[0], FI_MSG | FI_RECV);
	DONE(&a, &context[1], FI_MSG | FI_SEND);
	CHECK_FILL(in, sizeof(in), 4);
	PUT(fi_recv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, &context[0]));
	PUT(fi_inject(a.ep, out, 100, a.peer));
	DONE(&b, &context[0], FI_MSG | FI_RECV);
	SILENT();
	EQUAL(fi_av_remove(a.av, &a.peer, 1, 0), 0);
	close_both();
}

static int monitor_start(struct fid_mem_monitor *monitor)
{
	(void) monitor;
	return 0;
}

static void monitor_stop(struct fid_mem_monitor *monitor)
{
	(void) monitor;
}

static int monitor_subscribe(struct fid_mem_monitor *monitor, const void *addr, size_t len)
{
	(void) monitor, (void) addr, (void) len;
	return 0;
}

static void monitor_unsubscribe(struct fid_mem_monitor *monitor, const void *addr, size_t len)
{
	(void) monitor, (void) addr, (void) len;
}

static bool monitor_valid(struct fid_mem_monitor *monitor, const void *addr, size_t len)
{
	(void) monitor, (void) addr, (void) len;
	return true;
}

/* The memory monitor that it lends from the beginning, and tells of memory that goes. */
static void memory_monitor(void)
{
	struct fi_ops_mem_monitor ops = {
		.size = sizeof(ops), .start = monitor_start, .stop = monitor_stop,
		.subscribe = monitor_subscribe, .unsubscribe = monitor_unsubscribe,
		.valid = monitor_valid,
	};
	struct fid_mem_monitor monitor = {
		.fid.fclass = FI_CLASS_MEM_MONITOR, .export_ops = &ops,
	};
	struct fid *cache = NULL;

	OK(fi_open(FI_VERSION(1, 13), "mr_cache", NULL, 0, 0, &cache, NULL));
	OK(fi_import_fid(cache, &monitor.fid, 0));
	monitor.import_ops->notify(&monitor, &ops, sizeof(ops));
	OK(fi_close(&monitor.fid));
	OK(fi_close(cache));
}

int main(void)
{
	const int modes = FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
	const uint32_t versions[] = { FI_VERSION(1, 5), FI_VERSION(1, 9), FI_VERSION(1, 18) };
	struct fi_info *info;
	size_t i;

	alarm(DEADLINE);
	message_layer(FI_VERSION(1, 18), FI_MSG | FI_HMEM, FI_MR_ALLOCATED | FI_MR_HMEM);
	message_layer(FI_VERSION(1, 18), FI_MSG, FI_MR_ALLOCATED);
	message_layer(FI_VERSION(1, 5), 0, 0);
	CHECK(!one_sided_info(FI_VERSION(1, 18), FI_HMEM, modes | FI_MR_ENDPOINT | FI_MR_HMEM));
	for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		info = one_sided_info(versions[i], 0, i ? modes | FI_MR_ENDPOINT : modes);
		CHECK(info);
		one_sided_layer(info);
		fi_freeinfo(info);
		info = one_sided_info(versions[i], FI_MSG, i ? modes | FI_MR_ENDPOINT : modes);
		CHECK(info);
		two_sided_layer(info);
		fi_freeinfo(info);
	}
	memory_monitor();
	return 0;
}
