//! HOT. Operations that this endpoint starts: sends at once where possible, all others from a
//! queue that keeps their order.

use super::{
    Core, Engine,
    atomics::Atomic,
    packet::{RemotePieces, Words},
    peers::Stream,
    rendezvous::SEGMENT,
};
use crate::{
    Errno, Result,
    completion::{CqError, Entry, Interest},
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, Payload},
    op::{SendOp, TxMeta},
    slab::Handle,
    wire::{Head, Op, Packet, Refused, Source, Wire, WireTx, head_flags},
};

/// Completion levels that need an answer from the peer.
const ACKNOWLEDGED: Flags =
    Flags::DELIVERY_COMPLETE.union(Flags::MATCH_COMPLETE).union(Flags::COMMIT_COMPLETE);

/// Messages of up to this many bytes cost the receiver no more than an offer does.
const ALWAYS_EAGER: usize = 64;

/// An operation of the application that waits or is under way.
#[derive(Debug)]
pub(crate) struct TxOp {
    pub(crate) peer: PeerId,
    pub(crate) interest: Interest,
    pub(crate) kind: TxKind,
    /// What is sent, or where a read's bytes go.
    pub(crate) payload: Payload,
    pub(crate) remote: RemotePieces,
    /// Remote CQ data.
    pub(crate) data: u64,
    /// Counted in `Core::queued`.
    pub(crate) queued: bool,
    pub(crate) started: bool,
    /// What comes behind it has to wait until it ends.
    pub(crate) large: bool,
    /// Segments under way: the receiver's handle, bytes sent, bytes wanted.
    pub(crate) stream: Option<(u64, usize, usize)>,
}

/// What kind of operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TxKind {
    Send {
        tagged: bool,
        tag: u64,
    },
    Write,
    Read,
    /// The values are the payload; old values go to `result` if it fetches.
    Atomic {
        fetches: bool,
        result: Buffers,
        atomic: Atomic,
    },
}

impl TxKind {
    /// Completion flags.
    #[inline]
    pub(crate) const fn flags(&self) -> Flags {
        match self {
            Self::Send { tagged: true, .. } => Flags::SEND.union(Flags::TAGGED),
            Self::Send { tagged: false, .. } => Flags::SEND.union(Flags::MSG),
            Self::Write => Flags::RMA.union(Flags::WRITE),
            Self::Read => Flags::RMA.union(Flags::READ),
            Self::Atomic { fetches: true, .. } => Flags::ATOMIC.union(Flags::READ),
            Self::Atomic { fetches: false, .. } => Flags::ATOMIC.union(Flags::WRITE),
        }
    }

    /// Reads keep their order among themselves without waiting for each other.
    pub(super) const fn is_read(&self) -> bool {
        matches!(self, Self::Read)
    }
}

impl<W: Wire, L: Lock> Engine<W, L> {
    /// Posts a send of `buffers`, which describe `op.iov`.
    #[inline]
    pub(crate) fn post_send(&mut self, op: &SendOp<'_>, buffers: Buffers) -> Result<()> {
        let peer = self.resolve(op.meta.dest)?;
        let result = self.core.post_send(self.wire.tx(), peer, op, buffers);
        if result == Err(Errno::EAGAIN) {
            // Two sides that only post would otherwise wait for each other for ever.
            self.progress();
        }
        result
    }
}

