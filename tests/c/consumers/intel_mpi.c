/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As Intel MPI: symbols of old versions looked up in the library that the environment names,
 * interface versions 0.0 and 1.5, everything else through the tables of the objects.
 */
#include "consumer.h"

#include <dlfcn.h>

#define DIRECTED	0x6000000000000000ull
#define ANY_SOURCE	0x6fffff00000fffffull

enum { BUFFERS = 8, BUFFER = 64 << 10 };

static int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		       struct fi_info **);
static void (*freeinfo)(struct fi_info *);
static struct fi_info *(*dupinfo)(const struct fi_info *);
static char *(*to_string)(const void *, enum fi_type);
static struct fi_context2 context[16];
static unsigned char out[BUFFER], in[BUFFER];

static void look_up(void)
{
	void *library = dlopen("libfabric.so.1", RTLD_NOW);
	int (*open_fabric)(struct fi_fabric_attr *, struct fid_fabric **, void *);
	const char *(*error_text)(int);

	if (!library)
		FAIL("%s", dlerror());
	getinfo = dlvsym(library, "fi_getinfo", "FABRIC_1.3");
	freeinfo = dlvsym(library, "fi_freeinfo", "FABRIC_1.3");
	dupinfo = dlvsym(library, "fi_dupinfo", "FABRIC_1.3");
	open_fabric = dlvsym(library, "fi_fabric", "FABRIC_1.1");
	error_text = dlvsym(library, "fi_strerror", "FABRIC_1.0");
	to_string = dlvsym(library, "fi_tostr", "FABRIC_1.0");
	CHECK(getinfo && freeinfo && dupinfo && open_fabric && error_text && to_string);
	CHECK(dlvsym(library, "fi_dupinfo", "FABRIC_1.1"));
	EQUAL(strcmp(error_text(FI_ENODATA), fi_strerror(FI_ENODATA)), 0);
	/* The only way it learns the version: "2.6.0", and it warns below 1.9. */
	EQUAL(atoi(to_string("", FI_TYPE_VERSION)), FI_MAJOR(fi_version()));
}

/* Bare: without any attribute of the sides, as it asks for tcp. */
static struct fi_info *discover(int bare)
{
	struct fi_info *list = NULL, *hints, *info = NULL;

	OK(getinfo(FI_VERSION(0, 0), NULL, NULL, 0, NULL, &list));
	CHECK(list);
	EQUAL(list->domain_attr->mr_mode, FI_MR_BASIC);
	EQUAL(list->fabric_attr->api_version, FI_VERSION(0, 0));
	hints = dupinfo(NULL);
	CHECK(hints && hints->tx_attr && hints->rx_attr && hints->ep_attr && hints->domain_attr &&
	      hints->fabric_attr);
	hints->caps = list->caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_ASYNC_IOV | FI_RX_CQ_DATA;
	hints->addr_format = list->addr_format;
	if (!bare) {
		hints->tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
		hints->tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR |
					    FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |
					    FI_ORDER_ATOMIC_WAW;
		hints->rx_attr->op_flags = FI_COMPLETION;
		hints->rx_attr->msg_order = FI_ORDER_SAS;
	}
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->domain_attr->av_type = FI_AV_MAP;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	OK(getinfo(FI_VERSION(1, 5), NULL, NULL, 0, hints, &info));
	EQUAL(info->domain_attr->threading, FI_THREAD_DOMAIN);
	EQUAL(info->domain_attr->av_type, FI_AV_MAP);
	EQUAL(info->domain_attr->mr_mode & ~hints->domain_attr->mr_mode, 0);
	EQUAL(info->fabric_attr->api_version, FI_VERSION(1, 5));
	EQUAL(info->caps, list->caps);
	CHECK(to_string(info, FI_TYPE_INFO)[0]);
	freeinfo(hints);
	freeinfo(list);
	return info;
}

