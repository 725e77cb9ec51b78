//! HOT. Counters (`fi_cntr(3)`): a value of successes, a value of errors, and waiting for them.

use std::{
    fmt,
    os::fd::AsFd,
    sync::{Arc, PoisonError},
    time::Duration,
};

use super::ProgressSet;
use crate::{
    Errno, Result,
    api::Endpoint,
    attr::{CntrEvents, WaitObj},
    sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, fence},
    wait::{Blocked, Deadline, Signal, nap, sleep_on},
};

/// What `fi_cntr_open` takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterAttr {
    /// What to count.
    pub events: CntrEvents,
    /// What to sleep on.
    pub wait_obj: WaitObj,
}

/// The two values of a counter, as endpoints and regions bump them.
#[derive(Debug)]
pub struct CounterValue {
    success: AtomicU64,
    error: AtomicU64,
    bytes: bool,
    armed: AtomicBool,
    signal: Option<Signal>,
    /// Held while the signal is cleared, and set again for whoever it was meant for.
    sleepers: Mutex<Sleepers>,
}

/// Successes and errors.
pub(super) type Values = (u64, u64);

/// Who may sleep on a counter's signal, each for something else.
#[derive(Debug, Default)]
struct Sleepers {
    waiter: Option<Until>,
    /// The application was told that it may sleep until it is to read the counter.
    application: bool,
}

/// What ends a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Until {
    /// As many successes.
    pub(super) threshold: u64,
    /// Another number of errors.
    pub(super) errors: u64,
}

impl Until {
    fn is_met(self, (success, error): Values) -> bool {
        success >= self.threshold || error != self.errors
    }
}

/// What a thread in a wait does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// What it waits for has happened.
    Look,
    /// The signal stays set, since the application is to read the counter.
    Nap,
    /// The signal is for this thread.
    Sleep,
}

impl CounterValue {
    pub(crate) fn new(bytes: bool, signal: Option<Signal>) -> Self {
        Self {
            success: AtomicU64::new(0),
            error: AtomicU64::new(0),
            bytes,
            armed: AtomicBool::new(false),
            signal,
            sleepers: Mutex::new(Sleepers::default()),
        }
    }

    /// Counts one success of `bytes` bytes.
    #[inline]
    pub fn count(&self, bytes: u64) {
        // Release: pairs with the acquire load in `read`, so that a reader of the count sees the
        // data that it counts.
        self.success.fetch_add(if self.bytes { bytes } else { 1 }, Ordering::Release);
        self.ring();
    }

    /// Counts one failure.
    #[cold]
    pub fn count_error(&self) {
        self.error.fetch_add(1, Ordering::Release);
        self.ring();
    }

    #[inline]
    fn ring(&self) {
        if let Some(signal) = &self.signal {
            // Pairs with the fence in `arm`.
            fence(Ordering::SeqCst);
            if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
                signal.set();
            }
        }
    }

    /// Prepares the one thread in a wait for sleeping. `seen`: what the application has read.
    /// [`CounterValue::waited`] follows.
    pub(super) fn arm_waiter(&self, until: Until, seen: Values) -> Next {
        let mut sleepers = self.sleepers();
        sleepers.waiter = Some(until);
        let values = self.arm();
        let owed = sleepers.application && values != seen;
        if owed {
            self.signal.iter().for_each(Signal::set);
        }
        match (until.is_met(values), owed) {
            (true, _) => Next::Look,
            (false, true) => Next::Nap,
            (false, false) => Next::Sleep,
        }
    }

    /// The thread in a wait sleeps no more.
    pub(super) fn waited(&self) {
        self.sleepers().waiter = None;
    }

    /// Prepares the application for sleeping; `false` if it has not seen the present values.
    pub(super) fn arm_application(&self, seen: Values) -> bool {
        let mut sleepers = self.sleepers();
        let values = self.arm();
        sleepers.application = values == seen;
        if values != seen || sleepers.waiter.is_some_and(|until| until.is_met(values)) {
            self.signal.iter().for_each(Signal::set);
        }
        values == seen
    }

    /// Has the next change set the signal; the values before that.
    fn arm(&self) -> Values {
        self.signal.iter().for_each(Signal::clear);
        self.armed.store(true, Ordering::Relaxed);
        // Pairs with the fence in `ring`.
        fence(Ordering::SeqCst);
        (self.success(), self.error())
    }

    // What is written under it is single words, so a poisoned lock is as good as any.
    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn signal(&self) -> Option<&Signal> {
        self.signal.as_ref()
    }

    /// Sleeps as a model does.
    #[cfg(all(test, loom))]
    pub(super) fn sleep(&self) {
        if let Some(signal) = &self.signal {
            signal.sleep();
        }
    }

    pub(crate) fn success(&self) -> u64 {
        self.success.load(Ordering::Acquire)
    }

    fn error(&self) -> u64 {
        self.error.load(Ordering::Acquire)
    }
}

