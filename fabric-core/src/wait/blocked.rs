//! PENDING. Calls that may sleep, so that what they sleep on is not closed under them.

use crate::sync::{AtomicU64, Ordering};

/// How many calls on an object may sleep at this time.
#[derive(Debug)]
pub(crate) struct Blocked(AtomicU64);

/// One of those calls.
#[derive(Debug)]
pub(crate) struct Blocking<'a>(&'a Blocked);

impl Blocked {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins such a call.
    pub(crate) fn begin(&self) -> Blocking<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Blocking(self)
    }

    /// Whether there is any. Relaxed: whoever must not miss one that begins orders that itself.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

impl Drop for Blocking<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
