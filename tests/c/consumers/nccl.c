/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As the network plugin of NCCL for libfabric: refused on shared memory for the wish to reach
 * other hosts; without it, and over TCP, its options are answered as it tolerates and its
 * protocols work.
 */
#include "refused.h"

#include <stdbool.h>

enum { SIZE = 1 << 20 };

static struct fi_context2 context[4];
static unsigned char *local, *remote;

static struct fi_info *hints_of(uint64_t caps, enum fi_threading threading)
{
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints);
	hints->caps = FI_LOCAL_COMM | FI_MSG | caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = threading;
	hints->domain_attr->control_progress = FI_PROGRESS_UNSPEC;
	hints->domain_attr->data_progress = FI_PROGRESS_UNSPEC;
	return hints;
}

static struct fi_info *discover(uint64_t caps, enum fi_threading threading)
{
	struct fi_info *hints = hints_of(caps | FI_REMOTE_COMM, threading), *info = NULL;

	if (!over_tcp())
		refused(FI_VERSION(1, 18), hints, "FI_REMOTE_COMM");
	fi_freeinfo(hints);
	hints = hints_of(caps | FI_REMOTE_COMM | FI_HMEM, threading);
	refused(FI_VERSION(1, 20), hints, "FI_HMEM");
	fi_freeinfo(hints);
	hints = hints_of(caps | (over_tcp() ? FI_REMOTE_COMM : 0), threading);
	hints->domain_attr->cq_data_size = 4;
	OK(fi_getinfo(FI_VERSION(1, 18), NULL, NULL, 0, hints, &info));
	EQUAL(info->domain_attr->threading, threading);
	CHECK(info->domain_attr->mr_key_size > 0);
	EQUAL(info->domain_attr->mr_mode & ~hints->domain_attr->mr_mode, 0);
	fi_freeinfo(hints);
	return info;
}

/* Unsupported ones are answered with one of two codes; all others make the plugin give up. */
static void options(struct fid_ep *ep)
{
	static const int known[] = {
		FI_OPT_FI_HMEM_P2P, FI_OPT_XPU_TRIGGER,
		/* Newer than some headers. */
		10 /* CUDA_API_PERMITTED */, 11 /* SHARED_MEMORY_PERMITTED */,
		12 /* MAX_MSG_SIZE */, 20 /* FIREWALL_ADDR */,
		FI_OPT_BUFFERED_LIMIT, 1000, -1,
		(int) 0xefa00001, (int) 0xefa00007, (int) (1u << 31),
	};
	int level, ret;
	size_t i, inject = 0, length;
	bool no = false;
	size_t large = 8 << 20;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		for (level = FI_OPT_ENDPOINT; level < 3; level++) {
			ret = fi_setopt(&ep->fid, level, known[i], &no, sizeof(no));
			CHECK(ret == 0 || ret == -FI_ENOPROTOOPT || ret == -FI_EOPNOTSUPP);
			ret = fi_setopt(&ep->fid, level, known[i], &large, sizeof(large));
			CHECK(ret == 0 || ret == -FI_ENOPROTOOPT || ret == -FI_EOPNOTSUPP);
		}
	}
	length = sizeof(inject);
	ret = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, 18 /* INJECT_RMA_SIZE */, &inject, &length);
	CHECK(ret == -FI_ENOPROTOOPT || (ret == 0 && inject > 0));
}

static struct fid_mr *registered(struct side *s, void *base, uint64_t access)
{
	struct iovec iov = { base, SIZE };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = access,
				   .requested_key = 3, .iface = FI_HMEM_SYSTEM };
	struct fid_mr *mr;

	OK(fi_mr_regattr(s->domain, &attr, 0, &mr));
	if (s->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(mr, &s->ep->fid, 0));
		OK(fi_mr_enable(mr));
	}
	CHECK(fi_mr_key(mr) != FI_KEY_NOTAVAIL);
	return mr;
}

/* Tagged messages, one at a time, small and large. */
static void send_receive_protocol(void)
{
	const struct objects objects = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_info *info = discover(FI_TAGGED, FI_THREAD_SAFE);
	struct fid_mr *mine, *theirs;
	size_t size;

	open_both(info, &objects);
	options(a.ep);
	mine = registered(&a, local, FI_SEND | FI_RECV);
	theirs = registered(&b, remote, FI_SEND | FI_RECV);
	for (size = 1; size <= SIZE; size *= 8) {
		fill(local, size, size);
		PUT(fi_trecv(b.ep, remote, size, fi_mr_desc(theirs), FI_ADDR_UNSPEC, size, 0,
			     &context[0]));
		PUT(fi_tsend(a.ep, local, size, fi_mr_desc(mine), a.peer, size, &context[1]));
		DONE(&b, &context[0], FI_TAGGED | FI_RECV);
		DONE(&a, &context[1], FI_TAGGED | FI_SEND);
		CHECK_FILL(remote, size, size);
	}
	OK(fi_close(&mine->fid));
	OK(fi_close(&theirs->fid));
	close_both();
	fi_freeinfo(info);
}

