//! HOT. A lock for sections of some dozen instructions: one atomic exchange to take, one store to
//! leave. Whoever waits for long gives up its processor, so a holder that was preempted goes on.
//!
//! Threads that poll have it nearly all the time, and would have it again before anybody who waits. So
//! they make way ([`Guarded::lock_idle`]).

use core::{
    cell::UnsafeCell,
    fmt,
    ops::{Deref, DerefMut},
};

use super::Guarded;
use crate::sync::{AtomicBool, AtomicU32, Ordering};

/// Data under a spin lock.
pub struct Spin<T> {
    held: AtomicBool,
    /// Threads that wait. A hint.
    waiting: AtomicU32,
    /// How often in a row others were in front of who makes way. A hint.
    put_off: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `held` lets one guard exist at a time, and its orderings hand the value over.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> fmt::Debug for Spin<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spin")
    }
}

/// Looks before the processor is offered to others.
const SPINS: u32 = 128;
/// How often in a row one makes way: those in front may never end, and depend on what is put off.
const PUT_OFF: u32 = 64;

impl<T> Spin<T> {
    #[inline]
    fn take(&self) -> bool {
        // Acquire: pairs with the release store in the guard's `drop`.
        !self.held.swap(true, Ordering::Acquire)
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        while !self.take() {
            // Looking does not take the line away from the holder, as trying would.
            while self.held.load(Ordering::Relaxed) {
                spins += 1;
                pause(spins);
            }
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Others are in front. Whether to wait with them.
    #[cold]
    fn insists(&self) -> bool {
        // Whoever is in front may need this very processor.
        std::thread::yield_now();
        self.put_off.fetch_add(1, Ordering::Relaxed) >= PUT_OFF
    }
}

fn pause(spins: u32) {
    if spins < SPINS { core::hint::spin_loop() } else { std::thread::yield_now() }
}

impl<T: Send> Guarded<T> for Spin<T> {
    type Guard<'a>
        = SpinGuard<'a, T>
    where
        Self: 'a;

    fn new(value: T) -> Self {
        Self {
            held: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            put_off: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    fn lock(&self) -> SpinGuard<'_, T> {
        if !self.take() {
            self.wait();
        }
        SpinGuard(self)
    }

    #[inline]
    fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.take().then_some(SpinGuard(self))
    }

    #[inline]
    fn lock_idle(&self) -> Option<SpinGuard<'_, T>> {
        if self.waiting.load(Ordering::Relaxed) != 0 || !self.take() {
            if !self.insists() {
                return None;
            }
            self.wait();
        }
        if self.put_off.load(Ordering::Relaxed) != 0 {
            self.put_off.store(0, Ordering::Relaxed);
        }
        Some(SpinGuard(self))
    }
}

/// Access to data under a [`Spin`] lock.
pub struct SpinGuard<'a, T>(&'a Spin<T>);

impl<T> fmt::Debug for SpinGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpinGuard")
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one, and `&mut self` makes this its only reference.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the acquire exchange in `take`.
        self.0.held.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_threads_count() {
        let count = Spin::new(0u32);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..10_000).for_each(|_| *count.lock() += 1));
            }
        });
        assert_eq!(*count.lock(), 20_000);
    }

    #[test]
    fn a_held_lock_is_not_taken_twice() {
        let lock = Spin::new(());
        let held = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }

    /// A thread that takes it again and again is not in the way of others, nor they in its.
    #[test]
    fn who_polls_makes_way_and_is_not_forgotten() {
        let (lock, stop) = (Spin::new(0u32), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut taken = 0;
                while !stop.load(Ordering::Relaxed) || taken < 10 {
                    taken += u32::from(lock.lock_idle().is_some());
                }
            });
            (0..10_000).for_each(|_| *lock.lock() += 1);
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(*lock.lock(), 10_000);
        let lock = Spin::new(7);
        let held = lock.lock();
        std::thread::scope(|scope| {
            let poller = scope.spawn(|| (0..PUT_OFF).all(|_| lock.lock_idle().is_none()));
            assert!(poller.join().unwrap());
            // Now it waits.
            let poller = scope.spawn(|| lock.lock_idle().map(|value| *value));
            while lock.waiting.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            drop(held);
            assert_eq!(poller.join().unwrap(), Some(7));
        });
        assert!(lock.lock_idle().is_some());
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::{sync::Arc, thread};

    use super::*;
    use crate::sync::TurnCell;

    /// Without waiting, which a model cannot bound: whoever gets the lock sees what the last holder
    /// wrote, and nobody gets it at the same time.
    #[test]
    fn the_value_is_handed_over() {
        loom::model(|| {
            let lock = Arc::new(Spin::new(TurnCell::new(0u32)));
            let other = lock.clone();
            let add = |lock: &Spin<TurnCell<u32>>| match lock.try_lock() {
                // SAFETY: the guard is the turn; loom checks that it is.
                Some(held) => held.write(|value| unsafe {
                    *value += 1;
                    1
                }),
                None => 0,
            };
            let thread = thread::spawn(move || add(&other));
            let mine = add(&lock);
            let sum = mine + thread.join().unwrap();
            // SAFETY: as above.
            assert_eq!(lock.try_lock().unwrap().read(|value| unsafe { *value }), sum);
        });
    }
}
