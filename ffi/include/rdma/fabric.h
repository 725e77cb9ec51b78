/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Discovery, attributes, capability bits and the base of every object.
 *
 * An application describes what it wants in a struct fi_info, lets fi_getinfo
 * find matching providers, and opens the chosen one with fi_fabric.  Objects
 * opened from there begin with a struct fid; calls on them are inline and jump
 * through the operation table that the provider filled.
 */
#ifndef FABRIC_H
#define FABRIC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/bits/fi_attr.h>
#include <rdma/bits/fi_flags.h>
#include <rdma/fi_errno.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks on what stays for old sources only */
#define FI_DEPRECATED_FUNC	__attribute__((deprecated))
#define FI_DEPRECATED_FIELD	__attribute__((deprecated))

/*
 * Versions.  An interface version fits 32 bits: major above 16 bits of minor.
 * All of these work in #if as well.
 */
#define FI_MAJOR_VERSION	2
#define FI_MINOR_VERSION	6
#define FI_REVISION_VERSION	0

#define FI_VERSION(major, minor)	(((major) << 16) | (minor))
#define FI_MAJOR(version)		((version) >> 16)
#define FI_MINOR(version)		((version) & 0xFFFF)
#define FI_VERSION_GE(v1, v2)		((v1) >= (v2))
#define FI_VERSION_LT(v1, v2)		((v1) < (v2))

/* Version of the library that is loaded, not of this header. */
uint32_t fi_version(void);

/* Index into an address vector, or an opaque handle: ask fi_av_lookup. */
typedef uint64_t		fi_addr_t;

/* Element list of atomics and collectives: like an iovec, but counted in elements. */
struct fi_ioc {
	void			*addr;
	size_t			count;
};

/* Objects, defined below or in the header of their kind. */
struct fid;
struct fid_fabric;
struct fid_domain;
struct fid_av;
struct fid_av_set;
struct fid_wait;
struct fid_poll;
struct fid_eq;
struct fid_cq;
struct fid_cntr;
struct fid_ep;
struct fid_pep;
struct fid_stx;
struct fid_mr;
struct fid_mc;
struct fid_nic;

struct fi_eq_attr;
struct fi_wait_attr;

typedef struct fid		*fid_t;

/* Kind of an object, in fid.fclass */
enum {
	FI_CLASS_UNSPEC		= 0,
	FI_CLASS_FABRIC		= 1,
	FI_CLASS_DOMAIN		= 2,
	FI_CLASS_EP		= 3,
	FI_CLASS_SEP		= 4,
	FI_CLASS_RX_CTX		= 5,
	FI_CLASS_SRX_CTX	= 6,
	FI_CLASS_TX_CTX		= 7,
	FI_CLASS_STX_CTX	= 8,
	FI_CLASS_PEP		= 9,
	FI_CLASS_INTERFACE	= 10,
	FI_CLASS_AV		= 11,
	FI_CLASS_MR		= 12,
	FI_CLASS_EQ		= 13,
	FI_CLASS_CQ		= 14,
	FI_CLASS_CNTR		= 15,
	FI_CLASS_WAIT		= 16,
	FI_CLASS_POLL		= 17,
	FI_CLASS_CONNREQ	= 18,
	FI_CLASS_MC		= 19,
	FI_CLASS_NIC		= 20,
	FI_CLASS_AV_SET		= 21,
	FI_CLASS_MR_CACHE	= 22,
	FI_CLASS_MEM_MONITOR	= 23,
	FI_CLASS_PEER_CQ	= 24,
	FI_CLASS_PEER_SRX	= 25,
	FI_CLASS_LOG		= 26,
	FI_CLASS_PEER_AV	= 27,
	FI_CLASS_PEER_AV_SET	= 28,
	FI_CLASS_PEER_CNTR	= 29,
	FI_CLASS_PROFILE	= 30,
};

/*
 * Operations every object has.  The size member of an operation table tells
 * which slots exist; tables only ever grow at the end.
 */
struct fi_ops {
	size_t	size;
	int	(*close)(struct fid *fid);
	int	(*bind)(struct fid *fid, struct fid *bfid, uint64_t flags);
	int	(*control)(struct fid *fid, int command, void *arg);
	int	(*ops_open)(struct fid *fid, const char *name, uint64_t flags,
			    void **ops, void *context);
	int	(*tostr)(const struct fid *fid, char *buf, size_t len);
	int	(*ops_set)(struct fid *fid, const char *name, uint64_t flags,
			   void *ops, void *context);
};

/* Head of every object */
struct fid {
	size_t			fclass;		/* FI_CLASS_* */
	void			*context;	/* the application's */
	struct fi_ops		*ops;
};

