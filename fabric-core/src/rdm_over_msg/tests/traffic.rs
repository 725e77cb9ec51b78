//! Messages, memory and atomic operations between two endpoints.

use super::{
    super::Limits,
    node::{LIMITS, iov, meta, pair, pair_with, pattern, settle, want},
    world::Script,
};
use crate::{
    Errno,
    atomic::{atomic_op, datatype},
    flags::Flags,
    op::{AtomicKind, RecvOp, RmaIov, RmaKind, TxMeta},
};

/// Of a message of one packet, copied or not, of segments, and of an announced one.
const SIZES: [usize; 9] = [0, 1, 200, 201, 1024, 1025, 5000, 5001, 100_000];

/// Read by the receiver, and written by the sender.
const WAYS: [Limits; 2] = [LIMITS, Limits { written: true, ..LIMITS }];

#[test]
fn every_size_meets_its_receive() {
    for limits in WAYS {
        for size in SIZES {
            let (_, mut a, mut b) = pair_with(Script::default(), limits);
            let (mut from, mut to) = (pattern(1, size), vec![0; size]);
            b.trecv(7, 5, &mut to);
            let flags = Flags::COMPLETION | Flags::REMOTE_CQ_DATA;
            let meta = TxMeta { data: 99, flags, ..meta(1, 3) };
            a.send(meta, Some(5), &[iov(&mut from)]).unwrap();
            settle(&mut [&mut a, &mut b]);
            let (sent, got) = (a.sent(), b.received());
            assert_eq!((sent.len(), got.len()), (1, 1), "{size} bytes");
            assert_eq!(sent[0].ok().context, 3);
            let entry = got[0].ok();
            assert_eq!((entry.context, entry.len, entry.tag), (7, size, 5));
            assert_eq!((entry.data, entry.src), (99, 0));
            assert!(to == from, "{size} bytes");
            a.assert_idle(0);
            b.assert_idle(0);
        }
    }
}

#[test]
fn every_size_waits_for_its_receive() {
    for limits in WAYS {
        for size in SIZES {
            let (_, mut a, mut b) = pair_with(Script::default(), limits);
            let (mut from, mut to) = (pattern(1, size), vec![0; size + 1]);
            a.send(meta(1, 3), None, &[iov(&mut from)]).unwrap();
            settle(&mut [&mut a, &mut b]);
            let pieces = [iov(&mut to)];
            b.recv(RecvOp { iov: &pieces, tagged: false, ..want(7, 0) }).unwrap();
            settle(&mut [&mut a, &mut b]);
            assert_eq!(b.received()[0].ok().len, size);
            assert!(to[..size] == from[..], "{size} bytes");
            assert_eq!(a.sent().len(), 1);
            a.assert_idle(0);
            b.assert_idle(0);
        }
    }
}

#[test]
fn what_does_not_fit_is_cut_off() {
    for limits in WAYS {
        for size in SIZES.into_iter().filter(|size| *size > 1) {
            for room in [0, size / 2] {
                let (_, mut a, mut b) = pair_with(Script::default(), limits);
                let (mut from, mut to) = (pattern(1, size), vec![0; room]);
                b.trecv(7, 5, &mut to);
                a.send(meta(1, 3), Some(5), &[iov(&mut from)]).unwrap();
                settle(&mut [&mut a, &mut b]);
                let got = b.received();
                let error = got[0].err();
                assert_eq!((error.err, error.entry.len), (Errno::ETRUNC, room));
                assert_eq!(error.olen, size - room);
                assert!(to == from[..room]);
                a.sent()[0].ok();
                a.assert_idle(0);
                b.assert_idle(0);
            }
        }
    }
}

/// A receive may be posted when half of a message's segments are here.
#[test]
fn a_receive_in_the_middle_of_segments() {
    for seed in 1..20 {
        let script = Script { refuse: 2, late: 2, told: seed % 2, seed, ..Script::default() };
        let (_, mut a, mut b) = pair(script);
        let (mut from, mut to) = (pattern(1, 5000), vec![0; 5000]);
        a.send(meta(1, 3), Some(5), &[iov(&mut from)]).unwrap();
        for _ in 0..seed {
            a.engine.progress();
            b.engine.progress();
        }
        b.trecv(7, 5, &mut to);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.received()[0].ok().len, 5000);
        assert!(to == from);
        a.assert_idle(0);
        b.assert_idle(0);
    }
}

#[test]
fn unwanted_messages_are_let_go() {
    for size in SIZES {
        let (_, mut a, mut b) = pair(Script::default());
        let mut from = pattern(1, size);
        a.send(meta(1, 3), Some(5), &[iov(&mut from)]).unwrap();
        settle(&mut [&mut a, &mut b]);
        let flags = Flags::PEEK | Flags::DISCARD | Flags::COMPLETION;
        b.recv(RecvOp { flags, ..want(8, 5) }).unwrap();
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.received()[0].ok().len, size);
        a.sent()[0].ok();
        a.assert_idle(0);
        b.assert_idle(0);
    }
}

