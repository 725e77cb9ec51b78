//! SETUP. Names of values and bits, in the order in which they are printed.

use core::fmt;

use crate::abi::constants::*;

/// Names of the values of one C enum.
pub(super) type Enum = &'static [(u32, &'static str)];

/// Names of the bits of one set.
pub(super) type Set = &'static [(u64, &'static str)];

/// The name of a value, or `Unknown`.
pub(super) fn of(table: Enum, value: u32) -> &'static str {
    table.iter().find(|(known, _)| *known == value).map_or("Unknown", |(_, name)| name)
}

/// A bit set as `A, B`.
pub(super) struct Bits(pub(super) Set, pub(super) u64);

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in self.0.iter().filter(|(bit, _)| self.1 & bit != 0) {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        Ok(())
    }
}

macro_rules! named {
    ($($table:ident: $kind:ty = [$($name:ident),* $(,)?];)*) => {
        $(pub(super) const $table: $kind = &[$(($name as _, stringify!($name))),*];)*
    };
}

named! {
    EP_TYPE: Enum = [FI_EP_UNSPEC, FI_EP_MSG, FI_EP_DGRAM, FI_EP_RDM];
    ADDR_FORMAT: Enum = [
        FI_FORMAT_UNSPEC, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IB,
        FI_ADDR_PSMX, FI_ADDR_GNI, FI_ADDR_BGQ, FI_ADDR_MLX, FI_ADDR_STR, FI_ADDR_PSMX2,
        FI_ADDR_IB_UD, FI_ADDR_EFA, FI_ADDR_PSMX3, FI_ADDR_OPX, FI_ADDR_CXI, FI_ADDR_UCX,
        FI_SOCKADDR_IP,
    ];
    THREADING: Enum = [
        FI_THREAD_UNSPEC, FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN, FI_THREAD_COMPLETION,
        FI_THREAD_ENDPOINT,
    ];
    PROGRESS: Enum = [
        FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL, FI_PROGRESS_CONTROL_UNIFIED,
    ];
    RESOURCE_MGMT: Enum = [FI_RM_UNSPEC, FI_RM_DISABLED, FI_RM_ENABLED];
    PROTOCOL: Enum = [
        FI_PROTO_UNSPEC, FI_PROTO_RDMA_CM_IB_RC, FI_PROTO_IWARP, FI_PROTO_IB_UD, FI_PROTO_PSMX,
        FI_PROTO_UDP, FI_PROTO_SOCK_TCP, FI_PROTO_MXM, FI_PROTO_IWARP_RDM, FI_PROTO_IB_RDM,
        FI_PROTO_GNI, FI_PROTO_RXM, FI_PROTO_RXD, FI_PROTO_MLX, FI_PROTO_NETWORKDIRECT,
        FI_PROTO_PSMX2, FI_PROTO_SHM, FI_PROTO_MRAIL, FI_PROTO_RSTREAM, FI_PROTO_RDMA_CM_IB_XRC,
        FI_PROTO_EFA, FI_PROTO_PSMX3, FI_PROTO_RXM_TCP, FI_PROTO_OPX, FI_PROTO_CXI,
        FI_PROTO_XNET, FI_PROTO_COLL, FI_PROTO_UCX, FI_PROTO_SM2, FI_PROTO_CXI_RNR, FI_PROTO_LPP,
        FI_PROTO_LNX,
    ];
    AV_TYPE: Enum = [FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE];
    DATATYPE: Enum = [
        FI_INT8, FI_UINT8, FI_INT16, FI_UINT16, FI_INT32, FI_UINT32, FI_INT64, FI_UINT64,
        FI_FLOAT, FI_DOUBLE, FI_FLOAT_COMPLEX, FI_DOUBLE_COMPLEX, FI_LONG_DOUBLE,
        FI_LONG_DOUBLE_COMPLEX, FI_INT128, FI_UINT128, FI_FLOAT16, FI_BFLOAT16, FI_FLOAT8_E4M3,
        FI_FLOAT8_E5M2, FI_VOID,
    ];
    OP: Enum = [
        FI_MIN, FI_MAX, FI_SUM, FI_PROD, FI_LOR, FI_LAND, FI_BOR, FI_BAND, FI_LXOR, FI_BXOR,
        FI_ATOMIC_READ, FI_ATOMIC_WRITE, FI_CSWAP, FI_CSWAP_NE, FI_CSWAP_LE, FI_CSWAP_LT,
        FI_CSWAP_GE, FI_CSWAP_GT, FI_MSWAP, FI_DIFF, FI_NOOP,
    ];
    EQ_EVENT: Enum = [
        FI_NOTIFY, FI_CONNREQ, FI_CONNECTED, FI_SHUTDOWN, FI_MR_COMPLETE, FI_AV_COMPLETE,
        FI_JOIN_COMPLETE,
    ];
    OP_TYPE: Enum = [
        FI_OP_RECV, FI_OP_SEND, FI_OP_TRECV, FI_OP_TSEND, FI_OP_READ, FI_OP_WRITE, FI_OP_ATOMIC,
        FI_OP_FETCH_ATOMIC, FI_OP_COMPARE_ATOMIC, FI_OP_CNTR_SET, FI_OP_CNTR_ADD,
    ];
    COLLECTIVE_OP: Enum = [
        FI_BARRIER, FI_BROADCAST, FI_ALLTOALL, FI_ALLREDUCE, FI_ALLGATHER, FI_REDUCE_SCATTER,
        FI_REDUCE, FI_SCATTER, FI_GATHER,
    ];
    HMEM_IFACE: Enum = [
        FI_HMEM_SYSTEM, FI_HMEM_CUDA, FI_HMEM_ROCR, FI_HMEM_ZE, FI_HMEM_NEURON,
        FI_HMEM_SYNAPSEAI,
    ];
    CQ_FORMAT: Enum = [
        FI_CQ_FORMAT_UNSPEC, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA,
        FI_CQ_FORMAT_TAGGED,
    ];
    CQ_WAIT_COND: Enum = [FI_CQ_COND_NONE, FI_CQ_COND_THRESHOLD];
    WAIT_OBJ: Enum = [
        FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_SET, FI_WAIT_FD, FI_WAIT_MUTEX_COND, FI_WAIT_YIELD,
        FI_WAIT_POLLFD,
    ];
    CNTR_EVENTS: Enum = [FI_CNTR_EVENTS_COMP, FI_CNTR_EVENTS_BYTES];
    BUS_TYPE: Enum = [FI_BUS_UNKNOWN, FI_BUS_PCI];
    LINK_STATE: Enum = [FI_LINK_UNKNOWN, FI_LINK_DOWN, FI_LINK_UP];

    CAPS: Set = [
        FI_MSG, FI_RMA, FI_TAGGED, FI_ATOMIC, FI_MULTICAST, FI_COLLECTIVE, FI_READ, FI_WRITE,
        FI_RECV, FI_SEND, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_MULTI_RECV, FI_REMOTE_CQ_DATA,
        FI_TRIGGER, FI_FENCE, FI_RMA_PMEM, FI_SOURCE_ERR, FI_LOCAL_COMM, FI_REMOTE_COMM,
        FI_SHARED_AV, FI_RMA_EVENT, FI_SOURCE, FI_NAMED_RX_CTX, FI_DIRECTED_RECV, FI_AV_USER_ID,
        FI_PEER, FI_HMEM, FI_TAGGED_DIRECTED_RECV, FI_TAGGED_MULTI_RECV, FI_EXACT_DIRECTED_RECV,
    ];
    OP_FLAGS: Set = [
        FI_MULTICAST, FI_MULTI_RECV, FI_REMOTE_CQ_DATA, FI_MORE, FI_PEEK, FI_TRIGGER, FI_FENCE,
        FI_COMPLETION, FI_INJECT, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
        FI_COMMIT_COMPLETE, FI_MATCH_COMPLETE, FI_AFFINITY, FI_CLAIM, FI_DISCARD,
    ];
    ORDER: Set = [
        FI_ORDER_RAR, FI_ORDER_RAW, FI_ORDER_RAS, FI_ORDER_WAR, FI_ORDER_WAW, FI_ORDER_WAS,
        FI_ORDER_SAR, FI_ORDER_SAW, FI_ORDER_SAS, FI_ORDER_RMA_RAR, FI_ORDER_RMA_RAW,
        FI_ORDER_RMA_WAR, FI_ORDER_RMA_WAW, FI_ORDER_ATOMIC_RAR, FI_ORDER_ATOMIC_RAW,
        FI_ORDER_ATOMIC_WAR, FI_ORDER_ATOMIC_WAW,
    ];
    MODE: Set = [
        FI_CONTEXT, FI_MSG_PREFIX, FI_ASYNC_IOV, FI_RX_CQ_DATA, FI_LOCAL_MR, FI_CONTEXT2,
    ];
    CQ_FLAGS: Set = [
        FI_SEND, FI_RECV, FI_RMA, FI_ATOMIC, FI_MSG, FI_TAGGED, FI_READ, FI_WRITE,
        FI_REMOTE_READ, FI_REMOTE_WRITE, FI_REMOTE_CQ_DATA, FI_MULTI_RECV, FI_MORE, FI_CLAIM,
    ];
    MR_MODE: Set = [
        FI_MR_BASIC, FI_MR_SCALABLE, FI_MR_LOCAL, FI_MR_RAW, FI_MR_VIRT_ADDR, FI_MR_ALLOCATED,
        FI_MR_PROV_KEY, FI_MR_MMU_NOTIFY, FI_MR_RMA_EVENT, FI_MR_ENDPOINT, FI_MR_HMEM,
        FI_MR_COLLECTIVE,
    ];
    AV_FLAGS: Set = [FI_EVENT, FI_READ, FI_SYMMETRIC, FI_PEER, FI_AV_USER_ID];
    CQ_ATTR_FLAGS: Set = [FI_AFFINITY, FI_PEER];
}

/// Log levels and subsystems are printed as they appear in log lines.
pub(super) const LOG_LEVEL: Enum = &[
    (FI_LOG_WARN, "warn"),
    (FI_LOG_TRACE, "trace"),
    (FI_LOG_INFO, "info"),
    (FI_LOG_DEBUG, "debug"),
];
pub(super) const LOG_SUBSYS: Enum = &[
    (FI_LOG_CORE, "core"),
    (FI_LOG_FABRIC, "fabric"),
    (FI_LOG_DOMAIN, "domain"),
    (FI_LOG_EP_CTRL, "ep_ctrl"),
    (FI_LOG_EP_DATA, "ep_data"),
    (FI_LOG_AV, "av"),
    (FI_LOG_CQ, "cq"),
    (FI_LOG_EQ, "eq"),
    (FI_LOG_MR, "mr"),
    (FI_LOG_CNTR, "cntr"),
];
