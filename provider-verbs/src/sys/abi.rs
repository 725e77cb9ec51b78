//! HOT. The structs and numbers of libibverbs that are used here, under their C names.
//!
//! Their layout has been the library's since its first stable release; `tests/layout.rs` compares it
//! with the headers of the machine. Structs that the library allocates are only looked at.
#![allow(
    non_camel_case_types,
    missing_docs,
    missing_debug_implementations,
    reason = "names and meanings are those of the C headers"
)]

use core::ffi::{c_char, c_int, c_uint, c_void};

/// A C struct that knows its layout, so that a test can compare it with the headers.
pub trait Layout {
    /// The struct's tag in C.
    const NAME: &'static str;
    /// Bytes in all.
    const SIZE: usize;
    /// Name, offset and size of each field.
    const FIELDS: &'static [(&'static str, usize, usize)];
}

/// Defines a C struct of integers, raw pointers, optional code pointers and structs and unions of
/// those, for which all zeros are a value therefore.
macro_rules! c_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $(pub $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $name { $(pub $field: $ty,)* }

        impl $name {
            /// The value with every byte zero.
            #[inline]
            pub const fn zeroed() -> Self {
                // SAFETY: by this macro's contract any bytes are a valid value.
                unsafe { core::mem::zeroed() }
            }
        }

        impl $crate::sys::abi::Layout for $name {
            const NAME: &'static str = stringify!($name);
            const SIZE: usize = size_of::<$name>();
            const FIELDS: &'static [(&'static str, usize, usize)] = &[
                $((stringify!($field), core::mem::offset_of!($name, $field), size_of::<$ty>()),)*
            ];
        }
    };
}
pub(crate) use c_struct;

/// An entry of a table that nothing here calls.
pub type Unused = *mut c_void;

c_struct! {
    pub struct ibv_device {
        pub _ops: [Unused; 2],
        pub node_type: c_int,
        pub transport_type: c_int,
        pub name: [c_char; 64],
        pub dev_name: [c_char; 64],
        pub dev_path: [c_char; 256],
        pub ibdev_path: [c_char; 256],
    }
}

/// `ibv_poll_cq`.
pub type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
/// `ibv_req_notify_cq`.
pub type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;
/// `ibv_post_srq_recv`.
pub type PostSrqRecv =
    unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
/// `ibv_post_send`.
pub type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
/// `ibv_post_recv`.
pub type PostRecv =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

c_struct! {
    /// The calls of the data path, which go to the device's driver without a detour.
    pub struct ibv_context_ops {
        pub _before_poll_cq: [Unused; 11],
        pub poll_cq: Option<PollCq>,
        pub req_notify_cq: Option<ReqNotifyCq>,
        pub _before_post_srq_recv: [Unused; 7],
        pub post_srq_recv: Option<PostSrqRecv>,
        pub _before_post_send: [Unused; 4],
        pub post_send: Option<PostSend>,
        pub post_recv: Option<PostRecv>,
        pub _rest: [Unused; 5],
    }
}

c_struct! {
    pub struct ibv_context {
        pub device: *mut ibv_device,
        pub ops: ibv_context_ops,
        pub cmd_fd: c_int,
        pub async_fd: c_int,
        pub num_comp_vectors: c_int,
        pub mutex: libc::pthread_mutex_t,
        pub abi_compat: *mut c_void,
    }
}

c_struct! {
    pub struct ibv_pd {
        pub context: *mut ibv_context,
        pub handle: u32,
    }
}

c_struct! {
    pub struct ibv_mr {
        pub context: *mut ibv_context,
        pub pd: *mut ibv_pd,
        pub addr: *mut c_void,
        pub length: usize,
        pub handle: u32,
        pub lkey: u32,
        pub rkey: u32,
    }
}

c_struct! {
    pub struct ibv_comp_channel {
        pub context: *mut ibv_context,
        pub fd: c_int,
        pub refcnt: c_int,
    }
}

c_struct! {
    pub struct ibv_cq {
        pub context: *mut ibv_context,
        pub channel: *mut ibv_comp_channel,
        pub cq_context: *mut c_void,
        pub handle: u32,
        pub cqe: c_int,
        pub mutex: libc::pthread_mutex_t,
        pub cond: libc::pthread_cond_t,
        pub comp_events_completed: u32,
        pub async_events_completed: u32,
    }
}

c_struct! {
    pub struct ibv_srq {
        pub context: *mut ibv_context,
        pub srq_context: *mut c_void,
        pub pd: *mut ibv_pd,
        pub handle: u32,
        pub mutex: libc::pthread_mutex_t,
        pub cond: libc::pthread_cond_t,
        pub events_completed: u32,
    }
}

