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

#[cfg(test)]
mod tests {
    use super::*;

    /// What an operation writes while its value is moved about is what the value has in the end.
    #[test]
    fn memory_is_the_operations_while_the_value_moves() {
        let mut parked = Parked::new(vec![0u8; 4]);
        let base = parked.get_mut().as_mut_ptr();
        let kept: Box<dyn Send> = Box::new(Parked::new(String::from("dropped where it is")));
        let moved = Box::new((parked, kept));
        // SAFETY: the vector's memory, which nobody else uses meanwhile.
        unsafe { base.write(7) };
        let (parked, kept) = *moved;
        // SAFETY: as above.
        unsafe { base.add(3).write(9) };
        drop(kept);
        assert_eq!(parked.into_inner(), [7, 0, 0, 9]);
    }
}
