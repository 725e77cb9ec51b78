/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As Mercury's na_ofi over shared memory: no wait object, named endpoints, unexpected messages
 * in both of its ways, regions of several pieces, a log of its own.  The programs in rpc do
 * the rest.
 */
#include "consumer.h"

#include <rdma/fi_ext.h>

/* Marks unexpected messages where tags tell them apart. */
#define UNEXPECTED	(1ull << 32)

enum { PIECES = 4, PIECE = 100000 };

static struct fi_context2 context[8];
static unsigned char bytes[2][PIECES][PIECE + 64];

static struct fi_info *discover(uint32_t version, const char *name)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL, *info = NULL;
	const int modes = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL |
			  FI_MR_ENDPOINT;

	CHECK(hints);
	OK(fi_getinfo(version, NULL, NULL, 0, NULL, &list));
	fi_freeinfo(list);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV;
	hints->mode = FI_ASYNC_IOV | FI_CONTEXT;
	hints->addr_format = FI_ADDR_STR;
	hints->ep_attr->type = FI_EP_RDM;
	hints->ep_attr->protocol = FI_PROTO_SHM;
	hints->tx_attr->op_flags = FI_INJECT_COMPLETE;
	hints->tx_attr->size = 512;
	hints->rx_attr->size = 512;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->mr_mode = modes;
	hints->fabric_attr->prov_name = strdup("shm");
	OK(fi_getinfo(version, name, NULL, FI_SOURCE | FI_NUMERICHOST, hints, &info));
	EQUAL(info->addr_format, FI_ADDR_STR);
	EQUAL(strcmp(info->fabric_attr->prov_name, "shm"), 0);
	EQUAL(info->domain_attr->mr_mode & ~modes, 0);
	EQUAL(info->domain_attr->threading, FI_THREAD_SAFE);
	EQUAL(info->tx_attr->op_flags, FI_INJECT_COMPLETE);
	EQUAL(info->tx_attr->size, 512);
	CHECK(info->src_addr && strstr(info->src_addr, name));
	fi_freeinfo(hints);
	return info;
}

/* The tag as remote CQ data, or in the tag. */
static void unexpected(void)
{
	struct fi_cq_tagged_entry entry;

	fill(bytes[0], 2000, 1);
	PUT(fi_recv(b.ep, bytes[1], 4096, NULL, FI_ADDR_UNSPEC, &context[0]));
	PUT(fi_senddata(a.ep, bytes[0], 2000, NULL, 0xfffffff1, a.peer, &context[1]));
	COMPLETES(&b, &entry);
	CHECK(entry.op_context == &context[0] && entry.data == 0xfffffff1);
	EQUAL(entry.flags, FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA);
	DONE(&a, &context[1], FI_MSG | FI_SEND);
	CHECK_FILL(bytes[1], 2000, 1);

	PUT(fi_tsend(a.ep, bytes[0], 1000, NULL, a.peer, UNEXPECTED | 17, &context[1]));
	PUT(fi_trecv(b.ep, bytes[1], 4096, NULL, FI_ADDR_UNSPEC, UNEXPECTED, 0xffffffff,
		     &context[0]));
	COMPLETES(&b, &entry);
	EQUAL(entry.tag, UNEXPECTED | 17);
	DONE(&a, &context[1], FI_TAGGED | FI_SEND);
	/* The answer is expected from that peer alone. */
	PUT(fi_trecv(a.ep, bytes[1], 4096, NULL, a.peer, 17, 0, &context[2]));
	PUT(fi_tsend(b.ep, bytes[0], 1000, NULL, b.peer, 17, &context[3]));
	DONE(&a, &context[2], FI_TAGGED | FI_RECV);
	DONE(&b, &context[3], FI_TAGGED | FI_SEND);
}

/* Each cancellation is one entry, and names its operation. */
static void cancelled(void)
{
	struct fi_cq_err_entry err = { .err_data_size = 0 };
	int i;

	for (i = 0; i < 4; i++)
		PUT(fi_trecv(a.ep, bytes[1], 64, NULL, a.peer, 100 + (uint64_t) i, 0,
			     &context[i]));
	for (i = 3; i >= 0; i--) {
		OK(fi_cancel(&a.ep->fid, &context[i]));
		FAILS(&a, &context[i], FI_ECANCELED, &err);
		EQUAL(err.flags & (FI_TAGGED | FI_RECV), FI_TAGGED | FI_RECV);
	}
	SILENT();
}

static struct fid_mr *registered(struct side *s, int which, uint64_t access)
{
	struct iovec iov[PIECES];
	struct fi_mr_attr attr = { .mr_iov = iov, .iov_count = PIECES, .access = access,
				   .requested_key = 1 };
	struct fid_mr *mr;
	int i;

