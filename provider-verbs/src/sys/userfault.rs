//! SETUP. The kernel's notices of memory that goes (userfaultfd(2)).
//!
//! Ranges are registered for write protection and never protected: no access to them ever waits. What
//! waits is who unmaps them, moves them or gives their pages back, until the notice of it has been read.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fabric_core::{Errno, Result};
use rustix::{
    ioctl::{Updater, ioctl},
    mm::{UserfaultfdFlags, userfaultfd},
};

const API: u64 = 0xaa;
/// Faults of the kernel itself are not asked for, which takes no privilege. Since Linux 5.11.
const USER_MODE_ONLY: u32 = 1;
const EVENT_REMAP: u64 = 1 << 2;
const EVENT_REMOVE: u64 = 1 << 3;
const EVENT_UNMAP: u64 = 1 << 6;
const MODE_WRITE_PROTECT: u64 = 1 << 1;
const REMAP: u8 = 0x14;
const REMOVE: u8 = 0x15;
const UNMAP: u8 = 0x16;

#[repr(C)]
struct UffdioApi {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct UffdioRegister {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

const UFFDIO_API: u32 = 0xc018_aa3f;
const UFFDIO_REGISTER: u32 = 0xc020_aa00;
/// Bytes of a notice.
const MESSAGE: usize = 32;
/// Notices read at a time.
pub(crate) const BATCH: usize = 16;

/// Memory that is no longer what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    /// The first byte.
    pub(crate) start: usize,
    /// The byte behind the last one.
    pub(crate) end: usize,
    /// Its pages are about to be given back (madvise(2)); else it is gone already.
    pub(crate) soon: bool,
}

/// The descriptor.
#[derive(Debug)]
pub(crate) struct Userfault(OwnedFd);

impl Userfault {
    /// Opens one. An error: the kernel is too old, or does not let the process.
    pub(crate) fn new() -> Result<Self> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        let flags = UserfaultfdFlags::from_bits_retain(flags.bits() | USER_MODE_ONLY);
        // SAFETY: the descriptor changes nothing for memory that is not registered with it.
        let fd = unsafe { userfaultfd(flags) }?;
        let mut api =
            UffdioApi { api: API, features: EVENT_REMAP | EVENT_REMOVE | EVENT_UNMAP, ioctls: 0 };
        // SAFETY: the request takes this struct.
        unsafe { ioctl(&fd, Updater::<{ UFFDIO_API as _ }, UffdioApi>::new(&mut api)) }?;
        Ok(Self(fd))
    }

    /// Has the kernel tell of whole pages. An error: they are of a kind that it does not tell of, or
    /// somebody else is told.
    pub(crate) fn watch(&self, start: usize, len: usize) -> Result<()> {
        let (start, len) = (start as u64, len as u64);
        let mut range = UffdioRegister { start, len, mode: MODE_WRITE_PROTECT, ioctls: 0 };
        // SAFETY: the request takes this struct. Nothing is protected, so that no access waits; who
        // unmaps waits for a thread that does nothing but read.
        unsafe {
            ioctl(&self.0, Updater::<{ UFFDIO_REGISTER as _ }, UffdioRegister>::new(&mut range))
        }?;
        Ok(())
    }

    /// Reads notices; `None` if there are none.
    pub(crate) fn read(&self) -> Option<impl Iterator<Item = Gone> + use<>> {
        let mut bytes = [0u8; MESSAGE * BATCH];
        let read = rustix::io::read(&self.0, &mut bytes).ok()?;
        let count = read / MESSAGE;
        Some((0..count).filter_map(move |at| gone(&bytes[at * MESSAGE..(at + 1) * MESSAGE])))
    }
}

impl AsFd for Userfault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A notice in the kernel's form: its kind, and from the eighth byte on up to three words.
fn gone(message: &[u8]) -> Option<Gone> {
    let word = |at: usize| {
        let bytes = message.get(8 + 8 * at..16 + 8 * at)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?) as usize)
    };
    let (start, second) = (word(0)?, word(1)?);
    match *message.first()? {
        UNMAP => Some(Gone { start, end: second, soon: false }),
        REMOVE => Some(Gone { start, end: second, soon: true }),
        REMAP => Some(Gone { start, end: start.saturating_add(word(2)?), soon: false }),
        _ => None,
    }
}

/// `ENOSYS` where there is no such descriptor at all.
pub(crate) fn refused(reason: Errno) -> &'static str {
    match reason {
        Errno::ENOSYS => "the kernel has no userfaultfd",
        Errno::EPERM => "the process may not use userfaultfd",
        _ => "the kernel's userfaultfd does not tell of memory that goes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_as_the_kernel_writes_them() {
        let mut message = [0u8; MESSAGE];
        for (at, word) in [0x1000u64, 0x9000, 0x3000].into_iter().enumerate() {
            message[8 + 8 * at..16 + 8 * at].copy_from_slice(&word.to_ne_bytes());
        }
        let of = |kind| {
            message[0] = kind;
            gone(&message)
        };
        let mut of = of;
        assert_eq!(of(UNMAP), Some(Gone { start: 0x1000, end: 0x9000, soon: false }));
        assert_eq!(of(REMOVE), Some(Gone { start: 0x1000, end: 0x9000, soon: true }));
        assert_eq!(of(REMAP), Some(Gone { start: 0x1000, end: 0x4000, soon: false }));
        assert_eq!(of(0x12), None, "a fault, which nobody has asked for");
    }
}
