//! SETUP. The functions of the mock's tables.

use core::ffi::{c_int, c_uint, c_void};
use std::collections::VecDeque;

use super::{
    super::{
        Tables,
        abi::*,
        cm_abi::*,
        table::{Ibverbs, Rdmacm},
    },
    PostedSend, Qp, descriptor, object, ordered, set_errno, with,
};

pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, room: c_int, out: *mut ibv_wc) -> c_int {
    if let Some(errno) = ordered("poll_cq").filter(|errno| *errno != 0) {
        return -errno;
    }
    with(|state| {
        let queue = state.completions.entry(cq.addr()).or_default();
        let count = queue.len().min(room as usize);
        for (at, wc) in queue.drain(..count).enumerate() {
            // SAFETY: the caller has room for so many.
            unsafe { out.add(at).write(wc) };
        }
        count as c_int
    })
}

pub(super) unsafe extern "C" fn req_notify_cq(_: *mut ibv_cq, _: c_int) -> c_int {
    ordered("req_notify_cq").unwrap_or(0)
}

pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    mut wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    with(|state| state.qps.entry(qp.addr()).or_default().calls += 1);
    // SAFETY: null or a request of the caller's list.
    while let Some(each) = unsafe { wr.as_ref() } {
        let outstanding = with(|state| {
            let qp = state.qps.entry(qp.addr()).or_default();
            qp.sends.len() - qp.ended >= qp.cap as usize
        });
        let failure = ordered("post_send").filter(|errno| *errno != 0);
        if let Some(errno) = failure.or_else(|| outstanding.then_some(libc::ENOMEM)) {
            // SAFETY: room for the answer.
            unsafe { bad.write(wr) };
            return errno;
        }
        let pieces = (0..each.num_sge as usize)
            // SAFETY: the request has so many pieces.
            .map(|at| unsafe { *each.sg_list.add(at) })
            .map(|sge| (sge.addr, sge.length, sge.lkey));
        let posted = PostedSend {
            id: each.wr_id,
            opcode: each.opcode,
            flags: each.send_flags,
            immediate: u32::from_be(each.imm_data),
            // SAFETY: whichever arm of the union was written, these are integers.
            to: unsafe { each.wr.ud.remote_qpn },
            pieces: pieces.collect(),
        };
        with(|state| state.qps.entry(qp.addr()).or_default().sends.push(posted));
        wr = each.next;
    }
    0
}

pub(super) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    _: *mut *mut ibv_recv_wr,
) -> c_int {
    if let Some(errno) = ordered("post_recv").filter(|errno| *errno != 0) {
        return errno;
    }
    // SAFETY: the caller's request.
    let id = unsafe { (*wr).wr_id };
    with(|state| state.qps.entry(qp.addr()).or_default().receives.push_back(id));
    0
}

pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    _: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller's request.
    let id = unsafe { (*wr).wr_id };
    with(|state| state.shared.entry(srq.addr()).or_default().push_back(id));
    0
}

/// Defines functions that only fail when a test says so: they set `errno`, and return what is given.
macro_rules! plain {
    ($($name:ident($($ty:ty),*) -> $ret:ty = $failed:expr, $done:expr;)*) => {
        $(unsafe extern "C" fn $name($(_: $ty),*) -> $ret {
            match ordered(stringify!($name)) {
                Some(errno) if errno != 0 => {
                    set_errno(errno);
                    $failed
                }
                _ => $done,
            }
        })*
    };
}

const NULL: *mut c_void = core::ptr::null_mut();

