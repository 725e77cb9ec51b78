//! SETUP. A device and a connection manager that do what a test says: tables of functions behind which
//! nothing moves by itself.
//!
//! Each thread has its own, so that tests do not meet. Work requests are noted as they are posted;
//! completions and events come when a test sends them; any function can be told to fail.

mod functions;
mod heap;

use core::ffi::{c_int, c_uint};
use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::event::{EventfdFlags, eventfd};

use super::{Context, abi::*, cm_abi::*};
pub(crate) use heap::allocated;

use functions::{
    TABLES, poll_cq, post_recv, post_send, post_srq_recv, query_device_ex, req_notify_cq,
};

/// A work request of the sending side, as the device has got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PostedSend {
    pub(crate) id: u64,
    pub(crate) opcode: c_uint,
    pub(crate) flags: c_uint,
    pub(crate) immediate: u32,
    /// The queue pair that a datagram goes to.
    pub(crate) to: u32,
    /// Address, length and key of each piece.
    pub(crate) pieces: Vec<(u64, u32, u32)>,
}

impl PostedSend {
    pub(crate) const fn is_told(&self) -> bool {
        self.flags & IBV_SEND_SIGNALED != 0
    }
}

/// A device's limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MockLimits {
    pub(crate) queue: i32,
    pub(crate) cq: i32,
    pub(crate) inline: u32,
    pub(crate) sge: i32,
    pub(crate) reads: i32,
    pub(crate) srq: i32,
    pub(crate) atomic: c_uint,
    pub(crate) message: u32,
    pub(crate) iwarp: bool,
}

/// As soft-RoCE of Linux 6.1 says.
pub(crate) const RXE: MockLimits = MockLimits {
    queue: 1_048_576,
    cq: 32_767,
    inline: 512,
    sge: 32,
    reads: 128,
    srq: 917_503,
    atomic: 1,
    message: 8 << 20,
    iwarp: false,
};
/// As soft-iWARP says.
pub(crate) const SIW: MockLimits = MockLimits {
    queue: 32_768,
    cq: 3_276_800,
    inline: 80,
    sge: 6,
    reads: 128,
    srq: 20_480,
    atomic: 0,
    message: u32::MAX,
    iwarp: true,
};
/// As a ConnectX-5 says.
pub(crate) const MLX5: MockLimits = MockLimits {
    queue: 32_768,
    cq: 4_194_303,
    inline: 828,
    sge: 30,
    reads: 16,
    srq: 32_767,
    atomic: 1,
    message: 1 << 30,
    iwarp: false,
};
/// As an E810 says.
pub(crate) const IRDMA: MockLimits = MockLimits {
    queue: 4_063,
    cq: 1_048_574,
    inline: 101,
    sge: 13,
    reads: 127,
    srq: 0,
    atomic: 0,
    message: 0x7fff_ffff,
    iwarp: false,
};

/// The keys of the partitions that a port is in.
pub(crate) const PARTITIONS: [u16; 2] = [0x7fff, 0x8001];

#[derive(Default)]
struct Qp {
    sends: Vec<PostedSend>,
    /// How many of them have completed.
    ended: usize,
    receives: VecDeque<u64>,
    cap: u32,
    calls: usize,
    cq: usize,
    /// Completed as flushed from now on.
    number: u32,
}

