/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Domains, memory registration and address vectors.
 */
#ifndef FI_DOMAIN_H
#define FI_DOMAIN_H

#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Address vector: turns raw addresses into fi_addr_t.
 */

/* Flags of address vectors and their calls */
#define FI_SYMMETRIC		(1ULL << 59)	/* every process inserts the same, in one order */
#define FI_SYNC_ERR		(1ULL << 58)	/* context is an int array of errors per address */
#define FI_UNIVERSE		(1ULL << 57)	/* set of every address in the vector */

/* Collectives an address vector set will be used for */
#define FI_BARRIER_SET		(1ULL << 40)
#define FI_BROADCAST_SET	(1ULL << 41)
#define FI_ALLTOALL_SET		(1ULL << 42)
#define FI_ALLREDUCE_SET	(1ULL << 43)
#define FI_ALLGATHER_SET	(1ULL << 44)
#define FI_REDUCE_SCATTER_SET	(1ULL << 45)
#define FI_REDUCE_SET		(1ULL << 46)
#define FI_SCATTER_SET		(1ULL << 47)
#define FI_GATHER_SET		(1ULL << 48)

struct fi_av_attr {
	enum fi_av_type		type;
	int			rx_ctx_bits;	/* high bits of fi_addr_t that select a context */
	size_t			count;		/* addresses expected, a hint */
	size_t			ep_per_node;	/* a hint */
	const char		*name;		/* of a vector shared between processes */
	void			*map_addr;	/* where a shared vector is mapped */
	uint64_t		flags;		/* FI_EVENT, FI_READ, FI_SYMMETRIC, FI_PEER */
};

/* Members start, start + stride, ... end of a table, or none */
struct fi_av_set_attr {
	size_t			count;
	fi_addr_t		start_addr;
	fi_addr_t		end_addr;
	uint64_t		stride;
	size_t			comm_key_size;	/* bytes */
	uint8_t			*comm_key;
	uint64_t		flags;		/* FI_UNIVERSE, FI_*_SET */
};

struct fi_ops_av {
	size_t	size;
	int	(*insert)(struct fid_av *av, const void *addr, size_t count,
			  fi_addr_t *fi_addr, uint64_t flags, void *context);
	int	(*insertsvc)(struct fid_av *av, const char *node, const char *service,
			     fi_addr_t *fi_addr, uint64_t flags, void *context);
	int	(*insertsym)(struct fid_av *av, const char *node, size_t nodecnt,
			     const char *service, size_t svccnt,
			     fi_addr_t *fi_addr, uint64_t flags, void *context);
	int	(*remove)(struct fid_av *av, fi_addr_t *fi_addr, size_t count,
			  uint64_t flags);
	int	(*lookup)(struct fid_av *av, fi_addr_t fi_addr, void *addr,
			  size_t *addrlen);
	const char *(*straddr)(struct fid_av *av, const void *addr, char *buf, size_t *len);
	int	(*av_set)(struct fid_av *av, struct fi_av_set_attr *attr,
			  struct fid_av_set **av_set, void *context);
	int	(*insert_auth_key)(struct fid_av *av, const void *auth_key,
				   size_t auth_key_size, fi_addr_t *fi_addr,
				   uint64_t flags);
	int	(*lookup_auth_key)(struct fid_av *av, fi_addr_t addr,
				   void *auth_key, size_t *auth_key_size);
	int	(*set_user_id)(struct fid_av *av, fi_addr_t fi_addr,
			       fi_addr_t user_id, uint64_t flags);
};

struct fid_av {
	struct fid		fid;
	struct fi_ops_av	*ops;
};

/*
 * Memory registration.
 */

/* Flags of registrations */
#define FI_MR_DMABUF		(1ULL << 40)	/* fi_mr_attr carries dmabuf, not mr_iov */
#define FI_MR_SINGLE_USE	(1ULL << 41)	/* one remote access, then the key is dead */
#define FI_HMEM_HOST_ALLOC	(1ULL << 45)	/* device memory that the host can touch */
#define FI_HMEM_DEVICE_ONLY	(1ULL << 46)	/* device memory that only the device can touch */

