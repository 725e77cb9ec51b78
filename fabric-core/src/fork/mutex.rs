//! SETUP. Mutexes of the whole process. Whoever forks holds all of them meanwhile, so that a child finds
//! them free, and what they guard whole.

use std::{
    cell::{Cell, UnsafeCell},
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use super::{GENERATION, watch};

/// A mutex in a static, for what takes no longer than a fork may be put off. A panic elsewhere does not
/// spoil it: every change has to be made in one step.
pub struct ForkSafe<T: 'static> {
    value: Mutex<T>,
    held: Held<T>,
    /// It is among [`ALL`].
    listed: AtomicBool,
    /// Of the process that has the value.
    generation: AtomicU32,
}

/// The guard while the process forks.
struct Held<T: 'static>(UnsafeCell<Option<MutexGuard<'static, T>>>);

// SAFETY: only who holds `ALL` touches it, and takes out what the same thread has put in.
unsafe impl<T: Send> Sync for Held<T> {}
// SAFETY: as above; it is empty when its mutex is moved.
unsafe impl<T: Send> Send for Held<T> {}

impl<T> Held<T> {
    const fn empty() -> Self {
        Self(UnsafeCell::new(None))
    }

    /// # Safety
    /// The caller holds `ALL`.
    unsafe fn replace(
        &self,
        guard: Option<MutexGuard<'static, T>>,
    ) -> Option<MutexGuard<'static, T>> {
        // SAFETY: the caller's promise makes this the only access.
        std::mem::replace(unsafe { &mut *self.0.get() }, guard)
    }
}

/// Every [`ForkSafe`] that has been locked; the first that is held.
static ALL: Mutex<Vec<&'static dyn Hold>> = Mutex::new(Vec::new());
static ALL_HELD: Held<Vec<&'static dyn Hold>> = Held::empty();

/// A fork is put off no longer than this. It is for handlers of signals that fork, and may have
/// interrupted the holder.
const PATIENCE: Duration = Duration::from_secs(1);

trait Hold: Sync {
    /// # Safety
    /// The caller holds `ALL`.
    unsafe fn hold(&'static self, until: Instant);
    /// # Safety
    /// As for `hold`, on the same thread.
    unsafe fn release(&'static self);
}

impl<T: Send> Hold for ForkSafe<T> {
    unsafe fn hold(&'static self, until: Instant) {
        // SAFETY: this function's own contract.
        drop(unsafe { self.held.replace(patiently(&self.value, until)) });
    }

    unsafe fn release(&'static self) {
        // SAFETY: this function's own contract.
        drop(unsafe { self.held.replace(None) });
    }
}

impl<T: Send> ForkSafe<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            held: Held::empty(),
            listed: AtomicBool::new(false),
            generation: AtomicU32::new(0),
        }
    }

    /// Waits for access. No access to another [`ForkSafe`] may be asked for before this one ends.
    pub fn lock(&'static self) -> MutexGuard<'static, T> {
        // Acquire: pairs with the release in `list`.
        if !self.listed.load(Ordering::Acquire) {
            self.list();
        }
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Access if nobody has it.
    pub fn try_lock(&'static self) -> Option<MutexGuard<'static, T>> {
        match self.value.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// As [`ForkSafe::lock`] for what is of no use to a child, which finds an empty value.
    pub fn lock_own(&'static self) -> MutexGuard<'static, T>
    where
        T: Default,
    {
        let mut value = self.lock();
        let generation = GENERATION.load(Ordering::Relaxed);
        if self.generation.swap(generation, Ordering::Relaxed) != generation {
            // Not dropped: what is in it is the parent's.
            std::mem::forget(std::mem::take(&mut *value));
        }
        value
    }

    #[cold]
    fn list(&'static self) {
        watch();
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.listed.load(Ordering::Relaxed) {
            all.push(self);
            self.listed.store(true, Ordering::Release);
        }
    }
}

impl<T> fmt::Debug for ForkSafe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForkSafe")
    }
}

fn patiently<T>(mutex: &'static Mutex<T>, until: Instant) -> Option<MutexGuard<'static, T>> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}

/// Before a fork.
pub(super) fn hold_all() {
    let until = Instant::now() + PATIENCE;
    let Some(all) = patiently(&ALL, until) else { return };
    for mutex in all.iter() {
        // SAFETY: `all` is held.
        unsafe { mutex.hold(until) };
    }
    // SAFETY: as above.
    drop(unsafe { ALL_HELD.replace(Some(all)) });
    HOLDS.set(true);
}

thread_local! {
    /// This thread has put something into [`ALL_HELD`].
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// After it, in parent and child.
pub(super) fn release_all() {
    if !HOLDS.replace(false) {
        return;
    }
    // SAFETY: this thread holds `ALL`, by what it takes out here.
    let Some(all) = (unsafe { ALL_HELD.replace(None) }) else { return };
    for mutex in all.iter() {
        // SAFETY: `all` is held.
        unsafe { mutex.release() };
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::{super::tests::in_a_child, *};

    static PAIR: ForkSafe<(u64, u64)> = ForkSafe::new((0, 0));

    #[test]
    fn children_find_it_free_and_whole() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let mut pair = PAIR.lock();
                        pair.0 += 1;
                        std::hint::black_box(&mut *pair);
                        pair.1 += 1;
                    }
                });
            }
            for _ in 0..50 {
                let whole = || {
                    let pair = PAIR.lock();
                    pair.0 == pair.1
                };
                assert_eq!(in_a_child(whole), 0);
            }
            stop.store(true, Ordering::Relaxed);
        });
        let pair = PAIR.lock();
        assert_eq!(pair.0, pair.1);
    }

    #[test]
    fn a_child_has_nothing_of_its_parents() {
        static LIST: ForkSafe<Vec<u8>> = ForkSafe::new(Vec::new());
        LIST.lock_own().push(1);
        let own = || {
            let empty = LIST.lock_own().is_empty();
            LIST.lock_own().push(2);
            empty && *LIST.lock_own() == [2]
        };
        assert_eq!(in_a_child(own), 0);
        assert_eq!(*LIST.lock_own(), [1]);
    }
}
