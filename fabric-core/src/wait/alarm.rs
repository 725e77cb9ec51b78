//! PENDING. What wakes the threads that sleep on an engine, beside the descriptors of its network.

use std::{
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use super::{Bell, Timer};
use crate::Result;

/// A descriptor that is readable from a time on, and while it rings.
#[derive(Debug)]
pub struct Alarm {
    timer: Timer,
    at: Option<Instant>,
    rings: bool,
}

impl Alarm {
    /// Opens one, close-on-exec, that is not set.
    pub fn new() -> Result<Self> {
        Ok(Self { timer: Timer::new()?, at: None, rings: false })
    }

    /// Makes it readable from this time on, until it is taken or set anew.
    pub fn set(&mut self, at: Option<Instant>) {
        if self.at != at {
            self.at = at;
            self.start();
        }
    }

    /// It has been found readable: the caller sees to what is due, and sets it anew. A bell rings on.
    pub fn take(&mut self) {
        self.at = None;
        self.start();
    }

    fn start(&self) {
        if !self.rings {
            self.timer.set(self.at.map(|at| at.saturating_duration_since(Instant::now())));
        }
    }
}

impl Bell for Alarm {
    fn ring(&mut self) {
        self.rings = true;
        self.timer.set(Some(Duration::ZERO));
    }

    fn rest(&mut self) {
        self.rings = false;
        self.start();
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::wait::{Deadline, sleep_on};

    fn is_readable_within(alarm: &Alarm, ms: i32) -> bool {
        sleep_on(alarm.as_fd(), Deadline::from_millis(ms)).is_ok()
    }

    #[test]
    fn it_goes_off_once() {
        let mut alarm = Alarm::new().unwrap();
        assert!(!is_readable_within(&alarm, 0));
        alarm.set(Some(Instant::now() + Duration::from_millis(20)));
        assert!(!is_readable_within(&alarm, 0));
        assert!(is_readable_within(&alarm, 5000));
        assert!(is_readable_within(&alarm, 0), "until it is taken");
        alarm.take();
        assert!(!is_readable_within(&alarm, 50));
        alarm.set(Some(Instant::now()));
        assert!(is_readable_within(&alarm, 5000));
        alarm.set(None);
        assert!(!is_readable_within(&alarm, 0), "or set anew");
    }

    #[test]
    fn it_rings_until_it_rests() {
        let mut alarm = Alarm::new().unwrap();
        alarm.set(Some(Instant::now() + Duration::from_secs(3600)));
        alarm.ring();
        assert!(is_readable_within(&alarm, 5000));
        alarm.take();
        alarm.set(Some(Instant::now() + Duration::from_millis(20)));
        assert!(is_readable_within(&alarm, 0), "whoever takes what is due");
        alarm.rest();
        assert!(!is_readable_within(&alarm, 0));
        assert!(is_readable_within(&alarm, 5000), "what was set meanwhile is not lost");
    }
}
