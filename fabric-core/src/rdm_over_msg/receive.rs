//! HOT. What arrives: from packets to messages, and from messages to receives.

use super::{
    Conn, Core, Engine, State, Taker, Token, Transport,
    packet::{self, HEAD_LEN, Message, Packet, PacketError, Ranges},
    segments::Target,
};
use crate::{
    Errno, Result,
    completion::Report,
    flags::Flags,
    inbox::{Arrival, Inbox, Posted, Receive, Waiting},
    lock::Lock,
    log::Subsys,
    matching::{ANY_PEER, Key, PeerId, Want},
    mem::Buffers,
    op::{ADDR_UNSPEC, RecvOp},
    slab::{Handle, Slab},
};

/// The peer broke the protocol, or cannot be served any more; the connection ends.
pub(super) type Broken = Errno;

/// Where the bytes of a waiting message are.
#[derive(Debug)]
pub(crate) enum Body<T: Transport> {
    /// Here.
    Here(T::Packet),
    /// Some or all of them here.
    Assembling(Handle),
    /// With the sender, who has announced the message on a connection by this name.
    Announced { conn: Handle, name: u64, ranges: Box<Ranges> },
}

/// What a sender says of a message; an error if no memory has room for it.
#[inline]
pub(super) fn arrival<T: Transport>(peer: PeerId, message: &Message) -> Result<Arrival, Broken> {
    let len = usize::try_from(message.size).map_err(|_| Errno::EPROTO)?;
    let key = Key { tagged: message.tagged, peer, tag: message.tag };
    Ok(Arrival { key, len, data: message.data.map(carried::<T>) })
}

/// Data as far as the transport takes it along everywhere.
const fn carried<T: Transport>(data: u64) -> u64 {
    match T::DATA {
        0 => 0,
        bytes @ 1..8 => data & (u64::MAX >> (64 - 8 * bytes)),
        _ => data,
    }
}

impl<T: Transport, L: Lock> Engine<T, L> {
    /// A packet has arrived that has not been taken yet.
    pub(super) fn packet(&mut self, token: Token, packet: T::Packet) {
        let handle = Handle::from_raw(token.0);
        let Some(conn) = self.conns.get(handle) else { return };
        let peer = conn.peer;
        self.count_receive(handle);
        let (core, conns, full) = (&mut self.core, &mut self.conns, &mut self.full);
        let mut arrivals = Arrivals { core, conns, full };
        let outcome = match packet::parse(packet.as_ref()) {
            Ok(parsed) => match parsed.packet {
                Packet::Eager(message) => arrivals.eager(handle, peer, &message, packet),
                Packet::Segment(..) => arrivals.segment(handle, peer, &parsed),
                Packet::Announcement(message, ranges) => {
                    self.announced(handle, peer, parsed.message, &message, ranges)
                }
                Packet::ReadDone => self.was_read(handle, parsed.message),
                Packet::WriteReady(ranges) => self.may_write(handle, parsed.message, ranges),
                Packet::WriteDone => self.was_written(handle, parsed.message),
                Packet::Atomic(request) => {
                    self.apply(handle, parsed.message, &request, parsed.body);
                    Ok(())
                }
                Packet::AtomicResponse(response) => {
                    self.applied(handle, parsed.message, response, parsed.body)
                }
                // Nobody waits for credits here.
                Packet::Credit(_) => Ok(()),
            },
            Err(error) => {
                self.say_broken(peer, &error);
                Err(Errno::EPROTO)
            }
        };
        if let Err(reason) = outcome {
            self.give_up(handle, reason);
        }
        if !self.full.is_empty() {
            self.pause_full();
        }
    }

    /// A peer has sent what cannot be understood.
    #[cold]
    fn say_broken(&self, peer: PeerId, error: &PacketError) {
        if let Some(peer) = self.core.peers.get(peer) {
            crate::warn!("ofi_rxm", Subsys::EpData, "{} is let go: {error}", peer.address);
        }
    }

    /// Posts a receive into `buffers`, which describe `op.iov`.
    #[inline]
    pub(crate) fn post_recv(&mut self, op: &RecvOp<'_>, buffers: Buffers) -> Result<()> {
        let core = &mut self.core;
        let peer = if op.src == ADDR_UNSPEC || !core.limits.directed {
            ANY_PEER
        } else {
            core.peers.resolve(op.src)?
        };
        let want = Want { tagged: op.tagged, peer, tag: op.tag, ignore: op.ignore };
        match core.inbox.post(&mut core.report, op, want, buffers)? {
            Posted::Done => {}
            Posted::Met(key, waiting, receive) => self.meet(key, waiting, receive),
            special => self.finish_special(op, special),
        }
        if !self.paused.is_empty() {
            self.resume_all();
        }
        Ok(())
    }

    /// A receive has met a message that waited.
    fn meet(&mut self, key: Key, waiting: Waiting<Body<T>>, receive: Receive) {
        let arrival = Arrival::of(key, &waiting);
        match waiting.body {
            Body::Here(packet) => {
                let placed = receive.buffers.fill(0, &packet.as_ref()[HEAD_LEN..]);
                self.core.let_go(key.peer, arrival.len, 1);
                self.core.received(&receive, &arrival, Ok(placed));
            }
            Body::Assembling(handle) => {
                let Some(assembly) = self.core.assemblies.get_mut(handle) else { return };
                let whole = assembly.is_whole();
                let held = assembly.give_to(receive);
                self.core.let_go(key.peer, held, 1);
                if whole {
                    self.core.assemblies.remove(handle);
                    let placed = receive.buffers.len().min(arrival.len);
                    self.core.received(&receive, &arrival, Ok(placed));
                }
            }
            Body::Announced { conn, name, ranges } => {
                self.core.let_go(key.peer, 0, 1);
                self.transfer(conn, name, ranges, receive, arrival);
            }
        }
    }

