//! HOT. Completion queues: from a provider's completions to the operations that wait for them.

mod backlog;
mod poster;
mod table;

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Instant,
};

use fabric_core::{
    Errno,
    completion::Entry,
    flags::Flags,
    lock::{Guarded, Lock},
    slab::Handle,
};

use self::{
    backlog::Backlog,
    table::{Freed, Table},
};
pub(crate) use self::{
    backlog::Waiting,
    poster::Poster,
    table::{Kept, Outcome},
};
use crate::{
    dispatch::{BATCH, Batch, Kind, Provider, QueueCalls, Threads},
    error::{Error, Result},
    op::Request,
    reactor::Reactor,
    waiting::{News, WaitingRoom},
};

/// Batches of completions that one caller hands on before it looks after its own business.
const ROUNDS: usize = 8;

type TableCell<P> = <<<P as Provider>::Threads as Threads>::Lock as Lock>::Cell<Table>;

/// A completion queue and the operations that complete in it.
pub(crate) struct Queue<P: Provider> {
    calls: P::Queue,
    table: TableCell<P>,
    room: WaitingRoom,
    /// Held by whoever takes completions, so that they are handed on in their order.
    reader: Mutex<()>,
    backlog: Backlog<P>,
    /// Data that came with peers' writes.
    arrivals: Mutex<VecDeque<Entry>>,
}

impl<P: Provider> fmt::Debug for Queue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("room", &self.room).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is changed in one step, so a poisoned lock is as good as any.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P: Provider> Queue<P> {
    pub(crate) fn open(kind: Kind, reactor: Option<&dyn Reactor>) -> Result<Arc<Self>> {
        let calls = P::open_queue(kind).map_err(Error::refused("open a completion queue"))?;
        let descriptor = calls.descriptor().map_err(Error::refused("open a completion queue"))?;
        Ok(Arc::new(Self {
            calls,
            table: Guarded::new(Table::new()),
            room: WaitingRoom::open(descriptor, reactor)?,
            reader: Mutex::new(()),
            backlog: Backlog::new(),
            arrivals: Mutex::default(),
        }))
    }

    pub(crate) const fn calls(&self) -> &P::Queue {
        &self.calls
    }

    /// Starts an operation of the endpoint that is called `owner`. It may have failed already; that,
    /// too, is its outcome.
    pub(crate) fn start(
        &self,
        owner: u64,
        poster: Poster<'_, P>,
        (request, due): (Request, Option<Instant>),
        many: bool,
    ) -> Result<Handle, Errno> {
        let mut table = self.table.lock();
        let key = if many { table.insert_many(owner) } else { table.insert(owner) }?;
        drop(table);
        let waiting = Waiting { owner, key, request, due };
        if let Err(errno) = self.backlog.post(poster, waiting) {
            self.end(key, Outcome::of(errno));
        }
        Ok(key)
    }

    /// How an operation has ended, if it has.
    #[inline]
    pub(crate) fn take(&self, key: Handle) -> Option<Outcome> {
        self.table.lock().take(key)
    }

    /// The next completion of an operation with many, as [`Table::take_next`].
    pub(crate) fn take_next(&self, key: Handle) -> Option<Option<Outcome>> {
        self.table.lock().take_next(key)
    }

    /// The next data that came with a peer's write.
    pub(crate) fn take_arrival(&self) -> Option<Entry> {
        lock(&self.arrivals).pop_front()
    }

    /// Nobody waits for an operation any more: it is taken back if it can be, and what it uses is
    /// kept until it has ended.
    pub(crate) fn abandon(&self, poster: Poster<'_, P>, key: Handle, kept: Kept) {
        self.room.remove(key.index());
        if self.backlog.remove(key) {
            // It never was the provider's.
            self.end(key, Outcome::of(Errno::ECANCELED));
        }
        let left = self.table.lock().abandon(key, kept);
        if matches!(left, table::Left::Running) {
            poster.cancel(key.raw() as usize);
        }
    }

    /// Nobody waits for an operation any more, which goes on.
    pub(crate) fn detach(&self, key: Handle, kept: Kept) {
        self.room.remove(key.index());
        let left = self.table.lock().abandon(key, kept);
        // What has ended already is dropped behind the lock.
        drop(left);
    }

