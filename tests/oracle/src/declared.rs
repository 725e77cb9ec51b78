//! Every struct and number of libibverbs and librdmacm that provider-verbs declares, for whoever
//! compares them with those of others.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "a module of several programs, none of which needs all"
)]

use provider_verbs::sys::{
    abi::{self, Layout},
    cm_abi,
};

/// A struct: its tag, bytes, and name, offset and bytes of each field.
pub struct Struct {
    pub name: &'static str,
    pub size: usize,
    fields: &'static [(&'static str, usize, usize)],
}

impl Struct {
    fn of<T: Layout>() -> Self {
        Self { name: T::NAME, size: T::SIZE, fields: T::FIELDS }
    }

    /// Fields with a leading `_` stand for several, or for what the headers hide; the offsets of those
    /// behind them tell of their size.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, usize, usize)> + use<> {
        self.fields.iter().copied().filter(|(field, ..)| !field.starts_with('_'))
    }
}

macro_rules! structs {
    ($($module:ident: $($name:ident),*;)*) => { vec![$($(Struct::of::<$module::$name>()),*),*] };
}

macro_rules! numbers {
    ($($module:ident: $($name:ident),*;)*) => {
        vec![$($((stringify!($name), $module::$name as i64)),*),*]
    };
}

pub fn structs() -> Vec<Struct> {
    structs! {
        abi: ibv_device, ibv_context_ops, ibv_context, ibv_pd, ibv_mr, ibv_comp_channel, ibv_cq,
            ibv_srq, ibv_qp, ibv_wc, ibv_sge, ibv_recv_wr, ibv_send_wr, ibv_device_attr,
            ibv_odp_caps, ibv_device_attr_ex, verbs_context,
            ibv_port_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_srq_attr, ibv_srq_init_attr,
            ibv_global_route, ibv_ah_attr, ibv_ah, ibv_qp_attr, ibv_async_event;
        cm_abi: rdma_event_channel, rdma_ib_addr, rdma_addr, rdma_route, rdma_cm_id,
            rdma_conn_param, rdma_ud_param, rdma_cm_event;
    }
}

pub fn numbers() -> Vec<(&'static str, i64)> {
    numbers! {
        abi: IBV_TRANSPORT_IWARP, IBV_LINK_LAYER_INFINIBAND, IBV_LINK_LAYER_ETHERNET, IBV_PORT_DOWN,
            IBV_PORT_ACTIVE, IBV_ATOMIC_NONE,
            IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
            IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_ON_DEMAND, IBV_ODP_SUPPORT, IBV_ODP_SUPPORT_SEND,
            IBV_ODP_SUPPORT_RECV, IBV_ODP_SUPPORT_WRITE, IBV_ODP_SUPPORT_READ, IBV_ODP_SUPPORT_ATOMIC,
            IBV_ODP_SUPPORT_SRQ_RECV, IBV_QPT_RC, IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT,
            IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_QKEY,
            IBV_QP_SQ_PSN, IBV_QP_MIN_RNR_TIMER, IBV_WR_RDMA_WRITE,
            IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ,
            IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_SEND_FENCE,
            IBV_SEND_SIGNALED, IBV_SEND_INLINE, IBV_WC_SUCCESS, IBV_WC_LOC_LEN_ERR,
            IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_LOC_ACCESS_ERR,
            IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR,
            IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ABORT_ERR,
            IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, IBV_WC_GRH,
            IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
            IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR, IBV_EVENT_SRQ_ERR,
            IBV_EVENT_QP_LAST_WQE_REACHED, IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_SM_CHANGE;
        cm_abi: RDMA_PS_TCP, RDMA_PS_UDP, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR,
            RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR,
            RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_ERROR,
            RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ESTABLISHED,
            RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_DEVICE_REMOVAL,
            RDMA_CM_EVENT_MULTICAST_JOIN, RDMA_CM_EVENT_MULTICAST_ERROR;
    }
}
