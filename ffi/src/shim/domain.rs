//! SETUP. Domains: `fi_ops_domain` and what `fi_control` and `fi_domain_bind` do with one.

use core::{
    ffi::{c_int, c_void},
    marker::PhantomData,
};
use std::sync::Arc;

use fabric_core::{Errno, Result, api::Endpoint, av::AddressFormat, domain::Domain, log::Subsys};

use super::{
    av, belonging, cntr, cq, ep, mr, open_into,
    payload::{DomainObject, FabricObject},
    query, srx, table,
};
use crate::{
    abi::{
        Plain,
        attr::{fi_av_attr, fi_cntr_attr, fi_cq_attr},
        constants::{FI_CLASS_DOMAIN, FI_MAP_RAW_MR, FI_UNMAP_KEY},
        fid::{fi_ops, fid, fid_av, fid_cntr, fid_cq, fid_domain, fid_ep},
        info::{fi_info, fi_rx_attr},
        ops::fi_ops_domain,
    },
    object::{self, CObject, Shell, from_fid},
    opened,
    panic::{guard, status},
};

impl<E: Endpoint> CObject for DomainObject<E> {
    type Head = fid_domain;
    const CLASS: usize = FI_CLASS_DOMAIN;
}

/// The tables of a domain with endpoints of one type.
struct Tables<E>(PhantomData<E>);

impl<E: Endpoint> Tables<E> {
    const FID: &fi_ops = &fi_ops {
        close: close::<E>,
        bind: bind::<E>,
        control: control::<E>,
        ..fi_ops::UNSUPPORTED
    };

    /// Scalable endpoints, poll sets, shared transmit contexts and collectives are not supported.
    const OPS: &fi_ops_domain = &fi_ops_domain {
        av_open: av_open::<E>,
        cq_open: cq_open::<E>,
        endpoint: endpoint::<E>,
        endpoint2: endpoint2::<E>,
        cntr_open: cntr_open::<E>,
        srx_ctx: srx_ctx::<E>,
        query_atomic: query::query_atomic::<E>,
        ..fi_ops_domain::UNSUPPORTED
    };
}

/// Opens a domain for endpoints of type `E`.
pub(crate) fn open<E: Endpoint>(
    fabric: &Arc<FabricObject>,
    core: Arc<Domain>,
    addresses: &'static dyn AddressFormat,
    context: *mut c_void,
) -> Result<*mut fid_domain> {
    let mut head = fid_domain::zeroed();
    head.fid.ops = table(Tables::<E>::FID);
    head.ops = table(Tables::<E>::OPS);
    head.mr = table(mr::Tables::<E>::OPS);
    let names = fabric.names(Some(core.attr().name.as_deref().unwrap_or_default()));
    let domain = DomainObject::<E>::new(core, fabric.child(), addresses);
    let opened = object::open(Arc::new(domain), context, head);
    opened::add(opened, names);
    Ok(opened)
}

unsafe extern "C" fn close<E: Endpoint>(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<DomainObject<E>>| {
        let object = shell.payload()?;
        if object.domain.in_use() {
            fabric_core::warn!(
                object.provider(),
                Subsys::Domain,
                "close: objects are still open in it: {} of endpoints, queues, counters \
                 and address vectors, {} of memory regions",
                object.domain.children(),
                object.domain.regions().len()
            );
            return Err(Errno::EBUSY);
        }
        opened::remove(shell.head());
        shell.retire().map(drop)
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}

/// Binds an event queue, which nothing reports to: registration is synchronous, and the flag that
/// asks for anything else is `EBADFLAGS`.
unsafe extern "C" fn bind<E: Endpoint>(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    guard(|| {
        // SAFETY: the caller passes an object.
        status(unsafe { from_fid::<DomainObject<E>>(fid) }.and_then(|shell| {
            let object = shell.payload()?;
            // SAFETY: as above.
            let eq = unsafe { belonging::event_queue(&object.fabric.0, bound) }?;
            if flags != 0 {
                return Err(Errno::EBADFLAGS);
            }
            object.eq.set(eq.eq.bind()?).map_err(|_| Errno::EINVAL)
        }))
    })
}

unsafe extern "C" fn control<E: Endpoint>(
    fid: *mut fid,
    command: c_int,
    arg: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the caller passes an object and the argument that the command asks for.
        status(unsafe { from_fid::<DomainObject<E>>(fid) }.and_then(|shell| match command {
            // SAFETY: as above.
            FI_MAP_RAW_MR => unsafe { mr::map_raw(shell.payload()?.domain.regions(), arg) },
            // SAFETY: as above.
            FI_UNMAP_KEY => unsafe { mr::unmap_key(arg) },
            _ => Err(Errno::ENOSYS),
        }))
    })
}

/// # Safety
/// `domain` is a domain of this type, open or closed.
unsafe fn shared<E: Endpoint>(domain: *mut fid_domain) -> Result<Arc<DomainObject<E>>> {
    // SAFETY: the caller's promise.
    unsafe { from_fid::<DomainObject<E>>(domain.cast()) }?.share()
}

unsafe extern "C" fn av_open<E: Endpoint>(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the call came through a domain's table; attributes and room are the caller's.
    guard(|| unsafe { open_into(av, || av::open(&*shared::<E>(domain)?, attr, context)) })
}

unsafe extern "C" fn cq_open<E: Endpoint>(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the call came through a domain's table; attributes and room are the caller's.
    guard(|| unsafe { open_into(cq, || cq::open(&*shared::<E>(domain)?, attr, context)) })
}

unsafe extern "C" fn cntr_open<E: Endpoint>(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the call came through a domain's table; attributes and room are the caller's.
    guard(|| unsafe { open_into(cntr, || cntr::open(&*shared::<E>(domain)?, attr, context)) })
}

unsafe extern "C" fn srx_ctx<E: Endpoint>(
    domain: *mut fid_domain,
    attr: *mut fi_rx_attr,
    rx_ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the call came through a domain's table; attributes and room are the caller's.
    guard(|| unsafe { open_into(rx_ep, || srx::open::<E>(&shared::<E>(domain)?, attr, context)) })
}

unsafe extern "C" fn endpoint<E: Endpoint>(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the arguments are those of `fi_endpoint2` without flags.
    unsafe { endpoint2::<E>(domain, info, ep, 0, context) }
}

unsafe extern "C" fn endpoint2<E: Endpoint>(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the call came through a domain's table; info and room are the caller's.
    guard(|| unsafe {
        open_into(ep, || ep::open::<E>(&shared::<E>(domain)?, info, flags, context))
    })
}
