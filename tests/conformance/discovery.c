/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fi_getinfo and what it returns. Both sides do the same, each on its own. */
#include "groups.h"

#include <strings.h>

#include "settings.h"

#define PRIMARY \
	(FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_MULTICAST | FI_NAMED_RX_CTX | \
	 FI_DIRECTED_RECV | FI_READ | FI_WRITE | FI_SEND | FI_RECV | FI_REMOTE_READ | \
	 FI_REMOTE_WRITE)

/* The first of what these hints bring, which are freed. */
static struct fi_info *ask_for(uint32_t api, struct fi_info *hints)
{
	struct fi_info *info = NULL;

	OK(ask(api, hints, &info));
	CHECK(info);
	fi_freeinfo(hints);
	return info;
}

static void complete(const struct fi_info *info)
{
	CHECK(info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr &&
	      info->fabric_attr);
	CHECK(info->fabric_attr->name && info->domain_attr->name);
	CHECK(info->fabric_attr->prov_name);
	EQUAL(strncasecmp(info->fabric_attr->prov_name, settings.provider,
			  strlen(settings.provider)), 0);
	CHECK(info->fabric_attr->prov_version);
	CHECK(info->caps);
	CHECK(info->ep_attr->max_msg_size > 0);
	CHECK(info->tx_attr->size > 0 && info->rx_attr->size > 0);
	CHECK(info->tx_attr->iov_limit > 0 && info->rx_attr->iov_limit > 0);
	CHECK(info->domain_attr->cq_data_size <= 8);
}

static void any(struct side *s)
{
	struct fi_info *hints = fi_allocinfo(), *list, *info;

	hints->fabric_attr->prov_name = strdup(settings.provider);
	hints->domain_attr->mr_mode = settings.mr_mode;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	list = ask_for(s->wish.api, hints);
	for (info = list; info; info = info->next) {
		complete(info);
		EQUAL(info->mode & ~(FI_CONTEXT | FI_CONTEXT2), 0);
		EQUAL(info->domain_attr->mr_mode & ~settings.mr_mode, 0);
	}
	fi_freeinfo(list);
}

static void no_hints(struct side *s)
{
	struct fi_info *list = NULL, *info;
	int found = 0;

	OK(ask(s->wish.api, NULL, &list));
	for (info = list; info; info = info->next)
		found |= !strncasecmp(info->fabric_attr->prov_name, settings.provider,
				      strlen(settings.provider));
	CHECK(found);
	fi_freeinfo(list);
	fi_freeinfo(NULL);
}

static void too_new(struct side *s)
{
	struct fi_info *hints = wished_hints(s), *info = NULL;

	EQUAL(fi_getinfo(FI_VERSION(99, 0), NULL, NULL, 0, hints, &info), -FI_ENOSYS);
	CHECK(!info);
	fi_freeinfo(hints);
}

/* The capabilities asked for, and of the primary ones no others. */
static void exact_caps(struct side *s)
{
	static const struct { uint64_t asked, implied; } caps[] = {
		{ FI_MSG, FI_SEND | FI_RECV },
		{ FI_TAGGED, FI_SEND | FI_RECV },
		{ FI_MSG | FI_SEND, 0 },
		{ FI_MSG | FI_RECV, 0 },
		{ FI_TAGGED | FI_SEND, 0 },
		{ FI_MSG | FI_TAGGED, FI_SEND | FI_RECV },
		{ FI_RMA, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE },
		{ FI_ATOMIC, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE },
		{ FI_RMA | FI_WRITE, 0 },
		{ FI_RMA | FI_READ | FI_REMOTE_READ, 0 },
		{ FI_MSG | FI_RMA,
		  FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE },
	};

	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		struct fi_info *hints, *info = NULL;

		s->wish.caps = caps[i].asked;
		hints = wished_hints(s);
		if (ask(s->wish.api, hints, &info) == -FI_ENODATA) {
			fi_freeinfo(hints);
			continue;
		}
		CHECK(info);
		EQUAL(info->caps & PRIMARY, caps[i].asked | caps[i].implied);
		EQUAL(info->tx_attr->caps & ~info->caps, 0);
		EQUAL(info->rx_attr->caps & ~info->caps, 0);
		/* Telling sources costs something, so it must be asked for. */
		EQUAL(info->caps & FI_SOURCE, 0);
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
}

