/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Opening, binding, enabling and closing. Both sides do the same, each on its own. */
#include "groups.h"

static struct fid_cq *open_queue(struct side *s)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };
	struct fid_cq *cq;

	OK(fi_cq_open(s->domain, &attr, &cq, NULL));
	return cq;
}

static struct fid_cntr *open_counter(struct side *s)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE };
	struct fid_cntr *cntr;

	OK(fi_cntr_open(s->domain, &attr, &cntr, NULL));
	return cntr;
}

static struct fid_av *open_vector(struct side *s)
{
	struct fi_av_attr attr = { .type = s->wish.av_type };
	struct fid_av *av;

	OK(fi_av_open(s->domain, &attr, &av, NULL));
	return av;
}

static struct fid_eq *open_events(struct side *s)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_eq *eq;

	OK(fi_eq_open(s->fabric, &attr, &eq, NULL));
	return eq;
}

static struct fid_ep *open_endpoint(struct side *s)
{
	struct fid_ep *ep;

	OK(fi_endpoint(s->domain, s->info, &ep, NULL));
	return ep;
}

static void only_domain(struct side *s)
{
	side_info(s);
	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
}

/* While the child is open the parent is busy, and goes on as if nothing had been. */
static void busy(struct fid *parent, struct fid *child)
{
	for (int i = 0; i < 2; i++)
		EQUAL(fi_close(parent), -FI_EBUSY);
	OK(fi_close(child));
}

static void children(struct side *s)
{
	char byte = 0;
	struct fid_mr *mr;

	only_domain(s);
	busy(&s->domain->fid, &open_queue(s)->fid);
	busy(&s->domain->fid, &open_counter(s)->fid);
	busy(&s->domain->fid, &open_vector(s)->fid);
	busy(&s->domain->fid, &open_endpoint(s)->fid);
	if (s->info->caps & (FI_RMA | FI_ATOMIC)) {
		OK(fi_mr_reg(s->domain, &byte, 1, FI_REMOTE_READ, 0, 1, 0, &mr, NULL));
		busy(&s->domain->fid, &mr->fid);
	}
	EQUAL(fi_close(&s->fabric->fid), -FI_EBUSY);
	OK(fi_close(&s->domain->fid));
	busy(&s->fabric->fid, &open_events(s)->fid);
	OK(fi_domain(s->fabric, s->info, &s->domain, NULL));
	busy(&s->fabric->fid, &s->domain->fid);
	s->domain = NULL;
	side_close(s);
}

/* What an endpoint uses is busy before and after enabling. */
static void bound(struct side *s)
{
	struct fid_cntr *cntr;
	struct fid_eq *eq;

	side_info(s);
	side_objects(s);
	cntr = open_counter(s);
	eq = open_events(s);
	OK(fi_ep_bind(s->ep, &cntr->fid, FI_SEND));
	OK(fi_ep_bind(s->ep, &eq->fid, 0));
	for (int i = 0; i < 2; i++) {
		EQUAL(fi_close(&s->tx->fid), -FI_EBUSY);
		EQUAL(fi_close(&s->rx->fid), -FI_EBUSY);
		EQUAL(fi_close(&s->av->fid), -FI_EBUSY);
		EQUAL(fi_close(&cntr->fid), -FI_EBUSY);
		EQUAL(fi_close(&eq->fid), -FI_EBUSY);
		EQUAL(fi_close(&s->domain->fid), -FI_EBUSY);
		EQUAL(fi_close(&s->fabric->fid), -FI_EBUSY);
		if (i == 0)
			OK(fi_enable(s->ep));
	}
	OK(fi_close(&s->ep->fid));
	s->ep = NULL;
	/* Any order among siblings. */
	OK(fi_close(&eq->fid));
	OK(fi_close(&s->av->fid));
	s->av = NULL;
	OK(fi_close(&cntr->fid));
	side_close(s);
}