plain! {
    ibv_fork_init() -> c_int = -1, 0;
    ibv_get_device_list(*mut c_int) -> *mut *mut ibv_device = NULL.cast(), NULL.cast();
    ibv_open_device(*mut ibv_device) -> *mut ibv_context = NULL.cast(), NULL.cast();
    ibv_close_device(*mut ibv_context) -> c_int = -1, 0;
    ibv_query_gid(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int = -1, 0;
    ibv_alloc_pd(*mut ibv_context) -> *mut ibv_pd = NULL.cast(), object(ibv_pd::zeroed());
    ibv_dealloc_pd(*mut ibv_pd) -> c_int = -1, 0;
    ibv_destroy_comp_channel(*mut ibv_comp_channel) -> c_int = -1, 0;
    ibv_destroy_srq(*mut ibv_srq) -> c_int = -1, 0;
    ibv_destroy_qp(*mut ibv_qp) -> c_int = -1, 0;
    ibv_destroy_ah(*mut ibv_ah) -> c_int = -1, 0;
    ibv_attach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int = -1, 0;
    ibv_detach_mcast(*mut ibv_qp, *const ibv_gid, u16) -> c_int = -1, 0;
    rdma_get_devices(*mut c_int) -> *mut *mut ibv_context = NULL.cast(), NULL.cast();
    rdma_destroy_id(*mut rdma_cm_id) -> c_int = -1, 0;
    rdma_bind_addr(*mut rdma_cm_id, *mut libc::sockaddr) -> c_int = -1, 0;
    rdma_resolve_addr(*mut rdma_cm_id, *mut libc::sockaddr, *mut libc::sockaddr, c_int) -> c_int =
        -1, 0;
    rdma_resolve_route(*mut rdma_cm_id, c_int) -> c_int = -1, 0;
    rdma_listen(*mut rdma_cm_id, c_int) -> c_int = -1, 0;
    rdma_connect(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int = -1, 0;
    rdma_accept(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int = -1, 0;
    rdma_reject(*mut rdma_cm_id, *const c_void, u8) -> c_int = -1, 0;
    rdma_disconnect(*mut rdma_cm_id) -> c_int = -1, 0;
    rdma_migrate_id(*mut rdma_cm_id, *mut rdma_event_channel) -> c_int = -1, 0;
    rdma_ack_cm_event(*mut rdma_cm_event) -> c_int = -1, 0;
    rdma_join_multicast(*mut rdma_cm_id, *mut libc::sockaddr, *mut c_void) -> c_int = -1, 0;
    rdma_leave_multicast(*mut rdma_cm_id, *mut libc::sockaddr) -> c_int = -1, 0;
}

unsafe extern "C" fn ibv_free_device_list(_: *mut *mut ibv_device) {}
unsafe extern "C" fn ibv_ack_cq_events(_: *mut ibv_cq, _: c_uint) {}
unsafe extern "C" fn ibv_ack_async_event(_: *mut ibv_async_event) {}
unsafe extern "C" fn rdma_destroy_event_channel(_: *mut rdma_event_channel) {}

unsafe extern "C" fn ibv_query_device(_: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    let Some(limits) = with(|state| state.limits) else { return libc::ENODEV };
    let mut told = ibv_device_attr::zeroed();
    (told.max_qp, told.max_cq, told.max_mr) = (1024, 1024, 1024);
    (told.max_qp_wr, told.max_cqe) = (limits.queue, limits.cq);
    (told.max_sge, told.max_sge_rd) = (limits.sge, if limits.iwarp { 1 } else { limits.sge });
    (told.max_qp_rd_atom, told.max_qp_init_rd_atom) = (limits.reads, limits.reads);
    told.atomic_cap = limits.atomic;
    told.max_mcast_grp = if limits.iwarp { 0 } else { 1024 };
    (told.max_srq, told.max_srq_wr, told.max_srq_sge) =
        (limits.srq.min(1024), limits.srq, limits.sge);
    // SAFETY: room for the answer.
    unsafe { attr.write(told) };
    0
}

pub(super) unsafe extern "C" fn query_device_ex(
    _: *mut ibv_context,
    _: *const c_void,
    attr: *mut ibv_device_attr_ex,
    room: usize,
) -> c_int {
    if let Some(errno) = ordered("query_device_ex").filter(|errno| *errno != 0) {
        return errno;
    }
    assert_eq!(room, size_of::<ibv_device_attr_ex>());
    let mut told = ibv_device_attr_ex::zeroed();
    if let Some(kinds) = with(|state| state.fetches) {
        told.odp_caps.general_caps = IBV_ODP_SUPPORT;
        told.odp_caps.per_transport_caps[0] = kinds;
    }
    // SAFETY: room for the answer.
    unsafe { attr.write(told) };
    0
}

unsafe extern "C" fn ibv_query_port(_: *mut ibv_context, _: u8, attr: *mut ibv_port_attr) -> c_int {
    let Some(limits) = with(|state| state.limits) else { return libc::ENODEV };
    let mut told = ibv_port_attr::zeroed();
    (told.state, told.active_mtu, told.max_msg_sz) = (IBV_PORT_ACTIVE, 3, limits.message);
    told.pkey_tbl_len = super::PARTITIONS.len() as u16;
    // SAFETY: room for the answer.
    unsafe { attr.write(told) };
    0
}

/// Two partitions: everybody's, and 1 with full membership.
unsafe extern "C" fn ibv_query_pkey(
    _: *mut ibv_context,
    _: u8,
    index: c_int,
    key: *mut u16,
) -> c_int {
    let Some(told) = super::PARTITIONS.get(index as usize) else { return -1 };
    // SAFETY: room for the answer.
    unsafe { key.write(told.to_be()) };
    0
}

unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    addr.expose_provenance();
    if let Some(errno) = ordered("ibv_reg_mr").filter(|errno| *errno != 0) {
        set_errno(errno);
        return NULL.cast();
    }
    let mut mr = ibv_mr::zeroed();
    (mr.pd, mr.addr, mr.length) = (pd, addr, length);
    let key = with(|state| {
        state.regions += 1;
        state.access = access;
        state.keys += 1;
        state.keys
    });
    (mr.lkey, mr.rkey) = (key, key | 0x8000_0000);
    object(mr)
}

unsafe extern "C" fn ibv_dereg_mr(_: *mut ibv_mr) -> c_int {
    with(|state| state.regions -= 1);
    0
}

unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    object(ibv_comp_channel { context, fd: descriptor(), refcnt: 0 })
}

unsafe extern "C" fn ibv_get_cq_event(
    _: *mut ibv_comp_channel,
    _: *mut *mut ibv_cq,
    _: *mut *mut c_void,
) -> c_int {
    set_errno(libc::EAGAIN);
    -1
}

unsafe extern "C" fn ibv_get_async_event(
    _: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    let Some((event_type, element)) = with(|state| state.async_events.pop_front()) else {
        set_errno(libc::EAGAIN);
        return -1;
    };
    let element = core::ptr::with_exposed_provenance_mut(element);
    // SAFETY: room for the answer.
    unsafe { event.write(ibv_async_event { element, event_type }) };
    0
}

unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    _: *mut c_void,
    channel: *mut ibv_comp_channel,
    _: c_int,
) -> *mut ibv_cq {
    let most = with(|state| state.limits).map_or(0, |limits| limits.cq);
    if cqe > most {
        set_errno(libc::EINVAL);
        return NULL.cast();
    }
    let mut cq = ibv_cq::zeroed();
    (cq.context, cq.channel, cq.cqe) = (context, channel, cqe);
    object(cq)
}

unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    with(|state| state.completions.remove(&cq.addr()));
    0
}

unsafe extern "C" fn ibv_create_srq(_: *mut ibv_pd, _: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    let mut srq = ibv_srq::zeroed();
    srq.context = core::ptr::with_exposed_provenance_mut(with(|state| state.context));
    let srq = object(srq);
    with(|state| state.shared.insert(srq.addr(), VecDeque::new()));
    srq
}

unsafe extern "C" fn ibv_create_qp(_: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the caller's attributes.
    let attr = unsafe { &*attr };
    let limits = with(|state| state.limits).expect("a device");
    if attr.cap.max_inline_data > limits.inline || attr.cap.max_send_wr as i32 > limits.queue {
        set_errno(libc::EINVAL);
        return NULL.cast();
    }
    let mut qp = ibv_qp::zeroed();
    qp.context = core::ptr::with_exposed_provenance_mut(with(|state| state.context));
    qp.qp_num = with(|state| 100 + state.qps.len() as u32);
    let (number, cap) = (qp.qp_num, attr.cap.max_send_wr);
    let qp = object(qp);
    with(|state| {
        state.newest = qp.addr();
        let cq = attr.send_cq.addr();
        state.qps.insert(qp.addr(), Qp { cap, cq, number, ..Qp::default() });
    });
    qp
}

