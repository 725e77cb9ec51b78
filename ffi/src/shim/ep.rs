//! SETUP. `struct fid_ep`: opening, binding, enabling, options and closing of endpoints.

use std::sync::Arc;

use core::ffi::{c_int, c_void};

use fabric_core::{Errno, Result, api::Endpoint, domain::Domain, flags::Flags, log::Subsys};

use super::{
    atomic, belonging, cm, collective,
    connreq::{self, Found},
    msg, no_flags, options,
    payload::{AvObject, CntrObject, CqObject, DomainObject, EpObject, SrxObject},
    rma, table, tagged,
};
use crate::{
    abi::{
        Plain,
        constants::{
            FI_CLASS_AV, FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EP, FI_CLASS_EQ, FI_CLASS_SRX_CTX,
            FI_ENABLE,
        },
        fid::{fi_ops, fid, fid_ep},
        info::fi_info,
        ops::fi_ops_ep,
    },
    info::Hints,
    node::Node,
    object::{self, CObject, Shell, class_of, from_fid},
    panic::{guard, status},
};

impl<E: Endpoint> CObject for EpObject<E> {
    type Head = fid_ep;
    const CLASS: usize = FI_CLASS_EP;

    fn domain(&self) -> Option<&Arc<Domain>> {
        Some(&self.domain.domain)
    }
}

/// Opens an endpoint for `fi_endpoint` and `fi_endpoint2`. Null infos and endpoints of peer
/// providers are `EINVAL`, and so are infos of another provider; other flags `EBADFLAGS`.
///
/// # Safety
/// `info` is null or has structs of the sizes that the domain's fabric was opened for, with
/// readable addresses, keys and names.
pub unsafe fn open<E: Endpoint>(
    domain: &Arc<DomainObject<E>>,
    info: *mut fi_info,
    flags: u64,
    context: *mut c_void,
) -> Result<*mut fid_ep> {
    no_flags(flags)?;
    let node = Node::of(domain.sizing());
    // SAFETY: the caller's promise.
    let hints = unsafe { Hints::read(info, node, domain.domain.api_version()) }?;
    let hints = hints.ok_or(Errno::EINVAL)?;
    belonging::suits(domain, &hints.info)?;
    let request = request_of(domain, hints.handle)?;
    let handle = request.as_ref().map(|found| &found.request);
    let ep = E::open(&domain.domain, &hints.info, handle, context.addr())?;
    let object = EpObject::new(ep.clone(), domain.clone(), hints.info.addr_format);
    let opened = object::open(Arc::new(object), context, head::<E>());
    ep.introduce(opened.expose_provenance());
    if let Some(request) = request {
        request.consume();
    }
    Ok(opened)
}

/// What the info's handle names, if it has one.
fn request_of<E: Endpoint>(domain: &DomainObject<E>, handle: *mut fid) -> Result<Option<Found>> {
    if handle.is_null() {
        return Ok(None);
    }
    let found = connreq::find(handle).inspect_err(|_| {
        fabric_core::warn!(
            domain.provider(),
            Subsys::EpCtrl,
            "info.handle: no connection request to answer, and no passive endpoint"
        );
    });
    found.map(Some)
}

fn head<E: Endpoint>() -> fid_ep {
    let ops = const {
        &fi_ops { close: close::<E>, bind: bind::<E>, control: control::<E>, ..fi_ops::UNSUPPORTED }
    };
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
        cm: cm::table::<E>(),
        msg: msg::table::<E>(),
        rma: rma::table::<E>(),
        tagged: tagged::table::<E>(),
        atomic: atomic::table::<E>(),
        collective: collective::table(),
    }
}

/// The shell behind a `fid` that C passes.
///
/// # Safety
/// As for [`from_fid`].
unsafe fn shell<'a, E: Endpoint>(fid: *mut fid) -> Result<&'a Shell<EpObject<E>>> {
    // SAFETY: the caller's promise.
    unsafe { from_fid(fid) }
}

