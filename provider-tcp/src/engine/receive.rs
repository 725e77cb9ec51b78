//! HOT. What arrives: from bytes to headers, from headers to places, and to receives.
//!
//! A message without a receive is kept on the heap, within a budget; beyond it the message waits in
//! the socket, and with it everything behind it. That is harmless only while nothing that the
//! application waits for can be behind it, so the budget stretches where it does.

use fabric_core::{
    Errno, Result,
    flags::Flags,
    inbox::Arrival,
    lock::Lock,
    log::Subsys,
    matching::{Key, PeerId},
    mem::Buffers,
    rdm_over_msg::Taker,
    slab::Handle,
};

use super::{
    Core, Engine,
    bulk::is_large,
    conn::{Conn, Control, Phase, Sink, State},
    remote::commit,
    rx_context::Bound,
};
use crate::{
    frame::head::{Answer, HeadError, HeadFlags, Header, Op, Parsed, parse},
    net::{Net, Stream},
};

/// System calls for one connection before others get their turn.
const TURNS: usize = 16;
/// Payloads with more bytes to come are read into their place, and little beyond them.
const LARGE: usize = 16 << 10;
const AHEAD: usize = 4 << 10;

/// The peer broke the protocol, or cannot be served any more; the connection ends.
pub(super) type Broken = Errno;

/// What a header leads to.
pub(super) enum Begun {
    /// The payload goes there.
    Payload(Sink),
    /// Nothing follows.
    Done,
    /// The payload was there, and is where it belongs.
    Whole,
    /// It has to wait.
    Stall,
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Reads a connection; `true` if there was something.
    pub(super) fn read(&mut self, handle: Handle) -> bool {
        self.read_for(handle, &mut ())
    }

    /// The same; the protocol above takes messages.
    pub(super) fn read_for(&mut self, handle: Handle, above: &mut impl Taker) -> bool {
        let Some(conn) = self.conns.get_mut(handle) else { return false };
        let mut moved = false;
        for _ in 0..TURNS {
            if !conn.takes_more() {
                break;
            }
            if conn.state != State::Open {
                return self.greet(handle) || moved;
            }
            match self.core.read(handle, conn, &mut self.scratch, above) {
                Ok(More::Yes) => moved = true,
                Ok(More::No) => {
                    moved = true;
                    break;
                }
                Ok(More::Nothing) => break,
                Err(reason) => {
                    self.down(handle, reason);
                    return true;
                }
            }
        }
        conn.idle = if moved { 0 } else { conn.idle.saturating_add(1) };
        let answers = moved && !conn.tx.is_idle() && !conn.tx.blocked;
        if moved {
            conn.set_pace();
            self.rewatch(handle);
        }
        if answers {
            self.list(handle);
        }
        moved
    }

    /// Nothing will come but what is here, so that none of it need wait any longer: the end is behind
    /// it.
    #[cold]
    pub(super) fn ended(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        conn.ended = conn.state == State::Open;
        if conn.ended && conn.is_stalled() {
            self.resume(handle);
        }
        self.rewatch(handle);
    }

    /// Goes on with what was read behind the hand-shake.
    pub(super) fn read_carried(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        let carried = std::mem::take(&mut conn.rx.carry);
        match self.core.take(handle, conn, &carried, &mut ()) {
            Ok(taken) => conn.rx.carry.extend_from_slice(&carried[taken..]),
            Err(reason) => return self.down(handle, reason),
        }
        if !conn.tx.is_idle() {
            self.list(handle);
        }
        self.rewatch(handle);
    }
}

/// Whether a connection has more to read.
pub(super) enum More {
    /// Probably.
    Yes,
    /// Not now.
    No,
    /// There was nothing.
    Nothing,
}