impl<L: Lock> Core<L> {
    #[inline]
    fn post_send<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        op: &SendOp<'_>,
        buffers: Buffers,
    ) -> Result<()> {
        if op.meta.injects() && buffers.len() > self.limits.inject {
            return Err(Errno::EINVAL);
        }
        let acknowledged = !op.meta.silent && op.meta.flags.intersects(ACKNOWLEDGED);
        let kind = TxKind::Send { tagged: op.tagged, tag: op.tag };
        if !acknowledged
            && !op.meta.flags.contains(Flags::FENCE)
            && self.peer_mut(peer).is_clear()
            && (buffers.len() <= ALWAYS_EAGER || self.goes_eagerly(tx, peer, buffers.len()))
        {
            let head = message_head(Op::Message, op.tagged, op.tag, op.meta.cq_data());
            match tx.try_emit(peer, head, &Source::all(&[], &buffers)) {
                Ok(()) => {
                    self.stats.eager += 1;
                    self.report.sent(&op.meta.interest(), kind.flags(), buffers.len());
                    return Ok(());
                }
                Err(Refused::Again) => {}
                Err(Refused::Down(reason)) => {
                    self.fail_post(&op.meta, kind, reason, tx.address(peer));
                    return Ok(());
                }
            }
        }
        let payload =
            if op.meta.injects() { Payload::copied(&buffers) } else { Payload::borrowed(buffers) };
        self.post(tx, TxOp::new(peer, &op.meta, kind, payload, RemotePieces::default()))
    }

    /// Whether a message that is not tiny can go in one packet now.
    #[inline]
    fn goes_eagerly<T: WireTx>(&self, tx: &T, peer: PeerId, len: usize) -> bool {
        len <= self.limits.eager && len <= tx.max_payload(peer) && !tx.pressure(peer)
    }

    /// Takes an operation: started now if nothing is in front of it, else queued.
    pub(crate) fn post<T: WireTx>(&mut self, tx: &mut T, op: TxOp) -> Result<()> {
        let peer = op.peer;
        let fence = op.interest.flags.contains(Flags::FENCE);
        let is_read = op.kind.is_read();
        let state = self.peer_mut(peer);
        let first =
            state.queue.is_empty() && !state.holds(is_read) && !(fence && state.outstanding != 0);
        let full = self.queued >= self.limits.outstanding;
        if full && !first {
            return Err(Errno::EAGAIN);
        }
        let handle = self.ops.insert(op).map_err(|_| Errno::EAGAIN)?;
        if first && self.start(tx, handle).is_ok() {
            return Ok(());
        }
        // Of one in parts some may be on their way.
        let started = self.ops.get(handle).is_some_and(|op| op.started);
        if full && !started {
            self.ops.remove(handle);
            return Err(Errno::EAGAIN);
        }
        if let Some(op) = self.ops.get_mut(handle)
            && !started
        {
            op.queued = true;
            self.queued += 1;
        }
        self.stats.queued += 1;
        self.peer_mut(peer).queue.push_back(handle);
        self.block(peer);
        Ok(())
    }

    /// Starts queued operations in order; `true` when none is left.
    pub(crate) fn flush_queue<T: WireTx>(&mut self, tx: &mut T, peer: PeerId) -> bool {
        while let Some(&handle) = self.peer_mut(peer).queue.front() {
            let state = &self.peers[peer as usize];
            // A cancelled operation leaves its handle behind.
            if let Some(op) = self.ops.get(handle) {
                let held = state.holds(op.kind.is_read())
                    || (op.interest.flags.contains(Flags::FENCE) && state.outstanding != 0);
                if (held && !op.started) || self.start(tx, handle).is_err() {
                    return false;
                }
            }
            self.peer_mut(peer).queue.pop_front();
        }
        true
    }

    /// Emits an operation's first packet, of an atomic operation in parts all of them. `Err`: no
    /// room, to be called again. An operation that cannot be carried out is finished with an error.
    fn start<T: WireTx>(&mut self, tx: &mut T, handle: Handle) -> Result<(), Refused> {
        let Some(op) = self.ops.get(handle) else { return Ok(()) };
        let peer = op.peer;
        let emitted = match op.kind {
            TxKind::Send { tagged, tag } => self.start_send(tx, handle, tagged, tag),
            TxKind::Write => self.start_write(tx, handle),
            TxKind::Read => self.start_read(tx, handle),
            TxKind::Atomic { .. } => self.start_atomic(tx, handle),
        };
        match emitted {
            Ok(()) => {
                self.note_started(handle);
                Ok(())
            }
            Err(Refused::Again) => Err(Refused::Again),
            Err(Refused::Down(reason)) => {
                self.fail(handle, reason, tx.address(peer));
                Ok(())
            }
        }
    }

    /// The peer knows of an operation from now on.
    pub(super) fn note_started(&mut self, handle: Handle) {
        if let Some(op) = self.ops.get_mut(handle)
            && !op.started
        {
            op.started = true;
            self.queued -= usize::from(std::mem::take(&mut op.queued));
            let peer = op.peer;
            self.peer_mut(peer).outstanding += 1;
        }
    }

    fn start_send<T: WireTx>(
        &mut self,
        tx: &mut T,
        handle: Handle,
        tagged: bool,
        tag: u64,
    ) -> Result<(), Refused> {
        let Some(op) = self.ops.get(handle) else { return Ok(()) };
        let buffers = *op.payload.buffers();
        let acknowledged = !op.interest.silent && op.interest.flags.intersects(ACKNOWLEDGED);
        let data = op.interest.flags.contains(Flags::REMOTE_CQ_DATA).then_some(op.data);
        let needed = buffers.len() + 8;
        let eager = buffers.len() <= self.limits.eager
            && (buffers.len() <= ALWAYS_EAGER || !tx.pressure(op.peer))
            && (needed <= tx.max_payload(op.peer) || tx.grow(op.peer, needed));
        let mut words = Words::new();
        if !eager {
            words.push(handle.raw());
            words.push(buffers.len() as u64);
            for piece in buffers.iov() {
                words.push(piece.base as u64);
                words.push(piece.len as u64);
            }
            let head = message_head(Op::Offer, tagged, tag, data);
            tx.try_emit(op.peer, head, &Source::fixed(words.bytes()))?;
            self.stats.rendezvous += 1;
            return Ok(());
        }
        let mut head = message_head(Op::Message, tagged, tag, data);
        if acknowledged {
            head.flags |= head_flags::ACK;
            words.push(handle.raw());
        }
        tx.try_emit(op.peer, head, &Source::all(words.bytes(), &buffers))?;
        self.stats.eager += 1;
        if !acknowledged {
            self.finish(handle, Ok(buffers.len()));
        }
        Ok(())
    }

    /// Sends the segments that were asked for; `true` when none is left.
    pub(crate) fn flush_streams<T: WireTx>(&mut self, tx: &mut T, peer: PeerId) -> bool {
        while let Some(&stream) = self.peer_mut(peer).streams.front() {
            let done = match stream {
                Stream::Op(handle) => self.stream_op(tx, handle),
                Stream::Service(handle) => self.stream_service(tx, handle),
            };
            if !done {
                return false;
            }
            self.peer_mut(peer).streams.pop_front();
        }
        true
    }

    fn stream_op<T: WireTx>(&mut self, tx: &mut T, handle: Handle) -> bool {
        let Some(op) = self.ops.get_mut(handle) else { return true };
        let Some((to, sent, want)) = &mut op.stream else { return true };
        while *sent < *want {
            let len = (*want - *sent).min(tx.max_payload(op.peer)).min(SEGMENT);
            let head = Head { op: Op::Segment as u8, flags: 0, a: *to, b: 0 };
            let source = Source { fixed: &[], data: op.payload.buffers(), skip: *sent, len };
            match tx.try_emit(op.peer, head, &source) {
                Ok(()) => {
                    *sent += len;
                    self.stats.segments += 1;
                }
                Err(Refused::Again) => return false,
                // The wire reports the peer's end, and that finishes the operation.
                Err(Refused::Down(_)) => return true,
            }
        }
        true
    }

    /// Ends an operation, exactly once, and tells its owner. `Ok` carries the bytes moved.
    pub(crate) fn finish(&mut self, handle: Handle, outcome: Result<usize>) {
        match outcome {
            Ok(bytes) => {
                let Some(op) = self.take(handle) else { return };
                self.report.sent(&op.interest, op.kind.flags(), bytes);
            }
            Err(reason) => self.fail(handle, reason, &[]),
        }
    }

    /// Ends an operation with an error. `address` is that of a peer that is not there.
    #[cold]
    fn fail(&mut self, handle: Handle, reason: Errno, address: &[u8]) {
        let Some(op) = self.take(handle) else { return };
        let entry =
            Entry { src: self.source(op.peer), ..Entry::new(op.interest.context, op.kind.flags()) };
        self.report.send_failed(CqError::new(entry, reason).data(address));
    }

    /// Removes an operation and all that counts it.
    fn take(&mut self, handle: Handle) -> Option<TxOp> {
        let op = self.ops.remove(handle)?;
        self.queued -= usize::from(op.queued);
        if op.started {
            let state = self.peer_mut(op.peer);
            state.outstanding = state.outstanding.saturating_sub(1);
            match op.kind {
                TxKind::Read if op.large => state.large_reads = state.large_reads.saturating_sub(1),
                TxKind::Write if op.large => {
                    state.large_writes = state.large_writes.saturating_sub(1);
                }
                _ => {}
            }
        }
        Some(op)
    }

    /// Reports the failure of an operation that was accepted and never got an entry of its own.
    #[cold]
    fn fail_post(&mut self, meta: &TxMeta, kind: TxKind, reason: Errno, address: &[u8]) {
        let entry = Entry { src: meta.dest, ..Entry::new(meta.context, kind.flags()) };
        self.report.send_failed(CqError::new(entry, reason).data(address));
    }

    /// The peer says that an operation is over.
    pub(crate) fn handle_finish<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let handle = Handle::from_raw(packet.head.a);
        // An answer to an operation that has ended meanwhile, or to none of this peer's.
        let Some(op) = self.ops.get(handle).filter(|op| op.peer == peer && op.started) else {
            return Some(());
        };
        let bytes = match op.kind {
            TxKind::Send { .. } | TxKind::Write => op.payload.buffers().len(),
            // A read succeeds by its bytes only.
            TxKind::Read if packet.head.b == 0 => return None,
            TxKind::Atomic { fetches, atomic, .. }
                if packet.head.b == 0 && (fetches || !atomic.all_sent(op.remote.total())) =>
            {
                return None;
            }
            TxKind::Read | TxKind::Atomic { .. } => op.remote.total(),
        };
        let outcome = match i32::try_from(packet.head.b).ok()? {
            0 => Ok(bytes),
            reason => Err(Errno::new(reason)),
        };
        if outcome.is_err() && op.kind.is_read() {
            self.drop_read_transfer(handle);
        }
        self.finish(handle, outcome);
        self.unblock_fenced(tx, peer);
        Some(())
    }

    /// An operation has ended: those that waited for it may go.
    pub(crate) fn unblock_fenced<T: WireTx>(&mut self, tx: &mut T, peer: PeerId) {
        if !self.peer_mut(peer).queue.is_empty() && self.flush_queue(tx, peer) {
            self.unblock(peer);
        }
    }

    /// Takes back an operation that has not been started. `true` if there was one.
    pub(crate) fn cancel_queued(&mut self, context: usize) -> bool {
        let found = self
            .ops
            .iter()
            .find(|(_, op)| !op.started && op.interest.context == context && !op.interest.silent)
            .map(|(handle, _)| handle);
        let Some(handle) = found else { return false };
        self.finish(handle, Err(Errno::ECANCELED));
        true
    }
}

impl TxOp {
    pub(crate) const fn new(
        peer: PeerId,
        meta: &TxMeta,
        kind: TxKind,
        payload: Payload,
        remote: RemotePieces,
    ) -> Self {
        Self {
            peer,
            interest: meta.interest(),
            kind,
            payload,
            remote,
            data: meta.data,
            queued: false,
            started: false,
            large: false,
            stream: None,
        }
    }
}

/// The header of a message or an offer.
#[inline]
fn message_head(op: Op, tagged: bool, tag: u64, data: Option<u64>) -> Head {
    let flags = if tagged { head_flags::TAGGED } else { 0 }
        | if data.is_some() { head_flags::DATA } else { 0 };
    Head { op: op as u8, flags, a: tag, b: data.unwrap_or(0) }
}
