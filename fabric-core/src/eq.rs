//! SETUP. Event queues: what happens to objects, one event per read (`fi_eq(3)`).
//!
//! Events and errors share one order; an error at the head stops [`EventQueue::read`] until
//! [`EventQueue::read_error`] has taken it. The queue grows as needed and drops nothing, so whoever
//! pushes on behalf of a peer bounds what one peer can cause ([`EventQueue::pending`]).

mod event;

use core::{
    fmt, mem,
    sync::atomic::{AtomicUsize, Ordering},
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{Errno, Result, flags::Flags};
pub use event::{ControlEvent, ErrorEvent, Event, RequestHandle};

/// Called after something was queued, without any lock held.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// An event queue, shared by the objects bound to it.
pub struct EventQueue {
    flags: Flags,
    wake: Option<Wake>,
    /// Entries queued, so that polling an empty queue takes no lock. Written under the lock.
    len: AtomicUsize,
    state: Mutex<State>,
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
    /// Opens a queue. `size` is a hint; `WRITE` in `flags` allows [`EventQueue::write`]; other
    /// flags than that and `AFFINITY` are `EBADFLAGS`.
    pub fn open(size: usize, flags: Flags, wake: Option<Wake>) -> Result<Arc<Self>> {
        if !(Flags::WRITE | Flags::AFFINITY).contains(flags) {
            return Err(Errno::EBADFLAGS);
        }
        let queue = VecDeque::with_capacity(size.min(RESERVE_LIMIT));
        let state = Mutex::new(State { queue, ..State::default() });
        Ok(Arc::new(Self { flags, wake, len: AtomicUsize::new(0), state }))
    }

    /// Takes the next event, or with `PEEK` a copy of it.
    ///
    /// `EAGAIN` if there is none, `EAVAIL` if an error comes first, `EBADFLAGS` for other flags.
    pub fn read(&self, flags: Flags) -> Result<Event> {
        let keep = keeps(flags)?;
        self.take(|queue| match queue.front() {
            None => Err(Errno::EAGAIN),
            Some(Item::Error(_)) => Err(Errno::EAVAIL),
            Some(Item::Event(event)) if keep => Ok(event.clone()),
            Some(Item::Event(_)) => match queue.pop_front() {
                Some(Item::Event(event)) => Ok(event),
                _ => Err(Errno::EAGAIN),
            },
        })
    }

    /// Takes the error at the head, or with `PEEK` a copy of it. `EAGAIN` if the head is none.
    pub fn read_error(&self, flags: Flags) -> Result<ErrorEvent> {
        let keep = keeps(flags)?;
        self.take(|queue| match queue.front() {
            Some(Item::Error(error)) if keep => Ok(error.clone()),
            Some(Item::Error(_)) => match queue.pop_front() {
                Some(Item::Error(error)) => Ok(error),
                _ => Err(Errno::EAGAIN),
            },
            _ => Err(Errno::EAGAIN),
        })
    }

    /// Queues an event of the application and returns its length.
    ///
    /// `EINVAL` unless the queue was opened with `WRITE`, `EBADFLAGS` for any flag.
    pub fn write(&self, event: u32, data: &[u8], flags: Flags) -> Result<usize> {
        if !flags.is_empty() {
            return Err(Errno::EBADFLAGS);
        }
        if !self.flags.contains(Flags::WRITE) {
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
        self.unlock(state);
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
        Ok(BoundEq(self.clone()))
    }

    /// Ends the queue and drops what is in it. `EBUSY`, without effect, while objects are bound.
    pub fn close(&self) -> Result<()> {
        let mut state = self.lock();
        if state.bound > 0 {
            return Err(Errno::EBUSY);
        }
        state.closed = true;
        let gone = mem::take(&mut state.queue);
        self.unlock(state);
        drop(gone);
        Ok(())
    }

    fn push_item(&self, item: Item) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            return;
        }
        state.queue.push_back(item);
        self.unlock(state);
        if let Some(wake) = &self.wake {
            wake();
        }
    }

    fn take<R>(&self, f: impl FnOnce(&mut VecDeque<Item>) -> Result<R>) -> Result<R> {
        if self.is_empty() {
            return Err(Errno::EAGAIN);
        }
        let mut state = self.lock();
        let taken = f(&mut state.queue);
        self.unlock(state);
        taken
    }

    // A panic cannot leave the queue half changed, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlock(&self, state: MutexGuard<'_, State>) {
        // Release: pairs with the Acquire in `is_empty`.
        self.len.store(state.queue.len(), Ordering::Release);
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
            .field("flags", &self.flags)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// An event queue in use by an object.
#[derive(Debug)]
pub struct BoundEq(Arc<EventQueue>);

impl core::ops::Deref for BoundEq {
    type Target = Arc<EventQueue>;
    fn deref(&self) -> &Arc<EventQueue> {
        &self.0
    }
}

impl Drop for BoundEq {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.bound = state.bound.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests;
