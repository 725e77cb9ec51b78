//! PENDING. One epoll descriptor for all sockets of an engine, with a clock and a bell in it, so
//! that it can be slept on alone.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    time::Instant,
};

use fabric_core::{Result, wait::Signal};
use rustix::{
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    io::Errno,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    },
};

use super::{Interest, Ready};

/// Handed over in one call at most.
const EVENTS: usize = 64;
/// Tokens of our own; the engine's are handles and never that large.
const BELL: u64 = u64::MAX;
const CLOCK: u64 = u64::MAX - 1;
const NONE: Interest = Interest { read: false, write: false };

/// The epoll descriptor.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    bell: Signal,
    /// Opened when there is first something to wait for.
    clock: Option<OwnedFd>,
    /// When the clock goes off.
    alarm: Option<Instant>,
}

fn flags(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    if interest.read {
        flags |= EventFlags::IN | EventFlags::RDHUP;
    }
    if interest.write {
        flags |= EventFlags::OUT;
    }
    flags
}

impl Poller {
    /// Opens one, close-on-exec.
    pub(crate) fn new() -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = Signal::new()?;
        epoll::add(&epoll, bell.as_fd(), EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Self { epoll, bell, clock: None, alarm: None })
    }

    /// Watches a descriptor until it is closed.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), flags(interest))?)
    }

    /// Other interest in a watched descriptor.
    pub(crate) fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) {
        // An end is told whatever the interest, and again with every look: a stream whose bytes have
        // to wait would keep everybody awake.
        if interest == NONE {
            return self.forget(fd);
        }
        let (token, flags) = (EventData::new_u64(token), flags(interest));
        if epoll::modify(&self.epoll, fd, token, flags) == Err(Errno::NOENT) {
            let _ = epoll::add(&self.epoll, fd, token, flags);
        }
    }

    /// Stops watching.
    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) {
        // Not watched any more is what was asked for.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Appends what is ready.
    pub(crate) fn ready(&mut self, out: &mut Vec<Ready>) {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&zero)) else { return };
        for event in events.iter() {
            let bits = event.flags;
            match event.data.u64() {
                BELL => self.bell.clear(),
                CLOCK => self.silence(),
                token => {
                    // Whoever reads or writes learns the reason.
                    let ended = bits.intersects(EventFlags::ERR | EventFlags::HUP);
                    out.push(Ready {
                        token,
                        read: ended || bits.intersects(EventFlags::IN | EventFlags::RDHUP),
                        write: ended || bits.contains(EventFlags::OUT),
                    });
                }
            }
        }
    }

    /// Makes the descriptor readable at this time.
    pub(crate) fn set_alarm(&mut self, at: Option<Instant>) {
        if self.alarm == at || self.open_clock().is_err() {
            return;
        }
        self.alarm = at;
        let Some(clock) = &self.clock else { return };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let left = at.map(|at| at.saturating_duration_since(Instant::now()));
        // A time of zero would stop the clock.
        let it_value = left.map_or(zero, |left| Timespec {
            tv_sec: left.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: i64::from(left.subsec_nanos()).max(1),
        });
        let time = Itimerspec { it_interval: zero, it_value };
        let _ = timerfd_settime(clock, TimerfdTimerFlags::empty(), &time);
    }

    fn open_clock(&mut self) -> Result<()> {
        if self.clock.is_none() {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let clock = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            epoll::add(&self.epoll, &clock, EventData::new_u64(CLOCK), EventFlags::IN)?;
            self.clock = Some(clock);
        }
        Ok(())
    }

    fn silence(&mut self) {
        self.alarm = None;
        if let Some(clock) = &self.clock {
            let _ = rustix::io::read(clock, &mut [0u8; 8]);
        }
    }

    /// Makes the descriptor readable until the next [`Poller::ready`].
    pub(crate) fn wake(&self) {
        self.bell.set();
    }

    /// The descriptor's number.
    pub(crate) fn raw(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