#[derive(Default)]
struct State {
    limits: Option<MockLimits>,
    context: usize,
    /// Results of the next calls of a function.
    failures: HashMap<&'static str, VecDeque<c_int>>,
    /// Calls of the connection manager, in order.
    calls: Vec<&'static str>,
    completions: HashMap<usize, VecDeque<ibv_wc>>,
    qps: HashMap<usize, Qp>,
    newest: usize,
    shared: HashMap<usize, VecDeque<u64>>,
    events: HashMap<usize, VecDeque<usize>>,
    async_events: VecDeque<(c_uint, usize)>,
    keys: u32,
    regions: usize,
    access: c_int,
    /// What pages are fetched for on demand, if the library can ask.
    fetches: Option<u32>,
    fds: Vec<OwnedFd>,
    words: HashMap<u64, u64>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

fn with<R>(run: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(run)
}

/// An object that stays for as long as the test runs; its address is its name.
fn object<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// The failure that a test has ordered for a call of this function, if there is one.
fn ordered(function: &'static str) -> Option<c_int> {
    with(|state| {
        state.calls.push(function);
        state.failures.get_mut(function)?.pop_front()
    })
}

fn set_errno(errno: c_int) {
    // SAFETY: the calling thread's own word.
    unsafe { *libc::__errno_location() = errno };
}

/// A device of this thread with these limits.
pub(crate) fn device(limits: MockLimits) -> Context {
    let device = object(ibv_device::zeroed());
    let mut context = ibv_context::zeroed();
    context.device = device;
    context.ops.poll_cq = Some(poll_cq);
    context.ops.req_notify_cq = Some(req_notify_cq);
    context.ops.post_send = Some(post_send);
    context.ops.post_recv = Some(post_recv);
    context.ops.post_srq_recv = Some(post_srq_recv);
    context.cmd_fd = descriptor();
    context.async_fd = descriptor();
    // SAFETY: nobody else has seen the device.
    unsafe {
        for (to, from) in (*device).name.iter_mut().zip(b"mock0") {
            *to = *from as core::ffi::c_char;
        }
        (*device).transport_type = c_int::from(limits.iwarp);
    }
    let mut whole = verbs_context::zeroed();
    whole.sz = size_of::<verbs_context>();
    whole.query_device_ex = Some(query_device_ex);
    context.abi_compat = core::ptr::without_provenance_mut(usize::MAX);
    whole.context = context;
    let whole = object(whole);
    // SAFETY: a field of an object that stays.
    let context = unsafe { &raw mut (*whole).context };
    with(|state| {
        state.limits = Some(limits);
        state.context = context.expose_provenance();
    });
    // SAFETY: it is never closed.
    unsafe { Context::from_raw(&TABLES, context) }
}

fn descriptor() -> c_int {
    let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("eventfd");
    let number = fd.as_raw_fd();
    with(|state| state.fds.push(fd));
    number
}

/// What devices have pages fetched for on demand from now on (`IBV_ODP_SUPPORT_*`).
pub(crate) fn fetches(kinds: Option<u32>) {
    with(|state| state.fetches = kinds);
}

/// The next calls of `function` return this error, one for each number; zero lets one pass.
pub(crate) fn fail(function: &'static str, errnos: &[c_int]) {
    with(|state| state.failures.entry(function).or_default().extend(errnos));
}

/// The functions of the connection manager and others that were called since the last time.
pub(crate) fn calls() -> Vec<&'static str> {
    with(|state| std::mem::take(&mut state.calls))
}

/// What the newest region was registered for.
pub(crate) fn access() -> c_int {
    with(|state| state.access)
}

/// Regions that are registered.
pub(crate) fn regions() -> usize {
    with(|state| state.regions)
}

/// What the newest queue pair's sending side has got, and in how many calls.
pub(crate) fn posted() -> (Vec<PostedSend>, usize) {
    with(|state| {
        let newest = state.newest;
        state.qps.get(&newest).map_or_else(Default::default, |qp| (qp.sends.clone(), qp.calls))
    })
}

/// The newest queue pair completes the request at this place of those posted.
pub(crate) fn complete_send(place: usize, status: c_uint) {
    with(|state| {
        let newest = state.newest;
        let Some(qp) = state.qps.get_mut(&newest) else { return };
        qp.ended = qp.ended.max(place + 1);
        let mut wc = ibv_wc::zeroed();
        (wc.wr_id, wc.status, wc.qp_num) = (qp.sends[place].id, status, qp.number);
        state.completions.entry(qp.cq).or_default().push_back(wc);
    });
}

/// The newest queue pair completes its next receive.
pub(crate) fn complete_receive(status: c_uint, len: u32, immediate: Option<u32>) {
    with(|state| {
        let newest = state.newest;
        let Some(qp) = state.qps.get_mut(&newest) else { return };
        let Some(id) = qp.receives.pop_front() else { return };
        let mut wc = ibv_wc::zeroed();
        (wc.wr_id, wc.status, wc.qp_num, wc.byte_len) = (id, status, qp.number, len);
        wc.opcode = 128;
        if let Some(data) = immediate {
            (wc.wc_flags, wc.imm_data) = (IBV_WC_WITH_IMM, data.to_be());
        }
        state.completions.entry(qp.cq).or_default().push_back(wc);
    });
}