c_struct! {
    pub struct ibv_qp {
        pub context: *mut ibv_context,
        pub qp_context: *mut c_void,
        pub pd: *mut ibv_pd,
        pub send_cq: *mut ibv_cq,
        pub recv_cq: *mut ibv_cq,
        pub srq: *mut ibv_srq,
        pub handle: u32,
        pub qp_num: u32,
        pub state: c_uint,
        pub qp_type: c_uint,
        pub mutex: libc::pthread_mutex_t,
        pub cond: libc::pthread_cond_t,
        pub events_completed: u32,
    }
}

c_struct! {
    /// A completion.
    pub struct ibv_wc {
        pub wr_id: u64,
        pub status: c_uint,
        pub opcode: c_uint,
        pub vendor_err: u32,
        pub byte_len: u32,
        pub imm_data: u32,
        pub qp_num: u32,
        pub src_qp: u32,
        pub wc_flags: c_uint,
        pub pkey_index: u16,
        pub slid: u16,
        pub sl: u8,
        pub dlid_path_bits: u8,
    }
}

c_struct! {
    /// A piece of local memory.
    pub struct ibv_sge {
        pub addr: u64,
        pub length: u32,
        pub lkey: u32,
    }
}

c_struct! {
    pub struct ibv_recv_wr {
        pub wr_id: u64,
        pub next: *mut ibv_recv_wr,
        pub sg_list: *mut ibv_sge,
        pub num_sge: c_int,
    }
}

c_struct! {
    pub struct ibv_send_wr {
        pub wr_id: u64,
        pub next: *mut ibv_send_wr,
        pub sg_list: *mut ibv_sge,
        pub num_sge: c_int,
        pub opcode: c_uint,
        pub send_flags: c_uint,
        pub imm_data: u32,
        pub wr: ibv_wr_target,
        pub qp_type: u32,
        pub _bind_mw_tso: [u64; 6],
    }
}

/// What `ibv_send_wr` says of the peer.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ibv_wr_target {
    pub rdma: ibv_wr_rdma,
    pub atomic: ibv_wr_atomic,
    pub ud: ibv_wr_ud,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct ibv_wr_ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

c_struct! {
    pub struct ibv_device_attr {
        pub fw_ver: [c_char; 64],
        pub node_guid: u64,
        pub sys_image_guid: u64,
        pub max_mr_size: u64,
        pub page_size_cap: u64,
        pub vendor_id: u32,
        pub vendor_part_id: u32,
        pub hw_ver: u32,
        pub max_qp: c_int,
        pub max_qp_wr: c_int,
        pub device_cap_flags: c_uint,
        pub max_sge: c_int,
        pub max_sge_rd: c_int,
        pub max_cq: c_int,
        pub max_cqe: c_int,
        pub max_mr: c_int,
        pub max_pd: c_int,
        pub max_qp_rd_atom: c_int,
        pub max_ee_rd_atom: c_int,
        pub max_res_rd_atom: c_int,
        pub max_qp_init_rd_atom: c_int,
        pub max_ee_init_rd_atom: c_int,
        pub atomic_cap: c_uint,
        pub max_ee: c_int,
        pub max_rdd: c_int,
        pub max_mw: c_int,
        pub max_raw_ipv6_qp: c_int,
        pub max_raw_ethy_qp: c_int,
        pub max_mcast_grp: c_int,
        pub max_mcast_qp_attach: c_int,
        pub max_total_mcast_qp_attach: c_int,
        pub max_ah: c_int,
        pub max_fmr: c_int,
        pub max_map_per_fmr: c_int,
        pub max_srq: c_int,
        pub max_srq_wr: c_int,
        pub max_srq_sge: c_int,
        pub max_pkeys: u16,
        pub local_ca_ack_delay: u8,
        pub phys_port_cnt: u8,
    }
}

c_struct! {
    /// What a device can have fetched on demand, in general and over queue pairs of each kind.
    pub struct ibv_odp_caps {
        pub general_caps: u64,
        pub per_transport_caps: [u32; 3],
    }
}

c_struct! {
    pub struct ibv_device_attr_ex {
        pub orig_attr: ibv_device_attr,
        pub comp_mask: u32,
        pub odp_caps: ibv_odp_caps,
        pub completion_timestamp_mask: u64,
        pub hca_core_clock: u64,
        pub device_cap_flags_ex: u64,
        pub tso_caps: [u32; 2],
        pub rss_caps: [u64; 4],
        pub max_wq_type_rq: u32,
        pub packet_pacing_caps: [u32; 3],
        pub raw_packet_caps: u32,
        pub tm_caps: [u32; 5],
        pub cq_mod_caps: [u16; 2],
        pub max_dm_size: u64,
        pub pci_atomic_caps: [u16; 3],
        pub xrc_odp_caps: u32,
        pub phys_port_cnt_ex: u32,
    }
}

