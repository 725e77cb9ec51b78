//! Random operations over random transports: each accepted one completes exactly once, with the
//! right bytes, in the right order, and nothing is left behind.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    node::{Done, LIMITS, Node, iov, nodes},
    pattern,
    wire::{Script, Shared},
};
use crate::{
    Errno, Result,
    engine::Limits,
    flags::Flags,
    matching::PeerId,
    op::{ADDR_UNSPEC, RecvOp, RmaIov, RmaKind, TxMeta},
    wire::Op as Kind,
};

const NODES: PeerId = 3;
const STEPS: usize = 150;
const SIZES: [usize; 12] = [0, 1, 8, 48, 100, 256, 511, 600, 1024, 1025, 3000, 9000];

const OPEN: u64 = 1;
const STILL: u64 = 2;
const COUNT: u64 = 3;
const NO_KEY: u64 = 99;

#[test]
fn storms_over_a_working_transport() {
    let mut emitted = BTreeSet::new();
    for seed in 0..150 {
        emitted.extend(Storm::new(seed).run(None));
    }
    let all: BTreeSet<u8> = (0..=u8::MAX).filter(|raw| Kind::from_raw(*raw).is_some()).collect();
    assert_eq!(emitted, all, "every kind of packet was in use");
}

#[test]
fn storms_with_a_cut_at_any_step() {
    for seed in 0..150 {
        let cut_at = (seed as usize * 7) % STEPS;
        Storm::new(seed + 10_000).run(Some(cut_at));
    }
}

/// A generator of numbers that a seed repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }
}

/// What a message is, by its remote CQ data.
struct Message {
    src: usize,
    dst: usize,
    tag: Option<u64>,
    bytes: Vec<u8>,
}

/// What an operation is, by its context.
struct Posted {
    node: usize,
    what: What,
    silent: bool,
    cancelled: bool,
    done: usize,
}

