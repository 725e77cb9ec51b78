//! PENDING. Threads that wait.

use std::{
    os::fd::AsFd,
    sync::{Arc, TryLockError},
    task::{Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use fabric_core::wait::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{News, WaitingRoom};

/// How long a thread looks before it sleeps: what a peer that is awake needs to answer.
const SPIN: Duration = Duration::from_micros(20);

/// The longest sleep while operations wait for room that no descriptor tells of.
const NAP: Duration = Duration::from_millis(1);

/// Wakes the thread that sleeps on a queue's descriptor: whoever takes a completion that is that
/// thread's cannot unpark it.
#[derive(Debug)]
pub(super) struct Bell(Signal);

impl Bell {
    pub(super) fn open() -> fabric_core::Result<Arc<Self>> {
        Signal::new().map(|signal| Arc::new(Self(signal)))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.set();
    }
}

/// The waker of a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Arc::new(Unpark(thread::current())).into();
}

impl WaitingRoom {
    /// Waits until `ready` has something, as a thread; `None` when the deadline passes.
    pub(crate) fn wait<R>(
        &self,
        news: &impl News,
        deadline: Option<Instant>,
        place: u32,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        let begin = Instant::now();
        loop {
            if let Some(done) = ready() {
                return Some(done);
            }
            if !news.drive() {
                let now = Instant::now();
                if deadline.is_some_and(|deadline| deadline <= now) {
                    return ready();
                }
                if now - begin > SPIN {
                    break;
                }
                core::hint::spin_loop();
            }
        }
        let done = WAKER.with(|waker| self.sleep(news, waker, deadline, place, &mut ready));
        self.waiters.remove(place);
        // Somebody else is to sleep on the descriptor now.
        self.waiters.wake_all();
        done
    }

    fn sleep<R>(
        &self,
        news: &impl News,
        waker: &Waker,
        deadline: Option<Instant>,
        place: u32,
        ready: &mut impl FnMut() -> Option<R>,
    ) -> Option<R> {
        loop {
            self.waiters.add(place, waker);
            news.drive();
            if let Some(done) = ready() {
                return Some(done);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            match self.sleeper.try_lock() {
                Err(TryLockError::WouldBlock) => park(left),
                // It guards nothing but the turn, so a poisoned one is as good as any.
                Ok(_) | Err(TryLockError::Poisoned(_)) => {
                    self.bell.0.clear();
                    self.waiters.add(place, &self.bell.clone().into());
                    if let Some(done) = ready() {
                        return Some(done);
                    }
                    self.sleep_on_descriptor(news, left);
                }
            }
        }
    }

    fn sleep_on_descriptor(&self, news: &impl News, left: Option<Duration>) {
        let left = match news.is_impatient() {
            true => Some(left.map_or(NAP, |left| left.min(NAP))),
            false => left,
        };
        if !news.try_wait() {
            return;
        }
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().min(i32::MAX as u64) as i64,
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut descriptors = [self.descriptor.as_fd(), self.bell.0.as_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        // Whatever ends the sleep, the caller looks again.
        let _ = poll(&mut descriptors, timeout.as_ref());
    }
}

fn park(left: Option<Duration>) {
    match left {
        Some(left) => thread::park_timeout(left),
        None => thread::park(),
    }
}