/* Bits that the program did not offer are not demanded. */
static void mr_modes(struct side *s)
{
	for (int bits = 0; bits <= 0x7ff; bits += 4) {
		struct fi_info *hints = wished_hints(s), *info = NULL;
		int ret;

		hints->domain_attr->mr_mode = bits;
		ret = ask(s->wish.api, hints, &info);
		CHECK(ret == 0 || ret == -FI_ENODATA);
		if (!ret) {
			EQUAL(info->domain_attr->mr_mode & ~bits, 0);
			fi_freeinfo(info);
		} else {
			/* Only for the bits that it needs. */
			CHECK(settings.mr_mode & ~bits);
		}
		fi_freeinfo(hints);
	}
}

/* The two modes of old, which are values and no bits. */
static void old_mr_modes(struct side *s)
{
	static const int modes[] = { FI_MR_BASIC, FI_MR_SCALABLE };

	for (size_t i = 0; i < 2; i++) {
		struct fi_info *hints = wished_hints(s), *info = NULL;
		int ret;

		hints->domain_attr->mr_mode = modes[i];
		ret = ask(FI_VERSION(1, 4), hints, &info);
		CHECK(ret == 0 || ret == -FI_ENODATA);
		if (!ret) {
			EQUAL(info->domain_attr->mr_mode, modes[i]);
			fi_freeinfo(info);
		}
		fi_freeinfo(hints);
	}
}

static void threading(struct side *s)
{
	static const enum fi_threading levels[] = {
		FI_THREAD_SAFE, FI_THREAD_COMPLETION, FI_THREAD_DOMAIN,
	};

	for (size_t i = 0; i < 3; i++) {
		struct fi_info *info;

		s->wish.threading = levels[i];
		info = ask_for(s->wish.api, wished_hints(s));
		CHECK(info->domain_attr->threading == levels[i] ||
		      info->domain_attr->threading == FI_THREAD_SAFE);
		fi_freeinfo(info);
	}
}

static void progress_models(struct side *s)
{
	static const enum fi_progress models[] = { FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO };

	for (size_t i = 0; i < 2; i++) {
		struct fi_info *info = NULL, *hints;
		int ret;

		s->wish.progress = models[i];
		hints = wished_hints(s);
		ret = ask(s->wish.api, hints, &info);
		fi_freeinfo(hints);
		CHECK(ret == 0 || ret == -FI_ENODATA);
		if (ret)
			continue;
		CHECK(info->domain_attr->data_progress == models[i] ||
		      info->domain_attr->data_progress == FI_PROGRESS_AUTO);
		fi_freeinfo(info);
	}
}

/* At least what was asked for, and that is what the program gets. */
static void sizes_honoured(struct side *s)
{
	/* A datagram may be no larger than a packet. */
	const size_t message = s->type == FI_EP_DGRAM ? 256 : 4096;
	struct fi_info *hints = wished_hints(s), *info = ask_for(s->wish.api, wished_hints(s));
	/* Connections need not carry data. */
	const size_t data = s->type == FI_EP_MSG && !info->domain_attr->cq_data_size ? 0 : 4;

	fi_freeinfo(info);
	hints->tx_attr->size = 16;
	hints->rx_attr->size = 16;
	hints->tx_attr->iov_limit = 1;
	hints->rx_attr->iov_limit = 1;
	hints->tx_attr->inject_size = 8;
	hints->ep_attr->max_msg_size = message;
	hints->domain_attr->cq_data_size = data;
	info = ask_for(s->wish.api, hints);
	CHECK(info->tx_attr->size >= 16 && info->rx_attr->size >= 16);
	CHECK(info->tx_attr->iov_limit >= 1 && info->rx_attr->iov_limit >= 1);
	CHECK(info->tx_attr->inject_size >= 8);
	CHECK(info->ep_attr->max_msg_size >= message);
	CHECK(info->domain_attr->cq_data_size >= data);
	fi_freeinfo(info);
}

