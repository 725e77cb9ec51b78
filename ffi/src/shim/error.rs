//! PENDING. What error entries of completion and event queues have in common.

use core::ffi::{CStr, c_char, c_int, c_void};

use fabric_core::api::Endpoint;

use crate::{abi::fid::fid_cq, entry, panic::guard, text};

/// Hands error data over: copied into the application's buffer as far as it fits if `size` is not
/// zero, else as a pointer to `kept`. Returns the entry's `err_data` and `err_data_size`.
///
/// # Safety
/// `buf` is null or writable for `size` bytes, if that is not zero.
pub(super) unsafe fn give_data(kept: &[u8], buf: *mut c_void, size: usize) -> (*mut c_void, usize) {
    if size == 0 {
        let data = if kept.is_empty() { core::ptr::null() } else { kept.as_ptr() };
        return (data.cast_mut().cast(), kept.len());
    }
    let count = if buf.is_null() { 0 } else { kept.len().min(size) };
    // SAFETY: `count` is within the data and, by the caller's promise, within the buffer.
    unsafe { core::ptr::copy_nonoverlapping(kept.as_ptr(), buf.cast::<u8>(), count) };
    (buf, count)
}

/// `fi_eq_strerror`: a provider's own numbers are those of the system and of the fabric.
pub(super) unsafe extern "C" fn strerror<Q>(
    _queue: *mut Q,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    // SAFETY: the caller gives `len` bytes.
    unsafe { give_text(|| entry::strerror(prov_errno), buf, len) }
}

/// `fi_cq_strerror`: the same numbers, in the provider's words where it has some.
pub(super) unsafe extern "C" fn words<E: Endpoint>(
    _queue: *mut fid_cq,
    prov_errno: c_int,
    _err_data: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let own = || E::words(prov_errno.saturating_abs());
    // SAFETY: the caller gives `len` bytes.
    unsafe {
        give_text(|| own().map_or_else(|| entry::strerror(prov_errno), CStr::as_ptr), buf, len)
    }
}

/// Returns a terminated text that stays, and copies it as far as there is room.
///
/// # Safety
/// `buf` is null or writable for `len` bytes.
unsafe fn give_text(
    find: impl FnOnce() -> *const c_char,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    guard(|| {
        let text = find();
        if !buf.is_null() {
            // SAFETY: a terminated text.
            let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
            // SAFETY: the caller's promise.
            unsafe { text::write(&text, buf, len) };
        }
        text
    })
}
