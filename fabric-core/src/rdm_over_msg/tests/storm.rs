//! Random operations over random connections: each accepted one completes exactly once, with the right
//! bytes, in the right order, and nothing is left behind.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use proptest::{collection::vec, prelude::*};

use super::{
    super::Limits,
    dice::Dice,
    node::{Done, LIMITS, Node, iov, meta, nodes, pattern, want},
    world::{Script, Shared},
};
use crate::{
    Errno, Result,
    atomic::{atomic_op, datatype},
    flags::Flags,
    op::{ADDR_UNSPEC, AtomicKind, RecvOp, RmaIov, RmaKind, TxMeta},
};

const NODES: usize = 3;
const STEPS: usize = 120;
const SIZES: [usize; 8] = [0, 1, 200, 201, 1025, 3000, 5001, 20_000];
const ROOM: usize = 20_000;
/// Of each node: a part that nobody changes, one for each writer, and a number that all count up.
const STILL: u64 = 1;
const SLOTS: u64 = 2;
const SUM: u64 = 3;
const REGIONS: usize = 3;
const PART: usize = 20_000;

#[test]
fn storms() {
    for seed in 0..60 {
        Storm::new(Plan::of(seed)).run();
    }
}

#[test]
fn storms_with_a_cut_at_any_step() {
    for seed in 0..60 {
        Storm::new(Plan { cuts: vec![2 * seed as usize], ..Plan::of(seed + 1000) }).run();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    /// What fails is made as simple as it can be and still fail.
    #[test]
    fn storms_of_any_schedule(
        (refuse, late, parts, told, lost) in (often(), often(), often(), often(), often()),
        seed in any::<u64>(),
        written in any::<bool>(),
        cuts in vec(0..STEPS, 0..4),
    ) {
        let script = Script { refuse, late, parts, told, lost, seed };
        Storm::new(Plan { script, written, cuts }).run();
    }
}

fn often() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 2..8u64]
}

/// How a storm goes.
#[derive(Clone, Debug)]
struct Plan {
    script: Script,
    written: bool,
    /// Steps before which connections are cut.
    cuts: Vec<usize>,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut often = || [0, 2, 5][dice.roll(3) as usize];
        let (refuse, late, parts, told) = (often(), often(), often(), often());
        let script = Script { refuse, late, parts, told, lost: 0, seed };
        Self { script, written: dice.one_in(3), cuts: Vec::new() }
    }
}

/// What an operation is, by its context.
enum What {
    Send,
    Recv { bytes: Vec<u8>, src: u64, got: Option<u64> },
    Write,
    Read { bytes: Vec<u8>, target: usize, at: usize },
    Count { target: usize, before: Box<[u8; 8]>, done: bool },
}

/// Where CPUs count.
#[derive(Clone, Default)]
#[repr(align(8))]
struct Sum([u8; 8]);

struct Posted {
    node: usize,
    tag: Option<u64>,
    what: What,
    done: usize,
}

/// What a message is, by its remote data.
struct Message {
    src: usize,
    dst: usize,
    tag: Option<u64>,
    bytes: Vec<u8>,
}

struct Storm {
    seed: u64,
    dice: Dice,
    plan: Plan,
    shared: Shared,
    nodes: Vec<Node>,
    still: Vec<Vec<u8>>,
    slots: Vec<Vec<u8>>,
    /// What the slots should hold in the end.
    expected: Vec<Vec<u8>>,
    sums: Vec<Sum>,
    posted: Vec<Posted>,
    messages: Vec<Message>,
    /// Memory of sends and writes.
    sources: Vec<Vec<u8>>,
    was_cut: bool,
}

impl Storm {
    fn new(plan: Plan) -> Self {
        let limits = Limits { written: plan.written, ..LIMITS };
        let (shared, nodes) = nodes(NODES as u16, plan.script, limits);
        let mut still: Vec<_> = (0..NODES as u64).map(|n| pattern(n, PART)).collect();
        let mut slots = vec![vec![0; NODES * PART]; NODES];
        let mut sums = vec![Sum::default(); NODES];
        for (n, node) in nodes.iter().enumerate() {
            node.expose(STILL, &mut still[n]);
            node.expose(SLOTS, &mut slots[n]);
            node.expose(SUM, &mut sums[n].0);
        }
        Self {
            seed: plan.script.seed,
            dice: Dice::new(plan.script.seed),
            plan,
            shared,
            nodes,
            still,
            expected: slots.clone(),
            slots,
            sums,
            posted: Vec::new(),
            messages: Vec::new(),
            sources: Vec::new(),
            was_cut: false,
        }
    }

