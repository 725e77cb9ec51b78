//! Completion queues as applications open, read and sleep on them (`fi_cq(3)`).

use std::{fmt, os::fd::AsFd, sync::Arc, time::Duration};

use super::{CompletionQueue, CqError, EntryBuf, ProgressSet, interrupt::Interrupt};
use crate::{
    Errno, Result,
    api::Endpoint,
    attr::{CqFormat, WaitObj},
    wait::{Deadline, nap, sleep_on},
};

/// What `fi_cq_open` takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CqAttr {
    /// Entries to keep room for; zero means the default.
    pub size: usize,
    /// Entry format; unspecified acts as `Context`.
    pub format: CqFormat,
    /// What to sleep on.
    pub wait_obj: WaitObj,
}

/// Entries read, or why none were.
pub type Read = Result<usize>;

/// A completion queue and the endpoints that feed it.
pub struct Cq<E: Endpoint> {
    queue: Arc<CompletionQueue<E::Lock>>,
    endpoints: ProgressSet<E>,
    attr: CqAttr,
    interrupt: Interrupt,
}

impl<E: Endpoint> fmt::Debug for Cq<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cq").field("attr", &self.attr).finish_non_exhaustive()
    }
}

const DEFAULT_SIZE: usize = 1024;

/// Without a wait object a blocking read looks again after this long.
const NAP: Duration = Duration::from_micros(500);

impl<E: Endpoint> Cq<E> {
    /// Opens a queue. Wait sets and mutex-condition pairs are `EINVAL`, as they are retired.
    pub fn open(attr: &CqAttr) -> Result<Arc<Self>> {
        let mut attr = *attr;
        if attr.format == CqFormat::Unspec {
            attr.format = CqFormat::Context;
        }
        if attr.size == 0 {
            attr.size = DEFAULT_SIZE;
        }
        let (endpoints, signal) = ProgressSet::open(attr.wait_obj)?;
        let queue = CompletionQueue::new(attr.size, signal);
        if !queue.has_room() {
            return Err(Errno::ENOMEM);
        }
        Ok(Arc::new(Self { queue: Arc::new(queue), endpoints, attr, interrupt: Interrupt::new() }))
    }

    /// Where endpoints put completions.
    pub fn queue(&self) -> &Arc<CompletionQueue<E::Lock>> {
        &self.queue
    }

    /// What the queue was opened with, defaults filled in.
    pub fn attr(&self) -> &CqAttr {
        &self.attr
    }

    /// Adds an endpoint that reports here.
    pub fn attach(&self, endpoint: &Arc<E>) -> Result<()> {
        self.endpoints.attach(endpoint)
    }

    /// Removes an endpoint.
    pub fn detach(&self, endpoint: &Arc<E>) {
        self.endpoints.detach(endpoint);
    }

    /// Whether endpoints are attached or threads are in [`Cq::sread`], so that closing must be refused.
    pub fn in_use(&self) -> bool {
        !self.endpoints.is_empty() || self.interrupt.has_readers()
    }

    /// Drives progress, then moves entries into `out` (`fi_cq_read`, `fi_cq_readfrom`). With no
    /// room it only drives progress: `EAGAIN` when the queue is empty, else 0.
    #[inline]
    pub fn read(&self, out: &mut EntryBuf) -> Read {
        if !out.has_room() {
            self.endpoints.poll();
            return self.take(out);
        }
        self.endpoints.poll_into(&self.queue, out);
        match (out.used(), self.queue.seems_empty()) {
            (0, true) => Err(Errno::EAGAIN),
            (used, true) => Ok(used),
            (0, false) => self.queue.read(out),
            (used, false) => Ok(used + self.queue.read(out).unwrap_or(0)),
        }
    }

    /// Moves entries into `out`; without room as [`Cq::read`].
    fn take(&self, out: &mut EntryBuf) -> Read {
        if out.has_room() {
            self.queue.read(out)
        } else if self.queue.has_entries() {
            Ok(0)
        } else {
            Err(Errno::EAGAIN)
        }
    }

    /// Takes the error at the head, `EAGAIN` if there is none.
    pub fn read_error(&self) -> Result<CqError> {
        self.queue.read_error().ok_or(Errno::EAGAIN)
    }

    /// Reads, sleeping up to `timeout` milliseconds (negative: without end) for the first entry.
    /// `EAGAIN` on timeout, on a caught signal and after [`Cq::signal`].
    pub fn sread(&self, out: &mut EntryBuf, timeout: i32) -> Read {
        let deadline = Deadline::from_millis(timeout);
        let reading = self.interrupt.begin();
        loop {
            // Who is about to sleep does not leave progress to others, who may be, too.
            self.endpoints.progress();
            match self.take(out) {
                Err(Errno::EAGAIN) => {}
                done => return done,
            }
            if reading.take() || deadline.passed() {
                return Err(Errno::EAGAIN);
            }
            match self.endpoints.wait_set() {
                Some(wait) => {
                    if self.try_wait()? && !reading.is_due() {
                        sleep_on(wait.as_fd(), deadline)?;
                    }
                }
                None if self.attr.wait_obj == WaitObj::Yield => std::thread::yield_now(),
                None => nap(NAP, deadline),
            }
        }
    }

    /// Prepares for sleeping on the descriptor (`fi_trywait`): `false` means read first.
    pub fn try_wait(&self) -> Result<bool> {
        self.endpoints.progress();
        let empty = self.queue.arm();
        if self.interrupt.is_owed() {
            self.ring();
        }
        Ok(empty && self.endpoints.arm()? && !self.queue.has_entries())
    }

    /// Wakes a sleeper; kept until a blocking read notices.
    pub fn signal(&self) {
        self.interrupt.raise();
        self.ring();
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn ring(&self) {
        if let Some(signal) = self.queue.signal() {
            signal.set();
        }
    }

    /// The descriptor to poll, `ENODATA` for a queue without one.
    pub fn wait_fd(&self) -> Result<i32> {
        self.endpoints.wait_fd()
    }
}
