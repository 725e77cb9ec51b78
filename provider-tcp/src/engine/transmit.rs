//! HOT. Operations that an endpoint starts.

use fabric_core::{
    Errno, Result,
    completion::Interest,
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, Payload},
    op::{AtomicKind, SendOp, TxMeta},
    slab::Handle,
};

use super::{Core, Engine, Msg, conn::State, layer::Front, leaving::Leave};
use crate::{
    frame::head::{Atomic, Header, Ranges},
    net::Net,
};

/// Completion levels that need an answer from the peer. The wire knows no other than delivery.
const ACKNOWLEDGED: Flags =
    Flags::DELIVERY_COMPLETE.union(Flags::TRANSMIT_COMPLETE).union(Flags::COMMIT_COMPLETE);

/// Payloads up to this size are copied behind their header, so that several leave in one call.
pub(super) const COPIED: usize = 4096;
/// Staged bytes, on a socket that takes no more, at which operations begin to wait.
pub(super) const STAGED_MAX: usize = 64 << 10;
/// Reads of a connection that cannot be written to any more.
const LAST_WORDS: usize = 4096;

/// An operation of the application that waits or is under way.
#[derive(Debug)]
pub(crate) struct TxOp {
    pub(crate) ep: Handle,
    pub(crate) peer: PeerId,
    pub(crate) interest: Interest,
    pub(crate) kind: TxKind,
    /// What is sent, or where a read's bytes go.
    pub(crate) payload: Payload,
    /// Remote CQ data.
    pub(crate) data: Option<u64>,
    /// Counted in `Ep::backlog`, and `Peer::queued`.
    pub(crate) queued: bool,
    /// Its header has asked for an acknowledgement, which ends it.
    pub(crate) acked: bool,
}

/// What kind of operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TxKind {
    Send {
        tagged: bool,
        tag: u64,
    },
    Write(Ranges),
    Read(Ranges),
    /// The values are the payload; old values go to `result` if it fetches.
    Atomic {
        atomic: Atomic,
        ranges: Ranges,
        result: Buffers,
    },
    /// A message of the protocol above.
    Packet(Front),
}

impl TxKind {
    /// Completion flags.
    #[inline]
    pub(crate) const fn flags(&self) -> Flags {
        match self {
            Self::Packet(_) => Flags::SEND,
            Self::Send { tagged: true, .. } => Flags::SEND.union(Flags::TAGGED),
            Self::Send { tagged: false, .. } => Flags::SEND.union(Flags::MSG),
            Self::Write(_) => Flags::RMA.union(Flags::WRITE),
            Self::Read(_) => Flags::RMA.union(Flags::READ),
            Self::Atomic { atomic: Atomic { kind: AtomicKind::Base, .. }, .. } => {
                Flags::ATOMIC.union(Flags::WRITE)
            }
            Self::Atomic { .. } => Flags::ATOMIC.union(Flags::READ),
        }
    }
}

impl TxKind {
    /// Of the target.
    pub(super) const fn changes_memory(&self) -> bool {
        matches!(self, Self::Write(_) | Self::Atomic { .. })
    }
}

/// Whether an operation completes with the peer's answer only. An injected write does, too, where the
/// endpoint's defaults say so: nobody hears of its end but a counter, and programs take that for the
/// bytes being there. An injected message is over for its sender.
#[inline]
const fn acknowledged(interest: &Interest, is_send: bool) -> bool {
    !(is_send && interest.silent) && interest.flags.intersects(ACKNOWLEDGED)
}

