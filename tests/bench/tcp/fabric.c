/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The same over the provider tcp of the libfabric that the loader finds, or tcp;ofi_rxm.
 *
 *	fabric server|client rdm-tagged|rdm-msg|rxm-tagged|rxm-msg|msg NODE PORT
 *		latency|rate|announced|bandwidth|sizes COUNT
 *
 * Everything is posted and completed as MPI libraries do it: one queue, many entries in a read.  With
 * "announced" it is the window of "rate", each message but the last with the promise of another one
 * (FI_MORE), which a provider may keep until then.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "measure.h"

#define TAG		42
#define ENTRIES		64
#define NAME_MAX_LEN	64

#define OK(call) \
	do { \
		int result = (int) (call); \
		if (result) \
			fail("%s: %s", #call, fi_strerror(-result)); \
	} while (0)

static int is_server, is_connected, is_tagged, is_announced;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep;
static fi_addr_t peer = FI_ADDR_UNSPEC;
/* Of what was posted and has not ended. */
static int sends, receives;
static struct fi_context2 contexts[2][SMALL_WINDOW];

/* Takes what has completed. */
static void reap(void)
{
	struct fi_cq_tagged_entry entries[ENTRIES];
	struct fi_cq_err_entry error = { 0 };
	ssize_t n = fi_cq_read(cq, entries, ENTRIES);

	if (n == -FI_EAGAIN)
		return;
	if (n < 0) {
		fi_cq_readerr(cq, &error, 0);
		fail("completion: %s", fi_strerror(error.err ? error.err : (int) -n));
	}
	for (ssize_t i = 0; i < n; i++) {
		if (entries[i].flags & FI_RECV)
			receives--;
		else
			sends--;
	}
}

/* Sends with the promise to send more. */
static ssize_t announce(char *at, size_t size, void *context)
{
	const struct iovec iov = { at, size };
	const struct fi_msg msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = peer, .context = context,
	};
	const struct fi_msg_tagged tagged = {
		.msg_iov = &iov, .iov_count = 1, .addr = peer, .tag = TAG, .context = context,
	};

	return is_tagged ? fi_tsendmsg(ep, &tagged, FI_COMPLETION | FI_MORE)
			 : fi_sendmsg(ep, &msg, FI_COMPLETION | FI_MORE);
}

static void post(int is_send, int more, char *at, size_t size, void *context)
{
	ssize_t result;

	for (;;) {
		if (more)
			result = announce(at, size, context);
		else if (is_send)
			result = is_tagged ? fi_tsend(ep, at, size, NULL, peer, TAG, context)
					   : fi_send(ep, at, size, NULL, peer, context);
		else
			result = is_tagged ? fi_trecv(ep, at, size, NULL, FI_ADDR_UNSPEC, TAG, 0,
						      context)
					   : fi_recv(ep, at, size, NULL, FI_ADDR_UNSPEC, context);
		if (result != -FI_EAGAIN)
			break;
		reap();
	}
	if (result)
		fail("post: %s", fi_strerror((int) -result));
	if (is_send)
		sends++;
	else
		receives++;
}

static void expect(int count, size_t size)
{
	for (int i = 0; i < count; i++)
		post(0, 0, incoming + (size_t) i * size, size, &contexts[0][i]);
}

static void send_all(int count, size_t size)
{
	for (int i = 0; i < count; i++)
		post(1, is_announced && i + 1 < count, outgoing + (size_t) i * size, size,
		     &contexts[1][i]);
}

static void finish(void)
{
	while (sends || receives)
		reap();
}

/* Waits for an event of connections; the info of a request is the caller's. */
static struct fi_info *event(uint32_t wanted)
{
	struct fi_eq_cm_entry entry;
	uint32_t found;
	ssize_t n = fi_eq_sread(eq, &found, &entry, sizeof(entry), DEADLINE * 1000, 0);

	if (n < 0 || found != wanted)
		fail("no event %u: %s", wanted, n < 0 ? fi_strerror((int) -n) : "another one came");
	return entry.info;
}

static void open_endpoint(void)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };

	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	OK(fi_endpoint(domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	if (is_connected) {
		OK(fi_ep_bind(ep, &eq->fid, 0));
	} else {
		OK(fi_av_open(domain, &av_attr, &av, NULL));
		OK(fi_ep_bind(ep, &av->fid, 0));
	}
	OK(fi_enable(ep));
}

static void insert(const void *address)
{
	if (fi_av_insert(av, address, 1, &peer, 0, NULL) != 1)
		fail("the peer's address is refused");
}

/* Reliable datagrams: the server learns the client's address from its first message. */
static void introduce(void)
{
	char name[NAME_MAX_LEN] = "";
	size_t size = sizeof(name);

	open_endpoint();
	if (is_server) {
		post(0, 0, name, sizeof(name), &contexts[0][0]);
		ready();
		finish();
		insert(name);
	} else {
		OK(fi_getname(&ep->fid, name, &size));
		insert(info->dest_addr);
		post(1, 0, name, sizeof(name), &contexts[1][0]);
		finish();
	}
}

static void connect_endpoints(void)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_pep *pep;

	OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	if (is_server) {
		OK(fi_passive_ep(fabric, info, &pep, NULL));
		OK(fi_pep_bind(pep, &eq->fid, 0));
		OK(fi_listen(pep));
		ready();
		info = event(FI_CONNREQ);
		open_endpoint();
		OK(fi_accept(ep, NULL, 0));
	} else {
		open_endpoint();
		OK(fi_connect(ep, info->dest_addr, NULL, 0));
	}
	event(FI_CONNECTED);
}

int main(int argc, char **argv)
{
	const struct carrier carrier = { expect, send_all, finish };
	struct fi_info *hints = fi_allocinfo();

	if (argc != 7 || !hints)
		fail("usage: fabric server|client rdm-tagged|rdm-msg|rxm-tagged|rxm-msg|msg "
		     "NODE PORT latency|rate|announced|bandwidth|sizes COUNT");
	is_announced = !strcmp(argv[5], "announced");
	if (is_announced)
		argv[5] = "rate";
	is_server = !strcmp(argv[1], "server");
	is_connected = !strcmp(argv[2], "msg");
	is_tagged = strstr(argv[2], "-tagged") != NULL;
	hints->caps = is_tagged ? FI_TAGGED : FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = is_connected ? FI_EP_MSG : FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(strncmp(argv[2], "rxm", 3) ? "tcp" : "tcp;ofi_rxm");
	OK(fi_getinfo(FI_VERSION(1, 18), argv[3], argv[4], is_server ? FI_SOURCE : 0, hints,
		      &info));
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	if (is_connected)
		connect_endpoints();
	else
		introduce();
	measure(&carrier, is_server, argv + 5);
	return 0;
}
