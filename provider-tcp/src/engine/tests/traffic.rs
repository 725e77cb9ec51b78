//! Messages: every way that they take, over streams that split them anywhere.

use fabric_core::{
    Errno,
    flags::Flags,
    op::{RecvOp, TxMeta},
};

use super::{
    net::Script,
    node::{Done, iov, meta, pair, pattern, settle, succeeded, want},
};

/// Around the places where the engine changes its ways.
const SIZES: [usize; 11] = [0, 1, 128, 4096, 4097, 16384, 20000, 65536, 65537, 100_000, 300_000];

/// From whole to single bytes.
const SCRIPTS: [Script; 4] = [
    Script { chunk: usize::MAX, room: 1 << 20, late: 0, seed: 1 },
    Script { chunk: 50_000, room: 64 << 10, late: 3, seed: 2 },
    Script { chunk: 700, room: 2000, late: 2, seed: 3 },
    Script { chunk: 40, room: 3000, late: 0, seed: 4 },
];

#[test]
fn messages_of_all_sizes_arrive_whole() {
    for script in SCRIPTS {
        for first in [true, false] {
            all_sizes(script, first);
        }
    }
}

/// Tagged, untagged, with data; the receive is there `first`, or later.
fn all_sizes(script: Script, first: bool) {
    let sizes = if script.chunk < 100 { &SIZES[..6] } else { &SIZES[..] };
    let (_, mut a, mut b) = pair(script);
    for (n, &size) in sizes.iter().enumerate() {
        for (tag, flags) in [
            (Some(5), Flags::empty()),
            (Some(6), Flags::REMOTE_CQ_DATA | Flags::DELIVERY_COMPLETE),
            (None, Flags::empty()),
            (None, Flags::REMOTE_CQ_DATA | Flags::DELIVERY_COMPLETE),
        ] {
            let (mut from, mut to) = (pattern(n as u64, size), vec![0; size]);
            let tagged = tag.is_some();
            let receive =
                RecvOp { iov: &[iov(&mut to)], tagged, ..want(8, tag.unwrap_or_default()) };
            if first {
                b.recv(receive).unwrap();
            }
            let meta = TxMeta { flags: flags | Flags::COMPLETION, data: 99, ..meta(1, 7) };
            a.send(meta, tag, &[iov(&mut from)]).unwrap();
            if !first {
                settle(&mut [&mut a, &mut b]);
                b.recv(receive).unwrap();
            }
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            while sent.is_empty() || received.is_empty() {
                settle(&mut [&mut a, &mut b]);
                sent.extend(a.sent());
                received.extend(b.received());
            }
            let [Done::Ok(sent), Done::Ok(received)] = [&sent[0], &received[0]] else {
                panic!("{size} bytes with {script:?}: {sent:?}, {received:?}");
            };
            assert_eq!((sent.context, received.context, received.len), (7, 8, size));
            assert_eq!(received.src, 0);
            let data = flags.contains(Flags::REMOTE_CQ_DATA);
            assert_eq!(received.flags & Flags::REMOTE_CQ_DATA.bits() != 0, data);
            assert!(!data || received.data == 99);
            assert!(to == from, "{size} bytes with {script:?}");
        }
    }
    a.assert_idle();
    b.assert_idle();
}

/// Large tagged messages whose receives come in another order than they do.
#[test]
fn announced_messages_are_asked_for_in_any_order() {
    let (_, mut a, mut b) = pair(SCRIPTS[1]);
    let mut from: Vec<_> = (0..300).map(|n| pattern(n, 70_000 + n as usize)).collect();
    let mut to = vec![vec![0; 71_000]; 300];
    for (n, bytes) in from.iter_mut().enumerate() {
        a.send(meta(1, n), Some(n as u64), &[iov(bytes)]).unwrap();
    }
    settle(&mut [&mut a, &mut b]);
    for (n, room) in to.iter_mut().enumerate().rev() {
        b.trecv(n, n as u64, room);
    }
    let mut received = 0;
    while received < 300 {
        settle(&mut [&mut a, &mut b]);
        received += succeeded(&b.received());
        succeeded(&a.sent());
    }
    for n in 0..300 {
        assert!(to[n][..from[n].len()] == from[n], "message {n}");
    }
    settle(&mut [&mut a, &mut b]);
    a.assert_idle();
    b.assert_idle();
}

/// What was under way when a connection ended fails once, on both sides; what waits for the peer
/// and was not begun, too.
#[test]
fn the_end_of_a_connection_ends_what_depends_on_it() {
    let (shared, mut a, mut b) = pair(SCRIPTS[1]);
    let (mut hello, mut room) = (pattern(1, 8), vec![0; 8]);
    b.trecv(1, 1, &mut room);
    a.send(meta(1, 1), Some(1), &[iov(&mut hello)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.sent()[0].ok().context, b.received()[0].ok().context), (1, 1));

    let (mut large, mut larger) = (pattern(2, 100_000), pattern(3, 300_000));
    let mut from_a = vec![0; 10];
    // Nobody receives the first; the second is asked for and cut in the middle of its bytes.
    a.send(meta(1, 2), Some(2), &[iov(&mut large)]).unwrap();
    a.send(meta(1, 3), Some(3), &[iov(&mut larger)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    let mut to = vec![0; 300_000];
    b.recv(RecvOp { src: 0, iov: &[iov(&mut from_a)], ..want(4, 4) }).unwrap();
    b.trecv(3, 3, &mut to);
    for _ in 0..12 {
        a.engine.progress();
        b.engine.progress();
    }
    shared.cut();
    settle(&mut [&mut a, &mut b]);
    let mut sent: Vec<_> = a.sent().iter().map(|done| (done.context(), done.err().err)).collect();
    sent.sort_by_key(|(context, _)| *context);
    assert_eq!(sent, [(2, Errno::ECONNRESET), (3, Errno::ECONNRESET)]);
    let mut received: Vec<_> =
        b.received().iter().map(|done| (done.context(), done.err().err)).collect();
    received.sort_by_key(|(context, _)| *context);
    assert_eq!(received, [(3, Errno::ECONNRESET), (4, Errno::ECONNRESET)]);
    a.assert_idle();
    b.assert_idle();

    // The next message opens another connection.
    b.trecv(5, 5, &mut room);
    a.send(meta(1, 5), Some(5), &[iov(&mut hello)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!((a.sent().len(), b.received()[0].ok().context), (1, 5));
}
