//! HOT. Connections for a protocol above: it has messages of its own in ours, answers requests for
//! connections itself and hears what becomes of them. Remote memory works as for every endpoint.

use fabric_core::{
    Errno, Result,
    completion::Interest,
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, Payload},
    op::RmaKind,
    rdm_over_msg::{self, Access, Sent, Taker, Token},
    slab::Handle,
};

use super::{
    Core, Engine, Identity,
    conn::{Conn, Control, Current, Layered, Pieces, Sink, State},
    failed::Failed,
    handshake::send_whole,
    leaving::Leave,
    receive::{Begun, Broken, wants_ack},
    timers::Due,
    transmit::{TxKind, TxOp},
};
use crate::{
    address::SocketAddress,
    frame::{
        cm::{CmKind, CmMessage},
        head::{Header, Op, Ranges},
    },
    net::{Net, Stream},
    streams::Streams,
};

/// Bytes in front of a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    bytes: [u8; FRONT],
    pub(super) len: usize,
}

/// Most of them.
const FRONT: usize = 64;

/// An operation has ended.
#[inline]
pub(super) fn done<L: Lock>(context: usize, outcome: Result<usize>) -> Event<L> {
    Event::Done { token: Token(context as u64), outcome: outcome.map(|_| ()) }
}

/// What it hears.
pub(crate) type Event<L> = rdm_over_msg::Event<Streams<L>>;

/// What it has not heard yet.
#[derive(Debug)]
pub(crate) struct Told<L: Lock> {
    events: Vec<Event<L>>,
    /// Not all of that are ends of operations.
    mixed: bool,
}

impl<L: Lock> Default for Told<L> {
    fn default() -> Self {
        Self { events: Vec::new(), mixed: false }
    }
}

impl<L: Lock> core::ops::Deref for Told<L> {
    type Target = [Event<L>];

    fn deref(&self) -> &[Event<L>] {
        &self.events
    }
}

impl<L: Lock> Told<L> {
    #[inline]
    pub(super) fn push(&mut self, event: Event<L>) {
        self.mixed |= !matches!(event, Event::Done { .. });
        self.events.push(event);
    }

    /// It hears of it.
    #[inline]
    pub(crate) fn hand_over(&mut self, to: &mut Vec<Event<L>>) {
        to.append(&mut self.events);
        self.mixed = false;
    }

    /// It need not hear of it any more.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.mixed = false;
    }
}

/// The context of regions that are exposed for a message: no other has this address.
pub(crate) fn exposed() -> usize {
    static OWN: u8 = 0;
    core::ptr::from_ref(&OWN).addr()
}

/// Messages that wait on one connection before no more are taken.
const QUEUED: usize = 64;

impl Layered {
    /// The message that asks for the connection.
    pub(super) fn request(&mut self) -> Result<CmMessage> {
        let words = std::mem::take(&mut self.words);
        CmMessage::new(CmKind::Request, &words).map_err(|_| Errno::EINVAL)
    }
}

impl<S> Conn<S> {
    /// Begins to send a message.
    pub(super) fn begin_packet(&mut self, header: &Header, front: &Front, op: Handle) {
        self.tx.head(self.endian, header);
        self.tx.out.extend_from_slice(&front.bytes[..front.len]);
        self.tx.current = Some(Current::Op { op, at: 0 });
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Asks for a connection.
    pub(crate) fn layer_connect(
        &mut self,
        ep: Handle,
        token: Token,
        to: SocketAddress,
        words: &[u8],
    ) -> Result<Handle> {
        let state = self.core.eps.get(ep).ok_or(Errno::EOPBADSTATE)?;
        let (local, patience) = (state.local.map(SocketAddress::get), state.limits.connect);
        let stream = self.net.connect(local, to.get())?;
        let now = self.net.now();
        let deadline = now + patience;
        let mut conn = Conn::new(stream, ep, PeerId::MAX, State::Connecting);
        (conn.begun, conn.deadline) = (Some(now), Some(deadline));
        conn.layer =
            Some(Layered { token: token.0, to: Some(to), words: words.to_vec(), paused: false });
        let handle = self.adopt(conn)?;
        self.schedule(deadline, Due::Handshake(handle));
        Ok(handle)
    }

    /// Accepts a connection that was asked for.
    pub(crate) fn layer_accept(
        &mut self,
        handle: Handle,
        token: Token,
        words: &[u8],
    ) -> Result<()> {
        let waits = |conn: &&mut Conn<N::Stream>| conn.state == State::Waiting;
        let conn = self.conns.get_mut(handle).filter(waits).ok_or(Errno::ECONNRESET)?;
        let answer = CmMessage::new(CmKind::Response, words).map_err(|_| Errno::EINVAL)?;
        if let Err(reason) = send_whole(&mut conn.stream, &answer) {
            self.down(handle, reason);
            return Err(reason);
        }
        conn.layer = Some(Layered { token: token.0, to: None, words: Vec::new(), paused: false });
        self.settle_claim(handle);
        self.layer_up(handle, &[]);
        Ok(())
    }

    /// Turns a connection that was asked for down.
    pub(crate) fn layer_reject(&mut self, handle: Handle, words: &[u8]) {
        if self.conns.get(handle).is_some_and(|conn| conn.state == State::Waiting) {
            let _ = self.refuse_with(handle, words);
        }
    }

    /// A connection is up.
    pub(super) fn layer_up(&mut self, handle: Handle, words: &[u8]) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        let Some(layer) = &conn.layer else { return };
        let (conn, data) = (Token(layer.token), words.to_vec());
        self.core.layer.push(Event::Connected { conn, data });
        self.open(handle, Identity::default());
    }

