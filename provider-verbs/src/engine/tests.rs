//! The engine on a device that does what the tests say.

mod datagrams;
mod scale;
mod sleeping;

use std::sync::Arc;

use fabric_core::{
    attr::{CqFormat, WaitObj},
    completion::{CompletionQueue, CqBinding, Entry, EntryBuf},
    eq::{EqAttr, Event, EventQueue},
    flags::Flags,
    inet::SocketAddress,
    lock::SafeLock,
    mem::Buffers,
    op::{AtomicKind, AtomicOp, Descs, IoVec, RecvOp, RmaIov, RmaKind, RmaOp, SendOp, TxMeta},
};

use super::*;
use crate::{
    device::Limits,
    sys::{
        abi::{
            IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR,
            IBV_EVENT_QP_ACCESS_ERR, IBV_SEND_INLINE, IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_SUCCESS,
            IBV_WC_WR_FLUSH_ERR,
        },
        cm_abi::*,
        mock::{self, IRDMA, MLX5, MockLimits, RXE, SIW},
    },
};

/// An endpoint of an engine on a mock device, with its queues.
struct Bench {
    engine: Engine,
    ep: Handle,
    cq: Arc<CompletionQueue<SafeLock>>,
    eq: Arc<EventQueue>,
}

const PEER: &str = "10.0.0.9:7000";
/// A descriptor, as registration makes them.
const DESC: usize = 1 << 32 | 77;

fn engine(limits: MockLimits) -> Engine {
    let context = mock::device(limits);
    let (attr, port) = (context.attr().unwrap(), context.port(1).unwrap());
    let limits = Limits::of(context.is_iwarp(), &attr, &port, limits.inline.min(256));
    let device = Device::mock(limits);
    Engine::new(Arc::new(device), Pd::new(context).unwrap()).unwrap()
}

fn limits(engine: &Engine, size: u32) -> EpLimits {
    let of = &engine.device.limits;
    EpLimits {
        sends: size,
        receives: size,
        pieces: of.pieces,
        inline: of.inline,
        message: of.message as usize,
        data: true,
    }
}

fn peer() -> SocketAddress {
    PEER.parse::<std::net::SocketAddr>().unwrap().into()
}

impl Bench {
    /// Not connected; completions of the sending side are told where `selective` is not set.
    fn new(device: MockLimits, size: u32, selective: bool) -> Self {
        let mut engine = engine(device);
        let ep = engine.open(limits(&engine, size), None).unwrap();
        let cq = Arc::new(CompletionQueue::new(64, None));
        let attr = EqAttr { wait_obj: WaitObj::None, ..EqAttr::default() };
        let eq = EventQueue::open(&attr).unwrap();
        let state = engine.eps.get_mut(ep).unwrap();
        state.report.tx = Some(CqBinding { queue: cq.clone(), selective });
        state.report.rx = Some(CqBinding { queue: cq.clone(), selective: false });
        (state.enabled, state.object) = (true, 0x1234);
        mock::calls();
        Self { engine, ep, cq, eq }
    }

    fn connected(device: MockLimits, size: u32, selective: bool) -> Self {
        let mut bench = Self::new(device, size, selective);
        bench.connect();
        for kind in
            [RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ESTABLISHED]
        {
            bench.event(kind, 0, &[]);
        }
        assert!(matches!(bench.eq.read(Flags::empty()), Ok(Event::Connected { .. })));
        bench
    }

    fn connect(&mut self) {
        let patience = Duration::from_secs(60);
        self.engine.connect(self.ep, peer(), b"hello", Some(self.eq.clone()), patience).unwrap();
    }

    fn event(&mut self, kind: u32, status: i32, data: &[u8]) {
        mock::event(kind, status, data);
        self.engine.look();
    }

    fn send(&mut self, context: usize, flags: Flags, bytes: &[u8]) -> Result<()> {
        let iov = [IoVec { base: bytes.as_ptr().cast_mut(), len: bytes.len() }];
        let meta = TxMeta { dest: 0, context, flags, data: 5, silent: false };
        let op = SendOp { meta, iov: &iov, tagged: false, tag: 0 };
        // SAFETY: the mock device looks at no memory.
        let buffers = unsafe { Buffers::new(&iov) }.unwrap();
        self.engine.post_send(self.ep, &op, &buffers, Descs::new(&[DESC]))
    }

