/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What two endpoints of this library have with each other beyond the common protocol: atomic
 * operations, refusals that leave the connection alone, writes that are done when they succeed.
 */
#include "../consumers/consumer.h"

#include <arpa/inet.h>
#include <fcntl.h>

enum { SIZE = 8 << 20, MOST = 4096 / sizeof(uint64_t), FOREIGN = 99,
       ENDED = -1 };

static const struct objects objects = { .format = FI_CQ_FORMAT_TAGGED };
static struct fi_context2 context[8];
static unsigned char *local, *remote;
static uint64_t *cells;

static struct fi_info *find(enum fi_ep_type type, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int ret;

	CHECK(hints);
	hints->caps = FI_MSG | FI_RMA | caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = type;
	hints->fabric_attr->prov_name = strdup("tcp");
	ret = fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", "0", FI_SOURCE, hints, &info);
	fi_freeinfo(hints);
	CHECK(ret == 0 || ret == -FI_ENODATA);
	return ret ? NULL : info;
}

static struct fid_mr *exposed(void *base, size_t length, uint64_t key)
{
	struct fid_mr *mr;

	OK(fi_mr_reg(b.domain, base, length, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &mr,
		     NULL));
	return mr;
}

/* Only for those who ask, and not on connections. */
static void discovery(void)
{
	struct fi_info *info = find(FI_EP_RDM, 0);
	uint64_t value = 1;
	size_t count;

	CHECK(info);
	EQUAL(info->caps & FI_ATOMIC, 0);
	open_both(info, &objects);
	EQUAL(fi_atomicvalid(a.ep, FI_UINT64, FI_SUM, &count), -FI_EOPNOTSUPP);
	EQUAL(fi_atomic(a.ep, &value, 1, NULL, a.peer, 0, 1, FI_UINT64, FI_SUM, NULL),
	      -FI_EOPNOTSUPP);
	close_both();
	fi_freeinfo(info);
	CHECK(!find(FI_EP_MSG, FI_ATOMIC));
}

/* Each sees what those before it have left. */
static void order(void)
{
	struct fid_mr *mr = exposed(cells, 4096, 1);
	uint64_t values[] = { 5, 7, 100 }, old[4], wanted = 12;

	memset(cells, 0, 4096);
	PUT(fi_write(a.ep, &values[0], 8, NULL, a.peer, 0, 1, &context[0]));
	PUT(fi_fetch_atomic(a.ep, &values[1], 1, NULL, &old[0], NULL, a.peer, 0, 1, FI_UINT64,
			    FI_SUM, &context[1]));
	PUT(fi_fetch_atomic(a.ep, NULL, 1, NULL, &old[1], NULL, a.peer, 0, 1, FI_UINT64,
			    FI_ATOMIC_READ, &context[2]));
	PUT(fi_compare_atomic(a.ep, &values[2], 1, NULL, &wanted, NULL, &old[2], NULL, a.peer, 0,
			      1, FI_UINT64, FI_CSWAP, &context[3]));
	PUT(fi_atomic(a.ep, &values[0], 1, NULL, a.peer, 0, 1, FI_UINT64, FI_SUM, &context[4]));
	PUT(fi_read(a.ep, &old[3], 8, NULL, a.peer, 0, 1, &context[5]));
	DONE(&a, &context[0], FI_RMA | FI_WRITE);
	DONE(&a, &context[1], FI_ATOMIC | FI_READ);
	DONE(&a, &context[2], FI_ATOMIC | FI_READ);
	DONE(&a, &context[3], FI_ATOMIC | FI_READ);
	DONE(&a, &context[4], FI_ATOMIC | FI_WRITE);
	DONE(&a, &context[5], FI_RMA | FI_READ);
	EQUAL(old[0], 5);
	EQUAL(old[1], 12);
	EQUAL(old[2], 12);
	EQUAL(old[3], 105);
	OK(fi_close(&mr->fid));
}