#[test]
fn memory_in_more_ranges_than_an_operation_takes() {
    let (_, mut a, mut b) = pair(Script { refuse: 3, ..Script::default() });
    let mut memory = vec![0; 4000];
    let _region = b.expose(9, &mut memory);
    let mut from = pattern(2, 1000);
    let range = |addr: u64, len| RmaIov { addr, len, key: 9 };
    let ranges = [range(3000, 300), range(0, 200), range(1000, 400), range(2000, 100)];
    let flags = Flags::COMPLETION | Flags::REMOTE_CQ_DATA;
    let write = TxMeta { data: 77, flags, ..meta(1, 1) };
    a.rma(write, RmaKind::Write, &[iov(&mut from)], &ranges).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.sent()[0].ok().flags, (Flags::RMA | Flags::WRITE).bits());
    let told = b.received();
    assert_eq!((told.len(), told[0].ok().data), (1, 77));
    assert!(memory[3000..3300] == from[..300] && memory[2000..2100] == from[900..]);
    let mut back = vec![0; 1000];
    a.rma(meta(1, 2), RmaKind::Read, &[iov(&mut back)], &ranges).unwrap();
    settle(&mut [&mut a, &mut b]);
    a.sent()[0].ok();
    assert!(back == from);
    a.assert_idle(0);
    b.assert_idle(1);
}

/// What is offered is what is taken.
#[test]
fn memory_in_more_ranges_than_are_offered() {
    let (_, mut a, _b) = pair_with(Script::default(), Limits { ranges: 1, ..LIMITS });
    let mut from = pattern(2, 20);
    let range = RmaIov { addr: 0, len: 10, key: 9 };
    for kind in [RmaKind::Read, RmaKind::Write] {
        let refused = a.rma(meta(1, 1), kind, &[iov(&mut from)], &[range, range]);
        assert_eq!(refused.unwrap_err(), Errno::EINVAL);
    }
    a.assert_idle(0);
}

#[test]
fn atomic_operations() {
    let (_, mut a, mut b) = pair(Script { refuse: 3, ..Script::default() });
    let mut memory = 40u64.to_ne_bytes();
    let region = b.expose(9, &mut memory);
    let (kind, wide) = (AtomicKind::Fetch, datatype::UINT64);
    let mut old = [0; 8];
    let add = |a: &mut super::node::Node, context, old: &mut [u8]| {
        let mut two = 2u64.to_ne_bytes();
        let what = (kind, wide, atomic_op::SUM);
        a.atomic(meta(1, context), what, [&mut two, &mut [], old], 9).unwrap();
    };
    add(&mut a, 1, &mut old);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.sent()[0].ok().flags, (Flags::ATOMIC | Flags::READ).bits());
    assert_eq!((u64::from_ne_bytes(old), u64::from_ne_bytes(memory)), (40, 42));

    let (mut new, mut expected) = (7u64.to_ne_bytes(), 42u64.to_ne_bytes());
    let swap = (AtomicKind::Compare, wide, atomic_op::CSWAP);
    a.atomic(meta(1, 2), swap, [&mut new, &mut expected, &mut old], 9).unwrap();
    let read = (kind, wide, atomic_op::ATOMIC_READ);
    let mut seen = [0; 8];
    a.atomic(meta(1, 3), read, [&mut [], &mut [], &mut seen], 9).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.sent().len(), 2);
    assert_eq!((u64::from_ne_bytes(old), u64::from_ne_bytes(seen)), (42, 7));

    // A refusal is an answer like others.
    b.regions.close(&region).unwrap();
    add(&mut a, 4, &mut old);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.sent()[0].err().err, Errno::ENOKEY);
    a.assert_idle(0);
    b.assert_idle(0);
}

#[test]
fn a_cancelled_send_does_not_begin() {
    let (_, mut a, mut b) = pair(Script::default());
    let (mut first, mut second) = (pattern(1, 300), pattern(2, 300));
    a.send(meta(1, 1), Some(1), &[iov(&mut first)]).unwrap();
    a.send(meta(1, 2), Some(1), &[iov(&mut second)]).unwrap();
    a.engine.cancel(1);
    settle(&mut [&mut a, &mut b]);
    let sent = a.sent();
    assert_eq!((sent[0].context(), sent[0].err().err), (1, Errno::ECANCELED));
    assert_eq!(sent[1].ok().context, 2);
    let mut to = vec![0; 300];
    b.trecv(3, 1, &mut to);
    assert!(to == second);
    b.received();
    a.assert_idle(0);
    b.assert_idle(0);
}

