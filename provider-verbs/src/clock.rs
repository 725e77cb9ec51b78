//! PENDING. What a thread sleeps on: one epoll descriptor over the device's and the connection
//! manager's, with a clock in it.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use fabric_core::Result;
use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    },
};

/// What can be ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Events of connections.
    pub(crate) connections: bool,
    /// Events of the device.
    pub(crate) device: bool,
    /// The time that the alarm was set to.
    pub(crate) clock: bool,
}

const CLOCK: u64 = 0;
const COMPLETIONS: u64 = 1;
const CONNECTIONS: u64 = 2;
const DEVICE: u64 = 3;

/// The epoll descriptor and its clock.
#[derive(Debug)]
pub(crate) struct Clock {
    epoll: OwnedFd,
    timer: OwnedFd,
    alarm: Option<Instant>,
}

impl Clock {
    /// Opens one that watches connections.
    pub(crate) fn new(connections: BorrowedFd<'_>) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let clock = Self { epoll, timer, alarm: None };
        clock.watch(clock.timer.as_fd(), CLOCK)?;
        clock.watch(connections, CONNECTIONS)?;
        Ok(clock)
    }

    /// Watches completions, too, and a device's events.
    pub(crate) fn watch_device(
        &self,
        completions: BorrowedFd<'_>,
        device: BorrowedFd<'_>,
    ) -> Result<()> {
        self.watch(completions, COMPLETIONS)?;
        self.watch(device, DEVICE)
    }

    fn watch(&self, fd: BorrowedFd<'_>, token: u64) -> Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// What is ready now.
    pub(crate) fn ready(&mut self) -> Ready {
        let mut events = [const { MaybeUninit::uninit() }; 4];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut ready = Ready::default();
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&zero)) else {
            return ready;
        };
        for event in events.iter() {
            match event.data.u64() {
                CLOCK => {
                    let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
                    self.alarm = None;
                    ready.clock = true;
                }
                CONNECTIONS => ready.connections = true,
                DEVICE => ready.device = true,
                // Whoever looks at the queues takes their events.
                _ => {}
            }
        }
        ready
    }

    /// Makes the descriptor readable at this time, once.
    pub(crate) fn set_alarm(&mut self, at: Option<Instant>) {
        if self.alarm == at {
            return;
        }
        self.alarm = at;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let left = at.map(|at| at.saturating_duration_since(Instant::now()));
        // A time of zero would stop the clock.
        let time = |left: Duration| Timespec {
            tv_sec: left.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: i64::from(left.subsec_nanos()).max(1),
        };
        let time = Itimerspec { it_interval: zero, it_value: left.map_or(zero, time) };
        // The time is a valid one, so there is nothing to refuse.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time);
    }

    /// The descriptor's number.
    pub(crate) fn raw(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_off_once() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut clock = Clock::new(reader.as_fd()).unwrap();
        assert_eq!(clock.ready(), Ready::default());
        clock.set_alarm(Some(Instant::now()));
        while !clock.ready().clock {
            std::thread::yield_now();
        }
        assert_eq!(clock.ready(), Ready::default());
        rustix::io::write(&writer, b"x").unwrap();
        assert!(clock.ready().connections);
    }
}
