//! PENDING. Reads and writes of remote memory, both sides. The target's progress checks every
//! access against its regions before a byte moves; what it refuses ends the connection, since the
//! wire has no word for it.

use fabric_core::{
    Errno, Result,
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    mem::{Buffers, Payload},
    op::{RmaKind, RmaOp},
    slab::Handle,
};

use super::{
    Core, Engine, Ep,
    conn::{Conn, Control, Phase, Pieces, Sink},
    receive::{Broken, NEED_READ, NEED_WRITE, wants_ack},
    transmit::{TxKind, TxOp},
};
use crate::{
    frame::head::{HeadError, Header, Ranges},
    net::Net,
};

/// Reads of up to this many bytes are copied when they arrive, so that nothing has to wait for the
/// answer to leave.
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
        let ranges = match Ranges::new(op.remote) {
            Ok(ranges) if ranges.total() != buffers.len() => return Err(Errno::EINVAL),
            Ok(ranges) => Some(ranges),
            Err(HeadError::Range { .. }) => None,
            Err(_) => return Err(Errno::EINVAL),
        };
        let reachable = ranges.is_some();
        let ranges = ranges.unwrap_or(Ranges::NONE);
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
        let op = TxOp::new(ep, peer, &op.meta, kind, payload);
        if reachable {
            return self.post(op);
        }
        // No region has memory beyond the last address, and the wire has no words for it.
        let handle = self.core.ops.insert(op).map_err(|_| Errno::EAGAIN)?;
        self.core.finish(handle, Err(Errno::EINVAL));
        Ok(())
    }
}

impl<L: Lock> Core<L> {
    /// Checks an access to an endpoint's memory, all of it before any of it happens.
    fn check<S>(&self, conn: &Conn<S>, ranges: &Ranges, need: Flags) -> Result<Pieces, Broken> {
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
        let pieces = self.check(conn, header.ranges(), NEED_WRITE)?;
        let (data, ack) = (header.cq_data(), wants_ack(header));
        Ok(Sink::Write { pieces, data, ack })
    }

    /// A region has been closed under a write: its bytes may go nowhere.
    pub(super) fn withdraw<S>(&mut self, conn: &mut Conn<S>) -> Result<(), Broken> {
        if let Phase::Payload { sink, .. } = &mut conn.rx.phase {
            *sink = Sink::Drop { ack: false };
        }
        Err(Errno::ENOKEY)
    }

    /// A peer reads.
    pub(super) fn serve<S>(&mut self, conn: &mut Conn<S>, header: &Header) -> Result<(), Broken> {
        let pieces = self.check(conn, header.ranges(), NEED_READ)?;
        let len = header.ranges().total();
        if len <= COPIED && conn.tx.current.is_none() && conn.tx.control.is_empty() {
            conn.tx.head(conn.endian, &Header::read_response(len));
            let mut at = conn.tx.out.len();
            conn.tx.out.resize(at + len, 0);
            for (piece, _) in &pieces {
                at += piece.gather(0, &mut conn.tx.out[at..]);
            }
            if let Some(ep) = self.eps.get_mut(conn.ep) {
                ep.read_served(len);
            }
            return Ok(());
        }
        conn.tx.control.push_back(Control::ReadResponse { pieces, len });
        Ok(())
    }

    /// The bytes of the oldest read.
    pub(super) fn begin_read_response<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<Sink, Broken> {
        let op = *conn.reads.front().ok_or(Errno::EPROTO)?;
        let buffers = self.ops.get(op).map_or(Buffers::EMPTY, |op| *op.payload.buffers());
        if buffers.len() != header.payload_len() {
            return Err(Errno::EPROTO);
        }
        conn.reads.pop_front();
        Ok(Sink::Read { op, buffers })
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
