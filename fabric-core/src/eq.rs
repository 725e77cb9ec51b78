//! PENDING. Event queues: what happens to objects, one event per read (`fi_eq(3)`).
//!
//! Events and errors share one order; an error at the head stops [`EventQueue::read`] until
//! [`EventQueue::read_error`] has taken it. The queue grows as needed and drops nothing, so whoever
//! pushes on behalf of a peer bounds what one peer can cause ([`EventQueue::pending`]).
//!
//! Connections make progress in here: whoever reads an empty queue drives what is bound to it.

mod driven;
mod event;

use core::{
    fmt, mem,
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{
    collections::VecDeque,
    os::fd::{AsFd, RawFd},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crate::{
    Errno, Result,
    attr::WaitObj,
    flags::Flags,
    wait::{Blocked, Deadline, sleep_on},
};
pub use driven::Drive;
use driven::DrivenSet;
pub use event::{ControlEvent, ErrorEvent, Event, RequestHandle};

/// What `fi_eq_open` takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct EqAttr {
    /// Entries to keep room for, a hint.
    pub size: usize,
    /// `WRITE` allows [`EventQueue::write`], `AFFINITY` means nothing here.
    pub flags: Flags,
    /// What to sleep on.
    pub wait_obj: WaitObj,
}

/// An event queue, shared by the objects bound to it.
pub struct EventQueue {
    attr: EqAttr,
    /// Entries queued, so that polling an empty queue takes no lock. Written under the lock.
    len: AtomicUsize,
    state: Mutex<State>,
    driven: DrivenSet,
    readers: Blocked,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Item>,
    bound: usize,
    closed: bool,
}

enum Item {
    Event(Event),
    Error(ErrorEvent),
}

impl Item {
    const fn object(&self) -> Option<usize> {
        match self {
            Self::Event(event) => event.object(),
            Self::Error(error) => Some(error.object),
        }
    }
}

/// A size is room in advance, up to this many entries.
const RESERVE_LIMIT: usize = 1024;

impl EventQueue {
    /// Opens a queue. Flags other than those of [`EqAttr`] are `EBADFLAGS`; wait sets and
    /// mutex-condition pairs are `EINVAL`, as they are retired.
    pub fn open(attr: &EqAttr) -> Result<Arc<Self>> {
        if !(Flags::WRITE | Flags::AFFINITY).contains(attr.flags) {
            return Err(Errno::EBADFLAGS);
        }
        let mut queue = VecDeque::new();
        let room = attr.size.min(RESERVE_LIMIT);
        queue.try_reserve_exact(room).map_err(|_| Errno::ENOMEM)?;
        Ok(Arc::new(Self {
            attr: *attr,
            len: AtomicUsize::new(0),
            state: Mutex::new(State { queue, ..State::default() }),
            driven: DrivenSet::open(attr.wait_obj)?,
            readers: Blocked::new(),
        }))
    }

    /// What the queue was opened with.
    pub fn attr(&self) -> &EqAttr {
        &self.attr
    }

    /// Takes the next event, or with `PEEK` a copy of it. Drives what is bound if there is none.
    ///
    /// `EAGAIN` if there is none, `EAVAIL` if an error comes first, `EBADFLAGS` for other flags.
    pub fn read(&self, flags: Flags) -> Result<Event> {
        self.read_with(flags, |event| Ok(event.clone()))
    }

    /// As [`EventQueue::read`], for a reader that may refuse: if `take` fails, the event stays.
    /// `take` must not use this queue.
    pub fn read_with<R>(&self, flags: Flags, take: impl FnOnce(&Event) -> Result<R>) -> Result<R> {
        let keep = keeps(flags)?;
        if self.is_empty() {
            self.driven.drive();
        }
        self.take(keep, |head| match head {
            Item::Event(event) => take(event),
            Item::Error(_) => Err(Errno::EAVAIL),
        })
    }

    /// Reads, sleeping up to `timeout` milliseconds (negative: without end) for the first event.
    /// `EAGAIN` on timeout and on a caught signal, `ENOSYS` without a wait object.
    pub fn read_blocking(&self, flags: Flags, timeout: i32) -> Result<Event> {
        self.read_blocking_with(flags, timeout, |event| Ok(event.clone()))
    }

    /// As [`EventQueue::read_blocking`], for a reader that may refuse, as in
    /// [`EventQueue::read_with`].
    pub fn read_blocking_with<R>(
        &self,
        flags: Flags,
        timeout: i32,
        mut take: impl FnMut(&Event) -> Result<R>,
    ) -> Result<R> {
        if self.attr.wait_obj == WaitObj::None {
            return Err(Errno::ENOSYS);
        }
        let _call = self.readers.begin();
        let deadline = Deadline::from_millis(timeout);
        loop {
            match self.read_with(flags, &mut take) {
                Err(Errno::EAGAIN) => {}
                done => return done,
            }
            if deadline.passed() {
                return Err(Errno::EAGAIN);
            }
            match self.driven.wait_set() {
                None => std::thread::yield_now(),
                Some(wait) if self.try_wait()? => sleep_on(wait.as_fd(), deadline)?,
                Some(_) => {}
            }
        }
    }

    /// Prepares for sleeping on the descriptor (`fi_trywait`): `false` means read first.
    pub fn try_wait(&self) -> Result<bool> {
        if self.is_empty() {
            self.driven.drive();
        }
        Ok(self.is_empty() && self.driven.arm()? && self.is_empty())
    }

    /// The descriptor to poll, `ENODATA` for a queue without one. It is readable as long as there
    /// is something to read, or something bound has something to do.
    pub fn wait_fd(&self) -> Result<RawFd> {
        match (self.driven.wait_set(), self.attr.wait_obj) {
            (Some(wait), WaitObj::Fd | WaitObj::PollFd) => Ok(wait.raw()),
            _ => Err(Errno::ENODATA),
        }
    }

    /// Takes the error at the head, or with `PEEK` a copy of it. `EAGAIN` if the head is none.
    pub fn read_error(&self, flags: Flags) -> Result<ErrorEvent> {
        let keep = keeps(flags)?;
        self.take(keep, |head| match head {
            Item::Error(error) => Ok(error.clone()),
            Item::Event(_) => Err(Errno::EAGAIN),
        })
    }

    /// Queues an event of the application and returns its length.
    ///
    /// `EINVAL` unless the queue was opened with `WRITE`, `EBADFLAGS` for any flag.
    pub fn write(&self, event: u32, data: &[u8], flags: Flags) -> Result<usize> {
        if !flags.is_empty() {
            return Err(Errno::EBADFLAGS);
        }
        if !self.attr.flags.contains(Flags::WRITE) {
            return Err(Errno::EINVAL);
        }
        self.push(Event::Raw { event, data: data.to_vec() });
        Ok(data.len())
    }

    /// Queues an event and wakes whoever waits. After [`EventQueue::close`] it is dropped.
    pub fn push(&self, event: Event) {
        self.push_item(Item::Event(event));
    }

    /// Queues an error, as [`EventQueue::push`].
    pub fn push_error(&self, error: ErrorEvent) {
        self.push_item(Item::Error(error));
    }

    /// Drops what is queued about an object, because it is being closed. The application's own
    /// events stay.
    pub fn forget(&self, object: usize) {
        let mut state = self.lock();
        let (gone, kept) = mem::take(&mut state.queue)
            .into_iter()
            .partition::<VecDeque<_>, _>(|item| item.object() == Some(object));
        state.queue = kept;
        self.changed(&state);
        drop(state);
        // Only now: the end of a connection request may queue an event.
        drop(gone);
    }

    /// Entries queued about an object.
    pub fn pending(&self, object: usize) -> usize {
        self.lock().queue.iter().filter(|item| item.object() == Some(object)).count()
    }

    /// Nothing to read. One atomic load.
    pub fn is_empty(&self) -> bool {
        // Acquire: pairs with the Release in `unlock`.
        self.len.load(Ordering::Acquire) == 0
    }

    /// Takes the queue into use by an object, until the guard goes. `EINVAL` once closed.
    pub fn bind(self: &Arc<Self>) -> Result<BoundEq> {
        let mut state = self.lock();
        if state.closed {
            return Err(Errno::EINVAL);
        }
        state.bound += 1;
        drop(state);
        Ok(BoundEq { queue: self.clone(), driven: None })
    }

    /// As [`EventQueue::bind`], and drives `object` whenever somebody waits for its events. Errors
    /// of its descriptor are passed on.
    ///
    /// Objects with a common engine bind that, each for itself; it is driven once.
    pub fn bind_driven(self: &Arc<Self>, object: Weak<dyn Drive>) -> Result<BoundEq> {
        let mut bound = self.bind()?;
        self.driven.attach(&object)?;
        bound.driven = Some(object);
        Ok(bound)
    }

    /// Ends the queue and drops what is in it. `EBUSY`, without effect, while objects are bound, or
    /// threads are in blocking reads.
    pub fn close(&self) -> Result<()> {
        let mut state = self.lock();
        if state.bound > 0 || self.readers.any() {
            return Err(Errno::EBUSY);
        }
        state.closed = true;
        let gone = mem::take(&mut state.queue);
        self.changed(&state);
        drop(state);
        drop(gone);
        Ok(())
    }

    fn push_item(&self, item: Item) {
        let mut state = self.lock();
        if state.closed {
            // Not under the lock: the end of a connection request may queue an event.
            drop(state);
            return;
        }
        state.queue.push_back(item);
        self.changed(&state);
    }

    fn take<R>(&self, keep: bool, f: impl FnOnce(&Item) -> Result<R>) -> Result<R> {
        if self.is_empty() {
            return Err(Errno::EAGAIN);
        }
        let mut state = self.lock();
        let taken = f(state.queue.front().ok_or(Errno::EAGAIN)?)?;
        let gone = if keep { None } else { state.queue.pop_front() };
        self.changed(&state);
        drop(state);
        drop(gone);
        Ok(taken)
    }

    // A panic cannot leave the queue half changed, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the length; the signal is readable exactly while the queue is not empty, so that
    /// of many sleepers none misses what another has left.
    fn changed(&self, state: &MutexGuard<'_, State>) {
        let len = state.queue.len();
        // Release: pairs with the Acquire in `is_empty`.
        let before = self.len.swap(len, Ordering::Release);
        match (self.driven.signal(), before, len) {
            (Some(signal), 0, 1..) => signal.set(),
            (Some(signal), 1.., 0) => signal.clear(),
            _ => {}
        }
    }
}

/// Whether a read leaves the entry in the queue.
fn keeps(flags: Flags) -> Result<bool> {
    if !Flags::PEEK.contains(flags) {
        return Err(Errno::EBADFLAGS);
    }
    Ok(flags.contains(Flags::PEEK))
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue")
            .field("attr", &self.attr)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// An event queue in use by an object.
pub struct BoundEq {
    queue: Arc<EventQueue>,
    driven: Option<Weak<dyn Drive>>,
}

impl fmt::Debug for BoundEq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoundEq").field(&self.queue).finish()
    }
}

impl core::ops::Deref for BoundEq {
    type Target = Arc<EventQueue>;
    fn deref(&self) -> &Arc<EventQueue> {
        &self.queue
    }
}

impl Drop for BoundEq {
    fn drop(&mut self) {
        if let Some(object) = &self.driven {
            self.queue.driven.detach(object);
        }
        let mut state = self.queue.lock();
        state.bound = state.bound.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests;
#[cfg(all(test, not(loom)))]
mod waiting_tests;
