//! HOT. Operations that an endpoint starts, and what leaves on a connection.

use super::{
    Conn, Core, Engine, Sent, State, Token, Transport, Work,
    packet::{AtomicRequest, Head, Message, Ranges},
    pieces::{Pieces, Way},
};
use crate::{
    Errno, Result,
    completion::{CqError, Entry, Interest},
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, Payload},
    op::{AtomicKind, RmaKind, SendOp, TxMeta},
    slab::Handle,
};

/// Completion levels that need an answer from the peer.
pub(super) const ACKNOWLEDGED: Flags =
    Flags::DELIVERY_COMPLETE.union(Flags::TRANSMIT_COMPLETE).union(Flags::COMMIT_COMPLETE);
/// What the transport is told of an operation.
const PASSED_ON: Flags = ACKNOWLEDGED.union(Flags::MORE);
/// An operation of the application that waits or is under way.
pub(super) struct TxOp<T: Transport> {
    pub(super) peer: PeerId,
    /// The connection that it is under way on.
    pub(super) conn: Option<Handle>,
    pub(super) interest: Interest,
    pub(super) kind: TxKind,
    /// What is sent, or where a read's bytes go.
    pub(super) payload: Payload,
    /// Remote CQ data.
    pub(super) data: Option<u64>,
    /// Counted in the backlog: not all of it has left.
    pub(super) queued: bool,
    pub(super) phase: Phase<T>,
}

/// What kind of operation.
#[derive(Debug)]
pub(super) enum TxKind {
    Send {
        tagged: bool,
        tag: u64,
    },
    Write(Ranges),
    Read(Ranges),
    /// The values are the payload; old values go to `result` if it fetches.
    Atomic {
        request: Box<AtomicRequest>,
        result: Buffers,
    },
}

/// How far an operation has come.
#[derive(Debug)]
pub(super) enum Phase<T: Transport> {
    /// It has not begun.
    Waiting,
    /// The transport has all of it.
    Sent,
    /// The first bytes are on their way as so many segments.
    Segments(Segments),
    /// Its bytes are open to the peer, who has to say what becomes of them.
    Announced(Announced<T>),
    /// The peer has said where they are to go.
    Writing(Box<Ranges>, Pieces),
    /// On memory of the peer's.
    Remote(Pieces),
    /// The peer has to answer.
    Asked,
}

/// A message that leaves in segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segments {
    pub(super) at: usize,
    pub(super) number: u32,
    pub(super) under_way: u32,
}

/// A message whose bytes wait for the peer.
#[derive(Debug)]
pub(super) struct Announced<T: Transport> {
    pub(super) exposure: T::Exposure,
    pub(super) ranges: Box<Ranges>,
}

impl TxKind {
    /// Completion flags.
    #[inline]
    const fn flags(&self) -> Flags {
        match self {
            Self::Send { tagged: true, .. } => Flags::SEND.union(Flags::TAGGED),
            Self::Send { tagged: false, .. } => Flags::SEND.union(Flags::MSG),
            Self::Write(_) => Flags::RMA.union(Flags::WRITE),
            Self::Read(_) => Flags::RMA.union(Flags::READ),
            Self::Atomic { request, .. } => match request.kind {
                AtomicKind::Base => Flags::ATOMIC.union(Flags::WRITE),
                AtomicKind::Fetch | AtomicKind::Compare => Flags::ATOMIC.union(Flags::READ),
            },
        }
    }
}

impl<T: Transport> TxOp<T> {
    pub(super) const fn new(peer: PeerId, meta: &TxMeta, kind: TxKind, payload: Payload) -> Self {
        let (interest, data) = (meta.interest(), meta.cq_data());
        let phase = Phase::Waiting;
        Self { peer, conn: None, interest, kind, payload, data, queued: false, phase }
    }

