//! SETUP. Rate limiting of one call site.

use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

/// Lines a site may write per interval: enough to name several peers, too few to flood.
const BURST: u32 = 5;

/// The tally of one place in the code. Threads that race may let a line more or less through;
/// no message is lost without being counted.
#[derive(Debug)]
pub struct Site {
    /// Start of the running interval in milliseconds of the process, plus one; zero is never.
    began: AtomicU64,
    written: AtomicU32,
    held: AtomicU64,
}

/// How many messages were held back before this one; prints as a note, or as nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held(pub u64);

impl Site {
    /// A site that has not spoken.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self { began: AtomicU64::new(0), written: AtomicU32::new(0), held: AtomicU64::new(0) }
    }

    /// `Some` if the site may speak now.
    pub fn admit(&self) -> Option<Held> {
        static START: OnceLock<Instant> = OnceLock::new();
        let since = START.get_or_init(Instant::now).elapsed().as_millis();
        self.admit_at(u64::try_from(since).unwrap_or(u64::MAX - 1), super::interval_ms())
    }

    fn admit_at(&self, now_ms: u64, interval_ms: u64) -> Option<Held> {
        let began = self.began.load(Relaxed);
        if began == 0 || now_ms.saturating_sub(began - 1) >= interval_ms {
            self.began.store(now_ms.saturating_add(1), Relaxed);
            self.written.store(0, Relaxed);
        }
        if self.written.fetch_add(1, Relaxed) < BURST {
            return Some(Held(self.held.swap(0, Relaxed)));
        }
        self.held.fetch_add(1, Relaxed);
        None
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            n => write!(f, " ({n} more like this were held back)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_silence_then_a_count() {
        let site = Site::new();
        let first = (0..1000).filter_map(|_| site.admit_at(0, 2000)).count();
        assert_eq!(first, BURST as usize);
        assert_eq!(site.admit_at(1999, 2000), None);
        assert_eq!(site.admit_at(2000, 2000), Some(Held(996)));
        assert_eq!(Held(0).to_string(), "");
    }
}
