//! What receives may ask for besides a message.

use super::{
    WAYS,
    node::{LIMITS, Node, idle, iov, meta, nodes, pair, settle, want},
    pattern,
    wire::Script,
};
use crate::{Errno, flags::Flags, op::RecvOp};

#[test]
fn too_long_messages_are_cut() {
    for script in WAYS {
        for (len, room) in [(100, 60), (100, 0), (10_000, 5000), (10_000, 1)] {
            for early in [true, false] {
                let (shared, mut a, mut b) = pair(script);
                let (mut from, mut to) = (pattern(1, len), vec![0; len]);
                shared.net().memory.push(iov(&mut from));
                if early {
                    b.trecv(7, 5, &mut to[..room]);
                }
                a.tsend(1, 3, 5, &mut from);
                settle(&mut [&mut a, &mut b]);
                if !early {
                    b.trecv(7, 5, &mut to[..room]);
                }
                settle(&mut [&mut a, &mut b]);
                let got = b.received();
                let error = got[0].err();
                assert_eq!((error.err, error.olen), (Errno::ETRUNC, len - room));
                assert_eq!((error.entry.len, error.entry.context), (room, 7));
                assert_eq!(to[..room], from[..room]);
                assert!(to[room..].iter().all(|byte| *byte == 0));
                assert_eq!(a.sent()[0].ok().context, 3);
                idle(&[&a, &b]);
            }
        }
    }
}

#[test]
fn pieces_are_filled_in_order() {
    for script in WAYS {
        for len in [100, 10_000] {
            let (shared, mut a, mut b) = pair(script);
            let (mut from, mut to) = (pattern(1, len), vec![0; len]);
            shared.net().memory.push(iov(&mut from));
            let (x, y) = from.split_at_mut(33);
            a.send(meta(1, 1), Some(5), &[iov(x), iov(&mut []), iov(y)]).unwrap();
            let (x, y) = to.split_at_mut(10);
            let (y, z) = y.split_at_mut(50);
            b.recv(RecvOp { iov: &[iov(x), iov(y), iov(z)], ..want(2, 5) }).unwrap();
            settle(&mut [&mut a, &mut b]);
            assert_eq!(b.received()[0].ok().len, len);
            assert_eq!(to, from);
            idle(&[&a, &b]);
        }
    }
}

#[test]
fn a_multi_receive_buffer_is_released_once_and_last() {
    for script in WAYS {
        let (shared, mut a, mut b) = pair(script);
        let mut room = vec![0u8; 4000];
        let multi = RecvOp { flags: Flags::MULTI_RECV | Flags::COMPLETION, ..want(7, 5) };
        let base = room.as_ptr() as usize;
        let mut from = [pattern(1, 500), pattern(2, 3000), pattern(3, 480), pattern(4, 10)];
        let piece = iov(&mut room);
        b.recv(RecvOp { iov: &[piece], ..multi }).unwrap();
        for (n, bytes) in from.iter_mut().enumerate() {
            shared.net().memory.push(iov(bytes));
            a.tsend(1, n, 5, bytes);
        }
        settle(&mut [&mut a, &mut b]);
        let got = b.received();
        let released: Vec<_> =
            got.iter().map(|d| d.ok().flags & Flags::MULTI_RECV.bits() != 0).collect();
        assert_eq!(released, [false, false, true], "the last message did not fit any more");
        for done in &got {
            let entry = done.ok();
            let at = entry.buf - base;
            assert!(from.iter().any(|bytes| *bytes == room[at..at + entry.len]));
            assert_eq!(entry.context, 7);
        }
        b.trecv(8, 5, &mut [0; 16]);
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.received()[0].ok().len, 10);
        idle(&[&a, &b]);
    }
}

#[test]
fn a_cancelled_multi_receive_buffer_waits_for_its_messages() {
    let script = Script { copy_every: 0, max_payload: (2048, 2048), ..Script::default() };
    let (_shared, mut a, mut b) = pair(script);
    let mut room = vec![0u8; 8000];
    let multi = RecvOp { flags: Flags::MULTI_RECV | Flags::COMPLETION, ..want(7, 5) };
    b.recv(RecvOp { iov: &[iov(&mut room)], ..multi }).unwrap();
    let mut from = pattern(1, 3000);
    a.tsend(1, 1, 5, &mut from);
    b.engine.progress();
    b.engine.cancel(7);
    b.engine.cancel(7);
    assert_eq!(b.received(), []);
    settle(&mut [&mut a, &mut b]);
    let got = b.received();
    assert_eq!(got.len(), 2);
    assert_eq!((got[0].ok().len, got[0].ok().flags & Flags::MULTI_RECV.bits()), (3000, 0));
    assert_eq!(got[1].err().err, Errno::ECANCELED);
    assert_ne!(got[1].entry().flags & Flags::MULTI_RECV.bits(), 0);
    assert_eq!(room[..3000], from);
    idle(&[&a, &b]);
}