impl<L: Lock> Core<L> {
    /// One system call's worth of bytes.
    #[inline]
    fn read<S: Stream>(
        &mut self,
        me: Handle,
        conn: &mut Conn<S>,
        scratch: &mut [u8],
        above: &mut impl Taker,
    ) -> Result<More, Broken> {
        let (direct, of_large) = match &conn.rx.phase {
            Phase::Payload { sink, got, left } => (sink.place(*got, *left), is_large(*got + *left)),
            _ => (Buffers::EMPTY, false),
        };
        if let Phase::Payload { sink: Sink::Write { pieces, .. }, .. } = &conn.rx.phase
            && !pieces.iter().all(|(_, region)| region.is_open())
        {
            // A region has been closed under a write: its bytes may go nowhere.
            self.withdraw(conn)?;
            return Ok(More::Yes);
        }
        let carried = conn.rx.carry.len();
        let ahead = scratch.len() / 2;
        let little = direct.len() >= LARGE || conn.rx.expects_large();
        let ahead = if little { ahead.min(AHEAD) } else { ahead };
        let room = carried + ahead;
        let Some(rest) = scratch.get_mut(carried..room) else { return Err(Errno::EPROTO) };
        let want = direct.len() + rest.len();
        let n = match conn.stream.receive(&direct, rest) {
            Ok(0) => return Err(Errno::ECONNRESET),
            Ok(n) => n,
            Err(Errno::EAGAIN) => return Ok(More::Nothing),
            Err(reason) => return Err(reason),
        };
        let placed = n.min(direct.len());
        if placed != 0 {
            self.advance(conn, placed)?;
            if placed == direct.len() && of_large {
                conn.rx.pace.ends();
            }
        }
        if n > placed {
            conn.rx.pace.goes_on();
            scratch[..carried].copy_from_slice(&conn.rx.carry);
            let bytes = &scratch[..carried + n - placed];
            conn.rx.carry.clear();
            let taken = self.take(me, conn, bytes, above)?;
            conn.rx.carry.extend_from_slice(&bytes[taken..]);
        }
        Ok(if n == want { More::Yes } else { More::No })
    }

    /// Takes bytes that have been read; returns how many. The rest is part of a header, or behind a
    /// message that has to wait.
    pub(super) fn take<S>(
        &mut self,
        me: Handle,
        conn: &mut Conn<S>,
        bytes: &[u8],
        above: &mut impl Taker,
    ) -> Result<usize, Broken> {
        let mut at = 0;
        let mut header = Header::ack();
        while at < bytes.len() {
            match &mut conn.rx.phase {
                Phase::Stalled(_) => break,
                Phase::Payload { sink, got, left } => {
                    let n = (*left).min(bytes.len() - at);
                    sink.fill(*got, &bytes[at..at + n]);
                    at += n;
                    self.advance(conn, n)?;
                }
                Phase::Header => {
                    match parse(&bytes[at..], conn.endian, conn.extensions, &mut header) {
                        Ok(Parsed::Short(_)) => break,
                        Ok(Parsed::Whole(len)) => {
                            at += len;
                            let behind = &bytes[at..];
                            let taken = self.begin_at(me, conn, &header, behind, above)?;
                            at += taken.unwrap_or(0);
                        }
                        Err(error) => {
                            self.say_broken(conn, &error);
                            return Err(Errno::EPROTO);
                        }
                    }
                }
            }
        }
        Ok(at)
    }

    /// A peer has sent what cannot be understood.
    #[cold]
    fn say_broken<S>(&self, conn: &Conn<S>, error: &HeadError) {
        let Some(ep) = self.eps.get(conn.ep) else { return };
        let Some(peer) = ep.peers.get(conn.peer as usize) else { return };
        let from = peer.address;
        fabric_core::warn!("tcp", Subsys::EpData, "{from} is let go: {error}");
    }

