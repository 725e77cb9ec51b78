/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * As NIXL's libfabric plugin: it asks for other hosts, which shared memory does not reach.
 * What it does with regions and remote CQ data is done without that wish there, and with it
 * over TCP.
 */
#include "refused.h"

enum { SIZE = 1 << 20, PIECES = 8 };

#define BASIC_MODES	(FI_MR_BASIC | FI_MR_SCALABLE)

static struct fi_context2 context[PIECES + 2];
static unsigned char *local, *remote;

static struct fi_info *hints_of_a_rail(const char *device, uint64_t caps, int mr_mode)
{
	struct fi_info *hints = fi_allocinfo();

	CHECK(hints);
	hints->caps = FI_MSG | FI_RMA | caps;
	hints->mode = FI_CONTEXT;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = mr_mode;
	hints->domain_attr->threading = FI_THREAD_COMPLETION;
	hints->domain_attr->name = device ? strdup(device) : NULL;
	hints->fabric_attr->prov_name = strdup(over_tcp() ? "tcp" : "shm");
	return hints;
}

/* The first device that is listed, and then that one with all wishes that it can fulfil. */
static struct fi_info *discover(void)
{
	const uint64_t both = FI_LOCAL_COMM | FI_REMOTE_COMM;
	struct fi_info *hints = hints_of_a_rail(NULL, both, ~BASIC_MODES), *info = NULL;
	char *device = strdup("shm");

	if (over_tcp()) {
		OK(fi_getinfo(FI_VERSION(1, 18), NULL, NULL, 0, hints, &info));
		EQUAL(strcmp(info->fabric_attr->prov_name, "tcp"), 0);
		free(device);
		device = strdup(info->domain_attr->name);
		fi_freeinfo(info);
		info = NULL;
	} else {
		refused(FI_VERSION(1, 18), hints, "FI_REMOTE_COMM");
	}
	fi_freeinfo(hints);
	hints = hints_of_a_rail(device, both | FI_HMEM, FI_MR_LOCAL | FI_MR_ALLOCATED);
	refused(FI_VERSION(1, 18), hints, "FI_HMEM");
	fi_freeinfo(hints);
	hints = hints_of_a_rail(device, over_tcp() ? both : FI_LOCAL_COMM,
				FI_MR_LOCAL | FI_MR_ALLOCATED);
	free(device);
	OK(fi_getinfo(FI_VERSION(1, 18), NULL, NULL, 0, hints, &info));
	/* Neither virtual addresses nor keys of the provider may come back. */
	EQUAL(info->domain_attr->mr_mode & ~(FI_MR_LOCAL | FI_MR_ALLOCATED), 0);
	EQUAL(info->domain_attr->threading, FI_THREAD_COMPLETION);
	CHECK(info->domain_attr->cq_data_size >= 4);
	fi_freeinfo(hints);
	return info;
}

static void messages(void)
{
	struct iovec iov = { remote, 4096 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
			      .context = &context[0] };
	struct fi_cq_tagged_entry entry;

	OK(fi_recvmsg(b.ep, &msg, 0));
	fill(local, 1000, 1);
	PUT(fi_senddata(a.ep, local, 1000, NULL, 0x80000001, a.peer, &context[1]));
	COMPLETES(&b, &entry);
	CHECK(entry.op_context == &context[0]);
	EQUAL(entry.flags, FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA);
	EQUAL(entry.data, 0x80000001);
	EQUAL(entry.len, 1000);
	CHECK_FILL(remote, 1000, 1);
	DONE(&a, &context[1], FI_MSG | FI_SEND);
}

