//! SETUP. Memory registration: `fi_ops_mr` and what `fi_control` does with regions and raw keys.

use core::{
    ffi::{c_int, c_void},
    marker::PhantomData,
};
use std::sync::Arc;

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    attr::Version,
    completion::CounterValue,
    flags::{Flags, MrMode},
    mr::{IOV_LIMIT, KEY_NOTAVAIL, MrRequest, MrTable, RemoteWriteEvent},
    op::IoVec,
};

use super::{
    argument, belonging, open_into,
    payload::{CntrObject, DomainObject, EpObject, MrObject},
    table,
};
use crate::{
    abi::{
        Plain,
        attr::{fi_mr_attr, fi_mr_map_raw, fi_mr_modify, fi_mr_raw_attr},
        constants::{
            FI_CLASS_EP, FI_CLASS_MR, FI_ENABLE, FI_GET_RAW_MR, FI_HMEM_SYSTEM, FI_MR_DMABUF,
            FI_REFRESH,
        },
        fid::{fi_ops, fid, fid_mr},
        iovec,
        ops::fi_ops_mr,
    },
    info::memory::prefix,
    object::{self, CObject, Shell, class_of, from_fid},
    panic::{guard, status},
};

impl CObject for MrObject {
    type Head = fid_mr;
    const CLASS: usize = FI_CLASS_MR;
}

/// The tables of registration in domains of one endpoint type.
pub(super) struct Tables<E>(PhantomData<E>);

impl<E: Endpoint> Tables<E> {
    const FID: &fi_ops = &fi_ops { close, bind: bind::<E>, control, ..fi_ops::UNSUPPORTED };

    pub(super) const OPS: &fi_ops_mr = &fi_ops_mr {
        reg: reg::<E>,
        regv: regv::<E>,
        regattr: regattr::<E>,
        ..fi_ops_mr::UNSUPPORTED
    };
}

unsafe extern "C" fn reg<E: Endpoint>(
    fid: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let iov = IoVec { base: buf.cast_mut().cast(), len };
    let request = MrRequest {
        iov: &[iov],
        access: Flags::from_bits_retain(access),
        requested_key,
        offset,
        flags: Flags::from_bits_retain(flags),
        context: context.expose_provenance(),
    };
    // SAFETY: the caller passes a domain and room for a pointer.
    guard(|| unsafe { open_into(mr, || register::<E>(fid, &request)) })
}

unsafe extern "C" fn regv<E: Endpoint>(
    fid: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a domain, `count` pieces and room for a pointer.
    guard(|| unsafe {
        open_into(mr, || {
            no_dmabuf(flags)?;
            let request = MrRequest {
                iov: pieces(iov, count)?,
                access: Flags::from_bits_retain(access),
                requested_key,
                offset,
                flags: Flags::from_bits_retain(flags),
                context: context.expose_provenance(),
            };
            register::<E>(fid, &request)
        })
    })
}

unsafe extern "C" fn regattr<E: Endpoint>(
    fid: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the caller passes a domain, attributes of its version and room for a pointer.
    guard(|| unsafe {
        open_into(mr, || {
            no_dmabuf(flags)?;
            let sizing = from_fid::<DomainObject<E>>(fid)?.payload()?.sizing();
            let attr = read_attr(attr, sizing)?;
            let request = MrRequest {
                iov: pieces(attr.mr_iov, attr.iov_count)?,
                access: Flags::from_bits_retain(attr.access),
                requested_key: attr.requested_key,
                offset: attr.offset,
                flags: Flags::from_bits_retain(flags),
                context: attr.context.expose_provenance(),
            };
            register::<E>(fid, &request)
        })
    })
}

