/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Looks up every symbol at every version that programs are linked to.
 *
 *	symbols_check LIBRARY
 *
 * Prints what is missing; the exit code is 1 if anything is, 2 when LIBRARY does not load.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdio.h>

static const struct {
	const char	*name;
	const char	*version;
} symbols[] = {
	/* discovery: one version for each time a structure grew */
	{ "fi_getinfo", "FABRIC_1.0" },
	{ "fi_getinfo", "FABRIC_1.1" },
	{ "fi_getinfo", "FABRIC_1.2" },
	{ "fi_getinfo", "FABRIC_1.3" },
	{ "fi_getinfo", "FABRIC_1.7" },
	{ "fi_getinfo", "FABRIC_1.8" },
	{ "fi_getinfo", "FABRIC_1.9" },
	{ "fi_getinfo", "FABRIC_1.10" },
	{ "fi_freeinfo", "FABRIC_1.0" },
	{ "fi_freeinfo", "FABRIC_1.1" },
	{ "fi_freeinfo", "FABRIC_1.2" },
	{ "fi_freeinfo", "FABRIC_1.3" },
	{ "fi_freeinfo", "FABRIC_1.7" },
	{ "fi_freeinfo", "FABRIC_1.8" },
	{ "fi_freeinfo", "FABRIC_1.9" },
	{ "fi_freeinfo", "FABRIC_1.10" },
	{ "fi_dupinfo", "FABRIC_1.0" },
	{ "fi_dupinfo", "FABRIC_1.1" },
	{ "fi_dupinfo", "FABRIC_1.2" },
	{ "fi_dupinfo", "FABRIC_1.3" },
	{ "fi_dupinfo", "FABRIC_1.7" },
	{ "fi_dupinfo", "FABRIC_1.8" },
	{ "fi_dupinfo", "FABRIC_1.9" },
	{ "fi_dupinfo", "FABRIC_1.10" },
	{ "fi_fabric", "FABRIC_1.0" },
	{ "fi_fabric", "FABRIC_1.1" },
	{ "fi_fabric2", "FABRIC_1.8" },

	/* the rest never changed */
	{ "fi_version", "FABRIC_1.0" },
	{ "fi_strerror", "FABRIC_1.0" },
	{ "fi_tostr", "FABRIC_1.0" },
	{ "fi_getparams", "FABRIC_1.0" },
	{ "fi_freeparams", "FABRIC_1.0" },
	{ "fi_param_define", "FABRIC_1.0" },
	{ "fi_param_get", "FABRIC_1.0" },
	{ "fi_log", "FABRIC_1.0" },
	{ "fi_log_enabled", "FABRIC_1.0" },
	{ "fi_tostr_r", "FABRIC_1.4" },
	{ "fi_open", "FABRIC_1.5" },
	{ "fi_log_ready", "FABRIC_1.6" },
};

int main(int argc, char **argv)
{
	const size_t count = sizeof(symbols) / sizeof(symbols[0]);
	size_t missing = 0, i;
	void *library;

	if (argc != 2) {
		fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
		return 2;
	}

	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}

	for (i = 0; i < count; i++) {
		if (dlvsym(library, symbols[i].name, symbols[i].version))
			continue;
		printf("missing: %s@%s\n", symbols[i].name, symbols[i].version);
		missing++;
	}
	printf("%zu of %zu symbols found\n", count - missing, count);
	return missing != 0;
}