    fn recv(&mut self, context: usize) -> Result<()> {
        let (op, buffers) = receive(context);
        self.engine.post_recv(self.ep, &op, &buffers, Descs::new(&[DESC]))
    }

    /// Contexts of successes, and contexts and errors of failures, in order.
    fn ended(&mut self) -> (Vec<usize>, Vec<(usize, Errno)>) {
        self.engine.progress();
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        let mut room = [0u8; 48 * 64];
        loop {
            // SAFETY: room for so many entries.
            let mut out = unsafe {
                EntryBuf::new(room.as_mut_ptr(), CqFormat::Tagged, 64, core::ptr::null_mut())
            };
            match self.cq.read(&mut out) {
                Ok(count) => done.extend(
                    room.chunks(48)
                        .take(count)
                        .map(|entry| usize::from_ne_bytes(*entry.first_chunk::<8>().unwrap())),
                ),
                Err(Errno::EAVAIL) => {
                    let error = self.cq.read_error().unwrap();
                    failed.push((error.entry.context, error.err));
                }
                Err(_) => return (done, failed),
            }
        }
    }
}

static EMPTY: [IoVec; 1] = [IoVec { base: core::ptr::without_provenance_mut(4096), len: 64 }];

fn receive(context: usize) -> (RecvOp<'static>, Buffers) {
    let op = RecvOp {
        iov: &EMPTY,
        src: 0,
        tagged: false,
        tag: 0,
        ignore: 0,
        context,
        flags: Flags::COMPLETION,
    };
    // SAFETY: the mock device looks at no memory.
    (op, unsafe { Buffers::new(&EMPTY) }.unwrap())
}

/// Every step in its order, receives with the device before the peer is asked, words both ways.
#[test]
fn a_connection_comes_up_step_by_step() {
    let mut bench = Bench::new(RXE, 8, false);
    assert_eq!(bench.send(1, Flags::empty(), b"x").unwrap_err(), Errno::ENOTCONN);
    bench.recv(10).unwrap();
    bench.connect();
    let again =
        bench.engine.connect(bench.ep, peer(), b"", Some(bench.eq.clone()), Duration::from_secs(1));
    assert_eq!(again.unwrap_err(), Errno::EINVAL);
    assert_eq!(mock::calls(), ["rdma_create_id", "rdma_resolve_addr"]);
    bench.event(RDMA_CM_EVENT_ADDR_RESOLVED, 0, &[]);
    assert_eq!(mock::calls(), ["rdma_ack_cm_event", "rdma_resolve_route"]);
    bench.event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, &[]);
    assert_eq!(mock::calls(), ["rdma_ack_cm_event", "rdma_create_qp", "post_recv", "rdma_connect"]);
    assert_eq!(bench.eq.read(Flags::empty()).unwrap_err(), Errno::EAGAIN);
    bench.event(RDMA_CM_EVENT_ESTABLISHED, 0, &[3, b'y', b'e', b's', 0, 0]);
    match bench.eq.read(Flags::empty()) {
        Ok(Event::Connected { object: 0x1234, data }) => assert_eq!(data, b"yes"),
        other => panic!("{other:?}"),
    }
    assert!(bench.engine.deadlines.is_empty());
    mock::complete_receive(IBV_WC_SUCCESS, 5, Some(9));
    assert_eq!(bench.ended(), (vec![10], vec![]));
}

