//! SETUP. Pieces of `malloc` memory that C will own, and node-sized copies from C.

use core::{ffi::c_char, mem::MaybeUninit};

use fabric_core::{Errno, Result};

use crate::abi::Plain;

/// A zeroed struct from `calloc`.
pub(crate) fn zeroed<T: Plain>() -> Result<*mut T> {
    // SAFETY: `calloc` accepts every size.
    let memory = unsafe { libc::calloc(1, size_of::<T>()) };
    if memory.is_null() { Err(Errno::ENOMEM) } else { Ok(memory.cast()) }
}

/// A copy of `bytes`; null if there are none.
pub(crate) fn bytes(bytes: &[u8]) -> Result<*mut u8> {
    if bytes.is_empty() {
        return Ok(core::ptr::null_mut());
    }
    // SAFETY: `malloc` accepts every size.
    let memory = unsafe { libc::malloc(bytes.len()) }.cast::<u8>();
    if memory.is_null() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: the memory is fresh and as long as the source.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), memory, bytes.len()) };
    Ok(memory)
}

/// A terminated copy of `text` up to its first zero byte; null if there is none.
pub(crate) fn text(text: Option<&str>) -> Result<*mut c_char> {
    let Some(text) = text else { return Ok(core::ptr::null_mut()) };
    let text = text.split('\0').next().unwrap_or_default();
    let mut terminated = Vec::with_capacity(text.len() + 1);
    terminated.extend_from_slice(text.as_bytes());
    terminated.push(0);
    Ok(bytes(&terminated)?.cast())
}

/// The first `size` bytes of a caller's struct, the rest zero; `None` for null.
///
/// # Safety
/// `source` is null or readable for `size` bytes.
pub(crate) unsafe fn prefix<T: Plain>(source: *const T, size: usize) -> Option<T> {
    if source.is_null() {
        return None;
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    let size = size.min(size_of::<T>());
    // SAFETY: the caller says that `size` bytes are readable, and no more are written than fit.
    unsafe {
        core::ptr::copy_nonoverlapping(source.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), size);
    }
    // SAFETY: a plain struct is valid whatever its bytes.
    Some(unsafe { copy.assume_init() })
}
