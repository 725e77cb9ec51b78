/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A server whose connected endpoints receive from one context, and its clients: whose completion
 * queue hears of a message, what waits for a receive, and what is left when an endpoint ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../pair.h"

enum { CLIENTS = 3, ROOM = 256 << 10, LARGE = 20 << 20 };

struct end {
	struct fid_eq	*eq;
	struct fid_cq	*cq;
	struct fid_ep	*ep;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *context;
static struct end client[CLIENTS], server[CLIENTS];
static struct fi_context2 op[16];
static unsigned char *out, *in;

static void drive(void)
{
	uint32_t event;
	int i;

	for (i = 0; i < CLIENTS; i++) {
		struct end *const ends[] = { &client[i], &server[i] };
		size_t k;

		for (k = 0; k < 2; k++) {
			if (ends[k]->cq)
				fi_cq_read(ends[k]->cq, NULL, 0);
			if (ends[k]->eq)
				fi_eq_read(ends[k]->eq, &event, NULL, 0, FI_PEEK);
		}
	}
}

static void open_end(struct end *end, struct fi_info *of)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_eq_attr eq = { .wait_obj = FI_WAIT_NONE };
	char byte;

	OK(fi_eq_open(fabric, &eq, &end->eq, NULL));
	OK(fi_cq_open(domain, &cq, &end->cq, NULL));
	OK(fi_endpoint(domain, of, &end->ep, NULL));
	OK(fi_ep_bind(end->ep, &end->eq->fid, 0));
	OK(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
	EQUAL(fi_recv(end->ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
	EQUAL(fi_enable(end->ep), -FI_EOPBADSTATE);
	OK(fi_ep_bind(end->ep, &context->fid, 0));
	EQUAL(fi_ep_bind(end->ep, &context->fid, 0), -FI_EINVAL);
	OK(fi_enable(end->ep));
	EQUAL(fi_recv(end->ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPNOTSUPP);
	EQUAL(fi_trecv(end->ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), -FI_EOPNOTSUPP);
}

static void close_end(struct end *end)
{
	OK(fi_close(&end->ep->fid));
	OK(fi_close(&end->cq->fid));
	OK(fi_close(&end->eq->fid));
	memset(end, 0, sizeof(*end));
}

/* The next event of a queue. */
static uint32_t happens(struct fid_eq *eq, struct fi_eq_cm_entry *entry)
{
	uint32_t event;
	ssize_t ret;

	while ((ret = fi_eq_read(eq, &event, entry, sizeof(*entry), 0)) == -FI_EAGAIN)
		drive();
	CHECK(ret >= (ssize_t) sizeof(*entry));
	return event;
}

static void connect_all(void)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fi_eq_cm_entry entry;
	struct fid_pep *pep;
	struct fid_eq *eq;
	char name[128];
	size_t length = sizeof(name);
	int i;

	OK(fi_eq_open(fabric, &attr, &eq, NULL));
	OK(fi_passive_ep(fabric, info, &pep, NULL));
	OK(fi_pep_bind(pep, &eq->fid, 0));
	OK(fi_listen(pep));
	OK(fi_getname(&pep->fid, name, &length));
	for (i = 0; i < CLIENTS; i++) {
		open_end(&client[i], info);
		OK(fi_connect(client[i].ep, name, NULL, 0));
		EQUAL(happens(eq, &entry), FI_CONNREQ);
		EQUAL(entry.info->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
		open_end(&server[i], entry.info);
		OK(fi_accept(server[i].ep, NULL, 0));
		fi_freeinfo(entry.info);
		EQUAL(happens(server[i].eq, &entry), FI_CONNECTED);
		EQUAL(happens(client[i].eq, &entry), FI_CONNECTED);
	}
	OK(fi_close(&pep->fid));
	OK(fi_close(&eq->fid));
}

static void next(struct end *end, struct fi_cq_tagged_entry *entry)
{
	ssize_t ret;

	memset(entry, 0, sizeof(*entry));
	while ((ret = fi_cq_read(end->cq, entry, 1)) == -FI_EAGAIN)
		drive();
	EQUAL(ret, 1);
}

/* A client's send completes. */
static void sent(struct end *end, void *what)
{
	struct fi_cq_tagged_entry entry;

	next(end, &entry);
	CHECK(entry.op_context == what);
	CHECK(entry.flags & FI_SEND);
}

static void received(struct end *end, void *what, uint64_t tag, size_t length)
{
	struct fi_cq_tagged_entry entry;

	next(end, &entry);
	CHECK(entry.op_context == what);
	CHECK(entry.flags & FI_RECV);
	EQUAL(entry.tag, tag);
	EQUAL(entry.len, length);
}

static void failed(struct end *end, void *what, int reason)
{
	struct fi_cq_err_entry err = { .err_data_size = 0 };
	struct fi_cq_tagged_entry entry;
	ssize_t ret;

	while ((ret = fi_cq_read(end->cq, &entry, 1)) == -FI_EAGAIN)
		drive();
	EQUAL(ret, -FI_EAVAIL);
	EQUAL(fi_cq_readerr(end->cq, &err, 0), 1);
	CHECK(err.op_context == what);
	EQUAL(err.err, reason);
}

static void post(void *what, uint64_t tag, size_t length)
{
	OK(fi_trecv(context, in, length, NULL, FI_ADDR_UNSPEC, tag, 0, what));
}

/* In the queue of the endpoint that a message comes to, whoever that is; early or late. */
static void whose(void)
{
	int i;

	for (i = 0; i < CLIENTS; i++) {
		fill(out, 1000, (unsigned int) i);
		post(&op[i], 7, 1000);
		OK(fi_tsend(client[i].ep, out, 1000, NULL, 0, 7, &op[8]));
		received(&server[i], &op[i], 7, 1000);
		CHECK_FILL(in, 1000, (unsigned int) i);
		sent(&client[i], &op[8]);
	}
	for (i = 0; i < CLIENTS; i++) {
		fill(out, 1000, (unsigned int) i + 10);
		OK(fi_tsend(client[i].ep, out, 1000, NULL, 0, (uint64_t) i, &op[8]));
		sent(&client[i], &op[8]);
		OK(fi_send(client[i].ep, out, 100, NULL, 0, &op[8]));
		sent(&client[i], &op[8]);
	}
	for (i = 0; i < 200; i++)
		drive();
	for (i = CLIENTS - 1; i >= 0; i--) {
		post(&op[i], (uint64_t) i, 1000);
		received(&server[i], &op[i], (uint64_t) i, 1000);
		CHECK_FILL(in, 1000, (unsigned int) i + 10);
	}
	for (i = 0; i < CLIENTS; i++) {
		OK(fi_recv(context, in, 1000, NULL, FI_ADDR_UNSPEC, &op[i]));
		received(&server[i], &op[i], 0, 100);
	}
}

/* More than is kept for anybody waits in the sockets, and comes when there are receives. */
static void stalled(void)
{
	int i;

	for (i = 0; i < CLIENTS; i++)
		OK(fi_send(client[i].ep, out, LARGE, NULL, 0, &op[8]));
	for (i = 0; i < 2000; i++)
		drive();
	for (i = 0; i < CLIENTS; i++) {
		struct fi_cq_tagged_entry entry;
		int k = 0;

		OK(fi_recv(context, in, LARGE, NULL, FI_ADDR_UNSPEC, &op[0]));
		while (fi_cq_read(server[k].cq, &entry, 1) != 1) {
			drive();
			k = (k + 1) % CLIENTS;
		}
		CHECK(entry.op_context == &op[0]);
		EQUAL(entry.len, LARGE);
	}
	for (i = 0; i < CLIENTS; i++)
		sent(&client[i], &op[8]);
}

/* One buffer for the messages of all; it is given back by the endpoint that has the last one. */
static void multi_receive(void)
{
	struct iovec iov = { in, 4096 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC,
			      .context = &op[0] };
	struct fi_cq_tagged_entry entry;
	size_t least = 1024, length = sizeof(least);
	int i;

	OK(fi_setopt(&context->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
		     sizeof(least)));
	least = 0;
	OK(fi_getopt(&context->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, &length));
	EQUAL(least, 1024);
	OK(fi_recvmsg(context, &msg, FI_MULTI_RECV));
	for (i = 0; i < CLIENTS; i++) {
		OK(fi_send(client[i].ep, out, 1200, NULL, 0, &op[8]));
		sent(&client[i], &op[8]);
		next(&server[i], &entry);
		CHECK(entry.op_context == &op[0]);
		CHECK(entry.buf == in + i * 1200);
		EQUAL(!!(entry.flags & FI_MULTI_RECV), i == CLIENTS - 1);
	}
}

/* What no message takes is told to the first; what a leaving endpoint had kept goes with it. */
static void ends(void)
{
	struct fi_eq_cm_entry entry;
	int i;

	post(&op[3], 99, 8);
	OK(fi_cancel(&context->fid, &op[3]));
	failed(&client[0], &op[3], FI_ECANCELED);
	for (i = 0; i < CLIENTS; i++) {
		OK(fi_tsend(client[i].ep, out, 10, NULL, 0, 5, &op[8]));
		sent(&client[i], &op[8]);
	}
	for (i = 0; i < 200; i++)
		drive();
	close_end(&server[0]);
	EQUAL(happens(client[0].eq, &entry), FI_SHUTDOWN);
	/* The connection's end does not take receives along: others may need them. */
	for (i = 1; i < CLIENTS; i++) {
		post(&op[i], 5, 10);
		received(&server[i], &op[i], 5, 10);
	}
	post(&op[4], 6, 10);
	EQUAL(fi_close(&context->fid), -FI_EBUSY);
	close_end(&client[1]);
	EQUAL(happens(server[1].eq, &entry), FI_SHUTDOWN);
	OK(fi_tsend(client[2].ep, out, 10, NULL, 0, 6, &op[8]));
	received(&server[2], &op[4], 6, 10);
	sent(&client[2], &op[8]);
}

int main(void)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_rx_attr attr = { .size = 1024 };
	int i;

	alarm(DEADLINE);
	CHECK(hints);
	hints->caps = FI_MSG | FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_MSG;
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	hints->fabric_attr->prov_name = strdup("tcp");
	OK(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", "0", FI_SOURCE, hints, &info));
	EQUAL(info->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
	out = malloc(LARGE);
	in = malloc(LARGE);
	CHECK(out && in);
	memset(out, 1, LARGE);
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_srx_context(domain, &attr, &context, NULL));
	connect_all();
	whose();
	stalled();
	multi_receive();
	ends();
	for (i = 0; i < CLIENTS; i++) {
		if (client[i].ep)
			close_end(&client[i]);
		if (server[i].ep)
			close_end(&server[i]);
	}
	OK(fi_close(&context->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	free(out);
	free(in);
	return 0;
}
