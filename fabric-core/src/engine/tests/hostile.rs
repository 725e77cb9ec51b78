//! A peer that sends anything at all: no panic, no access outside of what operations and regions
//! cover, and every operation still completes exactly once.

use proptest::prelude::*;

use super::{
    node::{Done, Node, iov, meta, pair, settle, want},
    wire::Script,
};
use crate::{
    Errno,
    flags::Flags,
    matching::ANY_PEER,
    op::{ADDR_UNSPEC, IoVec, RecvOp, RmaIov, RmaKind, TxMeta},
    wire::Head,
};

const KEY: u64 = 9;
const CANARY: u8 = 0xa5;
const ARENA: usize = 16 * WINDOW;
const WINDOW: usize = 4096;
/// Bytes at the start of each window that an operation covers; the rest must not change.
const COVERED: usize = 2048;

/// Words that may mean something: handles, lengths, keys, addresses.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u64..8).prop_map(|index| 1 << 32 | index),
        1 => (0u64..8).prop_map(|index| 2 << 32 | index),
        4 => 0u64..6,
        2 => prop::sample::select(vec![8, 64, 512, 2000, 2048, 2056, 4096, 10_000, KEY]),
        // Replaced by an address in the arena.
        2 => (0..ARENA as u64).prop_map(|at| ADDRESS | at),
        1 => any::<u64>(),
        1 => (0u64..16).prop_map(|n| u64::MAX - n),
    ]
}

/// Marks a word as an offset into the arena.
const ADDRESS: u64 = 0xabcd << 48;

fn payload() -> impl Strategy<Value = (Vec<u64>, Vec<u8>)> {
    let bytes = prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..16),
        1 => prop::collection::vec(any::<u8>(), 0..2100),
        1 => prop::sample::select(vec![8usize, 512, 2000, 2048]).prop_map(|len| vec![7; len]),
    ];
    (prop::collection::vec(word(), 0..8), bytes)
}

/// A front of words that a kind of packet starts with, so that the rest of its handling is reached.
fn shaped() -> impl Strategy<Value = (u8, Vec<u64>)> {
    let remote = (0u64..5000, prop::sample::select(vec![0u64, 8, 64, 2048, 3000]), 0u64..2)
        .prop_map(|(addr, len, key)| vec![1, addr, len, KEY + key]);
    (1u8..18, remote, word(), word()).prop_map(|(op, mut remote, a, b)| match op {
        2 => (op, vec![a, remote[2], b, remote[2]]),
        3 => (op, vec![remote[2]]),
        7 => {
            remote.extend([a, remote[2]]);
            (op, remote)
        }
        9 => {
            let what = (a % 3) | (7 << 8) | ((b % 12) << 32);
            remote.insert(0, what);
            (op, remote)
        }
        11 => (op, vec![a, remote[2]]),
        _ => (op, remote),
    })
}

fn packet() -> impl Strategy<Value = (Head, Vec<u64>, Vec<u8>)> {
    let free = (0u8..16, payload()).prop_map(|(op, (words, bytes))| (op, words, bytes));
    let formed = (shaped(), payload()).prop_map(|((op, words), (_, bytes))| (op, words, bytes));
    let exact = shaped().prop_map(|(op, words)| {
        let len = if op == 6 { words[2] as usize } else { 0 };
        (op, words, vec![7; len])
    });
    let whole = (prop_oneof![free, formed, exact], 0u8..64, word(), word())
        .prop_map(|((op, words, bytes), flags, a, b)| (Head { op, flags, a, b }, words, bytes));
    prop_oneof![2 => whole, 1 => transfer()]
}