/// Whatever step fails, the event says so, and what is posted comes back once.
#[test]
fn a_connection_that_fails_at_any_step() {
    let steps = [RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED];
    for (function, errno) in [
        ("rdma_resolve_addr", libc::ENODEV),
        ("rdma_resolve_route", libc::EINVAL),
        ("rdma_create_qp", libc::ENOMEM),
        ("post_recv", libc::EINVAL),
        ("rdma_connect", libc::ENETUNREACH),
    ] {
        let mut bench = Bench::new(RXE, 8, false);
        bench.recv(10).unwrap();
        mock::fail(function, &[errno]);
        bench.connect();
        steps.iter().for_each(|step| bench.event(*step, 0, &[]));
        let error = bench.eq.read_error(Flags::empty()).unwrap();
        assert_eq!((error.object, error.err), (0x1234, Errno::new(errno)), "{function}");
        assert_eq!(bench.ended(), (vec![], vec![(10, Errno::ECANCELED)]), "{function}");
        assert_eq!(bench.eq.read(Flags::empty()).unwrap_err(), Errno::EAGAIN);
    }
    for (kind, status, err) in [
        (RDMA_CM_EVENT_ADDR_ERROR, -libc::EHOSTUNREACH, Errno::EHOSTUNREACH),
        (RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT, Errno::ETIMEDOUT),
        (RDMA_CM_EVENT_REJECTED, 28, Errno::ECONNREFUSED),
    ] {
        let mut bench = Bench::new(RXE, 8, false);
        bench.connect();
        steps.iter().for_each(|step| bench.event(*step, 0, &[]));
        bench.event(kind, status, &[2, b'n', b'o']);
        let error = bench.eq.read_error(Flags::empty()).unwrap();
        assert_eq!((error.err, error.prov_errno), (err, status));
        let words: &[u8] = if kind == RDMA_CM_EVENT_REJECTED { b"no" } else { b"" };
        assert_eq!(&*error.err_data, words);
    }
}

#[test]
fn a_peer_that_never_answers_is_given_up() {
    let mut bench = Bench::new(RXE, 8, false);
    let eq = bench.eq.clone();
    bench.engine.connect(bench.ep, peer(), b"", Some(eq), Duration::ZERO).unwrap();
    bench.engine.look();
    assert_eq!(bench.eq.read_error(Flags::empty()).unwrap().err, Errno::ETIMEDOUT);
    assert!(mock::calls().contains(&"rdma_destroy_id"));
}

/// The device tells of what somebody wants to hear, and of enough others that room comes back.
#[test]
fn requests_that_nobody_asks_about_are_told_of_by_others() {
    let mut bench = Bench::connected(RXE, 16, true);
    for context in 0..3 {
        bench.send(context, Flags::empty(), b"x").unwrap();
    }
    bench.send(3, Flags::COMPLETION, b"x").unwrap();
    let told: Vec<bool> = mock::posted().0.iter().map(mock::PostedSend::is_told).collect();
    assert_eq!(told, [false, false, false, true]);
    mock::complete_send(3, IBV_WC_SUCCESS);
    assert_eq!(bench.ended(), (vec![3], vec![]));
    assert_eq!(bench.engine.owes(bench.ep), 0, "the others are done with it");
    for context in 4..14 {
        bench.send(context, Flags::empty(), b"x").unwrap();
    }
    let told = mock::posted().0[4..].iter().filter(|send| send.is_told()).count();
    assert_eq!(told, 2, "one in five of sixteen");
}

/// More pieces than the device takes, and data with writes where nobody has receives for it.
#[test]
fn requests_that_are_refused() {
    let mut bench = Bench::connected(SIW, 16, false);
    let iov = [EMPTY[0]; 2];
    // SAFETY: the mock device looks at no memory.
    let buffers = unsafe { Buffers::new(&iov) }.unwrap();
    let descs = [DESC; 2];
    let descs = Descs::new(&descs);
    assert_eq!(bench.engine.device.limits.pieces, 1);
    let meta = TxMeta { dest: 0, context: 1, flags: Flags::empty(), data: 0, silent: false };
    let send = SendOp { meta, iov: &iov, tagged: false, tag: 0 };
    let sent = bench.engine.post_send(bench.ep, &send, &buffers, descs);
    assert_eq!(sent.unwrap_err(), Errno::EINVAL);
    let (recv, _) = receive(2);
    let received = bench.engine.post_recv(bench.ep, &recv, &buffers, descs);
    assert_eq!(received.unwrap_err(), Errno::EINVAL);

    let mut bench = Bench::connected(RXE, 16, false);
    bench.engine.eps.get_mut(bench.ep).unwrap().limits.data = false;
    let far = [RmaIov { addr: 0, len: 64, key: 1 }];
    // SAFETY: as above.
    let buffers = unsafe { Buffers::new(&EMPTY) }.unwrap();
    for (flags, outcome) in
        [(Flags::empty(), Ok(())), (Flags::REMOTE_CQ_DATA, Err(Errno::EOPNOTSUPP))]
    {
        let meta = TxMeta { flags, ..meta };
        let write = RmaOp { kind: RmaKind::Write, meta, iov: &EMPTY, remote: &far };
        assert_eq!(bench.engine.post_rma(bench.ep, &write, &buffers, descs), outcome);
    }
}

