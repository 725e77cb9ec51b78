/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Control commands, options, and calls that need not be supported. */
#include "groups.h"

#include <poll.h>

/* The errors by which a provider says that it does not know or do something. */
static int refused(long long ret)
{
	return ret == -FI_ENOSYS || ret == -FI_EOPNOTSUPP || ret == -FI_EINVAL || ret == -FI_ENODATA ||
	       ret == -FI_ENOPROTOOPT || ret == -FI_EOPBADSTATE || ret == -FI_EBADFLAGS;
}

#define REFUSED(call) \
	do { \
		long long refused_ = (call); \
		if (!refused(refused_)) \
			FAIL("%s returned %lld", #call, refused_); \
	} while (0)

static void no_wait_object(struct side *s)
{
	int fd = -7;
	enum fi_wait_obj kind = (enum fi_wait_obj) 77;

	REFUSED(fi_control(&s->rx->fid, FI_GETWAIT, &fd));
	EQUAL(fd, -7);
	if (fi_control(&s->rx->fid, FI_GETWAITOBJ, &kind) == 0)
		EQUAL(kind, FI_WAIT_NONE);
}

static void want_fd(struct wish *wish)
{
	wish->wait = FI_WAIT_FD;
}

static void wait_object(struct side *s)
{
	struct pollfd poller = { .events = POLLIN };
	enum fi_wait_obj kind = FI_WAIT_UNSPEC;

	OK(fi_control(&s->rx->fid, FI_GETWAIT, &poller.fd));
	CHECK(poll(&poller, 1, 0) >= 0 && !(poller.revents & POLLNVAL));
	OK(fi_control(&s->rx->fid, FI_GETWAITOBJ, &kind));
	EQUAL(kind, FI_WAIT_FD);
}

static void unknown_commands(struct side *s)
{
	struct fid *const objects[] = {
		&s->fabric->fid, &s->domain->fid, &s->ep->fid, &s->tx->fid, &s->av->fid,
	};
	uint64_t argument[8] = { 0 };

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
		REFUSED(fi_control(objects[i], 0x7fff, argument));
		REFUSED(fi_control(objects[i], -12345, argument));
	}
}

static void options(struct side *s)
{
	uint64_t value[4] = { 0 };
	size_t len = sizeof(value);

	EQUAL(fi_getopt(&s->ep->fid, FI_OPT_ENDPOINT, 12345, value, &len), -FI_ENOPROTOOPT);
	EQUAL(fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, 12345, value, 8), -FI_ENOPROTOOPT);
	REFUSED(fi_getopt(&s->ep->fid, 7, FI_OPT_MIN_MULTI_RECV, value, &len));
	REFUSED(fi_setopt(&s->ep->fid, 7, FI_OPT_MIN_MULTI_RECV, value, sizeof(size_t)));
	/* Read only. */
	REFUSED(fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, value, sizeof(size_t)));
}

/* Each is there with its size, or not at all. */
static void known_options(struct side *s)
{
	static const struct { int name; size_t size; } known[] = {
		{ FI_OPT_MIN_MULTI_RECV, sizeof(size_t) },
		{ FI_OPT_CM_DATA_SIZE, sizeof(size_t) },
		{ FI_OPT_BUFFERED_MIN, sizeof(size_t) },
		{ FI_OPT_BUFFERED_LIMIT, sizeof(size_t) },
		{ FI_OPT_FI_HMEM_P2P, sizeof(int) },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		uint64_t value = 0;
		size_t len = 0;
		int ret = fi_getopt(&s->ep->fid, FI_OPT_ENDPOINT, known[i].name, &value, &len);

		if (refused(ret))
			continue;
		EQUAL(ret, -FI_ETOOSMALL);
		EQUAL(len, known[i].size);
		OK(fi_getopt(&s->ep->fid, FI_OPT_ENDPOINT, known[i].name, &value, &len));
		EQUAL(len, known[i].size);
	}
}

/* Programs forbid devices and detours before they enable, and live with a refusal. */
static void permissions(struct side *s)
{
	static const int names[] = {
		FI_OPT_FI_HMEM_P2P,
#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 20
		FI_OPT_CUDA_API_PERMITTED, FI_OPT_SHARED_MEMORY_PERMITTED,
#endif
	};
	int no = 0;

	side_info(s);
	side_objects(s);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		/* The newer ones are a bool, which C passes in one byte. */
		const size_t size = i ? sizeof(_Bool) : sizeof(no);
		int ret = fi_setopt(&s->ep->fid, FI_OPT_ENDPOINT, names[i], &no, size);

		CHECK(ret == 0 || refused(ret));
	}
	OK(fi_enable(s->ep));
	side_close(s);
}