/* Binding an EQ to a domain for asynchronous registration, deprecated */
#define FI_REG_MR		(1ULL << 59)

/* What kind of memory */
enum fi_hmem_iface {
	FI_HMEM_SYSTEM		= 0,
	FI_HMEM_CUDA		= 1,
	FI_HMEM_ROCR		= 2,
	FI_HMEM_ZE		= 3,
	FI_HMEM_NEURON		= 4,
	FI_HMEM_SYNAPSEAI	= 5,
};

/* fi_mr_attr.device.ze of a Level Zero device */
static inline int fi_hmem_ze_device(int driver_index, int device_index)
{
	return driver_index << 16 | device_index;
}

struct fid_mr {
	struct fid		fid;
	void			*mem_desc;	/* passed as desc in data calls */
	uint64_t		key;		/* FI_KEY_NOTAVAIL: use the raw key */
};

struct fi_mr_dmabuf {
	int			fd;
	uint64_t		offset;		/* bytes into the dma-buf */
	size_t			len;		/* bytes */
	void			*base_addr;
};

/* Value of fi_mr_attr.auth_key when auth_key_size is FI_AV_AUTH_KEY */
struct fi_mr_auth_key {
	struct fid_av		*av;
	fi_addr_t		src_addr;
};

struct fi_mr_attr {
	__extension__ union {
		const struct iovec	  *mr_iov;
		const struct fi_mr_dmabuf *dmabuf;	/* with FI_MR_DMABUF */
	};
	size_t			iov_count;
	uint64_t		access;		/* FI_SEND, FI_RECV, FI_READ, ... */
	uint64_t		offset;		/* must be 0 */
	uint64_t		requested_key;	/* without FI_MR_PROV_KEY */
	void			*context;
	size_t			auth_key_size;	/* bytes */
	uint8_t			*auth_key;
	enum fi_hmem_iface	iface;
	union {
		uint64_t	reserved;
		int		cuda;
		int		ze;
		int		neuron;
		int		synapseai;
		int		rocr;
	} device;
	void			*hmem_data;
	size_t			page_size;	/* bytes, a hint; 0 unknown */
	const struct fid_mr	*base_mr;	/* region this one is part of, or NULL */
	size_t			sub_mr_cnt;	/* parts that will be registered of it */
};

/* Argument of FI_REFRESH */
struct fi_mr_modify {
	uint64_t		flags;
	struct fi_mr_attr	attr;
};

struct fi_ops_mr {
	size_t	size;
	int	(*reg)(struct fid *fid, const void *buf, size_t len, uint64_t access,
		       uint64_t offset, uint64_t requested_key, uint64_t flags,
		       struct fid_mr **mr, void *context);
	int	(*regv)(struct fid *fid, const struct iovec *iov, size_t count,
			uint64_t access, uint64_t offset, uint64_t requested_key,
			uint64_t flags, struct fid_mr **mr, void *context);
	int	(*regattr)(struct fid *fid, const struct fi_mr_attr *attr,
			   uint64_t flags, struct fid_mr **mr);
};

/* Copies to and from device memory done by the application, for fi_set_ops */
#define FI_SET_OPS_HMEM_OVERRIDE	"hmem_override_ops"

struct fi_hmem_override_ops {
	size_t	size;
	ssize_t	(*copy_from_hmem_iov)(void *dest, size_t size,
				      enum fi_hmem_iface iface, uint64_t device,
				      const struct iovec *hmem_iov,
				      size_t hmem_iov_count, uint64_t hmem_iov_offset);
	ssize_t	(*copy_to_hmem_iov)(enum fi_hmem_iface iface, uint64_t device,
				    const struct iovec *hmem_iov,
				    size_t hmem_iov_count, uint64_t hmem_iov_offset,
				    const void *src, size_t size);
};

/*
 * Types and operations of atomics and collectives.
 */

/* Members from here on exist for collectives only */
#define FI_COLLECTIVE_OFFSET	256

