//! PENDING. Direct copies: the way of large transfers whose owner is not making progress.
//!
//! Where both sides poll, segments through the transport are the faster way, since each side copies
//! at the same time. So the receiving side asks for segments and waits for a number of progress
//! calls. If none has come by then, the owner computes, and the bytes are copied from here: from the
//! end towards the front, a chunk in each progress call, so that other packets are served meanwhile.
//!
//! A very large copy is made from both ends as soon as the owner is back: it is invited, answers
//! `Ready`, is lent the front half of what is left, fills it (`Share`, `Shared`) and may be lent
//! more. Memory that is lent is written by the other side until it says that it is done or has
//! ended: a transfer does not complete before.
//!
//! A read that was copied counts only if its regions' seals are unbroken afterwards: their owner may
//! have closed them, and used the memory for something else, without making progress.

use super::{
    Core,
    packet::{GRANT_LIMIT, Places, Reader, Seals, Words},
    rendezvous::{Transfer, TransferKind},
    transmit::TxKind,
};
use crate::{
    Errno,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, Payload},
    slab::Handle,
    sync::{Ordering, fence},
    wire::{Head, Op, Packet, WireTx, head_flags},
};

const PAGE: usize = 4096;

/// A transfer that we copy: `floor..top` is still to be done here, above `top` all is there.
#[derive(Debug)]
pub(crate) struct Pull {
    places: Places<GRANT_LIMIT>,
    floor: usize,
    top: usize,
    /// Where the part begins that the other side is filling; it ends at `floor`.
    lent_from: Option<usize>,
    /// A copy has failed: nothing is lent any more, the bytes are asked for in segments.
    failed: bool,
    /// Progress calls in which a segment may still come.
    patience: u32,
}

impl Pull {
    const fn new(places: Places<GRANT_LIMIT>, want: usize, patience: u32) -> Self {
        Self { places, floor: 0, top: want, lent_from: None, failed: false, patience }
    }

    /// Whether nothing has been copied yet, so that segments are welcome.
    pub(super) const fn waits(&self) -> bool {
        self.patience != 0
    }
}

/// Whether the regions that a read was granted from are still open, now that it has been copied;
/// `None` if that cannot be found out from here.
fn read_seals<T: WireTx>(tx: &mut T, peer: PeerId, seals: &Seals) -> Option<bool> {
    let (places, count) = seals.places();
    // Not before the bytes: pairs with the fence in the closing of a region.
    fence(Ordering::SeqCst);
    let words = Payload::owned(vec![0; 8 * count].into());
    tx.copy_from(peer, &places[..count], 0, words.buffers()).ok()?;
    Some(seals.hold(&words.buffers().to_boxed()))
}

/// The side that has the bytes: its operation, or its service for a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) handle: u64,
    pub(super) service: bool,
}

impl Origin {
    const fn flags(self) -> u8 {
        if self.service { head_flags::SERVICE } else { 0 }
    }
}

