//! PENDING. Large messages: announced first, so that their bytes travel when their place is known.
//!
//! The receiver chooses how: it reads them and says so, or tells where they are to be written and is
//! told when they are. Which of the two is a setting of its own; a sender answers both.

use super::{
    Conn, Core, Engine, Token, Transport, Work,
    packet::{Head, Message, Ranges},
    pieces::{Pieces, Way},
    receive::{Body, Broken, NEED_READ, NEED_WRITE, arrival},
    transmit::{Announced, Phase, TxKind, tell},
};
use crate::{
    Errno, Result,
    flags::Flags,
    inbox::{Arrival, Receive},
    lock::Lock,
    matching::PeerId,
    mem::Buffers,
    op::RmaKind,
    slab::Handle,
};

/// An announced message on its way to its receive.
pub(super) struct Transfer<T: Transport> {
    /// The connection that it was announced on, and by which name.
    pub(super) conn: Handle,
    name: u64,
    receive: Receive,
    arrival: Arrival,
    /// Where the sender has it.
    remote: Box<Ranges>,
    /// The part of the receive that it fills.
    local: Buffers,
    pub(super) pieces: Pieces,
    /// The sender writes.
    exposure: Option<T::Exposure>,
}

impl<T: Transport> Transfer<T> {
    pub(super) const fn take_exposure(&mut self) -> Option<T::Exposure> {
        self.exposure.take()
    }

    pub(super) const fn peer(&self) -> PeerId {
        self.arrival.key.peer
    }

    /// Reads, as far as the transport lets.
    pub(super) fn start(&mut self, transport: &mut T, conn: &Conn<T>, token: Token) -> Result<()> {
        let (local, remote) = (&self.local, &*self.remote);
        let way = Way { kind: RmaKind::Read, local, remote, data: None, flags: Flags::empty() };
        self.pieces.start(transport, conn.link, &way, token)
    }
}

impl<T: Transport, L: Lock> Engine<T, L> {
    /// A peer announces a message.
    pub(super) fn announced(
        &mut self,
        handle: Handle,
        peer: PeerId,
        name: u64,
        message: &Message,
        ranges: Ranges,
    ) -> Result<(), Broken> {
        let arrival = arrival::<T>(peer, message)?;
        self.core.stats.received += 1;
        let ranges = Box::new(ranges);
        match self.core.inbox.take_receive(&arrival) {
            Some(receive) => self.transfer(handle, name, ranges, receive, arrival),
            None => {
                self.core.stats.unexpected += 1;
                let body = Body::Announced { conn: handle, name, ranges };
                self.core.inbox.keep(&arrival, body);
                self.core.hold(peer, 0, 1);
                self.pause_if_full(handle);
            }
        }
        Ok(())
    }

    /// Begins to move an announced message to its receive.
    pub(super) fn transfer(
        &mut self,
        handle: Handle,
        name: u64,
        remote: Box<Ranges>,
        receive: Receive,
        arrival: Arrival,
    ) {
        let local = receive.buffers.slice(0, arrival.len);
        if local.is_empty() {
            self.tell_read(handle, name);
            return self.core.received(&receive, &arrival, Ok(0));
        }
        let transfer = Transfer {
            conn: handle,
            name,
            receive,
            arrival,
            remote,
            local,
            pieces: Pieces::default(),
            exposure: None,
        };
        let Some(conn) = self.conns.get_mut(handle) else {
            return self.core.received(&receive, &arrival, Err(Errno::ECONNRESET));
        };
        let Ok(work) = self.core.works.insert(Work::Transfer(transfer)) else {
            return self.core.received(&receive, &arrival, Err(Errno::ENOMEM));
        };
        self.core.count_transfer(arrival.key.peer, true);
        if self.core.limits.written {
            return self.ask_to_write(handle, work);
        }
        conn.announced.push_back(work);
        if !conn.listed {
            self.pump(handle);
        }
    }

    /// Tells the sender of an announced message where to write it.
    fn ask_to_write(&mut self, handle: Handle, work: Handle) {
        let Some(Work::Transfer(transfer)) = self.core.works.get_mut(work) else { return };
        match self.transport.expose(&transfer.local, NEED_WRITE) {
            Ok((exposure, ranges)) => {
                transfer.exposure = Some(exposure);
                let (name, body) = (transfer.name, ranges.bytes());
                if let Some(conn) = self.conns.get_mut(handle) {
                    conn.written.push((name, work));
                    let head = Head::write_ready().about(conn.theirs, name);
                    self.answer(handle, head, &body);
                }
            }
            Err(reason) => {
                self.core.end_transfer(&mut self.transport, work, Err(reason));
            }
        }
    }

    /// All bytes of a message have been read.
    pub(super) fn has_read(&mut self, work: Handle, outcome: Result<()>) {
        let ended = self.core.end_transfer(&mut self.transport, work, outcome);
        if let Some((conn, name)) = ended
            && outcome.is_ok()
        {
            self.tell_read(conn, name);
        }
    }

    /// Tells the sender of an announced message that we need it no more.
    pub(super) fn tell_read(&mut self, handle: Handle, name: u64) {
        if let Some(conn) = self.conns.get(handle) {
            let head = Head::read_done().about(conn.theirs, name);
            self.answer(handle, head, &[]);
        }
    }

