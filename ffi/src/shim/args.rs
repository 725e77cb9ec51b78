//! HOT. What the data calls have in common: their target, the arrays they point to, the parts of an
//! operation that every transmit carries.

use core::ffi::c_void;

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    flags::Flags,
    mem::IOV_LIMIT,
    op::{Descs, IoVec, RecvOp, RmaIov, TxMeta},
};

use super::payload::EpObject;
use crate::{
    abi::{constants::fi_addr_t, fid::fid_ep, iovec, msg::fi_rma_iov},
    object::{CObject, call_target},
    panic::guard,
};

/// Runs a data call on the endpoint behind `ep`; null and closed endpoints are `-FI_EINVAL`.
///
/// # Safety
/// `ep` is null or what C passed to a slot of an endpoint of type `E`, and is not closed during the
/// call.
#[inline(always)]
pub(super) unsafe fn call<E: Endpoint>(
    ep: *mut fid_ep,
    body: impl FnOnce(&E) -> Result<()>,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { receive(ep, |target: &EpObject<E>| body(&target.ep)) }
}

/// What receives are posted to: an endpoint, or a context that endpoints share.
pub(super) trait Receiver: CObject<Head = fid_ep> {
    /// Flags of receive calls that carry none.
    fn op_flags(&self) -> Flags;

    /// Posts a receive.
    ///
    /// # Safety
    /// As for [`Endpoint::recv_registered`].
    unsafe fn recv(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()>;
}

impl<E: Endpoint> Receiver for EpObject<E> {
    #[inline]
    fn op_flags(&self) -> Flags {
        self.ep.rx_op_flags()
    }

    #[inline]
    unsafe fn recv(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.ep.recv_registered(op, descs) }
    }
}

/// As [`call`], for receives.
///
/// # Safety
/// As for [`call`], with a slot of a table that only objects of type `T` carry.
#[inline(always)]
pub(super) unsafe fn receive<T: Receiver>(
    target: *mut fid_ep,
    body: impl FnOnce(&T) -> Result<()>,
) -> isize {
    guard(|| {
        if target.is_null() {
            return Errno::EINVAL.to_c();
        }
        // SAFETY: the caller's promise.
        match unsafe { call_target::<T>(target) }.and_then(body) {
            Ok(()) => 0,
            Err(errno) => errno.to_c(),
        }
    })
}

/// One local buffer.
#[inline]
pub(super) const fn piece(buf: *const c_void, len: usize) -> IoVec {
    IoVec { base: buf.cast_mut().cast(), len }
}

/// An array of local buffers.
///
/// # Safety
/// As for [`array`].
#[inline]
pub(super) unsafe fn pieces<'a>(iov: *const iovec, count: usize) -> Result<&'a [IoVec]> {
    const { assert!(size_of::<iovec>() == size_of::<IoVec>()) };
    const { assert!(core::mem::offset_of!(iovec, iov_len) == core::mem::offset_of!(IoVec, len)) };
    // SAFETY: the caller's promise; the two structs have one layout.
    unsafe { array(iov.cast(), count) }
}

/// The local memory of an operation.
#[derive(Clone, Copy)]
pub(super) struct Local<'a> {
    pub(super) iov: &'a [IoVec],
    pub(super) descs: Descs<'a>,
}

impl<'a> Local<'a> {
    /// Buffers with their descriptors.
    #[inline]
    pub(super) const fn new(iov: &'a [IoVec], descs: &'a [usize]) -> Self {
        Self { iov, descs: Descs::new(descs) }
    }

    /// An array of local buffers, and of as many descriptors.
    ///
    /// # Safety
    /// As for [`array`] and [`Descs::from_raw`].
    #[inline]
    pub(super) unsafe fn array(
        iov: *const iovec,
        desc: *const *mut c_void,
        count: usize,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        let iov = unsafe { pieces(iov, count) }?;
        // SAFETY: the caller's promise; the pointers are numbers here, which nothing follows.
        Ok(Self { iov, descs: unsafe { Descs::from_raw(desc.cast(), count) } })
    }
}

/// An array of remote buffers.
///
/// # Safety
/// As for [`array`].
#[inline]
pub(super) unsafe fn remote_pieces<'a>(
    iov: *const fi_rma_iov,
    count: usize,
) -> Result<&'a [RmaIov]> {
    const { assert!(size_of::<fi_rma_iov>() == size_of::<RmaIov>()) };
    const { assert!(core::mem::offset_of!(fi_rma_iov, len) == core::mem::offset_of!(RmaIov, len)) };
    const { assert!(core::mem::offset_of!(fi_rma_iov, key) == core::mem::offset_of!(RmaIov, key)) };
    // SAFETY: the caller's promise; the two structs have one layout.
    unsafe { array(iov.cast(), count) }
}

/// An array of `count` elements, at most [`IOV_LIMIT`]. An empty one may be anywhere, null
/// included; any other at null, or a longer one, is `EINVAL`.
///
/// # Safety
/// Unless it is null, `first` is valid for reading `count` elements during the call.
#[inline]
pub(super) unsafe fn array<'a, T>(first: *const T, count: usize) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if count > IOV_LIMIT || first.is_null() || !first.is_aligned() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise; null and misaligned arrays have been refused.
    Ok(unsafe { core::slice::from_raw_parts(first, count) })
}

/// The struct that a `*msg` call points to; null is `EINVAL`.
///
/// # Safety
/// `message` is null or valid for reading during the call.
#[inline]
pub(super) unsafe fn message<'a, T>(message: *const T) -> Result<&'a T> {
    if !message.is_aligned() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe { message.as_ref() }.ok_or(Errno::EINVAL)
}

/// The flags of a `*msg` call, which replace the endpoint's defaults. What would change the meaning
/// of the struct's fields and is not supported is `ENOSYS`.
#[inline]
pub(super) fn call_flags(flags: u64) -> Result<Flags> {
    let flags = Flags::from_bits_retain(flags);
    if flags.intersects(Flags::TRIGGER | Flags::MULTICAST) {
        return Err(Errno::ENOSYS);
    }
    Ok(flags)
}

/// The same for messages, which may go to the groups of endpoints of type `E`.
#[inline]
pub(super) fn send_flags<E: Endpoint>(flags: u64) -> Result<Flags> {
    let to_group = Flags::from_bits_retain(flags) & Flags::MULTICAST;
    if E::GROUPS { Ok(call_flags(flags & !to_group.bits())? | to_group) } else { call_flags(flags) }
}

/// A transmit that completes with `context`.
#[inline]
pub(super) fn transmit(dest: fi_addr_t, context: *mut c_void, flags: Flags) -> TxMeta {
    TxMeta { dest, context: context.addr(), flags, data: 0, silent: false }
}

/// A transmit of the inject family.
#[inline]
pub(super) const fn inject(dest: fi_addr_t, flags: Flags) -> TxMeta {
    TxMeta { dest, context: 0, flags, data: 0, silent: true }
}

/// The same with data for the target's completion.
#[inline]
pub(super) const fn with_data(meta: TxMeta, data: u64) -> TxMeta {
    TxMeta { flags: meta.flags.union(Flags::REMOTE_CQ_DATA), data, ..meta }
}
