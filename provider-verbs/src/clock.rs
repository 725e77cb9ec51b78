//! PENDING. What a thread sleeps on: one epoll descriptor over the device's and the connection
//! manager's, with a clock in it.

use std::os::fd::{AsFd, BorrowedFd, RawFd};

use fabric_core::{
    Result,
    wait::{Alarm, WaitSet},
};

/// What can be ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Events of connections.
    pub(crate) connections: bool,
    /// Events of the device.
    pub(crate) device: bool,
    /// The time that the alarm was set to, or a bell.
    pub(crate) clock: bool,
}

const CLOCK: u64 = 0;
const COMPLETIONS: u64 = 1;
const CONNECTIONS: u64 = 2;
const DEVICE: u64 = 3;

/// The descriptors and the clock.
#[derive(Debug)]
pub(crate) struct Clock {
    set: WaitSet,
    alarm: Alarm,
}

impl Clock {
    /// Opens one that watches connections.
    pub(crate) fn new(connections: BorrowedFd<'_>) -> Result<Self> {
        let clock = Self { set: WaitSet::new()?, alarm: Alarm::new()? };
        clock.set.add(clock.alarm.as_fd(), CLOCK)?;
        clock.set.add(connections, CONNECTIONS)?;
        Ok(clock)
    }

    /// Watches completions, too, and a device's events.
    pub(crate) fn watch_device(
        &self,
        completions: BorrowedFd<'_>,
        device: BorrowedFd<'_>,
    ) -> Result<()> {
        self.set.add(completions, COMPLETIONS)?;
        self.set.add(device, DEVICE)
    }

    /// What is ready now.
    pub(crate) fn ready(&mut self) -> Ready {
        let mut ready = Ready::default();
        self.set.ready::<4>(|token, _| match token {
            CLOCK => ready.clock = true,
            CONNECTIONS => ready.connections = true,
            DEVICE => ready.device = true,
            // Whoever looks at the queues takes their events.
            _ => {}
        });
        if ready.clock {
            self.alarm.take();
        }
        ready
    }

    /// The clock in it, which makes the descriptor readable, too.
    pub(crate) const fn alarm(&mut self) -> &mut Alarm {
        &mut self.alarm
    }

    /// The descriptor's number.
    pub(crate) fn raw(&self) -> RawFd {
        self.set.raw()
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
        clock.alarm().set(Some(std::time::Instant::now()));
        while !clock.ready().clock {
            std::thread::yield_now();
        }
        assert_eq!(clock.ready(), Ready::default());
        rustix::io::write(&writer, b"x").unwrap();
        assert!(clock.ready().connections);
    }
}
