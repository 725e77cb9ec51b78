//! What endpoints of our own kind have with each other: refusals, atomic operations.

use fabric_core::{
    Errno,
    atomic::{
        atomic_op::{ATOMIC_READ, SUM},
        datatype::UINT64,
    },
    completion::{Counter, CounterAttr},
    flags::Flags,
    op::{AtomicKind, RmaKind, TxMeta},
};

use super::{
    super::{Identity, Limits, conn::Phase},
    net::Script,
    node::{Done, LIMITS, Node, meta, pair, pair_with, pattern, settle},
};
use crate::endpoint::TcpEndpoint;

const KEY: u64 = 7;
const NARROW: Script = Script { chunk: 700, room: 1000, late: 3, seed: 3 };

/// How the operations of `a` have ended, by context, once there are this many.
fn ends(a: &mut Node, b: &mut Node, count: usize) -> Vec<(usize, Option<Errno>)> {
    let mut all = Vec::new();
    for _ in 0..50 {
        settle(&mut [a, b]);
        all.extend(a.sent().iter().map(|done| match done {
            Done::Ok(entry) => (entry.context, None),
            Done::Err(error) => (error.entry.context, Some(error.err)),
        }));
        if all.len() >= count {
            break;
        }
    }
    all.sort_by_key(|(context, _)| *context);
    all
}

/// However the stream is cut, what a refused operation brought is not taken for something else.
#[test]
fn refusals_leave_the_connection_alone() {
    let whole = Script { chunk: usize::MAX, room: 100_000, late: 0, seed: 1 };
    for script in [Script::default(), whole, NARROW] {
        let (_, mut a, mut b) = pair(script);
        let mut memory = vec![0; 30_000];
        let _region = b.expose(KEY, &mut memory);
        let mut from: Vec<_> = (0..6).map(|n| pattern(n, 20_000)).collect();
        let mut at = [(0, KEY + 1), (0, KEY), (20_000, KEY), (5, KEY), (0, KEY + 1), (10_000, KEY)];
        let kinds = [RmaKind::Write, RmaKind::Write, RmaKind::Read, RmaKind::Read];
        let kinds = kinds.into_iter().chain([RmaKind::Read, RmaKind::Write]);
        for (n, (kind, bytes)) in kinds.zip(&mut from).enumerate() {
            a.rma(meta(1, n), kind, bytes, std::mem::take(&mut at[n])).unwrap();
        }
        let expected = [
            (0, Some(Errno::ENOKEY)),
            (1, None),
            (2, Some(Errno::EINVAL)),
            (3, None),
            (4, Some(Errno::ENOKEY)),
            (5, None),
        ];
        assert_eq!(ends(&mut a, &mut b, 6), expected, "{script:?}");
        assert!(memory[..10_000] == pattern(1, 20_000)[..10_000]);
        assert!(memory[10_000..] == pattern(5, 20_000));
        assert_eq!(a.engine.conns.len(), 1);
        a.assert_idle();
        b.assert_idle();
    }
}

/// A region that closes under a write, or before its bytes have begun to leave, is a refusal.
#[test]
fn regions_that_close_meanwhile() {
    let (_, mut a, mut b) = pair(NARROW);
    let (mut memory, mut other) = (vec![0; 50_000], pattern(2, 50_000));
    let region = b.expose(KEY, &mut memory);
    let second = b.expose(KEY + 1, &mut other);
    let mut from = pattern(1, 50_000);
    a.rma(meta(1, 1), RmaKind::Write, &mut from, (0, KEY)).unwrap();
    for _ in 0..1000 {
        a.engine.progress();
        b.engine.progress();
        let begun = |phase: &Phase| matches!(phase, Phase::Payload { got, .. } if *got > 10);
        if b.engine.conns.iter().any(|(_, conn)| begun(&conn.rx.phase)) {
            break;
        }
    }
    b.regions.close(&region).unwrap();
    assert_eq!(ends(&mut a, &mut b, 1), [(1, Some(Errno::ENOKEY))]);
    assert!(memory[..10] == from[..10] && memory[49_000..].iter().all(|byte| *byte == 0));

    let third = b.expose(KEY, &mut memory);
    let mut got = [vec![0; 50_000], vec![0; 50_000]];
    let [first, last] = &mut got;
    a.rma(meta(1, 2), RmaKind::Read, first, (0, KEY)).unwrap();
    a.rma(meta(1, 3), RmaKind::Read, last, (0, KEY + 1)).unwrap();
    for _ in 0..20 {
        a.engine.progress();
        b.engine.progress();
    }
    b.regions.close(&second).unwrap();
    assert_eq!(ends(&mut a, &mut b, 2), [(2, None), (3, Some(Errno::ENOKEY))]);
    assert!(got[0] == memory);
    assert_eq!(a.engine.conns.len(), 1);
    b.regions.close(&third).unwrap();
    a.assert_idle();
    b.assert_idle();
}

