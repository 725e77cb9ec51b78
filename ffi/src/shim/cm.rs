//! SETUP. `struct fi_ops_cm`: addresses of endpoints, and connections of those that have them.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use fabric_core::{Errno, Result, api::Endpoint, log::Subsys};

use super::{addresses, group, options, payload::EpObject};
use crate::{
    abi::{
        fid::{fid, fid_ep},
        ops::fi_ops_cm,
    },
    info::MAX_BYTES,
    object::{CObject, from_fid},
    panic::{guard, status},
};

/// The table of endpoints of type `E`.
pub(super) const fn table<E: Endpoint>() -> *mut fi_ops_cm {
    super::table(
        const {
            &fi_ops_cm {
                setname: setname::<EpObject<E>>,
                getname: getname::<EpObject<E>>,
                getpeer: getpeer::<E>,
                connect: connect::<E>,
                accept: accept::<E>,
                shutdown: shutdown::<E>,
                join: if E::GROUPS { group::join::<E> } else { fi_ops_cm::UNSUPPORTED.join },
                ..fi_ops_cm::UNSUPPORTED
            }
        },
    )
}

/// An object with an address of its own.
pub(super) trait Named: CObject {
    /// The address, as `fi_getname` returns it.
    fn name(&self) -> Result<Vec<u8>>;
    /// Takes another one.
    fn set_name(&self, name: &[u8]) -> Result<()>;
}

impl<E: Endpoint> Named for EpObject<E> {
    fn name(&self) -> Result<Vec<u8>> {
        self.ep.name()
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        self.ep.set_name(name)
    }
}

pub(super) unsafe extern "C" fn setname<T: Named>(
    fid: *mut fid,
    addr: *mut c_void,
    addrlen: usize,
) -> c_int {
    guard(|| {
        // SAFETY: C passes null or an object that it does not close during the call.
        let object = match unsafe { from_fid::<T>(fid) }.and_then(|shell| shell.payload()) {
            Ok(object) => object,
            Err(errno) => return -errno.get(),
        };
        if addr.is_null() || addrlen == 0 || addrlen > MAX_BYTES {
            return -Errno::EINVAL.get();
        }
        // SAFETY: C passes an address of this length.
        status(object.set_name(unsafe { core::slice::from_raw_parts(addr.cast(), addrlen) }))
    })
}

pub(super) unsafe extern "C" fn getname<T: Named>(
    fid: *mut fid,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: C passes null or an object that it does not close during the call.
        let object = unsafe { from_fid::<T>(fid) }.and_then(|shell| shell.payload());
        let name = object.and_then(Named::name);
        // SAFETY: C passes room of the length that it names.
        status(name.and_then(|name| unsafe { hand_out(&name, addr, addrlen) }))
    })
}

/// Runs `body` on the endpoint that C passes.
///
/// # Safety
/// As for [`from_fid`].
unsafe fn on<E: Endpoint>(
    ep: *mut fid_ep,
    body: impl FnOnce(&EpObject<E>, &Arc<E>) -> Result<()>,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let object = unsafe { from_fid::<EpObject<E>>(ep.cast()) };
        status(object.and_then(|shell| shell.payload()).and_then(|object| body(object, &object.ep)))
    })
}

unsafe extern "C" fn getpeer<E: Endpoint>(
    ep: *mut fid_ep,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    // SAFETY: C passes null or an object that it does not close during the call, and room of the
    // length that it names.
    unsafe { on::<E>(ep, |_, ep| hand_out(&ep.peer_name()?, addr, addrlen)) }
}

unsafe extern "C" fn connect<E: Endpoint>(
    ep: *mut fid_ep,
    addr: *const c_void,
    param: *const c_void,
    paramlen: usize,
) -> c_int {
    let run = |object: &EpObject<E>, ep: &Arc<E>| {
        // SAFETY: C passes an address in the endpoint's format, or null.
        let peer =
            unsafe { addresses::one(addr.cast(), object.addr_format, object.domain.addresses) }?;
        let limit = options::cm_data_size(|name| ep.option(name));
        // SAFETY: C passes data of this length.
        let data = unsafe { user_data(object.domain.provider(), limit, param, paramlen) }?;
        ep.connect(peer, data)
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(ep, run) }
}

unsafe extern "C" fn accept<E: Endpoint>(
    ep: *mut fid_ep,
    param: *const c_void,
    paramlen: usize,
) -> c_int {
    let run = |object: &EpObject<E>, ep: &Arc<E>| {
        let limit = options::cm_data_size(|name| ep.option(name));
        // SAFETY: C passes data of this length.
        let data = unsafe { user_data(object.domain.provider(), limit, param, paramlen) }?;
        ep.accept(data)
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(ep, run) }
}

unsafe extern "C" fn shutdown<E: Endpoint>(ep: *mut fid_ep, flags: u64) -> c_int {
    let run = |_: &EpObject<E>, ep: &Arc<E>| {
        if flags == 0 { ep.shutdown() } else { Err(Errno::EBADFLAGS) }
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(ep, run) }
}

/// What the application sends along with a request or an answer; `EINVAL` for more than `limit`.
///
/// # Safety
/// `param` is null or readable for `len` bytes during the call.
pub(super) unsafe fn user_data<'a>(
    provider: &str,
    limit: usize,
    param: *const c_void,
    len: usize,
) -> Result<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if len > limit {
        fabric_core::warn!(
            provider,
            Subsys::EpCtrl,
            "paramlen: {len} bytes of private data, FI_OPT_CM_DATA_SIZE is {limit}"
        );
        return Err(Errno::EINVAL);
    }
    if param.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(param.cast(), len) })
}

/// Copies as much of `name` as fits and tells its full length; `ETOOSMALL` if that was not all.
/// Without room (null or 0) only the length is told.
///
/// # Safety
/// `len` is null or valid for reading and writing; `room` is null or valid for writing `*len`
/// bytes.
unsafe fn hand_out(name: &[u8], room: *mut c_void, len: *mut usize) -> Result<()> {
    if len.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    let fits = if room.is_null() { 0 } else { name.len().min(unsafe { *len }) };
    // SAFETY: the caller's promise; `fits` is at most the room, and 0 if that is null.
    unsafe { core::ptr::copy(name.as_ptr(), room.cast(), fits) };
    // SAFETY: the caller's promise.
    unsafe { *len = name.len() };
    if fits < name.len() { Err(Errno::ETOOSMALL) } else { Ok(()) }
}