    /// Bytes have arrived in their place.
    #[inline]
    fn advance<S>(&mut self, conn: &mut Conn<S>, n: usize) -> Result<(), Broken> {
        let Phase::Payload { got, left, .. } = &mut conn.rx.phase else { return Ok(()) };
        *got += n;
        *left -= n.min(*left);
        if *left != 0 {
            return Ok(());
        }
        let got = *got;
        match std::mem::replace(&mut conn.rx.phase, Phase::Header) {
            Phase::Payload { sink, .. } => self.end(conn, sink, got),
            _ => Ok(()),
        }
    }

    /// A header has arrived, and `behind` it what has been read with it. Returns how many bytes of
    /// that are taken, which are all of the payload or none. `None`: it has to wait.
    #[inline]
    pub(super) fn begin_at<S>(
        &mut self,
        me: Handle,
        conn: &mut Conn<S>,
        header: &Header,
        behind: &[u8],
        above: &mut impl Taker,
    ) -> Result<Option<usize>, Broken> {
        let left = header.payload_len();
        if conn.layer.is_some() && self.layer_takes(conn, header, behind, above)? {
            return Ok(Some(left));
        }
        match self.begin(me, conn, header, behind)? {
            Begun::Done => {}
            Begun::Whole => return Ok(Some(left)),
            Begun::Payload(mut sink) => {
                if let Some(payload) = behind.get(..left) {
                    sink.fill(0, payload);
                    self.end(conn, sink, left)?;
                    return Ok(Some(left));
                }
                conn.rx.phase = Phase::Payload { sink, got: 0, left };
            }
            Begun::Stall => {
                conn.rx.phase = Phase::Stalled(*header);
                if let Some((_, context)) = self.receiver(conn.ep)
                    && !context.stalled.contains(&me)
                {
                    context.stalled.push(me);
                }
                return Ok(None);
            }
        }
        Ok(Some(0))
    }

    #[inline]
    fn begin<S>(
        &mut self,
        me: Handle,
        conn: &mut Conn<S>,
        header: &Header,
        behind: &[u8],
    ) -> Result<Begun, Broken> {
        match header.op() {
            Op::Message | Op::Tagged => self.begin_message(conn, header, behind),
            Op::Ack => self.acked(conn),
            Op::Read => self.serve(conn, header),
            Op::ReadResponse => self.begin_read_response(conn, header).map(Begun::Payload),
            Op::Write => self.begin_write(conn, header).map(Begun::Payload),
            Op::Rts => self.announced(me, conn, header),
            Op::Cts => self.asked_for(conn, header),
            Op::Data => self.begin_data(conn, header).map(Begun::Payload),
            Op::Atomic => self.begin_atomic(conn, header).map(Begun::Payload),
            Op::AtomicResponse => self.begin_values(conn, header).map(Begun::Payload),
            Op::Error => self.refused_by_peer(conn, header).map(|()| Begun::Done),
        }
    }