    /// What peeks, discards and multi-receive buffers leave to be done.
    #[cold]
    fn finish_special(&mut self, op: &RecvOp<'_>, posted: Posted<Body<T>>) {
        match posted {
            Posted::Done => {}
            Posted::Met(key, waiting, receive) => self.meet(key, waiting, receive),
            Posted::Buffer(buffer) => {
                while let Some((key, waiting, place)) = self.core.inbox.next_for_buffer(&buffer) {
                    self.meet(key, waiting, place);
                }
            }
            Posted::Seen(arrival) => {
                self.core.tell_found(op, &arrival, Inbox::<Body<T>>::answer_peek)
            }
            Posted::Dropped { key, waiting, peeked } => {
                let arrival = Arrival::of(key, &waiting);
                self.discard(key, waiting);
                let answer = if peeked {
                    Inbox::<Body<T>>::answer_peek
                } else {
                    Inbox::<Body<T>>::answer_discard
                };
                self.core.tell_found(op, &arrival, answer);
            }
        }
    }

    /// Drops a message that waited. The sender of an announced one is told that it has been read.
    fn discard(&mut self, key: Key, waiting: Waiting<Body<T>>) {
        match waiting.body {
            Body::Here(_) => self.core.let_go(key.peer, waiting.len, 1),
            Body::Assembling(handle) => {
                let Some(assembly) = self.core.assemblies.get_mut(handle) else { return };
                let held = assembly.got;
                assembly.target = Target::Drop;
                if assembly.is_whole() {
                    self.core.assemblies.remove(handle);
                }
                self.core.let_go(key.peer, held, 1);
            }
            Body::Announced { conn, name, .. } => {
                self.core.let_go(key.peer, 0, 1);
                self.tell_read(conn, name);
            }
        }
    }
}

/// Takes bytes of messages, from wherever they have been received to where they belong. That needs
/// nothing of the transport, which is busy.
pub(super) struct Arrivals<'a, T: Transport, L: Lock> {
    pub(super) core: &'a mut Core<T, L>,
    pub(super) conns: &'a mut Slab<Conn<T>>,
    /// Connections that are to be paused.
    pub(super) full: &'a mut Vec<Handle>,
}

impl<T: Transport, L: Lock> Taker for Arrivals<'_, T, L> {
    #[inline]
    fn take(&mut self, token: Token, packet: &[u8]) -> Result<bool> {
        let handle = Handle::from_raw(token.0);
        let ready = |conn: &&Conn<T>| conn.state == State::Open && conn.credits.is_none();
        let Some(conn) = self.conns.get(handle).filter(ready) else { return Ok(false) };
        let peer = conn.peer;
        let Ok(parsed) = packet::parse(packet) else { return Ok(false) };
        match parsed.packet {
            Packet::Eager(message) => self.eager(handle, peer, &message, packet)?,
            Packet::Segment(..) => self.segment(handle, peer, &parsed)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl<T: Transport, L: Lock> Arrivals<'_, T, L> {
    #[inline]
    fn eager(
        &mut self,
        handle: Handle,
        peer: PeerId,
        message: &Message,
        packet: impl AsRef<[u8]> + Into<T::Packet>,
    ) -> Result<(), Broken> {
        let arrival = arrival::<T>(peer, message)?;
        let core = &mut *self.core;
        core.stats.received += 1;
        if let Some(receive) = core.inbox.take_receive(&arrival) {
            let placed = receive.buffers.fill(0, &packet.as_ref()[HEAD_LEN..]);
            core.received(&receive, &arrival, Ok(placed));
            return Ok(());
        }
        core.stats.unexpected += 1;
        core.inbox.keep(&arrival, Body::Here(packet.into()));
        core.hold(peer, arrival.len, 1);
        self.pause_later_if_full(handle);
        Ok(())
    }

    /// A connection may be one that takes too much memory.
    #[inline]
    pub(super) fn pause_later_if_full(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get(handle) else { return };
        if !conn.paused && self.full.last() != Some(&handle) && self.core.is_full(conn) {
            self.full.push(handle);
        }
    }
}

impl<T: Transport, L: Lock> Core<T, L> {
    /// Ends a receive. `Ok` carries the bytes placed.
    #[inline]
    pub(super) fn received(
        &mut self,
        receive: &Receive,
        arrival: &Arrival,
        outcome: Result<usize>,
    ) {
        let src = self.source(arrival.key.peer);
        self.inbox.complete(&mut self.report, receive, arrival, src, outcome);
    }

    /// Reports a message that was looked for, as `how` says.
    fn tell_found(
        &mut self,
        op: &RecvOp<'_>,
        arrival: &Arrival,
        how: fn(&mut Report<L>, &RecvOp<'_>, &Arrival, u64),
    ) {
        let src = self.source(arrival.key.peer);
        how(&mut self.report, op, arrival, src);
    }
}

/// Needed of a region.
pub(super) const NEED_READ: Flags = Flags::REMOTE_READ;
pub(super) const NEED_WRITE: Flags = Flags::REMOTE_WRITE;
