//! SETUP. C strings in and out: bounded, never trusted.

use core::ffi::c_char;

use fabric_core::{Errno, Result};

/// Longest text that the library reads from an application, in bytes without the terminator.
pub const MAX_TEXT: usize = 4096;

/// Copies a C string; null is `None`, bytes that are not UTF-8 become replacement characters, and
/// a text longer than [`MAX_TEXT`] is `EINVAL`.
///
/// # Safety
/// `text` is null, or readable up to its terminator or for `MAX_TEXT + 1` bytes.
pub unsafe fn read(text: *const c_char) -> Result<Option<String>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises readable bytes up to the terminator or the bound.
    let len = unsafe { libc::strnlen(text, MAX_TEXT + 1) };
    if len > MAX_TEXT {
        return Err(Errno::EINVAL);
    }
    // SAFETY: `strnlen` has found `len` readable bytes.
    let bytes = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), len) };
    Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
}

/// Writes `text` and a terminator into `buf`, cut where the room ends.
///
/// # Safety
/// `buf` is writable for `len` bytes.
pub unsafe fn write(text: &str, buf: *mut c_char, len: usize) {
    let Some(room) = len.checked_sub(1) else { return };
    let count = text.len().min(room);
    // SAFETY: `count` is at most the text's length and leaves room for the terminator in `buf`.
    unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), buf.cast::<u8>(), count) };
    // SAFETY: `count < len`, which the caller says is writable.
    unsafe { buf.add(count).write(0) };
}

/// The host's text for an error number, owned by the C library.
pub fn host_error(errnum: i32) -> *const c_char {
    // SAFETY: `strerror` accepts every number and never returns null.
    unsafe { libc::strerror(errnum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_with_a_bound() {
        let long = [b'a'; MAX_TEXT + 1];
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(core::ptr::null()) }, Ok(None));
        // SAFETY: the array has exactly the bytes that may be read.
        assert_eq!(unsafe { read(long.as_ptr().cast()) }, Err(Errno::EINVAL));
        // SAFETY: a terminated literal.
        assert_eq!(unsafe { read(c"tcp".as_ptr()) }, Ok(Some("tcp".into())));
        // SAFETY: a terminated literal.
        assert_eq!(unsafe { read(c"\xff".as_ptr()) }, Ok(Some("\u{fffd}".into())));
    }

    #[test]
    fn writes_what_fits() {
        let mut buf = [1 as c_char; 4];
        // SAFETY: the length is the array's or less.
        unsafe { write("shm tcp", buf.as_mut_ptr(), 0) };
        assert_eq!(buf[0], 1);
        // SAFETY: as above.
        unsafe { write("shm tcp", buf.as_mut_ptr(), 3) };
        assert_eq!(buf, [b's' as c_char, b'h' as c_char, 0, 1]);
    }
}