/// Offers, grants and segments that belong together more often than not.
fn transfer() -> impl Strategy<Value = (Head, Vec<u64>, Vec<u8>)> {
    let handle = (0u64..7).prop_map(|index| 1 << 32 | index);
    let len = prop::sample::select(vec![1u64, 8, 64, 512, 2048]);
    let address = (0..ARENA as u64).prop_map(|at| ADDRESS | at);
    let op = prop::sample::select(vec![2u8, 4, 4, 4, 7, 11]);
    (op, handle, len, address).prop_map(|(op, a, len, at)| {
        let (words, bytes) = match op {
            2 => (vec![a, len, at, len], 0),
            4 => (vec![], len as usize),
            7 => (vec![1, 0, len, KEY, at, len], 0),
            _ => (vec![at, len], 0),
        };
        (Head { op, flags: 1, a, b: a }, words, vec![7; bytes])
    })
}

struct Target {
    node: Node,
    arena: Vec<u8>,
}

impl Target {
    fn window(&mut self, n: usize) -> IoVec {
        iov(&mut self.arena[n * WINDOW..n * WINDOW + COVERED])
    }

    /// Posts one of everything. Contexts 1 to 6 are sends, from 10 on receives.
    fn post(&mut self) {
        let windows: Vec<_> = (0..8).map(|n| self.window(n)).collect();
        let node = &mut self.node;
        // So that all of them are under way at the same time.
        node.engine.core.limits.ordered = false;
        node.expose(
            KEY,
            &mut self.arena[8 * WINDOW..8 * WINDOW + COVERED],
            Flags::REMOTE_WRITE | Flags::REMOTE_READ,
        );
        let at = |len| [RmaIov { addr: 0, len, key: 1 }];
        node.send(meta(1, 1), Some(5), &[windows[0]]).unwrap();
        node.rma(meta(1, 2), RmaKind::Write, &[windows[1]], &at(COVERED)).unwrap();
        let eight = IoVec { len: 8, ..windows[4] };
        node.fetch_add(meta(1, 5), &[eight], &[eight], &at(8)).unwrap();
        let acknowledged = TxMeta { flags: Flags::DELIVERY_COMPLETE, ..meta(1, 6) };
        node.send(acknowledged, None, &[eight]).unwrap();
        node.rma(meta(1, 3), RmaKind::Read, &[windows[2]], &at(COVERED)).unwrap();
        node.rma(meta(1, 4), RmaKind::Read, &[IoVec { len: 512, ..windows[3] }], &at(512)).unwrap();
        let any = |context| RecvOp { ignore: u64::MAX, ..want(context, 0) };
        node.recv(RecvOp { iov: &[windows[5]], ..any(10) }).unwrap();
        node.recv(RecvOp { iov: &[windows[6]], src: 1, ..any(11) }).unwrap();
        node.recv(RecvOp {
            iov: &[windows[7]],
            flags: Flags::MULTI_RECV,
            tagged: false,
            tag: 0,
            ..any(12)
        })
        .unwrap();
    }

    fn assert_canaries(&self) {
        for (n, window) in self.arena.chunks(WINDOW).enumerate() {
            let from = if n <= 8 { COVERED } else { 0 };
            assert!(window[from..].iter().all(|byte| *byte == CANARY), "window {n}");
        }
    }
}

