/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Capability, mode, registration and ordering bits.  Part of <rdma/fabric.h>.
 */
#ifndef FI_BITS_FLAGS_H
#define FI_BITS_FLAGS_H

#include <stdint.h>

/*
 * Capability and operation bits.  Both share one 64-bit space, and the top
 * bits carry several names: the call they are passed to decides the meaning.
 */

/* What an endpoint can do */
#define FI_MSG			(1ULL << 1)
#define FI_RMA			(1ULL << 2)
#define FI_TAGGED		(1ULL << 3)
#define FI_ATOMIC		(1ULL << 4)
#define FI_ATOMICS		FI_ATOMIC
#define FI_MULTICAST		(1ULL << 5)
#define FI_COLLECTIVE		(1ULL << 6)

/* In which direction; also the kind of access in completions and registrations */
#define FI_READ			(1ULL << 8)
#define FI_WRITE		(1ULL << 9)
#define FI_RECV			(1ULL << 10)
#define FI_SEND			(1ULL << 11)
#define FI_TRANSMIT		FI_SEND
#define FI_REMOTE_READ		(1ULL << 12)	/* be the target of reads */
#define FI_REMOTE_WRITE		(1ULL << 13)	/* be the target of writes */

/* Per operation */
#define FI_MULTI_RECV		(1ULL << 16)	/* one buffer takes many messages */
#define FI_REMOTE_CQ_DATA	(1ULL << 17)	/* immediate data for the peer's completion */
#define FI_MORE			(1ULL << 18)	/* another post follows at once */
#define FI_PEEK			(1ULL << 19)	/* look, leave it queued */
#define FI_TRIGGER		(1ULL << 20)	/* context is a struct fi_triggered_context */
#define FI_FENCE		(1ULL << 21)	/* wait for earlier operations to that peer */
#define FI_COMPLETION		(1ULL << 24)	/* report success of this operation */
#define FI_EVENT		FI_COMPLETION
#define FI_INJECT		(1ULL << 25)	/* buffer is free again when the call returns */
#define FI_INJECT_COMPLETE	(1ULL << 26)	/* completes when the buffer is free */
#define FI_TRANSMIT_COMPLETE	(1ULL << 27)	/* completes when the peer has it */
#define FI_DELIVERY_COMPLETE	(1ULL << 28)	/* completes when it is in the peer's buffer */
#define FI_AFFINITY		(1ULL << 29)
#define FI_COMMIT_COMPLETE	(1ULL << 30)	/* completes when it is durable */
#define FI_MATCH_COMPLETE	(1ULL << 31)	/* completes when a receive matched it */

/* Discovery, peer objects and secondary capabilities */
#define FI_RESCAN		(1ULL << 35)	/* look at the interfaces anew */
#define FI_PEER_TRANSFER	(1ULL << 36)
#define FI_AV_USER_ID		(1ULL << 41)
#define FI_FIREWALL_ADDR	(1ULL << 42)
#define FI_PEER			(1ULL << 43)
#define FI_TAGGED_DIRECTED_RECV	(1ULL << 45)
#define FI_TAGGED_MULTI_RECV	(1ULL << 46)
#define FI_HMEM			(1ULL << 47)
#define FI_EXACT_DIRECTED_RECV	(1ULL << 48)
#define FI_RMA_PMEM		(1ULL << 49)
#define FI_SOURCE_ERR		(1ULL << 50)
#define FI_LOCAL_COMM		(1ULL << 51)
#define FI_REMOTE_COMM		(1ULL << 52)
#define FI_SHARED_AV		(1ULL << 53)
#define FI_PROV_ATTR_ONLY	(1ULL << 54)	/* getinfo: one entry per provider, names only */
#define FI_NUMERICHOST		(1ULL << 55)	/* getinfo: node is an address, do not resolve */
#define FI_RMA_EVENT		(1ULL << 56)
#define FI_SOURCE		(1ULL << 57)	/* getinfo: node and service are the local side */
#define FI_NAMED_RX_CTX		(1ULL << 58)
#define FI_DIRECTED_RECV	(1ULL << 59)	/* receives match the source address too */

/* Receive and address-vector calls, sharing the top bits */
#define FI_CLAIM		(1ULL << 59)	/* reserve, or take, a peeked message */
#define FI_DISCARD		(1ULL << 58)	/* drop a peeked or claimed message */
#define FI_AUTH_KEY		(1ULL << 57)