/* What one call returned, another accepts. */
static void own_answer(struct side *s)
{
	struct fi_info *info = ask_for(s->wish.api, wished_hints(s)), *again = NULL;

	OK(ask(s->wish.api, info, &again));
	EQUAL(again->caps, info->caps);
	EQUAL(again->domain_attr->mr_mode, info->domain_attr->mr_mode);
	EQUAL(strcmp(again->domain_attr->name, info->domain_attr->name), 0);
	EQUAL(strcmp(again->fabric_attr->name, info->fabric_attr->name), 0);
	fi_freeinfo(again);
	fi_freeinfo(info);
}

static void same_text(const char *one, const char *other)
{
	CHECK(one && other && one != other);
	EQUAL(strcmp(one, other), 0);
}

static void copies(struct side *s)
{
	struct fi_info *info = ask_for(s->wish.api, wished_hints(s)), *copy = fi_dupinfo(info);
	struct fid_fabric *fabric;

	CHECK(copy && !copy->next);
	CHECK(copy->tx_attr != info->tx_attr && copy->rx_attr != info->rx_attr);
	CHECK(copy->ep_attr != info->ep_attr && copy->domain_attr != info->domain_attr);
	same_text(copy->fabric_attr->name, info->fabric_attr->name);
	same_text(copy->fabric_attr->prov_name, info->fabric_attr->prov_name);
	same_text(copy->domain_attr->name, info->domain_attr->name);
	EQUAL(copy->caps, info->caps);
	EQUAL(copy->tx_attr->inject_size, info->tx_attr->inject_size);
	EQUAL(copy->ep_attr->max_msg_size, info->ep_attr->max_msg_size);
	EQUAL(copy->src_addrlen, info->src_addrlen);
	if (info->src_addr) {
		CHECK(copy->src_addr != info->src_addr);
		EQUAL(memcmp(copy->src_addr, info->src_addr, info->src_addrlen), 0);
	}
	fi_freeinfo(info);
	OK(fi_fabric(copy->fabric_attr, &fabric, NULL));
	OK(fi_close(&fabric->fid));
	CHECK(*fi_tostr(copy, FI_TYPE_INFO));
	fi_freeinfo(copy);
}

static void only_names(struct side *s)
{
	struct fi_info *list = NULL, *info;
	const char *end = strchr(settings.provider, ';');
	const size_t len = end ? (size_t) (end - settings.provider) : strlen(settings.provider);
	int found = 0;

	(void) s;
	OK(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &list));
	for (info = list; info; info = info->next) {
		CHECK(info->fabric_attr && info->fabric_attr->prov_name);
		found += !strncasecmp(info->fabric_attr->prov_name, settings.provider, len);
	}
	CHECK(found > 0);
	fi_freeinfo(list);
}

static const struct conformance_case discovery_cases[] = {
	{ "any", "fi_getinfo(3)", "Hints of zeros ask for anything; what comes is complete and demands nothing that was not offered.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, any },
	{ "no-hints", "fi_getinfo(3)", "Without hints everything is listed.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, no_hints },
	{ "too-new", "fi_getinfo(3)", "A version that the library does not know is -FI_ENOSYS.",
	  FI_MSG, EP_ANY, 0, 1, NULL, too_new },
	{ "exact-caps", "fi_getinfo(3)", "Primary capabilities come as asked for; a kind of operation without directions has all of them.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, exact_caps },
	{ "mr-modes", "fi_mr(3)", "Registration modes that were not offered are not demanded.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, mr_modes },
	{ "old-mr-modes", "fi_mr(3)", "Programs of version 1.4 get the basic or the scalable mode that they ask for.",
	  FI_MSG, EP_ANY, 0, 1, NULL, old_mr_modes },
	{ "threading", "fi_domain(3)", "The threading level is the one asked for, or a safer one.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, threading },
	{ "progress", "fi_domain(3)", "The progress model is the one asked for, or an automatic one.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, progress_models },
	{ "sizes", "fi_endpoint(3)", "Sizes and limits are at least what was asked for.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, sizes_honoured },
	{ "own-answer", "fi_getinfo(3)", "An answer, given as hints, brings the same answer.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, own_answer },
	{ "copies", "fi_getinfo(3)", "fi_dupinfo copies all that an info points to, and not the rest of the list.",
	  FI_MSG, EP_ANY, VARY_API, 1, NULL, copies },
	{ "only-names", "fi_getinfo(3)", "FI_PROV_ATTR_ONLY lists providers by name.",
	  FI_MSG, EP_ANY, 0, 1, NULL, only_names },
};
GROUP(discovery);
