//! Engines driven against each other over a scripted transport.

mod forgetting;
mod hostile;
mod node;
mod receiving;
mod remote;
mod sleeping;
mod storm;
mod wire;

use node::{LIMITS, Node, idle, iov, meta, nodes, pair, settle, want};
use wire::Script;
pub(crate) use wire::TestWire;

use crate::{
    Errno,
    engine::Limits,
    flags::Flags,
    op::{RecvOp, RmaIov, RmaKind, TxMeta},
    wire::Op,
};

/// Bytes that differ from place to place.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|n| (n.wrapping_mul(31) ^ seed.wrapping_mul(151) ^ (n >> 8)) as u8)
        .collect()
}

/// Two ways for a large payload: copied by the other side, or sent in segments.
const WAYS: [Script; 2] = [
    Script {
        refuse_every: 0,
        room: usize::MAX,
        max_payload: (2048, 2048),
        copy_every: 1,
        delayed: false,
    },
    Script {
        refuse_every: 0,
        room: usize::MAX,
        max_payload: (2048, 2048),
        copy_every: 0,
        delayed: false,
    },
];

#[test]
fn a_small_message_is_one_packet() {
    let (shared, mut a, mut b) = pair(Script::default());
    let (mut from, mut to) = (pattern(1, 100), vec![0; 128]);
    b.trecv(7, 5, &mut to);
    let data = TxMeta { data: 99, flags: Flags::REMOTE_CQ_DATA, ..meta(1, 3) };
    a.send(data, Some(5), &[iov(&mut from)]).unwrap();
    let sent = a.sent();
    assert_eq!(sent[0].ok().context, 3);
    assert_eq!(sent[0].ok().flags, (Flags::SEND | Flags::TAGGED).bits());
    settle(&mut [&mut b]);
    let got = b.received();
    let entry = got[0].ok();
    let flags = Flags::RECV | Flags::TAGGED | Flags::REMOTE_CQ_DATA;
    assert_eq!((entry.context, entry.len, entry.data, entry.tag, entry.src), (7, 100, 99, 5, 0));
    assert_eq!(entry.flags, flags.bits());
    assert_eq!(to[..100], from);
    assert_eq!((got.len(), sent.len()), (1, 1));
    assert_eq!((a.engine.stats().eager, b.engine.stats().received), (1, 1));
    assert_eq!(shared.net().emitted.get(&(Op::Message as u8)), Some(&1));
    idle(&[&a, &b]);
}

#[test]
fn a_large_message_is_copied_or_sent_in_segments() {
    for script in WAYS {
        for (early, computes) in [(false, false), (true, false), (false, true), (true, true)] {
            let (shared, mut a, mut b) = pair(script);
            let (mut from, mut to) = (pattern(1, 10_000), vec![0; 10_000]);
            shared.net().memory.extend([iov(&mut from), iov(&mut to)]);
            if early {
                b.trecv(7, 5, &mut to);
            }
            a.tsend(1, 3, 5, &mut from);
            assert_eq!(a.sent(), []);
            settle(&mut [&mut b]);
            if !computes {
                settle(&mut [&mut a, &mut b]);
            }
            if !early {
                assert_eq!(b.engine.stats().unexpected, 1);
                b.trecv(7, 5, &mut to);
            }
            if computes {
                settle(&mut [&mut b]);
            }
            settle(&mut [&mut a, &mut b]);
            let (sent, got) = (a.sent(), b.received());
            assert_eq!((sent.len(), got.len()), (1, 1));
            assert_eq!((sent[0].ok().context, got[0].ok().len), (3, 10_000));
            assert_eq!(to, from);
            assert_eq!(a.engine.stats().rendezvous, 1);
            // With `early` the receive was waiting for the sender while it was away.
            let copied = script.copy_every != 0 && (computes || early);
            assert_eq!(a.engine.stats().segments, if copied { 0 } else { 5 });
            assert_eq!(b.engine.stats().copies, u64::from(copied));
            idle(&[&a, &b]);
        }
    }
}

#[test]
fn delivery_complete_waits_for_the_receive() {
    for len in [10, 10_000] {
        let (shared, mut a, mut b) = pair(Script::default());
        let (mut from, mut to) = (pattern(1, len), vec![0; len]);
        shared.net().memory.push(iov(&mut from));
        let acknowledged = TxMeta { flags: Flags::DELIVERY_COMPLETE, ..meta(1, 3) };
        a.send(acknowledged, Some(5), &[iov(&mut from)]).unwrap();
        settle(&mut [&mut a, &mut b]);
        assert_eq!(a.sent(), []);
        b.trecv(7, 5, &mut to);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(a.sent()[0].ok().context, 3);
        assert_eq!(to, from);
        idle(&[&a, &b]);
    }
}