#[test]
fn peeks_claims_and_discards() {
    for script in WAYS {
        for len in [100, 10_000] {
            let (shared, mut a, mut b) = pair(script);
            let mut from = [pattern(1, len), pattern(2, len), pattern(3, len)];
            for (n, bytes) in from.iter_mut().enumerate() {
                shared.net().memory.push(iov(bytes));
                a.tsend(1, n, 5, bytes);
            }
            let with = |flags: Flags, context| RecvOp {
                flags: flags | Flags::COMPLETION,
                ..want(context, 5)
            };
            let peeked = |b: &Node| {
                let got = b.received();
                assert_eq!(got.len(), 1);
                (got[0].ok().context, got[0].ok().len)
            };
            // What has not been taken in is not seen yet.
            b.recv(with(Flags::PEEK, 1)).unwrap();
            assert_eq!(b.received()[0].err().err, Errno::ENOMSG);
            b.engine.progress();
            b.recv(RecvOp { tag: 6, ..with(Flags::PEEK, 1) }).unwrap();
            assert_eq!(b.received()[0].err().err, Errno::ENOMSG);
            b.recv(with(Flags::PEEK, 1)).unwrap();
            assert_eq!(peeked(&b), (1, len));
            b.recv(with(Flags::PEEK | Flags::CLAIM, 2)).unwrap();
            assert_eq!(peeked(&b), (2, len));
            b.recv(with(Flags::PEEK | Flags::DISCARD, 3)).unwrap();
            assert_eq!(peeked(&b), (3, len));
            // The first is claimed and the second is gone.
            let (mut third, mut first) = (vec![0; len], vec![0; len]);
            b.trecv(4, 5, &mut third);
            settle(&mut [&mut a, &mut b]);
            assert_eq!(peeked(&b), (4, len));
            assert_eq!(third, from[2]);
            assert_eq!(b.recv(with(Flags::CLAIM, 9)), Err(Errno::EINVAL));
            b.recv(RecvOp { iov: &[iov(&mut first)], ..with(Flags::CLAIM, 2) }).unwrap();
            settle(&mut [&mut a, &mut b]);
            assert_eq!(peeked(&b), (2, len));
            assert_eq!(first, from[0]);
            assert_eq!(a.sent().len(), 3);
            idle(&[&a, &b]);
        }
    }
}

#[test]
fn a_claimed_message_can_be_discarded() {
    let (_shared, mut a, mut b) = pair(Script::default());
    a.tsend(1, 1, 5, &mut [1; 8]);
    let with = |flags| RecvOp { flags, ..want(2, 5) };
    b.engine.progress();
    b.recv(with(Flags::PEEK | Flags::CLAIM)).unwrap();
    b.recv(with(Flags::CLAIM | Flags::DISCARD)).unwrap();
    assert_eq!(b.recv(with(Flags::CLAIM)), Err(Errno::EINVAL));
    assert_eq!(b.recv(with(Flags::DISCARD)), Err(Errno::EINVAL));
    assert_eq!(b.received().len(), 2);
    idle(&[&a, &b]);
}

#[test]
fn directed_receives_take_their_sender_only() {
    let (_shared, mut nodes) = nodes(3, Script::default(), LIMITS);
    let [a, b, c] = &mut nodes[..] else { unreachable!() };
    b.recv(RecvOp { src: 2, ..want(1, 5) }).unwrap();
    b.recv(RecvOp { src: 77, ..want(9, 5) }).unwrap_err();
    b.recv(want(2, 5)).unwrap();
    a.tsend(1, 1, 5, &mut []);
    b.engine.progress();
    c.tsend(1, 1, 5, &mut []);
    b.engine.progress();
    let got: Vec<_> = b.received().iter().map(|d| (d.ok().context, d.ok().src)).collect();
    assert_eq!(got, [(2, 0), (1, 2)]);
    nodes.iter().for_each(Node::assert_idle);
}