/* As much as there can be: operands and comparands of all cells. */
static void large(void)
{
	struct fid_mr *mr = exposed(cells, 4096, 1);
	uint64_t operand[MOST + 1], compare[MOST], old[MOST];
	size_t count = 0, i;

	OK(fi_compare_atomicvalid(a.ep, FI_UINT64, FI_CSWAP, &count));
	EQUAL(count, MOST);
	for (i = 0; i < MOST; i++) {
		cells[i] = i;
		operand[i] = 1000 + i;
		compare[i] = i % 2 ? i : 0;
	}
	PUT(fi_compare_atomic(a.ep, operand, MOST, NULL, compare, NULL, old, NULL, a.peer, 0, 1,
			      FI_UINT64, FI_CSWAP, &context[0]));
	memset(operand, 0xee, sizeof(operand));
	memset(compare, 0xee, sizeof(compare));
	DONE(&a, &context[0], FI_ATOMIC | FI_READ);
	for (i = 0; i < MOST; i++) {
		EQUAL(old[i], i);
		EQUAL(cells[i], i % 2 || !i ? 1000 + i : i);
	}
	EQUAL(fi_atomic(a.ep, operand, MOST + 1, NULL, a.peer, 0, 1, FI_UINT64, FI_SUM, NULL),
	      -FI_EMSGSIZE);
	OK(fi_close(&mr->fid));
}

/* One more operation of a has ended, as it should. */
static void ends_as(int *expected)
{
	struct fi_cq_err_entry err = { .err_data_size = 0 };
	struct fi_cq_tagged_entry entry;
	const struct fi_context2 *what;
	ssize_t ret;
	size_t at;

	do {
		drive();
		ret = fi_cq_read(a.cq, &entry, 1);
	} while (ret == -FI_EAGAIN);
	if (ret == -FI_EAVAIL)
		EQUAL(fi_cq_readerr(a.cq, &err, 0), 1);
	else
		EQUAL(ret, 1);
	what = ret == 1 ? entry.op_context : err.op_context;
	at = what ? (size_t) (what - context) : 8;
	CHECK(at <= 8);
	EQUAL(ret == 1 ? 0 : err.err, expected[at]);
	expected[at] = ENDED;
}

/* Between operations that are refused, others are served as if nothing was. */
static void refusals(void)
{
	struct fid_mr *mr = exposed(remote, SIZE, 1), *narrow;
	/* By context; the last is what has none. */
	int expected[9] = { FI_ENOKEY, 0, FI_EINVAL, FI_EACCES, FI_EACCES, FI_EINVAL, ENDED, 0,
			    FI_ENOKEY };
	uint64_t one = 1, old;
	int i;

	OK(fi_mr_reg(b.domain, cells, 4096, FI_REMOTE_READ, 0, 2, 0, &narrow, NULL));
	memset(cells, 0, 4096);
	fill(local, SIZE, 3);
	PUT(fi_write(a.ep, local, 1 << 20, NULL, a.peer, 0, FOREIGN, &context[0]));
	PUT(fi_write(a.ep, local, SIZE, NULL, a.peer, 0, 1, &context[1]));
	PUT(fi_read(a.ep, local, 8, NULL, a.peer, SIZE - 4, 1, &context[2]));
	PUT(fi_write(a.ep, local, 8, NULL, a.peer, 0, 2, &context[3]));
	PUT(fi_fetch_atomic(a.ep, &one, 1, NULL, &old, NULL, a.peer, 0, 2, FI_UINT64, FI_SUM,
			    &context[4]));
	PUT(fi_atomic(a.ep, &one, 1, NULL, a.peer, 4, 1, FI_UINT64, FI_SUM, &context[5]));
	PUT(fi_inject_write(a.ep, local, 8, a.peer, 0, FOREIGN));
	PUT(fi_recv(b.ep, remote, 100, NULL, FI_ADDR_UNSPEC, &context[6]));
	PUT(fi_send(a.ep, local, 100, NULL, a.peer, &context[7]));
	for (i = 0; i < 8; i++)
		ends_as(expected);
	DONE(&b, &context[6], FI_MSG | FI_RECV);
	CHECK(!memcmp(local + 100, remote + 100, SIZE - 100));
	EQUAL(cells[0], 0);
	SILENT();
	OK(fi_close(&narrow->fid));
	OK(fi_close(&mr->fid));
}

/* A region that is closed while bytes for it are on their way takes no more of them. */
static void withdrawn(void)
{
	struct fid_mr *mr = exposed(remote, SIZE, 1);
	struct fi_cq_err_entry err = { .err_data_size = 0 };

	memset(remote, 0, SIZE);
	PUT(fi_write(a.ep, local, SIZE, NULL, a.peer, 0, 1, &context[0]));
	while (!remote[0])
		drive_side(&b);
	OK(fi_close(&mr->fid));
	remote[SIZE - 1] = 0;
	FAILS(&a, &context[0], FI_ENOKEY, &err);
	EQUAL(remote[SIZE - 1], 0);
	mr = exposed(remote, SIZE, 1);
	PUT(fi_write(a.ep, local, SIZE, NULL, a.peer, 0, 1, &context[0]));
	DONE(&a, &context[0], FI_RMA | FI_WRITE);
	CHECK(!memcmp(local, remote, SIZE));
	OK(fi_close(&mr->fid));
}

