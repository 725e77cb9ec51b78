//! Engines with queues, regions and address vectors around them, and operations on them.

use std::{sync::Arc, time::Duration};

use super::{
    super::{Address, Engine, Limits},
    at::At,
    world::{Script, Shared, TestTransport, regions},
};
use crate::{
    Errno, Result,
    attr::{AvType, CqFormat, addr_format},
    av::{AddressFormat, Av},
    completion::{CompletionQueue, CqBinding, CqError, Entry, EntryBuf},
    flags::Flags,
    lock::NoLock,
    mem::Buffers,
    mr::{MrRequest, MrTable, Region},
    op::{
        ADDR_UNSPEC, AtomicKind, AtomicOp, IoVec, RecvOp, RmaIov, RmaKind, RmaOp, SendOp, TxMeta,
    },
};

/// Four bytes, all of them.
struct Numbers;

impl AddressFormat for Numbers {
    fn addr_format(&self) -> u32 {
        addr_format::STR
    }
    fn parse(&self, bytes: &[u8]) -> Result<(Box<[u8]>, usize)> {
        Ok((bytes.get(..4).ok_or(Errno::EINVAL)?.into(), 4))
    }
    fn text(&self, canonical: &[u8]) -> String {
        format!("{canonical:?}")
    }
    fn addr_len(&self) -> Option<usize> {
        Some(4)
    }
    fn service_address(&self, _: Option<&str>, _: Option<&str>) -> Result<Box<[u8]>> {
        Err(Errno::EINVAL)
    }
}

pub(super) const LIMITS: Limits = Limits {
    inject: 256,
    ranges: 0,
    outstanding: 64,
    eager: 1024,
    segmented: 5000,
    written: false,
    min_multi_recv: 64,
    directed: true,
    source: true,
    rma_event: false,
    connect: Duration::from_secs(10),
};

/// What came out of a queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Done {
    Ok(Entry),
    Err(CqError),
}

impl Done {
    pub(super) fn context(&self) -> usize {
        match self {
            Self::Ok(entry) => entry.context,
            Self::Err(error) => error.entry.context,
        }
    }

    pub(super) fn ok(&self) -> &Entry {
        match self {
            Self::Ok(entry) => entry,
            Self::Err(error) => panic!("failed: {error:?}"),
        }
    }

    pub(super) fn err(&self) -> &CqError {
        match self {
            Self::Ok(entry) => panic!("did not fail: {entry:?}"),
            Self::Err(error) => error,
        }
    }
}

/// An endpoint. The handle of the `n`th node of its test is `n`.
pub(super) struct Node {
    pub(super) engine: Engine<TestTransport, NoLock>,
    tx: Arc<CompletionQueue<NoLock>>,
    rx: Arc<CompletionQueue<NoLock>>,
    pub(super) regions: Arc<MrTable>,
    pub(super) av: Arc<Av>,
}

/// Nodes that know each other, on hosts 1, 2 and so on.
pub(super) fn nodes(count: u16, script: Script, limits: Limits) -> (Shared, Vec<Node>) {
    let shared = Shared::new(script);
    let nodes: Vec<Node> = (0..count).map(|n| Node::new(&shared, At(n + 1, 7), limits)).collect();
    for node in &nodes {
        for n in 0..count {
            node.knows(At(n + 1, 7));
        }
    }
    (shared, nodes)
}

pub(super) fn pair(script: Script) -> (Shared, Node, Node) {
    pair_with(script, LIMITS)
}

pub(super) fn pair_with(script: Script, limits: Limits) -> (Shared, Node, Node) {
    let (shared, mut nodes) = nodes(2, script, limits);
    let (b, a) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    (shared, a, b)
}

/// Moves all until none has anything to do.
pub(super) fn settle(nodes: &mut [&mut Node]) {
    for _ in 0..200 {
        for node in &mut *nodes {
            node.engine.progress();
        }
    }
}

pub(super) fn meta(dest: u64, context: usize) -> TxMeta {
    TxMeta { dest, context, flags: Flags::COMPLETION, data: 0, silent: false }
}

pub(super) fn iov(bytes: &mut [u8]) -> IoVec {
    IoVec { base: bytes.as_mut_ptr(), len: bytes.len() }
}

/// A tagged receive from anyone, without memory.
pub(super) fn want(context: usize, tag: u64) -> RecvOp<'static> {
    let flags = Flags::COMPLETION;
    RecvOp { iov: &[], src: ADDR_UNSPEC, tagged: true, tag, ignore: 0, context, flags }
}

/// Bytes that differ from place to place.
pub(super) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let byte = |n: u64| (n.wrapping_mul(31) ^ seed.wrapping_mul(151) ^ (n >> 8)) as u8;
    (0..len as u64).map(byte).collect()
}

/// Describes memory that the caller keeps until the operation has ended.
fn buffers(pieces: &[IoVec]) -> Buffers {
    // SAFETY: the tests keep memory for as long as they keep nodes.
    unsafe { Buffers::new(pieces) }.unwrap()
}

impl Node {
    pub(super) fn new(shared: &Shared, at: At, limits: Limits) -> Self {
        let regions = regions();
        let av = Av::open(AvType::Table, 0, Flags::empty(), &Numbers).unwrap();
        let queue = || Arc::new(CompletionQueue::new(16, None));
        let (tx, rx) = (queue(), queue());
        let bind = |queue: &Arc<_>| Some(CqBinding { queue: Arc::clone(queue), selective: false });
        let transport = shared.transport(at, regions.clone());
        let mut engine = Engine::new(transport, regions.clone(), limits);
        engine.set_av(Some(av.clone()));
        (engine.core.report.tx, engine.core.report.rx) = (bind(&tx), bind(&rx));
        engine.listen().unwrap();
        Self { engine, tx, rx, regions, av }
    }

