//! PENDING. The bell that one sleeper, and whoever polls for it, hears.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    event::{EventfdFlags, eventfd},
    io::{read, write},
};

use crate::Result;

/// An eventfd: set from anywhere, readable until cleared.
#[derive(Debug)]
pub struct Signal(OwnedFd);

impl Signal {
    /// Opens one, close-on-exec.
    pub fn new() -> Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable.
    pub fn set(&self) {
        // The only failure is a counter at its limit, and then it is readable already.
        let _ = write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        let _ = read(&self.0, &mut [0u8; 8]);
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
