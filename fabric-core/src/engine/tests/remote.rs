//! One-sided and atomic operations.

use std::sync::Arc;

use super::{
    WAYS,
    node::{LIMITS, Node, SUM, UINT64, idle, iov, meta, nodes, pair, settle},
    pattern,
    wire::Script,
};
use crate::{
    Errno,
    completion::CounterValue,
    engine::Limits,
    flags::Flags,
    op::{
        AtomicKind::{Base, Compare, Fetch},
        AtomicOp, RmaIov, RmaKind, TxMeta,
    },
    wire::Op,
};

const KEY: u64 = 9;
const ATOMIC_READ: u32 = 10;
const CSWAP: u32 = 12;

fn at(addr: u64, len: usize) -> RmaIov {
    RmaIov { addr, len, key: KEY }
}

fn one_error(node: &Node) -> Errno {
    let sent = node.sent();
    assert_eq!(sent.len(), 1);
    sent[0].err().err
}

#[test]
fn reads_and_writes_of_every_size() {
    for script in WAYS {
        for len in [0, 1, 512, 513, 1000, 2000, 10_000] {
            let (shared, mut a, mut b) = pair(script);
            let mut memory = pattern(5, 20_000);
            let (mut from, mut to) = (pattern(1, len), vec![0; len]);
            shared.net().memory.extend([iov(&mut memory), iov(&mut from)]);
            b.expose(KEY, &mut memory, Flags::REMOTE_READ | Flags::REMOTE_WRITE);
            // Two pieces at either side, cut in different places.
            let (x, y) = from.split_at_mut(len / 3);
            let remote = [at(7000, len - len / 2), at(100, len / 2)];
            a.rma(meta(1, 1), RmaKind::Write, &[iov(x), iov(y)], &remote).unwrap();
            settle(&mut [&mut a, &mut b]);
            let sent = a.sent();
            assert_eq!(sent.len(), 1);
            assert_eq!(sent[0].ok().flags, (Flags::RMA | Flags::WRITE).bits());
            let mid = len - len / 2;
            assert_eq!(memory[7000..7000 + mid], from[..mid]);
            assert_eq!(memory[100..100 + len / 2], from[mid..]);

            let (x, y) = to.split_at_mut(len / 4);
            a.rma(meta(1, 2), RmaKind::Read, &[iov(x), iov(y)], &remote).unwrap();
            settle(&mut [&mut a, &mut b]);
            let sent = a.sent();
            assert_eq!(sent.len(), 1);
            assert_eq!(sent[0].ok().flags, (Flags::RMA | Flags::READ).bits());
            assert_eq!(to, from);
            assert_eq!(b.engine.stats().served, 2);
            let emitted = |op: Op| shared.net().emitted.contains_key(&(op as u8));
            let (large, copies) = (len > LIMITS.eager, script.copy_every != 0);
            assert_eq!(emitted(Op::Write), !large);
            assert_eq!(emitted(Op::WriteOffer), large);
            assert_eq!(emitted(Op::Reply), !large);
            assert_eq!(emitted(Op::Grant), large);
            assert_eq!(emitted(Op::Release), large);
            assert_eq!(emitted(Op::Stream), large);
            // A write to several places is copied at once where that is possible.
            assert_eq!(emitted(Op::Request), large && !copies);
            assert_eq!(emitted(Op::Segment), large);
            assert!(b.received().is_empty());
            idle(&[&a, &b]);
        }
    }
}

#[test]
fn a_write_with_data_makes_an_entry() {
    for script in WAYS {
        for len in [8, 10_000] {
            let (shared, mut a, mut b) = pair(script);
            let (mut memory, mut from) = (vec![0; len], pattern(1, len));
            shared.net().memory.extend([iov(&mut memory), iov(&mut from)]);
            b.expose(KEY, &mut memory, Flags::REMOTE_WRITE);
            let meta = TxMeta { data: 42, flags: Flags::REMOTE_CQ_DATA, ..meta(1, 1) };
            a.rma(meta, RmaKind::Write, &[iov(&mut from)], &[at(0, len)]).unwrap();
            settle(&mut [&mut a, &mut b]);
            let got = b.received();
            let entry = got[0].ok();
            assert_eq!((got.len(), entry.data, entry.len, entry.src), (1, 42, len, 0));
            let flags = Flags::RMA | Flags::REMOTE_WRITE | Flags::REMOTE_CQ_DATA;
            assert_eq!(entry.flags, flags.bits());
            assert_eq!(memory, from);
        }
    }
}

