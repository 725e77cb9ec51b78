//! SETUP. Fabrics: `fi_ops_fabric`.

use core::ffi::{c_int, c_void};
use std::sync::{Arc, atomic::Ordering};

use fabric_core::{
    Errno, Result,
    attr::{FabricAttr, Info},
    log::Subsys,
};

use super::{eq, no_flags, open_into, payload::FabricObject, table, wait};
use crate::{
    abi::{
        Plain,
        attr::fi_eq_attr,
        constants::FI_CLASS_FABRIC,
        fid::{fi_ops, fid, fid_domain, fid_eq, fid_fabric, fid_pep},
        info::fi_info,
        ops::fi_ops_fabric,
    },
    info::Hints,
    node,
    object::{self, CObject, Shell, from_fid},
    opened::{self, Names},
    panic::{guard, status},
    provider::Objects,
};

impl CObject for FabricObject {
    type Head = fid_fabric;
    const CLASS: usize = FI_CLASS_FABRIC;
}

const FID: &fi_ops = &fi_ops { close, ..fi_ops::UNSUPPORTED };

/// Wait sets are not supported.
const OPS: &fi_ops_fabric =
    &fi_ops_fabric { domain, domain2, passive_ep, eq_open, trywait, ..fi_ops_fabric::UNSUPPORTED };

/// Opens a fabric; `attr.api_version` is what the application asked for.
pub(crate) fn open(
    attr: FabricAttr,
    objects: Objects,
    context: *mut c_void,
) -> Result<*mut fid_fabric> {
    let mut head = fid_fabric::zeroed();
    head.fid.ops = table(FID);
    head.ops = table(OPS);
    head.api_version = attr.api_version.0;
    let sizing = node::sizing_version(attr.api_version);
    let fabric = Arc::new(FabricObject::new(attr, sizing, objects));
    let names = fabric.names(None);
    let opened = object::open(fabric.clone(), context, head);
    fabric.address.store(opened.expose_provenance(), Ordering::Relaxed);
    opened::add(opened, names);
    Ok(opened)
}

impl FabricObject {
    /// The names of this fabric, or of a domain of it.
    pub(super) fn names(&self, domain: Option<&str>) -> Names {
        Names {
            provider: self.attr.prov_name.clone().unwrap_or_default(),
            fabric: self.attr.name.clone().unwrap_or_default(),
            domain: domain.map(str::to_owned),
        }
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<FabricObject>| {
        let fabric = shell.payload()?;
        if fabric.in_use() {
            let name = fabric.attr.prov_name.as_deref().unwrap_or_default();
            fabric_core::warn!(
                name,
                Subsys::Fabric,
                "close: domains, event queues or passive endpoints are open"
            );
            return Err(Errno::EBUSY);
        }
        opened::remove(shell.head());
        shell.retire().map(drop)
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}

unsafe extern "C" fn domain(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the arguments are those of `fi_domain2` without flags.
    unsafe { domain2(fabric, info, domain, 0, context) }
}

unsafe extern "C" fn domain2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: `domain` has room for a pointer or is null.
    guard(|| unsafe {
        open_into(domain, || {
            no_flags(flags)?;
            let fabric = from_fid::<FabricObject>(fabric.cast())?.share()?;
            open_domain(&fabric, info, context)
        })
    })
}

/// The attributes may be edited since discovery: threading and progress are the application's to
/// tighten or loosen.
///
/// # Safety
/// As for [`read_info`].
unsafe fn open_domain(
    fabric: &Arc<FabricObject>,
    info: *const fi_info,
    context: *mut c_void,
) -> Result<*mut fid_domain> {
    // SAFETY: the caller's promise.
    let info = unsafe { read_info(fabric, info) }?;
    let attr = info.domain.as_ref().ok_or(Errno::EINVAL)?;
    if attr.auth_key_size != 0 {
        return Err(Errno::EINVAL);
    }
    (fabric.objects.open_domain)(fabric, &info, context)
}

/// An info for an object of this fabric; `EINVAL` for null and for one of another fabric.
///
/// # Safety
/// `info` is an info of this library, in which the application may have put its own structs, or
/// null.
unsafe fn read_info(fabric: &FabricObject, info: *const fi_info) -> Result<Info> {
    // SAFETY: structs that the application put there have the size of its node, which is no older
    // than the oldest in the process.
    let hints = unsafe { Hints::read(info, node::oldest(), fabric.attr.api_version) }?;
    let mut info = hints.ok_or(Errno::EINVAL)?.info;
    if let Some(hinted) = info.fabric.as_ref().and_then(|hinted| hinted.name.as_deref())
        && !fabric.attr.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(hinted))
    {
        return Err(Errno::EINVAL);
    }
    info.fabric = Some(fabric.attr.clone());
    Ok(info)
}

/// Opens a passive endpoint; `ENOSYS` for providers without connections.
unsafe extern "C" fn passive_ep(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    pep: *mut *mut fid_pep,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the caller passes a fabric.
        let fabric = unsafe { from_fid::<FabricObject>(fabric.cast()) }.and_then(Shell::share);
        let fabric = match fabric {
            Ok(fabric) => fabric,
            Err(errno) => return -errno.get(),
        };
        let Some(open) = fabric.objects.open_passive else { return -Errno::ENOSYS.get() };
        // SAFETY: the caller passes an info or null, and room for a pointer.
        unsafe { open_into(pep, || open(&fabric, &read_info(&fabric, info)?, context)) }
    })
}

unsafe extern "C" fn eq_open(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a fabric, attributes or null, and room for a pointer.
    guard(|| unsafe {
        open_into(eq, || {
            let fabric = from_fid::<FabricObject>(fabric.cast())?.share()?;
            eq::open(&fabric, attr, context)
        })
    })
}

unsafe extern "C" fn trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int {
    guard(|| {
        // SAFETY: the caller passes a fabric and `count` objects.
        status(unsafe { from_fid::<FabricObject>(fabric.cast()) }.and_then(|_| {
            let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
            if fids.is_null() && count > 0 {
                return Err(Errno::EINVAL);
            }
            (0..count).try_for_each(|i| {
                // SAFETY: the caller passes `count` pointers to objects.
                unsafe { wait::try_wait(fids.add(i).read()) }
            })
        }))
    })
}
