/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Hints that are wrong in one member, which nothing can match. */
#include "groups.h"

/* Of members of these types, what no provider offers. */
#define BEYOND		((size_t) 1 << 62)
#define UNKNOWN_BIT	(1ull << 47)
#define NO_SUCH		77

static void no_match(const char *what, struct side *s, struct fi_info *hints)
{
	struct fi_info *info = NULL;
	int ret = ask(s->wish.api, hints, &info);

	if (ret != -FI_ENODATA)
		FAIL("with wrong %s fi_getinfo returned %d", what, ret);
	if (info)
		FAIL("with wrong %s fi_getinfo left an info", what);
	fi_freeinfo(hints);
}

/* One member of fresh hints has this value. */
#define WRONG(member, value) \
	do { \
		struct fi_info *hints = wished_hints(s); \
		hints->member = value; \
		no_match(#member, s, hints); \
	} while (0)

static void general(struct side *s)
{
	WRONG(caps, s->wish.caps | UNKNOWN_BIT);
	WRONG(addr_format, 0x7777);
}

static void endpoint(struct side *s)
{
	WRONG(ep_attr->type, (enum fi_ep_type) NO_SUCH);
	WRONG(ep_attr->protocol, 0x7777);
	WRONG(ep_attr->tx_ctx_cnt, 100000);
	WRONG(ep_attr->rx_ctx_cnt, 100000);
}

static void transmit(struct side *s)
{
	WRONG(tx_attr->caps, UNKNOWN_BIT);
	WRONG(tx_attr->op_flags, UNKNOWN_BIT);
	WRONG(tx_attr->msg_order, UNKNOWN_BIT);
	WRONG(tx_attr->inject_size, BEYOND);
	WRONG(tx_attr->size, BEYOND);
	WRONG(tx_attr->iov_limit, BEYOND);
	WRONG(tx_attr->rma_iov_limit, BEYOND);
}

static void receive(struct side *s)
{
	WRONG(rx_attr->caps, UNKNOWN_BIT);
	WRONG(rx_attr->op_flags, UNKNOWN_BIT);
	WRONG(rx_attr->msg_order, UNKNOWN_BIT);
	WRONG(rx_attr->size, BEYOND);
	WRONG(rx_attr->iov_limit, BEYOND);
}

static void domain(struct side *s)
{
	WRONG(domain_attr->name, strdup("no such domain"));
	WRONG(domain_attr->threading, (enum fi_threading) NO_SUCH);
	WRONG(domain_attr->data_progress, (enum fi_progress) NO_SUCH);
	WRONG(domain_attr->resource_mgmt, (enum fi_resource_mgmt) NO_SUCH);
	WRONG(domain_attr->av_type, (enum fi_av_type) NO_SUCH);
	WRONG(domain_attr->mr_key_size, BEYOND);
	WRONG(domain_attr->cq_data_size, BEYOND);
	WRONG(domain_attr->cq_cnt, BEYOND);
	WRONG(domain_attr->ep_cnt, BEYOND);
	WRONG(domain_attr->tx_ctx_cnt, BEYOND);
	WRONG(domain_attr->rx_ctx_cnt, BEYOND);
	WRONG(domain_attr->max_ep_tx_ctx, BEYOND);
	WRONG(domain_attr->max_ep_rx_ctx, BEYOND);
	WRONG(domain_attr->mr_iov_limit, BEYOND);
}

/* Hints have a provider's name already. */
static void fabric(struct side *s)
{
	struct fi_info *hints = wished_hints(s);

	WRONG(fabric_attr->name, strdup("no such fabric"));
	WRONG(fabric_attr->prov_version, FI_VERSION(0x7fff, 0));
	free(hints->fabric_attr->prov_name);
	hints->fabric_attr->prov_name = strdup("no_such_provider");
	no_match("fabric_attr->prov_name", s, hints);
}

static const struct conformance_case hints_cases[] = {
	{ "general", "fi_getinfo(3)", "Capabilities and address formats that are not there match nothing.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, general },
	{ "endpoint", "fi_endpoint(3)", "The same of endpoint attributes.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, endpoint },
	{ "transmit", "fi_endpoint(3)", "The same of transmit attributes.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, transmit },
	{ "receive", "fi_endpoint(3)", "The same of receive attributes.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, receive },
	{ "domain", "fi_domain(3)", "The same of domain attributes.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, domain },
	{ "fabric", "fi_fabric(3)", "The same of fabrics, providers and their versions.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, fabric },
};
GROUP(hints);
