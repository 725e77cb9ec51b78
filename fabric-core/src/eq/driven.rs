//! PENDING. What the reader of an event queue moves forward, and sleeps on.

use core::fmt;
use std::{
    os::fd::{AsFd, BorrowedFd, RawFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    Errno, Result,
    attr::WaitObj,
    wait::{Signal, WaitSet},
};

/// Something that reports to an event queue when it is driven: a listener, a connection, the engine
/// of many of them.
///
/// Calls come from whoever reads the queue, whatever the threading level of a domain, and may come
/// after the last release of the queue. No lock of the queue is held, so events can be pushed.
pub trait Drive: Send + Sync {
    /// Moves everything forward that can move without waiting.
    fn drive(&self);
    /// Prepares for sleeping on the descriptor. `Ok(false)`: something is ready already.
    fn arm(&self) -> Result<bool>;
    /// A descriptor that turns readable when something happens after [`Drive::arm`]. It stays open
    /// and the same for the object's life.
    fn wait_fd(&self) -> Result<RawFd>;
}

/// The objects that one queue drives.
pub(super) struct DrivenSet {
    /// Those in `members`, so that a queue that drives nothing takes no lock.
    len: AtomicUsize,
    /// Replaced as a whole, so that it can be walked without the lock.
    members: Mutex<Arc<[Member]>>,
    /// The queue's signal and the objects' descriptors, if threads may sleep on them.
    wait: Option<(Signal, WaitSet)>,
}

#[derive(Clone)]
struct Member {
    object: Weak<dyn Drive>,
    /// How often it has been attached: once for each endpoint of an engine.
    uses: usize,
    /// Its descriptor, if it is watched.
    fd: Option<RawFd>,
}

impl Member {
    fn is(&self, object: &Weak<dyn Drive>) -> bool {
        core::ptr::addr_eq(self.object.as_ptr(), object.as_ptr())
    }
}

impl fmt::Debug for DrivenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrivenSet").field("len", &self.len).finish_non_exhaustive()
    }
}

impl DrivenSet {
    /// An empty set. Wait sets and mutex-condition pairs are `EINVAL`, as they are retired.
    pub(super) fn open(wait_obj: WaitObj) -> Result<Self> {
        let wait = match wait_obj {
            WaitObj::None | WaitObj::Yield => None,
            WaitObj::Unspec | WaitObj::Fd | WaitObj::PollFd => {
                let (signal, wait) = (Signal::new()?, WaitSet::new()?);
                wait.add(signal.as_fd(), 0)?;
                Some((signal, wait))
            }
            WaitObj::Set | WaitObj::MutexCond => return Err(Errno::EINVAL),
        };
        Ok(Self { len: AtomicUsize::new(0), members: Mutex::new(Arc::new([])), wait })
    }

    /// Drives `object` from now on. An object that is attached again is still driven once.
    pub(super) fn attach(&self, object: &Weak<dyn Drive>) -> Result<()> {
        // Objects are asked, and end, outside the lock: they may hold locks of their own when they
        // attach, or detach as they end.
        let alive = object.upgrade();
        let fd = match (&self.wait, &alive) {
            (Some(_), Some(object)) => Some(object.wait_fd()?),
            _ => None,
        };
        let members = self.lock();
        let mut next = members.to_vec();
        match next.iter_mut().find(|member| member.is(object)) {
            Some(member) => member.uses += 1,
            None => {
                if let (Some((_, wait)), Some(fd)) = (&self.wait, fd) {
                    // SAFETY: `alive` keeps the descriptor open.
                    wait.add(unsafe { BorrowedFd::borrow_raw(fd) }, 1)?;
                }
                next.push(Member { object: object.clone(), uses: 1, fd });
            }
        }
        self.replace(members, next);
        drop(alive);
        Ok(())
    }

    /// Takes one attachment back; with the last one the object is driven no more.
    pub(super) fn detach(&self, object: &Weak<dyn Drive>) {
        let alive = object.upgrade();
        let members = self.lock();
        let mut next = members.to_vec();
        if let Some(at) = next.iter().position(|member| member.is(object)) {
            next[at].uses -= 1;
            if next[at].uses == 0 {
                let gone = next.swap_remove(at);
                // The descriptor of an object that has ended is closed, and so not watched.
                if let (Some((_, wait)), Some(fd), true) = (&self.wait, gone.fd, alive.is_some()) {
                    // SAFETY: `alive` keeps the descriptor open.
                    wait.remove(unsafe { BorrowedFd::borrow_raw(fd) });
                }
            }
        }
        self.replace(members, next);
        drop(alive);
    }

    /// Moves all of them forward.
    pub(super) fn drive(&self) {
        // Relaxed: whoever has just attached an object knows it by its own synchronisation.
        if self.len.load(Ordering::Relaxed) == 0 {
            return;
        }
        let members = self.lock().clone();
        for object in members.iter().filter_map(|member| member.object.upgrade()) {
            object.drive();
        }
    }

    /// Arms all of them; `false` as soon as one has something to do.
    pub(super) fn arm(&self) -> Result<bool> {
        let members = self.lock().clone();
        for object in members.iter().filter_map(|member| member.object.upgrade()) {
            if !object.arm()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What threads sleep on.
    pub(super) fn wait_set(&self) -> Option<&WaitSet> {
        self.wait.as_ref().map(|(_, wait)| wait)
    }

    /// The queue's own part of what threads sleep on.
    pub(super) fn signal(&self) -> Option<&Signal> {
        self.wait.as_ref().map(|(signal, _)| signal)
    }

    fn replace(&self, mut members: MutexGuard<'_, Arc<[Member]>>, next: Vec<Member>) {
        self.len.store(next.len(), Ordering::Relaxed);
        *members = next.into();
    }

    // The list is replaced in one step, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, Arc<[Member]>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