/* Whether a table of this size has the slot, and the provider filled it */
#define FI_CHECK_OP(ops, opstype, op) \
	((ops)->size > offsetof(opstype, op) && (ops)->op)

struct fi_ops_fabric {
	size_t	size;
	int	(*domain)(struct fid_fabric *fabric, struct fi_info *info,
			  struct fid_domain **domain, void *context);
	int	(*passive_ep)(struct fid_fabric *fabric, struct fi_info *info,
			      struct fid_pep **pep, void *context);
	int	(*eq_open)(struct fid_fabric *fabric, struct fi_eq_attr *attr,
			   struct fid_eq **eq, void *context);
	int	(*wait_open)(struct fid_fabric *fabric, struct fi_wait_attr *attr,
			     struct fid_wait **waitset);
	int	(*trywait)(struct fid_fabric *fabric, struct fid **fids, int count);
	int	(*domain2)(struct fid_fabric *fabric, struct fi_info *info,
			   struct fid_domain **domain, uint64_t flags, void *context);
};

struct fid_fabric {
	struct fid		fid;
	struct fi_ops_fabric	*ops;
	uint32_t		api_version;
};

/* Device description; freed with the fi_info it hangs on */
struct fid_nic {
	struct fid		fid;
	struct fi_device_attr	*device_attr;
	struct fi_bus_attr	*bus_attr;
	struct fi_link_attr	*link_attr;
	void			*prov_attr;
};

/*
 * Find providers for node, service and hints.  0 and a list in *info, or
 * -FI_ENODATA when nothing matches, -FI_ENOSYS when version is newer than the
 * library.
 */
int fi_getinfo(uint32_t version, const char *node, const char *service,
	       uint64_t flags, const struct fi_info *hints, struct fi_info **info);
void fi_freeinfo(struct fi_info *info);

/* Copy of the first entry; NULL asks for an empty one.  NULL when out of memory. */
struct fi_info *fi_dupinfo(const struct fi_info *info);

static inline struct fi_info *fi_allocinfo(void)
{
	return fi_dupinfo(NULL);
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int fi_fabric2(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags,
	       void *context);

/* Open an object of the library itself, such as "logging" or "mr_cache". */
int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len,
	    uint64_t flags, struct fid **fid, void *context);

/* -FI_EBUSY while objects opened from or bound to this one live. */
static inline int fi_close(struct fid *fid)
{
	return fid->ops->close(fid);
}

/* Commands of fi_control */
enum {
	FI_GETFIDFLAG		= 0,	/* uint64_t * */
	FI_SETFIDFLAG		= 1,	/* uint64_t * */
	FI_GETOPSFLAG		= 2,	/* uint64_t *: in FI_TRANSMIT or FI_RECV, out op_flags */
	FI_SETOPSFLAG		= 3,	/* uint64_t * */
	FI_ALIAS		= 4,	/* struct fi_alias * */
	FI_GETWAIT		= 5,	/* wait object, by kind */
	FI_ENABLE		= 6,	/* NULL */
	FI_BACKLOG		= 7,	/* int * */
	FI_GET_RAW_MR		= 8,	/* struct fi_mr_raw_attr * */
	FI_MAP_RAW_MR		= 9,	/* struct fi_mr_map_raw * */
	FI_UNMAP_KEY		= 10,	/* uint64_t * */
	FI_QUEUE_WORK		= 11,	/* struct fi_deferred_work * */
	FI_CANCEL_WORK		= 12,	/* struct fi_deferred_work * */
	FI_FLUSH_WORK		= 13,	/* struct fid_cntr * or NULL */
	FI_REFRESH		= 14,	/* struct fi_mr_modify * */
	FI_DUP			= 15,	/* struct fid ** */
	FI_GETWAITOBJ		= 16,	/* enum fi_wait_obj * */
	FI_GET_VAL		= 17,	/* struct fi_fid_var * */
	FI_SET_VAL		= 18,	/* struct fi_fid_var * */
	FI_EXPORT_FID		= 19,	/* struct fi_fid_export * */
	FI_GET_FD		= 20,	/* int * */
};

static inline int fi_control(struct fid *fid, int command, void *arg)
{
	return fid->ops->control(fid, command, arg);
}

/* Argument of FI_ALIAS: a second handle with other default flags */
struct fi_alias {
	struct fid		**fid;
	uint64_t		flags;
};

static inline int fi_alias(struct fid *fid, struct fid **alias_fid, uint64_t flags)
{
	struct fi_alias alias;

	alias.fid = alias_fid;
	alias.flags = flags;
	return fi_control(fid, FI_ALIAS, &alias);
}

/* Argument of FI_GET_VAL and FI_SET_VAL: a provider's own variable */
struct fi_fid_var {
	int			name;
	void			*val;
};

