//! When operations leave, and that none is told before.

use std::{sync::Arc, time::Duration};

use fabric_core::{
    Errno, Result,
    completion::{Counter, CounterAttr},
    flags::Flags,
    mem::Buffers,
    op::{RmaKind, TxMeta},
    rdm_over_msg::{Sent, Token},
    slab::Handle,
};

use super::{
    super::layer::Event,
    net::{HELD, Script, Shared},
    node::{Node, iov, meta, pair, pattern, settle, succeeded},
};
use crate::TcpEndpoint;

const WINDOW: usize = 30;

/// Connected nodes.
fn connected(script: Script) -> (Shared, Node, Node) {
    let (shared, mut a, mut b) = pair(script);
    post(&mut a, 1, meta(1, 0));
    settle(&mut [&mut a, &mut b]);
    assert_eq!(succeeded(&a.sent()), 1);
    arrived(&mut b, 1);
    (shared, a, b)
}

/// Posts some messages without progress.
fn post(a: &mut Node, count: usize, meta: TxMeta) {
    let mut from = pattern(1, 10);
    for n in 0..count {
        a.send(TxMeta { context: n, ..meta }, Some(1), &[iov(&mut from)]).unwrap();
    }
}

/// What arrives without a call of the sender's, of so many messages that are expected.
fn arrived(b: &mut Node, expected: usize) -> usize {
    let mut to = [0; 10];
    (0..expected).for_each(|n| b.trecv(n, 1, &mut to));
    settle(&mut [b]);
    let arrived = succeeded(&b.received());
    (arrived..expected).for_each(|n| b.engine.cancel(b.ep, n));
    b.received();
    arrived
}

/// A program that makes progress behind its windows.
fn comes_back(a: &mut Node, b: &mut Node) {
    for _ in 0..3 {
        post(a, WINDOW, meta(1, 0));
        a.engine.progress();
        assert_eq!((succeeded(&a.sent()), arrived(b, WINDOW)), (WINDOW, WINDOW));
    }
}

/// Who posts may wait for the peer by other ways, and make no call for a long time.
#[test]
fn a_window_leaves_without_another_call() {
    for silent in [false, true] {
        let (shared, mut a, mut b) = connected(Script::default());
        for _ in 0..5 {
            post(&mut a, WINDOW, TxMeta { silent, ..meta(1, 0) });
            assert_eq!(succeeded(&a.sent()), if silent { 0 } else { WINDOW });
            assert_eq!(arrived(&mut b, WINDOW), WINDOW);
            shared.wait(Duration::from_secs(1));
            settle(&mut [&mut a]);
        }
    }
}

#[test]
fn a_window_of_a_program_that_comes_back_is_held_back_by_the_kernel() {
    for (silent, progress) in [(false, false), (false, true), (true, false), (true, true)] {
        let (shared, mut a, mut b) = connected(Script::default());
        comes_back(&mut a, &mut b);
        post(&mut a, WINDOW, TxMeta { silent, ..meta(1, 0) });
        let first = arrived(&mut b, WINDOW);
        assert!((1..WINDOW).contains(&first));
        if progress {
            a.engine.progress();
        } else {
            shared.wait(HELD);
        }
        assert_eq!(first + arrived(&mut b, WINDOW - first), WINDOW);
    }
}

/// It has its peer wait twice.
#[test]
fn a_program_that_comes_back_no_more() {
    let (shared, mut a, mut b) = connected(Script::default());
    comes_back(&mut a, &mut b);
    let mut held = 0;
    for _ in 0..6 {
        post(&mut a, WINDOW, meta(1, 0));
        let first = arrived(&mut b, WINDOW);
        held += usize::from(first < WINDOW);
        shared.wait(HELD);
        assert_eq!(first + arrived(&mut b, WINDOW - first), WINDOW);
    }
    assert_eq!(held, 2);
}

#[test]
fn announced_company_is_waited_for() {
    let (_shared, mut a, mut b) = connected(Script::default());
    post(&mut a, 3, TxMeta { flags: Flags::COMPLETION | Flags::MORE, ..meta(1, 0) });
    assert_eq!((succeeded(&a.sent()), arrived(&mut b, 3)), (0, 0));
    post(&mut a, 1, meta(1, 0));
    assert_eq!((succeeded(&a.sent()), arrived(&mut b, 4)), (4, 4));
    post(&mut a, 3, TxMeta { flags: Flags::COMPLETION | Flags::MORE, ..meta(1, 0) });
    a.engine.progress();
    assert_eq!((succeeded(&a.sent()), arrived(&mut b, 3)), (3, 3));
}

/// What the endpoint has counted: successes and failures.
fn counter(node: &mut Node) -> Arc<Counter<TcpEndpoint>> {
    let counter = Counter::open(&CounterAttr::default()).unwrap();
    let state = node.engine.core.eps.get_mut(node.ep).unwrap();
    state.report.bind_counter(counter.value(), Flags::SEND | Flags::WRITE).unwrap();
    counter
}

