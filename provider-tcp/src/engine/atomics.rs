//! PENDING. Atomic operations on remote memory, both sides, between endpoints of our own kind. The
//! target's progress applies them with CPU atomics, in the order of the stream and whole: the
//! operands have all come, and everything has been checked, before the first element changes.

use fabric_core::{
    Errno, Result,
    atomic::{self, atomic_op::ATOMIC_READ},
    flags::Flags,
    lock::Lock,
    mem::{Buffers, Payload},
    op::{AtomicKind, AtomicOp},
    slab::Handle,
};

use super::{
    Core, Engine,
    conn::{Conn, Control, Pieces, Sink},
    receive::{Broken, NEED_READ, NEED_WRITE},
    remote::{commit, commits},
    transmit::{TxKind, TxOp},
};
use crate::{
    frame::head::{Answer, Atomic, Header, Ranges},
    net::Net,
};

/// Largest payload of an atomic operation, in bytes.
pub(crate) const ATOMIC_MAX: usize = 4096;

/// An atomic operation of a peer whose operands are on their way.
#[derive(Debug)]
pub(crate) struct Operands {
    atomic: Atomic,
    pieces: Pieces,
    /// Operands, then as many bytes of comparands if there are any.
    values: Box<[u8]>,
    data: Option<u64>,
    answer: Option<Answer>,
    commit: bool,
}