    /// The sender has written an announced message.
    pub(super) fn was_written(&mut self, handle: Handle, name: u64) -> Result<(), Broken> {
        let conn = self.conns.get_mut(handle).ok_or(Errno::EPROTO)?;
        let at = conn.written.iter().position(|(known, _)| *known == name);
        let (_, work) = conn.written.swap_remove(at.ok_or(Errno::EPROTO)?);
        self.core.end_transfer(&mut self.transport, work, Ok(()));
        Ok(())
    }

    /// The receiver of a message that we announced has read it.
    pub(super) fn was_read(&mut self, handle: Handle, name: u64) -> Result<(), Broken> {
        let work = Handle::from_raw(name);
        let phase = self.core.announced_on(handle, work)?;
        if let Phase::Announced(Announced { exposure, .. }) = std::mem::replace(phase, Phase::Sent)
        {
            self.transport.withdraw(exposure);
        }
        self.core.finish(work, Ok(()));
        Ok(())
    }

    /// The receiver of a message that we announced says where to write it.
    pub(super) fn may_write(
        &mut self,
        handle: Handle,
        name: u64,
        ranges: Ranges,
    ) -> Result<(), Broken> {
        let work = Handle::from_raw(name);
        let phase = self.core.announced_on(handle, work)?;
        let writing = Phase::Writing(Box::new(ranges), Pieces::default());
        if let Phase::Announced(Announced { exposure, .. }) = std::mem::replace(phase, writing) {
            self.transport.withdraw(exposure);
        }
        if let Some(conn) = self.conns.get_mut(handle) {
            conn.announced.push_back(work);
            if !conn.listed {
                self.pump(handle);
            }
        }
        Ok(())
    }

    /// All bytes of a message that we announced have been written.
    pub(super) fn has_written(&mut self, work: Handle, outcome: Result<()>) {
        if outcome.is_ok()
            && let Some(Work::Op(op)) = self.core.works.get(work)
            && let Some(handle) = op.conn
            && let Some(conn) = self.conns.get(handle)
        {
            let head = Head::write_done().about(conn.theirs, work.raw());
            self.answer(handle, head, &[]);
        }
        self.core.finish(work, outcome);
    }
}

impl<T: Transport, L: Lock> Core<T, L> {
    /// The state of a message that was announced on this connection, and that the peer has not
    /// answered.
    fn announced_on(&mut self, conn: Handle, work: Handle) -> Result<&mut Phase<T>, Broken> {
        match self.works.get_mut(work) {
            Some(Work::Op(op))
                if op.conn == Some(conn) && matches!(op.phase, Phase::Announced(_)) =>
            {
                Ok(&mut op.phase)
            }
            _ => Err(Errno::EPROTO),
        }
    }

    /// Opens a message to the peer and announces it; or writes it, if the peer has said where.
    pub(super) fn start_announced(
        &mut self,
        transport: &mut T,
        conn: &Conn<T>,
        handle: Handle,
    ) -> Result<()> {
        let Some(Work::Op(op)) = self.works.get_mut(handle) else { return Ok(()) };
        let payload = op.payload.buffers();
        match &mut op.phase {
            Phase::Waiting => match transport.expose(payload, NEED_READ) {
                Ok((exposure, ranges)) => {
                    let ranges = Box::new(ranges);
                    op.phase = Phase::Announced(Announced { exposure, ranges });
                }
                Err(reason) => {
                    self.finish(handle, Err(reason));
                    return Ok(());
                }
            },
            Phase::Writing(remote, pieces) => {
                let flags = Flags::empty();
                let way = Way { kind: RmaKind::Write, local: payload, remote, data: None, flags };
                return pieces.start(transport, conn.link, &way, Token(handle.raw()));
            }
            _ => {}
        }
        let head = Head::announcement(&op.message()).about(conn.theirs, handle.raw());
        let Phase::Announced(Announced { ranges, .. }) = &op.phase else { return Ok(()) };
        let packet = [&head.bytes()[..], &ranges.bytes()].concat();
        tell(transport, conn.link, &packet)?;
        self.stats.rendezvous += 1;
        self.has_begun(handle);
        Ok(())
    }

    /// Ends the way of an announced message; returns where it came from, and its name there.
    pub(super) fn end_transfer(
        &mut self,
        transport: &mut T,
        work: Handle,
        outcome: Result<()>,
    ) -> Option<(Handle, u64)> {
        let Some(Work::Transfer(transfer)) = self.works.remove(work) else { return None };
        self.count_transfer(transfer.peer(), false);
        if let Some(exposure) = transfer.exposure {
            transport.withdraw(exposure);
        }
        let outcome = outcome.map(|()| transfer.local.len());
        self.received(&transfer.receive, &transfer.arrival, outcome);
        Some((transfer.conn, transfer.name))
    }

    /// A message of an operation is announced no more.
    pub(super) fn close_exposure(&mut self, transport: &mut T, work: Handle) {
        if let Some(Work::Op(op)) = self.works.get_mut(work)
            && let TxKind::Send { .. } = op.kind
            && let Phase::Announced(Announced { exposure, .. }) =
                std::mem::replace(&mut op.phase, Phase::Waiting)
        {
            transport.withdraw(exposure);
        }
    }
}
