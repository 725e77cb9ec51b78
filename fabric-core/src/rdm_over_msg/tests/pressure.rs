//! Who floods, asks for too much, or does not take what it has asked for.

use super::{
    super::{
        Event, Token, Transport,
        packet::{self, Head, Message, Packet},
        pressure::{ASKED_MAX, KEPT_PEER},
        record::{Acceptance, ConnectionId, Features, FlowControl, Refusal, Request},
    },
    at::At,
    node::{LIMITS, Node, iov, meta, nodes, pair, pattern, settle, want},
    world::{Script, TestTransport, regions},
};
use crate::{
    Errno,
    atomic::{atomic_op, datatype},
    flags::Flags,
    op::{AtomicKind, RecvOp, RmaIov, RmaKind, TxMeta},
};

/// Posts more messages than a peer keeps without receives.
fn flood(from: &mut Node, to: &mut Node, peer: u64, bytes: &mut [u8]) -> usize {
    let count = 2 * KEPT_PEER / bytes.len();
    for posted in 0..count {
        from.send(meta(peer, posted), Some(5), &[iov(bytes)]).unwrap();
        if posted % 64 == 0 {
            settle_a_little(from, to);
        }
    }
    settle(&mut [from, to]);
    count
}

fn settle_a_little(a: &mut Node, b: &mut Node) {
    for _ in 0..2 {
        a.engine.progress();
        b.engine.progress();
    }
}

fn take(node: &mut Node, peer: &mut Node, count: usize, bytes: &mut [u8]) {
    for n in 0..count {
        node.trecv(n, 5, bytes);
        settle_a_little(node, peer);
    }
    settle(&mut [node, peer]);
    assert_eq!(
        node.received().iter().map(|done| done.ok().len).sum::<usize>(),
        count * bytes.len()
    );
}

