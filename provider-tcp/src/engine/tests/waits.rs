//! What may stand in front of what is waited for.

use fabric_core::{
    Errno,
    attr::WaitObj,
    eq::{EqAttr, Event, EventQueue},
    flags::Flags,
    mem::Buffers,
    op::{RecvOp, RmaKind, TxMeta},
};

use super::{
    super::Msg,
    net::{Script, Shared},
    node::{LIMITS, Node, iov, meta, pair, pattern, settle, want},
    stranger::{Claim, Stranger},
};
use crate::frame::{
    Endian,
    cm::CmKind,
    extension::Features,
    head::{HEAD_MAX, HeadFlags, Header, Op, Parsed, RtsIndex, parse},
};

const ROOMY: Script = Script { chunk: usize::MAX, room: 1 << 20, late: 0, seed: 1 };
const KEY: u64 = 7;

/// Two that have talked to each other.
fn acquainted() -> (Node, Node) {
    let (_, mut a, mut b) = pair(ROOMY);
    let (mut hello, mut room) = (pattern(1, 8), vec![0; 8]);
    b.trecv(1, 1, &mut room);
    a.send(meta(1, 1), Some(1), &[iov(&mut hello)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.sent().len(), b.received().len()), (1, 1));
    (a, b)
}

/// Others read no further than a message that nobody has asked for.
#[test]
fn messages_are_announced_to_our_own_kind_only() {
    for ours in [true, false] {
        let (mut a, mut b) = acquainted();
        let handles: Vec<_> = a.engine.conns.iter().map(|(handle, _)| handle).collect();
        for handle in handles {
            a.engine.conns.get_mut(handle).unwrap().extensions = ours;
        }
        let (mut from, mut to) = (pattern(2, 200_000), vec![0; 200_000]);
        b.trecv(2, 2, &mut to);
        a.send(meta(1, 2), Some(2), &[iov(&mut from)]).unwrap();
        settle(&mut [&mut a, &mut b]);
        assert_eq!((a.sent().len(), b.received()[0].ok().len), (1, 200_000));
        assert!(to == from);
        assert_eq!(a.state().stats.rendezvous, u64::from(ours));
    }
}

/// Large messages leave at once as long as their receives are there before them.
#[test]
fn receives_that_wait_save_announcements() {
    const COUNT: usize = 12;
    for (posted, told, announced) in [(true, true, 2), (true, false, COUNT), (false, true, COUNT)] {
        let (mut a, mut b) = acquainted();
        let handles: Vec<_> = a.engine.conns.iter().map(|(handle, _)| handle).collect();
        for handle in handles {
            a.engine.conns.get_mut(handle).unwrap().tells_posted &= told;
        }
        let (mut from, mut to) = (pattern(2, 600_000), vec![0; 600_000]);
        for n in 0..COUNT {
            to.fill(0);
            if posted {
                b.trecv(2, 2, &mut to);
            }
            a.send(meta(1, n), Some(2), &[iov(&mut from)]).unwrap();
            settle(&mut [&mut a, &mut b]);
            if !posted {
                b.trecv(2, 2, &mut to);
                settle(&mut [&mut a, &mut b]);
            }
            assert_eq!((a.sent().len(), b.received()[0].ok().len), (1, from.len()));
            assert!(to == from);
        }
        assert_eq!(a.state().stats.rendezvous, announced as u64);
    }
}

/// Bytes of a large message are read into their place if one came before it; the first one is no
/// different from small ones until its header is there.
#[test]
fn a_large_message_behind_another_is_hardly_read_aside() {
    let (shared, mut a, mut b) = pair(Script { room: 2 << 20, ..Script::default() });
    let mut aside = |len: usize| {
        let (mut from, mut to) = (pattern(3, len), vec![0; len]);
        let before = shared.aside();
        b.recv(RecvOp { iov: &[iov(&mut to)], tagged: false, ..want(1, 0) }).unwrap();
        a.send(meta(1, 1), None, &[iov(&mut from)]).unwrap();
        settle(&mut [&mut a, &mut b]);
        assert!(b.received().len() == 1 && to == from);
        shared.aside() - before
    };
    aside(8);
    assert!(aside(300_000) > 4096);
    assert!(aside(300_000) <= 4096);
    assert!(aside(300_000) <= 4096);
    aside(8);
    assert!(aside(300_000) > 4096);
}

/// Whether a receive was there is said to who understands it.
#[test]
fn an_older_peer_is_not_told_of_receives() {
    for (features, flags) in [
        (Features::OPERATIONS, HeadFlags::empty()),
        (Features::POSTED, HeadFlags::empty()),
        (Features::OPERATIONS | Features::POSTED, HeadFlags::POSTED),
    ] {
        let shared = Shared::new(Script::default());
        let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
        let mut room = vec![0; 100];
        a.trecv(1, 5, &mut room);
        let claim = Claim { port: 9, nonce: 7, epoch: Some(3) };
        let mut peer = Stranger::with(&shared, "10.0.0.2", &mut a, claim, features);
        settle(&mut [&mut a]);
        assert_eq!(peer.answer(), Some(CmKind::Response));
        assert!(peer.say(&Header::rts(RtsIndex::new(1, false).unwrap(), 5, 100), &[]));
        settle(&mut [&mut a]);
        let (mut bytes, mut cts) = ([0; HEAD_MAX], Header::ack());
        let len = peer.take(&mut bytes).unwrap();
        let parsed = parse(&bytes[..len], Endian::Native, true, &mut cts);
        assert!(matches!(parsed, Ok(Parsed::Whole(_))));
        assert_eq!((cts.op(), cts.flags()), (Op::Cts, flags));
    }
}

