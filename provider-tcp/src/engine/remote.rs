//! PENDING. Reads and writes of remote memory, both sides. The target's progress checks every
//! access against its regions before a byte moves. What it refuses is answered with the reason where
//! both sides know that answer, and ends the connection where not.

use fabric_core::{
    Errno, Result,
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, Payload},
    op::{RmaIov, RmaKind, RmaOp},
    persist,
    slab::Handle,
};

use super::{
    Core, Engine, Ep,
    conn::{Conn, Control, Current, Phase, Pieces, Sink},
    receive::{Begun, Broken, NEED_READ, NEED_WRITE, wants_ack},
    transmit::{TxKind, TxOp},
};
use crate::{
    frame::head::{Answer, HeadError, HeadFlags, Header, Ranges, Refusal},
    net::Net,
};

/// Reads of up to this many bytes are copied when they arrive, while what is staged leaves, so that
/// nothing has to wait for the answer to leave.
const COPIED: usize = 16 << 10;

impl<L: Lock, N: Net> Engine<L, N> {
    /// Posts a read or write of `buffers`, which describe `op.iov`.
    pub(crate) fn post_rma(
        &mut self,
        ep: Handle,
        peer: PeerId,
        op: &RmaOp<'_>,
        buffers: Buffers,
    ) -> Result<()> {
        let state = self.core.eps.get(ep).ok_or(Errno::EOPBADSTATE)?;
        let (ranges, reachable) = Ranges::named(op.remote)?;
        if reachable && ranges.total() != buffers.len() {
            return Err(Errno::EINVAL);
        }
        let (kind, payload) = match op.kind {
            RmaKind::Read => (TxKind::Read(ranges), Payload::borrowed(buffers)),
            RmaKind::Write if op.meta.injects() => {
                if buffers.len() > state.limits.inject {
                    return Err(Errno::EINVAL);
                }
                (TxKind::Write(ranges), Payload::copied(&buffers))
            }
            RmaKind::Write => (TxKind::Write(ranges), Payload::borrowed(buffers)),
        };
        self.post_remote(TxOp::new(ep, peer, &op.meta, kind, payload), reachable)
    }

    /// Posts an operation on remote memory that can be there.
    pub(super) fn post_remote(&mut self, op: TxOp, reachable: bool) -> Result<()> {
        if reachable {
            return self.post(op);
        }
        // No region has memory beyond the last address, and the wire has no words for it.
        self.core.refuse(op, Errno::EINVAL)
    }
}

impl Ranges {
    /// Remote memory as an application names it, and whether there can be such memory; `EINVAL` for
    /// too much of it.
    pub(super) fn named(remote: &[RmaIov]) -> Result<(Self, bool)> {
        match Self::new(remote) {
            Ok(ranges) => Ok((ranges, true)),
            Err(HeadError::Range { .. }) => Ok((Self::NONE, false)),
            Err(_) => Err(Errno::EINVAL),
        }
    }
}

impl<L: Lock> Core<L> {
    /// Checks an access to an endpoint's memory, all of it before any of it happens.
    pub(super) fn check<S>(
        &self,
        conn: &Conn<S>,
        ranges: &Ranges,
        need: Flags,
    ) -> Result<Pieces, Broken> {
        let ep = self.eps.get(conn.ep).ok_or(Errno::EPROTO)?;
        let mut pieces = Pieces::with_capacity(ranges.len());
        for range in ranges.as_slice() {
            let memory = ep.regions.resolve(range.key, range.addr, range.len as u64, need);
            let memory = memory.inspect_err(|reason| {
                let (key, addr, len) = (range.key, range.addr, range.len);
                fabric_core::warn!(
                    "tcp",
                    fabric_core::log::Subsys::Mr,
                    "a peer's access is refused ({reason}): key {key:#x}, address {addr:#x}, {len} bytes"
                );
            })?;
            pieces.push((memory.buffers(), memory));
        }
        Ok(pieces)
    }

    /// A write begins. Answers to reads in front of it may still be on their way out: who orders
    /// writes after reads waits before it writes.
    pub(super) fn begin_write<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<Sink, Broken> {
        match self.check(conn, header.ranges(), NEED_WRITE) {
            Ok(pieces) => {
                let (data, ack, commit) = (header.cq_data(), wants_ack(header), commits(header));
                Ok(Sink::Write { pieces, data, ack, commit })
            }
            Err(reason) => conn.refusal(header.answer(), reason).map(Sink::Refuse),
        }
    }

