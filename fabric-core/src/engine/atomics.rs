//! PENDING. Atomic operations on remote memory, both sides. The target's progress applies them
//! with CPU atomics, so all of them on one region have one actor.
//!
//! What does not fit a packet goes in parts: each names the whole target and the range of elements
//! that it brings values for. The target keeps nothing between parts. It checks the whole target
//! with every one of them, so that a refused operation is refused with its first part.

use super::{
    Core, Engine,
    packet::{Reader, RemotePieces, Words},
    transmit::{TxKind, TxOp},
};
use crate::{
    Errno, Result, atomic,
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, Payload, SharedBytes},
    mr::Resolved,
    op::{AtomicKind, AtomicOp},
    slab::Handle,
    wire::{Head, Op, Packet, Refused, Source, Wire, WireTx},
};

/// `FI_ATOMIC_READ`, which brings no operand.
const ATOMIC_READ: u32 = 10;

/// Scratch space on the stack for the usual small operation.
const SMALL: usize = 256;

impl<W: Wire, L: Lock> Engine<W, L> {
    /// Posts an atomic operation; the three buffers describe the operation's vectors.
    pub(crate) fn post_atomic(
        &mut self,
        op: &AtomicOp<'_>,
        operand: Buffers,
        compare: Buffers,
        result: Buffers,
    ) -> Result<()> {
        let size = atomic::valid(op.kind, op.datatype, op.op)?;
        let peer = self.resolve(op.meta.dest)?;
        let remote = RemotePieces::new(op.remote).ok_or(Errno::EINVAL)?;
        let bytes = remote.total();
        let used = |used: bool| if used { bytes } else { 0 };
        let fetches = op.kind != AtomicKind::Base;
        let operands = used(op.op != ATOMIC_READ);
        let operand = if op.op == ATOMIC_READ { Buffers::EMPTY } else { operand };
        if !bytes.is_multiple_of(size)
            || operand.len() != operands
            || compare.len() != used(op.kind == AtomicKind::Compare)
            || result.len() != used(fetches)
        {
            return Err(Errno::EINVAL);
        }
        if bytes > self.core.limits.atomic {
            return Err(Errno::EMSGSIZE);
        }
        let what = op.kind as u64 | u64::from(op.datatype) << 8 | u64::from(op.op) << 32;
        let atomic = Atomic { what, size, comparands: !compare.is_empty(), sent: 0, got: 0 };
        let kind = TxKind::Atomic { fetches, result, atomic };
        let values = Payload::owned(values(&operand, &compare));
        let tx_op = TxOp::new(peer, &op.meta, kind, values, remote);
        let posted = self.core.post(self.wire.tx(), tx_op);
        if posted == Err(Errno::EAGAIN) {
            self.progress();
        }
        posted
    }
}

/// How far an atomic operation of this endpoint has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Atomic {
    /// Kind, datatype and operation as they travel.
    what: u64,
    /// Bytes of an element.
    size: usize,
    /// The values are operands and as many comparands.
    comparands: bool,
    /// Bytes of the target that parts have been emitted for.
    sent: usize,
    /// Bytes of the result that have come.
    got: usize,
}

impl Atomic {
    /// Whether the peer has been asked for everything of `total` bytes.
    pub(super) const fn all_sent(&self, total: usize) -> bool {
        self.sent == total
    }
}

/// The operands, then the comparands: the application may reuse its memory at once.
fn values(operand: &Buffers, compare: &Buffers) -> Box<[u8]> {
    let mut all = vec![0; operand.len() + compare.len()];
    let (first, second) = all.split_at_mut(operand.len());
    operand.gather(0, first);
    compare.gather(0, second);
    all.into_boxed_slice()
}

/// A part of an operation in the second word of its packet; zero says that it is all.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: usize,
    len: usize,
}

impl Part {
    const fn to_word(self) -> u64 {
        (self.len as u64) << 32 | self.offset as u64
    }