/* No slot of a table is empty: each answers. */
static void answers(struct side *s)
{
	struct fi_tx_attr tx = { 0 };
	struct fi_rx_attr rx = { 0 };
	struct fid_ep *ep = NULL;
	struct fid_stx *stx = NULL;
	struct fid_pep *pep = NULL;
	struct fid_mc *mc = NULL;
	char byte[64] = "";
	int ret;

	ret = fi_scalable_ep(s->domain, s->info, &ep, NULL);
	CHECK(ret == 0 || refused(ret));
	if (!ret)
		OK(fi_close(&ep->fid));
	ret = fi_stx_context(s->domain, &tx, &stx, NULL);
	CHECK(ret == 0 || refused(ret));
	if (!ret)
		OK(fi_close(&stx->fid));
	ret = fi_srx_context(s->domain, &rx, &ep, NULL);
	CHECK(ret == 0 || refused(ret));
	if (!ret)
		OK(fi_close(&ep->fid));
	ret = fi_passive_ep(s->fabric, s->info, &pep, NULL);
	CHECK(ret == 0 || refused(ret));
	if (!ret)
		OK(fi_close(&pep->fid));
	REFUSED(fi_tx_context(s->ep, 0, &tx, &ep, NULL));
	REFUSED(fi_rx_context(s->ep, 0, &rx, &ep, NULL));
	REFUSED(fi_connect(s->ep, byte, NULL, 0));
	REFUSED(fi_accept(s->ep, NULL, 0));
	REFUSED(fi_shutdown(s->ep, 0));
	REFUSED(fi_join(s->ep, byte, 0, &mc, NULL));
}

/* An alias is an endpoint of its own that is closed first, or refused. */
static void alias(struct side *s)
{
	struct fid_ep *other = NULL;
	int ret = fi_ep_alias(s->ep, &other, FI_TRANSMIT | FI_COMPLETION);

	CHECK(ret == 0 || refused(ret));
	if (!ret) {
		CHECK(other && other != s->ep);
		OK(fi_close(&other->fid));
	}
}

static void unknown_interfaces(struct side *s)
{
	void *ops = NULL, *table[8] = { NULL };

	REFUSED(fi_open_ops(&s->domain->fid, "no such interface", 0, &ops, NULL));
	REFUSED(fi_open_ops(&s->fabric->fid, "no such interface", 0, &ops, NULL));
	REFUSED(fi_set_ops(&s->domain->fid, "no such interface", 0, table, NULL));
	CHECK(!ops);
}

/* An address that can be set before enabling is the endpoint's from then on. */
static void set_name(struct side *s)
{
	char name[256] = "", again[256] = "";
	size_t len = sizeof(name), size = sizeof(again);
	int ret;

	side_info(s);
	side_objects(s);
	/* Before enabling there need not be a name yet. */
	ret = fi_getname(&s->ep->fid, name, &len);
	if (!ret)
		ret = fi_setname(&s->ep->fid, name, len);
	CHECK(ret <= 0);
	REFUSED(fi_setname(&s->ep->fid, NULL, 0));
	OK(fi_enable(s->ep));
	OK(fi_getname(&s->ep->fid, again, &size));
	if (!ret) {
		EQUAL(size, len);
		CHECK(!memcmp(name, again, len));
	}
	/* Too late for another one, or the same as before. */
	memcpy(name, again, size);
	CHECK(fi_setname(&s->ep->fid, name, size) <= 0);
	len = sizeof(name);
	OK(fi_getname(&s->ep->fid, name, &len));
	EQUAL(len, size);
	CHECK(!memcmp(name, again, size));
	side_close(s);
}

static const struct conformance_case controls_cases[] = {
	{ "no-wait-object", "fi_cq(3)", "A queue without wait object has none to give.",
	  FI_MSG, EP_ANY, VARY_FORMAT, 0, NULL, no_wait_object },
	{ "wait-object", "fi_cq(3)", "FI_GETWAIT gives the descriptor of a queue opened with FI_WAIT_FD, FI_GETWAITOBJ its kind.",
	  FI_MSG, EP_ANY, VARY_FORMAT | VARY_PROGRESS, 0, want_fd, wait_object },
	{ "unknown-commands", "fi_control(3)", "Commands that an object does not know are refused.",
	  FI_MSG, EP_RDM, 0, 0, NULL, unknown_commands },
	{ "options", "fi_endpoint(3)", "Options and levels that do not exist, and options that cannot be set, are refused.",
	  FI_MSG, EP_RDM, 0, 0, NULL, options },
	{ "known-options", "fi_endpoint(3)", "An option tells its size to who has less room, and its value otherwise.",
	  FI_MSG, EP_RDM, VARY_API, 0, NULL, known_options },
	{ "permissions", "fi_endpoint(3)", "Forbidding devices or other paths is accepted or refused, and does no harm.",
	  FI_MSG, EP_RDM, 0, 1, NULL, permissions },
	{ "answers", "fi_endpoint(3)", "Kinds of endpoints and connections that are not supported are refused, not missing.",
	  FI_MSG, EP_RDM, 0, 0, NULL, answers },
	{ "alias", "fi_endpoint(3)", "An alias is refused, or an endpoint to be closed.",
	  FI_MSG, EP_RDM, 0, 0, NULL, alias },
	{ "unknown-interfaces", "fi_open(3)", "Interfaces of unknown names cannot be opened.",
	  FI_MSG, EP_RDM, 0, 0, NULL, unknown_interfaces },
	{ "set-name", "fi_cm(3)", "An address that was set before enabling is the endpoint's; what was refused changes nothing.",
	  FI_MSG, EP_RDM, 0, 1, NULL, set_name },
};
GROUP(controls);