/// With a failure everything comes back, once: what the device had done before as done.
#[test]
fn a_failure_accounts_for_every_request() {
    let mut bench = Bench::connected(RXE, 16, true);
    bench.recv(100).unwrap();
    for context in 0..6 {
        let flags = if context % 2 == 0 { Flags::empty() } else { Flags::COMPLETION };
        bench.send(context, flags, b"x").unwrap();
    }
    mock::calls();
    mock::complete_send(3, IBV_WC_RNR_RETRY_EXC_ERR);
    for place in [4, 5] {
        mock::complete_send(place, IBV_WC_WR_FLUSH_ERR);
    }
    mock::complete_receive(IBV_WC_WR_FLUSH_ERR, 0, None);
    let (done, failed) = bench.ended();
    assert_eq!(done, [1]);
    let cancelled = Errno::ECANCELED;
    assert_eq!(failed, [(3, Errno::ENORX), (4, cancelled), (5, cancelled), (100, cancelled)]);
    let ended = mock::calls().iter().filter(|call| **call == "rdma_disconnect").count();
    assert_eq!(ended, 1, "the connection is ended once");
    assert_eq!(bench.send(7, Flags::empty(), b"x").unwrap_err(), Errno::ENOTCONN);
    bench.event(RDMA_CM_EVENT_DISCONNECTED, 0, &[]);
    assert!(matches!(bench.eq.read(Flags::empty()), Ok(Event::Shutdown { object: 0x1234 })));
    assert_eq!(bench.ended(), (vec![], vec![]));
}

#[test]
fn requests_that_others_follow_go_together() {
    let mut bench = Bench::connected(RXE, 16, false);
    let big = [0; 1000];
    bench.send(0, Flags::MORE, &big).unwrap();
    bench.send(1, Flags::MORE, &big).unwrap();
    assert_eq!(mock::posted().1, 0);
    bench.send(2, Flags::REMOTE_CQ_DATA, &big).unwrap();
    let (posted, calls) = mock::posted();
    assert_eq!((posted.len(), calls), (3, 1));
    assert_eq!((posted[2].immediate, &posted[2].pieces[0].1), (5, &1000));
    bench.send(3, Flags::MORE, &big).unwrap();
    bench.engine.progress();
    assert_eq!(mock::posted().1, 2, "the next progress call takes it along");
}

/// A device that takes a part of several requests: the others fail, the last one to its caller.
#[test]
fn several_requests_of_which_the_device_takes_one() {
    let mut bench = Bench::connected(RXE, 16, false);
    let big = [0; 1000];
    mock::fail("post_send", &[0, libc::EINVAL]);
    bench.send(0, Flags::MORE, &big).unwrap();
    bench.send(1, Flags::MORE, &big).unwrap();
    assert_eq!(bench.send(2, Flags::empty(), &big).unwrap_err(), Errno::EINVAL);
    assert_eq!(bench.ended(), (vec![], vec![(1, Errno::EINVAL)]));
    mock::complete_send(0, IBV_WC_SUCCESS);
    assert_eq!(bench.ended(), (vec![0], vec![]));
    bench.send(3, Flags::empty(), &big).unwrap();
    mock::complete_send(1, IBV_WC_SUCCESS);
    assert_eq!(bench.ended(), (vec![3], vec![]), "the numbers still fit");
}

#[test]
fn full_queues_are_tried_again() {
    let mut bench = Bench::connected(RXE, 4, false);
    mock::fail("post_send", &[libc::ENOMEM]);
    assert_eq!(bench.send(9, Flags::empty(), b"x").unwrap_err(), Errno::EAGAIN);
    for context in 0..4 {
        bench.send(context, Flags::empty(), b"x").unwrap();
        bench.recv(10 + context).unwrap();
    }
    assert_eq!(bench.send(4, Flags::empty(), b"x").unwrap_err(), Errno::EAGAIN);
    assert_eq!(bench.recv(14).unwrap_err(), Errno::EAGAIN);
    mock::complete_send(0, IBV_WC_SUCCESS);
    bench.send(4, Flags::empty(), b"x").unwrap();
    assert_eq!(bench.ended().0, [0]);
}

