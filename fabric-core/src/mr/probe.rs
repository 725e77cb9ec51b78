//! PENDING. Whether memory is there, asked of the kernel: peers of a region that is the whole
//! address space can name any address, and one that is not mapped must not end the process.
//!
//! Other regions are what their owner says, and are not looked at.

use core::sync::atomic::AtomicU32;

use crate::{Errno, Result, op::IoVec};

/// The smallest page of any host. Where pages are larger, each is looked at several times.
const PAGE: usize = 4096;

/// `EFAULT` unless every page of `piece` can be read, and written if `written`.
pub(super) fn reach(piece: &IoVec, written: bool) -> Result<()> {
    let first = piece.base as usize;
    if piece.len == 0 {
        return Ok(());
    }
    let last = first.checked_add(piece.len - 1).ok_or(Errno::EFAULT)?;
    for page in (first & !(PAGE - 1)..=last).step_by(PAGE) {
        // Null is never an object, whatever is mapped there.
        if page == 0 || !is_readable(page) || (written && !is_writable(page)) {
            return Err(Errno::EFAULT);
        }
    }
    Ok(())
}

/// The kernel reads a signal set there before it refuses what is to be done with it.
fn is_readable(page: usize) -> bool {
    const NO_WAY: libc::c_int = !0;
    const SET: usize = 8;
    let old = core::ptr::null_mut::<u8>();
    // SAFETY: the kernel checks every access to `page`; it changes nothing, since no such way of
    // changing the signal mask exists.
    !faults(unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_WAY, page, old, SET) })
}

/// The kernel changes a word there, atomically and to what it is, and wakes nobody.
fn is_writable(page: usize) -> bool {
    /// `FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)`.
    const OR_NOTHING: u32 = 2 << 28;
    let ours = AtomicU32::new(0);
    let op = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: `ours` is alive and nobody waits for it; the kernel checks every access to `page`, and
    // what it writes there is what it finds, in one step that other threads' atomics respect.
    let status = unsafe {
        libc::syscall(
            libc::SYS_futex,
            ours.as_ptr(),
            op,
            0,
            core::ptr::null::<u8>(),
            page,
            OR_NOTHING,
        )
    };
    !faults(status)
}

/// Any other failure, for example of a sandbox, says nothing about the memory.
fn faults(status: libc::c_long) -> bool {
    status == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Three pages: open, read-only, not there.
    fn pages() -> *mut u8 {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: fresh memory, of which nobody else knows.
        unsafe {
            let base = libc::mmap(core::ptr::null_mut(), 3 * PAGE, rights, kind, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            let base = base.cast::<u8>();
            base.write_bytes(7, 3 * PAGE);
            assert_eq!(libc::mprotect(base.add(PAGE).cast(), PAGE, libc::PROT_READ), 0);
            assert_eq!(libc::munmap(base.add(2 * PAGE).cast(), PAGE), 0);
            base
        }
    }

    #[test]
    fn what_is_there_is_found_and_left_as_it_is() {
        let base = pages();
        let piece = |at: usize, len| IoVec { base: base.wrapping_add(at), len };
        let fault = Err(Errno::EFAULT);
        assert_eq!(reach(&piece(5, PAGE - 5), true), Ok(()));
        assert_eq!(reach(&piece(5, 2 * PAGE - 5), false), Ok(()));
        assert_eq!(reach(&piece(5, PAGE - 4), true), fault);
        assert_eq!(reach(&piece(5, 2 * PAGE - 4), false), fault);
        assert_eq!(reach(&piece(2 * PAGE, 0), true), Ok(()));
        assert_eq!(reach(&IoVec { base: core::ptr::null_mut(), len: 1 }, false), fault);
        assert_eq!(reach(&IoVec { base: usize::MAX as *mut u8, len: 1 }, false), fault);
        assert_eq!(reach(&IoVec { base: 8 as *mut u8, len: usize::MAX }, false), fault);
        // SAFETY: the two pages that are still there.
        unsafe {
            assert!(core::slice::from_raw_parts(base, 2 * PAGE).iter().all(|byte| *byte == 7));
            assert_eq!(libc::munmap(base.cast(), 2 * PAGE), 0);
        }
    }
}