    /// The part of `total` bytes that a word means; `None` if there is no such part.
    fn from_word(word: u64, total: usize) -> Option<Self> {
        let whole = Self { offset: 0, len: total };
        let part = Self { offset: word as u32 as usize, len: (word >> 32) as usize };
        let part = if word == 0 { whole } else { part };
        let end = part.offset.checked_add(part.len)?;
        (end <= total && (part.len != 0 || word == 0)).then_some(part)
    }

    const fn end(self) -> usize {
        self.offset + self.len
    }
}

impl<L: Lock> Core<L> {
    /// Emits what is left of an atomic operation, in as few packets as there can be. An operation
    /// whose first part has been emitted has started and stays where it is until the last one has.
    pub(super) fn start_atomic<T: WireTx>(
        &mut self,
        tx: &mut T,
        handle: Handle,
    ) -> Result<(), Refused> {
        loop {
            let Some(op) = self.ops.get(handle) else { return Ok(()) };
            let TxKind::Atomic { atomic, .. } = op.kind else { return Ok(()) };
            let (peer, total) = (op.peer, op.remote.total());
            let values = op.payload.buffers();
            let mut words = Words::new();
            words.push(atomic.what);
            words.push_remote(op.remote.as_slice());
            let front = words.bytes();

            let left = total - atomic.sent;
            // Values for each byte of the target: none, an operand, or a comparand as well.
            let share = values.len().checked_div(total).unwrap_or(0);
            let needed = front.len() + left * share;
            let fits =
                needed <= tx.max_payload(peer) || (atomic.sent == 0 && tx.grow(peer, needed));
            let len = if fits {
                left
            } else {
                let room = tx.max_payload(peer).saturating_sub(front.len());
                let room = room.checked_div(share).unwrap_or(left);
                (room - room % atomic.size).clamp(atomic.size, left)
            };
            let part = Part { offset: atomic.sent, len };
            let whole = len == total;
            let b = if whole { 0 } else { part.to_word() };
            let head = Head { op: Op::Atomic as u8, flags: 0, a: handle.raw(), b };
            if atomic.comparands && !whole {
                let mut all = vec![0; front.len() + 2 * len];
                all[..front.len()].copy_from_slice(front);
                let (operand, compare) = all[front.len()..].split_at_mut(len);
                values.gather(part.offset, operand);
                values.gather(total + part.offset, compare);
                tx.try_emit(peer, head, &Source::fixed(&all))?;
            } else {
                let (skip, len) = (part.offset * share, len * share);
                tx.try_emit(peer, head, &Source { fixed: front, data: values, skip, len })?;
            }
            self.note_started(handle);
            if let Some(TxKind::Atomic { atomic, .. }) =
                self.ops.get_mut(handle).map(|op| &mut op.kind)
            {
                atomic.sent = part.end();
            }
            if part.end() == total {
                return Ok(());
            }
        }
    }

    pub(super) fn handle_atomic<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let mut words = Reader::new(packet.payload);
        let what = words.word()?;
        let kind = match what as u8 {
            0 => AtomicKind::Base,
            1 => AtomicKind::Fetch,
            2 => AtomicKind::Compare,
            _ => return None,
        };
        let (datatype, op) = ((what >> 8) as u32 & 0xff_ffff, (what >> 32) as u32);
        let remote = words.remote()?;
        let total = remote.total();
        let part = Part::from_word(packet.head.b, total)?;
        let operands = if op == ATOMIC_READ { 0 } else { part.len };
        let comparands = if kind == AtomicKind::Compare { part.len } else { 0 };
        let values = words.rest();
        if total > self.limits.atomic || values.len() != operands + comparands {
            return None;
        }
        let results = if kind == AtomicKind::Base { 0 } else { part.len };

