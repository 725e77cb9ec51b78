//! How connections come up, who keeps his own, and what their end leads to.

use std::time::Duration;

use super::{
    super::{Event, Token, Transport, record},
    at::At,
    node::{LIMITS, Node, iov, meta, nodes, pair, pattern, settle, want},
    world::{Script, Shared, TestTransport, regions},
};
use crate::{
    Errno,
    op::{RecvOp, RmaIov, RmaKind},
    reaching::{LOOK, Verdict},
};
use record::{Acceptance, ConnectionId, Features, FlowControl, Refusal, Request};

#[test]
fn both_reach_for_each_other() {
    for size in [10, 3000, 9000] {
        let (shared, mut a, mut b) = pair(Script::default());
        let (mut from_a, mut from_b) = (pattern(1, size), pattern(2, size));
        let (mut to_a, mut to_b) = (vec![0; size], vec![0; size]);
        a.trecv(1, 5, &mut to_a);
        b.trecv(2, 5, &mut to_b);
        a.send(meta(1, 3), Some(5), &[iov(&mut from_a)]).unwrap();
        b.send(meta(0, 4), Some(5), &[iov(&mut from_b)]).unwrap();
        settle(&mut [&mut a, &mut b]);
        assert_eq!((a.received().len(), b.received().len()), (1, 1));
        assert_eq!((a.sent().len(), b.sent().len()), (1, 1));
        assert!(to_a == from_b && to_b == from_a);
        assert_eq!(shared.links(), (2, 1), "one connection stays");
        a.assert_idle(0);
        b.assert_idle(0);
    }
}

#[test]
fn a_peer_that_comes_late_is_reached() {
    let shared = Shared::new(Script::default());
    let mut a = Node::new(&shared, At(1, 7), LIMITS);
    a.knows(At(2, 7));
    let (mut from, mut to) = (pattern(1, 100), vec![0; 100]);
    a.send(meta(0, 3), Some(5), &[iov(&mut from)]).unwrap();
    for _ in 0..20 {
        settle(&mut [&mut a]);
        shared.wait(Duration::from_millis(100));
    }
    assert!(a.sent().is_empty());
    let mut b = Node::new(&shared, At(2, 7), LIMITS);
    b.trecv(1, 5, &mut to);
    shared.wait(Duration::from_secs(1));
    settle(&mut [&mut a, &mut b]);
    a.sent()[0].ok();
    assert!(to == from);
    // It has not been told who that was.
    assert_eq!(b.received()[0].ok().src, crate::op::ADDR_UNSPEC);
}

#[test]
fn a_peer_that_does_not_come_is_given_up() {
    let (shared, mut list) = nodes(1, Script::default(), LIMITS);
    let a = &mut list[0];
    let gone = a.knows(At(9, 9));
    let (mut from, mut to) = (pattern(1, 100), vec![0; 100]);
    let pieces = [iov(&mut to)];
    a.recv(RecvOp { iov: &pieces, src: gone, ..want(7, 5) }).unwrap();
    for n in 0..3 {
        a.send(meta(gone, n), Some(5), &[iov(&mut from)]).unwrap();
    }
    for _ in 0..110 {
        settle(&mut [a]);
        shared.wait(Duration::from_millis(100));
    }
    let sent = a.sent();
    assert_eq!(sent.len(), 3);
    for (n, done) in sent.iter().enumerate() {
        assert_eq!((done.context(), done.err().err), (n, Errno::ECONNREFUSED));
        assert_eq!(done.err().err_data[..], [0, 9, 0, 9]);
    }
    // Nobody else can satisfy a receive that names it.
    assert_eq!(a.received()[0].err().err, Errno::ECONNREFUSED);
    let (asked, _) = shared.links();
    assert!((10..100).contains(&asked), "{asked} attempts");
    a.assert_idle(0);
}