    /// Asks for the end of an operation that somebody waits for.
    pub(crate) fn cancel(&self, poster: Poster<'_, P>, key: Handle) {
        if self.backlog.remove(key) {
            self.end(key, Outcome::of(Errno::ECANCELED));
        } else {
            poster.cancel(key.raw() as usize);
        }
    }

    /// An endpoint has been closed: what it had completed is handed on, and the rest ends.
    pub(crate) fn end_all(&self, owner: u64) {
        self.backlog.remove_all(owner);
        // What it had completed is no more than there are operations; others may go on and on.
        for _ in 0..=self.operations() {
            if !self.drive() {
                break;
            }
        }
        let (keys, freed) = self.table.lock().end_all(owner);
        drop(freed);
        for key in keys {
            self.room.wake_one(key.index());
        }
    }

    /// Operations under way, or ended and not asked for.
    pub(crate) fn operations(&self) -> usize {
        self.table.lock().len()
    }

    /// Takes completions and hands them to their operations. Who is to be woken is in `batch`; the answer
    /// is what has become free, or `None` if there was no completion.
    fn take_batch(&self, batch: &mut Batch) -> Option<Vec<Freed>> {
        let _turn = lock(&self.reader);
        let read = self.calls.read(batch);
        let error = match read {
            Ok(0) => return None,
            Ok(_) => None,
            Err(Errno::EAVAIL) => Some(self.calls.read_error()?),
            Err(_) => return None,
        };
        let mut freed = Vec::new();
        let mut table = self.table.lock();
        if let Some(error) = error {
            batch.set(error.entry);
            if let Some(key) = context(&error.entry) {
                freed.extend(table.end(key, Outcome::Failed(Box::new(error))));
            }
            return Some(freed);
        }
        for entry in batch.entries() {
            match context(entry) {
                Some(key) => freed.extend(table.end(key, Outcome::Done(*entry))),
                None => lock(&self.arrivals).push_back(*entry),
            }
        }
        Some(freed)
    }

    fn end(&self, key: Handle, outcome: Outcome) {
        // Dropped behind the lock: it may run code of the program.
        let freed = self.table.lock().end(key, outcome);
        drop(freed);
        self.room.wake_one(key.index());
    }

    /// Waits until `ready` has something, as a task. `place` is where it waits.
    pub(crate) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        place: u32,
        ready: impl FnMut() -> Option<R>,
    ) -> Poll<R> {
        self.room.poll(self, cx, place, ready)
    }

    /// Waits until `ready` has something, as a thread; `None` when the deadline passes.
    pub(crate) fn wait<R>(
        &self,
        deadline: Option<Instant>,
        place: u32,
        ready: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        self.room.wait(self, deadline, place, ready)
    }
}

impl<P: Provider> News for Queue<P> {
    fn drive(&self) -> bool {
        let mut batch = Batch::new();
        let mut any = false;
        for _ in 0..ROUNDS {
            let Some(freed) = self.take_batch(&mut batch) else { break };
            any = true;
            // Code of the program runs without a lock: what was freed, and wakers.
            drop(freed);
            for entry in batch.entries() {
                self.room.wake_one(context(entry).map_or(ARRIVALS, Handle::index));
            }
            if batch.entries().len() < BATCH {
                break;
            }
        }
        any |= self.backlog.flush(|key, errno| self.end(key, Outcome::of(errno)));
        any
    }

    fn try_wait(&self) -> bool {
        self.calls.try_wait().unwrap_or(false)
    }

    fn is_impatient(&self) -> bool {
        !self.backlog.is_empty()
    }
}

/// Where those wait that want data of peers' writes.
pub(crate) const ARRIVALS: u32 = u32::MAX;

/// The operation that a completion is of; `None` for what a peer has done.
fn context(entry: &Entry) -> Option<Handle> {
    let remote = Flags::REMOTE_READ | Flags::REMOTE_WRITE;
    let by_peer = entry.flags & remote.bits() != 0;
    (!by_peer && entry.context != 0).then(|| Handle::from_raw(entry.context as u64))
}
