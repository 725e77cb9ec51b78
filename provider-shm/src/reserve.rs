//! SETUP. Descriptors held in reserve, so that peers are heard in a process that has none left.

use std::os::fd::OwnedFd;

use fabric_core::{Errno, Result};
use rustix::event::{EventfdFlags, eventfd};

/// Descriptors of one reserve: one for a newcomer to keep, one for a ring to pass through.
const HELD: usize = 2;

/// What a descriptor is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A connection, which keeps it. The last one of the reserve is not for that.
    Connection,
    /// A ring, which gives it back as soon as it is mapped.
    Ring,
}

/// Some descriptors of no other use.
#[derive(Debug)]
pub struct Reserve {
    held: Vec<OwnedFd>,
}

impl Default for Reserve {
    fn default() -> Self {
        let mut reserve = Self { held: Vec::with_capacity(HELD) };
        reserve.refill();
        reserve
    }
}

impl Reserve {
    /// Takes as many back as there are to be had.
    pub fn refill(&mut self) {
        while self.held.len() < HELD {
            let Ok(fd) = eventfd(0, EventfdFlags::CLOEXEC) else { return };
            self.held.push(fd);
        }
    }

    /// Attempts what needs a descriptor, once more with one of the reserve when none is left.
    pub fn lend<T>(&mut self, need: Need, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let kept = usize::from(need == Need::Connection);
        match attempt() {
            Err(Errno::EMFILE) if self.held.len() > kept => {
                self.held.pop();
                attempt()
            }
            other => other,
        }
    }
}
