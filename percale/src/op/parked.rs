//! HOT. A buffer whose memory is in use elsewhere.
#![allow(unsafe_code, reason = "keeps a value without claiming to be alone with its memory")]

use core::{fmt, mem::MaybeUninit};

/// A value whose heap memory an operation may be reading or writing.
///
/// Moving a `Box` claims its memory for the new place alone, and would so take it from the
/// operation. What is in a `MaybeUninit` claims nothing until it is taken out.
pub(crate) struct Parked<B>(MaybeUninit<B>);

impl<B> Parked<B> {
    pub(crate) const fn new(value: B) -> Self {
        Self(MaybeUninit::new(value))
    }

    /// The value, to find out where its memory is. What is found stays good while it is parked.
    pub(crate) const fn get_mut(&mut self) -> &mut B {
        // SAFETY: always initialised by `new`.
        unsafe { self.0.assume_init_mut() }
    }

    /// Takes the value back, when nobody else uses its memory any more.
    pub(crate) fn into_inner(self) -> B {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: always initialised by `new`; read once, since `self` is not dropped.
        unsafe { this.0.assume_init_read() }
    }
}

impl<B> Drop for Parked<B> {
    fn drop(&mut self) {
        // SAFETY: always initialised by `new`, and not taken: `into_inner` does not come here.
        unsafe { self.0.assume_init_drop() };
    }
}

impl<B> fmt::Debug for Parked<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parked")
    }
}
