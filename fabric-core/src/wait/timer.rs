//! PENDING. A clock to sleep on.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::Timespec,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    },
};

use crate::Result;

/// A timerfd: readable from the time that it is set to until it is set anew.
#[derive(Debug)]
pub(super) struct Timer(OwnedFd);

impl Timer {
    /// Opens one, close-on-exec, that is not set.
    pub(super) fn new() -> Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, flags)?))
    }

    /// Sets it to so much later, or stops it.
    pub(super) fn set(&self, left: Option<Duration>) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // A time of zero would stop it.
        let it_value = left.map_or(zero, |left| Timespec {
            tv_sec: left.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: i64::from(left.subsec_nanos()).max(1),
        });
        let time = Itimerspec { it_interval: zero, it_value };
        // The time is a valid one, so there is nothing to refuse.
        let _ = timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &time);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
