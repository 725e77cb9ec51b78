/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a registration pins.
 *
 * ondemand ADDRESS KIB: registers 16 MiB on the device at an address; the kernel then counts so many
 * KiB more of the process as pinned.
 */
#define PROVIDER	"verbs"
#include "../pair.h"

#define LENGTH	(16 << 20)

static long pinned_kib(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	CHECK(file);
	while (kib < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "VmPin: %ld", &kib);
	fclose(file);
	CHECK(kib >= 0);
	return kib;
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_mr *mr;
	long before;
	char *memory;

	if (argc != 3)
		return 2;
	alarm(DEADLINE);
	hints->caps = FI_MSG | FI_RMA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(PROVIDER);
	OK(fi_getinfo(FI_VERSION(1, 17), argv[1], NULL, FI_SOURCE, hints, &info));
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	memory = malloc(LENGTH);
	CHECK(memory);
	before = pinned_kib();
	OK(fi_mr_reg(domain, memory, LENGTH, FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0,
		     0, &mr, NULL));
	printf("%ld KiB of %d are pinned\n", pinned_kib() - before, LENGTH / 1024);
	/* A page more, where the allocation does not begin with one. */
	CHECK(labs(pinned_kib() - before - atol(argv[2])) <= 4);
	OK(fi_close(&mr->fid));
	EQUAL(pinned_kib(), before);
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	free(memory);
	return 0;
}
