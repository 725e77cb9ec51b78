//! HOT. From counts of elements to bytes, without overflow.

use core::ffi::c_void;

use fabric_core::{
    Errno, Result,
    atomic::{atomic_op::ATOMIC_READ, valid},
    mem::IOV_LIMIT,
    op::{AtomicKind, IoVec, RmaIov},
};

use super::super::args::{array, piece};
use crate::abi::{
    constants::{fi_datatype, fi_op},
    msg::{fi_ioc, fi_rma_ioc},
};

/// What an operation does, and to elements of which size.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) kind: AtomicKind,
    pub(super) datatype: fi_datatype,
    pub(super) op: fi_op,
    size: usize,
}

impl Shape {
    /// `EOPNOTSUPP` if there is no such operation.
    #[inline]
    pub(super) fn new(kind: AtomicKind, datatype: fi_datatype, op: fi_op) -> Result<Self> {
        Ok(Self { kind, datatype, op, size: valid(kind, datatype, op)? })
    }

    /// Whether it only reads, and so has no operand.
    #[inline]
    pub(super) const fn reads(&self) -> bool {
        self.op == ATOMIC_READ
    }

    #[inline]
    fn bytes(&self, count: usize) -> Result<usize> {
        count.checked_mul(self.size).ok_or(Errno::EINVAL)
    }
}

/// Local buffers.
#[derive(Clone, Copy)]
pub(super) struct Elements {
    pieces: [IoVec; IOV_LIMIT],
    count: usize,
}

impl Elements {
    /// No buffer.
    pub(super) const NONE: Self = Self { pieces: [IoVec::EMPTY; IOV_LIMIT], count: 0 };

    /// One buffer of `count` elements; none at all is `EINVAL`.
    #[inline]
    pub(super) fn one(shape: Shape, buf: *const c_void, count: usize) -> Result<Self> {
        if count == 0 {
            return Err(Errno::EINVAL);
        }
        let mut one = Self { count: 1, ..Self::NONE };
        one.pieces[0] = piece(buf, shape.bytes(count)?);
        Ok(one)
    }

    /// An array of buffers, with the limits of [`array`].
    ///
    /// # Safety
    /// As for [`array`].
    #[inline]
    pub(super) unsafe fn array(shape: Shape, first: *const fi_ioc, count: usize) -> Result<Self> {
        let mut all = Self { count, ..Self::NONE };
        // SAFETY: the caller's promise.
        let buffers = unsafe { array(first, count) }?;
        for (slot, buffer) in all.pieces.iter_mut().zip(buffers) {
            *slot = piece(buffer.addr, shape.bytes(buffer.count)?);
        }
        Ok(all)
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[IoVec] {
        &self.pieces[..self.count]
    }

    /// Bytes in all; none or too many are `EINVAL`.
    #[inline]
    pub(super) fn total(&self) -> Result<usize> {
        let total =
            self.as_slice().iter().try_fold(0usize, |sum, piece| sum.checked_add(piece.len));
        total.filter(|total| *total != 0).ok_or(Errno::EINVAL)
    }
}

/// Remote buffers.
#[derive(Clone, Copy)]
pub(super) struct RemoteElements {
    pieces: [RmaIov; IOV_LIMIT],
    count: usize,
}

impl RemoteElements {
    /// An array of buffers, with the limits of [`array`]; no elements at all are `EINVAL`.
    ///
    /// # Safety
    /// As for [`array`].
    #[inline]
    pub(super) unsafe fn array(
        shape: Shape,
        first: *const fi_rma_ioc,
        count: usize,
    ) -> Result<Self> {
        let mut all = Self { pieces: [RmaIov { addr: 0, len: 0, key: 0 }; IOV_LIMIT], count };
        // SAFETY: the caller's promise.
        let buffers = unsafe { array(first, count) }?;
        if buffers.iter().all(|buffer| buffer.count == 0) {
            return Err(Errno::EINVAL);
        }
        for (slot, buffer) in all.pieces.iter_mut().zip(buffers) {
            *slot = RmaIov { addr: buffer.addr, len: shape.bytes(buffer.count)?, key: buffer.key };
        }
        Ok(all)
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[RmaIov] {
        &self.pieces[..self.count]
    }
}
