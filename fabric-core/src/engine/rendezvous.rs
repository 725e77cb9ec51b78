//! PENDING. Large transfers: the bytes stay where they are until the other side is ready, then are
//! sent in segments, or copied directly where that is possible and their owner does not answer.

use super::{
    Core, TxOp,
    packet::{Places, Reader, Seals},
    peers::Stream,
    pull::{Origin, Pull},
    receive::{Body, arrival},
    transmit::TxKind,
};
use crate::{
    Errno,
    flags::Flags,
    inbox::{Arrival, Receive},
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, IOV_LIMIT, Payload},
    mr::Resolved,
    slab::{Handle, Slab},
    wire::{Head, Op, Packet, Refused, Source, WireTx},
};

/// Bytes of a segment at most: the receiver copies one while the next is written.
pub(super) const SEGMENT: usize = 32 << 10;

/// A message whose bytes are with its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// The sender's operation.
    pub(super) handle: u64,
    places: Places<IOV_LIMIT>,
}

/// Bytes on their way to us.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(super) peer: PeerId,
    pub(super) kind: TransferKind,
    pub(super) got: usize,
    pub(super) want: usize,
    /// Copied from here; otherwise segments come.
    pub(super) pull: Option<Pull>,
}

/// What the bytes are for.
#[derive(Debug)]
pub(crate) enum TransferKind {
    /// A message; `theirs` is the sender's operation.
    Message { receive: Receive, arrival: Arrival, theirs: u64 },
    /// A write to our memory; `theirs` is the initiator's operation.
    Write { sinks: Vec<(Buffers, Resolved)>, data: Option<u64>, theirs: u64 },
    /// A read of our own: the operation that has the buffers; `theirs` is the target's service.
    Read { ours: Handle, theirs: u64, seals: Seals },
}

impl TransferKind {
    /// Who has the bytes.
    pub(super) const fn origin(&self) -> Origin {
        match self {
            Self::Message { theirs, .. } | Self::Write { theirs, .. } => {
                Origin { handle: *theirs, service: false }
            }
            Self::Read { theirs, .. } => Origin { handle: *theirs, service: true },
        }
    }

    /// Whether the memory may still be written: regions can be closed meanwhile.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Write { sinks, .. } => sinks.iter().all(|(_, region)| region.is_open()),
            Self::Message { .. } | Self::Read { .. } => true,
        }
    }

    /// Whether [`TransferKind::sink`] is all of it.
    pub(super) const fn has_one_sink(&self) -> bool {
        match self {
            Self::Write { sinks, .. } => sinks.len() == 1,
            Self::Message { .. } | Self::Read { .. } => true,
        }
    }

    /// Where they go, for transfers into one description of memory.
    pub(super) fn sink(&self, ops: &Slab<TxOp>) -> Buffers {
        match self {
            Self::Message { receive, .. } => receive.buffers,
            Self::Write { sinks, .. } => sinks.first().map_or(Buffers::EMPTY, |(sink, _)| *sink),
            Self::Read { ours, .. } => {
                ops.get(*ours).map_or(Buffers::EMPTY, |op| *op.payload.buffers())
            }
        }
    }
}

/// A read that we serve: granted, or streaming to the initiator's transfer.
#[derive(Debug)]
pub(crate) struct Service {
    pub(super) peer: PeerId,
    /// The initiator's operation.
    pub(super) theirs: u64,
    pub(super) pieces: Vec<(Buffers, Resolved)>,
    pub(super) bytes: usize,
    /// The initiator's transfer once it asked for segments.
    pub(super) to: Option<u64>,
    pub(super) sent: usize,
}

impl Service {
    /// Whether the memory may still be read.
    fn is_open(&self) -> bool {
        self.pieces.iter().all(|(_, region)| region.is_open())
    }
}