enum What {
    Send,
    Recv { want: Want, room: Vec<u8>, got: Vec<u64>, multi: bool, places: BTreeMap<usize, u64> },
    Write { target: usize, at: usize, bytes: Vec<u8>, bad: bool },
    Read { at: usize, room: Vec<u8>, bad: bool },
    Add { target: usize, word: usize, result: Box<[u8; 8]> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Want {
    tag: Option<u64>,
    ignore: u64,
    src: u64,
}

struct Storm {
    dice: Dice,
    shared: Shared,
    nodes: Vec<Node>,
    /// Regions of each node: open to writes, only read, counted.
    open: Vec<Vec<u8>>,
    still: Vec<Vec<u8>>,
    words: Vec<[u64; 4]>,
    one: Box<[u8; 8]>,
    next_write: usize,
    ops: Vec<Posted>,
    messages: HashMap<u64, Message>,
    received: HashMap<u64, usize>,
    cut: Option<(usize, usize)>,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let script = Script {
            refuse_every: dice.pick(&[0, 0, 2, 3, 7]),
            room: dice.pick(&[1, 2, 5, usize::MAX]),
            max_payload: dice.pick(&[(512, 512), (512, 4096), (1100, 1100), (65536, 65536)]),
            copy_every: dice.pick(&[0, 1, 2, 3]),
            delayed: dice.one_in(2),
        };
        let limits = Limits {
            outstanding: dice.pick(&[2, 16, 1000]),
            waiting_bytes: dice.pick(&[0, 2000, 1 << 20]),
            ..LIMITS
        };
        let (shared, nodes) = nodes(NODES, script, limits);
        let all = || 0..NODES as usize;
        let mut storm = Self {
            dice,
            shared,
            nodes,
            open: all().map(|_| vec![0; STEPS * 9000]).collect(),
            still: all().map(|n| pattern(n as u64, 20_000)).collect(),
            words: all().map(|_| [0; 4]).collect(),
            one: Box::new(1u64.to_ne_bytes()),
            next_write: 0,
            ops: Vec::new(),
            messages: HashMap::new(),
            received: HashMap::new(),
            cut: None,
        };
        for n in all() {
            let node = &storm.nodes[n];
            node.expose(OPEN, &mut storm.open[n], Flags::REMOTE_WRITE);
            node.expose(STILL, &mut storm.still[n], Flags::REMOTE_READ);
            // SAFETY: plain words as bytes; the storm keeps them.
            let words: &mut [u8] =
                unsafe { std::slice::from_raw_parts_mut(storm.words[n].as_mut_ptr().cast(), 32) };
            node.expose(COUNT, words, Flags::REMOTE_READ | Flags::REMOTE_WRITE);
            storm.shared.net().memory.push(iov(&mut storm.still[n]));
        }
        storm
    }

    fn run(mut self, cut_at: Option<usize>) -> Vec<u8> {
        for step in 0..STEPS {
            if cut_at == Some(step) {
                let a = self.dice.roll(3) as usize;
                let b = (a + 1 + self.dice.roll(2) as usize) % 3;
                self.cut = Some((a, b));
                self.shared.net().cut(a as u32, b as u32, Errno::ECONNRESET);
            }
            self.step();
        }
        self.drain();
        self.judge();
        self.shared.net().emitted.keys().copied().collect()
    }

    fn step(&mut self) {
        let node = self.dice.roll(3) as usize;
        let peer = self.dice.roll(3) as usize;
        match self.dice.roll(14) {
            0..=2 => self.send(node, peer),
            3..=4 => self.recv(node),
            5 => self.write(node, peer),
            6 => self.read(node, peer),
            7 => self.add(node, peer),
            8 => self.cancel(),
            9..=10 => self.nodes[node].engine.progress(),
            _ => {
                let packets = self.dice.roll(4) as usize;
                self.shared.net().deliver(node as u32, peer as u32, packets);
                self.nodes[peer].engine.progress();
            }
        }
        self.collect();
    }

    /// Adds an operation if it was accepted.
    fn posted(&mut self, node: usize, result: Result<()>, what: What, silent: bool) {
        match result {
            Ok(()) => {
                self.ops.push(Posted { node, what, silent, cancelled: false, done: 0 });
            }
            Err(reason) => assert_eq!(reason, Errno::EAGAIN),
        }
    }

    fn meta(&mut self, peer: usize, len: usize) -> TxMeta {
        let dice = &mut self.dice;
        let mut flags = Flags::REMOTE_CQ_DATA;
        let mut silent = false;
        match dice.roll(8) {
            0 => flags |= Flags::FENCE,
            1 => flags |= Flags::DELIVERY_COMPLETE,
            2 if len <= LIMITS.inject => flags |= Flags::INJECT,
            3 if len <= LIMITS.inject => silent = true,
            _ => {}
        }
        TxMeta { dest: peer as u64, context: self.ops.len(), flags, data: 0, silent }
    }

    /// For operations that make no entry at the target.
    fn without_data(&mut self, peer: usize) -> TxMeta {
        let meta = self.meta(peer, usize::MAX);
        TxMeta { flags: meta.flags - Flags::REMOTE_CQ_DATA, ..meta }
    }

    fn send(&mut self, node: usize, peer: usize) {
        let len = self.dice.pick(&SIZES);
        let id = self.messages.len() as u64 + 1;
        let tag = if self.dice.one_in(3) { None } else { Some(self.dice.roll(3)) };
        let meta = TxMeta { data: id, ..self.meta(peer, len) };
        let mut bytes = pattern(id, len);
        let (x, y) = bytes.split_at_mut(len / 3);
        let pieces = [iov(x), iov(y)];
        self.shared.net().memory.extend(pieces);
        let result = if meta.injects() {
            // The memory may change as soon as the call has returned.
            let mut scratch = bytes.clone();
            let result = self.nodes[node].send(meta, tag, &[iov(&mut scratch)]);
            scratch.fill(0xee);
            result
        } else {
            self.nodes[node].send(meta, tag, &pieces)
        };
        if result.is_ok() {
            self.messages.insert(id, Message { src: node, dst: peer, tag, bytes });
        }
        // Payloads that were copied are offered from memory that nobody announced.
        self.allow_copies(node);
        self.posted(node, result, What::Send, meta.silent);
    }

    fn allow_copies(&self, node: usize) {
        let owned = self.nodes[node].engine.core.ops.iter();
        let pieces = owned.flat_map(|(_, op)| op.payload.buffers().iov().to_vec());
        self.shared.net().memory.extend(pieces);
    }

    fn recv(&mut self, node: usize) {
        let dice = &mut self.dice;
        let tag = if dice.one_in(3) { None } else { Some(dice.roll(3)) };
        let ignore = if tag.is_some() && dice.one_in(3) { u64::MAX } else { 0 };
        let src = if dice.one_in(3) { dice.roll(3) } else { ADDR_UNSPEC };
        if self.cut.is_some_and(|(a, b)| src != ADDR_UNSPEC && (a == node || b == node)) {
            // Nobody would ever end this one.
            return;
        }
        let (multi, len) = (dice.one_in(6), dice.pick(&SIZES));
        self.post(node, Want { tag, ignore, src }, multi, if multi { 5000 } else { len });
    }

    fn post(&mut self, node: usize, want: Want, multi: bool, len: usize) {
        let mut room = vec![0; len];
        self.shared.net().memory.push(iov(&mut room));
        let flags = if multi { Flags::MULTI_RECV } else { Flags::empty() };
        let op = RecvOp {
            iov: &[iov(&mut room)],
            src: want.src,
            tagged: want.tag.is_some(),
            tag: want.tag.unwrap_or(0),
            ignore: want.ignore,
            context: self.ops.len(),
            flags,
        };
        let result = self.nodes[node].recv(op);
        let (got, places) = (Vec::new(), BTreeMap::new());
        self.posted(node, result, What::Recv { want, room, got, multi, places }, false);
    }

    fn write(&mut self, node: usize, target: usize) {
        let len = self.dice.pick(&SIZES);
        let at = self.next_write;
        self.next_write += len;
        let bad = self.dice.one_in(8);
        let mut bytes = pattern(at as u64, len);
        let source = iov(&mut bytes);
        self.shared.net().memory.push(source);
        let meta = self.without_data(target);
        let key = if bad { NO_KEY } else { OPEN };
        let half = len / 2;
        let remote = [
            RmaIov { addr: at as u64, len: half, key },
            RmaIov { addr: (at + half) as u64, len: len - half, key },
        ];
        let result = self.nodes[node].rma(meta, RmaKind::Write, &[source], &remote);
        self.posted(node, result, What::Write { target, at, bytes, bad }, false);
    }

    fn read(&mut self, node: usize, target: usize) {
        let len = self.dice.pick(&SIZES);
        let at = self.dice.roll(10_000) as usize;
        let bad = self.dice.one_in(8);
        let mut room = vec![0; len];
        self.shared.net().memory.push(iov(&mut room));
        let meta = self.without_data(target);
        let key = if bad { NO_KEY } else { STILL };
        let remote = [RmaIov { addr: at as u64, len, key }];
        let result = self.nodes[node].rma(meta, RmaKind::Read, &[iov(&mut room)], &remote);
        // The pattern is the target's.
        let at = at + target * 1_000_000;
        self.posted(node, result, What::Read { at, room, bad }, false);
    }

    fn add(&mut self, node: usize, target: usize) {
        let word = self.dice.roll(4) as usize;
        let mut result = Box::new([0; 8]);
        let meta = self.without_data(target);
        let remote = [RmaIov { addr: word as u64 * 8, len: 8, key: COUNT }];
        let (operand, old) = (iov(&mut self.one[..]), iov(&mut result[..]));
        let posted = self.nodes[node].fetch_add(meta, &[operand], &[old], &remote);
        self.posted(node, posted, What::Add { target, word, result }, false);
    }

    fn cancel(&mut self) {
        if self.ops.is_empty() {
            return;
        }
        let context = self.dice.roll(self.ops.len() as u64) as usize;
        self.ops[context].cancelled = true;
        let node = self.ops[context].node;
        self.nodes[node].engine.cancel(context);
    }

    fn collect(&mut self) {
        for n in 0..self.nodes.len() {
            for done in self.nodes[n].sent() {
                self.check_sent(n, &done);
            }
            for done in self.nodes[n].received() {
                self.check_received(n, &done);
            }
        }
    }

    fn check_sent(&mut self, n: usize, done: &Done) {
        let op = &mut self.ops[done.entry().context];
        assert_eq!(op.node, n);
        op.done += 1;
        assert_eq!(op.done, 1, "an operation ends once");
        if let Done::Err(error) = done {
            let bad =
                matches!(op.what, What::Write { bad: true, .. } | What::Read { bad: true, .. });
            let expected = match error.err {
                Errno::ECANCELED => op.cancelled,
                Errno::ECONNRESET => self.cut.is_some(),
                Errno::ENOKEY => bad,
                _ => false,
            };
            assert!(expected, "{error:?}");
            return;
        }
        assert!(!op.silent);
        match &op.what {
            What::Send => {}
            What::Write { target, at, bytes, bad } => {
                assert!(!bad);
                assert_eq!(self.open[*target][*at..*at + bytes.len()], bytes[..]);
            }
            What::Read { at, room, bad } => {
                assert!(!bad);
                let (target, at) = (at / 1_000_000, at % 1_000_000);
                assert_eq!(self.still[target][at..at + room.len()], room[..]);
            }
            What::Add { .. } => {}
            What::Recv { .. } => panic!("a receive among the sends"),
        }
    }

    fn check_received(&mut self, n: usize, done: &Done) {
        let entry = done.entry();
        let op = &mut self.ops[entry.context];
        assert_eq!(op.node, n);
        let What::Recv { want, room, got, multi, places } = &mut op.what else {
            panic!("no receive: {done:?}")
        };
        let released = entry.flags & Flags::MULTI_RECV.bits() != 0;
        assert_eq!(op.done, 0, "nothing comes after the end");
        op.done += usize::from(!*multi || released);
        assert!(*multi || !released);
        let mut excess = 0;
        if let Done::Err(error) = done {
            let expected = match error.err {
                Errno::ECANCELED => op.cancelled,
                Errno::ECONNRESET => self.cut.is_some(),
                Errno::ETRUNC => true,
                _ => false,
            };
            assert!(expected, "{error:?}");
            if error.err != Errno::ETRUNC && entry.data == 0 {
                return;
            }
            excess = error.olen;
        }
        let id = entry.data;
        let message = &self.messages[&id];
        assert!(self.received.insert(id, entry.context).is_none(), "a message arrives once");
        assert_eq!((message.dst, message.src as u64), (n, entry.src));
        assert_eq!(message.tag.unwrap_or(0), entry.tag);
        assert_eq!(message.tag.is_some(), want.tag.is_some());
        assert!((entry.tag ^ want.tag.unwrap_or(0)) & !want.ignore == 0);
        assert!(want.src == ADDR_UNSPEC || want.src == entry.src);
        if let Done::Err(error) = done
            && error.err != Errno::ETRUNC
        {
            return;
        }
        assert_eq!(entry.len + excess, message.bytes.len());
        let at = if *multi { entry.buf - room.as_ptr() as usize } else { 0 };
        assert_eq!(room[at..at + entry.len], message.bytes[..entry.len]);
        got.push(id);
        // Empty messages share their place with the next one.
        if entry.len != 0 {
            places.insert(at, id);
        }
    }

    /// Lets everything come to its end.
    fn drain(&mut self) {
        {
            let net = &mut self.shared.net();
            net.script.refuse_every = 0;
            net.script.delayed = false;
            net.script.room = usize::MAX;
        }
        for _ in 0..1000 {
            for _ in 0..20 {
                for (from, to) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
                    self.shared.net().deliver(from, to, usize::MAX >> 1);
                }
                self.nodes.iter_mut().for_each(|node| node.engine.progress());
            }
            self.collect();
            let mut quiet = self.shared.net().is_idle();
            for node in 0..self.nodes.len() {
                if self.nodes[node].engine.core.inbox.waiting_len() != 0 {
                    quiet = false;
                    self.post(node, Want { tag: None, ignore: 0, src: ADDR_UNSPEC }, false, 9000);
                    let any = Want { tag: Some(0), ignore: u64::MAX, src: ADDR_UNSPEC };
                    self.post(node, any, false, 9000);
                }
            }
            if quiet {
                break;
            }
        }
        for context in 0..self.ops.len() {
            if self.ops[context].done == 0 && matches!(self.ops[context].what, What::Recv { .. }) {
                self.ops[context].cancelled = true;
                let node = self.ops[context].node;
                self.nodes[node].engine.cancel(context);
            }
        }
        self.collect();
    }

