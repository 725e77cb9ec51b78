//! HOT. A lock for sections of some dozen instructions: one atomic exchange to take, one store to
//! leave. Whoever waits for long gives up its processor, so a holder that was preempted goes on.
//!
//! Threads that poll have it nearly all the time, and would have it again before anybody who waits. So
//! they make way, and one of them works for all who came before it began ([`Guarded::pass`]).

use core::{
    cell::UnsafeCell,
    fmt,
    ops::{Deref, DerefMut},
};

use super::Guarded;
use crate::sync::{AtomicBool, AtomicU32, Ordering, yield_now};

/// Data under a spin lock.
pub struct Spin<T> {
    held: AtomicBool,
    /// Threads that wait. A hint.
    waiting: AtomicU32,
    /// How often in a row others were in front of who could do without. A hint.
    put_off: AtomicU32,
    /// Passes that were asked for while others were in front, modulo 2^32.
    asked: AtomicU32,
    /// How many of those had been asked for when the last whole pass began.
    served: AtomicU32,
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
const SPINS: u32 = if cfg!(loom) { 0 } else { 128 };
/// How often one makes way, and how often in a row one does without: those in front may never end, and
/// depend on what is put off.
const PUT_OFF: u32 = if cfg!(loom) { 1 } else { 64 };

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

    /// Others are in front. `None`: the caller has the lock; else whether somebody made a whole pass.
    #[cold]
    fn line_up(&self, enough: impl Fn() -> bool) -> Option<bool> {
        // Release: pairs with the load in `pass`, so that a pass finds what was there before.
        let ticket = self.asked.fetch_add(1, Ordering::Release).wrapping_add(1);
        for _ in 0..PUT_OFF {
            // Whoever is in front may need this very processor.
            yield_now();
            if self.is_served(ticket) {
                return Some(true);
            }
            if enough() && self.put_off.fetch_add(1, Ordering::Relaxed) < PUT_OFF {
                return Some(false);
            }
            if self.is_free() && !self.held.load(Ordering::Relaxed) && self.take() {
                return None;
            }
        }
        self.wait();
        None
    }

    fn is_served(&self, ticket: u32) -> bool {
        // Acquire: pairs with the store in `pass`, so that what the pass did is seen.
        let ahead = self.served.load(Ordering::Acquire).wrapping_sub(ticket);
        ahead < u32::MAX / 2
    }

    /// Nobody is in front, by the look of it.
    #[inline]
    fn is_free(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

fn pause(spins: u32) {
    if spins < SPINS { core::hint::spin_loop() } else { yield_now() }
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
            asked: AtomicU32::new(0),
            served: AtomicU32::new(0),
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
    fn pass(&self, enough: impl Fn() -> bool, pass: impl FnOnce(&mut T) -> bool) -> bool {
        if !(self.is_free() && self.take())
            && let Some(made) = self.line_up(enough)
        {
            return made;
        }
        let mut value = SpinGuard(self);
        if self.put_off.load(Ordering::Relaxed) != 0 {
            self.put_off.store(0, Ordering::Relaxed);
        }
        // Acquire: pairs with the addition in `line_up`.
        let asked = self.asked.load(Ordering::Acquire);
        let whole = pass(&mut value);
        if whole && self.served.load(Ordering::Relaxed) != asked {
            // Release: pairs with the load in `is_served`. Stores are in order, under the lock.
            self.served.store(asked, Ordering::Release);
        }
        whole
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
                let mut made = 0;
                while !stop.load(Ordering::Relaxed) || made < 10 {
                    made += u32::from(lock.pass(|| false, |_| true));
                }
            });
            (0..10_000).for_each(|_| *lock.lock() += 1);
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(*lock.lock(), 10_000);
    }

    #[test]
    fn who_can_do_without_waits_for_nobody_but_not_for_ever() {
        let lock = Spin::new(7);
        let pass = || lock.pass(|| true, |value| *value == 7);
        let held = lock.lock();
        std::thread::scope(|scope| {
            let poller = scope.spawn(|| (0..PUT_OFF).all(|_| !pass()));
            assert!(poller.join().unwrap());
            // Now it waits.
            let poller = scope.spawn(pass);
            while lock.waiting.load(Ordering::Relaxed) == 0 {
                yield_now();
            }
            drop(held);
            assert!(poller.join().unwrap());
        });
        assert!(pass());
    }

    /// What was there before the call is seen, by whoever makes the pass.
    #[test]
    fn a_pass_sees_what_was_there_before_it_was_asked_for() {
        let (arrived, seen) = ([(); 3].map(|()| AtomicU32::new(0)), Spin::new([0; 3]));
        let take_in = |seen: &mut [u32; 3]| {
            *seen = arrived.each_ref().map(|count| count.load(Ordering::Relaxed));
            true
        };
        std::thread::scope(|scope| {
            for me in 0..3 {
                let (arrived, seen) = (&arrived, &seen);
                scope.spawn(move || {
                    for count in 1..=2000 {
                        arrived[me].store(count, Ordering::Relaxed);
                        assert!(seen.pass(|| false, take_in));
                        assert!(seen.lock()[me] == count);
                    }
                });
            }
        });
    }

    #[test]
    fn half_a_pass_serves_nobody() {
        let lock = Spin::new(());
        let ticket = 1;
        lock.asked.store(ticket, Ordering::Relaxed);
        assert!(!lock.pass(|| false, |()| false) && !lock.is_served(ticket));
        assert!(lock.pass(|| false, |()| true) && lock.is_served(ticket));
        assert!(!lock.is_served(ticket + 1));
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

    /// What was there before the call is seen by the pass, whoever makes it. Who would have to wait, which
    /// a model cannot bound, does without.
    #[test]
    fn a_pass_begins_after_it_was_asked_for() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(|| {
            let (arrived, seen) = (AtomicBool::new(false), AtomicBool::new(false));
            let shared = Arc::new((Spin::new(()), arrived, seen));
            let look = |(lock, arrived, seen): &(Spin<()>, AtomicBool, AtomicBool)| {
                lock.pass(
                    || true,
                    |()| {
                        seen.store(arrived.load(Ordering::Relaxed), Ordering::Relaxed);
                        true
                    },
                )
            };
            let theirs = shared.clone();
            let poller = thread::spawn(move || look(&theirs));
            shared.1.store(true, Ordering::Relaxed);
            let made = look(&shared);
            assert!(!made || shared.2.load(Ordering::Relaxed));
            poller.join().unwrap();
        });
    }
}