/// On a socket that is full. Entries, counts and the peer say the same, and the end of the connection
/// fails the rest: once, and with an entry whatever was asked for.
#[test]
fn what_has_not_left_has_not_completed() {
    const COUNT: usize = 200;
    let entry = meta(1, 0);
    let none = TxMeta { flags: Flags::empty(), ..entry };
    let injected = TxMeta { silent: true, ..entry };
    for (meta, entries) in [(entry, true), (none, false), (injected, false)] {
        let (shared, mut a, mut b) = connected(Script { room: 1000, ..Script::default() });
        if let Some(tx) = &mut a.engine.core.eps.get_mut(a.ep).unwrap().report.tx {
            tx.selective = true;
        }
        let counter = counter(&mut a);
        post(&mut a, COUNT, meta);
        let left = counter.read() as usize;
        assert!((10..COUNT).contains(&left), "{left} have left");
        assert_eq!(succeeded(&a.sent()), if entries { left } else { 0 });
        assert_eq!(arrived(&mut b, COUNT), left);
        shared.cut();
        settle(&mut [&mut a]);
        assert_eq!((counter.read() as usize, counter.read_error() as usize), (left, COUNT - left));
        let mut failed: Vec<_> = a
            .sent()
            .iter()
            .map(|end| {
                assert_eq!(end.err().err, Errno::ECONNRESET);
                end.context()
            })
            .collect();
        failed.sort_unstable();
        assert_eq!(failed, (left..COUNT).collect::<Vec<_>>());
        a.assert_idle();
    }
}

/// The same of writes, whose peers do not answer.
#[test]
fn a_write_without_an_answer_completes_as_it_leaves() {
    let (shared, mut a, b) = connected(Script { room: 2000, ..Script::default() });
    for (_, conn) in a.engine.conns.iter_mut() {
        conn.extensions = false;
    }
    let counter = counter(&mut a);
    let (mut from, mut memory) = ([7; 8], vec![0; 8]);
    let _region = b.expose(3, &mut memory);
    for n in 0..100 {
        a.rma(meta(1, n), RmaKind::Write, &mut from, (0, 3)).unwrap();
    }
    let left = counter.read() as usize;
    assert!((10..100).contains(&left), "{left} have left");
    assert_eq!(succeeded(&a.sent()), left);
    shared.cut();
    settle(&mut [&mut a]);
    let failed = a.sent();
    assert!(failed.iter().all(|end| end.err().err == Errno::ECONNRESET));
    assert_eq!(failed.len(), 100 - left);
    assert_eq!(counter.read_error() as usize, 100 - left);
    a.assert_idle();
}

/// Nodes with a connection for the protocol above, as the first names it.
fn layered(script: Script) -> (Shared, Node, Node, Handle) {
    let (shared, mut a, mut b) = pair(script);
    for node in [&mut a, &mut b] {
        node.engine.core.eps.get_mut(node.ep).unwrap().layer = Some(4096);
    }
    let to = b.name();
    let conn = a.engine.layer_connect(a.ep, Token(u64::MAX), to, &[]).unwrap();
    settle(&mut [&mut a, &mut b]);
    let [Event::Requested { request, .. }] = b.engine.core.layer[..] else { panic!("no request") };
    b.engine.core.layer.clear();
    b.engine.layer_accept(request, Token(2), &[]).unwrap();
    settle(&mut [&mut a, &mut b]);
    a.engine.core.layer.clear();
    b.engine.core.layer.clear();
    (shared, a, b, conn)
}

/// Ends of messages that the protocol above hears of.
fn ends(a: &mut Node) -> Vec<(u64, Result<()>)> {
    let mut events = Vec::new();
    a.engine.core.layer.hand_over(&mut events);
    let end = |event| match event {
        Event::Done { token, outcome } => Some((token.0, outcome)),
        _ => None,
    };
    events.into_iter().filter_map(end).collect()
}

/// A message that does not enter the socket was none; the end of one that enters in part is told when
/// all of it has.
#[test]
fn the_protocol_above_hears_of_a_full_socket() {
    let (_, mut a, mut b, conn) = layered(Script { room: 1000, ..Script::default() });
    let (mut sent, mut refused, mut later, mut told) = (0, 0, Vec::new(), Vec::new());
    while sent < 500 {
        let (more, token) = (sent % 3 == 0, Token(sent + 1));
        match a.engine.layer_inject(conn, &[sent as u8; 50], &Buffers::EMPTY, more, token) {
            Ok(Sent::Now) => sent += 1,
            Ok(Sent::Later) => {
                later.push(token.0);
                sent += 1;
            }
            Err(reason) => {
                assert_eq!(reason, Errno::EAGAIN);
                refused += 1;
                assert!(
                    a.engine.conns.get(conn).unwrap().tx.staged() < 60,
                    "one has begun at most"
                );
                settle(&mut [&mut b, &mut a]);
                told.extend(ends(&mut a));
            }
        }
    }
    assert!(refused > 10);
    settle(&mut [&mut b, &mut a]);
    told.extend(ends(&mut a));
    assert!(later.len() > 100);
    assert!(told.into_iter().eq(later.into_iter().map(|token| (token, Ok(())))));
    let packets = b.engine.core.layer.iter().map(|event| match event {
        Event::Packet { packet, .. } => packet[0],
        _ => panic!("another event"),
    });
    assert!(packets.eq((0..500).map(|n| n as u8)));
}

/// What has left in part has not left.
#[test]
fn the_protocol_above_hears_of_half_a_message() {
    let (shared, mut a, _b, conn) = layered(Script { room: 75, ..Script::default() });
    let mut inject =
        |token| a.engine.layer_inject(conn, &[1; 40], &Buffers::EMPTY, false, Token(token));
    assert_eq!(inject(1), Ok(Sent::Now));
    assert_eq!(inject(2), Ok(Sent::Later));
    assert_eq!(inject(3), Err(Errno::EAGAIN));
    shared.cut();
    a.engine.progress();
    assert_eq!(ends(&mut a), [(2, Err(Errno::ECONNRESET))]);
}