    fn run(mut self) {
        for step in 0..STEPS {
            if self.plan.cuts.contains(&step) {
                if self.dice.one_in(2) {
                    self.shared.cut();
                } else {
                    self.shared.cut_some();
                }
                self.was_cut = true;
            }
            let node = self.dice.roll(NODES as u64) as usize;
            match self.dice.roll(13) {
                0..4 => self.send(node),
                4..7 => self.receive(node),
                7 => self.write(node),
                8 => self.read(node),
                9 => self.count(node),
                _ => self.nodes[node].engine.progress(),
            }
            self.collect();
        }
        self.finish();
        for (n, node) in self.nodes.iter().enumerate() {
            node.assert_idle(REGIONS);
            assert!(self.still[n] == pattern(n as u64, PART));
        }
        assert!(self.was_cut || self.slots == self.expected, "seed {}: writes", self.seed);
        self.check_order();
        self.check_counts();
    }

    fn tag(&mut self) -> Option<u64> {
        Some(self.dice.roll(3)).filter(|tag| *tag != 2)
    }

    fn post(&mut self, node: usize, tag: Option<u64>, what: What) -> usize {
        self.posted.push(Posted { node, tag, what, done: 0 });
        self.posted.len() - 1
    }

    /// The call was refused.
    fn take_back(&mut self, refused: Result<()>) -> bool {
        if let Err(reason) = refused {
            assert_eq!(reason, Errno::EAGAIN);
            self.posted.pop();
        }
        refused.is_err()
    }

    fn send(&mut self, node: usize) {
        let dst = self.dice.roll(NODES as u64) as usize;
        let tag = self.tag();
        let size = SIZES[self.dice.roll(SIZES.len() as u64) as usize];
        let id = self.messages.len() as u64;
        let mut bytes = pattern(id, size);
        let mut flags = Flags::COMPLETION | Flags::REMOTE_CQ_DATA;
        match self.dice.roll(6) {
            0 => flags |= Flags::DELIVERY_COMPLETE,
            1 => flags |= Flags::FENCE,
            2 if size <= LIMITS.inject => flags |= Flags::INJECT,
            _ => {}
        }
        let context = self.post(node, tag, What::Send);
        let meta = TxMeta { flags, data: id, ..meta(dst as u64, context) };
        let sent = self.nodes[node].send(meta, tag, &[iov(&mut bytes)]);
        if self.take_back(sent) {
            return;
        }
        self.messages.push(Message { src: node, dst, tag, bytes: pattern(id, size) });
        if flags.contains(Flags::INJECT) {
            bytes.fill(0xee);
        }
        self.sources.push(bytes);
    }

    fn receive(&mut self, node: usize) {
        let src = match self.dice.roll(2 * NODES as u64) {
            src if src < NODES as u64 => src,
            _ => ADDR_UNSPEC,
        };
        let tag = self.tag();
        self.receive_from(node, src, tag);
    }

    fn receive_from(&mut self, node: usize, src: u64, tag: Option<u64>) {
        let mut bytes = vec![0; ROOM];
        let piece = [iov(&mut bytes)];
        let context = self.post(node, tag, What::Recv { bytes, src, got: None });
        let tagged = tag.is_some();
        let receive = want(context, tag.unwrap_or_default());
        self.nodes[node].recv(RecvOp { iov: &piece, src, tagged, ..receive }).unwrap();
    }

    fn write(&mut self, node: usize) {
        let target = self.dice.roll(NODES as u64) as usize;
        let len = [1, 100, 5000, 15_000][self.dice.roll(4) as usize];
        let at = node * PART + self.dice.roll((PART - len) as u64) as usize;
        let mut bytes = pattern(self.posted.len() as u64, len);
        let context = self.post(node, None, What::Write);
        let write = RmaIov { addr: at as u64, len, key: SLOTS };
        let meta = meta(target as u64, context);
        let posted = self.nodes[node].rma(meta, RmaKind::Write, &[iov(&mut bytes)], &[write]);
        if self.take_back(posted) {
            return;
        }
        self.expected[target][at..at + len].copy_from_slice(&bytes);
        self.sources.push(bytes);
    }

    fn read(&mut self, node: usize) {
        let target = self.dice.roll(NODES as u64) as usize;
        let len = [0, 1, 3000, 18_000][self.dice.roll(4) as usize];
        let at = self.dice.roll((PART - len) as u64) as usize;
        let mut bytes = vec![0; len];
        let place = [iov(&mut bytes)];
        let context = self.post(node, None, What::Read { bytes, target, at });
        let still = RmaIov { addr: at as u64, len, key: STILL };
        // The memory is the operation's from here on.
        let meta = meta(target as u64, context);
        let posted = self.nodes[node].rma(meta, RmaKind::Read, &place, &[still]);
        self.take_back(posted);
    }

