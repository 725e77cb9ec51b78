//! HOT. The boundary that no panic crosses.
//!
//! Unwinding out of an `extern "C"` function aborts the process, and the process is not ours. So
//! every function that C can call runs inside [`guard`]. A caught panic is a defect of this
//! library: the hook has already written it to standard error, the caller sees `-FI_EOTHER`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use core::ffi::c_int;

use fabric_core::Errno;

/// What a function of this return type answers after a panic.
pub trait Panicked {
    /// The answer.
    const PANICKED: Self;
}

impl Panicked for () {
    const PANICKED: Self = ();
}

impl Panicked for isize {
    const PANICKED: Self = Errno::EOTHER.to_c();
}

impl Panicked for c_int {
    const PANICKED: Self = -Errno::EOTHER.get();
}

/// Version numbers cannot carry an error.
impl Panicked for u32 {
    const PANICKED: Self = 0;
}

/// Counter values cannot carry an error.
impl Panicked for u64 {
    const PANICKED: Self = 0;
}

impl<T> Panicked for *mut T {
    const PANICKED: Self = core::ptr::null_mut();
}

impl<T> Panicked for *const T {
    const PANICKED: Self = core::ptr::null();
}

/// Runs `body`; a panic inside becomes the error value of `R`.
///
/// The compiler adds no instruction to the path without a panic.
#[inline(always)]
pub fn guard<R: Panicked>(body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| discard(payload))
}

/// Drops a panic's payload, whose destructor might panic in its turn.
#[cold]
#[inline(never)]
fn discard<R: Panicked>(payload: Box<dyn core::any::Any + Send>) -> R {
    core::mem::forget(payload);
    R::PANICKED
}

/// Turns a result into what C expects of an `int` function.
pub fn status(result: fabric_core::Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => -errno.get(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(guard::<c_int>(|| panic!("expected by this test")), -256);
        assert_eq!(guard::<isize>(|| panic!("expected by this test")), -256);
        assert_eq!(guard(|| 7), 7);
    }
}