    /// A region has been closed under a write.
    pub(super) fn withdraw<S>(&mut self, conn: &mut Conn<S>) -> Result<(), Broken> {
        let Phase::Payload { sink: Sink::Write { ack, .. }, .. } = &conn.rx.phase else {
            return Ok(());
        };
        let answer = ack.then_some(Answer::Ack);
        let refusal = conn.refusal(answer, Errno::ENOKEY)?;
        if let Phase::Payload { sink, .. } = &mut conn.rx.phase {
            *sink = Sink::Refuse(refusal);
        }
        Ok(())
    }

    /// A peer reads.
    pub(super) fn serve<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<Begun, Broken> {
        let pieces = match self.check(conn, header.ranges(), NEED_READ) {
            Ok(pieces) => pieces,
            Err(reason) => {
                let refusal = conn.refusal(header.answer(), reason)?;
                return Ok(Begun::Payload(Sink::Refuse(refusal)));
            }
        };
        let len = header.ranges().total();
        let at_once = conn.tx.current.is_none() && conn.tx.control.is_empty();
        if len <= COPIED && at_once && conn.tx.staged() < self.batch {
            conn.tx.head(conn.endian, &Header::read_response(len));
            let mut at = conn.tx.out.len();
            conn.tx.out.resize(at + len, 0);
            for (piece, _) in &pieces {
                at += piece.gather(0, &mut conn.tx.out[at..]);
            }
            if let Some(ep) = self.eps.get_mut(conn.ep) {
                ep.read_served(len);
            }
            self.layer_accessed(conn, Flags::REMOTE_READ, &pieces, None);
            return Ok(Begun::Done);
        }
        conn.tx.control.push_back(Control::ReadResponse { pieces, len });
        Ok(Begun::Done)
    }

    /// The peer has refused the oldest operation that waits for an answer of a kind.
    pub(super) fn refused_by_peer<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<(), Broken> {
        let refusal = header.refusal().ok_or(Errno::EPROTO)?;
        let op = conn.answered(refusal.instead_of)?;
        self.finish(op, Err(refusal.errno));
        Ok(())
    }

    /// The bytes of the oldest read.
    pub(super) fn begin_read_response<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<Sink, Broken> {
        let op = conn.answered(Answer::Read)?;
        let buffers = self.ops.get(op).map_or(Buffers::EMPTY, |op| *op.payload.buffers());
        if buffers.len() != header.payload_len() {
            // It ends with the connection.
            conn.reads.push_front(op);
            return Err(Errno::EPROTO);
        }
        Ok(Sink::Read { op, buffers })
    }
}

/// Whether what a peer changes has to be in persistent memory before it hears of it.
pub(super) const fn commits(header: &Header) -> bool {
    header.flags().contains(HeadFlags::COMMIT_COMPLETE)
}

/// Brings what a peer has changed to persistent memory.
pub(super) fn commit(pieces: &Pieces) {
    for (memory, region) in pieces {
        if region.is_open() {
            persist::write_back(memory);
        }
    }
}

impl<S> Conn<S> {
    /// How a request that would get this answer is refused. `Err`: the connection has to end, as
    /// the peer waits for no answer or knows no refusals.
    pub(super) fn refusal(&self, answer: Option<Answer>, errno: Errno) -> Result<Refusal, Broken> {
        match answer {
            Some(instead_of) if self.extensions => Ok(Refusal { errno, instead_of }),
            _ => Err(errno),
        }
    }

    /// The oldest operation that waits for an answer of this kind. What has not left in full cannot
    /// have been answered.
    pub(super) fn answered(&mut self, answer: Answer) -> Result<Handle, Broken> {
        let waiting = match answer {
            Answer::Ack => &mut self.acks,
            Answer::Read => &mut self.reads,
            Answer::Atomic => &mut self.fetches,
        };
        let op = waiting.pop_front().ok_or(Errno::EPROTO)?;
        match self.tx.current {
            Some(Current::Op { op: leaving, .. }) if leaving == op => Err(Errno::EPROTO),
            _ => Ok(op),
        }
    }
}

impl<L: Lock> Ep<L> {
    /// A peer has written.
    pub(super) fn written(
        &mut self,
        peer: PeerId,
        pieces: &Pieces,
        bytes: usize,
        data: Option<u64>,
    ) {
        for (_, region) in pieces {
            region.complete_write(bytes as u64);
        }
        self.stats.served += 1;
        if self.limits.rma_event || data.is_some() {
            let src = self.source(peer);
            self.report.accessed(Flags::RMA | Flags::REMOTE_WRITE, bytes, data, src);
        }
    }

    /// A peer has read.
    pub(super) fn read_served(&mut self, bytes: usize) {
        self.stats.served += 1;
        if self.limits.rma_event {
            self.report.accessed(Flags::RMA | Flags::REMOTE_READ, bytes, None, 0);
        }
    }
}