/* Pieces of one transfer, each told to the target; it counts them. */
static void transfers(void)
{
	struct fid_mr *mine, *theirs;
	struct iovec iov = { .iov_len = SIZE / PIECES };
	struct fi_rma_iov target = { .len = SIZE / PIECES };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = a.peer,
				  .rma_iov = &target, .rma_iov_count = 1 };
	struct fi_cq_tagged_entry entry;
	void *desc;
	int i, told = 0;

	const struct iovec whole = { local, SIZE };
	const struct fi_mr_attr attr = { .mr_iov = &whole, .iov_count = 1, .requested_key = 1,
					 .access = FI_WRITE | FI_READ, .iface = FI_HMEM_SYSTEM };

	OK(fi_mr_regattr(a.domain, &attr, 0, &mine));
	OK(fi_mr_reg(b.domain, remote, SIZE, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 2, 0, &theirs,
		     NULL));
	EQUAL(fi_mr_key(theirs), 2);
	desc = fi_mr_desc(mine);
	msg.desc = &desc;
	fill(local, SIZE, 9);
	memset(remote, 0, SIZE);
	target.key = fi_mr_key(theirs);
	for (i = 0; i < PIECES; i++) {
		iov.iov_base = local + (size_t) i * iov.iov_len;
		/* Addressed by offset, since nobody asked for virtual addresses. */
		target.addr = (uint64_t) i * iov.iov_len;
		msg.context = &context[i];
		msg.data = 500 + (uint64_t) i;
		PUT(fi_writemsg(a.ep, &msg, FI_REMOTE_CQ_DATA | (i < PIECES - 1 ? FI_MORE : 0)));
	}
	for (; told < PIECES; told++) {
		COMPLETES(&b, &entry);
		EQUAL(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		CHECK(entry.data >= 500 && entry.data < 500 + PIECES);
		/* What is told has arrived. */
		CHECK(!memcmp(remote + (entry.data - 500) * iov.iov_len,
			      local + (entry.data - 500) * iov.iov_len, iov.iov_len));
	}
	for (i = 0; i < PIECES; i++)
		DONE(&a, &context[i], FI_RMA | FI_WRITE);
	memset(local, 0, SIZE);
	target.addr = 0;
	target.len = iov.iov_len = SIZE;
	iov.iov_base = local;
	msg.context = &context[0];
	PUT(fi_readmsg(a.ep, &msg, 0));
	DONE(&a, &context[0], FI_RMA | FI_READ);
	CHECK_FILL(local, SIZE, 9);
	/* A blocking read takes what is there. */
	PUT(fi_read(a.ep, local, 8, desc, a.peer, 8, target.key, &context[1]));
	while (fi_cq_read(a.cq, NULL, 0) == -FI_EAGAIN)
		drive();
	EQUAL(fi_cq_sread(a.cq, &entry, 1, NULL, 1000), 1);
	CHECK(entry.op_context == &context[1] && !memcmp(local, remote + 8, 8));
	/* Beyond the end of the region. */
	PUT(fi_read(a.ep, local, 8, desc, a.peer, SIZE - 4, target.key, &context[1]));
	{
		struct fi_cq_err_entry err = { .err_data_size = 0 };
		ssize_t ret;

		while ((ret = fi_cq_read(a.cq, &entry, 1)) == -FI_EAGAIN)
			drive();
		EQUAL(ret, -FI_EAVAIL);
		EQUAL(fi_cq_readerr(a.cq, &err, 0), 1);
		CHECK(err.op_context == &context[1] && err.err > 0);
		CHECK(strlen(fi_cq_strerror(a.cq, err.prov_errno, err.err_data, NULL, 0)) > 0);
	}
	SILENT();
	OK(fi_close(&mine->fid));
	OK(fi_close(&theirs->fid));
}

int main(void)
{
	const struct objects objects = { .format = FI_CQ_FORMAT_DATA, .cq_size = 12288 };
	struct fi_info *info;

	alarm(DEADLINE);
	local = malloc(SIZE);
	remote = malloc(SIZE);
	CHECK(local && remote);
	info = discover();
	open_both(info, &objects);
	messages();
	transfers();
	close_both();
	fi_freeinfo(info);
	free(local);
	free(remote);
	return 0;
}
