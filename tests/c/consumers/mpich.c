/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* As MPICH's ch4:ofi: what it asks for, opens and posts. */
#include "consumer.h"

#define ANY_SOURCE	0x00c000007fffffffull
#define THIS_SOURCE	0x00c0000000000000ull
#define TAG		0x0000000100000007ull

enum { BUFFERS = 8, BUFFER = 64 << 10, LARGE = 1 << 20 };

static unsigned char *out, *in;
static struct fi_context2 context[16];

/* A list without hints, then its first with the settings of the netmod. */
static struct fi_info *discover(void)
{
	struct fi_info *list, *hints, *info;
	const uint32_t version = fi_version();

	OK(fi_getinfo(version, NULL, NULL, 0, NULL, &list));
	CHECK(list->domain_attr->cq_data_size >= 4);
	EQUAL(list->caps & (FI_TAGGED | FI_MSG | FI_MULTI_RECV | FI_RMA | FI_ATOMIC),
	      FI_TAGGED | FI_MSG | FI_MULTI_RECV | FI_RMA | FI_ATOMIC);
	hints = fi_allocinfo();
	CHECK(hints);
	hints->caps = list->caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV | FI_RX_CQ_DATA;
	hints->fabric_attr->prov_name = strdup(list->fabric_attr->prov_name);
	hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	hints->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |
				    FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
	hints->rx_attr->op_flags = FI_COMPLETION;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->ep_attr->type = FI_EP_RDM;
	hints->ep_attr->mem_tag_format = ANY_SOURCE;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_TABLE;
	hints->domain_attr->mr_mode = FI_MR_ENDPOINT;
	hints->domain_attr->cq_data_size = 4;
	hints->domain_attr->mode = FI_RESTRICTED_COMP;
	OK(fi_getinfo(version, NULL, NULL, 0, hints, &info));
	/* It gives up if it does not get the level it asked for, or more of these than it offered. */
	EQUAL(info->domain_attr->threading, FI_THREAD_DOMAIN);
	EQUAL(info->domain_attr->data_progress, FI_PROGRESS_MANUAL);
	EQUAL(info->domain_attr->mr_mode & ~FI_MR_ENDPOINT, 0);
	EQUAL(info->domain_attr->av_type, FI_AV_TABLE);
	EQUAL(info->fabric_attr->api_version, version);
	EQUAL(info->tx_attr->msg_order & hints->tx_attr->msg_order, hints->tx_attr->msg_order);
	EQUAL(info->mode & ~hints->mode, 0);
	CHECK(info->domain_attr->max_ep_tx_ctx == 1);
	CHECK(info->ep_attr->max_msg_size >= LARGE && info->tx_attr->inject_size >= 16);
	fi_freeinfo(hints);
	fi_freeinfo(list);
	return info;
}

static void send_and_receive(void)
{
	struct fi_cq_tagged_entry entry;
	struct iovec iov[2] = { { out, 100 }, { out + 100, 200 } };
	struct fi_msg_tagged msg = { .msg_iov = iov, .iov_count = 2, .addr = a.peer, .tag = TAG,
				     .context = &context[2], .data = 77 };

	fill(out, LARGE, 1);
	/* From one source, then from any. */
	PUT(fi_trecv(b.ep, in, 64, NULL, b.peer, TAG, THIS_SOURCE, &context[0]));
	PUT(fi_tinjectdata(a.ep, out, 64, 5, a.peer, TAG));
	COMPLETES(&b, &entry);
	CHECK(entry.op_context == &context[0]);
	EQUAL(entry.flags, FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);
	EQUAL(entry.data, 5);
	EQUAL(entry.tag, TAG);
	CHECK_FILL(in, 64, 1);

	PUT(fi_trecv(b.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, TAG, ANY_SOURCE, &context[0]));
	PUT(fi_tsenddata(a.ep, out, LARGE, NULL, 6, a.peer, TAG, &context[1]));
	DONE(&b, &context[0], FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);
	DONE(&a, &context[1], FI_TAGGED | FI_SEND);
	CHECK_FILL(in, LARGE, 1);

	PUT(fi_tsendmsg(a.ep, &msg, FI_COMPLETION | FI_REMOTE_CQ_DATA));
	PUT(fi_trecv(b.ep, in, 300, NULL, b.peer, TAG, THIS_SOURCE, &context[0]));
	DONE(&b, &context[0], FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);
	DONE(&a, &context[2], FI_TAGGED | FI_SEND);
	CHECK_FILL(in, 300, 1);

	PUT(fi_tsend(a.ep, out, 300, NULL, a.peer, TAG, &context[1]));
	PUT(fi_trecv(b.ep, in, 100, NULL, FI_ADDR_UNSPEC, TAG, ANY_SOURCE, &context[0]));
	{
		struct fi_cq_err_entry err = { .err_data_size = 0 };

		FAILS(&b, &context[0], FI_ETRUNC, &err);
		EQUAL(err.len, 100);
		EQUAL(err.olen, 200);
	}
	/* What was cut was still delivered. */
	DONE(&a, &context[1], FI_TAGGED | FI_SEND);
	SILENT();
}