    #[inline]
    fn begin_message<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
        behind: &[u8],
    ) -> Result<Begun, Broken> {
        let ack = wants_ack(header);
        if conn.layer.is_some() {
            return self.begin_packet(conn, header, ack);
        }
        let (ep, context) = self.receiver(conn.ep).ok_or(Errno::EPROTO)?;
        let sender = context.sender(conn.ep, conn.peer);
        let arrival = arrival(sender, header, header.payload_len());
        if arrival.key.tagged && ep.msg.is_some() && !context.is_shared() {
            // Connected endpoints have no tagged receives of their own.
            return Err(Errno::EPROTO);
        }
        if let Some(receive) = context.inbox.take_receive(&arrival) {
            ep.stats.received += 1;
            let Some(payload) = behind.get(..arrival.len) else {
                return Ok(Begun::Payload(Sink::Receive { receive, arrival, ack }));
            };
            // Most small messages end here.
            let placed = receive.buffers.fill(0, payload);
            let src = ep.source(ep.peer_of(arrival.key));
            context.inbox.complete(&mut ep.report, &receive, &arrival, src, Ok(placed));
            if ack {
                conn.tx.control.push_back(Control::Head(Header::ack()));
            }
            return Ok(Begun::Whole);
        }
        let bound = match (conn.ended, conn.waits_for_answers()) {
            (true, _) => Bound::Socket,
            (false, true) => Bound::Stretched,
            (false, false) => Bound::Budget,
        };
        if !self.hold(conn.ep, conn.peer, arrival.len, bound) {
            // What it lacks of its stream will never come.
            return if conn.ended { Err(Errno::ECONNRESET) } else { Ok(Begun::Stall) };
        }
        if let Some(ep) = self.eps.get_mut(conn.ep) {
            ep.stats.received += 1;
            ep.stats.unexpected += 1;
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(arrival.len).is_err() {
            self.let_go(conn.ep, arrival.key, arrival.len);
            return Err(Errno::ENOMEM);
        }
        Ok(Begun::Payload(Sink::Keep { bytes, arrival, ack }))
    }

    fn acked<S>(&mut self, conn: &mut Conn<S>) -> Result<Begun, Broken> {
        let op = conn.answered(Answer::Ack)?;
        let len = self.ops.get(op).map_or(0, |op| op.payload.buffers().len());
        self.finish(op, Ok(len));
        Ok(Begun::Done)
    }

    fn announced<S>(
        &mut self,
        me: Handle,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<Begun, Broken> {
        self.handle_rts(me, conn, header).map(|()| Begun::Done)
    }

    fn asked_for<S>(&mut self, conn: &mut Conn<S>, header: &Header) -> Result<Begun, Broken> {
        self.handle_cts(conn, header).map(|()| Begun::Done)
    }

    /// A payload is complete.
    fn end<S>(&mut self, conn: &mut Conn<S>, sink: Sink, got: usize) -> Result<(), Broken> {
        let ack = match sink {
            Sink::Receive { receive, arrival, ack } => {
                let placed = receive.buffers.len().min(got);
                self.received(conn.ep, &receive, &arrival, Ok(placed));
                ack
            }
            Sink::Keep { bytes, arrival, ack } => {
                self.arrived_whole(conn.ep, &arrival, bytes.into_boxed_slice());
                ack
            }
            Sink::Write { pieces, data, ack, commit: commits } => {
                if commits {
                    commit(&pieces);
                }
                if let Some(ep) = self.eps.get_mut(conn.ep) {
                    ep.written(conn.peer, &pieces, got, data);
                }
                self.layer_accessed(conn, Flags::REMOTE_WRITE, &pieces, data);
                ack
            }
            Sink::Read { op, .. } => {
                self.finish(op, Ok(got));
                false
            }
            Sink::Drop { ack } => ack,
            Sink::Refuse(refusal) => {
                conn.tx.control.push_back(Control::Head(Header::error(refusal)));
                false
            }
            Sink::Atomic(operands) => {
                self.end_atomic(conn, &operands)?;
                false
            }
            Sink::Packet { bytes, ack } => {
                self.end_packet(conn, bytes);
                ack
            }
        };
        if ack {
            conn.tx.control.push_back(Control::Head(Header::ack()));
        }
        Ok(())
    }
}

/// What a header says of its message.
#[inline]
pub(super) fn arrival(peer: PeerId, header: &Header, len: usize) -> Arrival {
    let tagged = header.op() != Op::Message;
    Arrival { key: Key { tagged, peer, tag: header.tag() }, len, data: header.cq_data() }
}

/// Whether the receiver has to say when the payload is there.
#[inline]
pub(super) const fn wants_ack(header: &Header) -> bool {
    let either = HeadFlags::DELIVERY_COMPLETE.union(HeadFlags::COMMIT_COMPLETE);
    header.flags().intersects(either)
}

/// Needed of a region.
pub(super) const NEED_READ: Flags = Flags::REMOTE_READ;
pub(super) const NEED_WRITE: Flags = Flags::REMOTE_WRITE;
