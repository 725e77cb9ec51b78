//! SETUP. A descriptor in reserve. A process that has none left cannot even turn connections away:
//! they would stay where they are, and the listener readable for ever.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use fabric_core::fork::ForkSafe;
use rustix::event::{EventfdFlags, eventfd};

/// One for all listeners of the process, held while there are any.
#[derive(Debug)]
pub(super) struct Spare(Mutex<Option<OwnedFd>>);

impl Spare {
    /// The process's.
    pub(super) fn shared() -> Arc<Self> {
        static SHARED: ForkSafe<Weak<Spare>> = ForkSafe::new(Weak::new());
        let mut shared = SHARED.lock_own();
        shared.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Self(Mutex::new(open())));
            *shared = Arc::downgrade(&new);
            new
        })
    }

    /// Has something done with a descriptor free, which it gives back.
    pub(super) fn with_it_free<T>(&self, act: impl FnOnce() -> T) -> T {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(held.take());
        let done = act();
        *held = open();
        done
    }
}

fn open() -> Option<OwnedFd> {
    eventfd(0, EventfdFlags::CLOEXEC).ok()
}