/// A queue pair that is reset forgets its work.
unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    if let Some(errno) = ordered("ibv_modify_qp").filter(|errno| *errno != 0) {
        return errno;
    }
    // SAFETY: the caller's attributes.
    let state = unsafe { (*attr).qp_state };
    if mask & IBV_QP_STATE != 0 && state == IBV_QPS_RESET {
        with(|state| {
            let qp = state.qps.entry(qp.addr()).or_default();
            qp.receives.clear();
            qp.sends.clear();
            qp.ended = 0;
        });
    }
    0
}

unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, _: *mut ibv_ah_attr) -> *mut ibv_ah {
    if let Some(errno) = ordered("ibv_create_ah").filter(|errno| *errno != 0) {
        set_errno(errno);
        return NULL.cast();
    }
    let mut ah = ibv_ah::zeroed();
    ah.pd = pd;
    object(ah)
}

unsafe extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    object(rdma_event_channel { fd: descriptor() })
}

unsafe extern "C" fn rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    let next = with(|state| state.events.entry(channel.addr()).or_default().pop_front());
    match next {
        Some(next) => {
            // SAFETY: room for the answer.
            unsafe { event.write(core::ptr::with_exposed_provenance_mut(next)) };
            0
        }
        None => {
            // SAFETY: a live channel, whose descriptor stays open for the test.
            let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw((*channel).fd) };
            let _ = rustix::io::read(fd, &mut [0; 8]);
            set_errno(libc::EAGAIN);
            -1
        }
    }
}

unsafe extern "C" fn rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: c_uint,
) -> c_int {
    if let Some(errno) = ordered("rdma_create_id").filter(|errno| *errno != 0) {
        set_errno(errno);
        return -1;
    }
    let mut new = rdma_cm_id::zeroed();
    (new.channel, new.context, new.ps, new.port_num) = (channel, context, ps, 1);
    new.verbs = core::ptr::with_exposed_provenance_mut(with(|state| state.context));
    let new = object(new);
    with(|state| state.words.insert(0, new.expose_provenance() as u64));
    // SAFETY: room for the answer.
    unsafe { id.write(new) };
    0
}

unsafe extern "C" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> c_int {
    if let Some(errno) = ordered("rdma_create_qp").filter(|errno| *errno != 0) {
        set_errno(errno);
        return -1;
    }
    // SAFETY: the caller's arguments.
    let qp = unsafe { ibv_create_qp(pd, attr) };
    // SAFETY: a live identifier.
    unsafe { (*id).qp = qp };
    if qp.is_null() { -1 } else { 0 }
}

unsafe extern "C" fn rdma_destroy_qp(_: *mut rdma_cm_id) {
    let _ = ordered("rdma_destroy_qp");
}

pub(super) static TABLES: Tables = Tables {
    ibv: Ibverbs {
        ibv_fork_init,
        ibv_get_device_list,
        ibv_free_device_list,
        ibv_open_device,
        ibv_close_device,
        ibv_query_device,
        ibv_query_port,
        ibv_query_gid,
        ibv_alloc_pd,
        ibv_dealloc_pd,
        ibv_reg_mr,
        ibv_dereg_mr,
        ibv_create_comp_channel,
        ibv_destroy_comp_channel,
        ibv_create_cq,
        ibv_destroy_cq,
        ibv_get_cq_event,
        ibv_ack_cq_events,
        ibv_create_srq,
        ibv_destroy_srq,
        ibv_create_qp,
        ibv_destroy_qp,
        ibv_modify_qp,
        ibv_query_pkey,
        ibv_create_ah,
        ibv_destroy_ah,
        ibv_attach_mcast,
        ibv_detach_mcast,
        ibv_get_async_event,
        ibv_ack_async_event,
    },
    cm: Rdmacm {
        rdma_get_devices,
        rdma_create_event_channel,
        rdma_destroy_event_channel,
        rdma_get_cm_event,
        rdma_ack_cm_event,
        rdma_create_id,
        rdma_destroy_id,
        rdma_migrate_id,
        rdma_bind_addr,
        rdma_resolve_addr,
        rdma_resolve_route,
        rdma_create_qp,
        rdma_destroy_qp,
        rdma_listen,
        rdma_connect,
        rdma_accept,
        rdma_reject,
        rdma_disconnect,
        rdma_join_multicast,
        rdma_leave_multicast,
    },
};