    /// Adds a peer to the address vector.
    pub(super) fn knows(&self, at: At) -> u64 {
        self.av.insert(&at.to_bytes(), None).unwrap()
    }

    /// All completions of operations that this node started.
    pub(super) fn sent(&self) -> Vec<Done> {
        drain(&self.tx)
    }

    /// All completions of receives and of peers' accesses.
    pub(super) fn received(&self) -> Vec<Done> {
        drain(&self.rx)
    }

    pub(super) fn send(&mut self, meta: TxMeta, tag: Option<u64>, pieces: &[IoVec]) -> Result<()> {
        let (tagged, tag) = (tag.is_some(), tag.unwrap_or(0));
        self.engine.post_send(&SendOp { meta, iov: pieces, tagged, tag }, buffers(pieces))
    }

    pub(super) fn recv(&mut self, op: RecvOp<'_>) -> Result<()> {
        self.engine.post_recv(&op, buffers(op.iov))
    }

    /// Receives under `tag` from anyone, into memory that the caller keeps.
    pub(super) fn trecv(&mut self, context: usize, tag: u64, bytes: &mut [u8]) {
        self.recv(RecvOp { iov: &[iov(bytes)], ..want(context, tag) }).unwrap();
    }

    pub(super) fn rma(
        &mut self,
        meta: TxMeta,
        kind: RmaKind,
        pieces: &[IoVec],
        remote: &[RmaIov],
    ) -> Result<()> {
        self.engine.post_rma(&RmaOp { meta, kind, iov: pieces, remote }, buffers(pieces))
    }

    /// An atomic operation on the front of the peer's memory under `key`.
    pub(super) fn atomic(
        &mut self,
        meta: TxMeta,
        (kind, datatype, op): (AtomicKind, u32, u32),
        [operand, compare, result]: [&mut [u8]; 3],
        key: u64,
    ) -> Result<()> {
        let remote = [RmaIov { addr: 0, len: operand.len().max(result.len()), key }];
        let [operand, compare, result] = [[iov(operand)], [iov(compare)], [iov(result)]];
        let vectors = [buffers(&operand), buffers(&compare), buffers(&result)];
        let (operand, compare, result) = (&operand[..], &compare[..], &result[..]);
        let op = AtomicOp { meta, kind, datatype, op, operand, compare, result, remote: &remote };
        self.engine.post_atomic(&op, vectors)
    }

    /// A fetching one, whose old value goes where the caller keeps it.
    pub(super) fn fetch(
        &mut self,
        meta: TxMeta,
        (kind, datatype, op): (AtomicKind, u32, u32),
        operand: &mut [u8],
        result: IoVec,
        key: u64,
    ) -> Result<()> {
        let remote = [RmaIov { addr: 0, len: operand.len(), key }];
        let (operand, result) = ([iov(operand)], [result]);
        let vectors = [buffers(&operand), buffers(&[]), buffers(&result)];
        let (operand, compare, result) = (&operand[..], &[][..], &result[..]);
        let op = AtomicOp { meta, kind, datatype, op, operand, compare, result, remote: &remote };
        self.engine.post_atomic(&op, vectors)
    }

    /// Opens memory to peers under `key`.
    pub(super) fn expose(&self, key: u64, bytes: &mut [u8]) -> Arc<Region> {
        let iov = [iov(bytes)];
        let request = MrRequest {
            iov: &iov,
            access: Flags::REMOTE_READ | Flags::REMOTE_WRITE,
            requested_key: key,
            offset: 0,
            flags: Flags::empty(),
            context: 0,
        };
        self.regions.register(&request).unwrap()
    }

    /// Nothing of any operation is left behind, with so many regions of the test's own.
    pub(super) fn assert_idle(&self, regions: usize) {
        let core = &self.engine.core;
        assert_eq!((core.works.len(), core.backlog.len()), (0, 0), "operations");
        assert_eq!(core.assemblies.len(), 0, "assemblies");
        assert_eq!(core.inbox.posted_len(), 0, "receives");
        assert_eq!((core.inbox.waiting_len(), core.kept), (0, 0), "messages");
        assert_eq!(self.regions.len(), regions, "exposed memory");
        assert!(self.engine.paused.is_empty(), "paused connections");
        for (_, conn) in self.engine.conns.iter() {
            assert!(conn.queue.is_empty() && conn.announced.is_empty());
            assert!(conn.answers.is_empty());
            assert!(conn.assembling.is_empty() && conn.written.is_empty());
        }
    }
}

fn drain(queue: &CompletionQueue<NoLock>) -> Vec<Done> {
    let mut all = Vec::new();
    loop {
        let mut entry = Entry::new(0, Flags::empty());
        let base = std::ptr::from_mut(&mut entry).cast();
        let mut src = 0u64;
        // SAFETY: the longest format is a prefix of one entry; one source.
        let mut out = unsafe { EntryBuf::new(base, CqFormat::Tagged, 1, &mut src) };
        match queue.read(&mut out) {
            Ok(n) => {
                assert_eq!(n, 1);
                entry.src = src;
                all.push(Done::Ok(entry));
            }
            Err(Errno::EAVAIL) => all.push(Done::Err(queue.read_error().unwrap())),
            Err(reason) => {
                assert_eq!(reason, Errno::EAGAIN);
                return all;
            }
        }
    }
}