#[test]
fn refused_access_changes_nothing() {
    for len in [8, 10_000] {
        let (shared, mut a, mut b) = pair(Script::default());
        let (mut memory, mut local) = (vec![3u8; 20_000], vec![7u8; len]);
        let mut sealed = vec![3u8; 20_000];
        shared.net().memory.extend([iov(&mut memory), iov(&mut local)]);
        b.expose(KEY, &mut memory, Flags::REMOTE_READ | Flags::REMOTE_WRITE);
        b.expose(KEY + 1, &mut sealed, Flags::RECV);
        let half = len / 2;
        let cases = [
            (RmaIov { addr: 0, len, key: 77 }, Errno::ENOKEY),
            (RmaIov { addr: 0, len, key: KEY + 1 }, Errno::EACCES),
            (at(20_001 - half as u64, len), Errno::EINVAL),
            (at(u64::MAX, len), Errno::EINVAL),
        ];
        for (bad, reason) in cases {
            for kind in [RmaKind::Write, RmaKind::Read] {
                let bad = [at(0, half), RmaIov { len: len - half, ..bad }];
                a.rma(meta(1, 1), kind, &[iov(&mut local)], &bad).unwrap();
                settle(&mut [&mut a, &mut b]);
                assert_eq!(one_error(&a), reason, "{kind:?} {bad:?}");
            }
        }
        assert!(memory.iter().chain(&sealed).all(|byte| *byte == 3));
        assert!(local.iter().all(|byte| *byte == 7));
        idle(&[&a, &b]);
        let mismatch = a.rma(meta(1, 1), RmaKind::Read, &[iov(&mut local)], &[at(0, len + 1)]);
        assert_eq!(mismatch, Err(Errno::EINVAL));
    }
}

#[test]
fn writes_do_not_overtake_large_reads() {
    for script in WAYS {
        let (shared, mut a, mut b) = pair(script);
        let (mut memory, mut to) = (pattern(1, 10_000), vec![0; 10_000]);
        let before = memory.clone();
        shared.net().memory.extend([iov(&mut memory), iov(&mut to)]);
        b.expose(KEY, &mut memory, Flags::REMOTE_READ | Flags::REMOTE_WRITE);
        let mut zeros = vec![0u8; 1000];
        a.rma(meta(1, 1), RmaKind::Read, &[iov(&mut to)], &[at(0, 10_000)]).unwrap();
        for n in 0..10 {
            let remote = [at(n * 1000, 1000)];
            a.rma(meta(1, 2), RmaKind::Write, &[iov(&mut zeros)], &remote).unwrap();
        }
        settle(&mut [&mut a, &mut b]);
        assert_eq!(a.sent().len(), 11);
        assert_eq!(to, before);
        assert!(memory.iter().all(|byte| *byte == 0));
        idle(&[&a, &b]);
    }
}

#[test]
fn nothing_overtakes_a_large_write() {
    for script in WAYS {
        let (shared, mut a, mut b) = pair(script);
        let (mut memory, mut from) = (vec![0; 10_000], pattern(1, 10_000));
        shared.net().memory.extend([iov(&mut memory), iov(&mut from)]);
        b.expose(KEY, &mut memory, Flags::REMOTE_READ | Flags::REMOTE_WRITE);
        let (mut small, mut back, mut word) = ([9u8; 8], [0u8; 8], [0u8; 8]);
        a.rma(meta(1, 1), RmaKind::Write, &[iov(&mut from)], &[at(0, 10_000)]).unwrap();
        a.rma(meta(1, 2), RmaKind::Read, &[iov(&mut back)], &[at(9992, 8)]).unwrap();
        a.rma(meta(1, 3), RmaKind::Write, &[iov(&mut small)], &[at(5000, 8)]).unwrap();
        b.trecv(7, 5, &mut word);
        a.tsend(1, 4, 5, &mut small);
        settle(&mut [&mut a, &mut b]);
        let order: Vec<_> = a.sent().iter().map(|done| done.ok().context).collect();
        assert_eq!(order[0], 1, "{order:?}");
        assert_eq!(order.len(), 4);
        assert_eq!(back, from[9992..]);
        assert_eq!(memory[5000..5008], small);
        assert_eq!(memory[..5000], from[..5000]);
        assert_eq!(b.received().len(), 1);
        idle(&[&a, &b]);
    }
}