pub(super) fn message(tagged: bool, tag: u64, len: usize, data: Option<u64>) -> Header {
    let header = if tagged { Header::tagged(tag, len) } else { Header::message(len) };
    match data {
        Some(data) => header.with_cq_data(data),
        None => header,
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Posts a send of `buffers`, which describe `op.iov`, to a peer.
    #[inline]
    pub(crate) fn post_send(
        &mut self,
        ep: Handle,
        peer: PeerId,
        op: &SendOp<'_>,
        buffers: Buffers,
    ) -> Result<()> {
        let state = self.core.eps.get_mut(ep).ok_or(Errno::EOPBADSTATE)?;
        if op.meta.injects() && buffers.len() > state.limits.inject {
            return Err(Errno::EINVAL);
        }
        if op.meta.flags.contains(Flags::MATCH_COMPLETE) {
            // The wire says when a message has arrived, not when it has found a receive.
            return Err(Errno::EOPNOTSUPP);
        }
        let interest = op.meta.interest();
        let kind = TxKind::Send { tagged: op.tagged, tag: op.tag };
        let known = state.peers.get(peer as usize).and_then(|peer| peer.conn);
        if let Some(handle) = known
            && let Some(conn) = self.conns.get_mut(handle)
            && conn.state == State::Open
            && conn.tx.is_clear()
            && buffers.len() <= COPIED
            && !acknowledged(&interest, true)
            && !op.meta.flags.contains(Flags::FENCE)
            && (!conn.tx.blocked || conn.tx.staged() < STAGED_MAX)
        {
            let header = message(op.tagged, op.tag, buffers.len(), op.meta.cq_data());
            conn.tx.stage(conn.endian, &header, &buffers);
            state.stats.eager += 1;
            let more = op.meta.flags.contains(Flags::MORE);
            let habit = state.limits.coalesce.then_some(&mut self.habit);
            let leave = conn.tx.when(self.round, more, habit, || self.net.now());
            conn.tx.promise(&interest, kind.flags(), buffers.len());
            self.dispatch(handle, leave);
            return Ok(());
        }
        let payload =
            if op.meta.injects() { Payload::copied(&buffers) } else { Payload::borrowed(buffers) };
        self.post(TxOp::new(ep, peer, &op.meta, kind, payload))
    }

    /// Takes an operation: into the queue of its connection, or of its peer if there is none. An
    /// injected one waits for a connection where it is.
    pub(crate) fn post(&mut self, mut op: TxOp) -> Result<()> {
        let (ep, peer) = (op.ep, op.peer);
        self.make_room(ep, peer)?;
        let state = self.core.eps.get_mut(ep).ok_or(Errno::EOPBADSTATE)?;
        if state.msg.as_ref().is_some_and(Msg::has_ended) {
            return self.core.refuse(op, Errno::ENOTCONN);
        }
        let known = state.peers.get(peer as usize).and_then(|peer| peer.conn);
        let open = known
            .filter(|conn| self.conns.get(*conn).is_some_and(|conn| conn.state == State::Open));
        if open.is_none() && op.interest.silent && state.msg.is_none() {
            return Err(self.not_yet(ep, peer));
        }
        let more = op.interest.flags.contains(Flags::MORE);
        let coalesce = state.limits.coalesce;
        op.queued = true;
        state.queued_for(peer);
        state.stats.queued += 1;
        let context = op.interest.context;
        let handle = self.core.ops.insert(op).map_err(|_| Errno::EAGAIN)?;
        self.core.by_context.add(context, handle, &self.core.ops);
        if let Some(known) = open
            && let Some(conn) = self.conns.get_mut(known)
        {
            conn.tx.queue.push_back(handle);
            let habit = coalesce.then_some(&mut self.habit);
            let leave = conn.tx.when(self.round, more, habit, || self.net.now());
            if leave != Leave::Now {
                self.core.stage(conn);
            }
            self.dispatch(known, leave);
            return Ok(());
        }
        if let Some(state) = self.core.eps.get_mut(ep)
            && let Some(peer) = state.peers.get_mut(peer as usize)
        {
            peer.waiting.push_back(handle);
        }
        if known.is_none() {
            self.reach(ep, peer);
        }
        Ok(())
    }

    /// Sends what a connection has. A socket that takes no more tells when it does.
    #[inline]
    pub(super) fn dispatch(&mut self, handle: Handle, leave: Leave) {
        let Some(conn) = self.conns.get(handle).filter(|conn| !conn.tx.blocked) else { return };
        // Beside so much, company saves nothing worth waiting for.
        let full = conn.tx.current.is_some() || conn.tx.staged() >= self.core.batch;
        match leave {
            Leave::Held if !full => {
                self.send(handle, true);
                self.list(handle);
            }
            Leave::Staged if !full => self.list(handle),
            _ => self.pump(handle),
        }
    }

    /// Sends until nothing is left or the socket takes no more.
    pub(crate) fn pump(&mut self, handle: Handle) {
        self.send(handle, false);
    }

    /// The same; what the socket takes may be held back if `more` is to come.
    fn send(&mut self, handle: Handle, more: bool) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        if conn.state != State::Open {
            return;
        }
        match self.core.pump(conn, more) {
            Ok(()) => {
                // A message that waits in its socket may be in front of what is waited for now.
                if conn.is_stalled() && conn.waits_for_answers() {
                    self.resume(handle);
                }
                if !self.looking {
                    self.watch_over();
                }
                self.rewatch(handle);
            }
            Err(reason) => {
                // What the peer has sent before its end can still be received.
                for _ in 0..LAST_WORDS {
                    if !self.read(handle) {
                        break;
                    }
                }
                self.down(handle, reason);
            }
        }
    }

    /// The socket has room again, or a connect has ended.
    pub(super) fn writable(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        if conn.state == State::Connecting {
            self.connected(handle);
            return;
        }
        conn.tx.blocked = false;
        self.pump(handle);
    }
}