    /// What the peer is told of a message.
    pub(super) fn message(&self) -> Message {
        let (tagged, tag) = match self.kind {
            TxKind::Send { tagged, tag } => (tagged, tag),
            _ => (false, 0),
        };
        Message { tagged, tag, size: self.payload.buffers().len() as u64, data: self.data }
    }

    /// What the transport is told.
    pub(super) fn flags(&self) -> Flags {
        let is_send = matches!(self.kind, TxKind::Send { .. });
        if is_send && self.interest.silent {
            self.interest.flags & Flags::MORE
        } else {
            self.interest.flags & PASSED_ON
        }
    }

    /// The application believes it done, and nothing of it has left.
    pub(super) fn is_owed(&self) -> bool {
        let injected = self.interest.silent || self.interest.flags.contains(Flags::INJECT);
        injected && !matches!(self.phase, Phase::Sent)
    }
}

impl<T: Transport, L: Lock> Engine<T, L> {
    /// Posts a send of `buffers`, which describe `op.iov`.
    #[inline]
    pub(crate) fn post_send(&mut self, op: &SendOp<'_>, buffers: Buffers) -> Result<()> {
        let core = &mut self.core;
        let peer = core.peers.resolve(op.meta.dest)?;
        if op.meta.injects() && buffers.len() > core.limits.inject {
            return Err(Errno::EINVAL);
        }
        if op.meta.flags.contains(Flags::MATCH_COMPLETE) {
            // The wire says when a message has arrived, not when it has found a receive.
            return Err(Errno::EOPNOTSUPP);
        }
        let acknowledged = !op.meta.silent && op.meta.flags.intersects(ACKNOWLEDGED);
        let kind = TxKind::Send { tagged: op.tagged, tag: op.tag };
        if buffers.len() <= T::COPIED.min(core.limits.eager as usize)
            && !acknowledged
            && !op.meta.flags.contains(Flags::FENCE)
            && let Some(handle) = core.peers.get(peer).and_then(|peer| peer.conn)
            && let Some(conn) = self.conns.get(handle)
            && conn.is_clear()
            && let Some(next) = core.works.next_handle()
        {
            let message = Message {
                tagged: op.tagged,
                tag: op.tag,
                size: buffers.len() as u64,
                data: op.meta.cq_data(),
            };
            let head = Head::eager(&message).about(conn.theirs, 0);
            let (more, token) = (op.meta.flags.contains(Flags::MORE), Token(next.raw()));
            match self.transport.inject(conn.link, head.bytes(), &buffers, more, token) {
                Ok(Sent::Now) => {
                    core.stats.eager += 1;
                    core.report.sent(&op.meta.interest(), kind.flags(), buffers.len());
                    return Ok(());
                }
                Ok(Sent::Later) => {
                    core.stats.eager += 1;
                    let payload = Payload::borrowed(buffers);
                    core.leaves(handle, TxOp::new(peer, &op.meta, kind, payload));
                    return Ok(());
                }
                Err(_) => {}
            }
        }
        let payload =
            if op.meta.injects() { Payload::copied(&buffers) } else { Payload::borrowed(buffers) };
        self.post(TxOp::new(peer, &op.meta, kind, payload))
    }

    /// Takes an operation: into the queue of its connection, or of its peer if there is none.
    pub(super) fn post(&mut self, mut op: TxOp<T>) -> Result<()> {
        self.make_room(op.peer)?;
        let peer = op.peer;
        let known = self.core.peers.get(peer).ok_or(Errno::EINVAL)?.conn;
        let open = known
            .filter(|conn| self.conns.get(*conn).is_some_and(|conn| conn.state == State::Open));
        if open.is_none() && op.interest.silent {
            return Err(self.not_yet(peer));
        }
        op.conn = open;
        self.core.has_to_wait(&mut op);
        let handle = self.core.works.insert(Work::Op(op)).map_err(|_| Errno::EAGAIN)?;
        if let Some(open) = open
            && let Some(conn) = self.conns.get_mut(open)
        {
            conn.queue.push_back(handle);
            if !conn.listed {
                self.pump(open);
            }
            return Ok(());
        }
        if let Some(peer) = self.core.peers.get_mut(peer) {
            peer.waiting.push_back(handle);
        }
        if known.is_none() {
            self.reach(peer);
        }
        Ok(())
    }