#[test]
fn without_a_promise_nothing_is_held_back() {
    let (shared, mut a, mut b) = pair(Script::default());
    a.engine.core.limits.ordered = false;
    let (mut memory, mut from, mut word) = (vec![0; 10_000], pattern(1, 10_000), [0u8; 8]);
    shared.net().memory.extend([iov(&mut memory), iov(&mut from)]);
    b.expose(KEY, &mut memory, Flags::REMOTE_WRITE);
    a.rma(meta(1, 1), RmaKind::Write, &[iov(&mut from)], &[at(0, 10_000)]).unwrap();
    a.tsend(1, 2, 5, &mut word);
    assert_eq!(a.sent().len(), 1, "the send is on its way");
    b.trecv(7, 5, &mut [0u8; 8]);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(memory, from);
}

#[test]
fn a_region_that_is_closed_is_touched_no_more() {
    for script in WAYS {
        for kind in [RmaKind::Read, RmaKind::Write] {
            let (shared, mut a, mut b) = pair(Script { room: 2, ..script });
            let (mut memory, mut local) = (pattern(1, 50_000), pattern(2, 50_000));
            let before = memory.clone();
            shared.net().memory.extend([iov(&mut memory), iov(&mut local)]);
            let region = b.expose(KEY, &mut memory, Flags::REMOTE_READ | Flags::REMOTE_WRITE);
            a.rma(meta(1, 1), kind, &[iov(&mut local)], &[at(0, 50_000)]).unwrap();
            // Some of it moves, then the owner takes its memory back.
            for _ in 0..3 {
                b.engine.progress();
                a.engine.progress();
            }
            b.regions().close(&region).unwrap();
            memory.copy_from_slice(&before);
            // Nor can the other side reach it any more.
            shared.net().memory.remove(0);
            settle(&mut [&mut a, &mut b]);
            assert_eq!(memory, before, "{kind:?}");
            let sent = a.sent();
            assert_eq!((sent.len(), sent[0].err().err), (1, Errno::ENOKEY), "{kind:?}");
            idle(&[&a, &b]);
        }
    }
}

/// The owner closes its region and uses the memory again, and makes no progress from then on.
#[test]
fn a_read_copied_from_a_closed_region_fails() {
    for reachable in [true, false] {
        let (shared, mut a, mut b) = pair(WAYS[0]);
        let (mut memory, mut local) = (pattern(1, 50_000), vec![0; 50_000]);
        let region = b.expose(KEY, &mut memory, Flags::REMOTE_READ);
        shared.net().memory.push(iov(&mut memory));
        a.rma(meta(1, 1), RmaKind::Read, &[iov(&mut local)], &[at(0, 50_000)]).unwrap();
        b.engine.progress();
        for _ in 0..LIMITS.patience + 3 {
            a.engine.progress();
        }
        assert_eq!(a.engine.stats().copies, 1, "it is being copied");
        b.regions().close(&region).unwrap();
        memory.fill(0);
        if !reachable {
            shared.net().memory.pop();
        }
        settle(&mut [&mut a]);
        assert_eq!(one_error(&a), Errno::ENOKEY);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.engine.stats().served, 0);
        idle(&[&a, &b]);
    }
}

