//! Reads and writes of remote memory.

use fabric_core::{
    Errno,
    flags::Flags,
    op::{RmaKind, TxMeta},
};

use super::{
    super::Limits,
    net::Script,
    node::{LIMITS, iov, meta, pair, pair_with, pattern, settle, succeeded},
};

const KEY: u64 = 7;

#[test]
fn both_sides_read_and_write_more_than_sockets_hold() {
    for script in [
        Script { chunk: usize::MAX, room: 10_000, late: 0, seed: 1 },
        Script { chunk: 5000, room: 2000, late: 3, seed: 2 },
    ] {
        let (_, mut a, mut b) = pair(script);
        const LEN: usize = 200_000;
        let mut memory = [pattern(1, 2 * LEN), pattern(2, 2 * LEN)];
        let [of_a, of_b] = &mut memory;
        let _regions = (a.expose(KEY, of_a), b.expose(KEY, of_b));
        let mut got = [vec![0; LEN], vec![0; LEN]];
        let mut from = [pattern(3, LEN), pattern(4, LEN)];
        let [got_a, got_b] = &mut got;
        let [from_a, from_b] = &mut from;
        for (node, dest, got, from) in [(&mut a, 1, got_a, from_a), (&mut b, 0, got_b, from_b)] {
            node.rma(meta(dest, 1), RmaKind::Read, got, (0, KEY)).unwrap();
            node.rma(meta(dest, 2), RmaKind::Write, from, (LEN as u64, KEY)).unwrap();
        }
        let mut done = 0;
        for _ in 0..2000 {
            settle(&mut [&mut a, &mut b]);
            done += succeeded(&a.sent()) + succeeded(&b.sent());
            if done == 4 {
                break;
            }
        }
        assert_eq!(done, 4, "{script:?}");
        settle(&mut [&mut a, &mut b]);
        for n in 0..2 {
            assert!(got[n] == pattern(2 - n as u64, 2 * LEN)[..LEN], "what was read");
            assert!(memory[n][LEN..] == from[1 - n], "what was written");
        }
        a.assert_idle();
        b.assert_idle();
    }
}

/// A write behind a read is not on its way before the read has its bytes, if that was asked for; a
/// fenced one never is.
#[test]
fn writes_that_wait_for_reads() {
    const LEN: usize = 50_000;
    let ordered = Limits { war: true, ..LIMITS };
    for (limits, flags) in [(ordered, Flags::empty()), (LIMITS, Flags::FENCE)] {
        let script = Script { chunk: 900, room: 1000, late: 0, seed: 5 };
        let (_, mut a, mut b) = pair_with(script, limits);
        let mut memory = pattern(1, LEN);
        let _region = b.expose(KEY, &mut memory);
        let (mut got, mut from) = (vec![0; LEN], pattern(2, LEN));
        let write = TxMeta { flags: flags | Flags::COMPLETION, ..meta(1, 2) };
        a.rma(meta(1, 1), RmaKind::Read, &mut got, (0, KEY)).unwrap();
        a.rma(write, RmaKind::Write, &mut from, (0, KEY)).unwrap();
        let mut done = Vec::new();
        while done.len() < 2 {
            settle(&mut [&mut a, &mut b]);
            done.extend(a.sent());
        }
        settle(&mut [&mut a, &mut b]);
        assert_eq!((done[0].ok().context, done[1].ok().context), (1, 2));
        assert!(got == pattern(1, LEN));
        assert!(memory == from);
    }
}

/// What a fenced operation waits for includes what was small enough to be staged at once.
#[test]
fn fenced_sends_wait_for_acknowledgements() {
    let (_, mut a, mut b) = pair(Script::default());
    let (mut hello, mut room) = (pattern(1, 8), [vec![0; 8], vec![0; 8]]);
    let [first, second] = &mut room;
    a.send(meta(1, 0), Some(1), &[iov(&mut hello)]).unwrap();
    settle(&mut [&mut a, &mut b]);
    a.sent();
    let acknowledged = Flags::COMPLETION | Flags::DELIVERY_COMPLETE;
    let flagged = |context, flags| TxMeta { flags, ..meta(1, context) };
    a.send(flagged(1, acknowledged), Some(1), &[iov(&mut hello)]).unwrap();
    a.send(flagged(2, Flags::COMPLETION | Flags::FENCE), Some(2), &[iov(&mut hello)]).unwrap();
    a.engine.progress();
    assert!(a.sent().is_empty());
    b.trecv(1, 1, first);
    b.trecv(2, 2, second);
    settle(&mut [&mut a, &mut b]);
    let order: Vec<_> = a.sent().iter().map(|done| done.ok().context).collect();
    assert_eq!(order, [1, 2]);
    assert_eq!(b.received().len(), 2);
}

#[test]
fn ranges_beyond_the_last_address_are_errors_of_their_operations() {
    let (_, mut a, mut b) = pair(Script::default());
    let mut memory = pattern(1, 64);
    let _region = b.expose(KEY, &mut memory);
    let mut bytes = vec![0; 16];
    for (kind, flags) in [(RmaKind::Write, Flags::WRITE), (RmaKind::Read, Flags::READ)] {
        a.rma(meta(1, 3), kind, &mut bytes, (u64::MAX - 14, KEY)).unwrap();
        let sent = a.sent();
        assert_eq!((sent[0].err().err, sent[0].context()), (Errno::EINVAL, 3));
        assert_eq!(sent[0].err().entry.flags, (Flags::RMA | flags).bits());
    }
    a.rma(meta(1, 4), RmaKind::Read, &mut bytes, (48, KEY)).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.sent()[0].ok().context, 4);
    a.assert_idle();
}
