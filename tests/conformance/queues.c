/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How endpoints and completion queues go together: selective completion, sharing, room. */
#include "groups.h"
#include "remote.h"

static ssize_t send_with(struct side *s, uint64_t flags, void *context)
{
	struct iovec iov = { s->out, 8 };
	struct fi_msg msg = {
		.msg_iov = &iov, .desc = &s->out_desc, .iov_count = 1, .addr = s->peer,
		.context = context,
	};

	return fi_sendmsg(s->ep, &msg, flags);
}

static void selective(struct side *s, uint64_t defaults)
{
	side_info(s);
	/* What an endpoint does by default is its opener's to say. */
	s->info->tx_attr->op_flags = defaults;
	s->info->rx_attr->op_flags = defaults;
	side_objects(s);
	side_connect(s);
	side_buffers(s);
	barrier(s);
	for (int i = 0; s->role == 1 && i < 4; i++)
		OK(fi_recv(s->ep, s->in, 64, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	if (s->role == 0) {
		POST(s, fi_inject(s->ep, s->out, 8, s->peer));
		POST(s, send_with(s, 0, &s->ctx[1]));
		POST(s, send_with(s, FI_COMPLETION, &s->ctx[2]));
		FINISHED(s, s->tx, &s->ctx[2], FI_MSG | FI_SEND, 8);
		POST(s, fi_send(s->ep, s->out, 8, s->out_desc, s->peer, &s->ctx[3]));
		if (defaults & FI_COMPLETION)
			FINISHED(s, s->tx, &s->ctx[3], FI_MSG | FI_SEND, 8);
	} else {
		for (int i = 0; defaults & FI_COMPLETION && i < 4; i++)
			FINISHED(s, s->rx, &s->ctx[i], FI_MSG | FI_RECV, 8);
	}
	barrier(s);
	QUIET(s, s->tx);
	QUIET(s, s->rx);
	barrier(s);
	side_close(s);
}

static void selective_silent(struct side *s)
{
	selective(s, 0);
}

static void selective_default(struct side *s)
{
	selective(s, FI_COMPLETION);
}

static void want_selective(struct wish *wish)
{
	wish->bind_flags = FI_SELECTIVE_COMPLETION;
}

/* No entry was asked for, and yet the failure has one. */
static void silent_error(struct side *s)
{
	struct fi_cq_err_entry err;
	struct remote r;

	side_info(s);
	s->info->tx_attr->op_flags = 0;
	side_objects(s);
	side_connect(s);
	side_buffers(s);
	remote_open(s, &r);
	if (s->role == 0) {
		/* At other levels it may be complete before the target has looked at it. */
		POST(s, write_with(s, s->out, 8, r.far.addr, r.far.key + 12345, FI_DELIVERY_COMPLETE,
				   0, &s->ctx[1]));
		REFUSAL(s, FI_ENOKEY, &s->ctx[1], &err);
		POST(s, fi_read(s->ep, s->out, 8, s->out_desc, s->peer, r.far.addr + ARENA, r.far.key,
				&s->ctx[2]));
		REFUSAL(s, FI_EINVAL, &s->ctx[2], &err);
		QUIET(s, s->tx);
	}
	remote_close(s, &r);
	side_close(s);
}

/* Both directions of an endpoint write to one queue. */
static void one_queue(struct side *s)
{
	struct fi_cq_attr attr = { .format = s->wish.format };
	struct fi_av_attr av = { .type = s->wish.av_type };
	int sent = 0, received = 0;

	side_info(s);
	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
	OK(fi_av_open(s->domain, &av, &s->av, NULL));
	OK(fi_cq_open(s->domain, &attr, &s->tx, NULL));
	OK(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	OK(fi_ep_bind(s->ep, &s->av->fid, 0));
	OK(fi_ep_bind(s->ep, &s->tx->fid, FI_TRANSMIT | FI_RECV));
	side_connect(s);
	side_buffers(s);
	for (int i = 0; i < 20; i++)
		OK(fi_recv(s->ep, s->in, 64, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	for (int i = 0; i < 20; i++)
		POST(s, fi_send(s->ep, s->out, 8, s->out_desc, s->peer, &s->ctx[20 + i]));
	while (sent < 20 || received < 20) {
		struct done done;

		COMPLETION(s, s->tx, &done);
		if (done.context == &s->ctx[received])
			received++;
		else if (done.context == &s->ctx[20 + sent])
			sent++;
		else
			FAIL("context %p, after %d sent and %d received", done.context, sent,
			     received);
	}
	QUIET(s, s->tx);
	barrier(s);
	side_close(s);
}

/* A second endpoint on the same queues, which the other side knows, too. */
static void shared_queues(struct side *s)
{
	char mine[256] = "", theirs[256] = "";
	size_t len = sizeof(mine);
	fi_addr_t second;
	struct fid_ep *ep;
	struct done done;
	int seen[2] = { 0 };

	OK(fi_endpoint(s->domain, s->info, &ep, NULL));
	OK(fi_ep_bind(ep, &s->av->fid, 0));
	OK(fi_ep_bind(ep, &s->tx->fid, FI_TRANSMIT));
	OK(fi_ep_bind(ep, &s->rx->fid, FI_RECV));
	OK(fi_enable(ep));
	OK(fi_getname(&ep->fid, mine, &len));
	swap(s, mine, theirs, sizeof(mine));
	EQUAL(fi_av_insert(s->av, theirs, 1, &second, 0, NULL), 1);
	for (int i = 0; i < 20; i++)
		OK(fi_recv(i % 2 ? ep : s->ep, s->in, 64, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
	barrier(s);
	for (int i = 0; i < 20; i++)
		POST(s, fi_send(i % 2 ? ep : s->ep, s->out, 8, s->out_desc,
				i % 4 < 2 ? s->peer : second, &s->ctx[20 + i]));
	for (int i = 0; i < 20; i++) {
		COMPLETION(s, s->tx, &done);
		COMPLETION(s, s->rx, &done);
		seen[((struct fi_context2 *) done.context - s->ctx) % 2]++;
	}
	EQUAL(seen[0], 10);
	EQUAL(seen[1], 10);
	QUIET(s, s->tx);
	QUIET(s, s->rx);
	barrier(s);
	EQUAL(fi_close(&s->rx->fid), -FI_EBUSY);
	OK(fi_close(&ep->fid));
}

/* Queues of four entries, and nobody reads until everything has been sent or does not go on. */
static void tiny_queue(struct side *s)
{
	enum { COUNT = 300 };
	struct fid_cq *cq = s->role ? s->rx : s->tx;
	int posted = 0, seen = 0;
	double late = 0;

	while (seen < COUNT) {
		struct fi_cq_tagged_entry entry;
		ssize_t ret = -FI_EAGAIN;

		if (posted < COUNT)
			ret = s->role ? fi_recv(s->ep, s->in, 64, s->in_desc, FI_ADDR_UNSPEC,
						&s->ctx[posted % CONTEXTS]) :
			      fi_send(s->ep, s->out, 8, s->out_desc, s->peer,
				      &s->ctx[posted % CONTEXTS]);
		if (!ret) {
			posted++;
			continue;
		}
		EQUAL(ret, -FI_EAGAIN);
		ret = fi_cq_read(cq, &entry, 1);
		late_at(HERE, &late, "a completion");
		if (ret == 1)
			CHECK(entry.op_context == &s->ctx[seen++ % CONTEXTS]);
		else
			EQUAL(ret, -FI_EAGAIN);
		progress(s);
	}
	QUIET(s, cq);
	barrier(s);
}

static void want_tiny(struct wish *wish)
{
	wish->cq_size = 4;
}

static const struct conformance_case queues_cases[] = {
	{ "selective-silent", "fi_endpoint(3)", "With FI_SELECTIVE_COMPLETION only operations flagged FI_COMPLETION write entries.",
	  FI_MSG, EP_RDM, VARY_FORMAT, 1, want_selective, selective_silent },
	{ "selective-default", "fi_endpoint(3)", "FI_COMPLETION as a default flag holds for calls without flags, not for those with.",
	  FI_MSG, EP_RDM, VARY_FORMAT, 1, want_selective, selective_default },
	{ "silent-error", "fi_cq(3)", "A failure writes an entry whether or not one was asked for.",
	  FI_RMA, EP_RDM, VARY_MR, 1, want_selective, silent_error },
	{ "one-queue", "fi_endpoint(3)", "One queue may take the completions of both directions.",
	  FI_MSG, EP_RDM, VARY_FORMAT | VARY_THREADING, 1, NULL, one_queue },
	{ "shared-queues", "fi_endpoint(3)", "Several endpoints may write to the same queues, which are busy until the last is closed.",
	  FI_MSG, EP_RDM, VARY_THREADING, 0, NULL, shared_queues },
	{ "tiny-queue", "fi_domain(3)", "With resource management no completion is lost for lack of room in a queue.",
	  FI_MSG, EP_RELIABLE, VARY_PROGRESS, 0, want_tiny, tiny_queue },
};
GROUP(queues);