enum fi_datatype {
	FI_INT8			= 0,
	FI_UINT8		= 1,
	FI_INT16		= 2,
	FI_UINT16		= 3,
	FI_INT32		= 4,
	FI_UINT32		= 5,
	FI_INT64		= 6,
	FI_UINT64		= 7,
	FI_FLOAT		= 8,
	FI_DOUBLE		= 9,
	FI_FLOAT_COMPLEX	= 10,
	FI_DOUBLE_COMPLEX	= 11,
	FI_LONG_DOUBLE		= 12,
	FI_LONG_DOUBLE_COMPLEX	= 13,
	FI_INT128		= 14,
	FI_UINT128		= 15,
	FI_FLOAT16		= 16,
	FI_BFLOAT16		= 17,
	FI_FLOAT8_E4M3		= 18,
	FI_FLOAT8_E5M2		= 19,

	FI_VOID			= FI_COLLECTIVE_OFFSET,	/* bytes without arithmetic */
};

enum fi_op {
	FI_MIN			= 0,
	FI_MAX			= 1,
	FI_SUM			= 2,
	FI_PROD			= 3,
	FI_LOR			= 4,
	FI_LAND			= 5,
	FI_BOR			= 6,
	FI_BAND			= 7,
	FI_LXOR			= 8,
	FI_BXOR			= 9,
	FI_ATOMIC_READ		= 10,
	FI_ATOMIC_WRITE		= 11,
	FI_CSWAP		= 12,	/* swap when compare == target */
	FI_CSWAP_NE		= 13,	/* !=, and so on: compare on the left */
	FI_CSWAP_LE		= 14,
	FI_CSWAP_LT		= 15,
	FI_CSWAP_GE		= 16,
	FI_CSWAP_GT		= 17,
	FI_MSWAP		= 18,	/* swap the bits that compare selects */
	FI_DIFF			= 19,	/* target minus operand */

	FI_NOOP			= FI_COLLECTIVE_OFFSET,
};

enum fi_collective_op {
	FI_BARRIER		= 0,
	FI_BROADCAST		= 1,
	FI_ALLTOALL		= 2,
	FI_ALLREDUCE		= 3,
	FI_ALLGATHER		= 4,
	FI_REDUCE_SCATTER	= 5,
	FI_REDUCE		= 6,
	FI_SCATTER		= 7,
	FI_GATHER		= 8,
};

/*
 * Domain: one set of resources on one interface; everything below is opened from it.
 */
struct fi_atomic_attr;
struct fi_collective_attr;

struct fi_ops_domain {
	size_t	size;
	int	(*av_open)(struct fid_domain *domain, struct fi_av_attr *attr,
			   struct fid_av **av, void *context);
	int	(*cq_open)(struct fid_domain *domain, struct fi_cq_attr *attr,
			   struct fid_cq **cq, void *context);
	int	(*endpoint)(struct fid_domain *domain, struct fi_info *info,
			    struct fid_ep **ep, void *context);
	int	(*scalable_ep)(struct fid_domain *domain, struct fi_info *info,
			       struct fid_ep **sep, void *context);
	int	(*cntr_open)(struct fid_domain *domain, struct fi_cntr_attr *attr,
			     struct fid_cntr **cntr, void *context);
	int	(*poll_open)(struct fid_domain *domain, struct fi_poll_attr *attr,
			     struct fid_poll **pollset);
	int	(*stx_ctx)(struct fid_domain *domain, struct fi_tx_attr *attr,
			   struct fid_stx **stx, void *context);
	int	(*srx_ctx)(struct fid_domain *domain, struct fi_rx_attr *attr,
			   struct fid_ep **rx_ep, void *context);
	int	(*query_atomic)(struct fid_domain *domain, enum fi_datatype datatype,
				enum fi_op op, struct fi_atomic_attr *attr,
				uint64_t flags);
	int	(*query_collective)(struct fid_domain *domain, enum fi_collective_op coll,
				    struct fi_collective_attr *attr, uint64_t flags);
	int	(*endpoint2)(struct fid_domain *domain, struct fi_info *info,
			     struct fid_ep **ep, uint64_t flags, void *context);
};

struct fid_domain {
	struct fid		fid;
	struct fi_ops_domain	*ops;
	struct fi_ops_mr	*mr;
};

