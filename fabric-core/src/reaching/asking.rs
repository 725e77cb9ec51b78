//! PENDING. Injected operations towards a peer that is not connected.
//!
//! Whoever has injected an operation takes it for done, and may make no progress for a long time: it
//! computes, or waits for others by other means than this library. A connection takes progress to come
//! up, so such an operation stays with the application, which is told to try again.

use std::time::{Duration, Instant};

use crate::Errno;

/// How long the end of all attempts is told to whoever asks again. Later questions begin anew.
const FRESH: Duration = Duration::from_secs(1);
/// Questions in a row that are answered without progress, of an application that only asks.
const PROGRESS_EVERY: u32 = 16;

/// What has been asked of a peer, and the answer if it could not be reached.
#[derive(Debug, Default)]
pub struct Asking {
    count: u32,
    answer: Option<(Errno, Instant)>,
}

impl Asking {
    /// Somebody wants to be connected.
    pub const fn is_pending(&self) -> bool {
        self.count != 0
    }

    /// The peer has been reached, or nobody wants to reach it any more.
    pub const fn end(&mut self) {
        self.count = 0;
    }

    /// The peer could not be reached.
    pub const fn fail(&mut self, reason: Errno, now: Instant) {
        if self.is_pending() {
            self.answer = Some((reason, now));
        }
        self.end();
    }

    /// Takes a question. `Err`: the end of the attempts. Otherwise they go on, and it is told whether
    /// progress is due that nobody may be making.
    pub fn ask(&mut self, now: Instant) -> Result<bool, Errno> {
        if let Some((reason, since)) = self.answer.take()
            && now.saturating_duration_since(since) < FRESH
        {
            return Err(reason);
        }
        self.count = self.count.saturating_add(1);
        Ok(self.count.is_multiple_of(PROGRESS_EVERY))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_once_and_while_it_is_fresh() {
        let now = Instant::now();
        let mut asking = Asking::default();
        asking.fail(Errno::ECONNREFUSED, now);
        assert_eq!(asking.ask(now), Ok(false), "nobody had asked");
        assert!(asking.is_pending());
        asking.fail(Errno::ECONNREFUSED, now);
        assert!(!asking.is_pending());
        assert_eq!(asking.ask(now), Err(Errno::ECONNREFUSED));
        assert_eq!(asking.ask(now), Ok(false));
        asking.fail(Errno::ECONNREFUSED, now);
        assert_eq!(asking.ask(now + FRESH), Ok(false), "that was long ago");
    }

    #[test]
    fn who_only_asks_makes_progress() {
        let mut asking = Asking::default();
        let due = (0..160).filter(|_| asking.ask(Instant::now()) == Ok(true)).count();
        assert_eq!(due, 160 / PROGRESS_EVERY as usize);
    }
}
