//! SETUP. Shared receive contexts: `struct fid_ep` of class `FI_CLASS_SRX_CTX`.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use fabric_core::{
    Errno, Result,
    api::{Endpoint, SharedReceive},
    domain::Domain,
    flags::Flags,
    log::Subsys,
    op::{Descs, RecvOp},
};

use super::{
    args::Receiver,
    msg, options,
    payload::{DomainObject, SrxObject},
    table, tagged,
};
use crate::{
    abi::{
        Plain,
        collective::fi_ops_collective,
        constants::FI_CLASS_SRX_CTX,
        data_ops::{fi_ops_atomic, fi_ops_rma},
        fid::{fi_ops, fid, fid_ep},
        info::fi_rx_attr,
        ops::{fi_ops_cm, fi_ops_ep},
    },
    info::read_rx,
    object::{self, CObject, Shell, from_fid},
    panic::{guard, status},
};

impl<E: Endpoint> CObject for SrxObject<E> {
    type Head = fid_ep;
    const CLASS: usize = FI_CLASS_SRX_CTX;

    fn domain(&self) -> Option<&Arc<Domain>> {
        Some(self.child.domain())
    }
}

impl<E: Endpoint> Receiver for SrxObject<E> {
    #[inline]
    fn op_flags(&self) -> Flags {
        self.op_flags
    }

    #[inline]
    unsafe fn recv(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.srx.recv_registered(op, descs) }
    }
}

/// Opens a context for `fi_srx_context`. No attributes are those of zeros; contexts of peer
/// providers are `EINVAL`.
///
/// # Safety
/// `attr` is null or points to attributes, whose struct never grew.
pub(super) unsafe fn open<E: Endpoint>(
    domain: &Arc<DomainObject<E>>,
    attr: *const fi_rx_attr,
    context: *mut c_void,
) -> Result<*mut fid_ep> {
    // SAFETY: the caller's promise.
    let attr = unsafe { attr.as_ref() }.map(read_rx).unwrap_or_default();
    if attr.op_flags.contains(Flags::PEER) {
        return Err(Errno::EINVAL);
    }
    let srx = E::SharedReceive::open(&domain.domain, &attr, context.addr())?;
    let object = SrxObject::<E>::new(srx, domain.domain.child(), attr.op_flags);
    Ok(object::open(Arc::new(object), context, head::<E>()))
}

fn head<E: Endpoint>() -> fid_ep {
    let ops = const { &fi_ops { close: close::<E>, ..fi_ops::UNSUPPORTED } };
    let ep_ops = const {
        &fi_ops_ep {
            cancel: cancel::<E>,
            getopt: getopt::<E>,
            setopt: setopt::<E>,
            ..fi_ops_ep::UNSUPPORTED
        }
    };
    fid_ep {
        fid: fid { ops: table(ops), ..fid::zeroed() },
        ops: table(ep_ops),
        cm: fi_ops_cm::unsupported(),
        msg: msg::receive_table::<SrxObject<E>>(),
        rma: fi_ops_rma::unsupported(),
        tagged: tagged::receive_table::<SrxObject<E>>(),
        atomic: fi_ops_atomic::unsupported(),
        collective: fi_ops_collective::unsupported(),
    }
}

/// Runs `body` on the context behind a `fid` that C passes.
///
/// # Safety
/// As for [`from_fid`].
unsafe fn on<E: Endpoint>(
    fid: *mut fid,
    body: impl FnOnce(&E::SharedReceive) -> Result<()>,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let shell = unsafe { from_fid::<SrxObject<E>>(fid) };
        status(shell.and_then(|shell| body(&shell.payload()?.srx)))
    })
}

unsafe extern "C" fn close<E: Endpoint>(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<SrxObject<E>>| {
        if shell.payload()?.in_use() {
            fabric_core::warn!("core", Subsys::EpCtrl, "close: endpoints receive from it");
            return Err(Errno::EBUSY);
        }
        shell.retire().map(|object| object.srx.close())
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}

unsafe extern "C" fn cancel<E: Endpoint>(fid: *mut fid, context: *mut c_void) -> isize {
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on::<E>(fid, |srx| srx.cancel(context.addr())) as isize }
}

unsafe extern "C" fn getopt<E: Endpoint>(
    fid: *mut fid,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut usize,
) -> c_int {
    // SAFETY: C passes a buffer of the length that it names.
    let run = |srx: &E::SharedReceive| unsafe {
        options::get(level, optval, optlen, || srx.option(optname))
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on::<E>(fid, run) }
}

unsafe extern "C" fn setopt<E: Endpoint>(
    fid: *mut fid,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: usize,
) -> c_int {
    // SAFETY: C passes a value of this length.
    let run = |srx: &E::SharedReceive| unsafe {
        options::set(level, optval, optlen, |value| srx.set_option(optname, value))
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on::<E>(fid, run) }
}
