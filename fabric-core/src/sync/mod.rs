//! The only door to atomics, shared cells and the mutex of data calls. Under `--cfg loom` the same names are loom's, so that
//! the protocols built on them can be model-checked:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p percale-core --lib models
//! ```
//!
//! Loom does not keep a read-modify-write next to the store that it read in the modification order
//! of a variable, so a protocol that is sound for that reason alone fails in a model.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(loom)]
pub use loom::thread::yield_now;
#[cfg(not(loom))]
pub use std::{
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};

/// Memory that two parties take turns at, in an order that atomics beside it establish.
#[derive(Debug)]
#[repr(transparent)]
pub struct TurnCell<T>(
    #[cfg(not(loom))] core::cell::UnsafeCell<T>,
    #[cfg(loom)] loom::cell::UnsafeCell<T>,
);

impl<T> TurnCell<T> {
    /// Wraps a value.
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }
    /// Wraps a value.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self(loom::cell::UnsafeCell::new(value))
    }

    /// The address, for reading while it is this party's turn.
    #[inline]
    pub fn read<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        #[cfg(not(loom))]
        return f(self.0.get());
        #[cfg(loom)]
        self.0.with(f)
    }

    /// The address, for writing while it is this party's turn.
    #[inline]
    pub fn write<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(not(loom))]
        return f(self.0.get());
        #[cfg(loom)]
        self.0.with_mut(f)
    }
}