/* Control messages are posted as vectors, written data goes with its immediate value. */
static void with_vectors(void *mine_desc, void *theirs_desc, uint64_t base, uint64_t key)
{
	struct iovec from[2] = { { local, 100 }, { local + 5000, 28 } };
	struct iovec to = { remote + SIZE / 2, 4096 };
	void *descs[2] = { mine_desc, mine_desc };
	const struct fi_msg send = { .msg_iov = from, .desc = descs, .iov_count = 2, .addr = a.peer,
				     .context = &context[1] };
	const struct fi_msg receive = { .msg_iov = &to, .desc = &theirs_desc, .iov_count = 1,
					.addr = FI_ADDR_UNSPEC, .context = &context[0] };
	const struct fi_rma_iov target = { .addr = base, .len = 128, .key = key };
	const struct fi_msg_rma write = { .msg_iov = from, .desc = descs, .iov_count = 2,
					  .addr = a.peer, .rma_iov = &target, .rma_iov_count = 1,
					  .context = &context[2], .data = 78 };
	struct fi_cq_tagged_entry entry;

	fill(local, SIZE, 3);
	PUT(fi_recvmsg(b.ep, &receive, FI_COMPLETION));
	PUT(fi_sendmsg(a.ep, &send, FI_COMPLETION));
	COMPLETES(&b, &entry);
	CHECK(entry.op_context == &context[0]);
	EQUAL(entry.len, 128);
	DONE(&a, &context[1], FI_MSG | FI_SEND);
	CHECK(!memcmp(remote + SIZE / 2, local, 100));
	CHECK(!memcmp(remote + SIZE / 2 + 100, local + 5000, 28));
	PUT(fi_writemsg(a.ep, &write, FI_REMOTE_CQ_DATA | FI_COMPLETION));
	COMPLETES(&b, &entry);
	EQUAL(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	EQUAL(entry.data, 78);
	DONE(&a, &context[2], FI_RMA | FI_WRITE);
	CHECK(!memcmp(remote, remote + SIZE / 2, 128));
}

/* What has been written is seen once a read of one's own memory has come back. */
static void flush(void *desc, uint64_t base, uint64_t key)
{
	char name[256];
	size_t length = sizeof(name);
	fi_addr_t self;

	OK(fi_getname(&b.ep->fid, name, &length));
	EQUAL(fi_av_insert(b.av, name, 1, &self, 0, NULL), 1);
	PUT(fi_read(b.ep, remote + SIZE - 8, 8, desc, self, base, key, &context[3]));
	DONE(&b, &context[3], FI_RMA | FI_READ);
	CHECK(!memcmp(remote + SIZE - 8, remote, 8));
}

/* Control messages, then writes whose end the target is told, and reads. */
static void one_sided_protocol(void)
{
	const struct objects objects = { .format = FI_CQ_FORMAT_DATA };
	struct fi_info *info = discover(FI_RMA, FI_THREAD_COMPLETION);
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mine, *theirs;
	uint64_t base, key;

	open_both(info, &objects);
	options(a.ep);
	mine = registered(&a, local, FI_SEND | FI_RECV | FI_WRITE | FI_READ);
	theirs = registered(&b, remote, FI_RECV | FI_REMOTE_WRITE | FI_REMOTE_READ);
	base = remote_address(&b, remote, 0);
	key = fi_mr_key(theirs);
	fill(local, SIZE, 2);
	PUT(fi_recv(b.ep, remote, 128, fi_mr_desc(theirs), FI_ADDR_UNSPEC, &context[0]));
	PUT(fi_send(a.ep, local, 128, fi_mr_desc(mine), a.peer, &context[1]));
	DONE(&b, &context[0], FI_MSG | FI_RECV);
	DONE(&a, &context[1], FI_MSG | FI_SEND);
	PUT(fi_writedata(a.ep, local, SIZE, fi_mr_desc(mine), 77, a.peer, base, key,
			 &context[2]));
	COMPLETES(&b, &entry);
	EQUAL(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	EQUAL(entry.data, 77);
	CHECK_FILL(remote, SIZE, 2);
	DONE(&a, &context[2], FI_RMA | FI_WRITE);
	PUT(fi_write(a.ep, local + 1, 10, fi_mr_desc(mine), a.peer, base, key, &context[2]));
	DONE(&a, &context[2], FI_RMA | FI_WRITE);
	PUT(fi_read(a.ep, local, SIZE, fi_mr_desc(mine), a.peer, base, key, &context[3]));
	DONE(&a, &context[3], FI_RMA | FI_READ);
	CHECK(!memcmp(local, remote, SIZE));
	with_vectors(fi_mr_desc(mine), fi_mr_desc(theirs), base, key);
	flush(fi_mr_desc(theirs), base, key);
	SILENT();
	OK(fi_close(&mine->fid));
	OK(fi_close(&theirs->fid));
	close_both();
	fi_freeinfo(info);
}

int main(void)
{
	alarm(DEADLINE);
	local = malloc(SIZE);
	remote = malloc(SIZE);
	CHECK(local && remote);
	send_receive_protocol();
	one_sided_protocol();
	free(local);
	free(remote);
	return 0;
}
