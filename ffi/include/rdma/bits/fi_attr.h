/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Attributes: the enumerations and structures a struct fi_info is made of.
 * Part of <rdma/fabric.h>.
 */
#ifndef FI_BITS_ATTR_H
#define FI_BITS_ATTR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fid;
struct fid_domain;
struct fid_fabric;
struct fid_nic;

enum {
	FI_NAME_MAX		= 64,	/* longest fabric or domain name */
	FI_ATOMIC_OP_LAST	= 19,	/* frozen: operations added later are beyond */
	FI_DATATYPE_LAST	= 14,	/* frozen: types added later are beyond */
};

/* Format of raw addresses in fi_info and address vectors */
enum {
	FI_FORMAT_UNSPEC	= 0,
	FI_SOCKADDR		= 1,	/* struct sockaddr of any family */
	FI_SOCKADDR_IN		= 2,
	FI_SOCKADDR_IN6		= 3,
	FI_SOCKADDR_IB		= 4,
	FI_ADDR_PSMX		= 5,
	FI_ADDR_GNI		= 6,
	FI_ADDR_BGQ		= 7,
	FI_ADDR_MLX		= 8,
	FI_ADDR_STR		= 9,	/* URI-like text, NUL terminated */
	FI_ADDR_PSMX2		= 10,
	FI_ADDR_IB_UD		= 11,
	FI_ADDR_EFA		= 12,
	FI_ADDR_PSMX3		= 13,
	FI_ADDR_OPX		= 14,
	FI_ADDR_CXI		= 15,
	FI_ADDR_UCX		= 16,
	FI_SOCKADDR_IP		= 17,	/* sockaddr_in or sockaddr_in6 */
};

enum fi_av_type {
	FI_AV_UNSPEC		= 0,
	FI_AV_MAP		= 1,	/* deprecated: handed out like FI_AV_TABLE */
	FI_AV_TABLE		= 2,	/* addresses count up from 0 */
};

/* Who drives an operation on after it was posted */
enum fi_progress {
	FI_PROGRESS_UNSPEC	= 0,
	FI_PROGRESS_AUTO	= 1,	/* the provider */
	FI_PROGRESS_MANUAL	= 2,	/* the application, by reading queues and counters */
	FI_PROGRESS_CONTROL_UNIFIED = 3, /* manual, and data calls drive control as well */
};

/* How far the application serialises its calls */
enum fi_threading {
	FI_THREAD_UNSPEC	= 0,
	FI_THREAD_SAFE		= 1,	/* not at all */
	FI_THREAD_FID		= 2,	/* deprecated */
	FI_THREAD_DOMAIN	= 3,	/* per domain */
	FI_THREAD_COMPLETION	= 4,	/* per completion queue or counter */
	FI_THREAD_ENDPOINT	= 5,	/* deprecated */
};

/* Whether the provider keeps queues from running over */
enum fi_resource_mgmt {
	FI_RM_UNSPEC		= 0,
	FI_RM_DISABLED		= 1,
	FI_RM_ENABLED		= 2,
};

enum fi_ep_type {
	FI_EP_UNSPEC		= 0,
	FI_EP_MSG		= 1,	/* reliable, connected */
	FI_EP_DGRAM		= 2,	/* unreliable, connectionless */
	FI_EP_RDM		= 3,	/* reliable, connectionless */
};

#define FI_EP_SOCK_STREAM	FI_EP_UNSPEC	/* kept so that old sources build */

