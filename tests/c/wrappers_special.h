/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Inline functions that do more than hand their arguments to a slot: they build a
 * structure for fi_control, call an exported function, read a field, or compute.
 */

/* Exported functions that inline ones call, replaced so that no library is needed. */
static struct fid fake_object;
static struct fi_info fake_info;

#ifdef __cplusplus
extern "C" {
#endif

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	enter("fi_dupinfo");
	argument((uintptr_t) info);
	return &fake_info;
}

int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len,
	    uint64_t flags, struct fid **fid, void *context)
{
	enter("fi_open");
	argument(version);
	argument((uintptr_t) attr);
	argument(attr_len);
	argument(flags);
	argument((uintptr_t) context);
	if (strcmp(name, "missing") == 0)
		return -FI_ENOSYS;

	*fid = &fake_object;
	return 0;
}

int fi_param_get(struct fi_provider *provider, const char *param_name, void *value)
{
	enter("fi_param_get");
	argument((uintptr_t) provider);
	argument((uintptr_t) param_name);
	argument((uintptr_t) value);
	return RETURNED_INT;
}

#ifdef __cplusplus
}
#endif

/* A control slot that keeps the structure, which lives no longer than the call. */
static union {
	struct fi_alias		alias;
	struct fi_fid_var	var;
	struct fi_fid_export	exported;
	struct fi_mr_raw_attr	raw;
	struct fi_mr_map_raw	map;
	struct fi_mr_modify	modify;
	uint64_t		key;
} kept;
static int control_result;

static void keep(const void *arg, size_t size)
{
	memcpy(&kept, arg, size);
}

static int keeping_control(struct fid *fid, int command, void *arg)
{
	enter("control");
	argument((uintptr_t) fid);
	argument((uintptr_t) command);
	memset(&kept, 0xff, sizeof(kept));
	switch (command) {
	case FI_ALIAS:
		keep(arg, sizeof(kept.alias));
		if (!control_result)
			*kept.alias.fid = &fake_object;
		break;
	case FI_GET_VAL:
	case FI_SET_VAL:
		keep(arg, sizeof(kept.var));
		break;
	case FI_EXPORT_FID:
		keep(arg, sizeof(kept.exported));
		break;
	case FI_GET_RAW_MR:
		keep(arg, sizeof(kept.raw));
		break;
	case FI_MAP_RAW_MR:
		keep(arg, sizeof(kept.map));
		break;
	case FI_UNMAP_KEY:
		keep(arg, sizeof(kept.key));
		break;
	case FI_REFRESH:
		keep(arg, sizeof(kept.modify));
		break;
	default:
		argument((uintptr_t) arg);
	}
	return control_result;
}

static void expect_control(int is, void *fid, int command, int arguments)
{
	expect_slot("control", arguments);
	expect_argument(0, (uintptr_t) fid);
	expect_argument(1, (uintptr_t) command);
	expect_result((uintptr_t) is, (uintptr_t) control_result);
}