static inline int
fi_domain(struct fid_fabric *fabric, struct fi_info *info,
	  struct fid_domain **domain, void *context)
{
	return fabric->ops->domain(fabric, info, domain, context);
}

/* With flags 0 any provider will do. */
static inline int
fi_domain2(struct fid_fabric *fabric, struct fi_info *info,
	   struct fid_domain **domain, uint64_t flags, void *context)
{
	if (!flags)
		return fi_domain(fabric, info, domain, context);

	return FI_CHECK_OP(fabric->ops, struct fi_ops_fabric, domain2) ?
		fabric->ops->domain2(fabric, info, domain, flags, context) : -FI_ENOSYS;
}

static inline int fi_domain_bind(struct fid_domain *domain, struct fid *fid, uint64_t flags)
{
	return domain->fid.ops->bind(&domain->fid, fid, flags);
}

static inline int
fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
	   struct fid_cq **cq, void *context)
{
	return domain->ops->cq_open(domain, attr, cq, context);
}

static inline int
fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
	     struct fid_cntr **cntr, void *context)
{
	return domain->ops->cntr_open(domain, attr, cntr, context);
}

/* Deprecated, with the next one. */
static inline int
fi_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr,
	     struct fid_wait **waitset)
{
	return fabric->ops->wait_open(fabric, attr, waitset);
}

static inline int
fi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr,
	     struct fid_poll **pollset)
{
	return domain->ops->poll_open(domain, attr, pollset);
}

/*
 * Register memory.  access says what is done with it: local use, FI_REMOTE_READ,
 * FI_REMOTE_WRITE.  -FI_ENOKEY when the requested key is taken.
 */
static inline int
fi_mr_reg(struct fid_domain *domain, const void *buf, size_t len, uint64_t access,
	  uint64_t offset, uint64_t requested_key, uint64_t flags,
	  struct fid_mr **mr, void *context)
{
	return domain->mr->reg(&domain->fid, buf, len, access, offset,
			       requested_key, flags, mr, context);
}

static inline int
fi_mr_regv(struct fid_domain *domain, const struct iovec *iov, size_t count,
	   uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
	   struct fid_mr **mr, void *context)
{
	return domain->mr->regv(&domain->fid, iov, count, access, offset,
				requested_key, flags, mr, context);
}

static inline int
fi_mr_regattr(struct fid_domain *domain, const struct fi_mr_attr *attr,
	      uint64_t flags, struct fid_mr **mr)
{
	return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

static inline void *fi_mr_desc(struct fid_mr *mr)
{
	return mr->mem_desc;
}

static inline uint64_t fi_mr_key(struct fid_mr *mr)
{
	return mr->key;
}

/* Key longer than 64 bits; *key_size is in and out, -FI_ETOOSMALL when it is short. */
static inline int
fi_mr_raw_attr(struct fid_mr *mr, uint64_t *base_addr, uint8_t *raw_key,
	       size_t *key_size, uint64_t flags)
{
	struct fi_mr_raw_attr attr;

	attr.flags = flags;
	attr.base_addr = base_addr;
	attr.raw_key = raw_key;
	attr.key_size = key_size;
	return mr->fid.ops->control(&mr->fid, FI_GET_RAW_MR, &attr);
}

/* Turn a peer's raw key into a key for RMA calls; undone by fi_mr_unmap_key. */
static inline int
fi_mr_map_raw(struct fid_domain *domain, uint64_t base_addr, uint8_t *raw_key,
	      size_t key_size, uint64_t *key, uint64_t flags)
{
	struct fi_mr_map_raw map;

	map.flags = flags;
	map.base_addr = base_addr;
	map.raw_key = raw_key;
	map.key_size = key_size;
	map.key = key;
	return domain->fid.ops->control(&domain->fid, FI_MAP_RAW_MR, &map);
}

static inline int fi_mr_unmap_key(struct fid_domain *domain, uint64_t key)
{
	return domain->fid.ops->control(&domain->fid, FI_UNMAP_KEY, &key);
}

static inline int fi_mr_bind(struct fid_mr *mr, struct fid *bfid, uint64_t flags)
{
	return mr->fid.ops->bind(&mr->fid, bfid, flags);
}

/* Tell the provider that pages of the region have changed. */
static inline int
fi_mr_refresh(struct fid_mr *mr, const struct iovec *iov, size_t count, uint64_t flags)
{
	struct fi_mr_modify modify;

	memset(&modify, 0, sizeof(modify));
	modify.flags = flags;
	modify.attr.mr_iov = iov;
	modify.attr.iov_count = count;
	return mr->fid.ops->control(&mr->fid, FI_REFRESH, &modify);
}

static inline int fi_mr_enable(struct fid_mr *mr)
{
	return mr->fid.ops->control(&mr->fid, FI_ENABLE, NULL);
}

static inline int
fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr,
	   struct fid_av **av, void *context)
{
	return domain->ops->av_open(domain, attr, av, context);
}