#[test]
fn fetching_atomics_return_what_was_there() {
    let (_shared, mut a, mut b) = pair(Script { refuse_every: 3, ..Script::default() });
    let mut memory = [0u64; 4];
    // SAFETY: plain words as bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), 32) };
    b.expose(KEY, bytes, Flags::REMOTE_READ | Flags::REMOTE_WRITE);
    let mut operand = 1u64.to_ne_bytes();
    let mut results = [[0u8; 8]; 50];
    for (n, result) in results.iter_mut().enumerate() {
        a.fetch_add(meta(1, n), &[iov(&mut operand)], &[iov(result)], &[at(8, 8)]).unwrap();
    }
    settle(&mut [&mut a, &mut b]);
    let sent = a.sent();
    assert_eq!(sent.len(), 50);
    assert_eq!(sent[0].ok().flags, (Flags::ATOMIC | Flags::READ).bits());
    let old: Vec<_> = results.iter().map(|result| u64::from_ne_bytes(*result)).collect();
    assert_eq!(old, (0..50).collect::<Vec<_>>());
    assert_eq!(memory, [0, 50, 0, 0]);
    let mut result = [0u8; 8];
    for (remote, reason) in [
        (at(4, 8), Errno::EINVAL),
        (at(32, 8), Errno::EINVAL),
        (RmaIov { key: 1, ..at(0, 8) }, Errno::ENOKEY),
    ] {
        a.fetch_add(meta(1, 1), &[iov(&mut operand)], &[iov(&mut result)], &[remote]).unwrap();
        settle(&mut [&mut a, &mut b]);
        assert_eq!(one_error(&a), reason);
    }
    assert_eq!(memory, [0, 50, 0, 0]);
    idle(&[&a, &b]);
}

