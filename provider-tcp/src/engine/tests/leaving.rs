//! When operations leave, and that none is told before.

use fabric_core::{Errno, op::TxMeta};

use super::{
    net::{HELD, Script, Shared},
    node::{Node, iov, meta, pair, pattern, settle, succeeded},
};

/// Connected nodes, and thirty messages from the first one that have been posted without progress.
fn window_posted(silent: bool) -> (Shared, Node, Node) {
    let (shared, mut a, mut b) = pair(Script::default());
    let mut from = pattern(1, 10);
    a.send(meta(1, 0), Some(2), &[iov(&mut from)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(succeeded(&a.sent()), 1);
    for n in 0..30 {
        let meta = TxMeta { silent, ..meta(1, n) };
        a.send(meta, Some(1), &[iov(&mut from)]).unwrap();
    }
    (shared, a, b)
}

fn arrived(b: &mut Node) -> usize {
    settle(&mut [b]);
    succeeded(&b.received())
}

/// A sender without completions to wait for may make no call for a long time.
#[test]
fn a_window_without_completions_leaves_without_another_call() {
    for progress in [false, true] {
        let (shared, mut a, mut b) = window_posted(true);
        let mut to = vec![0; 10];
        (0..30).for_each(|n| b.trecv(n, 1, &mut to));
        let first = arrived(&mut b);
        assert!((2..30).contains(&first), "a conversation leaves at once, a window later");
        if progress {
            a.engine.progress();
        } else {
            shared.wait(HELD);
        }
        assert_eq!(first + arrived(&mut b), 30);
    }
}

/// What has completed needs no further call of its sender.
#[test]
fn a_window_completes_as_it_leaves() {
    let (_shared, mut a, mut b) = window_posted(false);
    let mut to = vec![0; 10];
    (0..30).for_each(|n| b.trecv(n, 1, &mut to));
    let first = succeeded(&a.sent());
    assert!((2..30).contains(&first));
    assert_eq!(arrived(&mut b), first);
    a.engine.progress();
    assert_eq!((succeeded(&a.sent()), arrived(&mut b)), (30 - first, 30 - first));
    a.assert_idle();
}

#[test]
fn what_has_not_left_fails_with_its_connection() {
    let (shared, mut a, _b) = window_posted(false);
    let first = succeeded(&a.sent());
    shared.cut();
    settle(&mut [&mut a]);
    let ends = a.sent();
    assert_eq!(ends.len(), 30 - first);
    assert!(ends.iter().all(|end| end.err().err == Errno::ECONNRESET));
    a.assert_idle();
}
