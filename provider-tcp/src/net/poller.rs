//! PENDING. One epoll descriptor for all sockets of an engine, with a clock in it, so that it can be
//! slept on alone.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use fabric_core::{Result, fork::NotInherited, log::Subsys, shortage::explained, wait::Alarm};
use rustix::event::{
    Timespec,
    epoll::{self, CreateFlags, EventData, EventFlags},
};

use super::{Interest, Ready};

/// Handed over in one call at most.
const EVENTS: usize = 64;
/// A token of our own; the engine's are handles and never that large.
const CLOCK: u64 = u64::MAX;

/// The epoll descriptor. A forked child has neither it nor the clock, which would be its parent's.
#[derive(Debug)]
pub(crate) struct Poller {
    /// Dropped before the descriptors.
    _not_inherited: [NotInherited; 2],
    epoll: OwnedFd,
    clock: Alarm,
}

fn flags(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    if interest.read {
        flags |= EventFlags::IN | EventFlags::RDHUP;
    }
    if interest.end {
        flags |= EventFlags::RDHUP;
    }
    if interest.write {
        flags |= EventFlags::OUT;
    }
    flags
}

impl Poller {
    /// Opens one, close-on-exec.
    pub(crate) fn new() -> Result<Self> {
        Self::open().inspect_err(|reason| {
            let reason = explained(*reason);
            fabric_core::warn_few!("tcp", Subsys::EpCtrl, "no endpoint can be opened: {reason}");
        })
    }

    fn open() -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let clock = Alarm::new()?;
        epoll::add(&epoll, clock.as_fd(), EventData::new_u64(CLOCK), EventFlags::IN)?;
        let not_inherited = [epoll.as_fd(), clock.as_fd()].map(NotInherited::new);
        Ok(Self { _not_inherited: not_inherited, epoll, clock })
    }

    /// Watches a descriptor until it is closed.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token), flags(interest))?)
    }

    /// Other interest in a watched descriptor.
    pub(crate) fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) {
        // It is watched, so the kernel has nothing to refuse.
        let _ = epoll::modify(&self.epoll, fd, EventData::new_u64(token), flags(interest));
    }

    /// Stops watching.
    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) {
        // Not watched any more is what was asked for.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Appends what is ready. `true`: the clock may have gone off, and is not set any more.
    pub(crate) fn ready(&mut self, out: &mut Vec<Ready>) -> bool {
        let mut events = [const { MaybeUninit::uninit() }; EVENTS];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&zero)) else {
            return false;
        };
        let mut rang = false;
        for event in events.iter() {
            let bits = event.flags;
            match event.data.u64() {
                CLOCK => {
                    rang = true;
                    self.clock.take();
                }
                token => {
                    // Whoever reads or writes learns the reason.
                    let broken = bits.intersects(EventFlags::ERR | EventFlags::HUP);
                    let ended = broken || bits.contains(EventFlags::RDHUP);
                    out.push(Ready {
                        token,
                        read: ended || bits.contains(EventFlags::IN),
                        write: broken || bits.contains(EventFlags::OUT),
                        ended,
                    });
                }
            }
        }
        rang
    }

    /// The clock in it, which makes the descriptor readable, too.
    pub(crate) const fn alarm(&mut self) -> &mut Alarm {
        &mut self.clock
    }

    /// The descriptor's number.
    pub(crate) fn raw(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}