    /// Sends until nothing is left or the transport takes no more.
    pub(super) fn pump(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        if conn.state != State::Open {
            return;
        }
        if self.core.pump(&mut self.transport, conn).is_err() {
            self.list(handle);
        }
        // What the application waits for now may be behind messages that are not taken.
        if !self.paused.is_empty() {
            self.resume(handle);
        }
    }

    /// Sends an answer, behind those that wait.
    pub(super) fn answer(&mut self, handle: Handle, head: Head, body: &[u8]) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        let packet = [&head.bytes()[..], body].concat();
        if conn.answers.is_empty() && tell(&mut self.transport, conn.link, &packet).is_ok() {
            return;
        }
        conn.answers.push_back(packet.into_boxed_slice());
        self.list(handle);
    }

    /// The transport has ended an operation.
    #[inline]
    pub(super) fn done(&mut self, token: Token, outcome: Result<()>) {
        let handle = Handle::from_raw(token.0);
        match self.core.works.get_mut(handle) {
            Some(Work::Op(op)) => match &mut op.phase {
                Phase::Sent => self.core.finish(handle, outcome),
                Phase::Segments(segments) => {
                    segments.under_way = segments.under_way.saturating_sub(1);
                    let all = segments.at == op.payload.buffers().len();
                    if outcome.is_err() || all && segments.under_way == 0 {
                        self.core.finish(handle, outcome);
                    }
                }
                Phase::Remote(pieces) => {
                    if let Some(outcome) = pieces.ended(outcome) {
                        self.core.finish(handle, outcome);
                    }
                }
                Phase::Writing(_, pieces) => {
                    if let Some(outcome) = pieces.ended(outcome) {
                        self.has_written(handle, outcome);
                    }
                }
                // An operation whose connection has ended, and its number another's.
                Phase::Waiting | Phase::Announced(_) | Phase::Asked => {}
            },
            Some(Work::Transfer(transfer)) => {
                if let Some(outcome) = transfer.pieces.ended(outcome) {
                    self.has_read(handle, outcome);
                }
            }
            None => {}
        }
    }
}

/// Sends a packet that nobody waits for the end of.
pub(super) fn tell<T: Transport>(transport: &mut T, link: T::Conn, packet: &[u8]) -> Result<()> {
    transport.inject(link, packet, &Buffers::EMPTY, false, Token::NOBODY).map(|_| ())
}

impl<T: Transport, L: Lock> Core<T, L> {
    /// Hands what waits on a connection to the transport. An error: there is more, for later.
    fn pump(&mut self, transport: &mut T, conn: &mut Conn<T>) -> Result<()> {
        while let Some(answer) = conn.answers.front() {
            tell(transport, conn.link, answer)?;
            conn.answers.pop_front();
        }
        while let Some(work) = conn.announced.front() {
            self.start(transport, conn, *work)?;
            conn.announced.pop_front();
        }
        while let Some(work) = conn.queue.front() {
            self.start(transport, conn, *work)?;
            conn.queue.pop_front();
        }
        Ok(())
    }

    /// Hands work to the transport; an error: it stays in front, and is tried again later.
    fn start(&mut self, transport: &mut T, conn: &Conn<T>, handle: Handle) -> Result<()> {
        if let Some(Work::Transfer(transfer)) = self.works.get_mut(handle) {
            return transfer.start(transport, conn, Token(handle.raw()));
        }
        // A cancelled operation leaves its handle behind.
        let Some(Work::Op(op)) = self.works.get(handle) else { return Ok(()) };
        if self.must_wait(op) {
            return Err(Errno::EAGAIN);
        }
        let len = op.payload.buffers().len();
        match &op.kind {
            TxKind::Send { .. } if len <= self.limits.eager as usize => {
                self.start_eager(transport, conn, handle)
            }
            TxKind::Send { .. } if len <= self.limits.segmented => {
                self.start_segments(transport, conn, handle)
            }
            TxKind::Send { .. } => self.start_announced(transport, conn, handle),
            TxKind::Read(_) | TxKind::Write(_) => self.start_remote(transport, conn, handle),
            TxKind::Atomic { .. } => self.start_atomic(transport, conn, handle),
        }
    }

