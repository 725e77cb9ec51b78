//! HOT. `struct fi_ops_rma`: one-sided reads and writes.

use core::ffi::c_void;

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    op::{RmaIov, RmaKind, RmaOp, TxMeta},
};

use super::args::{
    Local, call, call_flags, inject as injected, message, piece, remote_pieces, transmit, with_data,
};
use crate::abi::{constants::fi_addr_t, data_ops::fi_ops_rma, fid::fid_ep, iovec, msg::fi_msg_rma};

/// The table of endpoints of type `E`.
pub(super) const fn table<E: Endpoint>() -> *mut fi_ops_rma {
    super::table(
        const {
            &fi_ops_rma {
                read: read::<E>,
                readv: readv::<E>,
                readmsg: readmsg::<E>,
                write: write::<E>,
                writev: writev::<E>,
                writemsg: writemsg::<E>,
                inject: inject::<E>,
                writedata: writedata::<E>,
                injectdata: injectdata::<E>,
                ..fi_ops_rma::UNSUPPORTED
            }
        },
    )
}

/// Posts an operation between local buffers and one remote buffer of the same length.
///
/// # Safety
/// As for [`Endpoint::rma`].
#[inline]
unsafe fn post<E: Endpoint>(
    ep: &E,
    kind: RmaKind,
    local: Local<'_>,
    (addr, key): (u64, u64),
    meta: TxMeta,
) -> Result<()> {
    let iov = local.iov;
    let total = iov.iter().try_fold(0usize, |sum, piece| sum.checked_add(piece.len));
    let remote = [RmaIov { addr, len: total.ok_or(Errno::EINVAL)?, key }];
    // SAFETY: the caller's promise.
    unsafe { ep.rma_registered(&RmaOp { meta, kind, iov, remote: &remote }, local.descs) }
}

/// Posts the operation that `msg` describes.
///
/// # Safety
/// `msg` is null or readable with its arrays during the call; the rest as for [`Endpoint::rma`].
#[inline]
unsafe fn post_msg<E: Endpoint>(
    ep: &E,
    kind: RmaKind,
    msg: *const fi_msg_rma,
    flags: u64,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let msg = unsafe { message(msg) }?;
    let meta = transmit(msg.addr, msg.context, call_flags(flags)?);
    let meta = TxMeta { data: msg.data, ..meta };
    // SAFETY: the caller's promise.
    let local = unsafe { Local::array(msg.msg_iov, msg.desc, msg.iov_count) }?;
    // SAFETY: the caller's promise.
    let remote = unsafe { remote_pieces(msg.rma_iov, msg.rma_iov_count) }?;
    // SAFETY: the caller's promise.
    unsafe { ep.rma_registered(&RmaOp { meta, kind, iov: local.iov, remote }, local.descs) }
}

// Every function below is called by C through an endpoint's table, so `ep` is null or such an
// endpoint, structs and arrays are readable during the call, and buffers stay valid until the
// operation completes (`fi_rma(3)`).

unsafe extern "C" fn read<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    src_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let meta = transmit(src_addr, context, ep.tx_op_flags());
            post(
                ep,
                RmaKind::Read,
                Local::new(&[piece(buf, len)], &[desc.addr()]),
                (addr, key),
                meta,
            )
        })
    }
}

unsafe extern "C" fn readv<E: Endpoint>(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    src_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table and a readable array.
    unsafe {
        call(ep, |ep: &E| {
            let meta = transmit(src_addr, context, ep.tx_op_flags());
            post(ep, RmaKind::Read, Local::array(iov, desc, count)?, (addr, key), meta)
        })
    }
}

unsafe extern "C" fn readmsg<E: Endpoint>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: C passes an endpoint of this table and a readable message.
    unsafe { call(ep, |ep: &E| post_msg(ep, RmaKind::Read, msg, flags)) }
}

unsafe extern "C" fn write<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post(
                ep,
                RmaKind::Write,
                Local::new(&[piece(buf, len)], &[desc.addr()]),
                (addr, key),
                meta,
            )
        })
    }
}

unsafe extern "C" fn writev<E: Endpoint>(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table and a readable array.
    unsafe {
        call(ep, |ep: &E| {
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post(ep, RmaKind::Write, Local::array(iov, desc, count)?, (addr, key), meta)
        })
    }
}

unsafe extern "C" fn writemsg<E: Endpoint>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: C passes an endpoint of this table and a readable message.
    unsafe { call(ep, |ep: &E| post_msg(ep, RmaKind::Write, msg, flags)) }
}

unsafe extern "C" fn inject<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let meta = injected(dest_addr, ep.tx_op_flags());
            post(ep, RmaKind::Write, Local::new(&[piece(buf, len)], &[]), (addr, key), meta)
        })
    }
}

unsafe extern "C" fn writedata<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    data: u64,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let meta = with_data(transmit(dest_addr, context, ep.tx_op_flags()), data);
            post(
                ep,
                RmaKind::Write,
                Local::new(&[piece(buf, len)], &[desc.addr()]),
                (addr, key),
                meta,
            )
        })
    }
}

unsafe extern "C" fn injectdata<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let meta = with_data(injected(dest_addr, ep.tx_op_flags()), data);
            post(ep, RmaKind::Write, Local::new(&[piece(buf, len)], &[]), (addr, key), meta)
        })
    }
}
