/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "variants.h"

#define BASIC_BITS	(FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

const struct variant variants[] = {
	{ 0, "", 0 },
	{ VARY_AV, "av=map", FI_AV_MAP },
	{ VARY_AV, "av=table", FI_AV_TABLE },
	{ VARY_FORMAT, "cq=context", FI_CQ_FORMAT_CONTEXT },
	{ VARY_FORMAT, "cq=msg", FI_CQ_FORMAT_MSG },
	{ VARY_FORMAT, "cq=data", FI_CQ_FORMAT_DATA },
	{ VARY_MR, "mr=virt_addr", FI_MR_VIRT_ADDR },
	{ VARY_MR, "mr=prov_key", FI_MR_PROV_KEY },
	{ VARY_MR, "mr=virt_addr,allocated,prov_key", BASIC_BITS },
	{ VARY_MR, "mr=local", FI_MR_LOCAL },
	{ VARY_MR, "mr=endpoint", FI_MR_ENDPOINT },
	{ VARY_MR, "mr=all", BASIC_BITS | FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_RAW | FI_MR_MMU_NOTIFY |
			      FI_MR_RMA_EVENT | FI_MR_HMEM | FI_MR_COLLECTIVE },
	{ VARY_THREADING, "threading=safe", FI_THREAD_SAFE },
	{ VARY_THREADING, "threading=domain", FI_THREAD_DOMAIN },
	{ VARY_THREADING, "threading=completion", FI_THREAD_COMPLETION },
	{ VARY_PROGRESS, "progress=manual", FI_PROGRESS_MANUAL },
	{ VARY_PROGRESS, "progress=auto", FI_PROGRESS_AUTO },
	{ VARY_WAIT, "wait=unspec", FI_WAIT_UNSPEC },
	{ VARY_WAIT, "wait=fd", FI_WAIT_FD },
	{ VARY_WAIT, "wait=yield", FI_WAIT_YIELD },
	{ VARY_API, "api=1.5", FI_VERSION(1, 5) },
	{ VARY_API, "api=1.9", FI_VERSION(1, 9) },
	{ VARY_API, "api=1.17", FI_VERSION(1, 17) },
};

const size_t variant_count = sizeof(variants) / sizeof(variants[0]);

void apply_variant(const struct variant *variant, struct wish *wish)
{
	switch (variant->axis) {
	case VARY_AV:
		wish->av_type = (enum fi_av_type) variant->value;
		break;
	case VARY_FORMAT:
		wish->format = (enum fi_cq_format) variant->value;
		break;
	case VARY_MR:
		wish->mr_mode |= (int) variant->value;
		break;
	case VARY_THREADING:
		wish->threading = (enum fi_threading) variant->value;
		break;
	case VARY_PROGRESS:
		wish->progress = (enum fi_progress) variant->value;
		break;
	case VARY_WAIT:
		wish->wait = (enum fi_wait_obj) variant->value;
		break;
	case VARY_API:
		wish->api = (uint32_t) variant->value;
		break;
	default:
		break;
	}
}