/// `ibv_query_device_ex`, with the bytes that there is room for.
pub type QueryDeviceEx =
    unsafe extern "C" fn(*mut ibv_context, *const c_void, *mut ibv_device_attr_ex, usize) -> c_int;

c_struct! {
    /// What stands before a context whose `abi_compat` is all ones. It has grown at its beginning, and
    /// `sz` says how far.
    pub struct verbs_context {
        pub _before_query_device_ex: [Unused; 27],
        pub query_device_ex: Option<QueryDeviceEx>,
        pub _before_sz: [Unused; 11],
        pub sz: usize,
        pub context: ibv_context,
    }
}

c_struct! {
    pub struct ibv_port_attr {
        pub state: c_uint,
        pub max_mtu: c_uint,
        pub active_mtu: c_uint,
        pub gid_tbl_len: c_int,
        pub port_cap_flags: u32,
        pub max_msg_sz: u32,
        pub bad_pkey_cntr: u32,
        pub qkey_viol_cntr: u32,
        pub pkey_tbl_len: u16,
        pub lid: u16,
        pub sm_lid: u16,
        pub lmc: u8,
        pub max_vl_num: u8,
        pub sm_sl: u8,
        pub subnet_timeout: u8,
        pub init_type_reply: u8,
        pub active_width: u8,
        pub active_speed: u8,
        pub phys_state: u8,
        pub link_layer: u8,
        pub flags: u8,
        pub port_cap_flags2: u16,
    }
}

c_struct! {
    pub struct ibv_qp_cap {
        pub max_send_wr: u32,
        pub max_recv_wr: u32,
        pub max_send_sge: u32,
        pub max_recv_sge: u32,
        pub max_inline_data: u32,
    }
}

c_struct! {
    pub struct ibv_qp_init_attr {
        pub qp_context: *mut c_void,
        pub send_cq: *mut ibv_cq,
        pub recv_cq: *mut ibv_cq,
        pub srq: *mut ibv_srq,
        pub cap: ibv_qp_cap,
        pub qp_type: c_uint,
        pub sq_sig_all: c_int,
    }
}

c_struct! {
    pub struct ibv_srq_attr {
        pub max_wr: u32,
        pub max_sge: u32,
        pub srq_limit: u32,
    }
}

c_struct! {
    pub struct ibv_srq_init_attr {
        pub srq_context: *mut c_void,
        pub attr: ibv_srq_attr,
    }
}

c_struct! {
    pub struct ibv_global_route {
        pub dgid: ibv_gid,
        pub flow_label: u32,
        pub sgid_index: u8,
        pub hop_limit: u8,
        pub traffic_class: u8,
    }
}

/// A global identifier: 16 bytes, aligned as the two words that C also has them as.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct ibv_gid(pub [u8; 16]);

c_struct! {
    pub struct ibv_ah_attr {
        pub grh: ibv_global_route,
        pub dlid: u16,
        pub sl: u8,
        pub src_path_bits: u8,
        pub static_rate: u8,
        pub is_global: u8,
        pub port_num: u8,
    }
}

c_struct! {
    /// The way to a peer, for datagrams.
    pub struct ibv_ah {
        pub context: *mut ibv_context,
        pub pd: *mut ibv_pd,
        pub handle: u32,
    }
}

c_struct! {
    pub struct ibv_qp_attr {
        pub qp_state: c_uint,
        pub cur_qp_state: c_uint,
        pub path_mtu: c_uint,
        pub path_mig_state: c_uint,
        pub qkey: u32,
        pub rq_psn: u32,
        pub sq_psn: u32,
        pub dest_qp_num: u32,
        pub qp_access_flags: c_uint,
        pub cap: ibv_qp_cap,
        pub ah_attr: ibv_ah_attr,
        pub alt_ah_attr: ibv_ah_attr,
        pub pkey_index: u16,
        pub alt_pkey_index: u16,
        pub en_sqd_async_notify: u8,
        pub sq_draining: u8,
        pub max_rd_atomic: u8,
        pub max_dest_rd_atomic: u8,
        pub min_rnr_timer: u8,
        pub port_num: u8,
        pub timeout: u8,
        pub retry_cnt: u8,
        pub rnr_retry: u8,
        pub alt_port_num: u8,
        pub alt_timeout: u8,
        pub rate_limit: u32,
    }
}

c_struct! {
    pub struct ibv_async_event {
        pub element: *mut c_void,
        pub event_type: c_uint,
    }
}

