//! PENDING. Atomic operations on remote memory, both sides. The target's progress applies them with
//! CPU atomics, whole: everything has been checked before the first element changes.

use super::{
    Conn, Core, Engine, Token, Transport, Work,
    packet::{AtomicRequest, AtomicResponse, HEAD_LEN, Head, RANGES_LEN, Ranges},
    receive::{Broken, NEED_READ, NEED_WRITE},
    transmit::{Phase, TxKind, TxOp},
};
use crate::{
    Errno, Result,
    atomic::{self, atomic_op::ATOMIC_READ},
    flags::Flags,
    lock::Lock,
    log::Subsys,
    mem::{Buffers, Payload},
    mr::Resolved,
    op::{AtomicKind, AtomicOp},
    slab::Handle,
};

/// Bytes of an atomic request's ranges.
const RANGES: usize = RANGES_LEN - 8;
/// The largest payload anywhere.
const ATOMIC_MAX: usize = 4096;
/// Bytes in front of old values.
const STATUS: usize = 8;

impl<T: Transport, L: Lock> Engine<T, L> {
    /// Posts an atomic operation; the three buffers describe the operation's vectors.
    pub(crate) fn post_atomic(
        &mut self,
        op: &AtomicOp<'_>,
        [operand, compare, result]: [Buffers; 3],
    ) -> Result<()> {
        let size = atomic::valid(op.kind, op.datatype, op.op)?;
        let peer = self.core.peers.resolve(op.meta.dest)?;
        if op.meta.cq_data().is_some() {
            // The packet has no room for it.
            return Err(Errno::EINVAL);
        }
        let bytes = op.remote.iter().fold(0usize, |sum, range| sum.saturating_add(range.len));
        let used = |used: bool| if used { bytes } else { 0 };
        let operand = if op.op == ATOMIC_READ { Buffers::EMPTY } else { operand };
        if op.remote.is_empty()
            || op.remote.len() > 4
            || op.remote.iter().any(|range| !range.len.is_multiple_of(size))
            || operand.len() != used(op.op != ATOMIC_READ)
            || compare.len() != used(op.kind == AtomicKind::Compare)
            || result.len() != used(op.kind != AtomicKind::Base)
        {
            return Err(Errno::EINVAL);
        }
        if bytes > atomic_limit(self.core.limits.eager) {
            return Err(Errno::EMSGSIZE);
        }
        let named = Ranges::new(op.remote);
        let request = AtomicRequest {
            kind: op.kind,
            datatype: op.datatype as u8,
            op: op.op as u8,
            size,
            ranges: named.unwrap_or(Ranges::NONE),
        };
        let kind = TxKind::Atomic { request: Box::new(request), result };
        let mut values = vec![0; operand.len() + compare.len()];
        let (first, second) = values.split_at_mut(operand.len());
        operand.gather(0, first);
        compare.gather(0, second);
        let op = TxOp::new(peer, &op.meta, kind, Payload::owned(values.into_boxed_slice()));
        // No region has memory beyond the last address, and the wire has no words for it.
        if named.is_some() { self.post(op) } else { self.fail(op, Errno::EINVAL) }
    }

    /// A peer's atomic operation.
    pub(super) fn apply(
        &mut self,
        handle: Handle,
        name: u64,
        request: &AtomicRequest,
        values: &[u8],
    ) {
        let Some(conn) = self.conns.get(handle) else { return };
        let (theirs, peer) = (conn.theirs, conn.peer);
        let outcome = self.core.apply(request, values);
        if let Err(reason) = outcome
            && let Some(peer) = self.core.peers.get(peer)
        {
            let from = peer.address;
            crate::warn!("ofi_rxm", Subsys::Mr, "{from}: an atomic operation is refused: {reason}");
        }
        let response = AtomicResponse { outcome: outcome.as_ref().map(|_| ()).map_err(|e| *e) };
        let old = outcome.unwrap_or_default();
        let head = Head::atomic_response(request, STATUS + old.len()).about(theirs, name);
        let body = [&response.bytes(old.len())[..], &old].concat();
        self.answer(handle, head, &body);
    }

