//! PENDING. What ends a blocking read without an entry (`fi_cq_signal`).

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// An interrupt is kept until one blocking read takes it. The queue's signal says that there is one,
/// and any thread that goes to sleep on the queue clears that.
#[derive(Debug)]
pub(super) struct Interrupt {
    raised: AtomicBool,
    /// Threads in blocking reads.
    readers: AtomicU64,
}

/// A blocking read that may sleep.
#[derive(Debug)]
pub(super) struct Reading<'a>(&'a Interrupt);

impl Interrupt {
    pub(super) fn new() -> Self {
        Self { raised: AtomicBool::new(false), readers: AtomicU64::new(0) }
    }

    /// Raises it; the caller then sets the queue's signal.
    pub(super) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
    }

    /// Begins a blocking read, before it looks whether there is an interrupt.
    pub(super) fn begin(&self) -> Reading<'_> {
        self.readers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `is_owed`: either we see the interrupt or they see us.
        fence(Ordering::SeqCst);
        Reading(self)
    }

    /// Whether a blocking read has yet to take one. Whoever has cleared the signal sets it again
    /// then; a thread that polls the descriptor itself could never take it.
    pub(super) fn is_owed(&self) -> bool {
        if !self.raised.load(Ordering::Acquire) {
            return false;
        }
        fence(Ordering::SeqCst);
        self.readers.load(Ordering::Relaxed) != 0
    }
}

impl Reading<'_> {
    /// Takes the interrupt if there is one.
    pub(super) fn take(&self) -> bool {
        self.is_due() && self.0.raised.swap(false, Ordering::AcqRel)
    }

    /// Whether there is one to take.
    pub(super) fn is_due(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}
