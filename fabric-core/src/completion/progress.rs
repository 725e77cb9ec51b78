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
    members: <E::Lock as Lock>::Cell<Members<E>>,
    wait_obj: WaitObj,
    /// The owner's signal and the endpoints' descriptors, if threads may sleep on them.
    wait: Option<WaitSet>,
}

struct Members<E> {
    /// One endpoint of each engine: what is driven, armed and watched.
    drivers: Vec<Arc<E>>,
    /// The other endpoints of the same engines.
    passengers: Vec<Arc<E>>,
}

impl<E: Endpoint> Members<E> {
    fn contains(&self, endpoint: &Arc<E>) -> bool {
        self.drivers.iter().chain(&self.passengers).any(|e| Arc::ptr_eq(e, endpoint))
    }

    /// Adds an endpoint once; whether it drives an engine that nothing has driven before.
    fn add(&mut self, endpoint: &Arc<E>) -> bool {
        if self.contains(endpoint) {
            return false;
        }
        let drives = !self.drivers.iter().any(|e| e.same_engine(endpoint));
        let list = if drives { &mut self.drivers } else { &mut self.passengers };
        list.push(endpoint.clone());
        drives
    }

    /// Removes an endpoint; whether its engine is driven no more. Another endpoint of the engine
    /// takes its place.
    fn remove(&mut self, endpoint: &Arc<E>) -> bool {
        self.passengers.retain(|e| !Arc::ptr_eq(e, endpoint));
        let Some(at) = self.drivers.iter().position(|e| Arc::ptr_eq(e, endpoint)) else {
            return false;
        };
        let Some(next) = self.passengers.iter().position(|e| e.same_engine(endpoint)) else {
            self.drivers.remove(at);
            return true;
        };
        self.drivers[at] = self.passengers.swap_remove(next);
        false
    }
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
        let members = Members { drivers: Vec::new(), passengers: Vec::new() };
        Ok((Self { members: Guarded::new(members), wait_obj, wait }, signal))
    }

    /// Adds an endpoint once.
    pub fn attach(&self, endpoint: &Arc<E>) -> Result<()> {
        // Asked before anything changes, so that a failure leaves nothing behind.
        let fd = self.wait.as_ref().map(|_| endpoint.wait_fd()).transpose()?;
        let mut members = self.members.lock();
        let drives = members.add(endpoint);
        if let (Some(wait), Some(fd), true) = (&self.wait, fd, drives) {
            // SAFETY: the endpoint keeps its wait descriptor open as long as it lives, and it is
            // detached before it ends.
            let added = wait.add(unsafe { BorrowedFd::borrow_raw(fd) }, 1);
            if added.is_err() {
                members.remove(endpoint);
            }
            return added;
        }
        Ok(())
    }

    /// Removes an endpoint. Its engine is driven on if others of its endpoints are here.
    pub fn detach(&self, endpoint: &Arc<E>) {
        let fd = self.wait.as_ref().and_then(|_| endpoint.wait_fd().ok());
        let mut members = self.members.lock();
        let gone = members.remove(endpoint);
        if let (Some(wait), Some(fd), true) = (&self.wait, fd, gone) {
            // SAFETY: as in `attach`; the endpoint is alive, it is our argument.
            wait.remove(unsafe { BorrowedFd::borrow_raw(fd) });
        }
    }

    /// Whether any endpoint is bound.
    pub fn is_empty(&self) -> bool {
        self.members.lock().drivers.is_empty()
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

    /// Moves all of them forward, each engine once.
    pub fn progress(&self) {
        for endpoint in self.members.lock().drivers.iter() {
            endpoint.progress();
        }
    }

    /// The same for whoever comes again and again ([`Endpoint::poll`]).
    #[inline]
    pub fn poll(&self) {
        self.pass(|| false, |endpoint| endpoint.poll());
    }

    /// As [`ProgressSet::poll`]; what completes for `queue` may go straight to `out`.
    #[inline]
    pub fn poll_into(&self, queue: &CompletionQueue<E::Lock>, out: &mut EntryBuf) {
        self.pass(|| !queue.seems_empty(), |endpoint| endpoint.poll_into(queue, out));
    }

    #[inline]
    fn pass(&self, enough: impl Fn() -> bool, mut each: impl FnMut(&Arc<E>) -> bool) {
        self.members.pass(enough, |members| {
            let mut whole = true;
            for endpoint in &members.drivers {
                whole &= each(endpoint);
            }
            whole
        });
    }

    /// Arms all of them; `false` as soon as one has something to do.
    pub fn arm(&self) -> Result<bool> {
        for endpoint in self.members.lock().drivers.iter() {
            if !endpoint.arm()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