#[test]
fn what_is_under_way_ends_with_the_connection() {
    let (shared, mut a, mut b) = pair(Script::default());
    let mut hello = pattern(0, 10);
    let mut memory = vec![0; 100];
    b.trecv(0, 0, &mut [0; 10]);
    a.send(meta(1, 0), Some(0), &[iov(&mut hello)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    a.sent();
    b.received();
    let _region = b.expose(9, &mut memory);

    // An announced message without a receive, one with a receive, a read, segments.
    let (mut waits, mut large, mut parts) = (pattern(1, 9000), pattern(2, 9000), pattern(3, 4000));
    a.send(meta(1, 1), Some(1), &[iov(&mut waits)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    let (mut to, mut directed) = (vec![0; 9000], vec![0; 10]);
    a.send(meta(1, 2), Some(2), &[iov(&mut large)]).unwrap();
    a.send(meta(1, 3), Some(3), &[iov(&mut parts)]).unwrap();
    let remote = [RmaIov { addr: 0, len: 100, key: 9 }];
    a.rma(meta(1, 4), RmaKind::Read, &[iov(&mut [0; 100])], &remote).unwrap();
    let pieces = [iov(&mut directed)];
    a.recv(RecvOp { iov: &pieces, src: 1, ..want(5, 9) }).unwrap();
    b.trecv(6, 2, &mut to);
    shared.cut();
    settle(&mut [&mut a, &mut b]);
    let mut failed: Vec<_> = a.sent().iter().map(|done| (done.context(), done.err().err)).collect();
    failed.sort_by_key(|(context, _)| *context);
    assert_eq!(failed, [1, 2, 3, 4].map(|context| (context, Errno::ECONNRESET)));
    assert_eq!(a.received()[0].err().err, Errno::ECONNRESET);
    // The message that took its receive has not come; the receive may still be anyone's.
    b.engine.cancel(6);
    assert_eq!(b.received().len(), 1);
    a.assert_idle(0);
    b.assert_idle(1);

    // The next message finds another connection.
    let mut again = vec![0; 10];
    b.trecv(7, 4, &mut again);
    a.send(meta(1, 8), Some(4), &[iov(&mut hello)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    a.sent()[0].ok();
    b.received()[0].ok();
    assert!(again == hello);
}

/// What arrived whole before the end can still be received.
#[test]
fn messages_outlive_their_connection() {
    for size in [100, 3000] {
        let (shared, mut a, mut b) = pair(Script::default());
        let (mut from, mut to) = (pattern(1, size), vec![0; size]);
        a.send(meta(1, 1), Some(1), &[iov(&mut from)]).unwrap();
        settle(&mut [&mut a, &mut b]);
        shared.cut();
        settle(&mut [&mut a, &mut b]);
        b.trecv(2, 1, &mut to);
        assert_eq!(b.received()[0].ok().len, size);
        assert!(to == from);
        b.assert_idle(0);
    }
}

/// The second one of the same address is another endpoint, which has lost nothing and owes nothing.
#[test]
fn a_peer_is_started_anew() {
    let (shared, mut a, b) = pair(Script::default());
    let mut hello = pattern(0, 10);
    let mut first = b;
    first.trecv(0, 0, &mut [0; 10]);
    a.send(meta(1, 0), Some(0), &[iov(&mut hello)]).unwrap();
    settle(&mut [&mut a, &mut first]);
    a.sent();
    // An announcement that nobody answers: the endpoint is gone, and its connection does not say so.
    let mut large = pattern(1, 9000);
    a.send(meta(1, 1), Some(1), &[iov(&mut large)]).unwrap();
    a.engine.progress();
    let mut second = Node::new(&shared, At(2, 7), LIMITS);
    second.knows(At(1, 7));
    second.send(meta(0, 2), Some(2), &[iov(&mut hello)]).unwrap();
    let mut to = vec![0; 10];
    a.trecv(3, 2, &mut to);
    settle(&mut [&mut a, &mut second]);
    assert_eq!(a.sent()[0].err().err, Errno::ECONNRESET);
    a.received()[0].ok();
    assert!(to == hello);
    second.sent()[0].ok();
    a.assert_idle(0);
}

fn made_up(shared: &Shared, at: At) -> TestTransport {
    let mut peer = shared.transport(at, regions());
    peer.listen().unwrap();
    peer
}

fn asks(owner: u32) -> Request {
    Request {
        port: 7,
        flow_control: FlowControl::On,
        eager_limit: LIMITS.eager,
        receives: 128,
        id: ConnectionId { owner, index: 42 },
        features: Features::default(),
    }
}

fn heard(peer: &mut TestTransport) -> Vec<Event<TestTransport>> {
    let mut events = Vec::new();
    peer.poll(&mut events, &mut ());
    events
}

fn acceptance(owner: u32) -> Acceptance {
    let id = ConnectionId { owner, index: 42 };
    let features = Features::default();
    Acceptance { id, receives: 1, flow_control: FlowControl::Off, features }
}

#[test]
fn a_second_request_of_the_same_endpoint_is_refused() {
    let (shared, mut list) = nodes(1, Script::default(), LIMITS);
    let a = &mut list[0];
    let mut peer = made_up(&shared, At(2, 7));
    let words = asks(5).bytes();
    peer.connect(Token(1), At(1, 7), &words).unwrap();
    settle(&mut [a]);
    let [Event::Connected { data, .. }] = &heard(&mut peer)[..] else { panic!("not accepted") };
    // Whatever the peer wants, credits are declined.
    assert_eq!(Acceptance::parse(data).unwrap().flow_control, FlowControl::Off);
    peer.connect(Token(2), At(1, 7), &words).unwrap();
    settle(&mut [a]);
    match &heard(&mut peer)[..] {
        [Event::Refused { conn: Token(2), data, .. }] => {
            assert_eq!(Refusal::parse(data), Refusal::Known);
        }
        other => panic!("{other:?}"),
    }
    peer.connect(Token(3), At(1, 7), &asks(6).bytes()).unwrap();
    settle(&mut [a]);
    let events = heard(&mut peer);
    assert!(matches!(
        events[..],
        [Event::Ended { conn: Token(1), .. }, Event::Connected { conn: Token(3), .. }]
    ));
}

/// Whether a peer has been started anew shows after a while; the request waits, and the peer is served.
#[test]
fn a_request_in_the_name_of_a_connected_peer() {
    for verdict in [Verdict::Believed, Verdict::Refused] {
        let (shared, mut list) = nodes(1, Script::default(), LIMITS);
        let a = &mut list[0];
        let mut peer = made_up(&shared, At(2, 7));
        peer.connect(Token(1), At(1, 7), &asks(5).bytes()).unwrap();
        settle(&mut [a]);
        heard(&mut peer);
        shared.decide(Verdict::Open);
        // The second of them gives up before anything shows.
        peer.connect(Token(2), At(1, 7), &asks(6).bytes()).unwrap();
        let other = peer.connect(Token(3), At(1, 7), &asks(6).bytes()).unwrap();
        for _ in 0..5 {
            settle(&mut [a]);
            shared.wait(LOOK);
        }
        assert!(heard(&mut peer).is_empty());
        assert_eq!(a.engine.undecided.len(), 2);
        peer.end(other);
        shared.decide(verdict);
        settle(&mut [a]);
        let events = heard(&mut peer);
        match (verdict, &events[..]) {
            (Verdict::Believed, [Event::Ended { conn: Token(1), .. }, Event::Connected { .. }]) => {
            }
            (Verdict::Refused, [Event::Refused { conn: Token(2), data, .. }]) => {
                assert_eq!(Refusal::parse(data), Refusal::Unsaid);
            }
            other => panic!("{other:?}"),
        }
        assert!(a.engine.undecided.is_empty());
        assert_eq!(a.engine.conns.len(), 1);
    }
}

#[test]
fn requests_that_cannot_be_served() {
    let (shared, mut list) = nodes(1, Script::default(), LIMITS);
    let a = &mut list[0];
    let mut peer = made_up(&shared, At(2, 7));
    let good = asks(5).bytes();
    let with = |at: usize, byte: u8| {
        let mut words = good.to_vec();
        words[at] = byte;
        words
    };
    for words in [
        with(0, 9),
        with(1, 0),
        with(2, 3),
        with(3, 2),
        with(9, 1),
        good[..23].to_vec(),
        Vec::new(),
    ] {
        peer.connect(Token(1), At(1, 7), &words).unwrap();
        settle(&mut [a]);
        match &heard(&mut peer)[..] {
            [Event::Refused { data, .. }] => assert_eq!(Refusal::parse(data), Refusal::Refused),
            other => panic!("{words:?}: {other:?}"),
        }
    }
    assert_eq!(a.engine.conns.len(), 0);
}

/// A peer that says that it connects itself is waited for, as long as for others.
#[test]
fn a_peer_that_wants_to_connect_itself() {
    for comes in [true, false] {
        let (shared, mut list) = nodes(1, Script::default(), LIMITS);
        let a = &mut list[0];
        a.knows(At(2, 7));
        let mut peer = made_up(&shared, At(2, 7));
        a.send(meta(1, 3), Some(5), &[iov(&mut pattern(1, 10))]).unwrap();
        let request = match heard(&mut peer).pop() {
            Some(Event::Requested { request, .. }) => request,
            other => panic!("{other:?}"),
        };
        peer.reject(request, &Refusal::Known.bytes());
        settle(&mut [a]);
        assert!(a.sent().is_empty());
        if comes {
            peer.connect(Token(1), At(1, 7), &asks(5).bytes()).unwrap();
            settle(&mut [a]);
            a.sent()[0].ok();
        } else {
            shared.wait(Duration::from_secs(11));
            settle(&mut [a]);
            assert_eq!(a.sent()[0].err().err, Errno::ECONNREFUSED);
        }
        a.assert_idle(0);
    }
}

#[test]
fn a_refusal_for_good_is_no_reason_to_try_again() {
    let (shared, mut list) = nodes(1, Script::default(), LIMITS);
    let a = &mut list[0];
    a.knows(At(2, 7));
    let mut peer = made_up(&shared, At(2, 7));
    a.send(meta(1, 3), Some(5), &[iov(&mut pattern(1, 10))]).unwrap();
    let Some(Event::Requested { request, .. }) = heard(&mut peer).pop() else { panic!("none") };
    peer.reject(request, &Refusal::Refused.bytes());
    settle(&mut [a]);
    assert_eq!(a.sent()[0].err().err, Errno::ECONNREFUSED);
    assert_eq!(shared.links().0, 1);
}

/// An acceptance that is none ends the attempt; an old one, which ends early, does not.
#[test]
fn acceptances() {
    for (len, good) in [(11, false), (12, true), (16, true)] {
        let (shared, mut list) = nodes(1, Script::default(), LIMITS);
        let a = &mut list[0];
        a.knows(At(2, 7));
        let mut peer = made_up(&shared, At(2, 7));
        a.send(meta(1, 3), Some(5), &[iov(&mut pattern(1, 10))]).unwrap();
        let Some(Event::Requested { request, .. }) = heard(&mut peer).pop() else { panic!("none") };
        peer.accept(Token(1), request, &acceptance(3).bytes()[..len]).unwrap();
        settle(&mut [a]);
        let got = heard(&mut peer);
        let has_packet = got.iter().any(|event| {
            matches!(event, Event::Packet { packet, .. }
            if packet[8..16] == 42u64.to_ne_bytes())
        });
        assert_eq!(has_packet, good, "{len} bytes: {got:?}");
    }
}

/// Thousands that come, send and go leave nothing behind.
#[test]
fn strangers_come_and_go() {
    let (shared, mut list) = nodes(1, Script::default(), LIMITS);
    let a = &mut list[0];
    let mut to = [0; 10];
    for n in 0..5000u32 {
        let at = At((n / 60_000 + 100) as u16, (n % 60_000) as u16 + 1);
        let mut peer = shared.transport(at, regions());
        let words = Request { port: at.1, ..asks(n + 1) }.bytes();
        let conn = peer.connect(Token(1), At(1, 7), &words).unwrap();
        a.engine.progress();
        let message = super::super::packet::Message { size: 3, ..Default::default() };
        let head = super::super::packet::Head::eager(&message);
        peer.say(conn, &[&head.bytes()[..], b"abc"].concat());
        let pieces = [iov(&mut to)];
        a.recv(RecvOp { iov: &pieces, tagged: false, ..want(1, 0) }).unwrap();
        a.engine.progress();
        assert_eq!(a.received()[0].ok().len, 3);
        peer.close();
        a.engine.progress();
        shared.forget();
    }
    a.assert_idle(0);
    assert_eq!(a.engine.conns.len(), 0);
    assert!(a.engine.core.peers.len() <= 1100, "{} peers", a.engine.core.peers.len());
}