/// A counter and the endpoints that feed it.
pub struct Counter<E: Endpoint> {
    value: Arc<CounterValue>,
    endpoints: ProgressSet<E>,
    attr: CounterAttr,
    /// The values that the application read last: whoever goes to sleep has seen these.
    seen: (AtomicU64, AtomicU64),
    /// Held by the one thread in a wait that sleeps; others look again after a while.
    sleeper: Mutex<()>,
    waits: Blocked,
}

impl<E: Endpoint> fmt::Debug for Counter<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter").field("value", &self.value).finish_non_exhaustive()
    }
}

/// Without a descriptor of its own a wait looks again after this long.
const NAP: Duration = Duration::from_micros(200);

impl<E: Endpoint> Counter<E> {
    /// Opens a counter at zero. Wait sets and mutex-condition pairs are `EINVAL`.
    pub fn open(attr: &CounterAttr) -> Result<Arc<Self>> {
        let (endpoints, signal) = ProgressSet::open(attr.wait_obj)?;
        let value = CounterValue::new(attr.events == CntrEvents::Bytes, signal);
        Ok(Arc::new(Self {
            value: Arc::new(value),
            endpoints,
            attr: *attr,
            seen: (AtomicU64::new(0), AtomicU64::new(0)),
            sleeper: Mutex::new(()),
            waits: Blocked::new(),
        }))
    }

    /// What endpoints and regions bump.
    pub fn value(&self) -> &Arc<CounterValue> {
        &self.value
    }

    /// What the counter was opened with.
    pub fn attr(&self) -> &CounterAttr {
        &self.attr
    }

    /// Adds an endpoint that counts here.
    pub fn attach(&self, endpoint: &Arc<E>) -> Result<()> {
        self.endpoints.attach(endpoint)
    }

    /// Removes an endpoint.
    pub fn detach(&self, endpoint: &Arc<E>) {
        self.endpoints.detach(endpoint);
    }

    /// Whether something still counts here, or threads are in [`Counter::wait`].
    pub fn in_use(&self) -> bool {
        !self.endpoints.is_empty() || Arc::strong_count(&self.value) > 1 || self.waits.any()
    }

    /// Drives progress and reads the successes.
    #[inline]
    pub fn read(&self) -> u64 {
        self.endpoints.poll();
        let value = self.value.success();
        self.seen.0.store(value, Ordering::Relaxed);
        value
    }

    /// Drives progress and reads the errors.
    pub fn read_error(&self) -> u64 {
        self.endpoints.poll();
        let value = self.value.error();
        self.seen.1.store(value, Ordering::Relaxed);
        value
    }

    /// Adds to the successes.
    pub fn add(&self, n: u64) {
        self.value.success.fetch_add(n, Ordering::Release);
        self.value.ring();
    }

    /// Adds to the errors.
    pub fn add_error(&self, n: u64) {
        self.value.error.fetch_add(n, Ordering::Release);
        self.value.ring();
    }

    /// Sets the successes.
    pub fn set(&self, n: u64) {
        self.value.success.store(n, Ordering::Release);
        self.value.ring();
    }

    /// Sets the errors.
    pub fn set_error(&self, n: u64) {
        self.value.error.store(n, Ordering::Release);
        self.value.ring();
    }

    /// Waits until the successes reach `threshold`: `EAVAIL` when the errors change meanwhile,
    /// `ETIMEDOUT` after `timeout` milliseconds (negative: never).
    pub fn wait(&self, threshold: u64, timeout: i32) -> Result<()> {
        let _call = self.waits.begin();
        let deadline = Deadline::from_millis(timeout);
        let errors = self.value.error();
        loop {
            self.endpoints.progress();
            if self.value.success() >= threshold {
                return Ok(());
            }
            if self.value.error() != errors {
                return Err(Errno::EAVAIL);
            }
            if deadline.passed() {
                return Err(Errno::ETIMEDOUT);
            }
            let (Some(wait), Ok(_turn)) = (self.endpoints.wait_set(), self.sleeper.try_lock())
            else {
                nap(NAP, deadline);
                continue;
            };
            let slept = match self.value.arm_waiter(Until { threshold, errors }, self.seen()) {
                Next::Look => Ok(()),
                Next::Nap => {
                    nap(NAP, deadline);
                    Ok(())
                }
                Next::Sleep => self.endpoints.arm().and_then(|quiet| match quiet {
                    true => sleep_on(wait.as_fd(), deadline),
                    false => Ok(()),
                }),
            };
            self.value.waited();
            match slept {
                Ok(()) | Err(Errno::EAGAIN) => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Prepares for sleeping on the descriptor (`fi_trywait`): `false` when a value has changed since
    /// the application read it, or something is about to change it.
    pub fn try_wait(&self) -> Result<bool> {
        self.endpoints.progress();
        Ok(self.value.arm_application(self.seen()) && self.endpoints.arm()?)
    }

    fn seen(&self) -> Values {
        (self.seen.0.load(Ordering::Relaxed), self.seen.1.load(Ordering::Relaxed))
    }

    /// The descriptor to poll, `ENODATA` for a counter without one.
    pub fn wait_fd(&self) -> Result<i32> {
        self.endpoints.wait_fd()
    }
}