/* Protocol on the wire: endpoints talk only to endpoints of the same one */
enum {
	FI_PROTO_UNSPEC		= 0,
	FI_PROTO_RDMA_CM_IB_RC	= 1,
	FI_PROTO_IWARP		= 2,
	FI_PROTO_IB_UD		= 3,
	FI_PROTO_PSMX		= 4,
	FI_PROTO_UDP		= 5,
	FI_PROTO_SOCK_TCP	= 6,
	FI_PROTO_MXM		= 7,
	FI_PROTO_IWARP_RDM	= 8,
	FI_PROTO_IB_RDM		= 9,
	FI_PROTO_GNI		= 10,
	FI_PROTO_RXM		= 11,
	FI_PROTO_RXD		= 12,
	FI_PROTO_MLX		= 13,
	FI_PROTO_NETWORKDIRECT	= 14,
	FI_PROTO_PSMX2		= 15,
	FI_PROTO_SHM		= 16,
	FI_PROTO_MRAIL		= 17,
	FI_PROTO_RSTREAM	= 18,
	FI_PROTO_RDMA_CM_IB_XRC	= 19,
	FI_PROTO_EFA		= 20,
	FI_PROTO_PSMX3		= 21,
	FI_PROTO_RXM_TCP	= 22,
	FI_PROTO_OPX		= 23,
	FI_PROTO_CXI		= 24,
	FI_PROTO_XNET		= 25,
	FI_PROTO_COLL		= 26,
	FI_PROTO_UCX		= 27,
	FI_PROTO_SM2		= 28,
	FI_PROTO_CXI_RNR	= 29,
	FI_PROTO_LPP		= 30,
	FI_PROTO_LNX		= 31,
};

/* fi_ep_attr.mem_tag_format: a known use of the tag, or (from MAX_FORMAT) a field mask */
enum {
	FI_TAG_BITS		= 0,
	FI_TAG_MPI		= 1,	/* 32-bit tag and 8-bit payload, see fi_tag_mpi */
	FI_TAG_CCL		= 2,	/* collective library: tags only ever match exactly */
	FI_TAG_MAX_FORMAT	= 1 << 16,
};

/* Traffic class: a DSCP value, or one of the labels */
enum {
	FI_TC_UNSPEC		= 0,
	FI_TC_DSCP		= 0x100,	/* low byte is a DSCP value */
	FI_TC_LABEL		= 0x200,
	FI_TC_BEST_EFFORT	= FI_TC_LABEL,
	FI_TC_LOW_LATENCY,
	FI_TC_DEDICATED_ACCESS,
	FI_TC_BULK_DATA,
	FI_TC_SCAVENGER,
	FI_TC_NETWORK_CTRL,
};

static inline uint32_t fi_tc_dscp_set(uint8_t dscp)
{
	return (uint32_t) dscp | FI_TC_DSCP;
}

/* 0 when the class is a label. */
static inline uint8_t fi_tc_dscp_get(uint32_t tclass)
{
	return (uint8_t) ((tclass & FI_TC_DSCP) ? tclass & 0xFF : 0);
}

/*
 * Attributes.  In hints 0 means "any" (for mode and mr_mode: "none"); in results
 * they are what the provider offers, cut down to what was asked.
 */

/* Sending side of an endpoint */
struct fi_tx_attr {
	uint64_t		caps;
	uint64_t		mode;
	uint64_t		op_flags;	/* defaults of calls that take no flags */
	uint64_t		msg_order;
	uint64_t		comp_order;	/* deprecated, must be 0 */
	size_t			inject_size;	/* bytes, inclusive */
	size_t			size;		/* operations that can be outstanding */
	size_t			iov_limit;
	size_t			rma_iov_limit;
	uint32_t		tclass;
};

/* Receiving side of an endpoint */
struct fi_rx_attr {
	uint64_t		caps;
	uint64_t		mode;
	uint64_t		op_flags;
	uint64_t		msg_order;
	uint64_t		comp_order;	/* deprecated, must be 0 */
	size_t			total_buffered_recv; /* deprecated, must be 0 */
	size_t			size;		/* buffers that can be posted */
	size_t			iov_limit;
};

struct fi_ep_attr {
	enum fi_ep_type		type;
	uint32_t		protocol;
	uint32_t		protocol_version;
	size_t			max_msg_size;
	size_t			msg_prefix_size;
	size_t			max_order_raw_size; /* bytes up to which data keeps order */
	size_t			max_order_war_size;
	size_t			max_order_waw_size;
	uint64_t		mem_tag_format;
	size_t			tx_ctx_cnt;
	size_t			rx_ctx_cnt;
	size_t			auth_key_size;	/* bytes */
	uint8_t			*auth_key;
};