static inline int fi_get_val(struct fid *fid, int name, void *val)
{
	struct fi_fid_var var;

	var.name = name;
	var.val = val;
	return fi_control(fid, FI_GET_VAL, &var);
}

static inline int fi_set_val(struct fid *fid, int name, void *val)
{
	struct fi_fid_var var;

	var.name = name;
	var.val = val;
	return fi_control(fid, FI_SET_VAL, &var);
}

/* Fetch a provider's own operations by name. */
static inline int
fi_open_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	return fid->ops->ops_open(fid, name, flags, ops, context);
}

/* Hand operations of the application to the provider by name. */
static inline int
fi_set_ops(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
	return FI_CHECK_OP(fid->ops, struct fi_ops, ops_set) ?
		fid->ops->ops_set(fid, name, flags, ops, context) : -FI_ENOSYS;
}

/* Argument of FI_GET_RAW_MR: all pointers are filled; key_size is in and out, bytes */
struct fi_mr_raw_attr {
	uint64_t		flags;
	uint64_t		*base_addr;
	uint8_t			*raw_key;
	size_t			*key_size;
};

/* Argument of FI_MAP_RAW_MR: *key receives a 64-bit stand-in for the raw key */
struct fi_mr_map_raw {
	uint64_t		flags;
	uint64_t		base_addr;
	uint8_t			*raw_key;
	size_t			key_size;
	uint64_t		*key;
};

/* What fi_tostr is to print */
enum fi_type {
	FI_TYPE_INFO		= 0,
	FI_TYPE_EP_TYPE		= 1,
	FI_TYPE_CAPS		= 2,
	FI_TYPE_OP_FLAGS	= 3,
	FI_TYPE_ADDR_FORMAT	= 4,
	FI_TYPE_TX_ATTR		= 5,
	FI_TYPE_RX_ATTR		= 6,
	FI_TYPE_EP_ATTR		= 7,
	FI_TYPE_DOMAIN_ATTR	= 8,
	FI_TYPE_FABRIC_ATTR	= 9,
	FI_TYPE_THREADING	= 10,
	FI_TYPE_PROGRESS	= 11,
	FI_TYPE_PROTOCOL	= 12,
	FI_TYPE_MSG_ORDER	= 13,
	FI_TYPE_MODE		= 14,
	FI_TYPE_AV_TYPE		= 15,
	FI_TYPE_ATOMIC_TYPE	= 16,
	FI_TYPE_ATOMIC_OP	= 17,
	FI_TYPE_VERSION		= 18,
	FI_TYPE_EQ_EVENT	= 19,
	FI_TYPE_CQ_EVENT_FLAGS	= 20,
	FI_TYPE_MR_MODE		= 21,
	FI_TYPE_OP_TYPE		= 22,
	FI_TYPE_FID		= 23,
	FI_TYPE_COLLECTIVE_OP	= 24,
	FI_TYPE_HMEM_IFACE	= 25,
	FI_TYPE_CQ_FORMAT	= 26,
	FI_TYPE_LOG_LEVEL	= 27,
	FI_TYPE_LOG_SUBSYS	= 28,
	FI_TYPE_AV_ATTR		= 29,
	FI_TYPE_CQ_ATTR		= 30,
	FI_TYPE_MR_ATTR		= 31,
	FI_TYPE_CNTR_ATTR	= 32,
	FI_TYPE_CQ_ERR_ENTRY	= 33,
	FI_TYPE_CQ_WAIT_COND	= 34,
	FI_TYPE_WAIT_OBJ	= 35,
};

/* Text in one buffer of the process: not for concurrent use. */
char *fi_tostr(const void *data, enum fi_type datatype);

/* Text in buf, cut at len bytes with the NUL; returns buf. */
char *fi_tostr_r(char *buf, size_t len, const void *data, enum fi_type datatype);

enum fi_param_type {
	FI_PARAM_STRING		= 0,
	FI_PARAM_INT		= 1,
	FI_PARAM_BOOL		= 2,
	FI_PARAM_SIZE_T		= 3,
};

/* A configuration variable; value is NULL when it is not set */
struct fi_param {
	const char		*name;
	enum fi_param_type	type;
	const char		*help_string;
	const char		*value;
};

int fi_getparams(struct fi_param **params, int *count);
void fi_freeparams(struct fi_param *params);

/* Room for the provider inside an operation's context, under mode FI_CONTEXT. */
struct fi_context {
	void			*internal[4];
};

/* The same, under mode FI_CONTEXT2. */
struct fi_context2 {
	void			*internal[8];
};

/* Owner of a receive posted to a shared context */
struct fi_recv_context {
	struct fid_ep		*ep;
	void			*context;
};

#ifdef __cplusplus
}
#endif

#endif /* FABRIC_H */