static int peek(uint64_t tag, uint64_t flags, void *ctx)
{
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = tag, .ignore = ANY_SOURCE,
				     .context = ctx };

	return (int) fi_trecvmsg(b.ep, &msg, flags);
}

static void probe(void)
{
	struct iovec iov = { in, 128 };
	struct fi_msg_tagged claim = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
				       .tag = TAG, .ignore = ANY_SOURCE,
				       .context = &context[4] };
	char space[64];
	struct fi_cq_err_entry err = { .err_data = space, .err_data_size = sizeof(space) };
	struct fi_cq_tagged_entry entry;
	int ret = peek(TAG, FI_PEEK | FI_COMPLETION, &context[3]);

	if (ret != -FI_ENOMSG) {
		EQUAL(ret, 0);
		FAILS(&b, &context[3], FI_ENOMSG, &err);
		EQUAL(err.flags & (FI_TAGGED | FI_RECV), FI_TAGGED | FI_RECV);
	}
	PUT(fi_tinjectdata(a.ep, out, 128, 9, a.peer, TAG));
	do {
		drive();
		ret = peek(TAG, FI_PEEK | FI_COMPLETION, &context[3]);
		if (ret == 0) {
			ssize_t got;

			while ((got = fi_cq_read(b.cq, &entry, 1)) == -FI_EAGAIN)
				;
			if (got == 1)
				break;
			EQUAL(got, -FI_EAVAIL);
			EQUAL(fi_cq_readerr(b.cq, &err, 0), 1);
			EQUAL(err.err, FI_ENOMSG);
		}
	} while (1);
	EQUAL(entry.len, 128);
	EQUAL(entry.tag, TAG);
	EQUAL(entry.data, 9);
	OK(peek(TAG, FI_PEEK | FI_CLAIM | FI_COMPLETION, &context[4]));
	COMPLETES(&b, &entry);
	EQUAL(entry.len, 128);
	/* Claimed: nobody else sees it. */
	ret = peek(TAG, FI_PEEK | FI_COMPLETION, &context[3]);
	if (ret != -FI_ENOMSG)
		FAILS(&b, &context[3], FI_ENOMSG, &err);
	OK(fi_trecvmsg(b.ep, &claim, FI_CLAIM | FI_COMPLETION));
	COMPLETES(&b, &entry);
	CHECK(entry.op_context == &context[4]);
	CHECK_FILL(in, 128, 1);
	SILENT();
}

/* Eight buffers for many messages each, then one cancellation for each. */
static void active_messages(void)
{
	static unsigned char buffers[BUFFERS][BUFFER];
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { .err_data_size = 0 };
	struct iovec iov = { NULL, BUFFER };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };
	int i, released[BUFFERS] = { 0 }, sent = 0, got = 0;

	for (i = 0; i < BUFFERS; i++) {
		iov.iov_base = buffers[i];
		msg.context = &context[i];
		OK(fi_recvmsg(b.ep, &msg, FI_MULTI_RECV | FI_COMPLETION));
	}
	/* 0x4000 bytes and more are left until a buffer is given back: 12 of 4096 bytes fit. */
	for (sent = 0; sent < 4 * 13; sent++) {
		fill(out, 4096, (size_t) sent);
		if (sent % 2)
			PUT(fi_inject(a.ep, out, 4096, a.peer));
		else
			PUT(fi_send(a.ep, out, 4096, NULL, a.peer, &context[15]));
		do {
			COMPLETES(&b, &entry);
			i = (int) ((struct fi_context2 *) entry.op_context - context);
			CHECK(i >= 0 && i < BUFFERS && !released[i]);
			if (entry.len) {
				CHECK((unsigned char *) entry.buf >= buffers[i]);
				CHECK_FILL(entry.buf, 4096, (size_t) sent);
				got++;
			}
			released[i] = !!(entry.flags & FI_MULTI_RECV);
		} while (!entry.len);
		if (!(sent % 2))
			DONE(&a, &context[15], FI_MSG | FI_SEND);
	}
	EQUAL(got, sent);
	for (i = 0; i < BUFFERS; i++) {
		EQUAL(released[i], i < 4);
		if (released[i])
			continue;
		OK(fi_cancel(&b.ep->fid, &context[i]));
		FAILS(&b, &context[i], FI_ECANCELED, &err);
		EQUAL(err.flags & FI_MULTI_RECV, FI_MULTI_RECV);
	}
	SILENT();
}

