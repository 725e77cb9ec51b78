/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Peer objects: providers that share queues, address vectors and receive buffers.
 *
 * The owner opens the peer's object with FI_PEER in the attribute's flags and a
 * struct fi_peer_*_context as its context; that context is valid during the call,
 * the struct fid_peer_* in it until the object is closed.  Both sides must come
 * from one release: these structures are not frozen.
 */
#ifndef FI_PEER_H
#define FI_PEER_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Address vector
 */
struct fid_peer_av;

struct fi_ops_av_owner {
	size_t		size;
	int		(*query)(struct fid_peer_av *av, struct fi_av_attr *attr);
	fi_addr_t	(*ep_addr)(struct fid_peer_av *av, struct fid_ep *ep);
};

struct fid_peer_av {
	struct fid		fid;
	struct fi_ops_av_owner	*owner_ops;
};

struct fi_peer_av_context {
	size_t			size;
	struct fid_peer_av	*av;
};

/*
 * Address vector set
 */
struct fid_peer_av_set;
struct fi_peer_av_set;

struct fi_ops_av_set_owner {
	size_t	size;
	int	(*members)(struct fid_peer_av_set *av, fi_addr_t *addr, size_t *count);
};

struct fid_peer_av_set {
	struct fid			fid;
	struct fi_ops_av_set_owner	*owner_ops;
};

struct fi_peer_av_set_context {
	size_t			size;
	struct fi_peer_av_set	*av_set;	/* opaque: a struct fid_peer_av_set */
};

/*
 * Completion queue: the peer writes, the owner reads
 */
struct fid_peer_cq;

struct fi_ops_cq_owner {
	size_t	size;
	ssize_t	(*write)(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len,
			 void *buf, uint64_t data, uint64_t tag, fi_addr_t src);
	ssize_t	(*writeerr)(struct fid_peer_cq *cq, const struct fi_cq_err_entry *err_entry);
};

struct fid_peer_cq {
	struct fid		fid;
	struct fi_ops_cq_owner	*owner_ops;
};

struct fi_peer_cq_context {
	size_t			size;
	struct fid_peer_cq	*cq;
};

/*
 * Counter
 */
struct fid_peer_cntr;

struct fi_ops_cntr_owner {
	size_t	size;
	void	(*inc)(struct fid_peer_cntr *cntr);
	void	(*incerr)(struct fid_peer_cntr *cntr);
};

struct fid_peer_cntr {
	struct fid			fid;
	struct fi_ops_cntr_owner	*owner_ops;
};

struct fi_peer_cntr_context {
	size_t			size;
	struct fid_peer_cntr	*cntr;
};

/*
 * Domain and event queue
 */
struct fi_peer_domain_context {
	size_t			size;
	struct fid_domain	*domain;
};

struct fi_peer_eq_context {
	size_t			size;
	struct fid_eq		*eq;
};

/*
 * Shared receive context.  The owner keeps posted and unexpected messages and
 * holds its lock around every call in either direction.
 */
struct fid_peer_srx;

/* One receive buffer, or one message without a buffer */
struct fi_peer_rx_entry {
	struct fid_peer_srx	*srx;
	fi_addr_t		addr;
	size_t			msg_size;	/* bytes */
	uint64_t		tag;
	uint64_t		cq_data;
	uint64_t		flags;		/* FI_RECV with FI_MSG or FI_TAGGED */
	void			*context;
	size_t			count;		/* of iov and desc */
	void			**desc;
	void			*peer_context;	/* the peer's */
	void			*owner_context;	/* the owner's */
	struct iovec		*iov;
};

/* An arriving message */
struct fi_peer_match_attr {
	fi_addr_t		addr;
	size_t			msg_size;	/* bytes */
	uint64_t		tag;
};

/*
 * get_*: 0 and a matching buffer, or -FI_ENOENT and an entry to hand to queue_*;
 * the owner then calls start_* or discard_*.  free_entry ends either.
 */
struct fi_ops_srx_owner {
	size_t	size;
	int	(*get_msg)(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
			   struct fi_peer_rx_entry **entry);
	int	(*get_tag)(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
			   struct fi_peer_rx_entry **entry);
	int	(*queue_msg)(struct fi_peer_rx_entry *entry);
	int	(*queue_tag)(struct fi_peer_rx_entry *entry);
	void	(*foreach_unspec_addr)(struct fid_peer_srx *srx,
				       fi_addr_t (*get_addr)(struct fi_peer_rx_entry *));
	void	(*free_entry)(struct fi_peer_rx_entry *entry);
};

struct fi_ops_srx_peer {
	size_t	size;
	int	(*start_msg)(struct fi_peer_rx_entry *entry);
	int	(*start_tag)(struct fi_peer_rx_entry *entry);
	int	(*discard_msg)(struct fi_peer_rx_entry *entry);
	int	(*discard_tag)(struct fi_peer_rx_entry *entry);
};

struct fid_peer_srx {
	struct fid_ep		ep_fid;
	struct fi_ops_srx_owner	*owner_ops;
	struct fi_ops_srx_peer	*peer_ops;	/* set by the peer */
};

struct fi_peer_srx_context {
	size_t			size;
	struct fid_peer_srx	*srx;
};

/*
 * Transfers carried out by another provider on an endpoint's behalf
 */
struct fi_ops_transfer_peer {
	size_t	size;
	ssize_t	(*complete)(struct fid_ep *ep, struct fi_cq_tagged_entry *buf,
			    fi_addr_t src_addr);
	ssize_t	(*comperr)(struct fid_ep *ep, struct fi_cq_err_entry *buf);
};

struct fi_peer_transfer_context {
	size_t				size;
	struct fi_info			*info;
	struct fid_ep			*ep;
	struct fi_ops_transfer_peer	*peer_ops;
};

#ifdef __cplusplus
}
#endif

#endif /* FI_PEER_H */
