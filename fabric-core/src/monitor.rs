//! SETUP. The application's own monitor of its memory: what it tells of is let go by those who keep
//! registrations.
//!
//! There is at most one, and it does not go while somebody keeps registrations under it. Notices come
//! from within the application's `munmap` or `free`, whoever called that: on their way nothing is
//! allocated and no lock is taken that is held elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::{Errno, Result, log::Subsys};

/// An application's monitor. Calls may come from any thread.
pub trait Monitor: Send + Sync {
    /// Registrations are going to be kept.
    fn start(&self) -> Result<()>;
    /// None are any more.
    fn stop(&self);
    /// A range is registered for longer. After a failure it is not.
    fn subscribe(&self, start: usize, len: usize) -> Result<()>;
    /// It is not any more.
    fn unsubscribe(&self, start: usize, len: usize);
    /// Whether a range that is registered is still what it was.
    fn is_valid(&self, start: usize, len: usize) -> bool;
}

#[derive(Default)]
struct State {
    monitor: Option<Arc<dyn Monitor>>,
    users: usize,
}

static STATE: Mutex<State> = Mutex::new(State { monitor: None, users: 0 });
static LISTENER: OnceLock<fn(usize, usize)> = OnceLock::new();

/// Every change is made in one step, so a panic elsewhere does not spoil it.
fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes an application's monitor into use, for those who begin to keep registrations from now on.
/// `EBUSY` while there is another one.
pub fn import(monitor: Arc<dyn Monitor>) -> Result<()> {
    let mut state = state();
    if state.monitor.is_some() {
        return Err(Errno::EBUSY);
    }
    state.monitor = Some(monitor);
    Ok(())
}

/// Gives it back. `EBUSY` while registrations are kept under it, `EINVAL` if there is none.
pub fn release() -> Result<()> {
    let mut state = state();
    if state.users != 0 {
        return Err(Errno::EBUSY);
    }
    state.monitor.take().map(drop).ok_or(Errno::EINVAL)
}

/// Memory is going: what is registered of it is let go before this returns, or with the operations
/// that use it.
pub fn notify(start: usize, len: usize) {
    if let Some(listener) = LISTENER.get() {
        listener(start, len);
    }
}

/// Somebody who keeps registrations.
pub struct Keeper {
    monitor: Option<Arc<dyn Monitor>>,
}

impl core::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Keeper").field("monitored", &self.monitor.is_some()).finish()
    }
}

impl Keeper {
    /// Registrations are kept from now on, until this goes, under the application's monitor if it has
    /// one. `listener` hears of memory that goes, ; it is the
    /// same function for all.
    pub fn begin(listener: fn(usize, usize)) -> Self {
        let _ = LISTENER.set(listener);
        let mut state = state();
        let monitor = state.monitor.clone();
        let started = match &monitor {
            Some(monitor) if state.users == 0 => monitor.start(),
            _ => Ok(()),
        };
        if let Err(reason) = started {
            crate::warn!("core", Subsys::Mr, "the application's memory monitor: {reason}");
            return Self { monitor: None };
        }
        if monitor.is_some() {
            state.users += 1;
        }
        Self { monitor }
    }

    /// The application's monitor.
    pub fn monitor(&self) -> Option<&dyn Monitor> {
        self.monitor.as_deref()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let Some(monitor) = self.monitor.take() else { return };
        let mut state = state();
        state.users -= 1;
        if state.users == 0 {
            monitor.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counts {
        started: AtomicUsize,
        stopped: AtomicUsize,
        fails: bool,
    }

    impl Monitor for Counts {
        fn start(&self) -> Result<()> {
            self.started.fetch_add(1, Ordering::Relaxed);
            if self.fails { Err(Errno::ENOSYS) } else { Ok(()) }
        }
        fn stop(&self) {
            self.stopped.fetch_add(1, Ordering::Relaxed);
        }
        fn subscribe(&self, _: usize, _: usize) -> Result<()> {
            Ok(())
        }
        fn unsubscribe(&self, _: usize, _: usize) {}
        fn is_valid(&self, _: usize, _: usize) -> bool {
            true
        }
    }

    static HEARD: AtomicUsize = AtomicUsize::new(0);

    fn hear(start: usize, len: usize) {
        HEARD.store(start + len, Ordering::Relaxed);
    }

    /// One test, for there is one monitor.
    #[test]
    fn a_monitor_comes_and_goes_while_nobody_keeps_anything() {
        assert_eq!(release(), Err(Errno::EINVAL));
        assert!(Keeper::begin(hear).monitor().is_none());
        let monitor = Arc::new(Counts::default());
        import(monitor.clone()).unwrap();
        assert_eq!(import(monitor.clone()), Err(Errno::EBUSY));
        let (one, other) = (Keeper::begin(hear), Keeper::begin(hear));
        assert!(one.monitor().is_some() && other.monitor().is_some());
        notify(4096, 100);
        assert_eq!(HEARD.load(Ordering::Relaxed), 4196);
        drop(one);
        assert_eq!(release(), Err(Errno::EBUSY));
        drop(other);
        assert_eq!(release(), Ok(()));
        let counts = (&monitor.started, &monitor.stopped);
        assert_eq!((counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed)), (1, 1));
        import(Arc::new(Counts { fails: true, ..Counts::default() })).unwrap();
        assert!(Keeper::begin(hear).monitor().is_none(), "it does not start");
        assert_eq!(release(), Ok(()));
    }
}
