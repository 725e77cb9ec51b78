//! PENDING. What ends a blocking read without an entry (`fi_cq_signal`).

use crate::{
    sync::{AtomicBool, Ordering, fence},
    wait::{Blocked, Blocking},
};

/// An interrupt is kept until one blocking read takes it. The queue's signal says that there is one,
/// and any thread that goes to sleep on the queue clears that.
#[derive(Debug)]
pub(super) struct Interrupt {
    raised: AtomicBool,
    /// Threads in blocking reads.
    readers: Blocked,
}

/// A blocking read that may sleep.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    interrupt: &'a Interrupt,
    _call: Blocking<'a>,
}

impl Interrupt {
    pub(super) fn new() -> Self {
        Self { raised: AtomicBool::new(false), readers: Blocked::new() }
    }

    /// Raises it; the caller then sets the queue's signal.
    pub(super) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
    }

    /// Begins a blocking read, before it looks whether there is an interrupt.
    pub(super) fn begin(&self) -> Reading<'_> {
        let call = self.readers.begin();
        // Pairs with the fence in `is_owed`: either we see the interrupt or they see us.
        fence(Ordering::SeqCst);
        Reading { interrupt: self, _call: call }
    }

    /// Whether a blocking read has yet to take one. Whoever has cleared the signal sets it again
    /// then; a thread that polls the descriptor itself could never take it.
    pub(super) fn is_owed(&self) -> bool {
        if !self.raised.load(Ordering::Acquire) {
            return false;
        }
        fence(Ordering::SeqCst);
        self.has_readers()
    }

    /// Whether threads are in blocking reads.
    pub(super) fn has_readers(&self) -> bool {
        self.readers.any()
    }
}

impl Reading<'_> {
    /// Takes the interrupt if there is one.
    pub(super) fn take(&self) -> bool {
        self.is_due() && self.interrupt.raised.swap(false, Ordering::AcqRel)
    }

    /// Whether there is one to take.
    pub(super) fn is_due(&self) -> bool {
        self.interrupt.raised.load(Ordering::Acquire)
    }
}
