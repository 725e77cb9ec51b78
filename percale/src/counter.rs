//! HOT. Counters: how many operations have ended, without saying which.

use core::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use fabric_core::{
    attr::CntrEvents,
    slab::{Handle, Slab},
};

use crate::{
    dispatch::{Any, CounterCalls, Provider, Threads},
    domain::Domain,
    error::{Error, Result},
    waiting::{News, WaitingRoom},
};

/// Counts operations of endpoints that have been opened with it
/// ([`EndpointBuilder::counting`](crate::EndpointBuilder::counting)), or their bytes.
///
/// ```
/// use percale::{Fabric, flags::Flags};
///
/// # fn main() -> percale::Result<()> {
/// let domain = Fabric::loopback()?.domain()?;
/// let received = domain.counter()?;
/// let (one, two) = (domain.endpoint()?, domain.builder().counting(&received, Flags::RECV).open()?);
/// let peer = domain.peer(&two.address()?)?;
/// let receives: Vec<_> = (0..10).map(|_| two.recv(vec![0u8; 8])).collect();
/// for _ in 0..10 {
///     one.send(peer, "counted").detach();
/// }
/// received.wait(10)?;
/// assert_eq!((received.value(), received.failures()), (10, 0));
/// # drop(receives);
/// # Ok(())
/// # }
/// ```
pub struct Counter<P: Provider = Any> {
    inner: Arc<CounterInner<P>>,
}

pub(crate) struct CounterInner<P: Provider> {
    pub(crate) calls: P::Counter,
    room: WaitingRoom,
    /// Those who wait.
    places: Mutex<Slab<()>>,
    /// The two values when somebody looked last, added up.
    seen: AtomicU64,
    marker: PhantomData<<P::Threads as Threads>::Marker>,
}

impl<P: Provider> Domain<P> {
    /// A counter of operations.
    pub fn counter(&self) -> Result<Counter<P>> {
        self.open_counter(CntrEvents::Comp)
    }

    /// A counter of bytes.
    pub fn byte_counter(&self) -> Result<Counter<P>> {
        self.open_counter(CntrEvents::Bytes)
    }

    fn open_counter(&self, events: CntrEvents) -> Result<Counter<P>> {
        let refused = |errno| Error::Refused { call: "open a counter", errno };
        let domain = self.inner();
        let calls = P::open_counter(domain.kind, events).map_err(refused)?;
        let descriptor = calls.descriptor().map_err(refused)?;
        let room = WaitingRoom::open(descriptor, domain.reactor.as_deref())?;
        let (places, seen, marker) =
            (Mutex::new(Slab::new(usize::MAX)), AtomicU64::new(0), PhantomData);
        Ok(Counter { inner: Arc::new(CounterInner { calls, room, places, seen, marker }) })
    }
}

impl<P: Provider> Counter<P> {
    /// Successes so far. Makes progress.
    pub fn value(&self) -> u64 {
        self.inner.calls.read()
    }

    /// Failures so far. Makes progress.
    pub fn failures(&self) -> u64 {
        self.inner.calls.read_error()
    }

    /// Adds to the successes.
    pub fn add(&self, n: u64) {
        self.inner.calls.add(n);
    }

    /// Waits until there are so many successes.
    ///
    /// # Errors
    /// [`Error::Failed`] with `EAVAIL` when there are more failures than before.
    pub fn wait(&self, successes: u64) -> Result<()> {
        self.wait_until(successes, None).unwrap_or(Ok(()))
    }

    /// The same, at most so long; `None` if it takes longer.
    pub fn wait_timeout(&self, successes: u64, limit: Duration) -> Option<Result<()>> {
        self.wait_until(successes, Instant::now().checked_add(limit))
    }

    /// The same as a future.
    pub fn reached(&self, successes: u64) -> Reached<'_, P> {
        Reached { counter: &self.inner, goal: self.goal(successes), place: None }
    }

    pub(crate) const fn inner(&self) -> &Arc<CounterInner<P>> {
        &self.inner
    }

    fn goal(&self, successes: u64) -> Goal {
        Goal { successes, failures: self.inner.calls.read_error() }
    }

    fn wait_until(&self, successes: u64, deadline: Option<Instant>) -> Option<Result<()>> {
        let (inner, goal) = (&*self.inner, self.goal(successes));
        let place = inner.take_place();
        let done = inner.room.wait(inner, deadline, place.index(), || inner.outcome(goal));
        inner.places().remove(place);
        done
    }
}

/// What is waited for: so many successes, or more failures than these.
#[derive(Clone, Copy)]
struct Goal {
    successes: u64,
    failures: u64,
}

impl<P: Provider> CounterInner<P> {
    fn outcome(&self, goal: Goal) -> Option<Result<()>> {
        if self.calls.read() >= goal.successes {
            return Some(Ok(()));
        }
        let failed = self.calls.read_error() != goal.failures;
        let (errno, data) = (fabric_core::Errno::EAVAIL, Box::default());
        failed.then_some(Err(Error::Failed { errno, data }))
    }

    fn take_place(&self) -> Handle {
        // Of four thousand million places the first one can be shared.
        const FIRST: Handle = Handle::from_raw(0);
        self.places().insert(()).unwrap_or(FIRST)
    }

    // Places are taken and left in one step, so a poisoned lock is as good as any.
    fn places(&self) -> MutexGuard<'_, Slab<()>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Provider> News for CounterInner<P> {
    fn drive(&self) -> bool {
        let now = self.calls.read().wrapping_add(self.calls.read_error());
        let changed = self.seen.swap(now, Ordering::Relaxed) != now;
        if changed {
            // Who of them is satisfied they know themselves.
            self.room.wake_all();
        }
        changed
    }

    fn try_wait(&self) -> bool {
        self.calls.try_wait().unwrap_or(false)
    }

    fn is_impatient(&self) -> bool {
        false
    }
}

/// The future of a number of successes.
#[must_use = "futures do nothing unless they are polled"]
pub struct Reached<'a, P: Provider> {
    counter: &'a CounterInner<P>,
    goal: Goal,
    place: Option<Handle>,
}

impl<P: Provider> Future for Reached<'_, P> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let (counter, goal) = (self.counter, self.goal);
        let place = *self.place.get_or_insert_with(|| counter.take_place());
        counter.room.poll(counter, cx, place.index(), || counter.outcome(goal))
    }
}

impl<P: Provider> Drop for Reached<'_, P> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.counter.room.remove(place.index());
            self.counter.places().remove(place);
        }
    }
}

impl<P: Provider> Clone for Counter<P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<P: Provider> fmt::Debug for Counter<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<P: Provider> fmt::Debug for CounterInner<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl<P: Provider> fmt::Debug for Reached<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reached").field("successes", &self.goal.successes).finish_non_exhaustive()
    }
}