/// The newest queue pair completes its next receive with a datagram, of so many bytes in all, from queue
/// pair `from` of the subnet's port `lid`.
pub(crate) fn complete_datagram(len: u32, from: u32, lid: u16) {
    with(|state| {
        let newest = state.newest;
        let Some(qp) = state.qps.get_mut(&newest) else { return };
        let Some(id) = qp.receives.pop_front() else { return };
        let mut wc = ibv_wc::zeroed();
        (wc.wr_id, wc.byte_len, wc.opcode) = (id, len, 128);
        (wc.src_qp, wc.slid) = (from, lid);
        state.completions.entry(qp.cq).or_default().push_back(wc);
    });
}

/// Receives that the newest queue pair has.
pub(crate) fn receives() -> usize {
    with(|state| state.qps.get(&state.newest).map_or(0, |qp| qp.receives.len()))
}

/// The newest queue pair takes a receive of its shared queue, the `at`-th, for a message.
pub(crate) fn complete_shared(at: usize, len: u32) {
    with(|state| {
        let newest = state.newest;
        let (cq, number) = state.qps.get(&newest).map_or((0, 0), |qp| (qp.cq, qp.number));
        let queue = state.shared.values_mut().next().expect("a shared queue");
        let id = queue.remove(at).expect("a receive");
        let mut wc = ibv_wc::zeroed();
        (wc.wr_id, wc.qp_num, wc.byte_len, wc.opcode) = (id, number, len, 128);
        state.completions.entry(cq).or_default().push_back(wc);
    });
}

/// Receives that the shared queue has.
pub(crate) fn shared_receives() -> usize {
    with(|state| state.shared.values().map(VecDeque::len).sum())
}

/// The device has written this to a word that a request names.
pub(crate) fn write_word(address: u64, value: u64) {
    let word: *mut u64 = core::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: a registered word of `Words`, which is atomic and aligned.
    unsafe { core::sync::atomic::AtomicU64::from_ptr(word) }
        .store(value, core::sync::atomic::Ordering::Release);
}

/// An asynchronous event of the device, about a port.
pub(crate) fn async_event(number: c_uint, port: usize) {
    with(|state| state.async_events.push_back((number, port)));
    ring(with(|state| state.context));
}

/// An asynchronous event about the newest queue pair.
pub(crate) fn async_event_of_qp(number: c_uint) {
    let qp = with(|state| state.newest);
    async_event(number, qp);
}

/// Makes the descriptor of a device's asynchronous events readable.
fn ring(context: usize) {
    let context: *mut ibv_context = core::ptr::with_exposed_provenance_mut(context);
    // SAFETY: contexts stay for the test, and so do their descriptors.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw((*context).async_fd) };
    rustix::io::write(fd, &1u64.to_ne_bytes()).expect("eventfd");
}

/// An event of the newest identifier, on its channel.
pub(crate) fn event(kind: c_uint, status: c_int, data: &[u8]) {
    let mut conn = rdma_conn_param::zeroed();
    let data: &'static [u8] = Box::leak(data.to_vec().into_boxed_slice());
    (conn.private_data, conn.private_data_len) = (data.as_ptr().cast(), data.len() as u8);
    send_event(kind, status, rdma_cm_event_param { conn });
}

/// An event of the newest identifier, which is about the group with this identifier.
pub(crate) fn group_event(kind: c_uint, status: c_int, group: [u8; 16]) {
    let mut ud = rdma_ud_param::zeroed();
    (ud.ah_attr.is_global, ud.ah_attr.port_num, ud.ah_attr.dlid) = (1, 1, 0xc001);
    ud.ah_attr.grh.dgid = ibv_gid(group);
    ud.qp_num = 0xff_ffff;
    send_event(kind, status, rdma_cm_event_param { ud });
}

fn send_event(kind: c_uint, status: c_int, param: rdma_cm_event_param) {
    let id = with(|state| state.words.get(&0).copied()).unwrap_or(0);
    let id: *mut rdma_cm_id = core::ptr::with_exposed_provenance_mut(id as usize);
    let event = object(rdma_cm_event { id, listen_id: id, event: kind, status, param });
    // SAFETY: the newest identifier lives.
    let channel = unsafe { (*id).channel };
    with(|state| {
        state.events.entry(channel.addr()).or_default().push_back(event.expose_provenance());
    });
    // SAFETY: the channel lives.
    let fd = unsafe { (*channel).fd };
    // SAFETY: the descriptor stays open for the test.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    rustix::io::write(fd, &1u64.to_ne_bytes()).expect("eventfd");
}