#[test]
fn small_payloads_travel_in_the_request() {
    let mut bench = Bench::connected(RXE, 16, false);
    bench.send(0, Flags::INJECT, &[0; 256]).unwrap();
    assert_eq!(bench.send(1, Flags::INJECT, &[0; 257]).unwrap_err(), Errno::EINVAL);
    bench.send(2, Flags::FENCE, &[0; 257]).unwrap();
    let flags: Vec<u32> = mock::posted().0.iter().map(|send| send.flags).collect();
    assert_eq!(flags[0] & IBV_SEND_INLINE, IBV_SEND_INLINE);
    assert_eq!(flags[1] & (IBV_SEND_INLINE | 1), 1, "fenced, and not inline");
    let iov = [IoVec { base: core::ptr::without_provenance_mut(4096), len: 300 }];
    let meta = TxMeta { dest: 0, context: 0, flags: Flags::empty(), data: 0, silent: false };
    let op = SendOp { meta, iov: &iov, tagged: false, tag: 0 };
    // SAFETY: the mock device looks at no memory.
    let buffers = unsafe { Buffers::new(&iov) }.unwrap();
    let refused = bench.engine.post_send(bench.ep, &op, &buffers, Descs::NONE);
    assert_eq!(refused.unwrap_err(), Errno::EINVAL, "memory without a descriptor");
    let persistent = bench.send(9, Flags::COMMIT_COMPLETE, &[0; 8]);
    assert_eq!(persistent.unwrap_err(), Errno::EOPNOTSUPP, "nobody sees to that");
}

#[test]
fn reads_and_writes_name_one_range() {
    let mut bench = Bench::connected(RXE, 16, false);
    let iov = [IoVec { base: core::ptr::without_provenance_mut(4096), len: 300 }];
    let range = RmaIov { addr: 0xabc, len: 300, key: 7 };
    // SAFETY: the mock device looks at no memory.
    let buffers = unsafe { Buffers::new(&iov) }.unwrap();
    let mut post = |remote: &[RmaIov], kind| {
        let meta = TxMeta { dest: 0, context: 0, flags: Flags::empty(), data: 0, silent: false };
        let op = RmaOp { meta, kind, iov: &iov, remote };
        bench.engine.post_rma(bench.ep, &op, &buffers, Descs::new(&[DESC]))
    };
    post(&[range], RmaKind::Write).unwrap();
    post(&[range], RmaKind::Read).unwrap();
    assert_eq!(post(&[range, range], RmaKind::Read).unwrap_err(), Errno::EINVAL);
    assert_eq!(post(&[], RmaKind::Read).unwrap_err(), Errno::EINVAL);
    let beyond = RmaIov { key: 1 << 32, ..range };
    assert_eq!(post(&[beyond], RmaKind::Write).unwrap_err(), Errno::EINVAL);
    let shorter = RmaIov { len: 299, ..range };
    assert_eq!(post(&[shorter], RmaKind::Write).unwrap_err(), Errno::EINVAL);
    assert_eq!(mock::posted().0.len(), 2);
}

