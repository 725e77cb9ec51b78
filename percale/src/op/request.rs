//! HOT. An operation as it is handed to a provider: by value, so that it can be handed over later.
#![allow(unsafe_code, reason = "hands memory of operations to providers")]

use fabric_core::{
    Errno, Result,
    flags::Flags,
    op::{
        ADDR_UNSPEC, AtomicKind, AtomicOp, Descs, IoVec, RecvOp, RmaIov, RmaKind, RmaOp, SendOp,
        TxMeta,
    },
};

use crate::{
    buf::{Buf, BufMut, Piece},
    dispatch::{EndpointCalls, SharedReceiveCalls},
    registered::Mark,
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
    /// Where its memory is registered by its owner.
    mark: Mark,
    /// What the device knows the memory by, or zero.
    descriptor: usize,
}

/// What an operation does with its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Sends it.
    Sent,
    /// Writes it to a peer's memory.
    Written,
    /// Receives a message into it.
    Received,
    /// Reads a peer's memory into it.
    Read,
}

impl Way {
    /// Whether it is read here, and not written.
    pub(crate) const fn is_source(self) -> bool {
        matches!(self, Self::Sent | Self::Written)
    }

    /// What it has to be registered for.
    pub(crate) const fn access(self) -> Flags {
        match self {
            Self::Sent => Flags::SEND,
            Self::Written => Flags::WRITE,
            Self::Received => Flags::RECV,
            Self::Read => Flags::READ,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum What {
    Send { bytes: IoVec, tag: Option<u64> },
    Receive { room: IoVec, tag: Option<(u64, u64)> },
    Rma { kind: RmaKind, local: IoVec, remote: RmaIov },
    Atomic { kind: AtomicKind, datatype: u32, op: u32, local: [IoVec; 3], remote: RmaIov },
}

/// Of a buffer that is only read.
fn source(buffer: &impl Buf) -> (IoVec, Mark) {
    place(buffer.piece())
}

/// Of a buffer that is written.
fn destination(buffer: &mut impl BufMut) -> (IoVec, Mark) {
    place(buffer.piece_mut())
}

fn place(piece: Piece) -> (IoVec, Mark) {
    (IoVec { base: piece.base(), len: piece.len() }, piece.mark())
}

/// A piece in use, or none.
fn pieces(piece: &IoVec) -> &[IoVec] {
    if piece.len == 0 { &[] } else { core::slice::from_ref(piece) }
}

impl Request {
    const fn new(what: What, peer: u64, mark: Mark) -> Self {
        Self { what, peer, flags: Flags::COMPLETION, data: 0, mark, descriptor: 0 }
    }

    pub(crate) fn send(peer: u64, buffer: &impl Buf, tag: Option<u64>) -> Self {
        let (bytes, mark) = source(buffer);
        Self::new(What::Send { bytes, tag }, peer, mark)
    }

    /// From `peer`, or from any.
    pub(crate) fn receive(
        peer: Option<u64>,
        buffer: &mut impl BufMut,
        tag: Option<(u64, u64)>,
    ) -> Self {
        let (room, mark) = destination(buffer);
        Self::new(What::Receive { room, tag }, peer.unwrap_or(ADDR_UNSPEC), mark)
    }

    /// The buffer is as long as the remote memory.
    pub(crate) fn write(peer: u64, buffer: &impl Buf, remote: RmaIov) -> Self {
        let (local, mark) = source(buffer);
        Self::new(What::Rma { kind: RmaKind::Write, local, remote }, peer, mark)
    }

    /// The buffer has room for the remote memory.
    pub(crate) fn read(peer: u64, buffer: &mut impl BufMut, remote: RmaIov) -> Self {
        let (room, mark) = destination(buffer);
        let local = IoVec { len: remote.len, ..room };
        Self::new(What::Rma { kind: RmaKind::Read, local, remote }, peer, mark)
    }

    /// Operand, comparison value and result are empty where the operation has none.
    pub(crate) fn atomic(
        peer: u64,
        (kind, datatype, op): (AtomicKind, u32, u32),
        (operand, compare, result): (&impl Buf, &impl Buf, &mut impl BufMut),
        remote: RmaIov,
    ) -> Self {
        let local = [source(operand).0, source(compare).0, destination(result).0];
        Self::new(What::Atomic { kind, datatype, op, local, remote }, peer, Mark::NONE)
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

    /// The memory that a device has to know, and what happens to it; none of atomic operations, whose
    /// providers keep the words themselves.
    pub(crate) const fn memory(&self) -> Option<(IoVec, Way, Mark)> {
        let (memory, way) = match self.what {
            What::Send { bytes, .. } => (bytes, Way::Sent),
            What::Receive { room, .. } => (room, Way::Received),
            What::Rma { kind: RmaKind::Write, local, .. } => (local, Way::Written),
            What::Rma { kind: RmaKind::Read, local, .. } => (local, Way::Read),
            What::Atomic { .. } => return None,
        };
        Some((memory, way, self.mark))
    }

    /// What the device knows its memory by, or zero.
    #[cfg(test)]
    pub(crate) const fn descriptor(&self) -> usize {
        self.descriptor
    }

    /// Its memory is here instead, and the device knows it by this.
    pub(crate) const fn place(&mut self, base: *mut u8, descriptor: usize) {
        self.descriptor = descriptor;
        match &mut self.what {
            What::Send { bytes: memory, .. }
            | What::Receive { room: memory, .. }
            | What::Rma { local: memory, .. } => memory.base = base,
            What::Atomic { .. } => {}
        }
    }

    /// Hands the operation to the provider.
    ///
    /// # Safety
    /// As [`Request`] says.
    #[inline]
    pub(crate) unsafe fn post(&self, endpoint: &impl EndpointCalls, context: usize) -> Result<()> {
        let descriptors = [self.descriptor];
        let descs = Descs::new(&descriptors);
        let meta =
            TxMeta { dest: self.peer, context, flags: self.flags, data: self.data, silent: false };
        match &self.what {
            What::Send { bytes, tag } => {
                let iov = pieces(bytes);
                let op = SendOp { meta, iov, tagged: tag.is_some(), tag: tag.unwrap_or(0) };
                // SAFETY: the caller's promise.
                unsafe { endpoint.send(&op, descs) }
            }
            What::Receive { room, tag } => {
                let op = self.receive_op(room, *tag, context);
                // SAFETY: the caller's promise.
                unsafe { endpoint.recv(&op, descs) }
            }
            What::Rma { kind, local, remote } => {
                let (iov, remote) = (pieces(local), core::slice::from_ref(remote));
                // SAFETY: the caller's promise.
                unsafe { endpoint.rma(&RmaOp { meta, kind: *kind, iov, remote }, descs) }
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

    /// Hands a receive to a context that endpoints share.
    ///
    /// # Safety
    /// As [`Request`] says, until the context is closed.
    #[inline]
    pub(crate) unsafe fn post_shared(
        &self,
        receive: &impl SharedReceiveCalls,
        context: usize,
    ) -> Result<()> {
        let What::Receive { room, tag } = &self.what else { return Err(Errno::EOPNOTSUPP) };
        let descriptors = [self.descriptor];
        let op = self.receive_op(room, *tag, context);
        // SAFETY: the caller's promise.
        unsafe { receive.recv(&op, Descs::new(&descriptors)) }
    }

    #[inline]
    fn receive_op<'a>(
        &self,
        room: &'a IoVec,
        tag: Option<(u64, u64)>,
        context: usize,
    ) -> RecvOp<'a> {
        let (tag, ignore, tagged) = match tag {
            Some((tag, ignore)) => (tag, ignore, true),
            None => (0, 0, false),
        };
        let (iov, src, flags) = (pieces(room), self.peer, self.flags);
        RecvOp { iov, src, tagged, tag, ignore, context, flags }
    }
}
