//! PENDING. Reads and writes of remote memory, both sides. The target's progress checks every
//! access against its regions before a byte moves.

use super::{
    Core, Engine,
    atomics::Progress,
    packet::{GRANT_LIMIT, Places, Reader, RemotePieces, Words},
    rendezvous::{NEED_READ, NEED_WRITE, Service, TransferKind, payload_of},
    transmit::{TxKind, TxOp},
};
use crate::{
    Errno, Result,
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, IOV_LIMIT, Payload},
    mr::Resolved,
    op::{RmaKind, RmaOp},
    slab::Handle,
    wire::{Head, Op, Packet, Refused, Source, Wire, WireTx, head_flags},
};

/// Reads of up to this many bytes are always answered in one packet. Larger ones may be copied by
/// the initiator later, so where order was promised writes behind them wait.
const SMALL_READ: usize = 512;

impl<W: Wire, L: Lock> Engine<W, L> {
    /// Posts a read or write of `buffers`, which describe `op.iov`.
    pub(crate) fn post_rma(&mut self, op: &RmaOp<'_>, buffers: Buffers) -> Result<()> {
        let peer = self.resolve(op.meta.dest)?;
        let remote = RemotePieces::new(op.remote).ok_or(Errno::EINVAL)?;
        if remote.total() != buffers.len() {
            return Err(Errno::EINVAL);
        }
        let (kind, payload) = match op.kind {
            RmaKind::Write => {
                if op.meta.injects() && buffers.len() > self.core.limits.inject {
                    return Err(Errno::EINVAL);
                }
                (TxKind::Write, payload_of(op.meta.injects(), buffers))
            }
            RmaKind::Read => (TxKind::Read, Payload::borrowed(buffers)),
        };
        let tx_op = TxOp::new(peer, &op.meta, kind, payload, remote);
        let result = self.core.post(self.wire.tx(), tx_op);
        if result == Err(Errno::EAGAIN) {
            self.progress();
        }
        result
    }
}

/// A target-side access that has been checked: the memory of each remote piece.
type Checked = Vec<(Buffers, Resolved)>;

impl<L: Lock> Core<L> {
    pub(super) fn start_write<T: WireTx>(
        &mut self,
        tx: &mut T,
        handle: Handle,
    ) -> Result<(), Refused> {
        let Some(op) = self.ops.get(handle) else { return Ok(()) };
        let buffers = op.payload.buffers();
        let has_data = op.interest.flags.contains(Flags::REMOTE_CQ_DATA);
        let mut words = Words::new();
        words.push_remote(op.remote.as_slice());
        let needed = words.bytes().len() + buffers.len();
        let inline = buffers.len() <= self.limits.eager
            && (needed <= tx.max_payload(op.peer) || tx.grow(op.peer, needed));
        let head = Head {
            op: if inline { Op::Write } else { Op::WriteOffer } as u8,
            flags: if has_data { head_flags::DATA } else { 0 },
            a: handle.raw(),
            b: if has_data { op.data } else { 0 },
        };
        if inline {
            return tx.try_emit(op.peer, head, &Source::all(words.bytes(), buffers));
        }
        for piece in buffers.iov() {
            words.push(piece.base as u64);
            words.push(piece.len as u64);
        }
        tx.try_emit(op.peer, head, &Source::fixed(words.bytes()))?;
        if self.limits.ordered {
            self.hold_back(handle);
        }
        Ok(())
    }

    pub(super) fn start_read<T: WireTx>(
        &mut self,
        tx: &mut T,
        handle: Handle,
    ) -> Result<(), Refused> {
        let Some(op) = self.ops.get(handle) else { return Ok(()) };
        let mut words = Words::new();
        words.push_remote(op.remote.as_slice());
        let head = Head { op: Op::Read as u8, flags: 0, a: handle.raw(), b: 0 };
        let (peer, large) = (op.peer, op.remote.total() > SMALL_READ);
        tx.try_emit(peer, head, &Source::fixed(words.bytes()))?;
        if large && self.limits.ordered {
            self.hold_back(handle);
        }
        Ok(())
    }

    /// What comes behind a started operation waits for its end.
    fn hold_back(&mut self, handle: Handle) {
        let Some(op) = self.ops.get_mut(handle) else { return };
        op.large = true;
        let (peer, is_read) = (op.peer, op.kind.is_read());
        let state = self.peer_mut(peer);
        if is_read {
            state.large_reads += 1;
        } else {
            state.large_writes += 1;
        }
    }

    /// Checks an access to our memory, all of it before any of it happens.
    fn check(&self, remote: &RemotePieces, need: Flags) -> Result<Checked> {
        let mut checked = Vec::with_capacity(remote.as_slice().len());
        for piece in remote.as_slice() {
            let memory = self.regions.resolve(piece.key, piece.addr, piece.len as u64, need)?;
            checked.push((memory.buffers(), memory));
        }
        Ok(checked)
    }

