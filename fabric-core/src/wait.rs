//! PENDING. Descriptors to sleep on: the one place in this crate that makes system calls, because
//! every provider's queues sleep in the same way.

mod alarm;
mod blocked;
#[cfg_attr(loom, path = "wait/modelled.rs")]
mod signal;
mod sleepers;
mod timer;

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{
        PollFd, PollFlags, Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
        poll,
    },
    io::Errno as Sys,
    thread::nanosleep,
};

use crate::{Errno, Result, fork::Owner};
pub use alarm::Alarm;
pub(crate) use blocked::{Blocked, Blocking};
pub use signal::Signal;
pub use sleepers::{Bell, Sleepers};
use timer::Timer;

/// An epoll descriptor over a queue's own signal and the descriptors of its endpoints.
#[derive(Debug)]
pub struct WaitSet {
    epoll: OwnedFd,
    /// A forked child shares what is watched with its parent, and must not change it.
    owner: Owner,
}

impl WaitSet {
    /// Opens one, close-on-exec.
    pub fn new() -> Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, owner: Owner::here() })
    }

    /// Watches `fd` for reading. Watching one twice is harmless.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> Result<()> {
        match epoll::add(&self.epoll, fd, EventData::new_u64(token), EventFlags::IN) {
            Ok(()) | Err(Sys::EXIST) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Stops watching.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        if self.owner.is_here() {
            // Not watched any more is what was asked for.
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    /// The tokens that are ready now, at most `N`, without sleeping.
    pub fn ready<const N: usize>(&self, mut each: impl FnMut(u64, bool)) -> usize {
        let mut events = [const { core::mem::MaybeUninit::uninit() }; N];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&zero)) else { return 0 };
        for event in events.iter() {
            let flags = event.flags;
            let hang_up = flags.intersects(EventFlags::HUP | EventFlags::ERR);
            each(event.data.u64(), hang_up);
        }
        events.len()
    }

    /// The descriptor's number, for applications that poll it themselves.
    pub fn raw(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

impl AsFd for WaitSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Sleeps until `fd` is readable or the deadline passes. `Err(EAGAIN)` when it passed or a signal
/// arrived, as blocking reads report both (`fi_cq(3)`).
pub fn sleep_on(fd: BorrowedFd<'_>, deadline: Deadline) -> Result<()> {
    let left = deadline.left();
    let timeout = left.map(|d| Timespec {
        tv_sec: d.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: d.subsec_nanos().into(),
    });
    match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], timeout.as_ref()) {
        Ok(0) | Err(Sys::INTR) => Err(Errno::EAGAIN),
        Ok(_) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Sleeps for that long, or until a signal arrives or the deadline passes: for who has no descriptor to
/// sleep on. Like all that sleeps here no point at which C's threads are cancelled, since
/// `pthread_cancel()` cannot unwind this library's frames.
pub(crate) fn nap(time: Duration, deadline: Deadline) {
    let time = deadline.left().map_or(time, |left| left.min(time));
    let tv_sec = time.as_secs().min(i32::MAX as u64) as i64;
    // Whoever naps looks again, whatever has ended it.
    let _ = nanosleep(&Timespec { tv_sec, tv_nsec: time.subsec_nanos().into() });
}

/// When a blocking call gives up.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// From the C interface's milliseconds; negative means never.
    pub fn from_millis(timeout: i32) -> Self {
        Self(u64::try_from(timeout).ok().map(|ms| Instant::now() + Duration::from_millis(ms)))
    }

    /// Time that is left, `None` for ever.
    pub fn left(&self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether it has passed.
    pub fn passed(&self) -> bool {
        self.left().is_some_and(|d| d.is_zero())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn never() -> Deadline {
        Deadline::from_millis(-1)
    }

    #[test]
    fn deadlines() {
        assert_eq!((never().left(), never().passed()), (None, false));
        assert_eq!(Deadline::from_millis(i32::MIN).left(), None);
        assert!(Deadline::from_millis(0).passed());
        let far = Deadline::from_millis(i32::MAX);
        assert!(!far.passed() && far.left().unwrap() > Duration::from_secs(2_000_000));
    }

    #[test]
    fn a_sleep_ends_by_signal_or_deadline() {
        let (signal, set) = (Signal::new().unwrap(), WaitSet::new().unwrap());
        set.add(signal.as_fd(), 7).unwrap();
        set.add(signal.as_fd(), 7).unwrap();
        let start = Instant::now();
        assert_eq!(sleep_on(set.as_fd(), Deadline::from_millis(20)), Err(Errno::EAGAIN));
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert_eq!(sleep_on(set.as_fd(), Deadline::from_millis(0)), Err(Errno::EAGAIN));
        std::thread::scope(|scope| {
            scope.spawn(|| signal.set());
            assert_eq!(sleep_on(set.as_fd(), never()), Ok(()));
        });
        signal.set();
        let mut tokens = Vec::new();
        assert_eq!(set.ready::<4>(|token, hang_up| tokens.push((token, hang_up))), 1);
        assert_eq!(tokens, [(7, false)]);
        signal.clear();
        signal.clear();
        assert_eq!(sleep_on(signal.as_fd(), Deadline::from_millis(0)), Err(Errno::EAGAIN));
        signal.set();
        set.remove(signal.as_fd());
        set.remove(signal.as_fd());
        assert_eq!(sleep_on(set.as_fd(), Deadline::from_millis(0)), Err(Errno::EAGAIN));
    }
}
