//! The bell as models see it: a flag that is set and cleared in one total order, as the kernel's is.

use std::os::fd::{AsFd, BorrowedFd};

use loom::sync::{Condvar, Mutex};

use crate::Result;

/// Stands in for an eventfd.
#[derive(Debug, Default)]
pub struct Signal {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    /// Makes one.
    pub fn new() -> Result<Self> {
        Ok(Self::default())
    }

    /// Makes it readable.
    pub fn set(&self) {
        *self.set.lock().unwrap() = true;
        self.changed.notify_all();
    }

    /// Makes it unreadable.
    pub fn clear(&self) {
        *self.set.lock().unwrap() = false;
    }

    /// Sleeps until it is readable. A model in which nobody sets it ends as a deadlock.
    pub fn sleep(&self) {
        let mut set = self.set.lock().unwrap();
        while !*set {
            set = self.changed.wait(set).unwrap();
        }
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        unreachable!("models open no queues with descriptors")
    }
}