/* Operations that are outstanding go with the endpoint. */
static void close_outstanding(struct side *s)
{
	side_open(s);
	for (size_t i = 0; i < 8; i++) {
		OK(fi_recv(s->ep, s->in, 100, s->in_desc, FI_ADDR_UNSPEC, &s->ctx[i]));
		OK(fi_trecv(s->ep, s->in, 100, s->in_desc, FI_ADDR_UNSPEC, i, 0, &s->ctx[8 + i]));
	}
	for (size_t i = 0; i < 4; i++)
		POST(s, fi_tsend(s->ep, s->out, i % 2 ? 300000 : 10, s->out_desc, s->peer, 100,
				 &s->ctx[16 + i]));
	barrier(s);
	OK(fi_close(&s->ep->fid));
	s->ep = NULL;
	/* The memory is the program's again. */
	memset(s->out, 0, ARENA);
	memset(s->in, 0, ARENA);
	barrier(s);
	side_close(s);
}

static void twice(struct side *s)
{
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_cntr *cntr[2];

	side_info(s);
	side_objects(s);
	cq = open_queue(s);
	av = open_vector(s);
	cntr[0] = open_counter(s);
	cntr[1] = open_counter(s);
	EQUAL(fi_ep_bind(s->ep, &cq->fid, FI_TRANSMIT), -FI_EINVAL);
	EQUAL(fi_ep_bind(s->ep, &cq->fid, FI_RECV), -FI_EINVAL);
	EQUAL(fi_ep_bind(s->ep, &cq->fid, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
	EQUAL(fi_ep_bind(s->ep, &av->fid, 0), -FI_EINVAL);
	OK(fi_ep_bind(s->ep, &cntr[0]->fid, FI_SEND | FI_RECV));
	EQUAL(fi_ep_bind(s->ep, &cntr[1]->fid, FI_SEND), -FI_EINVAL);
	/* What was refused is not in use. */
	OK(fi_close(&cq->fid));
	OK(fi_close(&av->fid));
	OK(fi_close(&cntr[1]->fid));
	OK(fi_enable(s->ep));
	OK(fi_close(&s->ep->fid));
	s->ep = NULL;
	OK(fi_close(&cntr[0]->fid));
	side_close(s);
}

static void wrong_class(struct side *s)
{
	struct fid_ep *ep;

	side_info(s);
	side_objects(s);
	ep = open_endpoint(s);
	EQUAL(fi_ep_bind(ep, &s->fabric->fid, 0), -FI_EINVAL);
	EQUAL(fi_ep_bind(ep, &s->domain->fid, 0), -FI_EINVAL);
	EQUAL(fi_ep_bind(ep, &s->ep->fid, 0), -FI_EINVAL);
	EQUAL(fi_ep_bind(ep, &ep->fid, 0), -FI_EINVAL);
	OK(fi_close(&ep->fid));
	side_close(s);
}

static void bind_flags(struct side *s)
{
	struct fid_cntr *cntr;
	struct fid_ep *ep;

	side_info(s);
	side_objects(s);
	ep = open_endpoint(s);
	cntr = open_counter(s);
	EQUAL(fi_ep_bind(ep, &s->tx->fid, FI_TRANSMIT | FI_PEEK), -FI_EBADFLAGS);
	EQUAL(fi_ep_bind(ep, &cntr->fid, FI_SEND | FI_PEEK), -FI_EBADFLAGS);
	EQUAL(fi_ep_bind(ep, &s->av->fid, FI_SEND), -FI_EBADFLAGS);
	OK(fi_close(&cntr->fid));
	OK(fi_close(&ep->fid));
	side_close(s);
}

static void enabling(struct side *s)
{
	struct fid_ep *ep;
	int ret;

	side_info(s);
	side_objects(s);
	ep = open_endpoint(s);
	OK(fi_ep_bind(ep, &s->tx->fid, FI_TRANSMIT | FI_RECV));
	/* The manual names no error of its own for this one. */
	ret = fi_enable(ep);
	CHECK(ret == -FI_ENOAV || ret == -FI_EOPBADSTATE);
	OK(fi_ep_bind(ep, &s->av->fid, 0));
	OK(fi_enable(ep));
	OK(fi_close(&ep->fid));
	ep = open_endpoint(s);
	OK(fi_ep_bind(ep, &s->av->fid, 0));
	EQUAL(fi_enable(ep), -FI_ENOCQ);
	OK(fi_ep_bind(ep, &s->tx->fid, FI_TRANSMIT));
	EQUAL(fi_enable(ep), -FI_ENOCQ);
	OK(fi_ep_bind(ep, &s->rx->fid, FI_RECV));
	OK(fi_enable(ep));
	/* Too late now. */
	EQUAL(fi_ep_bind(ep, &s->av->fid, 0) < 0, 1);
	OK(fi_close(&ep->fid));
	side_close(s);
}

static void want_send(struct wish *wish)
{
	wish->caps = FI_MSG | FI_SEND;
}

/* An endpoint that only sends needs no queue for receives. */
static void only_sends(struct side *s)
{
	struct fid_ep *ep;

	side_info(s);
	side_objects(s);
	ep = open_endpoint(s);
	OK(fi_ep_bind(ep, &s->av->fid, 0));
	OK(fi_ep_bind(ep, &s->tx->fid, FI_TRANSMIT));
	OK(fi_enable(ep));
	OK(fi_close(&ep->fid));
	side_close(s);
}

/* Two endpoints of one domain, vector and queue. */
static void two_endpoints(struct side *s)
{
	struct fid_ep *ep[2];
	char name[256];
	fi_addr_t at[2];
	int sent = 0, received = 0;

	side_info(s);
	side_objects(s);
	side_buffers(s);
	for (int i = 0; i < 2; i++) {
		size_t len = sizeof(name);

		memset(name, 0, sizeof(name));
		ep[i] = open_endpoint(s);
		OK(fi_ep_bind(ep[i], &s->av->fid, 0));
		OK(fi_ep_bind(ep[i], &s->rx->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_enable(ep[i]));
		OK(fi_getname(&ep[i]->fid, name, &len));
		EQUAL(fi_av_insert(s->av, name, 1, &at[i], 0, NULL), 1);
	}
	CHECK(at[0] != at[1]);
	fill(s->out, 300000, 4);
	for (int i = 0; i < 2; i++)
		OK(fi_recv(ep[i], s->in + ((size_t) i << 20), 300000, s->in_desc, FI_ADDR_UNSPEC,
			   &s->ctx[i]));
	for (int i = 0; i < 2; i++)
		POST(s, fi_send(ep[i], s->out, 300000, s->out_desc, at[!i], &s->ctx[2 + i]));
	while (sent + received < 4) {
		struct done done;

		COMPLETION(s, s->rx, &done);
		sent += done.context == &s->ctx[2] || done.context == &s->ctx[3];
		received += done.context == &s->ctx[0] || done.context == &s->ctx[1];
	}
	EQUAL(sent, 2);
	for (size_t i = 0; i < 2; i++)
		FILLED(s->in + (i << 20), 300000, 4);
	for (int i = 0; i < 2; i++)
		OK(fi_close(&ep[i]->fid));
	side_close(s);
}

static void fabric_twice(struct side *s)
{
	struct fid_fabric *fabric;
	struct fid_domain *domain[2];

	only_domain(s);
	OK(fi_fabric(s->info->fabric_attr, &fabric, s));
	CHECK(fabric->fid.context == s);
	OK(fi_domain(fabric, s->info, &domain[0], NULL));
	OK(fi_domain(fabric, s->info, &domain[1], s));
	CHECK(domain[1]->fid.context == s && domain[0] != domain[1]);
	busy(&fabric->fid, &domain[0]->fid);
	EQUAL(fi_close(&fabric->fid), -FI_EBUSY);
	OK(fi_close(&domain[1]->fid));
	OK(fi_close(&fabric->fid));
	side_close(s);
}

/* An info that is a copy, or has been put together from names. */
static void own_info(struct side *s)
{
	struct fi_info *copy;
	struct fi_fabric_attr attr = { 0 };
	struct fid_fabric *fabric = NULL;
	struct fid_domain *domain;

	only_domain(s);
	copy = fi_dupinfo(s->info);
	CHECK(copy);
	OK(fi_domain(s->fabric, copy, &domain, NULL));
	OK(fi_close(&domain->fid));
	fi_freeinfo(copy);
	attr.name = s->info->fabric_attr->name;
	attr.prov_name = s->info->fabric_attr->prov_name;
	attr.api_version = s->info->fabric_attr->api_version;
	OK(fi_fabric(&attr, &fabric, NULL));
	OK(fi_close(&fabric->fid));
	fabric = NULL;
	attr.prov_name = (char *) "no_such_provider";
	EQUAL(fi_fabric(&attr, &fabric, NULL) < 0, 1);
	EQUAL(fi_fabric(NULL, &fabric, NULL), -FI_EINVAL);
	CHECK(!fabric);
	side_close(s);
}

static void queue_attributes(struct side *s)
{
	const struct fi_cq_attr bad[] = {
		{ .format = (enum fi_cq_format) 77 },
		{ .wait_obj = (enum fi_wait_obj) 77 },
		{ .flags = FI_PEEK },
	};
	struct fi_cq_attr large = { .size = 5000, .format = FI_CQ_FORMAT_TAGGED };
	struct fid_cq *cq = NULL;

	only_domain(s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fi_cq_attr attr = bad[i];

		EQUAL(fi_cq_open(s->domain, &attr, &cq, NULL) < 0, 1);
		CHECK(!cq);
	}
	EQUAL(fi_cq_open(s->domain, NULL, &cq, NULL), -FI_EINVAL);
	OK(fi_cq_open(s->domain, &large, &cq, s));
	CHECK(cq->fid.context == s);
	EQUAL(cq->fid.fclass, FI_CLASS_CQ);
	EQUAL(fi_cq_read(cq, NULL, 0), -FI_EAGAIN);
	OK(fi_close(&cq->fid));
	side_close(s);
}

#define BOTH	(FI_MSG | FI_TAGGED)

static const struct conformance_case objects_cases[] = {
	{ "children", "fi_domain(3)", "A fabric or domain with anything open in it is -FI_EBUSY to close, and stays as it was.",
	  FI_MSG | FI_RMA, EP_RDM, VARY_AV, 1, NULL, children },
	{ "bound", "fi_endpoint(3)", "What is bound to an endpoint is -FI_EBUSY to close until the endpoint has been closed.",
	  FI_MSG, EP_RDM, VARY_PROGRESS, 1, NULL, bound },
	{ "close-outstanding", "fi_endpoint(3)", "An endpoint can be closed whatever is outstanding, and its buffers are free then.",
	  BOTH, EP_RDM, VARY_PROGRESS, 1, NULL, close_outstanding },
	{ "bind-twice", "fi_endpoint(3)", "There is one vector, and one queue and counter for each direction.",
	  FI_MSG, EP_RDM, 0, 1, NULL, twice },
	{ "bind-wrong-class", "fi_endpoint(3)", "What an endpoint has no use for is -FI_EINVAL to bind.",
	  FI_MSG, EP_RDM, 0, 1, NULL, wrong_class },
	{ "bind-flags", "fi_endpoint(3)", "Flags that mean nothing to a binding are -FI_EBADFLAGS.",
	  FI_MSG, EP_RDM, 0, 1, NULL, bind_flags },
	{ "enable", "fi_endpoint(3)", "Enabling without vector or queue is refused, with -FI_ENOCQ for a queue, and can be tried again.",
	  FI_MSG, EP_RDM, 0, 1, NULL, enabling },
	{ "only-sends", "fi_endpoint(3)", "A queue is needed for the directions only that the endpoint has.",
	  FI_MSG, EP_RDM, 0, 1, want_send, only_sends },
	{ "two-endpoints", "fi_endpoint(3)", "Endpoints of one domain, vector and queue have addresses of their own and reach each other.",
	  FI_MSG, EP_RDM, VARY_AV | VARY_PROGRESS, 1, NULL, two_endpoints },
	{ "fabric-twice", "fi_fabric(3)", "A fabric and a domain can be opened several times; the context of each is its own.",
	  FI_MSG, EP_RDM, 0, 1, NULL, fabric_twice },
	{ "own-info", "fi_fabric(3)", "A copy of an info, or attributes with its names, open the same objects; unknown names none.",
	  FI_MSG, EP_RDM, 0, 1, NULL, own_info },
	{ "queue-attributes", "fi_cq(3)", "Attributes outside their enumerations are refused when a queue is opened.",
	  FI_MSG, EP_RDM, 0, 1, NULL, queue_attributes },
};
GROUP(objects);