#[test]
fn refused_emits_keep_order_and_copies() {
    for inject in [false, true] {
        let script = Script { refuse_every: 2, room: 2, ..Script::default() };
        let (_shared, mut a, mut b) = pair(script);
        let mut kept: Vec<Vec<u8>> = (0..32).map(|n| vec![n; 16]).collect();
        for (n, bytes) in kept.iter_mut().enumerate() {
            let flags = if inject { Flags::INJECT } else { Flags::empty() };
            let meta = TxMeta { flags, ..meta(1, n) };
            a.send(meta, Some(n as u64), &[iov(bytes)]).unwrap();
            if inject {
                bytes.fill(0xff);
            }
        }
        assert!(a.engine.stats().queued > 0);
        let mut to = vec![[0u8; 16]; 32];
        for (n, bytes) in to.iter_mut().enumerate() {
            b.recv(RecvOp { iov: &[iov(bytes)], ignore: u64::MAX, ..want(n, 0) }).unwrap();
        }
        settle(&mut [&mut a, &mut b]);
        let order: Vec<_> = b.received().iter().map(|done| done.ok().tag).collect();
        assert_eq!(order, (0..32).collect::<Vec<u64>>());
        let order: Vec<_> = a.sent().iter().map(|done| done.ok().context).collect();
        assert_eq!(order, (0..32).collect::<Vec<usize>>());
        assert!(to.iter().enumerate().all(|(n, bytes)| *bytes == [n as u8; 16]));
        idle(&[&a, &b]);
    }
}

#[test]
fn too_many_operations_are_refused_without_effect() {
    let (_shared, mut a, mut b) = pair(Script { room: 1, ..Script::default() });
    let mut from = vec![1u8; 8];
    let mut accepted = 0;
    let refused = loop {
        match a.send(meta(1, accepted), Some(1), &[iov(&mut from)]) {
            Ok(()) => accepted += 1,
            Err(reason) => break reason,
        }
    };
    assert_eq!((refused, accepted), (Errno::EAGAIN, LIMITS.outstanding + 1));
    let mut to = vec![0u8; 8];
    for n in 0..accepted {
        b.trecv(n, 1, &mut to);
    }
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.sent().len(), b.received().len()), (accepted, accepted));
    idle(&[&a, &b]);
}

#[test]
fn operations_that_a_peer_knows_of_do_not_count_as_waiting() {
    let (_shared, mut a, mut b) = pair(Script::default());
    let mut from = vec![1u8; 8];
    let count = 3 * LIMITS.outstanding;
    for n in 0..count {
        let meta = TxMeta { flags: Flags::DELIVERY_COMPLETE, ..meta(1, n) };
        a.send(meta, Some(1), &[iov(&mut from)]).unwrap();
    }
    settle(&mut [&mut a, &mut b]);
    assert!(a.sent().is_empty(), "nothing has been received");
    let mut to = vec![0u8; 8];
    for n in 0..count {
        b.trecv(n, 1, &mut to);
    }
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.sent().len(), b.received().len()), (count, count));
    a.assert_idle();
    b.assert_idle();
}

#[test]
fn a_fenced_send_does_not_overtake() {
    for (fenced, goes, queued) in [(false, 1, false), (true, 0, false), (true, 0, true)] {
        let room = if queued { 0 } else { usize::MAX };
        let (shared, mut a, mut b) = pair(Script { room, ..Script::default() });
        let mut memory = vec![0u8; 64];
        b.expose(9, &mut memory, Flags::REMOTE_WRITE);
        let mut bytes = [7u8; 8];
        let remote = RmaIov { addr: 0, len: 8, key: 9 };
        a.rma(meta(1, 1), RmaKind::Write, &[iov(&mut bytes)], &[remote]).unwrap();
        let flags = if fenced { Flags::FENCE } else { Flags::empty() };
        a.send(TxMeta { flags, ..meta(1, 2) }, Some(5), &[iov(&mut bytes)]).unwrap();
        shared.net().script.room = usize::MAX;
        a.engine.progress();
        let messages = shared.net().emitted.get(&(Op::Message as u8)).copied().unwrap_or(0);
        assert_eq!(messages, goes, "the write has not been answered");
        let mut to = vec![0u8; 8];
        b.trecv(7, 5, &mut to);
        settle(&mut [&mut a, &mut b]);
        assert_eq!((a.sent().len(), b.received().len()), (2, 1));
        idle(&[&a, &b]);
    }
}

#[test]
fn a_pressed_sender_keeps_its_payloads() {
    let (shared, mut a, mut b) = pair(Script::default());
    let mut from: Vec<Vec<u8>> = (0..20).map(|n| pattern(n, 1000)).collect();
    for (n, bytes) in from.iter_mut().enumerate() {
        shared.net().memory.push(iov(bytes));
        a.tsend(1, n, 5, bytes);
        settle(&mut [&mut b]);
    }
    assert_eq!(a.engine.stats().eager, 9, "8192 bytes may wait");
    assert_eq!(a.engine.stats().rendezvous, 11);
    let mut to = vec![vec![0u8; 1000]; 20];
    for (n, bytes) in to.iter_mut().enumerate() {
        b.trecv(n, 5, bytes);
    }
    settle(&mut [&mut a, &mut b]);
    assert_eq!(to, from);
    let mut sent: Vec<_> = a.sent().iter().map(|done| done.ok().context).collect();
    sent.sort_unstable();
    assert_eq!(sent, (0..20).collect::<Vec<_>>());
    // What follows travels in one packet again, as soon as the other side has noticed.
    a.tsend(1, 20, 5, &mut from[0]);
    b.trecv(20, 5, &mut to[0]);
    settle(&mut [&mut a, &mut b]);
    a.tsend(1, 21, 5, &mut from[1]);
    assert_eq!(a.engine.stats().eager, 11);
    b.trecv(21, 5, &mut to[1]);
    settle(&mut [&mut a, &mut b]);
    idle(&[&a, &b]);
}