/// What waits for room in the transport is the transport's to wake for, however often it is tried.
#[test]
fn who_finds_no_room_wakes_nobody_who_waits_for_it() {
    let (shared, mut a, mut b) = pair(Script::default());
    let mut bytes = pattern(1, 100);
    a.send(meta(1, 1), Some(5), &[iov(&mut bytes)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    a.engine.arm();

    shared.refuse(1);
    a.send(meta(1, 2), Some(5), &[iov(&mut bytes)]).unwrap();
    a.engine.hand_on();
    assert!(std::mem::take(&mut a.engine.transport.handed_on), "a thread may sleep");
    a.engine.progress();
    a.engine.arm();
    for _ in 0..3 {
        a.engine.progress();
        a.engine.hand_on();
        assert!(!a.engine.transport.handed_on, "another one would be told, and tell us");
    }

    shared.refuse(0);
    a.engine.progress();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.sent().len(), 2);
}

/// Sends that wait behind a flood of the peer's are no reason to take more of it.
#[test]
fn both_flood_and_neither_keeps_more_than_its_budget() {
    let (_, mut a, mut b) = pair(Script::default());
    let mut bytes = pattern(1, 1024);
    let there = flood(&mut a, &mut b, 1, &mut bytes);
    let back = flood(&mut b, &mut a, 0, &mut bytes);
    for node in [&a, &b] {
        let kept = node.engine.core.kept;
        assert!(kept > KEPT_PEER && kept < KEPT_PEER + (1 << 20), "{kept} bytes are kept");
        assert_eq!(node.engine.paused.len(), 1);
    }
    let mut to = vec![0; 1024];
    take(&mut a, &mut b, back, &mut to);
    take(&mut b, &mut a, there, &mut to);
    assert!(to == bytes);
    assert_eq!((a.sent().len(), b.sent().len()), (there, back));
    a.assert_idle(0);
    b.assert_idle(0);
}

/// What the application waits for is behind the flood, so more of it is taken.
#[test]
fn answers_behind_a_flood_are_heard() {
    for what in ["a read", "an atomic operation", "an announced message"] {
        let (_, mut a, mut b) = pair(Script::default());
        let mut bytes = pattern(1, 1024);
        let count = flood(&mut a, &mut b, 1, &mut bytes);
        assert_eq!(b.engine.paused.len(), 1);
        let mut memory = [5; 16];
        let _region = a.expose(9, &mut memory);
        let (mut got, mut large, mut place) = ([0; 8], pattern(2, 9000), vec![0; 9000]);
        let remote = [RmaIov { addr: 0, len: 8, key: 9 }];
        match what {
            "a read" => b.rma(meta(0, 1), RmaKind::Read, &[iov(&mut got)], &remote).unwrap(),
            "an atomic operation" => {
                let kind = (AtomicKind::Fetch, datatype::UINT8, atomic_op::ATOMIC_READ);
                b.atomic(meta(0, 1), kind, [&mut [], &mut [], &mut got], 9).unwrap();
            }
            _ => {
                a.trecv(1, 6, &mut place);
                b.send(meta(0, 1), Some(6), &[iov(&mut large)]).unwrap();
            }
        }
        settle(&mut [&mut a, &mut b]);
        assert_eq!(b.sent().len(), 1, "{what}");
        drop(a.received());
        let mut to = vec![0; 1024];
        take(&mut b, &mut a, count, &mut to);
        a.sent();
        a.assert_idle(1);
        b.assert_idle(0);
    }
}

/// No peer is asked for more than it must take, and all of it comes.
#[test]
fn answers_are_asked_for_in_bounds() {
    let (_, mut a, mut b) = pair(Script::default());
    let mut memory = [0; 8];
    let _region = b.expose(9, &mut memory);
    let sum = (AtomicKind::Base, datatype::UINT8, atomic_op::SUM);
    let count = ASKED_MAX as usize + 500;
    for n in 0..count {
        a.atomic(meta(1, n), sum, [&mut [1], &mut [], &mut []], 9).unwrap();
        if n == 0 {
            settle(&mut [&mut a, &mut b]);
        }
    }
    a.engine.progress();
    let load = &a.engine.core.peers.get(0).unwrap().load;
    assert_eq!((load.asked, load.queued), (ASKED_MAX, 499));
    settle(&mut [&mut a, &mut b]);
    let sent = a.sent();
    assert!(sent.iter().all(|done| done.ok().context < count));
    assert_eq!(sent.len(), count);
    assert_eq!(memory[0], count as u8);
    a.assert_idle(0);
    b.assert_idle(1);
}

/// A fenced operation waits for those before it, however many others there are.
#[test]
fn fences_wait_for_their_own_peer() {
    let (_, mut list) = nodes(3, Script::default(), LIMITS);
    let [a, b, c] = &mut list[..] else { panic!("three") };
    let mut hello = pattern(0, 10);
    for peer in [1, 2] {
        a.send(meta(peer, 0), Some(1), &[iov(&mut hello)]).unwrap();
    }
    settle(&mut [a, b, c]);
    a.sent();
    let (mut large, mut fenced) = (pattern(1, 9000), pattern(2, 10));
    a.send(meta(1, 1), Some(2), &[iov(&mut large)]).unwrap();
    settle(&mut [a, b, c]);
    let flags = Flags::COMPLETION | Flags::FENCE;
    for (peer, context) in [(1, 2), (2, 3)] {
        let meta = TxMeta { flags, ..meta(peer, context) };
        a.send(meta, Some(3), &[iov(&mut fenced)]).unwrap();
    }
    settle(&mut [a, b, c]);
    assert_eq!(a.sent().iter().map(|done| done.context()).collect::<Vec<_>>(), [3]);
    let mut place = vec![0; 9000];
    b.trecv(4, 2, &mut place);
    settle(&mut [a, b, c]);
    assert_eq!(a.sent().iter().map(|done| done.context()).collect::<Vec<_>>(), [1, 2]);
}

/// Whoever injects may make no progress for long, so nothing is taken before it can leave.
#[test]
fn injects_wait_with_the_application() {
    let (shared, mut list) = nodes(1, Script::default(), LIMITS);
    let a = &mut list[0];
    a.knows(At(2, 7));
    let mut peer = shared.transport(At(2, 7), regions());
    peer.listen().unwrap();
    let silent = TxMeta { flags: Flags::INJECT, silent: true, ..meta(1, 3) };
    let mut bytes = pattern(1, 10);
    for _ in 0..100 {
        assert_eq!(a.send(silent, Some(5), &[iov(&mut bytes)]), Err(Errno::EAGAIN));
    }
    let mut heard = Vec::new();
    peer.poll(&mut heard, &mut ());
    let [Event::Requested { request, .. }] = heard[..] else { panic!("{heard:?}") };
    peer.reject(request, &Refusal::Refused.bytes());
    settle(&mut [a]);
    // The end of the attempts is told once.
    assert_eq!(a.send(silent, Some(5), &[iov(&mut bytes)]), Err(Errno::ECONNREFUSED));
    assert_eq!(a.send(silent, Some(5), &[iov(&mut bytes)]), Err(Errno::EAGAIN));
    heard.clear();
    peer.poll(&mut heard, &mut ());
    let [Event::Requested { request, .. }] = heard[..] else { panic!("{heard:?}") };
    peer.accept(Token(1), request, &acceptance(FlowControl::Off).bytes()).unwrap();
    settle(&mut [a]);
    assert_eq!(a.send(silent, Some(5), &[iov(&mut bytes)]), Ok(()));
    assert!(a.sent().is_empty());
    a.assert_idle(0);
}

fn acceptance(flow_control: FlowControl) -> Acceptance {
    let id = ConnectionId { owner: 3, index: 42 };
    Acceptance { id, receives: 1, flow_control, features: Features::default() }
}

/// Credits among what a peer has heard.
fn credits(peer: &mut TestTransport) -> Vec<u64> {
    let mut heard = Vec::new();
    peer.poll(&mut heard, &mut ());
    let credit = |event: &Event<TestTransport>| match event {
        Event::Packet { packet, .. } => match packet::parse(packet).unwrap().packet {
            Packet::Credit(count) => Some(count),
            other => panic!("{other:?}"),
        },
        _ => None,
    };
    heard.iter().filter_map(credit).collect()
}

/// Peers that are too old to be asked count; others are told not to.
#[test]
fn peers_that_count_are_given_credits() {
    const RECEIVES: u64 = TestTransport::RECEIVES as u64;
    for (said, counts) in
        [(FlowControl::Unsaid, true), (FlowControl::On, false), (FlowControl::Off, false)]
    {
        let (shared, mut list) = nodes(1, Script::default(), LIMITS);
        let a = &mut list[0];
        let mut peer = shared.transport(At(2, 7), regions());
        peer.listen().unwrap();
        let words = Request {
            port: 7,
            flow_control: said,
            eager_limit: LIMITS.eager,
            receives: 128,
            id: ConnectionId { owner: 3, index: 42 },
            features: Features::default(),
        };
        let conn = peer.connect(Token(1), At(1, 7), &words.bytes()).unwrap();
        settle(&mut [a]);
        let first = if counts { vec![RECEIVES - 1] } else { Vec::new() };
        assert_eq!(credits(&mut peer), first, "{said:?}");
        let mut to = vec![0; 16];
        let mut told = 0;
        for n in 1..=3 * RECEIVES {
            let head = Head::eager(&Message { size: 3, ..Message::default() });
            peer.say(conn, &[&head.bytes()[..], b"abc"].concat());
            let pieces = [iov(&mut to)];
            a.recv(RecvOp { iov: &pieces, tagged: false, ..want(1, 0) }).unwrap();
            settle(&mut [a]);
            told += credits(&mut peer).iter().sum::<u64>();
            let expected = if counts { n - n % (RECEIVES / 2) } else { 0 };
            assert_eq!(told, expected, "{said:?}, after {n} messages");
        }
    }
}