static void control_calls(void)
{
	struct fid *fid = &o_fid_ep.fid, *out_fid = NULL;
	struct fid_ep *out_ep = NULL;
	struct iovec iov;
	uint64_t base = 0, key = 0;
	uint8_t raw_key[8];
	size_t key_size = 0;

	begin("fi_alias");
	expect_control(fi_alias(fid, &out_fid, 7), fid, FI_ALIAS, 2);
	expect("fid", (uintptr_t) kept.alias.fid, (uintptr_t) &out_fid);
	expect("flags", kept.alias.flags, 7);

	begin("fi_ep_alias");
	expect_control(fi_ep_alias(&o_fid_ep, &out_ep, 8), fid, FI_ALIAS, 2);
	expect("flags", kept.alias.flags, 8);
	if (!control_result)
		expect("alias_ep", (uintptr_t) out_ep, (uintptr_t) &fake_object);
	else
		expect("alias_ep", (uintptr_t) out_ep, 0);

	begin("fi_get_val");
	expect_control(fi_get_val(fid, 5, raw_key), fid, FI_GET_VAL, 2);
	expect("name", (unsigned) kept.var.name, 5);
	expect("val", (uintptr_t) kept.var.val, (uintptr_t) raw_key);

	begin("fi_set_val");
	expect_control(fi_set_val(fid, 6, raw_key), fid, FI_SET_VAL, 2);
	expect("name", (unsigned) kept.var.name, 6);
	expect("val", (uintptr_t) kept.var.val, (uintptr_t) raw_key);

	begin("fi_export_fid");
	expect_control(fi_export_fid(fid, 9, &out_fid, raw_key), fid, FI_EXPORT_FID, 2);
	expect("fid", (uintptr_t) kept.exported.fid, (uintptr_t) &out_fid);
	expect("flags", kept.exported.flags, 9);
	expect("context", (uintptr_t) kept.exported.context, (uintptr_t) raw_key);

	begin("fi_enable");
	expect_control(fi_enable(&o_fid_ep), fid, FI_ENABLE, 3);
	expect_argument(2, 0);

	begin("fi_mr_enable");
	expect_control(fi_mr_enable(&o_fid_mr), &o_fid_mr, FI_ENABLE, 3);
	expect_argument(2, 0);

	begin("fi_mr_raw_attr");
	expect_control(fi_mr_raw_attr(&o_fid_mr, &base, raw_key, &key_size, 3),
		       &o_fid_mr, FI_GET_RAW_MR, 2);
	expect("flags", kept.raw.flags, 3);
	expect("base_addr", (uintptr_t) kept.raw.base_addr, (uintptr_t) &base);
	expect("raw_key", (uintptr_t) kept.raw.raw_key, (uintptr_t) raw_key);
	expect("key_size", (uintptr_t) kept.raw.key_size, (uintptr_t) &key_size);

	begin("fi_mr_map_raw");
	expect_control(fi_mr_map_raw(&o_fid_domain, 0x1234, raw_key, 8, &key, 4),
		       &o_fid_domain, FI_MAP_RAW_MR, 2);
	expect("flags", kept.map.flags, 4);
	expect("base_addr", kept.map.base_addr, 0x1234);
	expect("raw_key", (uintptr_t) kept.map.raw_key, (uintptr_t) raw_key);
	expect("key_size", kept.map.key_size, 8);
	expect("key", (uintptr_t) kept.map.key, (uintptr_t) &key);

	begin("fi_mr_unmap_key");
	expect_control(fi_mr_unmap_key(&o_fid_domain, 0x5678), &o_fid_domain, FI_UNMAP_KEY, 2);
	expect("key", kept.key, 0x5678);

	begin("fi_mr_refresh");
	expect_control(fi_mr_refresh(&o_fid_mr, &iov, 1, 2), &o_fid_mr, FI_REFRESH, 2);
	expect("flags", kept.modify.flags, 2);
	expect("mr_iov", (uintptr_t) kept.modify.attr.mr_iov, (uintptr_t) &iov);
	expect("iov_count", kept.modify.attr.iov_count, 1);
	expect("access", kept.modify.attr.access, 0);
	expect("auth_key", (uintptr_t) kept.modify.attr.auth_key, 0);
}

/* Slots that remember a call made beside another one. */
static int closed;

static int counting_close(struct fid *fid)
{
	closed += fid == &fake_object;
	return 0;
}

static void import_calls(void)
{
	static struct fi_ops_log log_ops;
	static struct fid_logging log;
	struct fi_ops object_ops;
	struct fid imported;

	memset(&object_ops, 0, sizeof(object_ops));
	object_ops.size = sizeof(object_ops);
	object_ops.bind = s_fi_ops_bind;
	object_ops.close = counting_close;
	fake_object.ops = &object_ops;

	begin("fi_import_fid");
	expect_result((uintptr_t) fi_import_fid(&fake_object, &imported, 5), RETURNED_INT);
	expect_slot("fi_ops.bind", 3);
	expect_argument(0, (uintptr_t) &fake_object);
	expect_argument(1, (uintptr_t) &imported);
	expect_argument(2, 5);

	begin("fi_import");
	closed = 0;
	expect_result((uintptr_t) fi_import(FI_VERSION(1, 16), "object", scratch[1], 9, 6,
					    &imported, scratch[2]), RETURNED_INT);
	expect("number of calls", (unsigned) seen.calls, 2);
	expect("last argument", seen.arguments[2], 6);
	expect("closed", (unsigned) closed, 1);

	begin("fi_import of a missing object");
	closed = 0;
	expect_result((uintptr_t) fi_import(FI_VERSION(1, 16), "missing", scratch[1], 9, 6,
					    &imported, scratch[2]), (uintptr_t) -FI_ENOSYS);
	expect("number of calls", (unsigned) seen.calls, 1);
	expect_argument(0, FI_VERSION(1, 16));
	expect_argument(1, (uintptr_t) scratch[1]);
	expect_argument(2, 9);
	expect_argument(3, 6);
	expect_argument(4, (uintptr_t) scratch[2]);

	begin("fi_import_log");
	log.ops = &log_ops;
	expect_result((uintptr_t) fi_import_log(FI_VERSION(1, 16), 0, &log), RETURNED_INT);
	expect("class", log.fid.fclass, FI_CLASS_LOG);
	expect("size", log_ops.size, sizeof(log_ops));
	expect_argument(0, (uintptr_t) &fake_object);
	expect_argument(1, (uintptr_t) &log.fid);
}

