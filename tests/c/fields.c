/*
 * Every field of what fi_getinfo of a library answers, one "name=value" a line:
 *
 *	fields LIBRARY [NAME=VALUE]...
 *
 * "version" (MAJOR.MINOR), "node", "service" and "flags" are the arguments of the call; every
 * other name is a field of the hints, as the answer spells it. Without any of those the hints are
 * NULL. Numbers are C numbers, addresses hexadecimal bytes. Lines of infos follow "info N"; a call
 * that fails prints "error N" and no more.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

/* The newest version that all libraries of interest have; the structures grow at their ends. */
#define NODE	"FABRIC_1.9"

enum part { INFO, TX, RX, EP, DOMAIN, FABRIC };

struct field {
	const char	*name;
	enum part	part;
	size_t		offset;
	size_t		size;
	int		is_text;
};

#define NUMBER(prefix, part, type, member) \
	{ prefix #member, part, offsetof(struct type, member), sizeof(((struct type *) 0)->member), 0 }
#define TEXT(prefix, part, type, member) \
	{ prefix #member, part, offsetof(struct type, member), sizeof(char *), 1 }

#define OF_INFO(member)		NUMBER("", INFO, fi_info, member)
#define OF_TX(member)		NUMBER("tx.", TX, fi_tx_attr, member)
#define OF_RX(member)		NUMBER("rx.", RX, fi_rx_attr, member)
#define OF_EP(member)		NUMBER("ep.", EP, fi_ep_attr, member)
#define OF_DOMAIN(member)	NUMBER("domain.", DOMAIN, fi_domain_attr, member)

static const struct field fields[] = {
	OF_INFO(caps), OF_INFO(mode), OF_INFO(addr_format),
	OF_TX(caps), OF_TX(mode), OF_TX(op_flags), OF_TX(msg_order), OF_TX(comp_order),
	OF_TX(inject_size), OF_TX(size), OF_TX(iov_limit), OF_TX(rma_iov_limit), OF_TX(tclass),
	OF_RX(caps), OF_RX(mode), OF_RX(op_flags), OF_RX(msg_order), OF_RX(comp_order),
	OF_RX(total_buffered_recv), OF_RX(size), OF_RX(iov_limit),
	OF_EP(type), OF_EP(protocol), OF_EP(protocol_version), OF_EP(max_msg_size),
	OF_EP(msg_prefix_size), OF_EP(max_order_raw_size), OF_EP(max_order_war_size),
	OF_EP(max_order_waw_size), OF_EP(mem_tag_format), OF_EP(tx_ctx_cnt), OF_EP(rx_ctx_cnt),
	OF_EP(auth_key_size),
	TEXT("domain.", DOMAIN, fi_domain_attr, name),
	OF_DOMAIN(threading), OF_DOMAIN(control_progress), OF_DOMAIN(progress),
	OF_DOMAIN(resource_mgmt), OF_DOMAIN(av_type), OF_DOMAIN(mr_mode), OF_DOMAIN(mr_key_size),
	OF_DOMAIN(cq_data_size), OF_DOMAIN(cq_cnt), OF_DOMAIN(ep_cnt), OF_DOMAIN(tx_ctx_cnt),
	OF_DOMAIN(rx_ctx_cnt), OF_DOMAIN(max_ep_tx_ctx), OF_DOMAIN(max_ep_rx_ctx),
	OF_DOMAIN(max_ep_stx_ctx), OF_DOMAIN(max_ep_srx_ctx), OF_DOMAIN(cntr_cnt),
	OF_DOMAIN(mr_iov_limit), OF_DOMAIN(caps), OF_DOMAIN(mode), OF_DOMAIN(auth_key_size),
	OF_DOMAIN(max_err_data), OF_DOMAIN(mr_cnt), OF_DOMAIN(tclass), OF_DOMAIN(max_ep_auth_key),
	OF_DOMAIN(max_group_id), OF_DOMAIN(max_cntr_value), OF_DOMAIN(max_err_cntr_value),
	TEXT("fabric.", FABRIC, fi_fabric_attr, name),
	TEXT("fabric.", FABRIC, fi_fabric_attr, prov_name),
	NUMBER("fabric.", FABRIC, fi_fabric_attr, prov_version),
	NUMBER("fabric.", FABRIC, fi_fabric_attr, api_version),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "fields: %s: %s\n", what, why ? why : "");
	exit(1);
}

static void *part(struct fi_info *info, enum part part)
{
	void *parts[] = {
		[INFO] = info, [TX] = info->tx_attr, [RX] = info->rx_attr, [EP] = info->ep_attr,
		[DOMAIN] = info->domain_attr, [FABRIC] = info->fabric_attr,
	};

	if (!parts[part])
		fail("a part of the info", "missing");
	return parts[part];
}

static void set_address(void **address, size_t *len, const char *hex)
{
	size_t i;

	*len = strlen(hex) / 2;
	*address = calloc(1, *len + 1);
	for (i = 0; i < *len; i++) {
		char digits[3] = { hex[2 * i], hex[2 * i + 1], 0 };

		((unsigned char *) *address)[i] = (unsigned char) strtoul(digits, NULL, 16);
	}
}

static void set_field(struct fi_info *hints, const char *name, const char *value)
{
	size_t i;

	if (!strcmp(name, "src_addr")) {
		set_address(&hints->src_addr, &hints->src_addrlen, value);
		return;
	}
	if (!strcmp(name, "dest_addr")) {
		set_address(&hints->dest_addr, &hints->dest_addrlen, value);
		return;
	}
	for (i = 0; i < COUNT(fields); i++) {
		char *place;
		uint64_t number;

		if (strcmp(fields[i].name, name))
			continue;
		place = (char *) part(hints, fields[i].part) + fields[i].offset;
		if (fields[i].is_text) {
			*(char **) place = strdup(value);
		} else {
			number = strtoull(value, NULL, 0);
			memcpy(place, &number, fields[i].size); /* little-endian */
		}
		return;
	}
	fail(name, "no such field");
}

static void print_address(const char *name, const void *address, size_t len)
{
	size_t i;

	printf("%s=", name);
	for (i = 0; address && i < len; i++)
		printf("%02x", ((const unsigned char *) address)[i]);
	printf("\n");
}

static void print_info(struct fi_info *info)
{
	size_t i;

	print_address("src_addr", info->src_addr, info->src_addrlen);
	print_address("dest_addr", info->dest_addr, info->dest_addrlen);
	printf("handle=%d\nnic=%d\n", info->handle != NULL, info->nic != NULL);
	for (i = 0; i < COUNT(fields); i++) {
		const char *place = (char *) part(info, fields[i].part) + fields[i].offset;
		uint64_t number = 0;

		if (fields[i].is_text) {
			printf("%s=%s\n", fields[i].name,
			       *(char *const *) place ? *(char *const *) place : "");
			continue;
		}
		memcpy(&number, place, fields[i].size);
		printf("%s=%#llx\n", fields[i].name, (unsigned long long) number);
	}
}

int main(int argc, char **argv)
{
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
		       struct fi_info **);
	void (*freeinfo)(struct fi_info *);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	struct fi_info *hints = NULL, *info = NULL, *each;
	const char *node = NULL, *service = NULL;
	uint32_t version = FI_VERSION(2, 5);
	uint64_t flags = 0;
	void *library;
	int ret, i;

	if (argc < 2)
		fail("usage", "fields LIBRARY [NAME=VALUE]...");
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail(argv[1], dlerror());
	*(void **) &getinfo = dlvsym(library, "fi_getinfo", NODE);
	*(void **) &freeinfo = dlvsym(library, "fi_freeinfo", NODE);
	*(void **) &dupinfo = dlvsym(library, "fi_dupinfo", NODE);
	if (!getinfo || !freeinfo || !dupinfo)
		fail(argv[1], "no " NODE);

	for (i = 2; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value)
			fail(argv[i], "no value");
		*value++ = '\0';
		if (!strcmp(argv[i], "version")) {
			char *dot = strchr(value, '.');

			version = FI_VERSION(atoi(value), dot ? atoi(dot + 1) : 0);
		} else if (!strcmp(argv[i], "node")) {
			node = value;
		} else if (!strcmp(argv[i], "service")) {
			service = value;
		} else if (!strcmp(argv[i], "flags")) {
			flags = strtoull(value, NULL, 0);
		} else {
			if (!hints)
				hints = dupinfo(NULL);
			set_field(hints, argv[i], value);
		}
	}

	ret = getinfo(version, node, service, flags, hints, &info);
	if (ret)
		printf("error %d\n", -ret);
	for (each = info, i = 0; !ret && each; each = each->next, i++) {
		printf("info %d\n", i);
		print_info(each);
	}
	if (!ret)
		freeinfo(info);
	if (hints)
		freeinfo(hints);
	return 0;
}
