//! HOT. The endpoints that a queue or counter must move forward when it is read, and what a thread
//! sleeps on until one of them has news.

use std::{
    fmt,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use super::{CompletionQueue, EntryBuf};
use crate::{
    Errno, Result,
    api::Endpoint,
    attr::WaitObj,
    lock::{Guarded, Lock},
    wait::{Signal, WaitSet},
};

/// Endpoints bound to one queue or counter.
pub struct ProgressSet<E: Endpoint> {
    endpoints: <E::Lock as Lock>::Cell<Vec<Arc<E>>>,
    wait_obj: WaitObj,
    /// The owner's signal and the endpoints' descriptors, if threads may sleep on them.
    wait: Option<WaitSet>,
}

impl<E: Endpoint> fmt::Debug for ProgressSet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSet")
    }
}

impl<E: Endpoint> ProgressSet<E> {
    /// An empty set, and the signal with which its owner wakes whoever sleeps on `wait_obj`. Wait
    /// sets and mutex-condition pairs are `EINVAL`, as they are retired.
    pub fn open(wait_obj: WaitObj) -> Result<(Self, Option<Signal>)> {
        let (signal, wait) = match wait_obj {
            WaitObj::None | WaitObj::Yield => (None, None),
            WaitObj::Unspec | WaitObj::Fd | WaitObj::PollFd => {
                let (signal, wait) = (Signal::new()?, WaitSet::new()?);
                wait.add(signal.as_fd(), 0)?;
                (Some(signal), Some(wait))
            }
            WaitObj::Set | WaitObj::MutexCond => return Err(Errno::EINVAL),
        };
        Ok((Self { endpoints: Guarded::new(Vec::new()), wait_obj, wait }, signal))
    }

    /// Adds an endpoint once.
    pub fn attach(&self, endpoint: &Arc<E>) -> Result<()> {
        if let Some(wait) = &self.wait {
            // SAFETY: the endpoint keeps its wait descriptor open as long as it lives, and it is
            // detached before it ends.
            wait.add(unsafe { BorrowedFd::borrow_raw(endpoint.wait_fd()?) }, 1)?;
        }
        let mut set = self.endpoints.lock();
        if !set.iter().any(|e| Arc::ptr_eq(e, endpoint)) {
            set.push(endpoint.clone());
        }
        Ok(())
    }

    /// Removes an endpoint.
    pub fn detach(&self, endpoint: &Arc<E>) {
        if let (Some(wait), Ok(fd)) = (&self.wait, endpoint.wait_fd()) {
            // SAFETY: as in `attach`; the endpoint is alive, it is our argument.
            wait.remove(unsafe { BorrowedFd::borrow_raw(fd) });
        }
        self.endpoints.lock().retain(|e| !Arc::ptr_eq(e, endpoint));
    }

    /// Whether any endpoint is bound.
    pub fn is_empty(&self) -> bool {
        self.endpoints.lock().is_empty()
    }

    /// What to sleep on; `None` where threads can only look again after a while.
    pub fn wait_set(&self) -> Option<&WaitSet> {
        self.wait.as_ref()
    }

    /// The descriptor that applications poll; `ENODATA` unless they asked for one.
    pub fn wait_fd(&self) -> Result<i32> {
        match (&self.wait, self.wait_obj) {
            (Some(wait), WaitObj::Fd | WaitObj::PollFd) => Ok(wait.raw()),
            _ => Err(Errno::ENODATA),
        }
    }

    /// Moves all of them forward.
    #[inline]
    pub fn progress(&self) {
        for endpoint in self.endpoints.lock().iter() {
            endpoint.progress();
        }
    }

    /// Moves all of them forward; what completes for `queue` may go straight to `out`.
    #[inline]
    pub fn progress_into(&self, queue: &CompletionQueue<E::Lock>, out: &mut EntryBuf) {
        for endpoint in self.endpoints.lock().iter() {
            endpoint.progress_into(queue, out);
        }
    }

    /// Arms all of them; `false` as soon as one has something to do.
    pub fn arm(&self) -> Result<bool> {
        for endpoint in self.endpoints.lock().iter() {
            if !endpoint.arm()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