impl<L: Lock> Core<L> {
    /// Fetches a transfer's bytes, which are at `places` of the peer: in segments, or directly if
    /// none comes.
    pub(super) fn fetch<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        kind: TransferKind,
        places: &[(u64, u64)],
        want: usize,
    ) {
        let pull = match Places::from_slice(places) {
            Some(places) if kind.has_one_sink() && tx.can_copy(peer) => {
                Some(Pull::new(places, want, self.limits.patience))
            }
            _ => None,
        };
        let pulls = pull.is_some();
        let origin = kind.origin();
        // The slab is bounded by memory only, so this cannot be refused.
        let transfer = Transfer { peer, kind, got: 0, want, pull };
        let Ok(ours) = self.transfers.insert(transfer) else { return };
        if pulls {
            self.pulls.push_back(ours);
        }
        self.ask(tx, peer, origin, ours, want);
    }

    /// Asks for a transfer's bytes in segments, from the first one.
    fn ask<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        origin: Origin,
        ours: Handle,
        want: usize,
    ) {
        let op = if origin.service { Op::Stream } else { Op::Request };
        let head = Head { op: op as u8, flags: 0, a: origin.handle, b: ours.raw() };
        self.control(tx, peer, head, &(want as u64).to_ne_bytes());
    }

    /// The owner has sent no segment: the transfer is copied from here.
    fn lose_patience<T: WireTx>(&mut self, tx: &mut T, handle: Handle) {
        let Some(transfer) = self.transfers.get(handle) else { return };
        let (peer, origin) = (transfer.peer, transfer.kind.origin());
        self.stats.copies += 1;
        // The memory behind a write is its region's owner's to take away at any time: it is not lent.
        let lendable = self.limits.lends && !matches!(transfer.kind, TransferKind::Write { .. });
        if lendable && transfer.want >= self.limits.shared {
            let flags = origin.flags();
            let head = Head { op: Op::Invite as u8, flags, a: origin.handle, b: handle.raw() };
            self.control(tx, peer, head, &[]);
        }
    }

    /// Copies one chunk of the transfer whose turn it is.
    #[cold]
    pub(super) fn pull_some<T: WireTx>(&mut self, tx: &mut T) {
        let Some(handle) = self.pulls.pop_front() else { return };
        let chunk = self.limits.shared / 2;
        let Some(transfer) = self.transfers.get_mut(handle) else { return };
        if !transfer.kind.is_open() {
            return self.withdraw(tx, handle);
        }
        let (peer, sink) = (transfer.peer, transfer.kind.sink(&self.ops));
        let Some(pull) = &mut transfer.pull else { return };
        if pull.patience != 0 {
            pull.patience -= 1;
            let lost = pull.patience == 0;
            self.pulls.push_back(handle);
            if lost {
                self.lose_patience(tx, handle);
            }
            return;
        }
        let len = (pull.top - pull.floor).min(chunk);
        if len != 0 && !pull.failed {
            let start = pull.top - len;
            match tx.copy_from(peer, pull.places.as_slice(), start, &sink.slice(start, len)) {
                Ok(()) => pull.top = start,
                Err(_) => pull.failed = true,
            }
        }
        if pull.top > pull.floor && !pull.failed {
            self.pulls.push_back(handle);
        } else if pull.lent_from.is_none() {
            self.pulled(tx, handle);
        }
    }

    /// Nothing is left to copy or to wait for.
    fn pulled<T: WireTx>(&mut self, tx: &mut T, handle: Handle) {
        let Some(mut transfer) = self.transfers.remove(handle) else { return };
        let mut failed = transfer.pull.take().is_some_and(|pull| pull.failed);
        if let TransferKind::Read { ours, theirs, seals } = &transfer.kind {
            match read_seals(tx, transfer.peer, seals) {
                Some(true) => {}
                Some(false) => {
                    let (peer, ours, theirs) = (transfer.peer, *ours, *theirs);
                    return self.end_read(tx, peer, ours, theirs, Err(Errno::ENOKEY));
                }
                None => failed = true,
            }
        }
        if failed {
            // Under another handle, so that segments of the first request are told apart.
            let Transfer { peer, want, .. } = transfer;
            let origin = transfer.kind.origin();
            if let Ok(ours) = self.transfers.insert(transfer) {
                self.ask(tx, peer, origin, ours, want);
            }
            return;
        }
        transfer.got = transfer.want;
        self.transferred(tx, transfer);
    }

    /// The other side would like help with copying our bytes.
    pub(super) fn handle_invite<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        if self.source_bytes(peer, &packet.head).is_some() && tx.can_copy(peer) {
            let head = Head { op: Op::Ready as u8, flags: 0, a: packet.head.b, b: 0 };
            self.control(tx, peer, head, &[]);
        }
        Some(())
    }

    /// The other side is there and will fill what it is lent.
    pub(super) fn handle_ready<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let handle = Handle::from_raw(packet.head.a);
        if self.transfers.get(handle).is_some_and(|transfer| transfer.peer == peer) {
            self.lend(tx, handle);
        }
        Some(())
    }

    /// Lends the front half of what is left, if that is worth it.
    fn lend<T: WireTx>(&mut self, tx: &mut T, handle: Handle) {
        let worth = self.limits.shared;
        let Some(transfer) = self.transfers.get_mut(handle) else { return };
        let (peer, sink) = (transfer.peer, transfer.kind.sink(&self.ops));
        let origin = transfer.kind.origin();
        let Some(pull) = &mut transfer.pull else { return };
        let left = pull.top - pull.floor;
        if !self.limits.lends || left < worth || pull.lent_from.is_some() || pull.failed {
            return;
        }
        // Whole pages for the kernel, as far as there are any.
        let half = left / 2;
        let len = if half < PAGE { half } else { half - half % PAGE };
        let mut words = Words::new();
        words.push(pull.floor as u64);
        for piece in sink.slice(pull.floor, len).iov() {
            words.push(piece.base as u64);
            words.push(piece.len as u64);
        }
        pull.lent_from = Some(pull.floor);
        pull.floor += len;
        let head =
            Head { op: Op::Share as u8, flags: origin.flags(), a: origin.handle, b: handle.raw() };
        self.control(tx, peer, head, words.bytes());
    }

    /// A part of the other side's memory has been lent to us to fill.
    pub(super) fn handle_share<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let mut words = Reader::new(packet.payload);
        let skip = words.length()?;
        let places: Places<GRANT_LIMIT> = words.places()?;
        let outcome = match self.source_bytes(peer, &packet.head) {
            None => Err(Errno::ECANCELED),
            Some(source) => {
                if skip.checked_add(places.total()).is_none_or(|end| end > source.len()) {
                    return None;
                }
                tx.copy_to(peer, &source.slice(skip, places.total()), places.as_slice())
            }
        };
        let status = outcome.err().map_or(0, Errno::get);
        let head = Head { op: Op::Shared as u8, flags: 0, a: packet.head.b, b: status as u64 };
        self.control(tx, peer, head, &[]);
        Some(())
    }

    /// The other side has filled what it was lent, or could not.
    pub(super) fn handle_shared<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let handle = Handle::from_raw(packet.head.a);
        let Some(transfer) = self.transfers.get_mut(handle).filter(|t| t.peer == peer) else {
            return Some(());
        };
        let pull = transfer.pull.as_mut()?;
        let from = pull.lent_from.take()?;
        let idle = pull.top == pull.floor || pull.failed;
        if packet.head.b != 0 {
            // Not filled: it is ours again.
            pull.floor = from;
            if idle && !pull.failed {
                self.pulls.push_back(handle);
            } else if idle {
                self.pulled(tx, handle);
            }
            return Some(());
        }
        if idle {
            self.pulled(tx, handle);
        } else {
            self.lend(tx, handle);
        }
        Some(())
    }

    /// Our bytes that a packet about a transfer speaks of.
    fn source_bytes(&self, peer: PeerId, head: &Head) -> Option<Buffers> {
        let handle = Handle::from_raw(head.a);
        if head.flags & head_flags::SERVICE != 0 {
            let service = self.services.get(handle).filter(|service| service.peer == peer)?;
            return match service.pieces.as_slice() {
                [(piece, region)] if region.is_open() => Some(*piece),
                _ => None,
            };
        }
        let op = self.ops.get(handle).filter(|op| op.peer == peer && op.started)?;
        let sends = matches!(op.kind, TxKind::Send { .. } | TxKind::Write);
        sends.then(|| *op.payload.buffers())
    }

    /// Whether a peer may be writing to our memory right now.
    pub(crate) fn lends(&self) -> bool {
        let lent = |transfer: &Transfer| {
            transfer.pull.as_ref().is_some_and(|pull| pull.lent_from.is_some())
        };
        self.transfers.iter().any(|(_, transfer)| lent(transfer))
    }
}