#[test]
fn fetching_atomics_count_as_reads() {
    let limits = Limits { rma_event: true, ..LIMITS };
    let (_shared, mut nodes) = nodes(2, Script::default(), limits);
    let (mut b, mut a) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let [reads, writes] = [Flags::REMOTE_READ, Flags::REMOTE_WRITE].map(|way| {
        let value = Arc::new(CounterValue::new(false, None));
        b.engine.core.report.bind_counter(&value, way).unwrap();
        value
    });
    let mut memory = [0u64; 1];
    b.expose(KEY, bytes_of(&mut memory), Flags::REMOTE_READ | Flags::REMOTE_WRITE);
    let (mut operand, mut result) = (1u64.to_ne_bytes(), [0u8; 8]);
    a.fetch_add(meta(1, 1), &[iov(&mut operand)], &[iov(&mut result)], &[at(0, 8)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!((reads.success(), writes.success()), (1, 0));
    assert_eq!(memory, [1]);
}

/// Neither the request nor the answer has to fit a packet of its direction.
#[test]
fn atomics_larger_than_a_packet_go_in_parts() {
    const WORDS: usize = 512;
    let small = Script { max_payload: (512, 600), ..Script::default() };
    let scripts = [
        small,
        Script { refuse_every: 2, ..small },
        Script { room: 1, ..small },
        // Room for the request only after growing, and for the answer never.
        Script { max_payload: (512, 5000), refuse_every: 3, ..small },
    ];
    for script in scripts {
        for (kind, op) in [(Base, SUM), (Fetch, SUM), (Fetch, ATOMIC_READ), (Compare, CSWAP)] {
            let (_shared, mut a, mut b) = pair(script);
            let mut memory: Vec<u64> = (0..WORDS as u64 + 8).collect();
            let before = memory.clone();
            b.expose(KEY, bytes_of(&mut memory), Flags::REMOTE_READ | Flags::REMOTE_WRITE);
            let mut operand: Vec<u64> = (0..WORDS as u64).map(|n| n * n + 7).collect();
            // Every third word is not what is compared with.
            let mut compare: Vec<u64> =
                (0..WORDS).map(|n| before[place(n)] + u64::from(n % 3 == 2)).collect();
            let mut result = vec![0u64; WORDS];
            let values = |used: bool, words: &mut [u64]| {
                if used { vec![iov(bytes_of(words))] } else { vec![] }
            };
            let operands = values(op != ATOMIC_READ, &mut operand);
            let comparands = values(kind == Compare, &mut compare);
            let (head, tail) = result.split_at_mut(100);
            let results = [iov(bytes_of(head)), iov(bytes_of(tail))];
            let results = if kind == Base { &[][..] } else { &results };
            // The second half of the memory first, but for a gap between them.
            let half = WORDS / 2 * 8;
            let remote = [at(half as u64 + 64, half), at(0, half)];
            let with = AtomicOp {
                meta: meta(1, 1),
                kind,
                datatype: UINT64,
                op,
                operand: &operands,
                compare: &comparands,
                result: results,
                remote: &remote,
            };
            a.atomic(with).unwrap();
            // What comes behind it does not overtake it.
            let (mut one, mut old) = (1u64.to_ne_bytes(), [0u8; 8]);
            a.fetch_add(meta(1, 2), &[iov(&mut one)], &[iov(&mut old)], &[at(0, 8)]).unwrap();
            settle(&mut [&mut a, &mut b]);
            let order: Vec<_> = a.sent().iter().map(|done| done.ok().context).collect();
            assert_eq!(order, [1, 2], "{kind:?} {op}");
            let mut wanted = before.clone();
            for n in 0..WORDS {
                let word = &mut wanted[place(n)];
                match op {
                    SUM => *word += operand[n],
                    CSWAP if *word == compare[n] => *word = operand[n],
                    _ => {}
                }
                assert!(kind == Base || result[n] == before[place(n)], "{kind:?} {op} {n}");
            }
            assert_eq!(u64::from_ne_bytes(old), wanted[0]);
            wanted[0] += 1;
            assert_eq!(memory, wanted, "{kind:?} {op}");
            assert_eq!(b.engine.stats().served, 2);
            idle(&[&a, &b]);
        }
    }
    /// The word of the memory that element `n` is.
    fn place(n: usize) -> usize {
        if n < WORDS / 2 { n + WORDS / 2 + 8 } else { n - WORDS / 2 }
    }
}

#[test]
fn an_atomic_in_parts_is_refused_as_a_whole() {
    let script = Script { max_payload: (512, 512), ..Script::default() };
    for room in [1, usize::MAX] {
        let (_shared, mut a, mut b) = pair(Script { room, ..script });
        let mut memory = vec![3u64; 512];
        b.expose(KEY, bytes_of(&mut memory), Flags::REMOTE_READ | Flags::REMOTE_WRITE);
        let (mut operand, mut result) = (vec![1u8; 4096], vec![0u8; 4096]);
        let remote = [at(0, 2048), RmaIov { key: KEY + 1, ..at(0, 2048) }];
        let flags = Flags::FENCE | Flags::COMPLETION;
        let fenced = TxMeta { flags, ..meta(1, 1) };
        a.fetch_add(fenced, &[iov(&mut operand)], &[iov(&mut result)], &remote).unwrap();
        // It has begun, so it is too late to take it back.
        a.engine.cancel(1);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(one_error(&a), Errno::ENOKEY);
        assert!(memory.iter().all(|word| *word == 3), "refused without effect");
        idle(&[&a, &b]);
    }
}

fn bytes_of(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: plain words as bytes.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

#[test]
fn a_cut_in_the_middle_of_a_transfer_ends_it() {
    for kind in [RmaKind::Read, RmaKind::Write] {
        for packets in 0..6 {
            let script =
                Script { copy_every: 0, max_payload: (1024, 1024), delayed: true, ..WAYS[0] };
            let (shared, mut two) = nodes(2, script, LIMITS);
            let [a, b] = &mut two[..] else { unreachable!() };
            let (mut memory, mut local) = (pattern(1, 10_000), vec![0; 10_000]);
            b.expose(KEY, &mut memory, Flags::REMOTE_READ | Flags::REMOTE_WRITE);
            a.rma(meta(1, 1), kind, &[iov(&mut local)], &[at(0, 10_000)]).unwrap();
            for _ in 0..packets {
                shared.net().deliver(0, 1, 1);
                shared.net().deliver(1, 0, 1);
                settle(&mut [a, b]);
            }
            shared.net().cut(0, 1, Errno::ECONNRESET);
            settle(&mut [a, b]);
            assert_eq!(one_error(a), Errno::ECONNRESET);
            idle(&[a, b]);
        }
    }
}
