//! HOT. `struct fi_ops_msg`: sends and receives without tags.

use core::ffi::c_void;

use fabric_core::{
    Result,
    api::Endpoint,
    flags::Flags,
    op::{RecvOp, SendOp, TxMeta},
};

use super::{
    args::{
        Local, Receiver, call, call_flags, inject as injected, message, piece, receive, send_flags,
        transmit, with_data,
    },
    payload::EpObject,
};
use crate::abi::{constants::fi_addr_t, data_ops::fi_ops_msg, fid::fid_ep, iovec, msg::fi_msg};

/// The table of endpoints of type `E`.
pub(super) const fn table<E: Endpoint>() -> *mut fi_ops_msg {
    super::table(
        const {
            &fi_ops_msg {
                recv: recv::<EpObject<E>>,
                recvv: recvv::<EpObject<E>>,
                recvmsg: recvmsg::<EpObject<E>>,
                send: send::<E>,
                sendv: sendv::<E>,
                sendmsg: sendmsg::<E>,
                inject: inject::<E>,
                senddata: senddata::<E>,
                injectdata: injectdata::<E>,
                ..fi_ops_msg::UNSUPPORTED
            }
        },
    )
}

/// The table of what only receives.
pub(super) const fn receive_table<T: Receiver>() -> *mut fi_ops_msg {
    super::table(
        const {
            &fi_ops_msg {
                recv: recv::<T>,
                recvv: recvv::<T>,
                recvmsg: recvmsg::<T>,
                ..fi_ops_msg::UNSUPPORTED
            }
        },
    )
}

/// Messages that are only looked at or dropped have no buffer, whatever the array says.
#[inline]
pub(super) const fn without_buffer(flags: Flags) -> bool {
    flags.intersects(Flags::PEEK.union(Flags::DISCARD))
}

/// # Safety
/// As for [`Endpoint::recv`].
#[inline]
unsafe fn post_recv<T: Receiver>(
    target: &T,
    local: Local<'_>,
    src: fi_addr_t,
    context: *mut c_void,
    flags: Flags,
) -> Result<()> {
    let context = context.addr();
    let op = RecvOp { iov: local.iov, src, tagged: false, tag: 0, ignore: 0, context, flags };
    // SAFETY: the caller's promise.
    unsafe { target.recv(&op, local.descs) }
}

/// # Safety
/// As for [`Endpoint::send`].
#[inline]
unsafe fn post_send<E: Endpoint>(ep: &E, local: Local<'_>, meta: TxMeta) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        ep.send_registered(&SendOp { meta, iov: local.iov, tagged: false, tag: 0 }, local.descs)
    }
}

// Every function below is called by C through a table of endpoints, or of shared receive contexts,
// so `ep` is null or such an object, structs and arrays are readable during the call, and buffers
// stay valid until the operation completes (`fi_msg(3)`).

unsafe extern "C" fn recv<T: Receiver>(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    src_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes a receiver of this table.
    unsafe {
        receive(ep, |target: &T| {
            post_recv(
                target,
                Local::new(&[piece(buf, len)], &[desc.addr()]),
                src_addr,
                context,
                target.op_flags(),
            )
        })
    }
}

unsafe extern "C" fn recvv<T: Receiver>(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    src_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes a receiver of this table and a readable array.
    unsafe {
        receive(ep, |target: &T| {
            post_recv(target, Local::array(iov, desc, count)?, src_addr, context, target.op_flags())
        })
    }
}

unsafe extern "C" fn recvmsg<T: Receiver>(
    ep: *mut fid_ep,
    msg: *const fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: C passes a receiver of this table and a readable message.
    unsafe {
        receive(ep, |target: &T| {
            let (msg, flags) = (message(msg)?, call_flags(flags)?);
            let count = if without_buffer(flags) { 0 } else { msg.iov_count };
            post_recv(
                target,
                Local::array(msg.msg_iov, msg.desc, count)?,
                msg.addr,
                msg.context,
                flags,
            )
        })
    }
}

unsafe extern "C" fn send<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            post_send(
                ep,
                Local::new(&[piece(buf, len)], &[desc.addr()]),
                transmit(dest_addr, context, ep.tx_op_flags()),
            )
        })
    }
}

unsafe extern "C" fn sendv<E: Endpoint>(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    dest_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table and a readable array.
    unsafe {
        call(ep, |ep: &E| {
            post_send(
                ep,
                Local::array(iov, desc, count)?,
                transmit(dest_addr, context, ep.tx_op_flags()),
            )
        })
    }
}

unsafe extern "C" fn sendmsg<E: Endpoint>(
    ep: *mut fid_ep,
    msg: *const fi_msg,
    flags: u64,
) -> isize {
    // SAFETY: C passes an endpoint of this table and a readable message.
    unsafe {
        call(ep, |ep: &E| {
            let msg = message(msg)?;
            let meta = transmit(msg.addr, msg.context, send_flags::<E>(flags)?);
            post_send(
                ep,
                Local::array(msg.msg_iov, msg.desc, msg.iov_count)?,
                TxMeta { data: msg.data, ..meta },
            )
        })
    }
}

unsafe extern "C" fn inject<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest_addr: fi_addr_t,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            post_send(
                ep,
                Local::new(&[piece(buf, len)], &[]),
                injected(dest_addr, ep.tx_op_flags()),
            )
        })
    }
}

unsafe extern "C" fn senddata<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    data: u64,
    dest_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post_send(ep, Local::new(&[piece(buf, len)], &[desc.addr()]), with_data(meta, data))
        })
    }
}

unsafe extern "C" fn injectdata<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest_addr: fi_addr_t,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let meta = injected(dest_addr, ep.tx_op_flags());
            post_send(ep, Local::new(&[piece(buf, len)], &[]), with_data(meta, data))
        })
    }
}
