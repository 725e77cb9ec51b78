//! How connections come up: at the same time from both sides, from hosts with several addresses,
//! late, and again.

use std::{net::SocketAddr, time::Duration};

use fabric_core::{Errno, flags::Flags, mem::Buffers, op::TxMeta};

use super::{
    net::{Script, Shared},
    node::{LIMITS, Node, introduce, iov, meta, pair, pattern, settle},
    stranger::{Claim, Stranger},
};
use crate::{
    address::SocketAddress,
    net::{Net, Stream},
};

/// Both send before either has seen the other.
fn reach_for_each_other(a: &mut Node, b: &mut Node) {
    let (mut from, mut to) = (pattern(1, 100), [vec![0; 100], vec![0; 100]]);
    let [to_a, to_b] = &mut to;
    a.trecv(1, 1, to_a);
    b.trecv(1, 1, to_b);
    a.send(meta(1, 2), Some(1), &[iov(&mut from)]).unwrap();
    b.send(meta(0, 2), Some(1), &[iov(&mut from)]).unwrap();
    settle(&mut [&mut *a, &mut *b]);
    for node in [&mut *a, &mut *b] {
        assert_eq!(node.sent().iter().filter(|done| done.ok().context == 2).count(), 1);
        assert_eq!(node.received().iter().filter(|done| done.ok().context == 1).count(), 1);
        node.assert_idle();
        assert_eq!(node.engine.conns.len(), 1);
        assert_eq!(node.state().peers.len(), 1, "one peer, one name");
    }
    assert!(to.iter().all(|to| *to == from));
}

#[test]
fn two_that_connect_at_once_keep_one_connection() {
    for seed in 0..20 {
        let (shared, mut a, mut b) = pair(Script { late: 2 + seed % 3, seed, ..Script::default() });
        if seed % 2 == 0 {
            reach_for_each_other(&mut a, &mut b);
        } else {
            reach_for_each_other_swapped(&mut a, &mut b);
        }
        assert_eq!(shared.connections().1, 1);
    }
}

/// The same when the other one is first.
fn reach_for_each_other_swapped(a: &mut Node, b: &mut Node) {
    let mut byte = [1];
    b.send(meta(0, 9), Some(9), &[iov(&mut byte)]).unwrap();
    b.engine.progress();
    let mut room = [0];
    a.trecv(9, 9, &mut room);
    reach_for_each_other(a, b);
}

/// An endpoint that listens at all addresses is known by the one that it connects from.
#[test]
fn endpoints_that_listen_at_all_addresses() {
    for (local_a, local_b) in
        [("0.0.0.0:0", "0.0.0.0:0"), ("0.0.0.0:0", "10.0.0.2:0"), ("10.0.0.1:0", "0.0.0.0:0")]
    {
        let shared = Shared::new(Script::default());
        let mut a = Node::new(&shared, "10.0.0.1:0", local_a, LIMITS);
        let mut b = Node::new(&shared, "10.0.0.2:0", local_b, LIMITS);
        introduce(&mut [&mut a, &mut b]);
        reach_for_each_other(&mut a, &mut b);
        assert_eq!(shared.connections().1, 1);
    }
}

#[test]
fn an_endpoint_reaches_itself() {
    for local in ["10.0.0.1:0", "0.0.0.0:0"] {
        let shared = Shared::new(Script::default());
        let mut a = Node::new(&shared, "10.0.0.1:0", local, LIMITS);
        introduce(&mut [&mut a]);
        let (mut from, mut to) = (pattern(1, 80_000), vec![0; 80_000]);
        a.trecv(1, 1, &mut to);
        a.send(meta(0, 2), Some(1), &[iov(&mut from)]).unwrap();
        settle(&mut [&mut a]);
        assert_eq!((a.sent()[0].ok().context, a.received()[0].ok().context), (2, 1));
        assert!(to == from);
        a.assert_idle();
    }
}

#[test]
fn a_peer_may_start_later_and_has_to_come_in_time() {
    let shared = Shared::new(Script::default());
    let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
    let (mut from, mut to) = (pattern(1, 10), vec![0; 10]);
    for name in ["10.0.0.1:1", "10.0.0.2:7777"] {
        let name: SocketAddr = name.parse().unwrap();
        a.av.insert(&SocketAddress::from(name).to_bytes(), None).unwrap();
    }
    a.send(meta(1, 1), Some(1), &[iov(&mut from)]).unwrap();
    for _ in 0..100 {
        settle(&mut [&mut a]);
        shared.wait(Duration::from_millis(100));
    }
    assert!(a.sent().is_empty());
    let mut b = Node::new(&shared, "10.0.0.2:0", "10.0.0.2:7777", LIMITS);
    b.trecv(2, 1, &mut to);
    for _ in 0..10 {
        settle(&mut [&mut a, &mut b]);
        shared.wait(Duration::from_millis(100));
    }
    assert_eq!((a.sent()[0].ok().context, b.received()[0].ok().context), (1, 2));

    // Nobody is there.
    a.send(meta(0, 3), Some(1), &[iov(&mut from)]).unwrap();
    for _ in 0..350 {
        settle(&mut [&mut a, &mut b]);
        shared.wait(Duration::from_millis(100));
    }
    assert_eq!((a.sent()[0].err().err, b.received().len()), (Errno::ECONNREFUSED, 0));
    a.assert_idle();
}

