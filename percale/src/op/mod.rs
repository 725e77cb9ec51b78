//! HOT. Operations: futures that own their buffers, and that threads can wait for.

mod parked;
mod request;
pub(crate) mod tasks;

use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{sync::Arc, time::Instant};

use fabric_core::{
    Errno,
    completion::{CqError, Entry},
    slab::Handle,
};

pub use self::tasks::{Fetching, Reading, Received, Receiving, Sending};
pub(crate) use self::{
    parked::Parked,
    request::{Request, Way},
};
use crate::{
    dispatch::Provider,
    domain::DomainInner,
    endpoint::EndpointInner,
    queue::{Outcome, Poster, Queue},
    registered::Known,
    shared_receive::SharedReceiveInner,
};

/// What an operation does with its buffers when it has ended. Programs do not implement it.
pub trait Task: Send + Sized + 'static {
    /// What waiting for the operation gives.
    type Output;
    /// Gives the buffers back.
    #[doc(hidden)]
    fn finish(self, source: Source<'_>, outcome: Result<Entry, CqError>) -> Self::Output;
}

/// Names the peers that completions tell of.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Source<'a>(pub(crate) &'a crate::address::PeerSpace);

/// What an operation was started on, which stays open as long.
pub(crate) enum Origin<P: Provider> {
    Endpoint(Arc<EndpointInner<P>>),
    Shared(Arc<SharedReceiveInner<P>>),
}

impl<P: Provider> Origin<P> {
    #[inline]
    fn queue(&self) -> &Queue<P> {
        match self {
            Self::Endpoint(endpoint) => &endpoint.queue,
            Self::Shared(receive) => &receive.queue,
        }
    }

    fn domain(&self) -> &DomainInner<P> {
        match self {
            Self::Endpoint(endpoint) => &endpoint.domain,
            Self::Shared(receive) => &receive.domain,
        }
    }

    fn poster(&self) -> Poster<'_, P> {
        match self {
            Self::Endpoint(endpoint) => endpoint.poster(),
            Self::Shared(receive) => Poster::Shared(&receive.calls),
        }
    }
}

/// An operation under way. It has been started, whether or not anybody waits.
///
/// It is a future, and a thread can wait for it with [`Op::wait`]. Either gives the buffers back, also
/// where the operation has failed.
///
/// **Dropping** it takes the operation back as far as possible: a receive that no message has matched
/// receives none. What has begun goes on, and the library keeps the buffers until it has ended.
/// **Forgetting** it leaks the buffers and the endpoint.
///
/// ```
/// # fn main() -> percale::Result<()> {
/// let domain = percale::Fabric::loopback()?.domain()?;
/// let (one, two) = (domain.endpoint()?, domain.endpoint()?);
/// let peer = domain.peer(&two.address()?)?;
///
/// let receive = two.recv(Vec::<u8>::with_capacity(100));
/// one.send(peer, "hello").wait()?;
/// let received = receive.wait()?;
/// assert_eq!(received.buffer, b"hello");
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping an operation takes it back"]
pub struct Op<P: Provider, T: Task> {
    origin: Origin<P>,
    /// `None` if it never began, and the reason.
    key: Result<Handle, Errno>,
    /// How a device knows the buffers; dropped before them.
    known: Option<Known>,
    /// `None` once the outcome has been given.
    task: Option<T>,
}

impl<P: Provider, T: Task> Op<P, T> {
    pub(crate) fn new(
        origin: Origin<P>,
        started: Result<(Handle, Option<Known>), Errno>,
        task: T,
    ) -> Self {
        let (key, known) = match started {
            Ok((key, known)) => (Ok(key), known),
            Err(errno) => (Err(errno), None),
        };
        Self { origin, key, known, task: Some(task) }
    }

    /// Waits, without a limit.
    pub fn wait(self) -> T::Output {
        match self.wait_until(None) {
            Ok(done) => done,
            Err(_) => unreachable!("a wait without a deadline ends with the operation"),
        }
    }

    /// Waits at most so long. The operation comes back if it takes longer, and goes on.
    pub fn wait_timeout(self, limit: Duration) -> Result<T::Output, Self> {
        // A time that no clock will show is no limit.
        self.wait_until(Instant::now().checked_add(limit))
    }

    /// Waits until then. The operation comes back if it takes longer, and goes on.
    pub fn wait_deadline(self, deadline: Instant) -> Result<T::Output, Self> {
        self.wait_until(Some(deadline))
    }

    /// Makes progress without waiting. The operation comes back if it has not ended.
    pub fn test(self) -> Result<T::Output, Self> {
        self.wait_until(Some(Instant::now()))
    }

    /// Takes the operation back as far as possible, without giving it up: waiting for it tells whether
    /// that was in time ([`Error::Cancelled`](crate::Error::Cancelled)).
    pub fn cancel(&self) {
        if let (Ok(key), Some(_)) = (self.key, &self.task) {
            self.origin.queue().cancel(self.origin.poster(), key);
        }
    }

    /// Lets it go on without anybody waiting. The library keeps the buffers until it has ended; whether
    /// it succeeds is nobody's business any more.
    pub fn detach(mut self) {
        if let (Ok(key), Some(task)) = (self.key, self.task.take()) {
            self.origin.queue().detach(key, Box::new((self.known.take(), task)));
        }
    }

    fn wait_until(mut self, deadline: Option<Instant>) -> Result<T::Output, Self> {
        let outcome = match self.key {
            Ok(key) => {
                let queue = self.origin.queue();
                queue.wait(deadline, key.index(), || queue.take(key))
            }
            Err(errno) => Some(Outcome::of(errno)),
        };
        match outcome {
            Some(outcome) => Ok(self.finish(outcome)),
            None => Err(self),
        }
    }

    fn finish(&mut self, outcome: Outcome) -> T::Output {
        let task = self.task.take().expect("an operation gives its outcome once");
        if let Some(known) = self.known.take() {
            known.settle(&outcome);
        }
        task.finish(Source(self.origin.domain().peers()), outcome.into())
    }
}

impl From<Outcome> for Result<Entry, CqError> {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done(entry) => Ok(entry),
            Outcome::Failed(error) => Err(*error),
        }
    }
}

/// What it owns moves with it, and what that points to does not.
impl<P: Provider, T: Task> Unpin for Op<P, T> {}

impl<P: Provider, T: Task> Future for Op<P, T> {
    type Output = T::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T::Output> {
        assert!(self.task.is_some(), "polled after it was ready");
        let outcome = match self.key {
            Ok(key) => {
                let queue = self.origin.queue();
                queue.poll(cx, key.index(), || queue.take(key))
            }
            Err(errno) => Poll::Ready(Outcome::of(errno)),
        };
        outcome.map(|outcome| self.finish(outcome))
    }
}

impl<P: Provider, T: Task> Drop for Op<P, T> {
    fn drop(&mut self) {
        if let (Ok(key), Some(task)) = (self.key, self.task.take()) {
            let kept = Box::new((self.known.take(), task));
            self.origin.queue().abandon(self.origin.poster(), key, kept);
        }
    }
}

impl<P: Provider, T: Task> fmt::Debug for Op<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Op").field("key", &self.key).finish_non_exhaustive()
    }
}