#[test]
fn old_values_of_atomic_operations_come_back() {
    let mut bench = Bench::connected(RXE, 16, false);
    let (operand, mut result) = (5u64, 0u64);
    let iov = |word: *const u64| IoVec { base: word.cast_mut().cast(), len: 8 };
    let (from, to) = ([iov(&raw const operand)], [iov(&raw const result)]);
    let remote = [RmaIov { addr: 64, len: 8, key: 7 }];
    let meta = TxMeta { dest: 0, context: 3, flags: Flags::empty(), data: 0, silent: false };
    let op = |datatype, op| AtomicOp {
        meta,
        kind: AtomicKind::Fetch,
        datatype,
        op,
        operand: &from,
        compare: &[],
        result: &to,
        remote: &remote,
    };
    // SAFETY: the words live to the end of the test.
    let buffers =
        unsafe { [Buffers::new(&from).unwrap(), Buffers::EMPTY, Buffers::new(&to).unwrap()] };
    use fabric_core::atomic::{atomic_op::*, datatype::*};
    let refused = bench.engine.post_atomic(bench.ep, &op(UINT32, SUM), &buffers);
    assert_eq!(refused.unwrap_err(), Errno::EOPNOTSUPP);
    let refused = bench.engine.post_atomic(bench.ep, &op(UINT64, PROD), &buffers);
    assert_eq!(refused.unwrap_err(), Errno::EOPNOTSUPP);
    bench.engine.post_atomic(bench.ep, &op(UINT64, SUM), &buffers).unwrap();
    let (word, _, _) = mock::posted().0[0].pieces[0];
    mock::write_word(word, 42);
    mock::complete_send(0, IBV_WC_SUCCESS);
    assert_eq!(bench.ended(), (vec![3], vec![]));
    // The write went through a pointer.
    result = std::hint::black_box(result);
    // SAFETY: our own word.
    assert_eq!(unsafe { (&raw const result).read_volatile() }, 42);
}

/// A completion that was left in the queue by an endpoint of before is nobody's.
#[test]
fn completions_of_endpoints_that_are_gone() {
    let mut bench = Bench::connected(RXE, 16, false);
    bench.send(0, Flags::empty(), b"x").unwrap();
    let stale = mock::posted().0[0].id;
    bench.engine.close(bench.ep);
    bench.ep = bench.engine.open(limits(&bench.engine, 16), None).unwrap();
    let mut wc = ibv_wc::zeroed();
    wc.wr_id = stale;
    bench.engine.complete(&wc);
    wc.wr_id = u64::MAX;
    bench.engine.complete(&wc);
    assert_eq!(bench.ended(), (vec![], vec![]));
}

#[test]
fn receives_of_a_shared_context_end_in_any_order() {
    let mut bench = Bench::new(RXE, 16, false);
    let context = bench.engine.open_shared(2, 1).unwrap();
    bench.engine.share(bench.ep, context).unwrap();
    assert_eq!(bench.engine.share(bench.ep, context).unwrap_err(), Errno::EINVAL);
    assert_eq!(bench.recv(1).unwrap_err(), Errno::EOPNOTSUPP);
    let post = |bench: &mut Bench, number| {
        let (op, buffers) = receive(number);
        bench.engine.post_shared(context, &op, &buffers, Descs::new(&[DESC]))
    };
    post(&mut bench, 20).unwrap();
    post(&mut bench, 21).unwrap();
    assert_eq!(post(&mut bench, 22).unwrap_err(), Errno::EAGAIN);
    bench.connect();
    for kind in
        [RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ESTABLISHED]
    {
        bench.event(kind, 0, &[]);
    }
    mock::complete_shared(1, 8);
    assert_eq!(bench.ended(), (vec![21], vec![]));
    // Of a message to an endpoint that is gone the receive is posted anew.
    bench.engine.by_qp.clear();
    mock::complete_shared(0, 8);
    assert_eq!(bench.ended(), (vec![], vec![]));
    assert_eq!(mock::shared_receives(), 1);
}

/// A device that is gone takes everything with it, and every request comes back.
#[test]
fn a_device_that_is_gone() {
    let mut bench = Bench::connected(RXE, 16, false);
    bench.recv(10).unwrap();
    bench.send(0, Flags::empty(), b"x").unwrap();
    bench.event(RDMA_CM_EVENT_DEVICE_REMOVAL, 0, &[]);
    assert_eq!(bench.ended(), (vec![], vec![(10, Errno::ENODEV), (0, Errno::ENODEV)]));
    assert!(matches!(bench.eq.read(Flags::empty()), Ok(Event::Shutdown { .. })));

    let mut bench = Bench::connected(RXE, 16, false);
    bench.send(0, Flags::empty(), b"x").unwrap();
    mock::fail("poll_cq", &[libc::EIO]);
    assert_eq!(bench.ended(), (vec![], vec![(0, Errno::EOVERRUN)]));
}