    /// What an atomic operation of ours has led to.
    pub(super) fn applied(
        &mut self,
        handle: Handle,
        name: u64,
        response: AtomicResponse,
        old: &[u8],
    ) -> Result<(), Broken> {
        let work = Handle::from_raw(name);
        let result = match self.core.works.get(work) {
            Some(Work::Op(TxOp {
                conn: Some(conn),
                kind: TxKind::Atomic { result, .. },
                phase: Phase::Asked,
                ..
            })) if *conn == handle => *result,
            _ => return Err(Errno::EPROTO),
        };
        if response.outcome.is_ok() {
            if old.len() != result.len() {
                return Err(Errno::EPROTO);
            }
            result.fill(0, old);
        }
        self.core.finish(work, response.outcome);
        Ok(())
    }
}

/// Largest payload of an atomic operation: both operands and comparands fit into one packet with the
/// ranges.
pub(super) const fn atomic_limit(eager: u32) -> usize {
    let room = (eager as usize).saturating_sub(RANGES) / 2;
    if room < ATOMIC_MAX { room } else { ATOMIC_MAX }
}

impl<T: Transport, L: Lock> Core<T, L> {
    pub(super) fn start_atomic(
        &mut self,
        transport: &mut T,
        conn: &Conn<T>,
        handle: Handle,
    ) -> Result<()> {
        let Some(Work::Op(op)) = self.works.get_mut(handle) else { return Ok(()) };
        let TxKind::Atomic { request, .. } = &op.kind else { return Ok(()) };
        let values = op.payload.buffers();
        let head = Head::atomic(request, RANGES + values.len()).about(conn.theirs, handle.raw());
        let mut front = [0; HEAD_LEN + RANGES];
        front[..HEAD_LEN].copy_from_slice(head.bytes());
        front[HEAD_LEN..].copy_from_slice(&request.ranges_bytes());
        transport.inject(conn.link, &front, values, false, Token::NOBODY)?;
        op.phase = Phase::Asked;
        self.has_begun(handle);
        Ok(())
    }

    /// Changes the memory; returns the values that it had, if they are asked for.
    fn apply(&mut self, request: &AtomicRequest, values: &[u8]) -> Result<Vec<u8>> {
        let AtomicRequest { kind, datatype, op, .. } = *request;
        let what = (kind, u32::from(datatype), u32::from(op));
        let size = atomic::valid(what.0, what.1, what.2)?;
        let need = if what.2 == ATOMIC_READ { NEED_READ } else { NEED_WRITE };
        let mut targets: Vec<Resolved> = Vec::new();
        for range in request.ranges.as_slice() {
            let memory = self.regions.resolve(range.key, range.addr, range.len as u64, need)?;
            for place in memory.pieces() {
                atomic::check_target(what.1, place)?;
            }
            targets.push(memory);
        }
        let total = request.ranges.len();
        let (operand, compare) = values.split_at(request.operand_len().min(values.len()));
        let mut old = vec![0; if kind == AtomicKind::Base { 0 } else { total }];
        let mut done = 0;
        for memory in &targets {
            for (index, place) in memory.pieces().iter().enumerate() {
                let of = |all: usize| if all == 0 { 0..0 } else { done..done + place.len };
                let out = of(old.len());
                memory.apply_atomic(
                    (index, 0),
                    what,
                    &operand[of(operand.len())],
                    &compare[of(compare.len())],
                    &mut old[out],
                    place.len / size,
                )?;
                done += place.len;
            }
            // Counts nothing where memory has only been read.
            memory.complete_write(memory.len() as u64);
        }
        self.stats.served += 1;
        if self.limits.rma_event {
            // What gives values back counts as a read, though it changes memory, too.
            let way = match kind {
                AtomicKind::Base => Flags::REMOTE_WRITE,
                AtomicKind::Fetch | AtomicKind::Compare => Flags::REMOTE_READ,
            };
            self.report.accessed(Flags::ATOMIC | way, total, None, crate::op::ADDR_UNSPEC);
        }
        Ok(old)
    }
}