    pub(super) fn handle_write<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let mut words = Reader::new(packet.payload);
        let remote = words.remote()?;
        let bytes = words.rest();
        if bytes.len() != remote.total() {
            return None;
        }
        let status = match self.check(&remote, NEED_WRITE) {
            Ok(sinks) => {
                let mut at = 0;
                for (sink, _) in &sinks {
                    at += bytes.copy_to(at, sink, 0, sink.len());
                }
                let data = write_data(&packet.head);
                self.written(peer, sinks.iter().map(|(_, region)| region), at, data);
                0
            }
            Err(reason) => reason.get(),
        };
        self.acknowledge(tx, peer, packet.head.a, status);
        Some(())
    }

    pub(super) fn handle_write_offer<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let mut words = Reader::new(packet.payload);
        let remote = words.remote()?;
        let places = words.places::<IOV_LIMIT>()?;
        if places.total() != remote.total() {
            return None;
        }
        let theirs = packet.head.a;
        let sinks = match self.check(&remote, NEED_WRITE) {
            Ok(sinks) => sinks,
            Err(reason) => {
                self.acknowledge(tx, peer, theirs, reason.get());
                return Some(());
            }
        };
        let data = write_data(&packet.head);
        let want = remote.total();
        let targets: Vec<Buffers> = sinks.iter().map(|(sink, _)| *sink).collect();
        let places = places.as_slice();
        let scattered = targets.len() > 1;
        if want == 0 || (scattered && self.copy_into(tx, peer, places, &targets).is_ok()) {
            self.written(peer, sinks.iter().map(|(_, region)| region), want, data);
            self.acknowledge(tx, peer, theirs, 0);
            return Some(());
        }
        self.fetch(tx, peer, TransferKind::Write { sinks, data, theirs }, places, want);
        Some(())
    }

    pub(super) fn handle_read<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let remote = Reader::new(packet.payload).remote()?;
        let theirs = packet.head.a;
        let pieces = match self.check(&remote, NEED_READ) {
            Ok(pieces) => pieces,
            Err(reason) => {
                self.acknowledge(tx, peer, theirs, reason.get());
                return Some(());
            }
        };
        let bytes = remote.total();
        let small = bytes <= SMALL_READ
            || (bytes <= self.limits.eager
                && (bytes <= tx.max_payload(peer) || tx.grow(peer, bytes)));
        if small {
            let head = Head { op: Op::Reply as u8, flags: 0, a: theirs, b: 0 };
            let direct = match pieces.as_slice() {
                [(piece, _)] if self.peer_mut(peer).control.is_empty() => {
                    tx.try_emit(peer, head, &Source::all(&[], piece)) != Err(Refused::Again)
                }
                _ => false,
            };
            if !direct {
                let mut gathered = vec![0; bytes];
                let mut at = 0;
                for (piece, _) in &pieces {
                    at += piece.gather(0, &mut gathered[at..]);
                }
                self.control(tx, peer, head, &gathered);
            }
            self.read_served(bytes);
            return Some(());
        }
        let mut words = Words::new();
        words.push(pieces.len() as u64);
        for (addr, value) in pieces.iter().map(|(_, region)| region.seal()) {
            words.push(addr);
            words.push(value);
        }
        for place in pieces.iter().flat_map(|(piece, _)| piece.iov()) {
            words.push(place.base as u64);
            words.push(place.len as u64);
        }
        let service = Service { peer, theirs, pieces, bytes, to: None, sent: 0 };
        let Ok(ours) = self.services.insert(service) else { return Some(()) };
        let head = Head { op: Op::Grant as u8, flags: 0, a: theirs, b: ours.raw() };
        self.control(tx, peer, head, words.bytes());
        Some(())
    }

    /// A granted read: copy, or ask for segments.
    pub(super) fn handle_grant<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let mut words = Reader::new(packet.payload);
        let seals = words.seals()?;
        let places: Places<GRANT_LIMIT> = words.places()?;
        let handle = Handle::from_raw(packet.head.a);
        let Some(op) = self.ops.get(handle).filter(|op| op.peer == peer && op.started) else {
            return Some(());
        };
        let local = *op.payload.buffers();
        if !op.kind.is_read() || places.total() != local.len() {
            return None;
        }
        let (places, want) = (places.as_slice(), local.len());
        let kind = TransferKind::Read { ours: handle, theirs: packet.head.b, seals };
        self.fetch(tx, peer, kind, places, want);
        Some(())
    }

    /// A whole answer to a read or a fetching atomic operation.
    pub(super) fn handle_reply<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let handle = Handle::from_raw(packet.head.a);
        let Some(op) = self.ops.get(handle).filter(|op| op.peer == peer && op.started) else {
            return Some(());
        };
        let bytes = match op.kind {
            TxKind::Read => {
                let sink = op.payload.buffers();
                if packet.payload.len() != sink.len() {
                    return None;
                }
                packet.payload.copy_to(0, sink, 0, sink.len())
            }
            TxKind::Atomic { result, .. } => match self.take_results(handle, packet.payload)? {
                Progress::More => return Some(()),
                Progress::Done => result.len(),
            },
            TxKind::Send { .. } | TxKind::Write => return None,
        };
        self.finish(handle, Ok(bytes));
        self.unblock_fenced(tx, peer);
        Some(())
    }
}

fn write_data(head: &Head) -> Option<u64> {
    (head.flags & head_flags::DATA != 0).then_some(head.b)
}