impl Operands {
    /// Takes bytes for the place behind `got`.
    pub(super) fn fill(&mut self, got: usize, bytes: &[u8]) {
        if let Some(place) = self.values.get_mut(got..got + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Posts an atomic operation; the three buffers describe the operation's vectors.
    pub(crate) fn post_atomic(
        &mut self,
        ep: Handle,
        peer: fabric_core::matching::PeerId,
        op: &AtomicOp<'_>,
        [operand, compare, result]: [Buffers; 3],
    ) -> Result<()> {
        let state = self.core.eps.get(ep).ok_or(Errno::EOPBADSTATE)?;
        if !state.limits.atomics {
            return Err(Errno::EOPNOTSUPP);
        }
        let size = atomic::valid(op.kind, op.datatype, op.op)?;
        let atomic = Atomic {
            kind: op.kind,
            datatype: u8::try_from(op.datatype).map_err(|_| Errno::EOPNOTSUPP)?,
            op: u8::try_from(op.op).map_err(|_| Errno::EOPNOTSUPP)?,
        };
        let (ranges, reachable) = Ranges::named(op.remote)?;
        let bytes = op.remote.iter().fold(0usize, |sum, range| sum.saturating_add(range.len));
        let used = |used: bool| if used { bytes } else { 0 };
        let operand = if op.op == ATOMIC_READ { Buffers::EMPTY } else { operand };
        if !bytes.is_multiple_of(size)
            || operand.len() != used(op.op != ATOMIC_READ)
            || compare.len() != used(op.kind == AtomicKind::Compare)
            || result.len() != used(op.kind != AtomicKind::Base)
        {
            return Err(Errno::EINVAL);
        }
        if bytes > ATOMIC_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let kind = TxKind::Atomic { atomic, ranges, result };
        let payload = Payload::owned(values(&operand, &compare));
        self.post_remote(TxOp::new(ep, peer, &op.meta, kind, payload), reachable)
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

impl<L: Lock> Core<L> {
    /// A peer's atomic operation begins.
    pub(super) fn begin_atomic<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<Sink, Broken> {
        let atomic = header.atomic_op().ok_or(Errno::EPROTO)?;
        match self.check_atomic(conn, atomic, header) {
            Ok(pieces) => {
                let values = vec![0; header.payload_len()].into_boxed_slice();
                let (data, answer, commit) = (header.cq_data(), header.answer(), commits(header));
                let operands = Operands { atomic, pieces, values, data, answer, commit };
                Ok(Sink::Atomic(Box::new(operands)))
            }
            Err(reason) => conn.refusal(header.answer(), reason).map(Sink::Refuse),
        }
    }

    fn check_atomic<S>(&self, conn: &Conn<S>, atomic: Atomic, header: &Header) -> Result<Pieces> {
        let Atomic { kind, datatype, op } = atomic;
        if !self.eps.get(conn.ep).is_some_and(|ep| ep.limits.atomics) {
            return Err(Errno::EOPNOTSUPP);
        }
        atomic::valid(kind, datatype.into(), op.into())?;
        if header.ranges().total() > ATOMIC_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let need = if u32::from(op) == ATOMIC_READ { NEED_READ } else { NEED_WRITE };
        let pieces = self.check(conn, header.ranges(), need)?;
        for (_, memory) in &pieces {
            for place in memory.pieces() {
                atomic::check_target(datatype.into(), place)?;
            }
        }
        Ok(pieces)
    }

    /// The operands have come: it is the operation's turn.
    pub(super) fn end_atomic<S>(
        &mut self,
        conn: &mut Conn<S>,
        operands: &Operands,
    ) -> Result<(), Broken> {
        match apply(operands) {
            Ok(values) => {
                if operands.commit {
                    commit(&operands.pieces);
                }
                self.applied(conn, operands);
                match operands.answer {
                    Some(Answer::Atomic) => conn.tx.control.push_back(Control::Values(values)),
                    Some(_) => conn.tx.control.push_back(Control::Head(Header::ack())),
                    None => {}
                }
            }
            Err(reason) => {
                let refusal = conn.refusal(operands.answer, reason)?;
                conn.tx.control.push_back(Control::Head(Header::error(refusal)));
            }
        }
        Ok(())
    }

    /// An atomic operation is complete and visible.
    fn applied<S>(&mut self, conn: &Conn<S>, operands: &Operands) {
        let Some(ep) = self.eps.get_mut(conn.ep) else { return };
        let mut bytes = 0;
        for (_, memory) in &operands.pieces {
            bytes += memory.len();
            // Counts nothing where memory has only been read.
            memory.complete_write(memory.len() as u64);
        }
        ep.stats.served += 1;
        if ep.limits.rma_event || operands.data.is_some() {
            // What gives values back counts as a read, though it changes memory, too.
            let way = match operands.atomic.kind {
                AtomicKind::Base => Flags::REMOTE_WRITE,
                AtomicKind::Fetch | AtomicKind::Compare => Flags::REMOTE_READ,
            };
            let src = ep.source(conn.peer);
            ep.report.accessed(Flags::ATOMIC | way, bytes, operands.data, src);
        }
    }

    /// The old values of the oldest operation that fetches.
    pub(super) fn begin_values<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<Sink, Broken> {
        let op = conn.answered(Answer::Atomic)?;
        match self.ops.get(op).map(|op| &op.kind) {
            Some(TxKind::Atomic { result, .. }) if result.len() == header.payload_len() => {
                Ok(Sink::Read { op, buffers: *result })
            }
            _ => {
                // It ends with the connection.
                conn.fetches.push_front(op);
                Err(Errno::EPROTO)
            }
        }
    }
}

/// Changes the memory; the values that it had, if they are asked for.
fn apply(operands: &Operands) -> Result<Box<[u8]>> {
    let Operands { atomic: Atomic { kind, datatype, op }, pieces, values, .. } = operands;
    if !pieces.iter().all(|(_, memory)| memory.is_open()) {
        return Err(Errno::ENOKEY);
    }
    let what = (*kind, u32::from(*datatype), u32::from(*op));
    let size = atomic::valid(what.0, what.1, what.2)?;
    let total: usize = pieces.iter().map(|(_, memory)| memory.len()).sum();
    let (operand, compare) = values.split_at(values.len().min(total));
    let mut result = vec![0; if *kind == AtomicKind::Base { 0 } else { total }];
    let mut done = 0;
    for (_, memory) in pieces {
        for (index, place) in memory.pieces().iter().enumerate() {
            let of = |all: usize| if all == 0 { 0..0 } else { done..done + place.len };
            let out = of(result.len());
            memory.apply_atomic(
                (index, 0),
                what,
                &operand[of(operand.len())],
                &compare[of(compare.len())],
                &mut result[out],
                place.len / size,
            )?;
            done += place.len;
        }
    }
    Ok(result.into_boxed_slice())
}
