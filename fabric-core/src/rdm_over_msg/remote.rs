//! PENDING. Reads and writes of remote memory, which the transport knows itself.

use super::{
    Engine, Token, Transport,
    packet::Ranges,
    transmit::{TxKind, TxOp},
};
use crate::{
    Errno, Result,
    flags::Flags,
    lock::Lock,
    mem::{Buffers, Payload},
    op::{RmaKind, RmaOp},
    slab::Handle,
};

impl<T: Transport, L: Lock> Engine<T, L> {
    /// Posts a read or write of `buffers`, which describe `op.iov`.
    pub(crate) fn post_rma(&mut self, op: &RmaOp<'_>, buffers: Buffers) -> Result<()> {
        let peer = self.core.peers.resolve(op.meta.dest)?;
        // Infos of other libraries need not say.
        let limit = self.core.limits.ranges;
        if limit != 0 && op.remote.len() > limit {
            return Err(Errno::EINVAL);
        }
        let bytes = op.remote.iter().fold(0usize, |sum, range| sum.saturating_add(range.len));
        if bytes != buffers.len() {
            return Err(Errno::EINVAL);
        }
        let injects = op.kind == RmaKind::Write && op.meta.injects();
        if injects && buffers.len() > self.core.limits.inject {
            return Err(Errno::EINVAL);
        }
        let payload = if injects { Payload::copied(&buffers) } else { Payload::borrowed(buffers) };
        let wrong = op.remote.is_empty() || op.remote.len() > 4;
        let Some(ranges) = Ranges::new(op.remote) else {
            return if wrong { Err(Errno::EINVAL) } else { self.fail_at_once(op, payload) };
        };
        let kind = match op.kind {
            RmaKind::Read => TxKind::Read(ranges),
            RmaKind::Write => TxKind::Write(ranges),
        };
        self.post(TxOp::new(peer, &op.meta, kind, payload))
    }

    /// No region has memory beyond the last address, and no transport has words for it.
    #[cold]
    fn fail_at_once(&mut self, op: &RmaOp<'_>, payload: Payload) -> Result<()> {
        let peer = self.core.peers.resolve(op.meta.dest)?;
        let none = Ranges::NONE;
        let kind = match op.kind {
            RmaKind::Read => TxKind::Read(none),
            RmaKind::Write => TxKind::Write(none),
        };
        self.fail(TxOp::new(peer, &op.meta, kind, payload), Errno::EINVAL)
    }

    /// Takes an operation that cannot succeed.
    pub(super) fn fail(&mut self, op: TxOp<T>, reason: Errno) -> Result<()> {
        self.core.tell(&op, Err(reason));
        Ok(())
    }

    /// A peer has read or written here.
    pub(super) fn accessed(&mut self, token: Token, kind: Flags, bytes: usize, data: Option<u64>) {
        let handle = Handle::from_raw(token.0);
        if data.is_some() {
            self.count_receive(handle);
        }
        let Some(conn) = self.conns.get(handle) else { return };
        let src = self.core.source(conn.peer);
        self.core.stats.served += 1;
        self.core.report.accessed(Flags::RMA | kind, bytes, data, src);
    }
}