/* Binding a CQ: report success only where FI_COMPLETION is given */
#define FI_SELECTIVE_COMPLETION	(1ULL << 59)

/* Mode bits: what the provider asks of the application */
#define FI_CONTEXT		(1ULL << 59)	/* op contexts are a struct fi_context */
#define FI_MSG_PREFIX		(1ULL << 58)	/* buffers start with msg_prefix_size free bytes */
#define FI_ASYNC_IOV		(1ULL << 57)	/* iovecs stay valid until completion */
#define FI_RX_CQ_DATA		(1ULL << 56)	/* writes with CQ data consume a receive */
#define FI_LOCAL_MR		(1ULL << 55)	/* deprecated: FI_MR_LOCAL */
#define FI_CONTEXT2		(1ULL << 52)	/* op contexts are a struct fi_context2 */

/* Names without effect, kept so that old sources build */
#define FI_VARIABLE_MSG		0ULL
#define FI_NOTIFY_FLAGS_ONLY	0ULL
#define FI_RESTRICTED_COMP	0ULL

/* Memory registration: what the provider needs (fi_domain_attr.mr_mode) */
#define FI_MR_UNSPEC		0		/* deprecated, with BASIC and SCALABLE */
#define FI_MR_BASIC		1
#define FI_MR_SCALABLE		2
#define FI_MR_LOCAL		(1 << 2)	/* local buffers need a descriptor */
#define FI_MR_RAW		(1 << 3)	/* keys are longer than 64 bits */
#define FI_MR_VIRT_ADDR		(1 << 4)	/* targets are addressed by virtual address */
#define FI_MR_ALLOCATED		(1 << 5)	/* pages must exist when registered */
#define FI_MR_PROV_KEY		(1 << 6)	/* the provider picks the key */
#define FI_MR_MMU_NOTIFY	(1 << 7)	/* call fi_mr_refresh when pages appear */
#define FI_MR_RMA_EVENT		(1 << 8)	/* regions with events are enabled separately */
#define FI_MR_ENDPOINT		(1 << 9)	/* regions are bound to an endpoint */
#define FI_MR_HMEM		(1 << 10)	/* device memory needs a descriptor */
#define FI_MR_COLLECTIVE	(1 << 11)	/* collective buffers need a descriptor */

/*
 * Message order, second operation after first: FI_ORDER_WAR keeps a write
 * behind the reads posted before it.  R is read, W write, S send.
 */
#define FI_ORDER_NONE		0ULL
#define FI_ORDER_RAR		(1ULL << 0)
#define FI_ORDER_RAW		(1ULL << 1)
#define FI_ORDER_RAS		(1ULL << 2)
#define FI_ORDER_WAR		(1ULL << 3)
#define FI_ORDER_WAW		(1ULL << 4)
#define FI_ORDER_WAS		(1ULL << 5)
#define FI_ORDER_SAR		(1ULL << 6)
#define FI_ORDER_SAW		(1ULL << 7)
#define FI_ORDER_SAS		(1ULL << 8)
#define FI_ORDER_STRICT		0x1FF		/* all of the above */
#define FI_ORDER_DATA		(1ULL << 16)

/* The same, for RMA or atomics alone */
#define FI_ORDER_RMA_RAR	(1ULL << 32)
#define FI_ORDER_RMA_RAW	(1ULL << 33)
#define FI_ORDER_RMA_WAR	(1ULL << 34)
#define FI_ORDER_RMA_WAW	(1ULL << 35)
#define FI_ORDER_ATOMIC_RAR	(1ULL << 36)
#define FI_ORDER_ATOMIC_RAW	(1ULL << 37)
#define FI_ORDER_ATOMIC_WAR	(1ULL << 38)
#define FI_ORDER_ATOMIC_WAW	(1ULL << 39)

/* Values that say "none", "any" or "shared" */
#define FI_ADDR_UNSPEC		((uint64_t) -1)	/* any source */
#define FI_ADDR_NOTAVAIL	((uint64_t) -1)	/* no address known */
#define FI_KEY_NOTAVAIL		((uint64_t) -1)	/* key does not fit: use the raw key */
#define FI_SHARED_CONTEXT	SIZE_MAX	/* tx_ctx_cnt, rx_ctx_cnt: use a shared context */
#define FI_AV_AUTH_KEY		SIZE_MAX	/* auth_key_size: keys are in the address vector */

#endif /* FI_BITS_FLAGS_H */
