//! Operations that are taken back before they begin.

use fabric_core::Errno;

use super::{
    net::Script,
    node::{Node, iov, meta, pair, pattern, settle, succeeded},
};

/// The contexts of what has failed, in order, all of it cancelled.
fn cancelled(node: &Node) -> Vec<usize> {
    let ends = node.sent();
    assert!(ends.iter().all(|end| end.err().err == Errno::ECANCELED));
    let mut contexts: Vec<_> = ends.iter().map(|end| end.context()).collect();
    contexts.sort_unstable();
    contexts
}

/// On a full socket, in any order, with posts in between; contexts may be unknown, used twice, or those
/// of what has ended.
#[test]
fn what_waits_is_cancelled_once() {
    const COUNT: usize = 300;
    let (_, mut a, mut b) = pair(Script { room: 1000, ..Script::default() });
    let (mut hello, mut large, mut room) = (pattern(1, 8), pattern(2, 5000), vec![0; 5000]);
    b.trecv(0, 1, &mut room);
    a.send(meta(1, 0), Some(1), &[iov(&mut hello)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!((succeeded(&a.sent()), succeeded(&b.received())), (1, 1));
    let post = |a: &mut Node, n, bytes: &mut Vec<u8>| {
        a.send(meta(1, n), Some(2), &[iov(bytes)]).unwrap();
    };
    // The first one has begun.
    (0..COUNT).for_each(|n| post(&mut a, n, &mut large));
    for n in [0, 17, 17, 299, COUNT, 4 * COUNT] {
        a.engine.cancel(a.ep, n);
    }
    assert_eq!(cancelled(&a), [17, 299]);
    // Two of each context, the older one first.
    (0..COUNT).for_each(|n| post(&mut a, n, &mut hello));
    (1..COUNT).rev().filter(|n| n % 3 == 0).for_each(|n| a.engine.cancel(a.ep, n));
    let thirds: Vec<_> = (1..COUNT).filter(|n| n % 3 == 0).collect();
    assert_eq!(cancelled(&a), thirds);
    let left = COUNT - 2 - thirds.len();
    let (mut short, mut long) = (0, 0);
    while short + long < left + COUNT {
        b.trecv(0, 2, &mut room);
        settle(&mut [&mut a, &mut b]);
        for end in b.received() {
            *(if end.ok().len == 8 { &mut short } else { &mut long }) += 1;
        }
    }
    assert_eq!((short, long), (COUNT, left));
    assert_eq!(succeeded(&a.sent()), left + COUNT);
    a.assert_idle();
    b.assert_idle();
}

/// In time that is in proportion to their number.
#[test]
fn very_many_are_cancelled() {
    const COUNT: usize = 50_000;
    let (_, mut a, _b) = pair(Script::default());
    let mut hello = pattern(1, 8);
    // They wait for the connection.
    (0..COUNT).for_each(|n| a.send(meta(1, n), Some(1), &[iov(&mut hello)]).unwrap());
    (0..COUNT).rev().for_each(|n| a.engine.cancel(a.ep, n));
    assert_eq!(cancelled(&a).len(), COUNT);
    assert_eq!((a.engine.core.ops.len(), a.state().backlog.len()), (0, 0));
}