        let (mut small, mut large);
        let scratch: &mut [u8] = if operands + comparands + results <= SMALL {
            small = [0; SMALL];
            &mut small[..operands + comparands + results]
        } else {
            large = vec![0; operands + comparands + results];
            &mut large
        };
        let (operand, rest) = scratch.split_at_mut(operands);
        let (compare, result) = rest.split_at_mut(comparands);
        values.copy_out(0, operand);
        values.copy_out(operands, compare);
        let theirs = packet.head.a;
        match self.apply((kind, datatype, op), &remote, part, operand, compare, result) {
            Ok(()) if kind != AtomicKind::Base => self.answer(tx, peer, theirs, result),
            // The last part speaks for all: one that fails says so at once.
            Ok(()) if part.end() < total => {}
            Ok(()) => self.acknowledge(tx, peer, theirs, 0),
            Err(reason) => self.acknowledge(tx, peer, theirs, reason.get()),
        }
        Some(())
    }

    /// Sends results, in several packets if they do not fit one.
    fn answer<T: WireTx>(&mut self, tx: &mut T, peer: PeerId, theirs: u64, result: &[u8]) {
        let head = Head { op: Op::Reply as u8, flags: 0, a: theirs, b: 0 };
        let room = tx.max_payload(peer);
        if result.len() <= room || tx.grow(peer, result.len()) {
            return self.control(tx, peer, head, result);
        }
        for part in result.chunks(room) {
            self.control(tx, peer, head, part);
        }
    }

    /// Results of an atomic operation have come; `None` if they cannot be its own.
    pub(super) fn take_results(&mut self, handle: Handle, bytes: SharedBytes) -> Option<Progress> {
        let op = self.ops.get_mut(handle)?;
        let TxKind::Atomic { fetches: true, result, atomic } = &mut op.kind else { return None };
        let asked = atomic.sent.checked_sub(atomic.got)?;
        let empty = bytes.is_empty() && !result.is_empty();
        if empty || bytes.len() > asked {
            return None;
        }
        atomic.got += bytes.copy_to(0, result, atomic.got, bytes.len());
        Some(if atomic.got == result.len() { Progress::Done } else { Progress::More })
    }

    /// Checks everything, then changes the part of the memory.
    fn apply(
        &mut self,
        what: (AtomicKind, u32, u32),
        remote: &RemotePieces,
        part: Part,
        operand: &[u8],
        compare: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        let (kind, datatype, op) = what;
        let size = atomic::valid(kind, datatype, op)?;
        let need = if op == ATOMIC_READ { Flags::REMOTE_READ } else { Flags::REMOTE_WRITE };
        let mut targets = Vec::with_capacity(remote.as_slice().len());
        for piece in remote.as_slice() {
            let memory = self.regions.resolve(piece.key, piece.addr, piece.len as u64, need)?;
            for place in memory.pieces().as_slice() {
                atomic::check_target(datatype, place)?;
            }
            targets.push(memory);
        }
        // Where the next piece begins in the operation, and what has been done of the part.
        let (mut begin, mut done) = (0, 0);
        for target in &targets {
            for (index, place) in target.pieces().iter().enumerate() {
                let from = part.offset.max(begin);
                let until = part.end().min(begin + place.len);
                let skip = from - begin;
                begin += place.len;
                let Some(len) = until.checked_sub(from).filter(|len| *len != 0) else { continue };
                let of = |bytes: usize| if bytes == 0 { 0..0 } else { done..done + len };
                let out = of(result.len());
                target.apply_atomic(
                    (index, skip),
                    what,
                    &operand[of(operand.len())],
                    &compare[of(compare.len())],
                    &mut result[out],
                    len / size,
                )?;
                done += len;
            }
        }
        if part.end() == begin {
            self.applied(kind, op, &targets, begin);
        }
        Ok(())
    }

    /// An atomic operation is complete and visible.
    fn applied(&mut self, kind: AtomicKind, op: u32, targets: &[Resolved], bytes: usize) {
        if op != ATOMIC_READ {
            targets.iter().for_each(|target| target.complete_write(target.len() as u64));
        }
        self.stats.served += 1;
        if self.limits.rma_event {
            // What gives values back counts as a read, though it changes memory, too.
            let way = match kind {
                AtomicKind::Base => Flags::REMOTE_WRITE,
                AtomicKind::Fetch | AtomicKind::Compare => Flags::REMOTE_READ,
            };
            self.report.accessed(Flags::ATOMIC | way, bytes, None, crate::op::ADDR_UNSPEC);
        }
    }
}

/// Whether an answer was the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    Done,
}