#[test]
fn broken_packets_end_the_connection() {
    let op = |n: u64| 1 << 32 | n;
    let huge = isize::MAX as u64 + 1;
    // Operations in the order of `post`: 0 send, 1 write, 2 atomic, 4 large read, 5 small read.
    let broken: [(u8, u64, Vec<u64>); 28] = [
        (0, 0, vec![]),
        (18, 0, vec![]),
        (2, 5, vec![]),
        (2, 5, vec![op(0), 8]),
        (2, 5, vec![op(0), 8, 1 << 20, 9]),
        (2, 5, vec![op(0), 8, 1 << 20]),
        (2, 5, vec![op(0), huge, 1 << 20, huge]),
        (2, 5, vec![op(0), 8, u64::MAX, 8]),
        (2, 5, vec![op(0), 5, 1, 1, 2, 1, 3, 1, 4, 1, 5, 1]),
        (3, op(0), vec![]),
        (3, op(0), vec![COVERED as u64 + 1]),
        (3, op(4), vec![8]),
        (3, op(2), vec![8]),
        (5, op(4), vec![]),
        (5, op(2), vec![]),
        (6, 0, vec![]),
        (6, 0, vec![5, 0, 0, KEY, 0, 0, KEY, 0, 0, KEY, 0, 0, KEY, 0, 0, KEY]),
        (6, 0, vec![1, 0, 16, KEY, 7]),
        (6, 0, vec![2, 0, huge - 1, KEY, 0, huge - 1, KEY]),
        (7, 0, vec![1, 0, 16, KEY, 1 << 20, 8]),
        (8, 0, vec![1, 0, 16]),
        (9, 0, vec![3, 1, 0, 8, KEY, 7]),
        (9, 0, vec![7 << 8, 1, 0, 8, KEY]),
        (10, op(5), vec![7]),
        (10, op(5), vec![7; 65]),
        (10, op(0), vec![7]),
        (11, op(0), vec![1 << 20, COVERED as u64]),
        (11, op(4), vec![1 << 20, 8]),
    ];
    for (op, a, words) in broken {
        let (shared, node, _) = pair(Script::default());
        let mut target = Target { node, arena: vec![CANARY; ARENA] };
        target.post();
        let payload = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        shared.net().inject(1, 0, Head { op, flags: 1, a, b: 0 }, payload);
        target.node.engine.progress();
        assert_eq!(shared.net().failed, [(0, 1)], "{op} {a:#x} {words:x?}");
        settle(&mut [&mut target.node]);
        let sent = target.node.sent();
        let failed = sent.iter().filter(|done| matches!(done, Done::Err(_))).count();
        assert_eq!((sent.len(), failed), (6, 6));
        target.assert_canaries();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_packets_are_survived(
        packets in prop::collection::vec(packet(), 1..12),
        copy_every in 0u64..3,
        refuse_every in prop::sample::select(vec![0u64, 2]),
    ) {
        let (shared, node, _) = pair(Script { copy_every, max_payload: (600, 2100), ..Script::default() });
        let mut target = Target { node, arena: vec![CANARY; ARENA] };
        target.post();
        let base = target.arena.as_ptr() as u64;
        shared.net().script.refuse_every = refuse_every;
        shared.net().memory.push(iov(&mut target.arena));
        for (head, words, bytes) in packets {
            let words = words.iter().map(|word| {
                if word & ADDRESS == ADDRESS { base + (word & (ARENA as u64 - 1)) } else { *word }
            });
            let mut payload: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
            payload.extend(bytes);
            if shared.net().failed.is_empty() {
                shared.net().inject(1, 0, head, payload);
            }
            target.node.engine.progress();
        }
        shared.net().cut(0, 1, Errno::ECONNRESET);
        settle(&mut [&mut target.node]);
        // Messages that came whole are still there.
        let mut context = 100;
        while target.node.engine.core.inbox.waiting_len() != 0 {
            for tagged in [false, true] {
                target.node.recv(RecvOp { tagged, src: ADDR_UNSPEC, ignore: u64::MAX, ..want(context, 0) }).unwrap();
                context += 1;
            }
        }
        (10..context).for_each(|context| target.node.engine.cancel(context));
        settle(&mut [&mut target.node]);
        target.assert_canaries();
        target.node.assert_idle();
        let mut ends: Vec<_> = target.node.sent().iter().map(|done| done.entry().context).collect();
        ends.sort_unstable();
        prop_assert_eq!(ends, (1..=6).collect::<Vec<_>>());
        let got = target.node.received();
        for context in (10..13).chain(100..context) {
            let of_it = got.iter().filter(|done| done.entry().context == context);
            let ends = of_it.filter(|done| context != 12 || done.entry().flags & Flags::MULTI_RECV.bits() != 0);
            prop_assert_eq!(ends.count(), 1, "receive {}", context);
        }
        prop_assert!(target.node.engine.core.peers.len() < ANY_PEER as usize);
    }
}