/// Memory given as a dma-buf needs a device.
const fn no_dmabuf(flags: u64) -> Result<()> {
    if flags & FI_MR_DMABUF == 0 { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

/// Reads attributes as far as the caller's version has them. `ENOSYS` for device memory and for
/// regions within regions, `EINVAL` for keys of authorisation.
///
/// # Safety
/// `attr` is null or has the size of `sizing`.
unsafe fn read_attr(attr: *const fi_mr_attr, sizing: Version) -> Result<fi_mr_attr> {
    // SAFETY: the caller's promise.
    let attr = unsafe { prefix(attr, fi_mr_attr::size_for(sizing)) }.ok_or(Errno::EINVAL)?;
    if attr.iface != FI_HMEM_SYSTEM || !attr.base_mr.is_null() || attr.sub_mr_cnt != 0 {
        return Err(Errno::ENOSYS);
    }
    if attr.auth_key_size != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(attr)
}

/// The caller's pieces. `EINVAL` for none or more than [`IOV_LIMIT`].
///
/// # Safety
/// `iov` is null or readable for `count` pieces, which stay as they are while in use.
unsafe fn pieces<'a>(iov: *const iovec, count: usize) -> Result<&'a [IoVec]> {
    const { assert!(size_of::<iovec>() == size_of::<IoVec>()) };
    if iov.is_null() || !iov.is_aligned() || count == 0 || count > IOV_LIMIT {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise; both structs are an address and a length.
    Ok(unsafe { core::slice::from_raw_parts(iov.cast(), count) })
}

/// # Safety
/// `fid` is null or an object.
unsafe fn register<E: Endpoint>(fid: *mut fid, request: &MrRequest<'_>) -> Result<*mut fid_mr> {
    no_dmabuf(request.flags.bits())?;
    // SAFETY: the caller's promise.
    let object = unsafe { from_fid::<DomainObject<E>>(fid) }?.payload()?;
    let domain = object.domain.clone();
    let region = domain.regions().register(request)?;
    let raw = domain.attr().mr_mode.contains(MrMode::RAW);
    let head = fid_mr {
        // Opaque to the application, and to be passed with the buffers of this region.
        mem_desc: core::ptr::without_provenance_mut(region.descriptor()),
        key: if raw { KEY_NOTAVAIL } else { region.key() },
        ..fid_mr::zeroed()
    };
    let head = fid_mr { fid: fid { ops: table(Tables::<E>::FID), ..head.fid }, ..head };
    let context = core::ptr::with_exposed_provenance_mut(request.context);
    let object = MrObject { region, domain, sizing: object.sizing() };
    Ok(object::open(Arc::new(object), context, head))
}

/// Ends the region: no later request of a peer finds it.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<MrObject>| {
        let object = shell.retire()?;
        object.domain.regions().close(&object.region)
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}

/// Binds an endpoint, or with `FI_REMOTE_WRITE` a counter, of the same domain (`EDOMAIN`).
unsafe extern "C" fn bind<E: Endpoint>(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    guard(|| {
        // SAFETY: the caller passes an object.
        status(unsafe { from_fid::<MrObject>(fid) }.and_then(|shell| {
            let object = shell.payload()?;
            // SAFETY: the caller passes an object.
            if unsafe { class_of(bound) }? == FI_CLASS_EP {
                // SAFETY: as above.
                unsafe { belonging::of_domain::<EpObject<E>>(&object.domain, bound) }?;
                return if flags == 0 {
                    object.region.bind_endpoint()
                } else {
                    Err(Errno::EBADFLAGS)
                };
            }
            // SAFETY: as above.
            let cntr = unsafe { belonging::of_domain::<CntrObject<E>>(&object.domain, bound) }?
                .payload()?;
            if flags != Flags::REMOTE_WRITE.bits() {
                return Err(Errno::EBADFLAGS);
            }
            object.region.bind_events(Arc::new(RemoteWrites(cntr.counter.value().clone())))
        }))
    })
}

/// Counts remote writes on a counter.
#[derive(Debug)]
struct RemoteWrites(Arc<CounterValue>);

impl RemoteWriteEvent for RemoteWrites {
    fn count(&self, bytes: u64) {
        self.0.count(bytes);
    }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: the caller passes an object and the argument that the command asks for.
        status(unsafe { from_fid::<MrObject>(fid) }.and_then(|shell| {
            let object = shell.payload()?;
            match command {
                FI_ENABLE => object.region.enable(),
                // SAFETY: as above.
                FI_REFRESH => unsafe { refresh(object, arg) },
                // SAFETY: as above.
                FI_GET_RAW_MR => unsafe { get_raw(object, arg) },
                _ => Err(Errno::ENOSYS),
            }
        }))
    })
}

