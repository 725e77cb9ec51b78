//! HOT. Waiting, as tasks and as threads.
//!
//! Whoever waits for one thing, thread or task, makes progress for all that share a queue, and wakes
//! those that the news are for. [`WaitingRoom::poll`] is the way of tasks, [`WaitingRoom::wait`] that of
//! threads, of which one at a time sleeps on the queue's descriptor.

mod sleep;

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use fabric_core::{Errno, waiters::Waiters};

use self::sleep::Bell;
use crate::{
    error::{Error, Result},
    reactor::{Reactor, Readiness},
};

/// Times that a task looks again before it lets others go on.
const PATIENCE: usize = 64;

/// What is waited at.
pub(crate) trait News {
    /// Makes progress, and hands on what has happened. Whether anything has.
    fn drive(&self) -> bool;
    /// Makes progress and prepares for sleeping on the descriptor; `false` means drive first.
    fn try_wait(&self) -> bool;
    /// Something is to be tried again that no descriptor tells of.
    fn is_impatient(&self) -> bool;
}

/// Those who wait at one descriptor.
#[derive(Debug)]
pub(crate) struct WaitingRoom {
    waiters: Arc<Waiters>,
    /// The waker of `waiters`, for the reactor.
    everybody: Waker,
    /// Held by the one thread that sleeps on `descriptor`.
    sleeper: Mutex<()>,
    bell: Arc<Bell>,
    descriptor: OwnedFd,
    source: Option<Box<dyn Readiness>>,
}

impl WaitingRoom {
    pub(crate) fn open(descriptor: OwnedFd, reactor: Option<&dyn Reactor>) -> Result<Self> {
        let source = reactor
            .map(|reactor| reactor.register(descriptor.try_clone()?))
            .transpose()
            .map_err(|e| {
            let errno = Errno::new(e.raw_os_error().unwrap_or(Errno::EOTHER.get()));
            Error::Refused { call: "register with the reactor", errno }
        })?;
        let waiters = Arc::new(Waiters::default());
        Ok(Self {
            everybody: waiters.clone().into(),
            waiters,
            sleeper: Mutex::new(()),
            bell: Bell::open().map_err(Error::refused("open something to sleep on"))?,
            descriptor,
            source,
        })
    }

    /// What is waited for at this place is there.
    #[inline]
    pub(crate) fn wake_one(&self, place: u32) {
        self.waiters.wake_one(place);
    }

    /// Everybody is to look.
    pub(crate) fn wake_all(&self) {
        self.waiters.wake_all();
    }

    /// Nobody waits at this place any more.
    pub(crate) fn remove(&self, place: u32) {
        self.waiters.remove(place);
    }

    /// Waits until `ready` has something, as a task. `place` is where it waits.
    pub(crate) fn poll<R>(
        &self,
        news: &impl News,
        cx: &mut Context<'_>,
        place: u32,
        mut ready: impl FnMut() -> Option<R>,
    ) -> Poll<R> {
        if let Some(done) = ready() {
            return Poll::Ready(done);
        }
        news.drive();
        if let Some(done) = ready() {
            return Poll::Ready(done);
        }
        self.waiters.add(place, cx.waker());
        let done = ready().or_else(|| self.poll_source(news, cx, &mut ready));
        match done {
            Some(done) => {
                self.waiters.remove(place);
                Poll::Ready(done)
            }
            None => Poll::Pending,
        }
    }

    /// Waits for news in the reactor's way. `None`: somebody is woken when there are some.
    fn poll_source<R>(
        &self,
        news: &impl News,
        cx: &mut Context<'_>,
        ready: &mut impl FnMut() -> Option<R>,
    ) -> Option<R> {
        let Some(source) = &self.source else {
            cx.waker().wake_by_ref();
            return None;
        };
        let mut reactor = Context::from_waker(&self.everybody);
        for _ in 0..PATIENCE {
            let quiet = !news.is_impatient() && news.try_wait();
            if quiet && source.poll_readable(&mut reactor).is_pending() {
                return None;
            }
            // The reactor has forgotten its waker; who else waits looks again, and gives it anew.
            news.drive();
            if let Some(done) = ready() {
                self.waiters.wake_all();
                return Some(done);
            }
        }
        // Others may have something to do that this depends on.
        cx.waker().wake_by_ref();
        None
    }
}