/// The link goes down and comes up, and the device gives a queue pair up, then itself.
#[test]
fn what_the_device_tells_of_itself() {
    let told = |bench: &mut Bench| {
        bench.engine.look();
        let error = bench.eq.read_error(Flags::empty()).unwrap();
        (error.object, error.err, error.prov_errno)
    };
    let mut bench = Bench::connected(RXE, 16, false);
    mock::async_event(IBV_EVENT_PORT_ERR, 2);
    mock::async_event(IBV_EVENT_PORT_ERR, 1);
    assert_eq!(told(&mut bench), (0x1234, Errno::ENETDOWN, 10));
    assert_eq!(
        bench.eq.read_error(Flags::empty()).unwrap_err(),
        Errno::EAGAIN,
        "of its port alone"
    );
    mock::async_event(IBV_EVENT_PORT_ACTIVE, 1);
    bench.engine.look();
    assert!(matches!(bench.eq.read(Flags::empty()), Ok(Event::Notify(event)) if event.data == 9));
    bench.send(0, Flags::empty(), b"x").unwrap();

    mock::calls();
    mock::async_event_of_qp(IBV_EVENT_QP_ACCESS_ERR);
    assert_eq!(told(&mut bench), (0x1234, Errno::EACCES, 3));
    assert!(mock::calls().contains(&"rdma_disconnect"));
    assert_eq!(bench.send(1, Flags::empty(), b"x").unwrap_err(), Errno::ENOTCONN);

    let mut bench = Bench::connected(RXE, 16, false);
    bench.send(0, Flags::empty(), b"x").unwrap();
    mock::async_event(IBV_EVENT_DEVICE_FATAL, 0);
    assert_eq!(told(&mut bench), (0x1234, Errno::ENODEV, 8));
    assert!(matches!(bench.eq.read(Flags::empty()), Ok(Event::Shutdown { .. })));
    assert_eq!(bench.ended(), (vec![], vec![(0, Errno::ENODEV)]));
}

/// Endpoints share completion queues as far as the device's limits go, and none can overrun.
#[test]
fn completion_queues_within_the_limits_of_devices() {
    for device in [RXE, SIW, MLX5, IRDMA] {
        let mut engine = engine(device);
        let size = 384.min(engine.device.limits.queue - 1);
        let limits = limits(&engine, size);
        let eps: Vec<Handle> =
            (0..200).map(|_| engine.open(limits, None).expect("an endpoint")).collect();
        for queue in &engine.queues {
            assert!(queue.reserved <= queue.entries && queue.entries <= device.cq as u32);
        }
        assert!(engine.queues.len() <= 9, "{} queues", engine.queues.len());
        eps.into_iter().for_each(|ep| engine.close(ep));
        assert_eq!(engine.queues.iter().map(|queue| queue.reserved).sum::<u32>(), 0);
        let beyond = EpLimits { sends: device.cq as u32, ..limits };
        assert_eq!(engine.open(beyond, None).unwrap_err(), Errno::EINVAL);
    }
}

/// What closing waits for is told of by a request of its own.
#[test]
fn the_end_of_what_was_injected_shows() {
    let mut bench = Bench::connected(RXE, 16, true);
    bench.send(0, Flags::empty(), b"x").unwrap();
    bench.engine.post_end(bench.ep);
    let posted = mock::posted().0;
    assert_eq!((posted.len(), posted[1].is_told(), posted[1].pieces.len()), (2, true, 0));
    mock::complete_send(1, IBV_WC_SUCCESS);
    assert_eq!(bench.ended(), (vec![], vec![]), "which is no operation of the application's");
    assert_eq!(bench.engine.owes(bench.ep), 0);
    bench.engine.post_end(bench.ep);
    assert_eq!(mock::posted().0.len(), 2, "there is nothing to wait for");
}

const _: () = assert!(size_of::<Entry>() == 56);

/// Who waits for the descriptor to become readable hears of what comes later, and of nothing else.
#[test]
fn what_is_ready_is_taken_in_before_sleeping() {
    let mut bench = Bench::connected(RXE, 4, false);
    assert!(bench.engine.arm());
    mock::event(RDMA_CM_EVENT_DISCONNECTED, 0, &[]);
    assert!(!bench.engine.arm(), "there is something to do");
    assert!(matches!(bench.eq.read(Flags::empty()), Ok(Event::Shutdown { .. })));
    assert!(bench.engine.arm());
}