/// # Safety
/// `arg` is null or a `fi_mr_modify` with attributes of the region's version.
unsafe fn refresh(object: &MrObject, arg: *mut c_void) -> Result<()> {
    let arg = argument::<fi_mr_modify>(arg)?;
    // SAFETY: the caller's promise.
    if unsafe { (*arg).flags } != 0 {
        return Err(Errno::EBADFLAGS);
    }
    // SAFETY: as above; the attributes are read as far as the version goes.
    let attr = unsafe { prefix(&raw const (*arg).attr, fi_mr_attr::size_for(object.sizing)) };
    let attr = attr.ok_or(Errno::EINVAL)?;
    // SAFETY: as above.
    object.region.refresh(unsafe { pieces(attr.mr_iov, attr.iov_count) }?)
}

/// `ETOOSMALL`, with the size needed, if the key does not fit.
///
/// # Safety
/// `arg` is null or a `fi_mr_raw_attr` whose pointers are null or writable.
unsafe fn get_raw(object: &MrObject, arg: *mut c_void) -> Result<()> {
    let arg = argument::<fi_mr_raw_attr>(arg)?;
    // SAFETY: the caller's promise.
    let arg = unsafe { arg.read() };
    if arg.flags != 0 {
        return Err(Errno::EBADFLAGS);
    }
    if arg.base_addr.is_null() || arg.key_size.is_null() {
        return Err(Errno::EINVAL);
    }
    let size = object.domain.regions().key_size();
    // SAFETY: not null, so it is the caller's size.
    let room = unsafe { arg.key_size.replace(size) };
    if room < size {
        return Err(Errno::ETOOSMALL);
    }
    if arg.raw_key.is_null() {
        return Err(Errno::EINVAL);
    }
    let (base, key) = object.region.raw_attr();
    // SAFETY: the caller has room for an address.
    unsafe { arg.base_addr.write(base) };
    // SAFETY: the caller has room for `room` bytes, which is enough.
    unsafe { core::ptr::copy_nonoverlapping(key.as_ptr(), arg.raw_key, size) };
    Ok(())
}

/// `FI_MAP_RAW_MR`: raw keys are the keys themselves, so nothing has to be kept.
///
/// # Safety
/// `arg` is null or a `fi_mr_map_raw` with a readable key and room for another.
pub(super) unsafe fn map_raw(regions: &MrTable, arg: *mut c_void) -> Result<()> {
    let arg = argument::<fi_mr_map_raw>(arg)?;
    // SAFETY: the caller's promise.
    let arg = unsafe { arg.read() };
    if arg.flags != 0 {
        return Err(Errno::EBADFLAGS);
    }
    let size = regions.key_size();
    if arg.raw_key.is_null() || arg.key.is_null() || arg.key_size != size {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's raw key has this size.
    let raw = unsafe { core::slice::from_raw_parts(arg.raw_key, size) };
    let key = regions.key_from_raw(raw)?;
    // SAFETY: the caller has room for a key.
    unsafe { arg.key.write(key) };
    Ok(())
}

/// `FI_UNMAP_KEY`: the counterpart of [`map_raw`].
///
/// # Safety
/// `arg` is null or points to a key.
pub(super) unsafe fn unmap_key(arg: *mut c_void) -> Result<()> {
    argument::<u64>(arg).map(drop)
}
