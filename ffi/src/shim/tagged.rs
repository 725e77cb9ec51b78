//! HOT. `struct fi_ops_tagged`: sends and receives that are matched by tag.

use core::ffi::c_void;

use fabric_core::{
    Result,
    api::Endpoint,
    flags::Flags,
    op::{RecvOp, SendOp, TxMeta},
};

use super::{
    args::{
        Local, Receiver, call, call_flags, inject as injected, message, piece, receive, transmit,
        with_data,
    },
    msg::without_buffer,
    payload::EpObject,
};
use crate::abi::{
    constants::fi_addr_t, data_ops::fi_ops_tagged, fid::fid_ep, iovec, msg::fi_msg_tagged,
};

/// The table of endpoints of type `E`.
pub(super) const fn table<E: Endpoint>() -> *mut fi_ops_tagged {
    super::table(
        const {
            &fi_ops_tagged {
                recv: recv::<EpObject<E>>,
                recvv: recvv::<EpObject<E>>,
                recvmsg: recvmsg::<EpObject<E>>,
                send: send::<E>,
                sendv: sendv::<E>,
                sendmsg: sendmsg::<E>,
                inject: inject::<E>,
                senddata: senddata::<E>,
                injectdata: injectdata::<E>,
                ..fi_ops_tagged::UNSUPPORTED
            }
        },
    )
}

/// The table of what only receives.
pub(super) const fn receive_table<T: Receiver>() -> *mut fi_ops_tagged {
    super::table(
        const {
            &fi_ops_tagged {
                recv: recv::<T>,
                recvv: recvv::<T>,
                recvmsg: recvmsg::<T>,
                ..fi_ops_tagged::UNSUPPORTED
            }
        },
    )
}

/// What a receive matches.
#[derive(Clone, Copy)]
struct Match {
    src: fi_addr_t,
    tag: u64,
    ignore: u64,
}

/// # Safety
/// As for [`Endpoint::recv`].
#[inline]
unsafe fn post_recv<T: Receiver>(
    target: &T,
    local: Local<'_>,
    Match { src, tag, ignore }: Match,
    context: *mut c_void,
    flags: Flags,
) -> Result<()> {
    let context = context.addr();
    let op = RecvOp { iov: local.iov, src, tagged: true, tag, ignore, context, flags };
    // SAFETY: the caller's promise.
    unsafe { target.recv(&op, local.descs) }
}

/// The defaults of receive calls; as a default, `FI_MULTI_RECV` speaks of untagged receives.
#[inline]
fn recv_flags<T: Receiver>(target: &T) -> Flags {
    target.op_flags().difference(Flags::MULTI_RECV)
}

/// # Safety
/// As for [`Endpoint::send`].
#[inline]
unsafe fn post_send<E: Endpoint>(ep: &E, local: Local<'_>, tag: u64, meta: TxMeta) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { ep.send_registered(&SendOp { meta, iov: local.iov, tagged: true, tag }, local.descs) }
}

// Every function below is called by C through a table of endpoints, or of shared receive contexts,
// so `ep` is null or such an object, structs and arrays are readable during the call, and buffers
// stay valid until the operation completes (`fi_tagged(3)`).

unsafe extern "C" fn recv<T: Receiver>(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    src_addr: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let wanted = Match { src: src_addr, tag, ignore };
    // SAFETY: C passes a receiver of this table.
    unsafe {
        receive(ep, |target: &T| {
            post_recv(
                target,
                Local::new(&[piece(buf, len)], &[desc.addr()]),
                wanted,
                context,
                recv_flags(target),
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
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    let wanted = Match { src: src_addr, tag, ignore };
    // SAFETY: C passes a receiver of this table and a readable array.
    unsafe {
        receive(ep, |target: &T| {
            post_recv(target, Local::array(iov, desc, count)?, wanted, context, recv_flags(target))
        })
    }
}

unsafe extern "C" fn recvmsg<T: Receiver>(
    ep: *mut fid_ep,
    msg: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: C passes a receiver of this table and a readable message.
    unsafe {
        receive(ep, |target: &T| {
            let (msg, flags) = (message(msg)?, call_flags(flags)?);
            let wanted = Match { src: msg.addr, tag: msg.tag, ignore: msg.ignore };
            let count = if without_buffer(flags) { 0 } else { msg.iov_count };
            post_recv(
                target,
                Local::array(msg.msg_iov, msg.desc, count)?,
                wanted,
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            post_send(
                ep,
                Local::new(&[piece(buf, len)], &[desc.addr()]),
                tag,
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table and a readable array.
    unsafe {
        call(ep, |ep: &E| {
            post_send(
                ep,
                Local::array(iov, desc, count)?,
                tag,
                transmit(dest_addr, context, ep.tx_op_flags()),
            )
        })
    }
}

unsafe extern "C" fn sendmsg<E: Endpoint>(
    ep: *mut fid_ep,
    msg: *const fi_msg_tagged,
    flags: u64,
) -> isize {
    // SAFETY: C passes an endpoint of this table and a readable message.
    unsafe {
        call(ep, |ep: &E| {
            let msg = message(msg)?;
            let meta = transmit(msg.addr, msg.context, call_flags(flags)?);
            let meta = TxMeta { data: msg.data, ..meta };
            post_send(ep, Local::array(msg.msg_iov, msg.desc, msg.iov_count)?, msg.tag, meta)
        })
    }
}

unsafe extern "C" fn inject<E: Endpoint>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest_addr: fi_addr_t,
    tag: u64,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            post_send(
                ep,
                Local::new(&[piece(buf, len)], &[]),
                tag,
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
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let meta = transmit(dest_addr, context, ep.tx_op_flags());
            post_send(
                ep,
                Local::new(&[piece(buf, len)], &[desc.addr()]),
                tag,
                with_data(meta, data),
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
    tag: u64,
) -> isize {
    // SAFETY: C passes an endpoint of this table.
    unsafe {
        call(ep, |ep: &E| {
            let meta = injected(dest_addr, ep.tx_op_flags());
            post_send(ep, Local::new(&[piece(buf, len)], &[]), tag, with_data(meta, data))
        })
    }
}