    /// The other end is of our own kind. Hosts of another byte order have been turned away.
    pub(crate) fn layer_extend(&mut self, handle: Handle) {
        if let Some(conn) = self.conns.get_mut(handle) {
            conn.extensions = true;
        }
    }

    /// Ends a connection without a word.
    pub(crate) fn layer_end(&mut self, handle: Handle) {
        let Some(mut conn) = self.conns.remove(handle) else { return };
        self.unheat(handle);
        conn.stream.finish();
        for op in conn.operations() {
            self.core.ops.remove(op);
        }
    }

    /// This end of a connection.
    pub(crate) fn layer_local(&self, handle: Handle) -> Result<SocketAddress> {
        let conn = self.conns.get(handle).ok_or(Errno::ENOTCONN)?;
        conn.stream.local().map(SocketAddress::from)
    }

    /// Takes in what has come on a connection.
    pub(crate) fn layer_look(&mut self, handle: Handle) {
        self.read(handle);
    }

    /// Takes no messages of a connection, or takes them again.
    pub(crate) fn layer_pause(&mut self, handle: Handle, pause: bool) {
        if let Some(layer) = self.conns.get_mut(handle).and_then(|conn| conn.layer.as_mut()) {
            layer.paused = pause;
            self.rewatch(handle);
        }
    }

    /// Sends a message that is copied, if it can be sent now. The end of what the socket has begun to
    /// take is told when it has taken the rest.
    #[inline]
    pub(crate) fn layer_inject(
        &mut self,
        handle: Handle,
        front: &[u8],
        body: &Buffers,
        more: bool,
        token: Token,
    ) -> Result<Sent> {
        let conn = self.conns.get_mut(handle).ok_or(Errno::ENOTCONN)?;
        if conn.state != State::Open || !conn.tx.is_clear() || conn.tx.blocked {
            return Err(Errno::EAGAIN);
        }
        let Some(ep) = self.core.eps.get(conn.ep) else { return Err(Errno::EOPBADSTATE) };
        let place = conn.tx.place();
        conn.tx.head(conn.endian, &Header::message(front.len() + body.len()));
        conn.tx.out.extend_from_slice(front);
        body.append_to(&mut conn.tx.out);
        let habit = ep.limits.coalesce.then_some(&mut self.habit);
        let leave = conn.tx.when(self.round, more, habit, || self.net.now());
        self.dispatch(handle, leave);
        let conn = self.conns.get_mut(handle).ok_or(Errno::ENOTCONN)?;
        // Ends are told in order.
        if conn.tx.staged() == 0 && self.core.layer.is_empty() {
            return Ok(Sent::Now);
        }
        if conn.tx.blocked && conn.tx.take_back(place) {
            return Err(Errno::EAGAIN);
        }
        if token != Token::NOBODY {
            self.core.layer_promises(conn, token);
        }
        Ok(Sent::Later)
    }

    /// Sends a message.
    pub(crate) fn layer_send(
        &mut self,
        handle: Handle,
        front: &[u8],
        body: Buffers,
        flags: Flags,
        token: Token,
    ) -> Result<Sent> {
        let mut kept = Front { bytes: [0; FRONT], len: front.len() };
        kept.bytes.get_mut(..front.len()).ok_or(Errno::EMSGSIZE)?.copy_from_slice(front);
        let before = self.core.layer.len();
        self.layer_post(handle, TxKind::Packet(kept), body, None, flags, token)?;
        match self.core.layer[..] {
            // It has left already, and nothing else waits to be told.
            [Event::Done { token: done, outcome: Ok(()) }] if before == 0 && done == token => {
                self.core.layer.clear();
                Ok(Sent::Now)
            }
            _ => Ok(Sent::Later),
        }
    }

    /// Reads or writes memory of the peer's.
    pub(crate) fn layer_access(
        &mut self,
        handle: Handle,
        access: &Access<'_>,
        token: Token,
    ) -> Result<()> {
        let ranges = Ranges::new(access.remote).map_err(|_| Errno::EINVAL)?;
        let kind = match access.kind {
            RmaKind::Read => TxKind::Read(ranges),
            RmaKind::Write => TxKind::Write(ranges),
        };
        self.layer_post(handle, kind, *access.local, access.data, access.flags, token)
    }