pub const IBV_TRANSPORT_IWARP: c_int = 1;
pub const IBV_LINK_LAYER_INFINIBAND: u8 = 1;
pub const IBV_LINK_LAYER_ETHERNET: u8 = 2;
pub const IBV_PORT_DOWN: c_uint = 1;
pub const IBV_PORT_ACTIVE: c_uint = 4;
pub const IBV_ATOMIC_NONE: c_uint = 0;

pub const IBV_ACCESS_LOCAL_WRITE: c_int = 1;
pub const IBV_ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub const IBV_ACCESS_REMOTE_READ: c_int = 1 << 2;
pub const IBV_ACCESS_REMOTE_ATOMIC: c_int = 1 << 3;

pub const IBV_ACCESS_ON_DEMAND: c_int = 1 << 6;

pub const IBV_ODP_SUPPORT: u64 = 1;
pub const IBV_ODP_SUPPORT_SEND: u32 = 1;
pub const IBV_ODP_SUPPORT_RECV: u32 = 1 << 1;
pub const IBV_ODP_SUPPORT_WRITE: u32 = 1 << 2;
pub const IBV_ODP_SUPPORT_READ: u32 = 1 << 3;
pub const IBV_ODP_SUPPORT_ATOMIC: u32 = 1 << 4;
pub const IBV_ODP_SUPPORT_SRQ_RECV: u32 = 1 << 5;

pub const IBV_QPT_RC: c_uint = 2;
pub const IBV_QPT_UD: c_uint = 4;

pub const IBV_QPS_RESET: c_uint = 0;
pub const IBV_QPS_INIT: c_uint = 1;
pub const IBV_QPS_RTR: c_uint = 2;
pub const IBV_QPS_RTS: c_uint = 3;

pub const IBV_QP_STATE: c_int = 1;
pub const IBV_QP_PKEY_INDEX: c_int = 1 << 4;
pub const IBV_QP_PORT: c_int = 1 << 5;
pub const IBV_QP_QKEY: c_int = 1 << 6;
pub const IBV_QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub const IBV_QP_SQ_PSN: c_int = 1 << 16;

pub const IBV_WR_RDMA_WRITE: c_uint = 0;
pub const IBV_WR_RDMA_WRITE_WITH_IMM: c_uint = 1;
pub const IBV_WR_SEND: c_uint = 2;
pub const IBV_WR_SEND_WITH_IMM: c_uint = 3;
pub const IBV_WR_RDMA_READ: c_uint = 4;
pub const IBV_WR_ATOMIC_CMP_AND_SWP: c_uint = 5;
pub const IBV_WR_ATOMIC_FETCH_AND_ADD: c_uint = 6;

pub const IBV_SEND_FENCE: c_uint = 1;
pub const IBV_SEND_SIGNALED: c_uint = 1 << 1;
pub const IBV_SEND_INLINE: c_uint = 1 << 3;

pub const IBV_WC_SUCCESS: c_uint = 0;
pub const IBV_WC_LOC_LEN_ERR: c_uint = 1;
pub const IBV_WC_LOC_QP_OP_ERR: c_uint = 2;
pub const IBV_WC_LOC_PROT_ERR: c_uint = 4;
pub const IBV_WC_WR_FLUSH_ERR: c_uint = 5;
pub const IBV_WC_LOC_ACCESS_ERR: c_uint = 8;
pub const IBV_WC_REM_INV_REQ_ERR: c_uint = 9;
pub const IBV_WC_REM_ACCESS_ERR: c_uint = 10;
pub const IBV_WC_REM_OP_ERR: c_uint = 11;
pub const IBV_WC_RETRY_EXC_ERR: c_uint = 12;
pub const IBV_WC_RNR_RETRY_EXC_ERR: c_uint = 13;
pub const IBV_WC_REM_ABORT_ERR: c_uint = 16;
pub const IBV_WC_RESP_TIMEOUT_ERR: c_uint = 20;

pub const IBV_WC_RECV_RDMA_WITH_IMM: c_uint = 129;
pub const IBV_WC_GRH: c_uint = 1;
pub const IBV_WC_WITH_IMM: c_uint = 1 << 1;

pub const IBV_EVENT_QP_FATAL: c_uint = 1;
pub const IBV_EVENT_QP_REQ_ERR: c_uint = 2;
pub const IBV_EVENT_QP_ACCESS_ERR: c_uint = 3;
pub const IBV_EVENT_PATH_MIG_ERR: c_uint = 7;
pub const IBV_EVENT_DEVICE_FATAL: c_uint = 8;
pub const IBV_EVENT_PORT_ACTIVE: c_uint = 9;
pub const IBV_EVENT_PORT_ERR: c_uint = 10;
pub const IBV_EVENT_SM_CHANGE: c_uint = 13;
pub const IBV_EVENT_SRQ_ERR: c_uint = 14;
pub const IBV_EVENT_QP_LAST_WQE_REACHED: c_uint = 16;
