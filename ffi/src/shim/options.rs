//! SETUP. Options of endpoints as C reads and writes them: `fi_getopt`, `fi_setopt`.

use core::ffi::{c_int, c_void};

use fabric_core::{Errno, Result, api::CM_DATA_SIZE};

use crate::{
    abi::constants::{FI_OPT_CM_DATA_SIZE, FI_OPT_ENDPOINT},
    info::MAX_BYTES,
};

/// Writes the value of an option to `optval` and its length to `optlen`. `ENOPROTOOPT` for levels
/// other than that of endpoints, `ETOOSMALL` if there is no room.
///
/// # Safety
/// `optlen` is null or valid for reading and writing; `optval` is null or writable for `*optlen`
/// bytes.
pub(super) unsafe fn get(
    level: c_int,
    optval: *mut c_void,
    optlen: *mut usize,
    value: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<()> {
    if level != FI_OPT_ENDPOINT {
        return Err(Errno::ENOPROTOOPT);
    }
    let value = value()?;
    // SAFETY: the caller's promise.
    let len = unsafe { optlen.as_mut() }.ok_or(Errno::EINVAL)?;
    let room = core::mem::replace(len, value.len());
    if room < value.len() {
        return Err(Errno::ETOOSMALL);
    }
    if optval.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise; the buffer is long enough.
    unsafe { core::ptr::copy_nonoverlapping(value.as_ptr(), optval.cast(), value.len()) };
    Ok(())
}

/// Passes the value at `optval` on. `ENOPROTOOPT` for levels other than that of endpoints.
///
/// # Safety
/// `optval` is null or readable for `optlen` bytes.
pub(super) unsafe fn set(
    level: c_int,
    optval: *const c_void,
    optlen: usize,
    take: impl FnOnce(&[u8]) -> Result<()>,
) -> Result<()> {
    if level != FI_OPT_ENDPOINT {
        return Err(Errno::ENOPROTOOPT);
    }
    // An option that does not exist is that first of all, so its value is not looked at here.
    take(if optval.is_null() || optlen > MAX_BYTES {
        &[]
    } else {
        // SAFETY: the caller's promise.
        unsafe { core::slice::from_raw_parts(optval.cast(), optlen) }
    })
}

/// Bytes that may go along with a connection request or an answer, by the endpoint's own word.
pub(super) fn cm_data_size(option: impl FnOnce(c_int) -> Result<Vec<u8>>) -> usize {
    let own = option(FI_OPT_CM_DATA_SIZE).ok().and_then(|value| value.try_into().ok());
    own.map_or(CM_DATA_SIZE, usize::from_ne_bytes)
}