/* Deprecated: addresses are inserted before the call returns. */
static inline int fi_av_bind(struct fid_av *av, struct fid *fid, uint64_t flags)
{
	return av->fid.ops->bind(&av->fid, fid, flags);
}

/* Number of addresses inserted; the others read FI_ADDR_NOTAVAIL. */
static inline int
fi_av_insert(struct fid_av *av, const void *addr, size_t count,
	     fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return av->ops->insert(av, addr, count, fi_addr, flags, context);
}

static inline int
fi_av_insertsvc(struct fid_av *av, const char *node, const char *service,
		fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return av->ops->insertsvc(av, node, service, fi_addr, flags, context);
}

/* node and service count up, as host1, host2, ... and 7000, 7001, ... */
static inline int
fi_av_insertsym(struct fid_av *av, const char *node, size_t nodecnt,
		const char *service, size_t svccnt,
		fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	return av->ops->insertsym(av, node, nodecnt, service, svccnt, fi_addr, flags, context);
}

static inline int
fi_av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	return av->ops->remove(av, fi_addr, count, flags);
}

/* *addrlen is in and out, bytes; a short buffer is filled as far as it goes. */
static inline int
fi_av_lookup(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
	return av->ops->lookup(av, fi_addr, addr, addrlen);
}

/* Raw address as text; *len is in and out, bytes with the NUL. */
static inline const char *
fi_av_straddr(struct fid_av *av, const void *addr, char *buf, size_t *len)
{
	return av->ops->straddr(av, addr, buf, len);
}

static inline int
fi_av_insert_auth_key(struct fid_av *av, const void *auth_key, size_t auth_key_size,
		      fi_addr_t *fi_addr, uint64_t flags)
{
	return FI_CHECK_OP(av->ops, struct fi_ops_av, insert_auth_key) ?
		av->ops->insert_auth_key(av, auth_key, auth_key_size, fi_addr, flags) :
		-FI_ENOSYS;
}

static inline int
fi_av_lookup_auth_key(struct fid_av *av, fi_addr_t addr, void *auth_key,
		      size_t *auth_key_size)
{
	return FI_CHECK_OP(av->ops, struct fi_ops_av, lookup_auth_key) ?
		av->ops->lookup_auth_key(av, addr, auth_key, auth_key_size) : -FI_ENOSYS;
}

/* Report user_id instead of fi_addr as the source of messages. */
static inline int
fi_av_set_user_id(struct fid_av *av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags)
{
	return FI_CHECK_OP(av->ops, struct fi_ops_av, set_user_id) ?
		av->ops->set_user_id(av, fi_addr, user_id, flags) : -FI_ENOSYS;
}

/* Address of one receive context of a scalable endpoint; the identity for 0 bits. */
static inline fi_addr_t fi_rx_addr(fi_addr_t fi_addr, int rx_index, int rx_ctx_bits)
{
	if (!rx_ctx_bits)
		return fi_addr;

	return ((uint64_t) rx_index << (64 - rx_ctx_bits)) | fi_addr;
}

/* Address within a peer group. */
static inline fi_addr_t fi_group_addr(fi_addr_t fi_addr, uint32_t group_id)
{
	return ((uint64_t) group_id << 32) | fi_addr;
}

#ifdef __cplusplus
}
#endif

#endif /* FI_DOMAIN_H */
