//! SETUP. Numbers of the C interface under their C names, grouped as the headers group them.
//!
//! Error numbers live in [`fabric_core::Errno`]; the typed bit sets of [`fabric_core::flags`] hold
//! the same values and are what code behind the C edge uses.

use core::ffi::c_int;

/// Handle of a peer in an address vector.
pub type fi_addr_t = u64;

/// Name and value of each constant, for the layout test.
pub const ALL: &[&[(&str, i128)]] = TABLE;

macro_rules! constants {
    ($($(#[$doc:meta])* ($($group:tt)*) { $($name:ident = $value:expr,)* })*) => {
        $(constants!(@group $(#[$doc])* ($($group)*) { $($name = $value,)* });)*
        const TABLE: &[&[(&str, i128)]] = &[$(&[$((stringify!($name), $name as i128)),*]),*];
    };
    (@group $(#[$doc:meta])* (enum $tag:ident: $ty:ident) { $($name:ident = $value:expr,)* }) => {
        $(#[$doc])*
        pub type $tag = $ty;
        $(pub const $name: $tag = $value;)*
    };
    (@group $(#[$doc:meta])* (values $ty:ident) { $($name:ident = $value:expr,)* }) => {
        $(pub const $name: $ty = $value;)*
    };
}

constants! {
    /// Endpoint types.
    (enum fi_ep_type: u32) {
        FI_EP_UNSPEC = 0, FI_EP_MSG = 1, FI_EP_DGRAM = 2, FI_EP_RDM = 3,
    }
    /// Address vector kinds.
    (enum fi_av_type: u32) {
        FI_AV_UNSPEC = 0, FI_AV_MAP = 1, FI_AV_TABLE = 2,
    }
    /// Who moves operations forward.
    (enum fi_progress: u32) {
        FI_PROGRESS_UNSPEC = 0, FI_PROGRESS_AUTO = 1, FI_PROGRESS_MANUAL = 2,
        FI_PROGRESS_CONTROL_UNIFIED = 3,
    }
    /// Who serialises calls.
    (enum fi_threading: u32) {
        FI_THREAD_UNSPEC = 0, FI_THREAD_SAFE = 1, FI_THREAD_FID = 2, FI_THREAD_DOMAIN = 3,
        FI_THREAD_COMPLETION = 4, FI_THREAD_ENDPOINT = 5,
    }
    /// Who guards queues against overruns.
    (enum fi_resource_mgmt: u32) {
        FI_RM_UNSPEC = 0, FI_RM_DISABLED = 1, FI_RM_ENABLED = 2,
    }
    /// Buses of network cards.
    (enum fi_bus_type: u32) {
        FI_BUS_UNSPEC = 0, FI_BUS_UNKNOWN = 0, FI_BUS_PCI = 1,
    }
    /// Port states.
    (enum fi_link_state: u32) {
        FI_LINK_UNKNOWN = 0, FI_LINK_DOWN = 1, FI_LINK_UP = 2,
    }
    /// What `fi_tostr` prints.
    (enum fi_type: u32) {
        FI_TYPE_INFO = 0, FI_TYPE_EP_TYPE = 1, FI_TYPE_CAPS = 2, FI_TYPE_OP_FLAGS = 3,
        FI_TYPE_ADDR_FORMAT = 4, FI_TYPE_TX_ATTR = 5, FI_TYPE_RX_ATTR = 6, FI_TYPE_EP_ATTR = 7,
        FI_TYPE_DOMAIN_ATTR = 8, FI_TYPE_FABRIC_ATTR = 9, FI_TYPE_THREADING = 10,
        FI_TYPE_PROGRESS = 11, FI_TYPE_PROTOCOL = 12, FI_TYPE_MSG_ORDER = 13, FI_TYPE_MODE = 14,
        FI_TYPE_AV_TYPE = 15, FI_TYPE_ATOMIC_TYPE = 16, FI_TYPE_ATOMIC_OP = 17,
        FI_TYPE_VERSION = 18, FI_TYPE_EQ_EVENT = 19, FI_TYPE_CQ_EVENT_FLAGS = 20,
        FI_TYPE_MR_MODE = 21, FI_TYPE_OP_TYPE = 22, FI_TYPE_FID = 23, FI_TYPE_COLLECTIVE_OP = 24,
        FI_TYPE_HMEM_IFACE = 25, FI_TYPE_CQ_FORMAT = 26, FI_TYPE_LOG_LEVEL = 27,
        FI_TYPE_LOG_SUBSYS = 28, FI_TYPE_AV_ATTR = 29, FI_TYPE_CQ_ATTR = 30, FI_TYPE_MR_ATTR = 31,
        FI_TYPE_CNTR_ATTR = 32, FI_TYPE_CQ_ERR_ENTRY = 33, FI_TYPE_CQ_WAIT_COND = 34,
        FI_TYPE_WAIT_OBJ = 35,
    }
    /// Types of configuration variables.
    (enum fi_param_type: u32) {
        FI_PARAM_STRING = 0, FI_PARAM_INT = 1, FI_PARAM_BOOL = 2, FI_PARAM_SIZE_T = 3,
    }
    /// Objects to sleep on.
    (enum fi_wait_obj: u32) {
        FI_WAIT_NONE = 0, FI_WAIT_UNSPEC = 1, FI_WAIT_SET = 2, FI_WAIT_FD = 3,
        FI_WAIT_MUTEX_COND = 4, FI_WAIT_YIELD = 5, FI_WAIT_POLLFD = 6,
    }
    /// Completion formats.
    (enum fi_cq_format: u32) {
        FI_CQ_FORMAT_UNSPEC = 0, FI_CQ_FORMAT_CONTEXT = 1, FI_CQ_FORMAT_MSG = 2,
        FI_CQ_FORMAT_DATA = 3, FI_CQ_FORMAT_TAGGED = 4,
    }
    /// When a blocked completion read returns.
    (enum fi_cq_wait_cond: u32) {
        FI_CQ_COND_NONE = 0, FI_CQ_COND_THRESHOLD = 1,
    }
    /// What counters count.
    (enum fi_cntr_events: u32) {
        FI_CNTR_EVENTS_COMP = 0, FI_CNTR_EVENTS_BYTES = 1,
    }
    /// Interfaces of device memory.
    (enum fi_hmem_iface: u32) {
        FI_HMEM_SYSTEM = 0, FI_HMEM_CUDA = 1, FI_HMEM_ROCR = 2, FI_HMEM_ZE = 3,
        FI_HMEM_NEURON = 4, FI_HMEM_SYNAPSEAI = 5,
    }
    /// Datatypes of atomics and collectives.
    (enum fi_datatype: u32) {
        FI_INT8 = 0, FI_UINT8 = 1, FI_INT16 = 2, FI_UINT16 = 3, FI_INT32 = 4, FI_UINT32 = 5,
        FI_INT64 = 6, FI_UINT64 = 7, FI_FLOAT = 8, FI_DOUBLE = 9, FI_FLOAT_COMPLEX = 10,
        FI_DOUBLE_COMPLEX = 11, FI_LONG_DOUBLE = 12, FI_LONG_DOUBLE_COMPLEX = 13, FI_INT128 = 14,
        FI_UINT128 = 15, FI_FLOAT16 = 16, FI_BFLOAT16 = 17, FI_FLOAT8_E4M3 = 18,
        FI_FLOAT8_E5M2 = 19, FI_VOID = 256,
    }
    /// Operations of atomics and collectives.
    (enum fi_op: u32) {
        FI_MIN = 0, FI_MAX = 1, FI_SUM = 2, FI_PROD = 3, FI_LOR = 4, FI_LAND = 5, FI_BOR = 6,
        FI_BAND = 7, FI_LXOR = 8, FI_BXOR = 9, FI_ATOMIC_READ = 10, FI_ATOMIC_WRITE = 11,
        FI_CSWAP = 12, FI_CSWAP_NE = 13, FI_CSWAP_LE = 14, FI_CSWAP_LT = 15, FI_CSWAP_GE = 16,
        FI_CSWAP_GT = 17, FI_MSWAP = 18, FI_DIFF = 19, FI_NOOP = 256,
    }
    /// Collective operations.
    (enum fi_collective_op: u32) {
        FI_BARRIER = 0, FI_BROADCAST = 1, FI_ALLTOALL = 2, FI_ALLREDUCE = 3, FI_ALLGATHER = 4,
        FI_REDUCE_SCATTER = 5, FI_REDUCE = 6, FI_SCATTER = 7, FI_GATHER = 8,
    }
    /// What starts triggered operations.
    (enum fi_trigger_event: u32) {
        FI_TRIGGER_THRESHOLD = 0, FI_TRIGGER_XPU = 1,
    }
    /// Kinds of deferred work.
    (enum fi_op_type: u32) {
        FI_OP_RECV = 0, FI_OP_SEND = 1, FI_OP_TRECV = 2, FI_OP_TSEND = 3, FI_OP_READ = 4,
        FI_OP_WRITE = 5, FI_OP_ATOMIC = 6, FI_OP_FETCH_ATOMIC = 7, FI_OP_COMPARE_ATOMIC = 8,
        FI_OP_CNTR_SET = 9, FI_OP_CNTR_ADD = 10,
    }
    /// Log levels.
    (enum fi_log_level: u32) {
        FI_LOG_WARN = 0, FI_LOG_TRACE = 1, FI_LOG_INFO = 2, FI_LOG_DEBUG = 3,
    }
    /// Log subsystems.
    (enum fi_log_subsys: u32) {
        FI_LOG_CORE = 0, FI_LOG_FABRIC = 1, FI_LOG_DOMAIN = 2, FI_LOG_EP_CTRL = 3,
        FI_LOG_EP_DATA = 4, FI_LOG_AV = 5, FI_LOG_CQ = 6, FI_LOG_EQ = 7, FI_LOG_MR = 8,
        FI_LOG_CNTR = 9,
    }
    /// Address formats.
    (values u32) {
        FI_FORMAT_UNSPEC = 0, FI_SOCKADDR = 1, FI_SOCKADDR_IN = 2, FI_SOCKADDR_IN6 = 3,
        FI_SOCKADDR_IB = 4, FI_ADDR_PSMX = 5, FI_ADDR_GNI = 6, FI_ADDR_BGQ = 7, FI_ADDR_MLX = 8,
        FI_ADDR_STR = 9, FI_ADDR_PSMX2 = 10, FI_ADDR_IB_UD = 11, FI_ADDR_EFA = 12,
        FI_ADDR_PSMX3 = 13, FI_ADDR_OPX = 14, FI_ADDR_CXI = 15, FI_ADDR_UCX = 16,
        FI_SOCKADDR_IP = 17,
    }
    /// Protocols.
    (values u32) {
        FI_PROTO_UNSPEC = 0, FI_PROTO_RDMA_CM_IB_RC = 1, FI_PROTO_IWARP = 2, FI_PROTO_IB_UD = 3,
        FI_PROTO_PSMX = 4, FI_PROTO_UDP = 5, FI_PROTO_SOCK_TCP = 6, FI_PROTO_MXM = 7,
        FI_PROTO_IWARP_RDM = 8, FI_PROTO_IB_RDM = 9, FI_PROTO_GNI = 10, FI_PROTO_RXM = 11,
        FI_PROTO_RXD = 12, FI_PROTO_MLX = 13, FI_PROTO_NETWORKDIRECT = 14, FI_PROTO_PSMX2 = 15,
        FI_PROTO_SHM = 16, FI_PROTO_MRAIL = 17, FI_PROTO_RSTREAM = 18,
        FI_PROTO_RDMA_CM_IB_XRC = 19, FI_PROTO_EFA = 20, FI_PROTO_PSMX3 = 21,
        FI_PROTO_RXM_TCP = 22, FI_PROTO_OPX = 23, FI_PROTO_CXI = 24, FI_PROTO_XNET = 25,
        FI_PROTO_COLL = 26, FI_PROTO_UCX = 27, FI_PROTO_SM2 = 28, FI_PROTO_CXI_RNR = 29,
        FI_PROTO_LPP = 30, FI_PROTO_LNX = 31,
    }
    /// Tag formats.
    (values u64) {
        FI_TAG_BITS = 0, FI_TAG_MPI = 1, FI_TAG_CCL = 2, FI_TAG_MAX_FORMAT = 65536,
    }
    /// Traffic classes.
    (values u32) {
        FI_TC_UNSPEC = 0, FI_TC_DSCP = 256, FI_TC_LABEL = 512, FI_TC_BEST_EFFORT = 512,
        FI_TC_LOW_LATENCY = 513, FI_TC_DEDICATED_ACCESS = 514, FI_TC_BULK_DATA = 515,
        FI_TC_SCAVENGER = 516, FI_TC_NETWORK_CTRL = 517,
    }
    /// Object classes; 0 marks a closed object.
    (values usize) {
        FI_CLASS_UNSPEC = 0, FI_CLASS_FABRIC = 1, FI_CLASS_DOMAIN = 2, FI_CLASS_EP = 3,
        FI_CLASS_SEP = 4, FI_CLASS_RX_CTX = 5, FI_CLASS_SRX_CTX = 6, FI_CLASS_TX_CTX = 7,
        FI_CLASS_STX_CTX = 8, FI_CLASS_PEP = 9, FI_CLASS_INTERFACE = 10, FI_CLASS_AV = 11,
        FI_CLASS_MR = 12, FI_CLASS_EQ = 13, FI_CLASS_CQ = 14, FI_CLASS_CNTR = 15,
        FI_CLASS_WAIT = 16, FI_CLASS_POLL = 17, FI_CLASS_CONNREQ = 18, FI_CLASS_MC = 19,
        FI_CLASS_NIC = 20, FI_CLASS_AV_SET = 21, FI_CLASS_MR_CACHE = 22,
        FI_CLASS_MEM_MONITOR = 23, FI_CLASS_PEER_CQ = 24, FI_CLASS_PEER_SRX = 25,
        FI_CLASS_LOG = 26, FI_CLASS_PEER_AV = 27, FI_CLASS_PEER_AV_SET = 28,
        FI_CLASS_PEER_CNTR = 29, FI_CLASS_PROFILE = 30,
    }
    /// Commands of `fi_control`.
    (values c_int) {
        FI_GETFIDFLAG = 0, FI_SETFIDFLAG = 1, FI_GETOPSFLAG = 2, FI_SETOPSFLAG = 3, FI_ALIAS = 4,
        FI_GETWAIT = 5, FI_ENABLE = 6, FI_BACKLOG = 7, FI_GET_RAW_MR = 8, FI_MAP_RAW_MR = 9,
        FI_UNMAP_KEY = 10, FI_QUEUE_WORK = 11, FI_CANCEL_WORK = 12, FI_FLUSH_WORK = 13,
        FI_REFRESH = 14, FI_DUP = 15, FI_GETWAITOBJ = 16, FI_GET_VAL = 17, FI_SET_VAL = 18,
        FI_EXPORT_FID = 19, FI_GET_FD = 20,
    }
    /// Event queue events.
    (values u32) {
        FI_NOTIFY = 0, FI_CONNREQ = 1, FI_CONNECTED = 2, FI_SHUTDOWN = 3, FI_MR_COMPLETE = 4,
        FI_AV_COMPLETE = 5, FI_JOIN_COMPLETE = 6,
    }
    /// Endpoint options: the level, then names.
    (values c_int) {
        FI_OPT_ENDPOINT = 0, FI_OPT_MIN_MULTI_RECV = 0, FI_OPT_CM_DATA_SIZE = 1,
        FI_OPT_BUFFERED_MIN = 2, FI_OPT_BUFFERED_LIMIT = 3, FI_OPT_SEND_BUF_SIZE = 4,
        FI_OPT_RECV_BUF_SIZE = 5, FI_OPT_TX_SIZE = 6, FI_OPT_RX_SIZE = 7, FI_OPT_FI_HMEM_P2P = 8,
        FI_OPT_XPU_TRIGGER = 9, FI_OPT_CUDA_API_PERMITTED = 10,
        FI_OPT_SHARED_MEMORY_PERMITTED = 11, FI_OPT_MAX_MSG_SIZE = 12,
        FI_OPT_MAX_TAGGED_SIZE = 13, FI_OPT_MAX_RMA_SIZE = 14, FI_OPT_MAX_ATOMIC_SIZE = 15,
        FI_OPT_INJECT_MSG_SIZE = 16, FI_OPT_INJECT_TAGGED_SIZE = 17, FI_OPT_INJECT_RMA_SIZE = 18,
        FI_OPT_INJECT_ATOMIC_SIZE = 19, FI_OPT_FIREWALL_ADDR = 20,
    }
    /// Values of `FI_OPT_FI_HMEM_P2P`.
    (values c_int) {
        FI_HMEM_P2P_ENABLED = 0, FI_HMEM_P2P_REQUIRED = 1, FI_HMEM_P2P_PREFERRED = 2,
        FI_HMEM_P2P_DISABLED = 3,
    }
    /// Variables of `FI_GET_VAL`.
    (values c_int) {
        FI_VAR_UNEXP_MSG_CNT = 0, FI_VAR_UNEXP_MSG_QUEUE = 1, FI_VAR_MSG_QUEUE_CNT = 2,
        FI_VAR_CONNECTION_CNT = 3, FI_VAR_CONN_REQUEST = 4, FI_VAR_CONN_ACCEPT = 5,
        FI_VAR_CONN_REJECT = 6, FI_VAR_OFI_MEM = 7,
    }
    /// Frozen bounds that applications size tables with.
    (values usize) {
        FI_NAME_MAX = 64, FI_ATOMIC_OP_LAST = 19, FI_DATATYPE_LAST = 14,
    }
    /// Version of the interface.
    (values u32) {
        FI_MAJOR_VERSION = 2, FI_MINOR_VERSION = 6, FI_REVISION_VERSION = 0,
    }
    /// Special handles, keys and sizes.
    (values u64) {
        FI_ADDR_UNSPEC = u64::MAX, FI_ADDR_NOTAVAIL = u64::MAX, FI_KEY_NOTAVAIL = u64::MAX,
        FI_SHARED_CONTEXT = u64::MAX, FI_AV_AUTH_KEY = u64::MAX,
    }
    /// Capabilities, operation flags and completion flags.
    (values u64) {
        FI_MSG = 1 << 1, FI_RMA = 1 << 2, FI_TAGGED = 1 << 3, FI_ATOMIC = 1 << 4,
        FI_ATOMICS = 1 << 4, FI_MULTICAST = 1 << 5, FI_COLLECTIVE = 1 << 6, FI_READ = 1 << 8,
        FI_WRITE = 1 << 9, FI_RECV = 1 << 10, FI_SEND = 1 << 11, FI_TRANSMIT = 1 << 11,
        FI_REMOTE_READ = 1 << 12, FI_REMOTE_WRITE = 1 << 13, FI_MULTI_RECV = 1 << 16,
        FI_REMOTE_CQ_DATA = 1 << 17, FI_MORE = 1 << 18, FI_PEEK = 1 << 19, FI_TRIGGER = 1 << 20,
        FI_FENCE = 1 << 21, FI_COMPLETION = 1 << 24, FI_EVENT = 1 << 24, FI_INJECT = 1 << 25,
        FI_INJECT_COMPLETE = 1 << 26, FI_TRANSMIT_COMPLETE = 1 << 27,
        FI_DELIVERY_COMPLETE = 1 << 28, FI_AFFINITY = 1 << 29, FI_COMMIT_COMPLETE = 1 << 30,
        FI_MATCH_COMPLETE = 1 << 31, FI_RESCAN = 1 << 35, FI_PEER_TRANSFER = 1 << 36,
        FI_AV_USER_ID = 1 << 41, FI_FIREWALL_ADDR = 1 << 42, FI_PEER = 1 << 43,
        FI_TAGGED_DIRECTED_RECV = 1 << 45, FI_TAGGED_MULTI_RECV = 1 << 46, FI_HMEM = 1 << 47,
        FI_EXACT_DIRECTED_RECV = 1 << 48, FI_RMA_PMEM = 1 << 49, FI_SOURCE_ERR = 1 << 50,
        FI_LOCAL_COMM = 1 << 51, FI_REMOTE_COMM = 1 << 52, FI_SHARED_AV = 1 << 53,
        FI_PROV_ATTR_ONLY = 1 << 54, FI_NUMERICHOST = 1 << 55, FI_RMA_EVENT = 1 << 56,
        FI_SOURCE = 1 << 57, FI_NAMED_RX_CTX = 1 << 58, FI_DIRECTED_RECV = 1 << 59,
        FI_CLAIM = 1 << 59, FI_DISCARD = 1 << 58, FI_AUTH_KEY = 1 << 57, FI_VARIABLE_MSG = 0,
        FI_NOTIFY_FLAGS_ONLY = 0, FI_RESTRICTED_COMP = 0,
    }
    /// Meanings of shared bits that hold in one call only.
    (values u64) {
        FI_SELECTIVE_COMPLETION = 1 << 59, FI_SYMMETRIC = 1 << 59, FI_SYNC_ERR = 1 << 58,
        FI_UNIVERSE = 1 << 57, FI_REG_MR = 1 << 59, FI_FETCH_ATOMIC = 1 << 58,
        FI_COMPARE_ATOMIC = 1 << 59, FI_LOG_PROV_FILTERED = 1 << 0,
    }
    /// Collectives that an address vector set will serve.
    (values u64) {
        FI_BARRIER_SET = 1 << 40, FI_BROADCAST_SET = 1 << 41, FI_ALLTOALL_SET = 1 << 42,
        FI_ALLREDUCE_SET = 1 << 43, FI_ALLGATHER_SET = 1 << 44, FI_REDUCE_SCATTER_SET = 1 << 45,
        FI_REDUCE_SET = 1 << 46, FI_SCATTER_SET = 1 << 47, FI_GATHER_SET = 1 << 48,
    }
    /// Registration flags.
    (values u64) {
        FI_MR_DMABUF = 1 << 40, FI_MR_SINGLE_USE = 1 << 41, FI_HMEM_HOST_ALLOC = 1 << 45,
        FI_HMEM_DEVICE_ONLY = 1 << 46,
    }
    /// Registration modes.
    (values c_int) {
        FI_MR_UNSPEC = 0, FI_MR_BASIC = 1, FI_MR_SCALABLE = 2, FI_MR_LOCAL = 4, FI_MR_RAW = 8,
        FI_MR_VIRT_ADDR = 16, FI_MR_ALLOCATED = 32, FI_MR_PROV_KEY = 64, FI_MR_MMU_NOTIFY = 128,
        FI_MR_RMA_EVENT = 256, FI_MR_ENDPOINT = 512, FI_MR_HMEM = 1024, FI_MR_COLLECTIVE = 2048,
    }
    /// Message and data ordering.
    (values u64) {
        FI_ORDER_NONE = 0, FI_ORDER_RAR = 1 << 0, FI_ORDER_RAW = 1 << 1, FI_ORDER_RAS = 1 << 2,
        FI_ORDER_WAR = 1 << 3, FI_ORDER_WAW = 1 << 4, FI_ORDER_WAS = 1 << 5,
        FI_ORDER_SAR = 1 << 6, FI_ORDER_SAW = 1 << 7, FI_ORDER_SAS = 1 << 8,
        FI_ORDER_STRICT = 0x1ff, FI_ORDER_RMA_RAR = 1 << 32, FI_ORDER_RMA_RAW = 1 << 33,
        FI_ORDER_RMA_WAR = 1 << 34, FI_ORDER_RMA_WAW = 1 << 35, FI_ORDER_ATOMIC_RAR = 1 << 36,
        FI_ORDER_ATOMIC_RAW = 1 << 37, FI_ORDER_ATOMIC_WAR = 1 << 38,
        FI_ORDER_ATOMIC_WAW = 1 << 39, FI_ORDER_DATA = 1 << 16,
    }
    /// Modes.
    (values u64) {
        FI_CONTEXT = 1 << 59, FI_MSG_PREFIX = 1 << 58, FI_ASYNC_IOV = 1 << 57,
        FI_RX_CQ_DATA = 1 << 56, FI_LOCAL_MR = 1 << 55, FI_CONTEXT2 = 1 << 52,
    }
    /// Tag masks of the MPI tag format.
    (values u64) {
        FI_MPI_IGNORE_TAG = 0xffffffff, FI_MPI_IGNORE_PAYLOAD = 0xff00000000,
    }
    /// Number of the first collective-only operation and datatype.
    (values u32) {
        FI_COLLECTIVE_OFFSET = 256,
    }
}
