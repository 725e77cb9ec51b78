//! The functions in the op tables: one file for each table of the C interface.
//!
//! Tables are constants of a type generic over the endpoint, so that every slot is monomorphised
//! code; what a slot does not support comes from the table's defaults in [`crate::stubs`].

mod addresses;
mod args;
pub mod atomic;
pub mod av;
mod belonging;
pub mod cm;
pub mod cntr;
pub mod collective;
mod connreq;
pub mod cq;
pub mod domain;
pub mod ep;
pub mod eq;
mod eq_entry;
mod error;
pub mod fabric;
mod group;
pub mod mr;
pub mod msg;
mod options;
pub mod payload;
pub mod pep;
mod query;
pub mod rma;
mod srx;
pub mod tagged;
pub mod wait;

#[cfg(test)]
mod cm_tests;
#[cfg(test)]
mod ep_tests;

use core::ffi::{c_int, c_void};

use fabric_core::{Errno, Result, flags::Flags, log::Subsys, shortage::limit};

/// The address of a static table, as objects hold it.
const fn table<T>(table: &'static T) -> *mut T {
    (&raw const *table).cast_mut()
}

/// Runs an open call and writes the new object to `slot`.
///
/// # Safety
/// `slot` is null or has room for a pointer.
unsafe fn open_into<T>(slot: *mut *mut T, open: impl FnOnce() -> Result<*mut T>) -> c_int {
    if slot.is_null() {
        return -Errno::EINVAL.get();
    }
    match open() {
        Ok(object) => {
            // SAFETY: not null, so the caller gives room for a pointer.
            unsafe { slot.write(object) };
            0
        }
        Err(errno) => -errno.get(),
    }
}

/// Has the log tell what is short, where `call` fails for that.
fn tell_shortage(provider: &str, subsys: Subsys, call: &str) -> impl Fn(&Errno) {
    move |reason| {
        if let Some(limit) = limit(*reason) {
            fabric_core::warn!(provider, subsys, "{call}: {reason}: {limit}");
        }
    }
}

/// A length or count as C takes it back.
fn signed(result: Result<usize>) -> isize {
    match result {
        Ok(n) => isize::try_from(n).unwrap_or(isize::MAX),
        Err(errno) => errno.to_c(),
    }
}

/// The argument of a control command.
fn argument<T>(arg: *mut c_void) -> Result<*mut T> {
    let arg = arg.cast::<T>();
    if arg.is_null() || !arg.is_aligned() { Err(Errno::EINVAL) } else { Ok(arg) }
}

/// The flags that a call that opens an object may carry: none. Objects
/// of other libraries (`FI_PEER`) are `EINVAL`.
pub(crate) fn no_flags(flags: u64) -> Result<()> {
    let flags = Flags::from_bits_retain(flags);
    if flags.contains(Flags::PEER) {
        Err(Errno::EINVAL)
    } else if flags.is_empty() {
        Ok(())
    } else {
        Err(Errno::EBADFLAGS)
    }
}

#[cfg(test)]
mod tests;