impl<L: Lock> Core<L> {
    pub(super) fn handle_offer<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let mut words = Reader::new(packet.payload);
        let handle = words.word()?;
        let len = words.length()?;
        let places = words.places::<IOV_LIMIT>()?;
        if places.total() != len {
            return None;
        }
        let arrival = arrival(peer, &packet.head, len);
        let offer = Offer { handle, places };
        self.stats.received += 1;
        match self.inbox.take_receive(&arrival) {
            Some(receive) => self.accept(tx, receive, &arrival, offer),
            None if self.memory_to_keep(&arrival).is_none() => return self.put_off(&arrival),
            None => self.keep(&arrival, Body::Offered(offer)),
        }
        Some(())
    }

    /// Fetches an offered message into its receive.
    pub(super) fn accept<T: WireTx>(
        &mut self,
        tx: &mut T,
        receive: Receive,
        arrival: &Arrival,
        offer: Offer,
    ) {
        let peer = arrival.key.peer;
        let local = receive.buffers.slice(0, arrival.len);
        let want = local.len();
        let places = offer.places.as_slice();
        if want == 0 {
            self.complete_receive(&receive, arrival, Ok(want));
            self.acknowledge(tx, peer, offer.handle, 0);
            return;
        }
        let kind = TransferKind::Message { receive, arrival: *arrival, theirs: offer.handle };
        self.fetch(tx, peer, kind, places, want);
    }

    /// The peer wants the bytes of one of our operations.
    pub(super) fn handle_request(&mut self, peer: PeerId, packet: &Packet) -> Option<()> {
        let want = Reader::new(packet.payload).length()?;
        let handle = Handle::from_raw(packet.head.a);
        let Some(op) = self.ops.get_mut(handle).filter(|op| op.peer == peer && op.started) else {
            return Some(());
        };
        let sends = matches!(op.kind, TxKind::Send { .. } | TxKind::Write);
        if !sends || want > op.payload.buffers().len() {
            return None;
        }
        // A second request starts over: a direct copy of what the first one was for has failed.
        op.stream = Some((packet.head.b, 0, want));
        self.start_stream(peer, Stream::Op(handle));
        Some(())
    }

    fn start_stream(&mut self, peer: PeerId, stream: Stream) {
        let streams = &mut self.peer_mut(peer).streams;
        if !streams.contains(&stream) {
            streams.push_back(stream);
        }
        // Sent at the end of this progress call: behind the request may be word that it is no
        // longer needed.
        self.block(peer);
    }

    pub(super) fn handle_segment<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let handle = Handle::from_raw(packet.head.a);
        let Some(transfer) = self.transfers.get_mut(handle).filter(|t| t.peer == peer) else {
            // Of a receive that has ended, for example because memory was closed meanwhile.
            return Some(());
        };
        let len = packet.payload.len();
        if len == 0 || len > transfer.want - transfer.got {
            return None;
        }
        if !transfer.kind.is_open() {
            self.withdraw(tx, handle);
            return Some(());
        }
        match &transfer.pull {
            Some(pull) if pull.waits() => transfer.pull = None,
            // Too late: the bytes are being copied.
            Some(_) => return Some(()),
            None => {}
        }
        match &transfer.kind {
            TransferKind::Message { receive, .. } => {
                packet.payload.copy_to(0, &receive.buffers, transfer.got, len);
            }
            TransferKind::Write { sinks, .. } => {
                let (mut skip, mut at) = (transfer.got, 0);
                for (sink, _) in sinks {
                    if skip < sink.len() && at < len {
                        at += packet.payload.copy_to(at, sink, skip, len - at);
                        skip = 0;
                    } else {
                        skip = skip.saturating_sub(sink.len());
                    }
                }
            }
            TransferKind::Read { ours, .. } => {
                if let Some(op) = self.ops.get(*ours) {
                    packet.payload.copy_to(0, op.payload.buffers(), transfer.got, len);
                }
            }
        }
        transfer.got += len;
        if transfer.got < transfer.want {
            return Some(());
        }
        if let Some(transfer) = self.transfers.remove(handle) {
            self.transferred(tx, transfer);
        }
        Some(())
    }

    /// A read has failed at its target: nothing more comes for it.
    #[cold]
    pub(super) fn drop_read_transfer(&mut self, read: Handle) {
        let of_read =
            |kind: &TransferKind| matches!(kind, TransferKind::Read { ours, .. } if *ours == read);
        let found = self.transfers.iter().find(|(_, transfer)| of_read(&transfer.kind));
        if let Some(handle) = found.map(|(handle, _)| handle) {
            self.transfers.remove(handle);
        }
    }

    /// Ends a write whose region has been closed under it.
    #[cold]
    pub(super) fn withdraw<T: WireTx>(&mut self, tx: &mut T, handle: Handle) {
        let Some(transfer) = self.transfers.remove(handle) else { return };
        let origin = transfer.kind.origin();
        self.acknowledge(tx, transfer.peer, origin.handle, Errno::ENOKEY.get());
    }

    /// All bytes of a transfer are here.
    pub(super) fn transferred<T: WireTx>(&mut self, tx: &mut T, transfer: Transfer) {
        let Transfer { peer, kind, got, .. } = transfer;
        match kind {
            TransferKind::Message { receive, arrival, theirs } => {
                self.complete_receive(&receive, &arrival, Ok(got));
                self.acknowledge(tx, peer, theirs, 0);
            }
            TransferKind::Write { sinks, data, theirs } => {
                self.written(peer, sinks.iter().map(|(_, region)| region), got, data);
                self.acknowledge(tx, peer, theirs, 0);
            }
            TransferKind::Read { ours, theirs, .. } => {
                self.end_read(tx, peer, ours, theirs, Ok(got));
            }
        }
    }

    /// Ends a granted read, here and at its target.
    pub(super) fn end_read<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        ours: Handle,
        theirs: u64,
        outcome: Result<usize, Errno>,
    ) {
        let head = Head { op: Op::Release as u8, flags: 0, a: theirs, b: 0 };
        self.control(tx, peer, head, &[]);
        self.finish(ours, outcome);
        self.unblock_fenced(tx, peer);
    }

    /// The initiator of a granted read has the bytes, or has seen that they are no longer there.
    pub(super) fn handle_release(&mut self, peer: PeerId, packet: &Packet) -> Option<()> {
        let handle = Handle::from_raw(packet.head.a);
        if self.services.get(handle).is_some_and(|service| service.peer == peer)
            && let Some(service) = self.services.remove(handle)
            && service.is_open()
        {
            self.read_served(service.bytes);
        }
        Some(())
    }

    /// The initiator of a granted read cannot copy and wants segments.
    pub(super) fn handle_stream(&mut self, peer: PeerId, packet: &Packet) -> Option<()> {
        let handle = Handle::from_raw(packet.head.a);
        let Some(service) = self.services.get_mut(handle).filter(|s| s.peer == peer) else {
            return Some(());
        };
        (service.to, service.sent) = (Some(packet.head.b), 0);
        self.start_stream(peer, Stream::Service(handle));
        Some(())
    }

    /// Sends a served read's segments; `true` when none is left.
    pub(super) fn stream_service<T: WireTx>(&mut self, tx: &mut T, handle: Handle) -> bool {
        let Some(service) = self.services.get_mut(handle) else { return true };
        let Some(to) = service.to else { return true };
        if !service.is_open() {
            let (peer, theirs) = (service.peer, service.theirs);
            self.services.remove(handle);
            self.acknowledge(tx, peer, theirs, Errno::ENOKEY.get());
            return true;
        }
        let room = tx.max_payload(service.peer).min(SEGMENT);
        while service.sent < service.bytes {
            let mut skip = service.sent;
            let piece = service.pieces.iter().map(|(piece, _)| piece).find(|piece| {
                let here = skip < piece.len();
                if !here {
                    skip -= piece.len();
                }
                here
            });
            let Some(piece) = piece else { break };
            let len = (piece.len() - skip).min(room);
            let head = Head { op: Op::Segment as u8, flags: 0, a: to, b: 0 };
            match tx.try_emit(service.peer, head, &Source { fixed: &[], data: piece, skip, len }) {
                Ok(()) => {
                    service.sent += len;
                    self.stats.segments += 1;
                }
                Err(Refused::Again) => return false,
                // The wire reports the peer's end, and that ends the service.
                Err(Refused::Down(_)) => break,
            }
        }
        true
    }

    pub(super) fn read_served(&mut self, bytes: usize) {
        self.stats.served += 1;
        if self.limits.rma_event {
            self.report.accessed(super::REMOTE_READ, bytes, None, crate::op::ADDR_UNSPEC);
        }
    }

    /// Peer memory has been written here, completely and visibly.
    pub(super) fn written<'a>(
        &mut self,
        peer: PeerId,
        regions: impl Iterator<Item = &'a Resolved>,
        bytes: usize,
        data: Option<u64>,
    ) {
        self.stats.served += 1;
        for region in regions {
            region.complete_write(bytes as u64);
        }
        let source = self.source(peer);
        if self.limits.rma_event || data.is_some() {
            self.report.accessed(super::REMOTE_WRITE, bytes, data, source);
        }
    }

    /// Copies granted or offered bytes at once.
    pub(super) fn copy_into<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        places: &[(u64, u64)],
        sinks: &[Buffers],
    ) -> Result<(), Errno> {
        if !tx.can_copy(peer) {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut skip = 0;
        for sink in sinks {
            tx.copy_from(peer, places, skip, sink)?;
            skip += sink.len();
        }
        self.stats.copies += 1;
        Ok(())
    }
}

/// Flags that make a payload of its own necessary.
pub(super) fn payload_of(injects: bool, buffers: Buffers) -> Payload {
    if injects { Payload::copied(&buffers) } else { Payload::borrowed(buffers) }
}

/// What target-side memory must allow for a write.
pub(super) const NEED_WRITE: Flags = Flags::REMOTE_WRITE;
/// What target-side memory must allow for a read.
pub(super) const NEED_READ: Flags = Flags::REMOTE_READ;