/// Results are those of the operation's turn, however late they leave.
#[test]
fn atomic_operations_in_the_order_of_the_stream() {
    for script in [Script::default(), NARROW] {
        let (_, mut a, mut b) = pair(script);
        let mut cells = vec![0u8; 4096 + 8];
        let skip = cells.as_ptr().align_offset(8);
        let cells = &mut cells[skip..skip + 4096];
        let _region = b.expose(KEY, cells);
        let mut results = [vec![0; 4096], vec![0; 4096], vec![0; 4096]];
        let mut ones = 1u64.to_ne_bytes().repeat(512);
        for (n, result) in results.iter_mut().enumerate() {
            let (kind, op) =
                if n == 2 { (AtomicKind::Fetch, ATOMIC_READ) } else { (AtomicKind::Fetch, SUM) };
            let operand = if n == 2 { &mut [][..] } else { &mut ones[..] };
            a.atomic(meta(1, n), (kind, UINT64, op), operand, result, KEY).unwrap();
        }
        let base = (AtomicKind::Base, UINT64, SUM);
        a.atomic(meta(1, 3), base, &mut ones, &mut [], KEY).unwrap();
        a.atomic(meta(1, 4), base, &mut ones, &mut [], KEY + 1).unwrap();
        let expected = [(0, None), (1, None), (2, None), (3, None), (4, Some(Errno::ENOKEY))];
        assert_eq!(ends(&mut a, &mut b, 5), expected, "{script:?}");
        for (n, result) in results.iter().enumerate() {
            assert!(*result == (n as u64).to_ne_bytes().repeat(512), "result {n}");
        }
        assert!(*cells == *3u64.to_ne_bytes().repeat(512));
        a.assert_idle();
        b.assert_idle();
    }
}

/// Endpoints that have not been opened for atomic operations neither post nor serve them.
#[test]
fn atomic_operations_are_asked_for() {
    let (_, mut a, _b) = pair_with(Script::default(), Limits { atomics: false, ..LIMITS });
    let mut one = 1u64.to_ne_bytes();
    let base = (AtomicKind::Base, UINT64, SUM);
    let posted = a.atomic(meta(1, 1), base, &mut one, &mut [], KEY);
    assert_eq!(posted, Err(Errno::EOPNOTSUPP));
}

/// Success means done: until the peer has moved, nothing is.
#[test]
fn writes_complete_with_their_answer() {
    let (_, mut a, mut b) = pair(Script::default());
    let mut memory = vec![0; 8];
    let _region = b.expose(KEY, &mut memory);
    let mut from = pattern(1, 8);
    a.rma(meta(1, 1), RmaKind::Write, &mut from, (0, KEY)).unwrap();
    assert_eq!(ends(&mut a, &mut b, 1), [(1, None)]);
    let silent = TxMeta { silent: true, flags: Flags::empty(), ..meta(1, 0) };
    a.rma(meta(1, 2), RmaKind::Write, &mut from, (0, KEY)).unwrap();
    a.rma(silent, RmaKind::Write, &mut from, (0, KEY + 1)).unwrap();
    for _ in 0..100 {
        a.engine.progress();
    }
    assert!(a.sent().is_empty());
    assert_eq!(a.engine.owes(a.ep), 0, "nothing is left for closing to wait for");
    assert_eq!(ends(&mut a, &mut b, 2), [(0, Some(Errno::ENOKEY)), (2, None)]);
}

/// Nobody hears of an injected write's end but a counter, which says that the bytes are there: so does
/// towards other libraries, where the endpoint's defaults ask for that.
#[test]
fn injected_writes_count_with_their_answer() {
    for ours in [true, false] {
        let (_, mut a, mut b) = pair(Script::default());
        let mut memory = vec![0; 8];
        let _region = b.expose(KEY, &mut memory);
        let mut from = pattern(1, 8);
        a.rma(meta(1, 1), RmaKind::Write, &mut from, (0, KEY)).unwrap();
        assert_eq!(ends(&mut a, &mut b, 1), [(1, None)]);
        for node in [&mut a, &mut b] {
            let handles: Vec<_> = node.engine.conns.iter().map(|(handle, _)| handle).collect();
            for handle in handles {
                node.engine.conns.get_mut(handle).unwrap().extensions = ours;
            }
        }
        let counter = Counter::<TcpEndpoint>::open(&CounterAttr::default()).unwrap();
        let report = &mut a.engine.core.eps.get_mut(a.ep).unwrap().report;
        report.bind_counter(counter.value(), Flags::WRITE).unwrap();
        memory.fill(0);
        let asks = if ours { Flags::empty() } else { Flags::DELIVERY_COMPLETE };
        let injected = TxMeta { silent: true, flags: Flags::INJECT | asks, ..meta(1, 0) };
        a.rma(injected, RmaKind::Write, &mut from, (0, KEY)).unwrap();
        for _ in 0..100 {
            a.engine.progress();
        }
        assert_eq!((counter.read(), &memory), (0, &vec![0; 8]));
        settle(&mut [&mut a, &mut b]);
        assert_eq!((counter.read(), &memory), (1, &from));
        assert!(a.sent().is_empty());
        if ours {
            a.rma(injected, RmaKind::Write, &mut from, (0, KEY + 1)).unwrap();
            assert_eq!(ends(&mut a, &mut b, 1), [(0, Some(Errno::ENOKEY))]);
            assert_eq!((counter.read(), counter.read_error()), (1, 1));
        }
        a.assert_idle();
    }
}

#[test]
fn identities() {
    let old = |nonce| Identity { nonce, epoch: None };
    let ours = |nonce, epoch| Identity { nonce, epoch: Some(epoch) };
    assert!(old(5).agrees(old(5)) && old(0).agrees(old(5)));
    assert!(!old(5).agrees(old(6)));
    assert!(ours(5, 1).agrees(ours(6, 1)));
    assert!(!ours(5, 1).agrees(ours(5, 2)));
    assert!(ours(5, 1).agrees(old(5)) && !old(5).agrees(ours(6, 1)));
}
