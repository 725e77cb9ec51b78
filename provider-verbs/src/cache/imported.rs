//! SETUP. The application's own monitor, in the kernel's place: it tells of memory that goes.

use std::sync::{Mutex, OnceLock, PoisonError};

use fabric_core::monitor::{Keeper, Monitor};

use super::{Notices, Watch};
use crate::sys::Gone;

/// The application's monitor, as one cache uses it.
#[derive(Debug)]
pub(crate) struct Imported {
    keeper: Keeper,
}

impl Imported {
    /// `None` if the application has none, or it does not start.
    pub(crate) fn of_process() -> Option<Self> {
        // Before anything can be told: on its way nothing is to be allocated.
        notices();
        let keeper = Keeper::begin(told);
        keeper.monitor()?;
        Some(Self { keeper })
    }

    fn ask<R>(&self, ask: impl FnOnce(&dyn Monitor) -> R) -> Option<R> {
        self.keeper.monitor().map(ask)
    }
}

impl Watch for Imported {
    fn watch(&self, start: usize, len: usize) -> bool {
        self.ask(|monitor| monitor.subscribe(start, len).is_ok()).unwrap_or(false)
    }

    fn unwatch(&self, start: usize, len: usize) {
        self.ask(|monitor| monitor.unsubscribe(start, len));
    }

    fn is_valid(&self, start: usize, len: usize) -> bool {
        self.ask(|monitor| monitor.is_valid(start, len)).unwrap_or(false)
    }

    fn notices(&self) -> &Notices {
        notices()
    }
}

/// Those of all threads of the application.
fn notices() -> &'static Notices {
    static NOTICES: OnceLock<Notices> = OnceLock::new();
    NOTICES.get_or_init(Notices::new)
}

/// Writes a notice down. Several threads may unmap memory at a time; the lock is held for nothing else,
/// and nothing is allocated under it.
fn told(start: usize, len: usize) {
    static WRITER: Mutex<()> = Mutex::new(());
    let end = start.saturating_add(len);
    let _turn = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    // Notices are of even addresses.
    notices().take(|push| push(Gone { start: start & !1, end, soon: false }));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabric_core::{Errno, Result, monitor, op::IoVec};

    use super::{
        super::{Cache, CacheLimits},
        *,
    };
    use crate::sys::{
        Pd,
        abi::IBV_ACCESS_LOCAL_WRITE,
        mock::{self, RXE},
    };

    /// What an application would be asked.
    #[derive(Default)]
    struct Asked {
        ranges: Mutex<Vec<(usize, usize)>>,
        invalid: Mutex<bool>,
    }

    impl Monitor for Asked {
        fn start(&self) -> Result<()> {
            Ok(())
        }
        fn stop(&self) {}
        fn subscribe(&self, start: usize, len: usize) -> Result<()> {
            if start == 0x90000 {
                return Err(Errno::EINVAL);
            }
            self.ranges.lock().unwrap().push((start, len));
            Ok(())
        }
        fn unsubscribe(&self, start: usize, len: usize) {
            self.ranges.lock().unwrap().retain(|range| *range != (start, len));
        }
        fn is_valid(&self, _: usize, _: usize) -> bool {
            !*self.invalid.lock().unwrap()
        }
    }

    #[test]
    fn what_the_application_tells_of_is_registered_anew() {
        let asked = Arc::new(Asked::default());
        monitor::import(asked.clone()).unwrap();
        let imported = Imported::of_process().unwrap();
        let pd = Pd::new(mock::device(RXE)).unwrap();
        let limits = CacheLimits { count: 16, bytes: 1 << 30 };
        let mut cache = Cache::with(Some(Arc::new(imported)), limits);
        let mut get = |start: usize, len| {
            let memory = IoVec { base: core::ptr::without_provenance_mut(start), len };
            cache.get(&pd, memory, IBV_ACCESS_LOCAL_WRITE).unwrap().lkey()
        };
        let first = get(0x10000, 0x2000);
        assert_eq!(get(0x10000, 0x2000), first);
        assert_eq!(*asked.ranges.lock().unwrap(), [(0x10000, 0x2000)]);
        monitor::notify(0x20000, 0x1000);
        assert_eq!(get(0x10000, 0x2000), first, "something else");
        monitor::notify(0x11000, 1);
        let again = get(0x10000, 0x2000);
        assert_ne!(again, first);
        *asked.invalid.lock().unwrap() = true;
        assert_ne!(get(0x10000, 0x2000), again, "the application says so");
        *asked.invalid.lock().unwrap() = false;
        let refused = get(0x90000, 0x1000);
        assert_ne!(get(0x90000, 0x1000), refused, "the application cannot watch it");
        assert_eq!(monitor::release(), Err(Errno::EBUSY));
        drop(cache);
        assert_eq!(*asked.ranges.lock().unwrap(), []);
        monitor::release().unwrap();
    }
}
