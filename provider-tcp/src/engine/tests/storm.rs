//! Random operations over random networks: each accepted one completes exactly once, with the right
//! bytes, in the right order, and nothing is left behind.

use std::{collections::HashMap, time::Duration};

use fabric_core::{
    Errno,
    flags::Flags,
    op::{ADDR_UNSPEC, RecvOp, RmaKind, TxMeta},
};

use super::{
    dice::Dice,
    net::{Script, Shared},
    node::{Done, LIMITS, Node, introduce, iov, meta, pattern, settle, want},
};

const NODES: usize = 3;
const STEPS: usize = 120;
const SIZES: [usize; 8] = [0, 1, 100, 4096, 4097, 9000, 65537, 90_000];
const ROOM: usize = 90_000;
/// Of each node: a part that nobody changes, then one for each writer.
const STILL: u64 = 1;
const SLOTS: u64 = 2;
const PART: usize = 20_000;

#[test]
fn storms() {
    for seed in 0..60 {
        Storm::new(seed).run(None);
    }
}

#[test]
fn storms_with_a_cut_at_any_step() {
    for seed in 0..60 {
        Storm::new(seed + 1000).run(Some(seed as usize * 2));
    }
}

/// What an operation is, by its context.
enum What {
    Send,
    Recv { bytes: Vec<u8>, src: u64, got: Option<u64> },
    Write,
    Read { bytes: Vec<u8>, target: usize, at: usize },
}

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
    shared: Shared,
    nodes: Vec<Node>,
    still: Vec<Vec<u8>>,
    slots: Vec<Vec<u8>>,
    /// What the slots should hold in the end.
    expected: Vec<Vec<u8>>,
    posted: Vec<Posted>,
    messages: Vec<Message>,
    /// Memory of sends and writes.
    sources: Vec<Vec<u8>>,
    was_cut: bool,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let chunk = [usize::MAX, 5000, 700, 90][dice.roll(4) as usize];
        let room = [300, 5000, 100_000][dice.roll(3) as usize];
        let late = [0, 2, 5][dice.roll(3) as usize];
        let shared = Shared::new(Script { chunk, room, late, seed });
        let names = ["10.0.0.1:0", "10.0.0.2:0", "10.0.0.3:0"];
        let mut nodes: Vec<Node> =
            names.iter().map(|at| Node::new(&shared, at, at, LIMITS)).collect();
        introduce(&mut nodes.iter_mut().collect::<Vec<_>>());
        let mut still: Vec<_> = (0..NODES as u64).map(|n| pattern(n, PART)).collect();
        let mut slots = vec![vec![0; NODES * PART]; NODES];
        for (n, node) in nodes.iter().enumerate() {
            node.expose(STILL, &mut still[n]);
            node.expose(SLOTS, &mut slots[n]);
        }
        Self {
            seed,
            dice,
            shared,
            nodes,
            still,
            expected: slots.clone(),
            slots,
            posted: Vec::new(),
            messages: Vec::new(),
            sources: Vec::new(),
            was_cut: false,
        }
    }

    fn run(mut self, cut_at: Option<usize>) {
        for step in 0..STEPS {
            if cut_at == Some(step) {
                self.shared.cut();
                self.was_cut = true;
            }
            let node = self.dice.roll(NODES as u64) as usize;
            match self.dice.roll(12) {
                0..4 => self.send(node),
                4..7 => self.receive(node),
                7 => self.write(node),
                8 => self.read(node),
                _ => self.nodes[node].engine.progress(),
            }
            self.collect();
        }
        self.finish();
        for (n, node) in self.nodes.iter().enumerate() {
            node.assert_idle();
            assert!(self.still[n] == pattern(n as u64, PART));
        }
        assert!(self.was_cut || self.slots == self.expected, "seed {}: writes", self.seed);
        self.check_order();
    }

    fn tag(&mut self) -> Option<u64> {
        Some(self.dice.roll(3)).filter(|tag| *tag != 2)
    }

    fn post(&mut self, node: usize, tag: Option<u64>, what: What) -> usize {
        self.posted.push(Posted { node, tag, what, done: 0 });
        self.posted.len() - 1
    }

    /// The call was refused.
    fn take_back(&mut self, refused: fabric_core::Result<()>) -> bool {
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
        let write = (at as u64, SLOTS);
        let meta = meta(target as u64, context);
        let posted = self.nodes[node].rma(meta, RmaKind::Write, &mut bytes, write);
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
        // The memory is the operation's from here on.
        let meta = meta(target as u64, context);
        let posted = self.nodes[node].rma_into(meta, RmaKind::Read, &place, (at as u64, STILL));
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
                node.engine.cancel(node.ep, context);
            }
        }
        self.settle();
        for (context, posted) in self.posted.iter().enumerate() {
            assert_eq!(posted.done, 1, "seed {}: operation {context}", self.seed);
        }
    }

    /// Until no byte moves. Time passes, for peers that have to be tried again.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 4 {
            let before = self.shared.moved();
            self.shared.wait(Duration::from_millis(300));
            settle(&mut self.nodes.iter_mut().collect::<Vec<_>>());
            self.collect();
            quiet = if before == self.shared.moved() { quiet + 1 } else { 0 };
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
