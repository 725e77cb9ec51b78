//! Engines with queues, counters and address vectors around them, and operations on them.

use std::sync::Arc;

use super::wire::{Script, Shared, TestWire, address};
use crate::{
    Errno, Result,
    attr::{AvType, CqFormat, addr_format},
    av::{AddressFormat, Av},
    completion::{CompletionQueue, CqBinding, CqError, Entry, EntryBuf},
    engine::{Engine, Limits},
    flags::{Flags, MrMode},
    lock::NoLock,
    matching::PeerId,
    mem::Buffers,
    mr::{MrRequest, MrTable, Region},
    op::{
        ADDR_UNSPEC, AtomicKind, AtomicOp, IoVec, RecvOp, RmaIov, RmaKind, RmaOp, SendOp, TxMeta,
    },
};

pub(super) const UINT64: u32 = 7;
pub(super) const SUM: u32 = 2;

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
    eager: 1024,
    patience: 4,
    shared: 2048,
    lends: true,
    outstanding: 64,
    atomic: 4096,
    waiting_bytes: 8192,
    min_multi_recv: 64,
    ordered: true,
    directed: true,
    source: true,
    rma_event: false,
};

/// What came out of a queue.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Done {
    Ok(Entry),
    Err(CqError),
}

impl Done {
    pub(super) fn entry(&self) -> &Entry {
        match self {
            Self::Ok(entry) => entry,
            Self::Err(error) => &error.entry,
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

/// One endpoint. Its address-vector handle for node `n` is `n`.
pub(super) struct Node {
    pub(super) engine: Engine<TestWire, NoLock>,
    tx: Arc<CompletionQueue<NoLock>>,
    rx: Arc<CompletionQueue<NoLock>>,
    pub(super) regions: Arc<MrTable>,
}

/// `count` endpoints that know each other.
pub(super) fn nodes(count: PeerId, script: Script, limits: Limits) -> (Shared, Vec<Node>) {
    let shared = Shared::new(script);
    let nodes = (0..count).map(|me| Node::new(&shared, me, count, limits)).collect();
    (shared, nodes)
}

/// Two of them.
pub(super) fn pair(script: Script) -> (Shared, Node, Node) {
    let (shared, mut nodes) = nodes(2, script, LIMITS);
    let (b, a) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    (shared, a, b)
}

/// Moves both until neither has anything to do.
pub(super) fn settle(nodes: &mut [&mut Node]) {
    for _ in 0..200 {
        for node in &mut *nodes {
            node.engine.progress();
        }
    }
}

/// Nothing of any operation is left behind in any of them.
pub(super) fn idle(nodes: &[&Node]) {
    nodes.iter().for_each(|node| node.assert_idle());
}

pub(super) fn meta(dest: PeerId, context: usize) -> TxMeta {
    TxMeta { dest: dest.into(), context, flags: Flags::COMPLETION, data: 0, silent: false }
}

pub(super) fn iov(bytes: &mut [u8]) -> IoVec {
    IoVec { base: bytes.as_mut_ptr(), len: bytes.len() }
}

/// Describes memory that the caller keeps until the operation has ended.
pub(super) fn buffers(pieces: &[IoVec]) -> Buffers {
    // SAFETY: the tests keep memory for as long as they keep nodes.
    unsafe { Buffers::new(pieces) }.unwrap()
}

impl Node {
    fn new(shared: &Shared, me: PeerId, count: PeerId, limits: Limits) -> Self {
        let av = Av::open(AvType::Table, 0, Flags::empty(), &Numbers).unwrap();
        for n in 0..count {
            assert_eq!(av.insert(&address(n), None), Ok(n.into()));
        }
        let regions = Arc::new(MrTable::new(MrMode::empty()));
        let mut engine = Engine::new(TestWire::new(shared, me, count), regions.clone(), limits);
        let queue = || Arc::new(CompletionQueue::new(16, None));
        let (tx, rx) = (queue(), queue());
        let bind = |queue: &Arc<_>| Some(CqBinding { queue: Arc::clone(queue), selective: false });
        engine.core.report.tx = bind(&tx);
        engine.core.report.rx = bind(&rx);
        engine.set_av(Some(av));
        Self { engine, tx, rx, regions }
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
        let op = SendOp { meta, iov: pieces, tagged, tag };
        self.engine.post_send(&op, buffers(pieces))
    }

    /// Sends to `dest` under `tag`, from memory that the caller keeps.
    pub(super) fn tsend(&mut self, dest: PeerId, context: usize, tag: u64, bytes: &mut [u8]) {
        self.send(meta(dest, context), Some(tag), &[iov(bytes)]).unwrap();
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
        let op = RmaOp { meta, kind, iov: pieces, remote };
        self.engine.post_rma(&op, buffers(pieces))
    }

    /// Adds `operand` to the word at `remote` and fetches the old value.
    pub(super) fn fetch_add(
        &mut self,
        meta: TxMeta,
        operand: &[IoVec],
        result: &[IoVec],
        remote: &[RmaIov],
    ) -> Result<()> {
        let op = AtomicOp {
            meta,
            kind: AtomicKind::Fetch,
            datatype: UINT64,
            op: SUM,
            operand,
            compare: &[],
            result,
            remote,
        };
        self.atomic(op)
    }

    pub(super) fn atomic(&mut self, op: AtomicOp<'_>) -> Result<()> {
        let (operand, compare) = (buffers(op.operand), buffers(op.compare));
        self.engine.post_atomic(&op, operand, compare, buffers(op.result))
    }

    /// Opens memory to peers under `key`.
    pub(super) fn expose(&self, key: u64, bytes: &mut [u8], access: Flags) -> Arc<Region> {
        let iov = [iov(bytes)];
        let request = MrRequest {
            iov: &iov,
            access,
            requested_key: key,
            offset: 0,
            flags: Flags::empty(),
            context: 0,
        };
        let region = self.regions.register(&request).unwrap();
        self.engine.wire.show(&region);
        region
    }

    pub(super) fn regions(&self) -> &MrTable {
        &self.regions
    }

    /// Nothing of any operation is left behind.
    pub(super) fn assert_idle(&self) {
        let core = &self.engine.core;
        assert_eq!((core.ops.len(), core.queued), (0, 0), "operations");
        assert_eq!(core.transfers.len(), 0, "transfers");
        assert_eq!(core.services.len(), 0, "services");
        assert_eq!(core.inbox.buffers_len(), 0, "multi-receive buffers");
        assert_eq!(core.inbox.posted_len(), 0, "receives");
        assert_eq!(core.inbox.waiting_len(), 0, "messages");
        for (n, peer) in core.peers.iter().enumerate() {
            let waits = peer.control.len() + peer.streams.len() + peer.queue.len();
            assert_eq!((waits, peer.outstanding, peer.large_reads), (0, 0, 0), "peer {n}");
            assert_eq!(peer.waiting_bytes, 0, "peer {n}");
        }
    }
}

/// A tagged receive from anyone, without memory.
pub(super) fn want(context: usize, tag: u64) -> RecvOp<'static> {
    RecvOp {
        iov: &[],
        src: ADDR_UNSPEC,
        tagged: true,
        tag,
        ignore: 0,
        context,
        flags: Flags::COMPLETION,
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