/* Down to persistent memory, as far as a test can tell. */
static void committed(void)
{
	struct fid_mr *mr = exposed(remote, SIZE, 1);
	struct iovec iov = { local, SIZE - 1 };
	struct fi_rma_iov target = { .addr = 1, .len = SIZE - 1, .key = 1 };
	struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = a.peer,
				  .rma_iov = &target, .rma_iov_count = 1,
				  .context = &context[0] };
	uint64_t one = 1;
	struct fi_ioc ioc = { &one, 1 };
	struct fi_rma_ioc cell = { .addr = 0, .count = 1, .key = 1 };
	struct fi_msg_atomic atomic = { .msg_iov = &ioc, .iov_count = 1, .addr = a.peer,
					.rma_iov = &cell, .rma_iov_count = 1,
					.datatype = FI_UINT64, .op = FI_ATOMIC_WRITE,
					.context = &context[1] };

	CHECK(a.info->caps & FI_RMA_PMEM);
	memset(remote, 0, SIZE);
	PUT(fi_writemsg(a.ep, &msg, FI_COMPLETION | FI_COMMIT_COMPLETE));
	DONE(&a, &context[0], FI_RMA | FI_WRITE);
	CHECK(!memcmp(local, remote + 1, SIZE - 1));
	PUT(fi_atomicmsg(a.ep, &atomic, FI_COMPLETION | FI_COMMIT_COMPLETE));
	DONE(&a, &context[1], FI_ATOMIC | FI_WRITE);
	EQUAL(*(uint64_t *) remote, 1);
	OK(fi_close(&mr->fid));
}

/* A peer that says nothing of itself but the eight bytes that all do. */
static void others(void)
{
	static const unsigned char head[32] = { 3, 1, 0, 8, [24] = 1 };
	unsigned char message[300];
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	const int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct fi_cq_err_entry err = { .err_data_size = 0 };
	uint64_t one = 1;
	fi_addr_t other;
	int peer;

	CHECK(listener >= 0 && !bind(listener, (struct sockaddr *) &address, length) &&
	      !listen(listener, 1) &&
	      !getsockname(listener, (struct sockaddr *) &address, &length) &&
	      !fcntl(listener, F_SETFL, O_NONBLOCK));
	EQUAL(fi_av_insert(a.av, &address, 1, &other, 0, NULL), 1);
	PUT(fi_atomic(a.ep, &one, 1, NULL, other, 0, 1, FI_UINT64, FI_SUM, &context[0]));
	PUT(fi_send(a.ep, &one, 8, NULL, other, &context[1]));
	while ((peer = accept(listener, NULL, NULL)) < 0)
		drive();
	CHECK(!fcntl(peer, F_SETFL, O_NONBLOCK));
	while (recv(peer, message, sizeof(message), 0) < 0)
		drive();
	/* Its record comes back behind the head, with an answered version. */
	memmove(message, head, sizeof(head));
	message[32] = 0x81;
	EQUAL(send(peer, message, 40, 0), 40);
	FAILS(&a, &context[0], FI_EOPNOTSUPP, &err);
	DONE(&a, &context[1], FI_MSG | FI_SEND);
	while (recv(peer, message, sizeof(message), 0) < 0)
		drive();
	EQUAL(message[1], 0);
	close(peer);
	close(listener);
}

int main(void)
{
	struct fi_info *info;

	alarm(DEADLINE);
	local = malloc(SIZE);
	remote = malloc(SIZE);
	cells = aligned_alloc(64, 4096);
	CHECK(local && remote && cells);
	discovery();
	info = find(FI_EP_RDM, FI_ATOMIC | FI_RMA_PMEM);
	CHECK(info);
	EQUAL(info->caps & FI_ATOMIC, FI_ATOMIC);
	open_both(info, &objects);
	order();
	large();
	refusals();
	withdrawn();
	committed();
	others();
	close_both();
	fi_freeinfo(info);
	free(local);
	free(remote);
	free(cells);
	return 0;
}
