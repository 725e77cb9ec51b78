//! HOT. Who waits for which operation.
//!
//! Many tasks and threads may wait for operations of one queue, and one descriptor tells of news.
//! A reactor keeps one waker for a descriptor, so it gets [`Waiters`] itself, and whoever is woken
//! through it takes the completions and wakes those that they are for.

use std::{
    fmt,
    sync::{Arc, PoisonError},
    task::{Wake, Waker},
};

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// Wakers by the place of their operation in a table, which has a lock of its own.
///
/// Whoever waits adds itself and then looks into the table; whoever ends an operation changes the table
/// and then wakes. One of them sees the other.
pub struct Waiters {
    /// Wakers in `slots`, so that an end that nobody sleeps for takes no lock.
    ///
    /// Relaxed: the table's lock orders it, since each side goes through that between its two steps.
    len: AtomicU64,
    slots: Mutex<Vec<Option<Waker>>>,
}

impl Default for Waiters {
    fn default() -> Self {
        Self { len: AtomicU64::new(0), slots: Mutex::new(Vec::new()) }
    }
}

impl Waiters {
    /// Wakes `waker` when the operation at this place ends.
    pub fn add(&self, place: u32, waker: &Waker) {
        let mut slots = self.lock();
        let place = slot(place);
        if slots.len() <= place {
            slots.resize(place + 1, None);
        }
        match &mut slots[place] {
            Some(known) => known.clone_from(waker),
            empty => {
                *empty = Some(waker.clone());
                self.len.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Nobody waits at this place any more.
    pub fn remove(&self, place: u32) -> Option<Waker> {
        if self.is_empty() {
            return None;
        }
        let waker = self.lock().get_mut(slot(place))?.take()?;
        self.len.fetch_sub(1, Ordering::Relaxed);
        Some(waker)
    }

    /// The operation at this place has ended.
    #[inline]
    pub fn wake_one(&self, place: u32) {
        if let Some(waker) = self.remove(place) {
            waker.wake();
        }
    }

    /// Everybody is to look.
    pub fn wake_all(&self) {
        if self.is_empty() {
            return;
        }
        let mut slots = self.lock();
        let mut all: Vec<Waker> = slots.iter_mut().filter_map(Option::take).collect();
        self.len.fetch_sub(all.len() as u64, Ordering::Relaxed);
        drop(slots);
        // One task often waits for many operations.
        all.dedup_by(|a, b| a.will_wake(b));
        for waker in all {
            waker.wake();
        }
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    // Wakers are put and taken in one step, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Waker>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last place comes first, for what is no operation.
const fn slot(place: u32) -> usize {
    place.wrapping_add(1) as usize
}

/// The descriptor has news, for whoever takes them.
impl Wake for Waiters {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_all();
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::{sync::Notify, thread};

    use super::*;

    struct Bell(Notify);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.notify();
        }
    }

    /// Waits for what is in the table, as a task does.
    fn sleep_until_done(waiters: &Waiters, table: &Mutex<bool>, place: u32) {
        loop {
            let bell = Arc::new(Bell(Notify::new()));
            waiters.add(place, &bell.clone().into());
            if *table.lock().unwrap() {
                return;
            }
            bell.0.wait();
        }
    }

    #[test]
    fn no_end_is_missed() {
        loom::model(|| {
            let waiters = loom::sync::Arc::new(Waiters::default());
            let table = loom::sync::Arc::new(Mutex::new(false));
            let (their_waiters, their_table) = (waiters.clone(), table.clone());
            let ending = thread::spawn(move || {
                *their_table.lock().unwrap() = true;
                their_waiters.wake_one(0);
            });
            sleep_until_done(&waiters, &table, 0);
            ending.join().unwrap();
        });
    }

    #[test]
    fn all_are_woken_by_the_descriptor() {
        loom::model(|| {
            let waiters = loom::sync::Arc::new(Waiters::default());
            let table = loom::sync::Arc::new(Mutex::new(false));
            let (their_waiters, their_table) = (waiters.clone(), table.clone());
            let ending = thread::spawn(move || {
                *their_table.lock().unwrap() = true;
                their_waiters.wake_all();
            });
            sleep_until_done(&waiters, &table, 3);
            ending.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU64);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_is_woken_for_its_own_and_all_by_the_descriptor() {
        let waiters = Arc::new(Waiters::default());
        let woken = [(); 3].map(|()| Arc::<Woken>::default());
        for (place, woken) in woken.iter().enumerate() {
            waiters.add(place as u32, &woken.clone().into());
            waiters.add(place as u32, &woken.clone().into());
        }
        let counts = || woken.each_ref().map(|woken| woken.0.load(Ordering::Relaxed));
        waiters.wake_one(1);
        waiters.wake_one(1);
        waiters.wake_one(77);
        assert_eq!(counts(), [0, 1, 0]);
        assert!(waiters.remove(0).is_some() && waiters.remove(0).is_none());
        Waker::from(waiters.clone()).wake();
        assert_eq!((counts(), waiters.is_empty()), ([0, 1, 1], true));
    }
}