	CHECK(s->info->domain_attr->mr_iov_limit >= PIECES);
	for (i = 0; i < PIECES; i++) {
		iov[i].iov_base = bytes[which][i];
		iov[i].iov_len = PIECE;
	}
	OK(fi_mr_regattr(s->domain, &attr, 0, &mr));
	if (s->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(mr, &s->ep->fid, 0));
		OK(fi_mr_enable(mr));
	}
	return mr;
}

/* Regions of several pieces, all of them in one operation; gaps stay as they are. */
static void bulk(void)
{
	struct fid_mr *mine = registered(&a, 0, FI_READ | FI_WRITE);
	struct fid_mr *theirs = registered(&b, 1, FI_REMOTE_READ | FI_REMOTE_WRITE);
	struct iovec iov[PIECES];
	struct fi_rma_iov place[PIECES];
	void *desc[PIECES];
	struct fi_msg_rma msg = { .msg_iov = iov, .desc = desc, .iov_count = PIECES,
				  .addr = a.peer, .rma_iov = place, .rma_iov_count = PIECES,
				  .context = &context[0] };
	int i;

	memset(bytes[1], 0x77, sizeof(bytes[1]));
	for (i = 0; i < PIECES; i++) {
		fill(bytes[0][i], PIECE, (size_t) i);
		iov[i].iov_base = bytes[0][i];
		iov[i].iov_len = PIECE;
		desc[i] = fi_mr_desc(mine);
		place[i].len = PIECE;
		place[i].key = fi_mr_key(theirs);
		place[i].addr = remote_address(&b, bytes[1][i], 0);
		if (!place[i].addr)	/* by offset, the pieces are one after the other */
			place[i].addr = (uint64_t) i * PIECE;
	}
	PUT(fi_writemsg(a.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	DONE(&a, &context[0], FI_RMA | FI_WRITE);
	for (i = 0; i < PIECES; i++) {
		CHECK_FILL(bytes[1][i], PIECE, (size_t) i);
		EQUAL(bytes[1][i][PIECE], 0x77);
		memset(bytes[0][i], 0, PIECE);
	}
	PUT(fi_readmsg(a.ep, &msg, FI_COMPLETION));
	DONE(&a, &context[0], FI_RMA | FI_READ);
	for (i = 0; i < PIECES; i++)
		CHECK_FILL(bytes[0][i], PIECE, (size_t) i);
	OK(fi_close(&mine->fid));
	OK(fi_close(&theirs->fid));
}

/* Peers come and go in the address vector, also in the middle of a conversation. */
static void churn(void)
{
	char text[128];
	size_t length;
	int i;

	for (i = 0; i < 500; i++) {
		EQUAL(fi_av_remove(b.av, &b.peer, 1, 0), 0);
		PUT(fi_recv(b.ep, bytes[1], 64, NULL, FI_ADDR_UNSPEC, &context[0]));
		PUT(fi_send(a.ep, bytes[0], 64, NULL, a.peer, &context[1]));
		DONE(&b, &context[0], FI_MSG | FI_RECV);
		DONE(&a, &context[1], FI_MSG | FI_SEND);
		introduce(&b, &a);
		PUT(fi_tsend(b.ep, bytes[0], 64, NULL, b.peer, 5, &context[2]));
		PUT(fi_trecv(a.ep, bytes[1], 64, NULL, a.peer, 5, 0, &context[3]));
		DONE(&a, &context[3], FI_TAGGED | FI_RECV);
		DONE(&b, &context[2], FI_TAGGED | FI_SEND);
	}
	length = sizeof(text);
	CHECK(fi_av_straddr(b.av, a.info->src_addr, text, &length) == text);
	CHECK(strlen(text) + 1 == length);
}

/* A log of its own is taken, or refused with a code. */
static void own_log(void)
{
	struct fid *log = NULL;
	const int ret = fi_open(FI_VERSION(1, 13), "logging", NULL, 0, 0, &log, NULL);

	CHECK(ret == 0 || ret == -FI_ENOSYS);
	if (!ret)
		OK(fi_close(log));
}

int main(void)
{
	static const uint32_t versions[] = { FI_VERSION(1, 9), FI_VERSION(1, 13),
					     FI_VERSION(1, 20) };
	const struct objects objects = { .format = FI_CQ_FORMAT_TAGGED, .cq_size = 131072,
					 .min_multi_recv = 4096 };
	struct fi_info *info[2];
	char name[64];
	size_t i;

	alarm(DEADLINE);
	own_log();
	for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		snprintf(name, sizeof(name), "consumers.a.%d", (int) getpid());
		info[0] = discover(versions[i], name);
		name[10] = 'b';
		info[1] = discover(versions[i], name);
		memset(&a, 0, sizeof(a));
		memset(&b, 0, sizeof(b));
		open_side(&a, info[0], &objects);
		open_side(&b, info[1], &objects);
		introduce(&a, &b);
		introduce(&b, &a);
		unexpected();
		cancelled();
		bulk();
		churn();
		close_both();
		fi_freeinfo(info[0]);
		fi_freeinfo(info[1]);
	}
	return 0;
}
