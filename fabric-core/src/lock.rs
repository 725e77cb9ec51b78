//! HOT. One data structure, two guards: the threading level, chosen at open, picks the type.
//!
//! `FI_THREAD_DOMAIN` and `FI_THREAD_COMPLETION` promise that the application serialises the calls
//! that reach one object, so [`NoLock`] costs nothing. `FI_THREAD_SAFE` and automatic progress use
//! [`SafeLock`].

mod spin;

use core::{
    cell::{Cell, UnsafeCell},
    fmt,
    ops::{Deref, DerefMut},
};

pub use self::spin::{Spin, SpinGuard};

/// A way of guarding data.
pub trait Lock: Sized + Send + Sync + 'static {
    /// Data under this guard.
    type Cell<T: Send>: Guarded<T>;
    /// Whether calls from several threads are excluded here rather than by the application.
    const SAFE: bool;
}

/// Data under some guard.
pub trait Guarded<T>: Send + Sync {
    /// Access while it lives.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// Wraps a value.
    fn new(value: T) -> Self;
    /// Waits for access.
    fn lock(&self) -> Self::Guard<'_>;
    /// Access if nobody else has it.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
    /// Has a pass over the value made that began after this call did: by the caller, or by another
    /// thread that is at it anyway. Whoever waits for access goes first, within bounds.
    ///
    /// `pass` returns whether it was a whole one, that others need not repeat. `enough`, which is asked
    /// where others are in front, means that the caller can do without. Returns whether a whole pass
    /// was made.
    fn pass(&self, enough: impl Fn() -> bool, pass: impl FnOnce(&mut T) -> bool) -> bool {
        let _ = enough;
        self.try_lock().is_some_and(|mut value| pass(&mut value))
    }
}

/// Access to a `T` guarded by `L`.
pub type Access<'a, L, T> = <<L as Lock>::Cell<T> as Guarded<T>>::Guard<'a>;

/// The application serialises.
#[derive(Debug)]
pub struct NoLock;

/// A spin lock serialises: what is done under it takes less time than going to sleep.
#[derive(Debug)]
pub struct SafeLock;

impl Lock for NoLock {
    type Cell<T: Send> = Unguarded<T>;
    const SAFE: bool = false;
}

impl Lock for SafeLock {
    #[cfg(not(loom))]
    type Cell<T: Send> = Spin<T>;
    /// Models of what is done under the lock do not explore the lock; it has a model of its own.
    #[cfg(loom)]
    type Cell<T: Send> = crate::sync::Mutex<T>;
    const SAFE: bool = true;
}

#[cfg(loom)]
impl<T: Send> Guarded<T> for crate::sync::Mutex<T> {
    type Guard<'a>
        = crate::sync::MutexGuard<'a, T>
    where
        Self: 'a;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn lock(&self) -> crate::sync::MutexGuard<'_, T> {
        self.lock().unwrap()
    }

    fn try_lock(&self) -> Option<crate::sync::MutexGuard<'_, T>> {
        self.try_lock().ok()
    }
}

/// Data that the application serialises access to.
///
/// A flag still refuses a second guard on one thread of control, since two would alias: that is an
/// error of this library and panics, which the C face turns into `-FI_EOTHER`.
pub struct Unguarded<T> {
    held: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: the application promised by its choice of threading level (fi_domain(3)) that calls
// which reach this object do not overlap and are ordered by its own synchronisation.
unsafe impl<T: Send> Sync for Unguarded<T> {}

impl<T> fmt::Debug for Unguarded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unguarded")
    }
}

impl<T: Send> Guarded<T> for Unguarded<T> {
    type Guard<'a>
        = UnguardedGuard<'a, T>
    where
        Self: 'a;

    fn new(value: T) -> Self {
        Self { held: Cell::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    fn lock(&self) -> UnguardedGuard<'_, T> {
        assert!(!self.held.replace(true), "overlapping calls on an object opened without locks");
        UnguardedGuard(self)
    }

    #[inline]
    fn try_lock(&self) -> Option<UnguardedGuard<'_, T>> {
        if self.held.replace(true) { None } else { Some(UnguardedGuard(self)) }
    }
}

/// Access to [`Unguarded`] data.
pub struct UnguardedGuard<'a, T>(&'a Unguarded<T>);

impl<T> fmt::Debug for UnguardedGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnguardedGuard")
    }
}

impl<T> Deref for UnguardedGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `held` admits one guard, and the application admits one thread.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for UnguardedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`; `&mut self` makes this the only reference.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for UnguardedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.set(false);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn overlapping_use_without_locks_panics() {
        let data = Unguarded::new(1);
        let first = data.lock();
        assert!(data.try_lock().is_none());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(data.lock()))).is_err());
        assert!(data.try_lock().is_none(), "the refused calls released nothing");
        drop(first);
        *data.lock() += 1;
        assert_eq!(*data.try_lock().unwrap(), 2);
    }

    #[test]
    fn a_panic_inside_releases_either_guard() {
        fn check<L: Lock>() {
            let data = <L::Cell<u32> as Guarded<u32>>::new(1);
            let panics = || {
                let mut guard = data.lock();
                *guard = 2;
                panic!("inside");
            };
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
            assert_eq!(*data.lock(), 2);
            assert!(data.try_lock().is_some());
        }
        check::<NoLock>();
        check::<SafeLock>();
    }
}