    fn judge(&self) {
        self.nodes.iter().for_each(Node::assert_idle);
        assert_eq!(self.shared.net().failed, [], "nobody broke the protocol");
        assert_eq!(self.shared.net().strayed, 0);
        for (context, op) in self.ops.iter().enumerate() {
            assert!(op.done == 1 || op.silent, "operation {context} never ended");
        }
        let mut lists: HashMap<_, u64> = HashMap::new();
        let mut later = |key, id: u64, context: usize| {
            let last = lists.insert(key, id).unwrap_or(0);
            assert!(last < id, "message {id} overtook {last} into receive {context}");
        };
        for (context, op) in self.ops.iter().enumerate() {
            let What::Recv { want, got, multi, places, .. } = &op.what else { continue };
            if *multi {
                let alone = Some(context);
                places.values().for_each(|id| {
                    later((op.node, *want, self.messages[id].src, alone), *id, context)
                });
            } else {
                got.iter().for_each(|id| {
                    later((op.node, *want, self.messages[id].src, None), *id, context)
                });
            }
        }
        let mut fetched: HashMap<(usize, usize), BTreeSet<u64>> = HashMap::new();
        for op in &self.ops {
            if let What::Add { target, word, result } = &op.what
                && op.done == 1
                && !op.cancelled
                && self.cut.is_none()
            {
                let old = u64::from_ne_bytes(**result);
                assert!(fetched.entry((*target, *word)).or_default().insert(old));
            }
        }
        if self.cut.is_none() {
            let expected =
                self.ops.iter().filter(|op| matches!(op.what, What::Send) && !op.cancelled);
            assert!(self.received.len() >= expected.count(), "every message arrived");
        }
    }
}
