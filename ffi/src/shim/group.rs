//! SETUP. `struct fid_mc`: multicast groups that endpoints are members of.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use fabric_core::{Errno, Result, api::Endpoint, flags::Flags};

use super::{
    addresses, open_into,
    payload::{EpObject, GroupObject},
    table,
};
use crate::{
    abi::{
        Plain,
        constants::FI_CLASS_MC,
        fid::{fi_ops, fid, fid_ep, fid_mc},
    },
    object::{self, CObject, Shell, from_fid},
    panic::guard,
};

impl<E: Endpoint> CObject for GroupObject<E> {
    type Head = fid_mc;
    const CLASS: usize = FI_CLASS_MC;
}

/// The slot `join` of endpoints that have groups. Groups of collective operations are `ENOSYS`, flags
/// other than `FI_SEND` and `FI_RECV` are `EBADFLAGS`.
pub(super) unsafe extern "C" fn join<E: Endpoint>(
    ep: *mut fid_ep,
    addr: *const c_void,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    let flags = Flags::from_bits_retain(flags);
    guard(|| {
        // SAFETY: C passes null or an object that it does not close during the call, an address in the
        // endpoint's format or null, and null or room for a pointer.
        unsafe { open_into(mc, || begin::<E>(ep, addr, flags, context)) }
    })
}

/// # Safety
/// As for [`from_fid`]; `addr` is null or an address in the endpoint's format.
unsafe fn begin<E: Endpoint>(
    ep: *mut fid_ep,
    addr: *const c_void,
    flags: Flags,
    context: *mut c_void,
) -> Result<*mut fid_mc> {
    // SAFETY: the caller's promise.
    let object = unsafe { from_fid::<EpObject<E>>(ep.cast()) }?.payload()?;
    if flags.contains(Flags::COLLECTIVE) {
        return Err(Errno::ENOSYS);
    }
    if !(Flags::SEND | Flags::RECV).contains(flags) {
        return Err(Errno::EBADFLAGS);
    }
    // SAFETY: the caller's promise.
    let address =
        unsafe { addresses::one(addr.cast(), object.addr_format, object.domain.addresses) }?;
    let number = object.ep.reserve_group(address, flags)?;
    let group = Arc::new(GroupObject { ep: object.ep.clone(), number });
    let opened = object::open(group, context, head::<E>(number));
    let joined = object.ep.join(number, opened.expose_provenance(), context.addr());
    match joined {
        Ok(()) => Ok(opened),
        Err(errno) => {
            // SAFETY: the object from above, which C has not seen.
            unsafe { close::<E>(opened.cast()) };
            Err(errno)
        }
    }
}

fn head<E: Endpoint>(number: u64) -> fid_mc {
    let ops = const { &fi_ops { close: close::<E>, ..fi_ops::UNSUPPORTED } };
    fid_mc { fid: fid { ops: table(ops), ..fid::zeroed() }, fi_addr: number }
}

unsafe extern "C" fn close<E: Endpoint>(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<GroupObject<E>>| {
        let group = shell.retire()?;
        group.ep.leave(group.number);
        Ok(())
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}
