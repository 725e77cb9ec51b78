//! SETUP. `struct fi_ops_cm`: addresses of endpoints. Reliable datagrams have no connections to
//! manage, so everything else is `-FI_ENOSYS`.

use core::ffi::{c_int, c_void};

use fabric_core::{Errno, Result, api::Endpoint};

use super::payload::EpObject;
use crate::{
    abi::{fid::fid, ops::fi_ops_cm},
    info::MAX_BYTES,
    object::from_fid,
    panic::{guard, status},
};

/// The table of endpoints of type `E`.
pub(super) const fn table<E: Endpoint>() -> *mut fi_ops_cm {
    super::table(
        const { &fi_ops_cm { setname: setname::<E>, getname: getname::<E>, ..fi_ops_cm::UNSUPPORTED } },
    )
}

unsafe extern "C" fn setname<E: Endpoint>(
    fid: *mut fid,
    addr: *mut c_void,
    addrlen: usize,
) -> c_int {
    guard(|| {
        // SAFETY: C passes null or an object that it does not close during the call.
        let ep = match unsafe { from_fid::<EpObject<E>>(fid) }.and_then(|shell| shell.payload()) {
            Ok(object) => &object.ep,
            Err(errno) => return -errno.get(),
        };
        if addr.is_null() || addrlen == 0 || addrlen > MAX_BYTES {
            return -Errno::EINVAL.get();
        }
        // SAFETY: C passes an address of this length.
        status(ep.set_name(unsafe { core::slice::from_raw_parts(addr.cast(), addrlen) }))
    })
}

unsafe extern "C" fn getname<E: Endpoint>(
    fid: *mut fid,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: C passes null or an object that it does not close during the call.
        let object = unsafe { from_fid::<EpObject<E>>(fid) }.and_then(|shell| shell.payload());
        let name = object.and_then(|object| object.ep.name());
        // SAFETY: C passes room of the length that it names.
        status(name.and_then(|name| unsafe { hand_out(&name, addr, addrlen) }))
    })
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