/* Windows: completions are counted, after the target's memory has changed, and not reported. */
static void windows(void)
{
	unsigned char *window = calloc(1, LARGE);
	struct fid_mr *mr;
	uint64_t key, base, issued = 0;
	size_t size;

	CHECK(window);
	OK(fi_mr_reg(b.domain, window, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 21, 0, &mr,
		     NULL));
	key = fi_mr_key(mr);
	base = remote_address(&b, window, 0);
	for (size = 1; size <= LARGE; size *= 4) {
		struct iovec iov = { out, size };
		struct fi_rma_iov remote = { .addr = base, .len = size, .key = key };
		struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = a.peer,
					  .rma_iov = &remote, .rma_iov_count = 1,
					  .context = &context[0] };

		fill(out, size, size);
		PUT(fi_writemsg(a.ep, &msg, FI_DELIVERY_COMPLETE));
		COUNTED(a.cntr, ++issued);
		CHECK_FILL(window, size, size);
		iov.iov_base = in;
		memset(in, 0, size);
		PUT(fi_readmsg(a.ep, &msg, 0));
		COUNTED(a.cntr, ++issued);
		CHECK_FILL(in, size, size);
	}
	PUT(fi_inject_write(a.ep, out, 16, a.peer, base, key));
	COUNTED(a.cntr, ++issued);
	SILENT();
	EQUAL(fi_cntr_read(a.cntr), issued);
	/* With the flag there is an entry as well. */
	{
		struct iovec iov = { out, 8 };
		struct fi_rma_iov remote = { .addr = base, .len = 8, .key = key };
		struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = a.peer,
					  .rma_iov = &remote, .rma_iov_count = 1,
					  .context = &context[1] };

		PUT(fi_writemsg(a.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
		DONE(&a, &context[1], FI_RMA | FI_WRITE);
		COUNTED(a.cntr, ++issued);
	}
	OK(fi_close(&mr->fid));
	free(window);
}

static void accumulate(void)
{
	int64_t target = 40, operand = 2, compare = 42, result = 0;
	struct fid_mr *mr;
	uint64_t issued = fi_cntr_read(a.cntr);
	struct fi_ioc ioc = { &operand, 1 }, compare_ioc = { &compare, 1 },
		      result_ioc = { &result, 1 };
	struct fi_rma_ioc remote = { .count = 1 };
	struct fi_msg_atomic msg = { .msg_iov = &ioc, .iov_count = 1, .addr = a.peer,
				     .rma_iov = &remote, .rma_iov_count = 1,
				     .datatype = FI_INT64, .op = FI_SUM };

	OK(fi_mr_reg(b.domain, &target, sizeof(target), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 22,
		     0, &mr, NULL));
	remote.addr = remote_address(&b, &target, 0);
	remote.key = fi_mr_key(mr);
	PUT(fi_atomicmsg(a.ep, &msg, FI_DELIVERY_COMPLETE));
	COUNTED(a.cntr, ++issued);
	EQUAL(target, 42);
	PUT(fi_fetch_atomicmsg(a.ep, &msg, &result_ioc, NULL, 1, 0));
	COUNTED(a.cntr, ++issued);
	EQUAL(result, 42);
	EQUAL(target, 44);
	msg.op = FI_CSWAP;
	compare = 44;
	operand = -1;
	PUT(fi_compare_atomicmsg(a.ep, &msg, &compare_ioc, NULL, 1, &result_ioc, NULL, 1,
				 FI_DELIVERY_COMPLETE));
	COUNTED(a.cntr, ++issued);
	EQUAL(result, 44);
	EQUAL(target, -1);
	SILENT();
	OK(fi_close(&mr->fid));
}

/* Two looks at a name, in 64 bytes; an address is found again. */
static void names(void)
{
	char name[64], again[64];
	size_t length = sizeof(name), second = sizeof(again);

	OK(fi_getname(&b.ep->fid, name, &length));
	OK(fi_getname(&b.ep->fid, again, &second));
	EQUAL(length, second);
	EQUAL(memcmp(name, again, length), 0);
	second = sizeof(again);
	OK(fi_av_lookup(a.av, a.peer, again, &second));
	EQUAL(length, second);
	EQUAL(memcmp(name, again, length), 0);
}

int main(void)
{
	const struct objects objects = {
		.av_type = FI_AV_TABLE, .av_count = 2, .format = FI_CQ_FORMAT_TAGGED,
		.cq_flags = FI_SELECTIVE_COMPLETION, .cntr_flags = FI_READ | FI_WRITE,
		.min_multi_recv = 0x4000,
	};
	struct fi_info *info;

	alarm(DEADLINE);
	out = malloc(LARGE);
	in = malloc(LARGE);
	CHECK(out && in);
	info = discover();
	open_both(info, &objects);
	names();
	CHECK(query_atomics(a.ep, 14, 19) > 0);
	send_and_receive();
	probe();
	active_messages();
	windows();
	accumulate();
	close_both();
	fi_freeinfo(info);
	free(out);
	free(in);
	return 0;
}
