//! In how many system calls messages leave: what makes the rate of small ones.

use fabric_core::{flags::Flags, op::RmaKind};

use super::{
    net::{Script, Shared},
    node::{Node, iov, meta, pair, settle, succeeded},
};

const WINDOW: usize = 64;

/// Opens the connection, and lets what that has brought about end.
fn connected() -> (Shared, Node, Node) {
    let (shared, mut a, mut b) = pair(Script::default());
    exchange(&mut a, &mut b, 1);
    (shared, a, b)
}

/// One message to the `dest`th node.
fn exchange(from: &mut Node, to: &mut Node, dest: u64) {
    let (mut sent, mut room) = ([1; 8], [0; 8]);
    to.trecv(1, 1, &mut room);
    from.send(meta(dest, 1), Some(1), &[iov(&mut sent)]).unwrap();
    settle(&mut [from, to]);
    assert_eq!((succeeded(&from.sent()), succeeded(&to.received())), (1, 1));
}

/// A window of messages from `a`, all received by `b`, which answers with one.
fn window(a: &mut Node, b: &mut Node) {
    let (mut sent, mut room) = ([1; 8], [0; 8]);
    for n in 0..WINDOW {
        b.trecv(n, 1, &mut room);
    }
    for n in 0..WINDOW {
        a.send(meta(1, n), Some(1), &[iov(&mut sent)]).unwrap();
    }
    settle(&mut [a, b]);
    assert_eq!((succeeded(&a.sent()), succeeded(&b.received())), (WINDOW, WINDOW));
}

/// Windows of a program that comes back behind them.
fn warm(a: &mut Node, b: &mut Node) {
    for _ in 0..3 {
        window(a, b);
        exchange(b, a, 0);
    }
}

#[test]
fn a_window_that_follows_a_window_leaves_in_two_calls() {
    let (shared, mut a, mut b) = connected();
    warm(&mut a, &mut b);
    for _ in 0..10 {
        let before = shared.calls();
        window(&mut a, &mut b);
        let after = shared.calls();
        assert_eq!(after.0 - before.0, 2);
        assert!(after.1 - before.1 <= 2);
        exchange(&mut b, &mut a, 0);
    }
}

/// Without a call that makes progress.
#[test]
fn a_few_messages_leave_at_once() {
    let (shared, mut a, mut b) = connected();
    warm(&mut a, &mut b);
    let (mut sent, mut room) = ([1; 8], [0; 8]);
    let mut burst = |a: &mut Node, b: &mut Node, count: usize| {
        let before = shared.calls().0;
        for n in 0..count {
            b.trecv(n, 2, &mut room);
            a.send(meta(1, n), Some(2), &[iov(&mut sent)]).unwrap();
        }
        let calls = shared.calls().0 - before;
        settle(&mut [a, b]);
        assert_eq!((succeeded(&a.sent()), succeeded(&b.received())), (count, count));
        calls
    };
    // The burst behind a window is taken for another one, but for its first message.
    assert_eq!([8, 1, 2, 8].map(|count| burst(&mut a, &mut b, count)), [1, 1, 2, 8]);
    assert_eq!([64, 1, 8].map(|count| burst(&mut a, &mut b, count)), [8, 1, 8]);
}

/// What the peer has to answer leaves, and is answered, in a few calls, too.
#[test]
fn acknowledged_operations_share_calls() {
    let (shared, mut a, mut b) = connected();
    warm(&mut a, &mut b);
    let (mut from, mut memory) = ([7; 8], vec![0; 8]);
    let _region = b.expose(3, &mut memory);
    let before = shared.calls().0;
    for n in 0..WINDOW - 1 {
        let meta = fabric_core::op::TxMeta {
            flags: Flags::COMPLETION | Flags::DELIVERY_COMPLETE,
            ..meta(1, n)
        };
        a.rma(meta, RmaKind::Write, &mut from, (0, 3)).unwrap();
    }
    settle(&mut [&mut a, &mut b]);
    assert_eq!(succeeded(&a.sent()), WINDOW - 1);
    assert!(shared.calls().0 - before <= 12, "{} calls", shared.calls().0 - before);
    assert_eq!(memory, from);
    a.assert_idle();
    b.assert_idle();
}