    fn count(&mut self, node: usize) {
        let target = self.dice.roll(NODES as u64) as usize;
        let mut before = Box::new([0; 8]);
        let place = iov(&mut before[..]);
        let context = self.post(node, None, What::Count { target, before, done: false });
        let kind = (AtomicKind::Fetch, datatype::UINT64, atomic_op::SUM);
        let meta = meta(target as u64, context);
        let posted = self.nodes[node].fetch(meta, kind, &mut 1u64.to_ne_bytes(), place, SUM);
        self.take_back(posted);
    }

    fn collect(&mut self) {
        for node in 0..NODES {
            let all = [self.nodes[node].sent(), self.nodes[node].received()].concat();
            for done in all {
                self.completed(node, &done);
            }
        }
    }

    fn completed(&mut self, node: usize, done: &Done) {
        let seed = self.seed;
        let posted = &mut self.posted[done.context()];
        assert_eq!(posted.node, node, "seed {seed}");
        posted.done += 1;
        assert_eq!(posted.done, 1, "seed {seed}: {done:?}");
        let entry = match done {
            Done::Ok(entry) => entry,
            Done::Err(error) => {
                let own = error.err == Errno::ECANCELED;
                assert!(own || self.was_cut, "seed {seed}: {error:?}");
                return;
            }
        };
        match &mut posted.what {
            What::Send | What::Write => {}
            What::Count { done, .. } => *done = true,
            What::Read { bytes, target, at } => {
                let original = &pattern(*target as u64, PART)[*at..*at + bytes.len()];
                assert!(bytes == original, "seed {seed}: a read");
            }
            What::Recv { bytes, src, got } => {
                let message = &self.messages[entry.data as usize];
                assert_eq!((message.dst, message.tag), (node, posted.tag), "seed {seed}");
                assert!([ADDR_UNSPEC, message.src as u64].contains(src), "seed {seed}");
                assert_eq!((entry.src, entry.len), (message.src as u64, message.bytes.len()));
                assert!(bytes[..entry.len] == message.bytes, "seed {seed}: a message");
                *got = Some(entry.data);
            }
        }
    }

    /// Receives what is left, and takes back what nothing came for.
    fn finish(&mut self) {
        self.settle();
        for node in 0..NODES {
            for tag in [Some(0), Some(1), None] {
                let sent = self.messages.iter().filter(|m| (m.dst, m.tag) == (node, tag)).count();
                (0..sent).for_each(|_| self.receive_from(node, ADDR_UNSPEC, tag));
            }
        }
        self.settle();
        for context in 0..self.posted.len() {
            let posted = &self.posted[context];
            if matches!(posted.what, What::Recv { .. }) && posted.done == 0 {
                let node = &mut self.nodes[posted.node];
                node.engine.cancel(context);
            }
        }
        self.settle();
        for (context, posted) in self.posted.iter().enumerate() {
            assert_eq!(posted.done, 1, "seed {}: operation {context}", self.seed);
        }
    }

    /// Until no byte moves for longer than peers are tried again.
    fn settle(&mut self) {
        const LOOK: Duration = Duration::from_millis(500);
        let mut quiet = Duration::ZERO;
        while quiet < LIMITS.connect + Duration::from_secs(2) {
            let before = self.shared.moved();
            self.shared.wait(LOOK);
            for _ in 0..40 {
                self.nodes.iter_mut().for_each(|node| node.engine.progress());
            }
            self.collect();
            quiet = if before == self.shared.moved() { quiet + LOOK } else { Duration::ZERO };
        }
    }

    /// Each number was the sum before one operation.
    fn check_counts(&self) {
        for (node, sum) in self.sums.iter().enumerate() {
            let (mut posted, mut seen) = (0, HashSet::new());
            for what in self.posted.iter().map(|posted| &posted.what) {
                let What::Count { target, before, done } = what else { continue };
                if *target == node {
                    posted += 1;
                    assert!(!done || seen.insert(u64::from_ne_bytes(**before)), "{}", self.seed);
                }
            }
            let (sum, least) = (u64::from_ne_bytes(sum.0), seen.len() as u64);
            assert!((least..=posted).contains(&sum), "seed {}: {sum} of {posted}", self.seed);
            assert!(self.was_cut || sum == posted && least == posted, "seed {}", self.seed);
            assert!(seen.iter().all(|before| *before < sum), "seed {}", self.seed);
        }
    }

    /// Each message came once at most, without a cut once; those of one sender and tag met receives
    /// in the order in which both were posted.
    fn check_order(&self) {
        let mut last: HashMap<(usize, usize, Option<u64>), u64> = HashMap::new();
        let mut count = 0;
        for posted in &self.posted {
            let What::Recv { got: Some(id), .. } = posted.what else { continue };
            let message = &self.messages[id as usize];
            let before = last.insert((message.src, message.dst, message.tag), id);
            assert!(before.is_none_or(|before| before < id), "seed {}: order", self.seed);
            count += 1;
        }
        assert!(self.was_cut || count == self.messages.len(), "seed {}", self.seed);
    }
}