struct fi_domain_attr {
	struct fid_domain	*domain;	/* an open domain to match, or NULL */
	char			*name;
	enum fi_threading	threading;
	enum fi_progress	control_progress; /* follows progress */
	__extension__ union {
		enum fi_progress data_progress;
		enum fi_progress progress;
	};
	enum fi_resource_mgmt	resource_mgmt;
	enum fi_av_type		av_type;
	int			mr_mode;	/* FI_MR_* */
	size_t			mr_key_size;	/* bytes */
	size_t			cq_data_size;	/* bytes of remote CQ data */
	size_t			cq_cnt;
	size_t			ep_cnt;
	size_t			tx_ctx_cnt;
	size_t			rx_ctx_cnt;
	size_t			max_ep_tx_ctx;
	size_t			max_ep_rx_ctx;
	size_t			max_ep_stx_ctx;
	size_t			max_ep_srx_ctx;
	size_t			cntr_cnt;
	size_t			mr_iov_limit;
	uint64_t		caps;
	uint64_t		mode;
	uint8_t			*auth_key;
	size_t			auth_key_size;	/* bytes */
	size_t			max_err_data;	/* bytes of err_data at most */
	size_t			mr_cnt;
	uint32_t		tclass;
	size_t			max_ep_auth_key;
	uint32_t		max_group_id;
	uint64_t		max_cntr_value;
	uint64_t		max_err_cntr_value;
};

struct fi_fabric_attr {
	struct fid_fabric	*fabric;	/* an open fabric to match, or NULL */
	char			*name;
	char			*prov_name;	/* "core" or "core;utility" */
	uint32_t		prov_version;
	uint32_t		api_version;	/* set by fi_getinfo to the version asked for */
};

/*
 * One way to reach the fabric.  Lists come from fi_getinfo; everything in them
 * belongs to the caller, who may replace strings and addresses by malloc'ed ones
 * and frees the list with fi_freeinfo.
 */
struct fi_info {
	struct fi_info		*next;
	uint64_t		caps;
	uint64_t		mode;
	uint32_t		addr_format;
	size_t			src_addrlen;
	size_t			dest_addrlen;
	void			*src_addr;
	void			*dest_addr;
	struct fid		*handle;		/* a connection request, or NULL */
	struct fi_tx_attr	*tx_attr;
	struct fi_rx_attr	*rx_attr;
	struct fi_ep_attr	*ep_attr;
	struct fi_domain_attr	*domain_attr;
	struct fi_fabric_attr	*fabric_attr;
	struct fid_nic		*nic;		/* NULL where there is no device */
};

/* Device behind an fi_info */
struct fi_device_attr {
	char			*name;
	char			*device_id;
	char			*device_version;
	char			*vendor_id;
	char			*driver;
	char			*firmware;
};

enum fi_bus_type {
	FI_BUS_UNSPEC		= 0,
	FI_BUS_UNKNOWN		= FI_BUS_UNSPEC,
	FI_BUS_PCI		= 1,
};

struct fi_pci_attr {
	uint16_t		domain_id;
	uint8_t			bus_id;
	uint8_t			device_id;
	uint8_t			function_id;
};

struct fi_bus_attr {
	enum fi_bus_type	bus_type;
	union {
		struct fi_pci_attr pci;
	} attr;
};

enum fi_link_state {
	FI_LINK_UNKNOWN		= 0,
	FI_LINK_DOWN		= 1,
	FI_LINK_UP		= 2,
};

struct fi_link_attr {
	char			*address;
	size_t			mtu;		/* bytes */
	size_t			speed;		/* bits per second */
	enum fi_link_state	state;
	char			*network_type;
};

#ifdef __cplusplus
}
#endif

#endif /* FI_BITS_ATTR_H */
