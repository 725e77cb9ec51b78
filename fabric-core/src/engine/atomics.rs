//! PENDING. Atomic operations on remote memory, both sides. The target's progress applies them
//! with CPU atomics, so all of them on one region have one actor.

use super::{
    Core, Engine, REMOTE_WRITE,
    packet::{Reader, RemotePieces, Words},
    transmit::{TxKind, TxOp},
};
use crate::{
    Errno, Result, atomic,
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, Payload},
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
        let request = request(op, &remote, &operand, &compare);
        let kind = TxKind::Atomic { fetches, result };
        let tx_op = TxOp::new(peer, &op.meta, kind, Payload::owned(request), remote);
        let posted = self.core.post(self.wire.tx(), tx_op);
        if posted == Err(Errno::EAGAIN) {
            self.progress();
        }
        posted
    }
}

/// The request as it travels: what to do, where, with what.
fn request(
    op: &AtomicOp<'_>,
    remote: &RemotePieces,
    operand: &Buffers,
    compare: &Buffers,
) -> Box<[u8]> {
    let mut words = Words::new();
    words.push(op.kind as u64 | u64::from(op.datatype) << 8 | u64::from(op.op) << 32);
    words.push_remote(remote.as_slice());
    let front = words.bytes();
    let mut all = vec![0; front.len() + operand.len() + compare.len()];
    all[..front.len()].copy_from_slice(front);
    let (first, second) = all[front.len()..].split_at_mut(operand.len());
    operand.gather(0, first);
    compare.gather(0, second);
    all.into_boxed_slice()
}

impl<L: Lock> Core<L> {
    pub(super) fn start_atomic<T: WireTx>(
        &mut self,
        tx: &mut T,
        handle: Handle,
    ) -> Result<(), Refused> {
        let Some(op) = self.ops.get(handle) else { return Ok(()) };
        let request = op.payload.buffers();
        if request.len() > tx.max_payload(op.peer) && !tx.grow(op.peer, request.len()) {
            return Err(Refused::Down(Errno::EMSGSIZE));
        }
        let head = Head { op: Op::Atomic as u8, flags: 0, a: handle.raw(), b: 0 };
        tx.try_emit(op.peer, head, &Source::all(&[], request))
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
        let bytes = remote.total();
        let operands = if op == ATOMIC_READ { 0 } else { bytes };
        let comparands = if kind == AtomicKind::Compare { bytes } else { 0 };
        let values = words.rest();
        if bytes > self.limits.atomic || values.len() != operands + comparands {
            return None;
        }
        let results = if kind == AtomicKind::Base { 0 } else { bytes };

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
        if results > tx.max_payload(peer) && !tx.grow(peer, results) {
            self.acknowledge(tx, peer, theirs, Errno::EMSGSIZE.get());
            return Some(());
        }
        match self.apply(kind, datatype, op, &remote, operand, compare, result) {
            Ok(()) if kind == AtomicKind::Base => self.acknowledge(tx, peer, theirs, 0),
            Ok(()) => {
                let head = Head { op: Op::Reply as u8, flags: 0, a: theirs, b: 0 };
                self.control(tx, peer, head, result);
            }
            Err(reason) => self.acknowledge(tx, peer, theirs, reason.get()),
        }
        Some(())
    }

    /// Checks everything, then changes the memory.
    #[expect(clippy::too_many_arguments, reason = "the parts of one parsed request")]
    fn apply(
        &mut self,
        kind: AtomicKind,
        datatype: u32,
        op: u32,
        remote: &RemotePieces,
        operand: &[u8],
        compare: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        let size = atomic::valid(kind, datatype, op)?;
        let need = if op == ATOMIC_READ { Flags::REMOTE_READ } else { Flags::REMOTE_WRITE };
        let mut targets = Vec::with_capacity(remote.as_slice().len());
        for piece in remote.as_slice() {
            let memory = self.regions.resolve(piece.key, piece.addr, piece.len as u64, need)?;
            for part in memory.pieces().as_slice() {
                atomic::check_target(size, part)?;
            }
            targets.push(memory);
        }
        let mut at = 0;
        for target in &targets {
            for part in 0..target.pieces().as_slice().len() {
                let len = target.pieces().as_slice()[part].len;
                let of = |bytes: usize| if bytes == 0 { 0..0 } else { at..at + len };
                let out = of(result.len());
                target.apply_atomic(
                    part,
                    (kind, datatype, op),
                    &operand[of(operand.len())],
                    &compare[of(compare.len())],
                    &mut result[out],
                    len / size,
                )?;
                at += len;
            }
            if op != ATOMIC_READ {
                target.complete_write(target.len() as u64);
            }
        }
        self.stats.served += 1;
        if self.limits.rma_event {
            let kind = if op == ATOMIC_READ { Flags::REMOTE_READ } else { REMOTE_WRITE };
            self.report.accessed(Flags::ATOMIC | kind, at, None, crate::op::ADDR_UNSPEC);
        }
        Ok(())
    }
}