static void exported_calls(void)
{
	struct fi_provider *provider = (struct fi_provider *) scratch[1];
	char *text;
	int number;
	size_t size;

	begin("fi_allocinfo");
	expect_result((uintptr_t) fi_allocinfo(), (uintptr_t) &fake_info);
	expect_slot("fi_dupinfo", 1);
	expect_argument(0, 0);

#define PARAM_CALL(function, variable)							\
	do {										\
		begin(#function);							\
		expect_result((uintptr_t) function(provider, "name", &variable),	\
			      RETURNED_INT);						\
		expect_slot("fi_param_get", 3);						\
		expect_argument(0, (uintptr_t) provider);				\
		expect_argument(2, (uintptr_t) &variable);				\
	} while (0)

	/* fi_param_get_str(), fi_param_get_int(), fi_param_get_bool(), fi_param_get_size_t() */
	PARAM_CALL(fi_param_get_str, text);
	PARAM_CALL(fi_param_get_int, number);
	PARAM_CALL(fi_param_get_bool, number);
	PARAM_CALL(fi_param_get_size_t, size);
}

/* fi_join_collective passes a structure of its own. */
static struct fi_collective_addr joined;

static int keeping_join(struct fid_ep *ep, const void *addr, uint64_t flags,
			struct fid_mc **mc, void *context)
{
	enter("join");
	argument((uintptr_t) ep);
	argument(flags);
	argument((uintptr_t) mc);
	argument((uintptr_t) context);
	memcpy(&joined, addr, sizeof(joined));
	return RETURNED_INT;
}

static void fallback_calls(void)
{
	struct fid_mc *mc = NULL;

	begin("fi_join_collective");
	t_fi_ops_cm.join = keeping_join;
	expect_result((uintptr_t) fi_join_collective(&o_fid_ep, 11, &o_fid_av_set, 1, &mc,
						     scratch[3]), RETURNED_INT);
	t_fi_ops_cm.join = s_fi_ops_cm_join;
	expect_slot("join", 4);
	expect_argument(0, (uintptr_t) &o_fid_ep);
	expect_argument(1, (uintptr_t) (1 | FI_COLLECTIVE));
	expect_argument(2, (uintptr_t) &mc);
	expect_argument(3, (uintptr_t) scratch[3]);
	expect("set", (uintptr_t) joined.set, (uintptr_t) &o_fid_av_set);
	expect("coll_addr", joined.coll_addr, 11);

	begin("fi_domain2 without flags");
	expect_result((uintptr_t) fi_domain2(&o_fid_fabric, NULL, NULL, 0, scratch[3]),
		      RETURNED_INT);
	expect_slot("fi_ops_fabric.domain", 4);
	expect_argument(3, (uintptr_t) scratch[3]);

	begin("fi_endpoint2 without flags");
	expect_result((uintptr_t) fi_endpoint2(&o_fid_domain, NULL, NULL, 0, scratch[3]),
		      RETURNED_INT);
	expect_slot("fi_ops_domain.endpoint", 4);
	expect_argument(3, (uintptr_t) scratch[3]);

	begin("fi_barrier2 without flags");
	expect_result((uintptr_t) fi_barrier2(&o_fid_ep, 12, 0, scratch[3]),
		      (uintptr_t) (ssize_t) RETURNED_WIDE);
	expect_slot("fi_ops_collective.barrier", 3);
	expect_argument(1, 12);
	expect_argument(2, (uintptr_t) scratch[3]);
}

static void computed_calls(void)
{
	begin("fields");
	o_fid_mr.mem_desc = scratch[4];
	o_fid_mr.key = 0x1122334455667788ULL;
	o_fid_mc.fi_addr = 0x8877665544332211ULL;
	expect("fi_mr_desc", (uintptr_t) fi_mr_desc(&o_fid_mr), (uintptr_t) scratch[4]);
	expect("fi_mr_key", fi_mr_key(&o_fid_mr), 0x1122334455667788ULL);
	expect("fi_mc_addr", fi_mc_addr(&o_fid_mc), 0x8877665544332211ULL);

	begin("computed");
	expect("fi_tc_dscp_set", fi_tc_dscp_set(0x2e), 0x12e);
	expect("fi_tc_dscp_get", fi_tc_dscp_get(0x12e), 0x2e);
	expect("fi_tc_dscp_get of a label", fi_tc_dscp_get(FI_TC_BULK_DATA), 0);
	expect("fi_rx_addr", fi_rx_addr(5, 3, 4), 0x3000000000000005ULL);
#if FI_MAJOR_VERSION >= 2
	expect("fi_rx_addr of 0 bits", fi_rx_addr(5, 0, 0), 5);
	expect("fi_group_addr", fi_group_addr(5, 3), 0x300000005ULL);
	expect("fi_hmem_ze_device", (unsigned) fi_hmem_ze_device(2, 3), 0x20003);
	expect("fi_tag_mpi", fi_tag_mpi(-1, 0xab), 0xabffffffffULL);
#endif
}

#if FI_MAJOR_VERSION >= 2
static int open_profile(struct fid *fid, const char *name, uint64_t flags,
			void **ops, void *context)
{
	enter("ops_open");
	argument((uintptr_t) fid);
	argument(flags);
	argument((uintptr_t) context);
	if (strcmp(name, "fi_profile_ops"))
		return -FI_EINVAL;

	*ops = &o_fid_profile.ops;
	return 0;
}

static ssize_t read_variable(struct fid_profile *prof_fid, uint32_t var_id,
			     void *data, size_t *size)
{
	enter("read_var");
	argument((uintptr_t) prof_fid);
	argument(var_id);
	argument((uintptr_t) data);
	argument(*size);
	return 77;
}

static void newer_calls(void)
{
	struct fi_cq_err_entry entry;
	struct fid_profile *profile = NULL;
	uint64_t value;

	begin("fi_profile_open");
	t_fi_ops.ops_open = open_profile;
	expect_result((uintptr_t) fi_profile_open(&o_fid_ep.fid, 3, &profile, scratch[5]), 0);
	t_fi_ops.ops_open = s_fi_ops_ops_open;
	expect_slot("ops_open", 3);
	expect_argument(0, (uintptr_t) &o_fid_ep);
	expect_argument(1, 3);
	expect_argument(2, (uintptr_t) scratch[5]);
	expect("prof_fid", (uintptr_t) profile, (uintptr_t) &o_fid_profile);

	begin("fi_profile_read_u64");
	t_fi_profile_ops.read_var = read_variable;
	expect_result((uintptr_t) fi_profile_read_u64(&o_fid_profile, 4, &value), 77);
	expect_slot("read_var", 4);
	expect_argument(1, 4);
	expect_argument(2, (uintptr_t) &value);
	expect_argument(3, sizeof(value));

	begin("fi_cq_readerr presets the source");
	memset(&entry, 0, sizeof(entry));
	fi_cq_readerr(&o_fid_cq, &entry, 0);
	expect("src_addr", entry.src_addr, FI_ADDR_NOTAVAIL);
}
#else
static void newer_calls(void)
{
}
#endif

static void special_calls(void)
{
	t_fi_ops.control = keeping_control;
	control_result = 0;
	control_calls();
	control_result = -FI_EINVAL;
	control_calls();
	t_fi_ops.control = s_fi_ops_control;

	import_calls();
	exported_calls();
	fallback_calls();
	computed_calls();
	newer_calls();
}