    fn layer_post(
        &mut self,
        handle: Handle,
        kind: TxKind,
        memory: Buffers,
        data: Option<u64>,
        flags: Flags,
        token: Token,
    ) -> Result<()> {
        let conn = self.conns.get_mut(handle).ok_or(Errno::ENOTCONN)?;
        if conn.state != State::Open || conn.tx.queue.len() >= QUEUED {
            return Err(Errno::EAGAIN);
        }
        let interest = Interest { context: token.0 as usize, flags, silent: false };
        let op = TxOp {
            ep: conn.ep,
            peer: conn.peer,
            interest,
            kind,
            payload: Payload::borrowed(memory),
            data,
            queued: false,
            acked: false,
        };
        let op = self.core.ops.insert(op).map_err(|_| Errno::EAGAIN)?;
        conn.tx.queue.push_back(op);
        let more = flags.contains(Flags::MORE);
        self.dispatch(handle, if more { Leave::Staged } else { Leave::Now });
        Ok(())
    }

    /// Has the protocol above called at this time.
    pub(crate) fn layer_alarm(&mut self, at: std::time::Instant) {
        self.schedule(at, Due::Layer);
    }
}

impl<L: Lock> Core<L> {
    /// A peer asks for a connection.
    pub(super) fn layer_requested<S: Stream>(
        &mut self,
        handle: Handle,
        conn: &mut Conn<S>,
        words: &[u8],
    ) -> Result<()> {
        (conn.state, conn.deadline) = (State::Waiting, None);
        let from = conn.from.ok_or(Errno::EPROTO)?;
        let data = words.to_vec();
        self.layer.push(Event::Requested { request: handle, from, data });
        Ok(())
    }

    /// A connection could not be made. One that was asked for by the peer has come up at once, or
    /// nobody has heard of it.
    pub(super) fn layer_refused(&mut self, layer: &Layered, failed: Failed) {
        let data = if failed.was_taken() { layer.words.clone() } else { Vec::new() };
        let (conn, reason, met) = (Token(layer.token), failed.reason, failed.met());
        self.layer.push(Event::Refused { conn, data, reason, met });
    }

    /// A connection has ended.
    pub(super) fn layer_ended(&mut self, layer: Option<u64>, reason: Errno) {
        if let Some(token) = layer {
            self.layer.push(Event::Ended { conn: Token(token), reason });
        }
    }

    /// An operation has ended.
    #[inline]
    pub(super) fn layer_done(&mut self, context: usize, outcome: Result<usize>) {
        self.layer.push(done(context, outcome));
    }

    /// A peer has read or written. What is only exposed for a message is no memory of the
    /// application's.
    #[inline]
    pub(super) fn layer_accessed<S>(
        &mut self,
        conn: &Conn<S>,
        kind: Flags,
        pieces: &Pieces,
        data: Option<u64>,
    ) {
        let Some(layer) = &conn.layer else { return };
        if pieces.iter().any(|(_, region)| region.context() == exposed()) {
            return;
        }
        let bytes = pieces.iter().map(|(piece, _)| piece.len()).sum();
        if data.is_some() || self.eps.get(conn.ep).is_some_and(|ep| ep.limits.rma_event) {
            self.layer.push(Event::Accessed { conn: Token(layer.token), kind, bytes, data });
        }
    }

    /// The end of an operation whose last byte is staged, or has just left, will be told.
    #[cold]
    fn layer_promises<S>(&mut self, conn: &mut Conn<S>, token: Token) {
        let interest = Interest { context: token.0 as usize, flags: Flags::empty(), silent: false };
        conn.tx.promise(&interest, Flags::SEND, 0);
        self.tell_left(conn);
    }

    /// Offers a message that is all here to the protocol above.
    #[inline]
    pub(super) fn layer_takes<S>(
        &self,
        conn: &mut Conn<S>,
        header: &Header,
        behind: &[u8],
        above: &mut impl Taker,
    ) -> Result<bool, Broken> {
        let most = self.eps.get(conn.ep).and_then(|ep| ep.layer).ok_or(Errno::EPROTO)?;
        let len = header.payload_len();
        let (Some(layer), Some(packet)) = (&conn.layer, behind.get(..len)) else {
            return Ok(false);
        };
        if self.layer.mixed || header.op() != Op::Message || len > most {
            return Ok(false);
        }
        let taken = above.take(Token(layer.token), packet)?;
        if taken && wants_ack(header) {
            conn.tx.control.push_back(Control::Head(Header::ack()));
        }
        Ok(taken)
    }

    /// A message begins.
    #[inline]
    pub(super) fn begin_packet<S>(
        &mut self,
        conn: &Conn<S>,
        header: &Header,
        ack: bool,
    ) -> Result<Begun, Broken> {
        let most = self.eps.get(conn.ep).and_then(|ep| ep.layer).ok_or(Errno::EPROTO)?;
        if header.op() != Op::Message || header.payload_len() > most {
            return Err(Errno::EPROTO);
        }
        let bytes = Vec::with_capacity(header.payload_len());
        Ok(Begun::Payload(Sink::Packet { bytes, ack }))
    }

    /// A message is here.
    #[inline]
    pub(super) fn end_packet<S>(&mut self, conn: &Conn<S>, packet: Vec<u8>) {
        if let Some(layer) = &conn.layer {
            self.layer.push(Event::Packet { conn: Token(layer.token), packet });
        }
    }
}
