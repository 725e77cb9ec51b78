//! HOT. An operation as it is handed to a provider: by value, so that it can be handed over later.
#![allow(unsafe_code, reason = "hands memory of operations to providers")]

use fabric_core::{
    Result,
    flags::Flags,
    op::{
        ADDR_UNSPEC, AtomicKind, AtomicOp, IoVec, RecvOp, RmaIov, RmaKind, RmaOp, SendOp, TxMeta,
    },
};

use crate::{
    buf::{Buf, BufMut},
    dispatch::EndpointCalls,
};

/// What is to be done.
///
/// Whoever makes one keeps the memory that it describes valid, and untouched by others as far as the
/// operation writes it, until the operation of this context has completed or its endpoint is closed.
/// In this crate that is [`Op`](super::Op): it owns the buffers, and never gives them up before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    what: What,
    /// Peer, or any.
    peer: u64,
    flags: Flags,
    data: u64,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Send { bytes: IoVec, tag: Option<u64> },
    Receive { room: IoVec, tag: Option<(u64, u64)> },
    Rma { kind: RmaKind, local: IoVec, remote: RmaIov },
    Atomic { kind: AtomicKind, datatype: u32, op: u32, local: [IoVec; 3], remote: RmaIov },
}

/// Of a buffer that is only read.
fn source(buffer: &impl Buf) -> IoVec {
    let piece = buffer.piece();
    IoVec { base: piece.base(), len: piece.len() }
}

/// Of a buffer that is written.
fn destination(buffer: &mut impl BufMut) -> IoVec {
    let piece = buffer.piece_mut();
    IoVec { base: piece.base(), len: piece.len() }
}

/// A piece in use, or none.
fn pieces(piece: &IoVec) -> &[IoVec] {
    if piece.len == 0 { &[] } else { core::slice::from_ref(piece) }
}

impl Request {
    const fn new(what: What, peer: u64) -> Self {
        Self { what, peer, flags: Flags::COMPLETION, data: 0 }
    }

    pub(crate) fn send(peer: u64, buffer: &impl Buf, tag: Option<u64>) -> Self {
        Self::new(What::Send { bytes: source(buffer), tag }, peer)
    }

    /// From `peer`, or from any.
    pub(crate) fn receive(
        peer: Option<u64>,
        buffer: &mut impl BufMut,
        tag: Option<(u64, u64)>,
    ) -> Self {
        let room = destination(buffer);
        Self::new(What::Receive { room, tag }, peer.unwrap_or(ADDR_UNSPEC))
    }

    /// The buffer is as long as the remote memory.
    pub(crate) fn write(peer: u64, buffer: &impl Buf, remote: RmaIov) -> Self {
        let local = source(buffer);
        Self::new(What::Rma { kind: RmaKind::Write, local, remote }, peer)
    }

    /// The buffer has room for the remote memory.
    pub(crate) fn read(peer: u64, buffer: &mut impl BufMut, remote: RmaIov) -> Self {
        let local = IoVec { len: remote.len, ..destination(buffer) };
        Self::new(What::Rma { kind: RmaKind::Read, local, remote }, peer)
    }

    /// Operand, comparison value and result are empty where the operation has none.
    pub(crate) fn atomic(
        peer: u64,
        (kind, datatype, op): (AtomicKind, u32, u32),
        (operand, compare, result): (&impl Buf, &impl Buf, &mut impl BufMut),
        remote: RmaIov,
    ) -> Self {
        let local = [source(operand), source(compare), destination(result)];
        Self::new(What::Atomic { kind, datatype, op, local, remote }, peer)
    }

    /// With further flags.
    pub(crate) fn flags(mut self, flags: Flags) -> Self {
        self.flags |= flags;
        self
    }

    /// With data for the target's completion.
    pub(crate) fn data(mut self, data: Option<u64>) -> Self {
        if let Some(data) = data {
            self.flags |= Flags::REMOTE_CQ_DATA;
            self.data = data;
        }
        self
    }

    /// The peer, if it is one and not any.
    pub(crate) fn peer(&self) -> Option<u64> {
        (self.peer != ADDR_UNSPEC).then_some(self.peer)
    }

    /// Whether it waits for a message.
    pub(crate) const fn is_receive(&self) -> bool {
        matches!(self.what, What::Receive { .. })
    }

    /// Hands the operation to the provider.
    ///
    /// # Safety
    /// As [`Request`] says.
    #[inline]
    pub(crate) unsafe fn post(&self, endpoint: &impl EndpointCalls, context: usize) -> Result<()> {
        let meta =
            TxMeta { dest: self.peer, context, flags: self.flags, data: self.data, silent: false };
        match &self.what {
            What::Send { bytes, tag } => {
                let iov = pieces(bytes);
                let op = SendOp { meta, iov, tagged: tag.is_some(), tag: tag.unwrap_or(0) };
                // SAFETY: the caller's promise.
                unsafe { endpoint.send(&op) }
            }
            What::Receive { room, tag } => {
                let (tag, ignore, tagged) = match *tag {
                    Some((tag, ignore)) => (tag, ignore, true),
                    None => (0, 0, false),
                };
                let (iov, src, flags) = (pieces(room), self.peer, self.flags);
                let op = RecvOp { iov, src, tagged, tag, ignore, context, flags };
                // SAFETY: the caller's promise.
                unsafe { endpoint.recv(&op) }
            }
            What::Rma { kind, local, remote } => {
                let (iov, remote) = (pieces(local), core::slice::from_ref(remote));
                // SAFETY: the caller's promise.
                unsafe { endpoint.rma(&RmaOp { meta, kind: *kind, iov, remote }) }
            }
            What::Atomic { kind, datatype, op, local, remote } => {
                let [operand, compare, result] = local;
                let op = AtomicOp {
                    meta,
                    kind: *kind,
                    datatype: *datatype,
                    op: *op,
                    operand: pieces(operand),
                    compare: pieces(compare),
                    result: pieces(result),
                    remote: core::slice::from_ref(remote),
                };
                // SAFETY: the caller's promise.
                unsafe { endpoint.atomic(&op) }
            }
        }
    }
}