/// What answers is no peer, and will not become one: it is asked a few times only, and at once.
#[test]
fn a_stranger_at_the_port_of_a_peer() {
    let shared = Shared::new(Script::default());
    let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
    let at: SocketAddr = "10.0.0.2:22".parse().unwrap();
    let mut host = shared.host(at.ip());
    host.bind(at).unwrap();
    host.listen(1).unwrap();
    a.av.insert(&SocketAddress::from(at).to_bytes(), None).unwrap();
    let mut byte = [1];
    for round in 1..3 {
        a.send(meta(0, round), Some(1), &[iov(&mut byte)]).unwrap();
        let mut guests = Vec::new();
        for _ in 0..50 {
            settle(&mut [&mut a]);
            while let Ok(accepted) = host.accept() {
                let mut guest = accepted.stream;
                // Shorter than any connection message, and no more will come.
                guest.send(b"SSH-2.0-x\r\n", &Buffers::EMPTY, false).unwrap();
                guests.push(guest);
            }
            shared.wait(Duration::from_millis(10));
        }
        let sent = a.sent();
        assert_eq!((guests.len(), sent.len()), (3, 1));
        assert_eq!((sent[0].err().err, sent[0].err().entry.context), (Errno::EPROTO, round));
        a.assert_idle();
    }
}

/// Whoever has been connected to may take as long as it likes to answer.
#[test]
fn a_peer_that_computes_before_its_first_call() {
    let (shared, mut a, mut b) = pair(Script::default());
    let (mut from, mut to) = (pattern(1, 10), vec![0; 10]);
    b.trecv(2, 1, &mut to);
    a.send(meta(1, 1), Some(1), &[iov(&mut from)]).unwrap();
    for _ in 0..10 {
        shared.wait(LIMITS.connect);
        settle(&mut [&mut a]);
    }
    assert!(a.sent().is_empty());
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.sent()[0].ok().context, b.received()[0].ok().context), (1, 2));
    assert_eq!(shared.connections(), (1, 1));
}

/// An attempt that has given way to the peer's own, which cannot be answered, is made again.
#[test]
fn a_peer_whose_request_cannot_be_answered() {
    let shared = Shared::new(Script::default());
    let [mut a, mut b] = ["10.0.0.1:0", "10.0.0.2:0"].map(|at| Node::new(&shared, at, at, LIMITS));
    introduce(&mut [&mut a, &mut b]);
    let (mut from, mut to) = (pattern(1, 10), vec![0; 10]);
    a.send(meta(1, 1), Some(1), &[iov(&mut from)]).unwrap();
    a.engine.progress();
    let claim = Claim { port: b.name().port(), nonce: 5, epoch: None };
    let other = Stranger::new(&shared, "10.0.0.2", &mut a, claim);
    shared.deafen(false);
    a.engine.progress();
    drop(other);
    settle(&mut [&mut a]);
    assert!(a.engine.conns.is_empty() && a.sent().is_empty());
    b.trecv(2, 1, &mut to);
    for _ in 0..10 {
        shared.wait(Duration::from_millis(100));
        settle(&mut [&mut a, &mut b]);
    }
    assert_eq!((a.sent()[0].ok().context, b.received()[0].ok().context), (1, 2));
    a.assert_idle();
}

/// Another endpoint at a peer's address is no continuation of it.
#[test]
fn a_peer_that_was_started_anew() {
    let (shared, mut a, mut b) = pair(Script::default());
    let (mut from, mut to) = (pattern(1, 10), vec![0; 10]);
    a.send(meta(1, 1), Some(1), &[iov(&mut from)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.sent().len(), 1);
    let (name, own) = (b.name(), a.name());
    drop(b);
    let at = format!("{name:?}");
    let mut b = Node::new(&shared, "10.0.0.2:0", &at, LIMITS);
    b.av.insert(&own.to_bytes(), None).unwrap();
    a.trecv(2, 2, &mut to);
    b.send(meta(0, 3), Some(2), &[iov(&mut from)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!((b.sent()[0].ok().context, a.received()[0].ok().context), (3, 2));
    assert!(to == from);
}

/// Whoever injects takes the message for sent, and may make no progress from then on.
#[test]
fn an_injected_message_is_taken_once_it_can_leave() {
    let (_, mut a, mut b) = pair(Script::default());
    let silent = TxMeta { silent: true, flags: Flags::empty(), ..meta(1, 0) };
    let (mut from, mut to) = (pattern(1, 10), vec![0; 10]);
    b.trecv(1, 1, &mut to);
    let mut asked = 0;
    while a.send(silent, Some(1), &[iov(&mut from)]) == Err(Errno::EAGAIN) {
        // The sender does nothing but try: that alone has to bring it forward.
        settle(&mut [&mut b]);
        asked += 1;
        assert!(asked < 1000);
    }
    assert!(asked > 0);
    settle(&mut [&mut b]);
    assert_eq!(b.received()[0].ok().context, 1);
    assert!(to == from);
    a.assert_idle();
}

#[test]
fn an_injected_message_to_nobody_is_told_why() {
    let shared = Shared::new(Script::default());
    let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
    let name: SocketAddr = "10.0.0.2:7777".parse().unwrap();
    a.av.insert(&SocketAddress::from(name).to_bytes(), None).unwrap();
    let silent = TxMeta { silent: true, flags: Flags::empty(), ..meta(0, 0) };
    let mut byte = [1];
    let mut told = 0;
    for _ in 0..350 {
        match a.send(silent, Some(1), &[iov(&mut byte)]) {
            Err(Errno::EAGAIN) => {}
            other => {
                assert_eq!(other, Err(Errno::ECONNREFUSED));
                told += 1;
            }
        }
        settle(&mut [&mut a]);
        shared.wait(Duration::from_millis(100));
    }
    assert_eq!(told, 1);
    // An answer that nobody has asked for is forgotten.
    for _ in 0..350 {
        settle(&mut [&mut a]);
        shared.wait(Duration::from_millis(100));
    }
    assert_eq!(a.send(silent, Some(1), &[iov(&mut byte)]), Err(Errno::EAGAIN));
    a.assert_idle();
}