/// Runs `body` on the endpoint behind a `fid` that C passes.
///
/// # Safety
/// As for [`from_fid`].
unsafe fn on<E: Endpoint>(fid: *mut fid, body: impl FnOnce(&Arc<E>) -> Result<()>) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| status(unsafe { shell::<E>(fid) }.and_then(|shell| body(&shell.payload()?.ep))))
}

unsafe extern "C" fn close<E: Endpoint>(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<EpObject<E>>| {
        let object = shell.retire()?;
        object.ep.close();
        let bound = core::mem::take(&mut *object.bound());
        bound.eqs.iter().for_each(|eq| eq.forget(fid.addr()));
        Ok(())
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}

unsafe extern "C" fn bind<E: Endpoint>(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    guard(|| {
        let flags = Flags::from_bits_retain(flags);
        // SAFETY: C passes null or an object that it does not close during the call.
        let object = unsafe { shell::<E>(fid) }.and_then(Shell::payload);
        // SAFETY: as above.
        status(object.and_then(|object| unsafe { bind_object(object, bound, flags) }))
    })
}

/// # Safety
/// As for [`from_fid`], of `bound`.
unsafe fn bind_object<E: Endpoint>(
    object: &EpObject<E>,
    bound: *mut fid,
    flags: Flags,
) -> Result<()> {
    let (ep, domain) = (&object.ep, &object.domain.domain);
    // SAFETY: the caller's promise.
    match unsafe { class_of(bound) }? {
        FI_CLASS_CQ => {
            // SAFETY: the caller's promise.
            let queue = unsafe { belonging::of_domain::<CqObject<E>>(domain, bound) }?.payload()?;
            ep.bind_cq(&queue.cq, flags)
        }
        FI_CLASS_CNTR => {
            // SAFETY: the caller's promise.
            let counter = unsafe { belonging::of_domain::<CntrObject<E>>(domain, bound) }?;
            ep.bind_counter(&counter.payload()?.counter, flags)
        }
        FI_CLASS_AV | FI_CLASS_EQ | FI_CLASS_SRX_CTX if !flags.is_empty() => Err(Errno::EBADFLAGS),
        FI_CLASS_AV => {
            // SAFETY: the caller's promise.
            let vector = unsafe { belonging::of_domain::<AvObject>(domain, bound) }?;
            ep.bind_av(&vector.payload()?.av)
        }
        FI_CLASS_EQ => {
            // SAFETY: the caller's promise.
            let eq = &unsafe { belonging::event_queue(&object.domain.fabric.0, bound) }?.eq;
            ep.bind_eq(eq)?;
            object.bound().eqs.push(eq.clone());
            Ok(())
        }
        FI_CLASS_SRX_CTX => {
            // SAFETY: the caller's promise.
            let srx = unsafe { belonging::of_domain::<SrxObject<E>>(domain, bound) }?.share()?;
            ep.bind_shared_receive(&srx.srx)?;
            object.bound().srx = Some(srx.uses());
            Ok(())
        }
        _ => Err(Errno::EINVAL),
    }
}

unsafe extern "C" fn control<E: Endpoint>(
    fid: *mut fid,
    command: c_int,
    _arg: *mut c_void,
) -> c_int {
    let run = |ep: &Arc<E>| match command {
        FI_ENABLE => ep.enable(),
        _ => Err(Errno::ENOSYS),
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(fid, run) }
}

unsafe extern "C" fn cancel<E: Endpoint>(fid: *mut fid, context: *mut c_void) -> isize {
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on::<E>(fid, |ep| ep.cancel(context.addr())) as isize }
}

unsafe extern "C" fn getopt<E: Endpoint>(
    fid: *mut fid,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut usize,
) -> c_int {
    // SAFETY: C passes a buffer of the length that it names.
    let run = |ep: &Arc<E>| unsafe { options::get(level, optval, optlen, || ep.option(optname)) };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(fid, run) }
}

unsafe extern "C" fn setopt<E: Endpoint>(
    fid: *mut fid,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: usize,
) -> c_int {
    // SAFETY: C passes a value of this length.
    let run = |ep: &Arc<E>| unsafe {
        options::set(level, optval, optlen, |value| ep.set_option(optname, value))
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(fid, run) }
}