    fn start_eager(&mut self, transport: &mut T, conn: &Conn<T>, handle: Handle) -> Result<()> {
        let Some(Work::Op(op)) = self.works.get_mut(handle) else { return Ok(()) };
        let head = Head::eager(&op.message()).about(conn.theirs, 0);
        let (flags, body, token) = (op.flags(), op.payload.buffers(), Token(handle.raw()));
        let sent = if body.len() <= T::COPIED && !flags.intersects(ACKNOWLEDGED) {
            let more = flags.contains(Flags::MORE);
            transport.inject(conn.link, head.bytes(), body, more, token)?
        } else {
            transport.send(conn.link, head.bytes(), body, flags, token)?
        };
        self.stats.eager += 1;
        match sent {
            Sent::Now => self.finish(handle, Ok(())),
            Sent::Later => {
                op.phase = Phase::Sent;
                self.has_begun(handle);
            }
        }
        Ok(())
    }

    fn start_remote(&mut self, transport: &mut T, conn: &Conn<T>, handle: Handle) -> Result<()> {
        let Some(Work::Op(op)) = self.works.get_mut(handle) else { return Ok(()) };
        let (kind, remote) = match &op.kind {
            TxKind::Read(ranges) => (RmaKind::Read, ranges),
            TxKind::Write(ranges) => (RmaKind::Write, ranges),
            _ => return Ok(()),
        };
        let (local, data) = (op.payload.buffers(), op.data);
        let flags = op.interest.flags & PASSED_ON;
        let way = Way { kind, local, remote, data, flags };
        if matches!(op.phase, Phase::Waiting) {
            op.phase = Phase::Remote(Pieces::default());
        }
        let Phase::Remote(pieces) = &mut op.phase else { return Ok(()) };
        pieces.start(transport, conn.link, &way, Token(handle.raw()))?;
        self.has_begun(handle);
        Ok(())
    }

    /// An operation is on its way on a connection, by the next handle.
    #[cold]
    fn leaves(&mut self, conn: Handle, mut op: TxOp<T>) {
        (op.conn, op.phase) = (Some(conn), Phase::Sent);
        self.has_left(&op);
        let _ = self.works.insert(Work::Op(op));
    }

    /// Ends an operation, exactly once, and tells its owner.
    pub(super) fn finish(&mut self, handle: Handle, outcome: Result<()>) {
        let Some(Work::Op(op)) = self.works.remove(handle) else { return };
        self.has_ended(&op);
        self.tell(&op, outcome);
    }

    /// Tells the owner of an operation how it has ended.
    pub(super) fn tell(&mut self, op: &TxOp<T>, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                let len = op.payload.buffers().len();
                self.report.sent(&op.interest, op.kind.flags(), len);
            }
            Err(reason) => {
                let src = self.source(op.peer);
                let entry = Entry { src, ..Entry::new(op.interest.context, op.kind.flags()) };
                let mut error = CqError::new(entry, reason);
                if let Some(peer) = self.peers.get(op.peer) {
                    error = error.data(&super::Address::to_bytes(&peer.address));
                }
                self.report.send_failed(error);
            }
        }
    }

    /// How completions name a peer.
    #[inline]
    pub(super) fn source(&mut self, peer: PeerId) -> u64 {
        if self.limits.source { self.peers.source(peer) } else { crate::op::ADDR_UNSPEC }
    }
}