#[test]
fn cancelled_operations_say_so_once() {
    let (_shared, mut a, mut b) = pair(Script { room: 0, ..Script::default() });
    let mut bytes = [1u8; 8];
    a.tsend(1, 3, 5, &mut bytes);
    a.trecv(4, 5, &mut [0; 8]);
    for context in [3, 4, 3, 4, 5] {
        a.engine.cancel(context);
    }
    let (sent, got) = (a.sent(), a.received());
    assert_eq!((sent.len(), got.len()), (1, 1));
    assert_eq!((sent[0].err().err, sent[0].entry().context), (Errno::ECANCELED, 3));
    assert_eq!((got[0].err().err, got[0].entry().context), (Errno::ECANCELED, 4));
    settle(&mut [&mut a, &mut b]);
    idle(&[&a, &b]);
}

#[test]
fn a_peer_that_ends_completes_everything() {
    let script = Script { copy_every: 0, max_payload: (2048, 2048), ..Script::default() };
    let (shared, mut nodes) = nodes(3, script, LIMITS);
    let [a, b, _] = &mut nodes[..] else { unreachable!() };
    let mut large = pattern(1, 10_000);
    let mut to = vec![0u8; 10_000];
    a.tsend(1, 1, 5, &mut large);
    b.trecv(2, 5, &mut to);
    // The receiver asks for segments, and the sender is cut off.
    b.engine.progress();
    let directed = RecvOp { src: 0, ..want(3, 6) };
    b.recv(directed).unwrap();
    b.trecv(4, 6, &mut []);
    shared.net().cut(0, 1, Errno::ECONNRESET);
    settle(&mut [a, b]);
    let sent = a.sent();
    assert_eq!((sent.len(), sent[0].err().err), (1, Errno::ECONNRESET));
    assert_eq!(*sent[0].err().err_data, wire::address(1));
    let got = b.received();
    let contexts: Vec<_> = got.iter().map(|d| (d.entry().context, d.err().err)).collect();
    assert_eq!(contexts, [(2, Errno::ECONNRESET), (3, Errno::ECONNRESET)]);
    // Anyone else may still send.
    let [_, b, c] = &mut nodes[..] else { unreachable!() };
    c.tsend(1, 9, 6, &mut []);
    settle(&mut [b, c]);
    assert_eq!(b.received()[0].ok().context, 4);
    nodes.iter().for_each(Node::assert_idle);
}

#[test]
fn what_is_posted_to_a_peer_that_is_not_there_names_it() {
    let (shared, mut a, mut b) = pair(Script::default());
    shared.net().cut(0, 1, Errno::ECONNRESET);
    let mut bytes = [1u8; 8];
    a.tsend(1, 1, 5, &mut bytes);
    a.tsend(1, 2, 5, &mut vec![0; 1 << 20]);
    let sent = a.sent();
    assert_eq!(sent.len(), 2);
    for done in sent {
        assert_eq!(done.err().err, Errno::ECONNRESET);
        assert_eq!(*done.err().err_data, wire::address(1));
    }
    settle(&mut [&mut a, &mut b]);
    idle(&[&a, &b]);
}

/// Where memory is not lent, its owner alone copies, however large the message is.
#[test]
fn memory_that_is_not_lent_is_written_by_its_owner_alone() {
    for lends in [true, false] {
        let (shared, mut both) = nodes(2, WAYS[0], Limits { lends, ..LIMITS });
        let [a, b] = &mut both[..] else { panic!("two nodes") };
        let (mut from, mut to) = (pattern(1, 50_000), vec![0; 50_000]);
        shared.net().memory.extend([iov(&mut from), iov(&mut to)]);
        b.trecv(7, 5, &mut to);
        a.tsend(1, 3, 5, &mut from);
        // The sender computes, and is back before all is copied.
        for _ in 0..LIMITS.patience + 8 {
            b.engine.progress();
        }
        settle(&mut [&mut *a, &mut *b]);
        assert_eq!((a.sent().len(), b.received().len()), (1, 1));
        assert_eq!(to, from);
        let emitted = |op: Op| shared.net().emitted.contains_key(&(op as u8));
        assert_eq!((emitted(Op::Invite), emitted(Op::Share)), (lends, lends));
        idle(&[&*a, &*b]);
    }
}