/// The fenced message leaves when the receiver of the announced one in front of it has read that.
#[test]
fn a_fence_waits_for_what_is_before_it() {
    let (_, mut a, mut b) = pair(Script::default());
    let (mut large, mut small) = (pattern(1, 9000), pattern(2, 10));
    a.send(meta(1, 1), Some(1), &[iov(&mut large)]).unwrap();
    let flags = Flags::COMPLETION | Flags::FENCE;
    a.send(TxMeta { flags, ..meta(1, 2) }, Some(2), &[iov(&mut small)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.sent().len(), b.engine.core.inbox.waiting_len()), (0, 1));
    let (mut to, mut second) = (vec![0; 9000], vec![0; 10]);
    b.trecv(3, 1, &mut to);
    b.trecv(4, 2, &mut second);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.sent().iter().map(|done| done.ok().context).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(b.received().len(), 2);
    a.assert_idle(0);
    b.assert_idle(0);
}

#[test]
fn messages_to_oneself() {
    let (shared, mut a, _b) = pair(Script::default());
    for size in SIZES {
        let (mut from, mut to) = (pattern(1, size), vec![0; size]);
        a.trecv(7, 5, &mut to);
        a.send(meta(0, 3), Some(5), &[iov(&mut from)]).unwrap();
        settle(&mut [&mut a]);
        assert_eq!(a.received()[0].ok().src, 0);
        assert!(to == from, "{size} bytes");
        assert_eq!(a.sent().len(), 1);
    }
    assert_eq!(shared.links(), (1, 1));
    a.assert_idle(0);
}

/// A flood without receives is stopped, and goes on when receives come.
#[test]
fn a_flood_waits_with_its_sender() {
    const COUNT: usize = 40_000;
    let (shared, mut a, mut b) = pair(Script::default());
    let mut from = pattern(1, 1000);
    let mut posted = 0;
    let mut to = vec![0; 1000];
    while posted < COUNT {
        match a.send(meta(1, posted), Some(5), &[iov(&mut from)]) {
            Ok(()) => posted += 1,
            Err(reason) => assert_eq!(reason, Errno::EAGAIN),
        }
        a.engine.progress();
        b.engine.progress();
    }
    settle(&mut [&mut a, &mut b]);
    assert!(b.engine.core.kept < 20 << 20, "{} bytes are kept", b.engine.core.kept);
    assert_eq!(b.engine.paused.len(), 1);
    let before = shared.moved();
    let mut got = 0;
    for n in 0..COUNT {
        b.trecv(n, 5, &mut to);
        b.engine.progress();
        a.engine.progress();
        got += b.received().iter().map(|done| done.ok().len).filter(|len| *len == 1000).count();
    }
    settle(&mut [&mut a, &mut b]);
    got += b.received().len();
    assert_eq!(got, COUNT);
    assert!(shared.moved() > before);
    assert_eq!(a.sent().len(), COUNT);
    a.assert_idle(0);
    b.assert_idle(0);
}

/// What the transport has taken in part may still be lost, and is not told as done before.
#[test]
fn half_a_message_ends_with_its_connection() {
    for silent in [false, true] {
        let (shared, mut a, mut b) = pair(Script { parts: 1, ..Script::default() });
        let mut bytes = pattern(1, 10);
        let mut places = [[0; 10]; 2];
        places.iter_mut().for_each(|to| b.trecv(7, 5, to));
        a.send(meta(1, 1), Some(5), &[iov(&mut bytes)]).unwrap();
        settle(&mut [&mut a, &mut b]);
        assert_eq!((a.sent().len(), b.received().len()), (1, 1));
        let flags = if silent { Flags::INJECT } else { Flags::COMPLETION };
        let meta = TxMeta { silent, flags, ..meta(1, 2) };
        for cut in [false, true] {
            a.send(meta, Some(5), &[iov(&mut bytes)]).unwrap();
            a.engine.progress();
            assert!(a.sent().is_empty());
            if cut {
                shared.cut();
            }
            settle(&mut [&mut a, &mut b]);
            let sent = a.sent();
            assert_eq!(sent.len(), usize::from(cut || !silent));
            if cut {
                let error = sent[0].err();
                assert_eq!((error.entry.context, error.err), (2, Errno::ECONNRESET));
            }
        }
        assert_eq!(b.received().len(), 1);
        a.assert_idle(0);
    }
}

/// No packet asks for it.
#[test]
fn nobody_learns_that_a_receive_was_found() {
    let (_, mut a, mut b) = pair(Script::default());
    let mut bytes = pattern(1, 10);
    let flags = Flags::COMPLETION | Flags::MATCH_COMPLETE;
    for _ in 0..2 {
        let refused = a.send(TxMeta { flags, ..meta(1, 1) }, Some(5), &[iov(&mut bytes)]);
        assert_eq!(refused, Err(Errno::EOPNOTSUPP));
        a.send(meta(1, 1), Some(5), &[iov(&mut bytes)]).unwrap();
        settle(&mut [&mut a, &mut b]);
    }
}