impl<L: Lock> Core<L> {
    /// Takes an operation, and ends it at once.
    #[cold]
    pub(super) fn refuse(&mut self, op: TxOp, reason: Errno) -> Result<()> {
        let handle = self.ops.insert(op).map_err(|_| Errno::EAGAIN)?;
        self.finish(handle, Err(reason));
        Ok(())
    }

    /// Ends an operation, exactly once, and tells its owner. `Ok` carries the bytes moved.
    pub(crate) fn finish(&mut self, handle: Handle, outcome: Result<usize>) {
        let Some(mut op) = self.ops.remove(handle) else { return };
        let Some(ep) = self.eps.get_mut(op.ep) else { return };
        ep.taken_off(&mut op);
        if ep.layer.is_some() {
            return self.layer_done(op.interest.context, outcome);
        }
        match outcome {
            Ok(bytes) => ep.report.sent(&op.interest, op.kind.flags(), bytes),
            Err(reason) => ep.fail(op.peer, &op.interest, op.kind.flags(), reason),
        }
    }
}

impl TxOp {
    pub(crate) const fn new(
        ep: Handle,
        peer: PeerId,
        meta: &TxMeta,
        kind: TxKind,
        payload: Payload,
    ) -> Self {
        let (interest, data) = (meta.interest(), meta.cq_data());
        let (queued, acked) = (false, false);
        Self { ep, peer, interest, kind, payload, data, queued, acked }
    }

    /// An acknowledgement is asked for.
    #[inline]
    pub(super) const fn acknowledged(&self) -> bool {
        acknowledged(&self.interest, matches!(self.kind, TxKind::Send { .. }))
    }

    /// The application believes it done.
    pub(super) fn is_injected(&self) -> bool {
        self.interest.silent || self.interest.flags.contains(Flags::INJECT)
    }

    /// The peer's answer ends it, and it is staged at least.
    pub(super) fn is_staged(&self) -> bool {
        !self.queued && self.answered() && self.payload.buffers().len() <= COPIED
    }

    /// The peer's answer ends it.
    pub(super) const fn answered(&self) -> bool {
        self.acked || matches!(self.kind, TxKind::Atomic { .. })
    }
}
