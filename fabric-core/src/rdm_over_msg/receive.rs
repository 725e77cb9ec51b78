//! HOT. What arrives: from packets to messages, and from messages to receives.

use super::{
    Core, Engine, Token, Transport,
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
    slab::Handle,
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
    /// A packet has arrived.
    #[inline]
    pub(super) fn packet(&mut self, token: Token, packet: T::Packet) {
        let handle = Handle::from_raw(token.0);
        let Some(conn) = self.conns.get(handle) else { return };
        let peer = conn.peer;
        self.count_receive(handle);
        let outcome = match packet::parse(packet.as_ref()) {
            Ok(parsed) => match parsed.packet {
                Packet::Eager(message) => self.eager(handle, peer, &message, packet),
                Packet::Segment(message, segment) => {
                    // Upstream finds the connection by this number, so a wrong one is no oversight.
                    if parsed.connection == u64::from(peer) {
                        self.segment(handle, parsed.message, &message, segment, parsed.body)
                    } else {
                        Err(Errno::EPROTO)
                    }
                }
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
    }

    /// A peer has sent what cannot be understood.
    #[cold]
    fn say_broken(&self, peer: PeerId, error: &PacketError) {
        if let Some(peer) = self.core.peers.get(peer) {
            crate::warn!("ofi_rxm", Subsys::EpData, "{} is let go: {error}", peer.address);
        }
    }

    #[inline]
    fn eager(
        &mut self,
        handle: Handle,
        peer: PeerId,
        message: &Message,
        packet: T::Packet,
    ) -> Result<(), Broken> {
        let arrival = arrival::<T>(peer, message)?;
        let core = &mut self.core;
        core.stats.received += 1;
        if let Some(receive) = core.inbox.take_receive(&arrival) {
            let placed = receive.buffers.fill(0, &packet.as_ref()[HEAD_LEN..]);
            core.received(&receive, &arrival, Ok(placed));
            return Ok(());
        }
        core.stats.unexpected += 1;
        core.inbox.keep(&arrival, Body::Here(packet));
        core.hold(peer, arrival.len, 1);
        self.pause_if_full(handle);
        Ok(())
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
