/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Extensions: moving objects between library and application, and the options
 * that single providers add.
 */
#ifndef FI_EXT_H
#define FI_EXT_H

#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_endpoint.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Number ranges of single providers.  An option number is the negative range plus
 * a small number, so that it never meets a common one.
 */
#define FI_PROV_SPECIFIC_EFA	(0xefa << 16)
#define FI_PROV_SPECIFIC_TCP	(0x7cb << 16)

/* Endpoint options of the EFA provider */
enum {
	FI_OPT_EFA_RNR_RETRY = -FI_PROV_SPECIFIC_EFA,
	FI_OPT_EFA_EMULATED_READ,
	FI_OPT_EFA_EMULATED_WRITE,
	FI_OPT_EFA_EMULATED_ATOMICS,
	FI_OPT_EFA_USE_DEVICE_RDMA,
	FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES,
	FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES,
	FI_OPT_EFA_HOMOGENEOUS_PEERS,
	FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV,
};

/* Argument of FI_EXPORT_FID */
struct fi_fid_export {
	struct fid		**fid;
	uint64_t		flags;
	void			*context;
};

static inline int
fi_export_fid(struct fid *fid, uint64_t flags, struct fid **expfid, void *context)
{
	struct fi_fid_export exp;

	exp.fid = expfid;
	exp.flags = flags;
	exp.context = context;
	return fi_control(fid, FI_EXPORT_FID, &exp);
}

/* Give expfid to the owner of fid, which may replace its ops and context. */
static inline int fi_import_fid(struct fid *fid, struct fid *expfid, uint64_t flags)
{
	return fid->ops->bind(fid, expfid, flags);
}

/* Give fid to the library object of that name; close fid to take it back. */
static inline int
fi_import(uint32_t version, const char *name, void *attr, size_t attr_len,
	  uint64_t flags, struct fid *fid, void *context)
{
	struct fid *object = NULL;
	int ret = fi_open(version, name, attr, attr_len, flags, &object, context);

	if (ret)
		return ret;

	ret = fi_import_fid(object, fid, flags);
	fi_close(object);
	return ret;
}

/*
 * Memory monitor of the application, for the object "mr_cache": the library calls
 * export_ops, the application calls import_ops when subscribed memory goes away.
 */
struct fid_mem_monitor;

struct fi_ops_mem_monitor {
	size_t	size;
	int	(*start)(struct fid_mem_monitor *monitor);
	void	(*stop)(struct fid_mem_monitor *monitor);
	int	(*subscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
	void	(*unsubscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
	bool	(*valid)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

struct fi_ops_mem_notify {
	size_t	size;
	void	(*notify)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

struct fid_mem_monitor {
	struct fid			fid;
	struct fi_ops_mem_monitor	*export_ops;
	struct fi_ops_mem_notify	*import_ops;
};

/*
 * Log sink of the application, for the object "logging".
 */

/* Passed to the sink: FI_LOG_PROV masks this provider */
#define FI_LOG_PROV_FILTERED	(1ULL << 0)

struct fi_ops_log {
	size_t	size;
	int	(*enabled)(const struct fi_provider *prov, enum fi_log_level level,
			   enum fi_log_subsys subsys, uint64_t flags);
	int	(*ready)(const struct fi_provider *prov, enum fi_log_level level,
			 enum fi_log_subsys subsys, uint64_t flags, uint64_t *showtime);
	void	(*log)(const struct fi_provider *prov, enum fi_log_level level,
		       enum fi_log_subsys subsys, const char *func, int line,
		       const char *msg);
};

struct fid_logging {
	struct fid		fid;
	struct fi_ops_log	*ops;
};

/* Callbacks left NULL keep the library's own. */
static inline int
fi_import_log(uint32_t version, uint64_t flags, struct fid_logging *log_fid)
{
	log_fid->fid.fclass = FI_CLASS_LOG;
	log_fid->ops->size = sizeof(struct fi_ops_log);
	return fi_import(version, "logging", NULL, 0, flags, &log_fid->fid, log_fid);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_EXT_H */
