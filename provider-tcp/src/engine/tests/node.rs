//! Endpoints of engines over a scripted network, with queues and address vectors around them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fabric_core::{
    Errno, Result,
    attr::{AvType, CqFormat},
    av::Av,
    completion::{CompletionQueue, CqBinding, CqError, Entry, EntryBuf},
    flags::{Flags, MrMode},
    lock::NoLock,
    mem::Buffers,
    mr::{MrRequest, MrTable, Region},
    op::{
        ADDR_UNSPEC, AtomicKind, AtomicOp, IoVec, RecvOp, RmaIov, RmaKind, RmaOp, SendOp, TxMeta,
    },
    slab::Handle,
};

use super::{
    super::{Buffering, Engine, Ep, Limits},
    net::{Script, Shared, TestNet},
};
use crate::address::{EITHER, SocketAddress};

pub(super) const LIMITS: Limits = Limits {
    inject: 128,
    outstanding: 64,
    directed: true,
    source: true,
    rma_event: false,
    war: false,
    atomics: true,
    coalesce: true,
    connect: Duration::from_secs(30),
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

/// How many there are; all of them are successes.
pub(super) fn succeeded(all: &[Done]) -> usize {
    all.iter().map(Done::ok).count()
}

/// A reliable datagram endpoint. The handle of the `n`th node of its test is `n`.
pub(super) struct Node {
    pub(super) engine: Engine<NoLock, TestNet>,
    pub(super) ep: Handle,
    tx: Arc<CompletionQueue<NoLock>>,
    rx: Arc<CompletionQueue<NoLock>>,
    pub(super) regions: Arc<MrTable>,
    pub(super) av: Arc<Av>,
}

/// Two endpoints that know each other, at 10.0.0.1 and 10.0.0.2.
pub(super) fn pair(script: Script) -> (Shared, Node, Node) {
    pair_with(script, LIMITS)
}

pub(super) fn pair_with(script: Script, limits: Limits) -> (Shared, Node, Node) {
    let shared = Shared::new(script);
    let [mut a, mut b] = ["10.0.0.1:0", "10.0.0.2:0"].map(|at| Node::new(&shared, at, at, limits));
    introduce(&mut [&mut a, &mut b]);
    (shared, a, b)
}

/// Makes nodes known to each other, in their order.
pub(super) fn introduce(nodes: &mut [&mut Node]) {
    let names: Vec<SocketAddress> = nodes.iter_mut().map(|node| node.name()).collect();
    for node in nodes {
        for (n, name) in names.iter().enumerate() {
            assert_eq!(node.av.insert(&name.to_bytes(), None), Ok(n as u64));
        }
    }
}

/// Moves all until none has anything to do.
pub(super) fn settle(nodes: &mut [&mut Node]) {
    for _ in 0..600 {
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
#[expect(unsafe_code, reason = "operations name memory that is not theirs")]
fn buffers(pieces: &[IoVec]) -> Buffers {
    // SAFETY: the tests keep memory for as long as they keep nodes.
    unsafe { Buffers::new(pieces) }.unwrap()
}

impl Node {
    /// An endpoint of the host `ip` that listens at `local`, which may be a wildcard.
    pub(super) fn new(shared: &Shared, ip: &str, local: &str, limits: Limits) -> Self {
        let host: SocketAddr = ip.parse().unwrap();
        let local: SocketAddr = local.parse().unwrap();
        let av = Av::open(AvType::Table, 0, Flags::empty(), &EITHER).unwrap();
        let regions = Arc::new(MrTable::new(MrMode::empty()));
        let queue = || Arc::new(CompletionQueue::new(16, None));
        let (tx, rx) = (queue(), queue());
        let bind = |queue: &Arc<_>| Some(CqBinding { queue: Arc::clone(queue), selective: false });
        let mut state = Ep::new(regions.clone(), limits);
        state.local = Some(local.into());
        state.set_av(Some(av.clone()));
        (state.report.tx, state.report.rx, state.enabled) = (bind(&tx), bind(&rx), true);
        let mut engine = Engine::new(shared.host(host.ip()), None, Buffering::default());
        let ep = engine.open_endpoint(state, 64).unwrap();
        engine.listen(ep).unwrap();
        Self { engine, ep, tx, rx, regions, av }
    }

    /// How peers reach it.
    pub(super) fn name(&mut self) -> SocketAddress {
        let name = self.engine.name(self.ep).unwrap();
        let host = SocketAddr::new(self.engine.net.ip(), name.port());
        if name.is_wildcard() { host.into() } else { name }
    }

    pub(super) fn state(&self) -> &Ep<NoLock> {
        self.engine.core.eps.get(self.ep).unwrap()
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
        let peer = self.engine.resolve(self.ep, meta.dest)?;
        self.engine.post_send(self.ep, peer, &op, buffers(pieces))
    }

    pub(super) fn recv(&mut self, op: RecvOp<'_>) -> Result<()> {
        self.engine.post_recv(self.ep, &op, buffers(op.iov))
    }

    /// Receives under `tag` from anyone, into memory that the caller keeps.
    pub(super) fn trecv(&mut self, context: usize, tag: u64, bytes: &mut [u8]) {
        self.recv(RecvOp { iov: &[iov(bytes)], ..want(context, tag) }).unwrap();
    }

    pub(super) fn rma(
        &mut self,
        meta: TxMeta,
        kind: RmaKind,
        bytes: &mut [u8],
        remote: (u64, u64),
    ) -> Result<()> {
        self.rma_into(meta, kind, &[iov(bytes)], remote)
    }

    /// The same with memory that somebody else holds.
    pub(super) fn rma_into(
        &mut self,
        meta: TxMeta,
        kind: RmaKind,
        pieces: &[IoVec],
        (addr, key): (u64, u64),
    ) -> Result<()> {
        let len = pieces.iter().map(|piece| piece.len).sum();
        let remote = [RmaIov { addr, len, key }];
        let op = RmaOp { meta, kind, iov: pieces, remote: &remote };
        let peer = self.engine.resolve(self.ep, meta.dest)?;
        self.engine.post_rma(self.ep, peer, &op, buffers(pieces))
    }

    /// An atomic operation on the front of the peer's memory under `key`.
    pub(super) fn atomic(
        &mut self,
        meta: TxMeta,
        (kind, datatype, op): (AtomicKind, u32, u32),
        operand: &mut [u8],
        result: &mut [u8],
        key: u64,
    ) -> Result<()> {
        let remote = [RmaIov { addr: 0, len: operand.len().max(result.len()), key }];
        let [operand, result] = [[iov(operand)], [iov(result)]];
        let (compare, vectors) = (&[], [buffers(&operand), Buffers::EMPTY, buffers(&result)]);
        let (operand, result) = (&operand[..], &result[..]);
        let op = AtomicOp { meta, kind, datatype, op, operand, compare, result, remote: &remote };
        let peer = self.engine.resolve(self.ep, meta.dest)?;
        self.engine.post_atomic(self.ep, peer, &op, vectors)
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

    /// Nothing of any operation is left behind.
    pub(super) fn assert_idle(&self) {
        let state = self.state();
        let context = self.engine.core.contexts.get(state.rx).unwrap();
        assert_eq!((self.engine.core.ops.len(), state.backlog.len()), (0, 0), "operations");
        assert_eq!(context.inbox.posted_len(), 0, "receives");
        assert_eq!((context.inbox.waiting_len(), context.kept()), (0, 0), "messages");
        assert!(context.stalled.is_empty(), "stalled connections");
        for (_, conn) in self.engine.conns.iter() {
            assert!(conn.tx.is_idle() && !conn.waits_for_answers() && conn.asked.is_empty());
        }
        for (n, peer) in state.peers.iter().enumerate() {
            assert_eq!((peer.waiting.len(), peer.kept), (0, 0), "peer {n}");
        }
    }
}

fn drain(queue: &CompletionQueue<NoLock>) -> Vec<Done> {
    let mut all = Vec::new();
    loop {
        let mut entry = Entry::new(0, Flags::empty());
        let mut src = 0u64;
        match queue.read(&mut room_for(&mut entry, &mut src)) {
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

#[expect(unsafe_code, reason = "queues write into memory of the application")]
fn room_for(entry: &mut Entry, src: &mut u64) -> EntryBuf {
    let base = std::ptr::from_mut(entry).cast();
    // SAFETY: the longest format is a prefix of one entry; one source. Both outlive the reading.
    unsafe { EntryBuf::new(base, CqFormat::Tagged, 1, src) }
}
