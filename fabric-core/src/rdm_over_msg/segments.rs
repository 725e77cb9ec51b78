//! HOT. Messages in segments: taken apart here, put together there. Segments of one message come in
//! order on one connection, so that their place is where the one before has ended.

use super::{
    Conn, Core, Sent, Token, Transport, Work,
    packet::{Head, Message, Packet, Parsed, Place, Segment},
    receive::{Arrivals, Body, Broken},
    transmit::{Phase, Segments},
};
use crate::{
    Errno, Result,
    flags::Flags,
    inbox::{Arrival, Receive},
    lock::Lock,
    matching::PeerId,
    slab::Handle,
};

/// A message that is being put together, or has been and waits for its receive.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) arrival: Arrival,
    pub(super) got: usize,
    pub(super) target: Target,
}

/// Where segments go.
#[derive(Debug)]
pub(super) enum Target {
    /// To a receive.
    Receive(Receive),
    /// To the heap, until a receive is posted.
    Keep(Vec<u8>),
    /// Nowhere.
    Drop,
}

impl Assembly {
    pub(super) const fn is_whole(&self) -> bool {
        self.got == self.arrival.len
    }

    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        if bytes.len() > self.arrival.len - self.got {
            return Err(Errno::EPROTO);
        }
        match &mut self.target {
            Target::Receive(receive) => {
                receive.buffers.fill(self.got, bytes);
            }
            Target::Keep(kept) => {
                kept.try_reserve(bytes.len()).map_err(|_| Errno::ENOMEM)?;
                kept.extend_from_slice(bytes);
            }
            Target::Drop => {}
        }
        self.got += bytes.len();
        Ok(())
    }

    /// A receive has been found for what is here and what is to come.
    pub(super) fn give_to(&mut self, receive: Receive) -> usize {
        let kept = std::mem::replace(&mut self.target, Target::Receive(receive));
        match kept {
            Target::Keep(bytes) => {
                receive.buffers.fill(0, &bytes);
                bytes.len()
            }
            Target::Receive(_) | Target::Drop => 0,
        }
    }
}

impl<T: Transport, L: Lock> Arrivals<'_, T, L> {
    /// A segment has arrived.
    pub(super) fn segment(
        &mut self,
        handle: Handle,
        peer: PeerId,
        parsed: &Parsed<'_>,
    ) -> Result<(), Broken> {
        let Packet::Segment(message, segment) = &parsed.packet else { return Err(Errno::EPROTO) };
        // Others find the connection by this number, so a wrong one is no oversight.
        if parsed.connection != u64::from(peer) {
            return Err(Errno::EPROTO);
        }
        let (name, bytes) = (parsed.message, parsed.body);
        let conn = self.conns.get_mut(handle).ok_or(Errno::EPROTO)?;
        let at = conn.assembling.iter().position(|(known, _)| *known == name);
        let assembly = match (at, segment.place) {
            (None, Place::First) => {
                let assembly = self.core.begin_assembly(peer, message)?;
                conn.assembling.push((name, assembly));
                assembly
            }
            (Some(at), Place::Middle) => conn.assembling[at].1,
            (Some(at), Place::Last) => conn.assembling.swap_remove(at).1,
            (Some(_), Place::First) | (None, Place::Middle | Place::Last) => {
                return Err(Errno::EPROTO);
            }
        };
        let Some(state) = self.core.assemblies.get_mut(assembly) else { return Ok(()) };
        let broken = state.take(bytes);
        let last = segment.place == Place::Last;
        if broken.is_err() || last && !state.is_whole() {
            if last {
                // It ends with the connection, like those that are still listed.
                conn.assembling.push((name, assembly));
            }
            return broken.and(Err(Errno::EPROTO));
        }
        if matches!(state.target, Target::Keep(_)) {
            self.core.hold(peer, bytes.len(), 0);
            self.pause_later_if_full(handle);
        }
        if last {
            self.core.end_assembly(assembly);
        }
        Ok(())
    }
}

impl<T: Transport, L: Lock> Core<T, L> {
    fn begin_assembly(&mut self, peer: PeerId, message: &Message) -> Result<Handle, Broken> {
        let arrival = super::receive::arrival::<T>(peer, message)?;
        self.stats.received += 1;
        let receive = self.inbox.take_receive(&arrival);
        let target = receive.map_or_else(|| Target::Keep(Vec::new()), Target::Receive);
        let assembly = Assembly { arrival, got: 0, target };
        let handle = self.assemblies.insert(assembly).map_err(|_| Errno::ENOMEM)?;
        if receive.is_none() {
            self.stats.unexpected += 1;
            self.inbox.keep(&arrival, Body::Assembling(handle));
            self.hold(peer, 0, 1);
        }
        Ok(handle)
    }

    /// All segments are here. A message without a receive stays.
    fn end_assembly(&mut self, handle: Handle) {
        let Some(assembly) = self.assemblies.get(handle) else { return };
        let (arrival, receive) = (
            assembly.arrival,
            match assembly.target {
                Target::Keep(_) => return,
                Target::Receive(receive) => Some(receive),
                Target::Drop => None,
            },
        );
        self.assemblies.remove(handle);
        if let Some(receive) = receive {
            let placed = receive.buffers.len().min(arrival.len);
            self.received(&receive, &arrival, Ok(placed));
        }
    }

    /// Hands over segments until there are enough.
    pub(super) fn start_segments(
        &mut self,
        transport: &mut T,
        conn: &Conn<T>,
        handle: Handle,
    ) -> Result<()> {
        let Some(Work::Op(op)) = self.works.get_mut(handle) else { return Ok(()) };
        let (message, flags) = (op.message(), op.flags());
        let all = op.payload.buffers();
        if matches!(op.phase, Phase::Waiting) {
            op.phase = Phase::Segments(Segments::default());
        }
        let Phase::Segments(segments) = &mut op.phase else { return Ok(()) };
        while segments.at < all.len() {
            let left = all.len() - segments.at;
            let len = left.min(self.limits.eager as usize);
            let place = match segments.number {
                0 => Place::First,
                _ if len == left => Place::Last,
                _ => Place::Middle,
            };
            let segment = Segment { number: segments.number, place };
            let head = Head::segment(&message, segment, len as u16);
            let head = head.about(conn.theirs, handle.raw());
            // Delivery of the last segment is delivery of all.
            let flags = if len == left { flags } else { Flags::MORE };
            let body = all.slice(segments.at, len);
            let token = Token(handle.raw());
            let sent = transport.send(conn.link, head.bytes(), &body, flags, token)?;
            segments.at += len;
            segments.number += 1;
            segments.under_way += u32::from(sent == Sent::Later);
            self.stats.segments += 1;
        }
        if segments.under_way == 0 {
            self.finish(handle, Ok(()));
        } else {
            self.has_begun(handle);
        }
        Ok(())
    }
}