static void send_and_receive(void)
{
	struct iovec iov[3] = { { out, 10 }, { out + 10, 1000 }, { out + 1010, 3 } };

	fill(out, BUFFER, 3);
	PUT(fi_tinject(a.ep, out, 100, a.peer, 9));
	PUT(fi_trecv(b.ep, in, 100, NULL, b.peer, 9, DIRECTED, &context[0]));
	DONE(&b, &context[0], FI_TAGGED | FI_RECV);
	CHECK_FILL(in, 100, 3);
	PUT(fi_trecv(b.ep, in, BUFFER, NULL, FI_ADDR_UNSPEC, 9, ANY_SOURCE, &context[0]));
	PUT(fi_tsend(a.ep, out, BUFFER, NULL, a.peer, 9, &context[1]));
	DONE(&b, &context[0], FI_TAGGED | FI_RECV);
	CHECK_FILL(in, BUFFER, 3);
	DONE(&a, &context[1], FI_TAGGED | FI_SEND);
	PUT(fi_recv(b.ep, in, BUFFER, NULL, FI_ADDR_UNSPEC, &context[0]));
	PUT(fi_sendv(a.ep, iov, NULL, 3, a.peer, &context[1]));
	DONE(&b, &context[0], FI_MSG | FI_RECV);
	DONE(&a, &context[1], FI_MSG | FI_SEND);
	CHECK_FILL(in, 1013, 3);
	SILENT();
}

/* At the end each posted buffer is cancelled, and an error is waited for. */
static void cancel_at_finalize(void)
{
	static unsigned char buffers[BUFFERS][BUFFER];
	struct fi_cq_err_entry err;
	struct fi_cq_tagged_entry entry;
	struct iovec iov = { NULL, BUFFER };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };
	int i;

	for (i = 0; i < BUFFERS; i++) {
		iov.iov_base = buffers[i];
		msg.context = &context[i];
		OK(fi_recvmsg(b.ep, &msg, FI_MULTI_RECV | FI_COMPLETION));
	}
	/* One is in use. */
	PUT(fi_inject(a.ep, out, 64, a.peer));
	COMPLETES(&b, &entry);
	CHECK(entry.op_context == &context[0] && !(entry.flags & FI_MULTI_RECV));
	for (i = 0; i < BUFFERS; i++) {
		OK(fi_cancel(&b.ep->fid, &context[i]));
		memset(&err, 0, sizeof(err));
		FAILS(&b, &context[i], FI_ECANCELED, &err);
		EQUAL(err.err, 125);
		CHECK(err.flags & FI_MULTI_RECV);
		/* Cancelled already: nothing more comes of it. */
		fi_cancel(&b.ep->fid, &context[i]);
	}
	SILENT();
	PUT(fi_inject(a.ep, out, 64, a.peer));
	SILENT();
}

static void windows(void)
{
	struct fid_mr *mr;
	struct iovec iov = { out, 4096 };
	struct fi_rma_iov remote = { .len = 4096 };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = a.peer,
				  .rma_iov = &remote, .rma_iov_count = 1, .context = &context[0] };

	OK(fi_mr_reg(b.domain, in, sizeof(in), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 5, 0, &mr,
		     NULL));
	remote.key = fi_mr_key(mr);
	remote.addr = remote_address(&b, in, 0);
	fill(out, 4096, 12);
	PUT(fi_writemsg(a.ep, &msg, FI_DELIVERY_COMPLETE));
	COUNTED(a.cntr, 1);
	CHECK_FILL(in, 4096, 12);
	memset(out, 0, 4096);
	PUT(fi_readmsg(a.ep, &msg, 0));
	COUNTED(a.cntr, 2);
	CHECK_FILL(out, 4096, 12);
	PUT(fi_inject_write(a.ep, out, 8, a.peer, remote.addr, remote.key));
	COUNTED(a.cntr, 3);
	SILENT();
	OK(fi_close(&mr->fid));
}

static void run(int bare)
{
	const size_t least = 0x4000;
	struct objects objects = {
		.av_type = FI_AV_MAP, .av_count = 2, .format = FI_CQ_FORMAT_TAGGED,
		.cq_flags = FI_SELECTIVE_COMPLETION, .cntr_flags = FI_READ | FI_WRITE,
	};
	struct fi_info *info = discover(bare);
	char name[1024];
	size_t length = sizeof(name);

	if (bare) {
		objects.cq_size = 1024;
		objects.cq_flags = objects.cntr_flags = 0;
	}
	open_both(info, &objects);
	OK(fi_getname(&a.ep->fid, name, &length));
	CHECK(length < 100);
	/* After enabling, too. */
	OK(fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	CHECK(query_atomics(a.ep, 14, 19) > 0);
	send_and_receive();
	if (!bare)
		windows();
	cancel_at_finalize();
	close_both();
	freeinfo(info);
}

int main(void)
{
	alarm(DEADLINE);
	look_up();
	run(0);
	run(1);
	return 0;
}