/// The bytes of large messages are read in fewer calls where they come one behind the other.
#[test]
fn a_stream_of_large_messages_is_read_in_batches() {
    let reads = |turns: bool| {
        let (shared, mut a, mut b) =
            pair(Script { chunk: 32 << 10, room: 2 << 20, late: 0, seed: 1 });
        let mut from = pattern(3, 300_000);
        let mut to = [vec![0; 300_000], vec![0; 300_000], vec![0; 300_000], vec![0; 300_000]];
        let before = shared.calls().1;
        for to in &mut to {
            b.recv(RecvOp { iov: &[iov(to)], tagged: false, ..want(1, 0) }).unwrap();
            a.send(meta(1, 1), None, &[iov(&mut from)]).unwrap();
            if turns {
                settle(&mut [&mut a, &mut b]);
                let (mut word, mut room) = (pattern(4, 8), vec![0; 8]);
                a.trecv(3, 3, &mut room);
                b.send(meta(0, 3), Some(3), &[iov(&mut word)]).unwrap();
                settle(&mut [&mut a, &mut b]);
            }
        }
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.received().len(), to.len());
        assert!(to.iter().all(|to| *to == from));
        shared.calls().1 - before
    };
    assert!(reads(false) < reads(true), "{} {}", reads(false), reads(true));
}

/// Messages that nobody receives, more than are kept for nobody, do not keep an answer away.
#[test]
fn a_read_behind_what_nobody_receives() {
    let (mut a, mut b) = acquainted();
    let mut memory = pattern(3, 100);
    let _region = b.expose(KEY, &mut memory);
    let mut large = pattern(4, 2 << 20);
    let plain = TxMeta { flags: Flags::COMPLETION, ..meta(0, 5) };
    for _ in 0..12 {
        b.send(plain, None, &[iov(&mut large)]).unwrap();
    }
    for _ in 0..20 {
        settle(&mut [&mut a, &mut b]);
    }
    let before = b.sent().len();
    assert!(before < 12, "some wait in the stream");
    let mut got = vec![0; 100];
    a.rma(meta(1, 6), RmaKind::Read, &mut got, (0, KEY)).unwrap();
    for _ in 0..20 {
        settle(&mut [&mut a, &mut b]);
    }
    assert_eq!(a.sent().first().map(|done| done.ok().context), Some(6));
    assert!(got == memory);
}

/// Closing waits for what its own endpoint owes.
#[test]
fn an_endpoint_owes_its_own_bytes() {
    let (mut a, _b) = acquainted();
    let mut bytes = pattern(5, 100);
    for n in 0..30 {
        let silent = TxMeta { silent: true, flags: Flags::MORE, ..meta(1, n) };
        a.send(silent, Some(9), &[iov(&mut bytes)]).unwrap();
    }
    assert_ne!(a.engine.owes(a.ep), 0);
    let other = fabric_core::slab::Handle::from_raw(!a.ep.raw());
    assert_eq!(a.engine.owes(other), 0);
}

/// Whoever finds out by sending that its peer has gone still gets what had come before.
#[test]
fn last_words() {
    let (shared, mut a, mut b) = pair(ROOMY);
    let (mut words, mut room) = (pattern(6, 20), [vec![0; 20], vec![0; 20], vec![0; 20]]);
    b.send(meta(0, 0), Some(1), &[iov(&mut words)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    for _ in 0..2 {
        b.send(meta(0, 0), Some(1), &[iov(&mut words)]).unwrap();
    }
    b.engine.progress();
    shared.deafen(true);
    a.send(meta(1, 7), Some(2), &[iov(&mut words)]).unwrap();
    assert_eq!(a.engine.conns.len(), 0);
    for room in &mut room {
        a.trecv(3, 1, room);
        assert_eq!(a.received()[0].ok().len, 20);
        assert!(*room == words);
    }
}

/// A connected endpoint whose connection has ended takes receives for what came before. What nothing
/// could end is taken, and fails, until the program has read of the end.
#[test]
fn what_is_posted_after_the_end() {
    let (mut a, mut b) = acquainted();
    let ep = a.ep;
    let (mut last, mut room) = (pattern(6, 20), vec![0; 20]);
    b.send(meta(0, 1), None, &[iov(&mut last)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    let eq = EventQueue::open(&EqAttr { wait_obj: WaitObj::None, ..EqAttr::default() }).unwrap();
    let mut msg = Msg::new();
    msg.end(eq.clone());
    let state = a.engine.core.eps.get_mut(ep).unwrap();
    (state.msg, state.peers[0].conn) = (Some(msg), None);
    let op = RecvOp { tagged: false, ..want(1, 0) };
    a.recv(RecvOp { iov: &[iov(&mut room)], ..op }).unwrap();
    assert_eq!(a.received()[0].ok().len, 20);
    assert!(room == last);
    a.recv(RecvOp { iov: &[], ..op }).unwrap();
    a.send(meta(1, 2), None, &[iov(&mut last)]).unwrap();
    a.send(TxMeta { silent: true, ..meta(1, 3) }, None, &[iov(&mut last)]).unwrap();
    let ends = [a.received(), a.sent()]
        .map(|ends| ends.iter().map(|end| (end.context(), end.err().err)).collect::<Vec<_>>());
    let sends = vec![(2, Errno::ENOTCONN), (3, Errno::ENOTCONN)];
    assert_eq!(ends, [vec![(1, Errno::ECANCELED)], sends]);
    a.assert_idle();
    assert!(matches!(eq.read(Flags::empty()), Ok(Event::Shutdown { .. })));
    assert_eq!(a.engine.post_recv(ep, &op, Buffers::EMPTY), Err(Errno::ENOTCONN));
    assert_eq!(a.send(meta(1, 2), None, &[iov(&mut last)]), Err(Errno::ENOTCONN));
    assert_eq!((a.received().len(), a.sent().len()), (0, 0));
}
