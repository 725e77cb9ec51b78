//! HOT. From a finished operation to queue entries and counts, by the rules of `fi_cq(3)` and
//! `fi_cntr(3)`.

use std::{fmt, sync::Arc};

use super::{CompletionQueue, CounterValue, CqError, Entry, EntryBuf};
use crate::{Errno, flags::Flags, lock::Lock};

/// Where one direction reports.
pub struct CqBinding<L: Lock> {
    /// The queue.
    pub queue: Arc<CompletionQueue<L>>,
    /// Successes only where the operation asks for them.
    pub selective: bool,
}

/// The directions that counters count.
const COUNTED: [Flags; 6] =
    [Flags::SEND, Flags::RECV, Flags::READ, Flags::WRITE, Flags::REMOTE_READ, Flags::REMOTE_WRITE];

/// The queues and counters of one endpoint.
pub struct Report<L: Lock> {
    /// Operations that the endpoint starts.
    pub tx: Option<CqBinding<L>>,
    /// Receives, and what peers do here.
    pub rx: Option<CqBinding<L>>,
    counters: [Option<Arc<CounterValue>>; COUNTED.len()],
    /// There is a counter at all.
    counting: bool,
    /// The queue whose reader is driving progress, by address, and where it wants entries.
    reader: (usize, EntryBuf),
}

/// An entry's way: straight to the reader of its queue, if nothing is in front of it.
#[inline]
fn deliver<L: Lock>(queue: &Arc<CompletionQueue<L>>, reader: &mut (usize, EntryBuf), entry: Entry) {
    let (address, out) = reader;
    if *address == Arc::as_ptr(queue).addr() && out.has_room() && queue.seems_empty() {
        out.push(&entry);
    } else {
        queue.push(entry);
    }
}

impl<L: Lock> fmt::Debug for CqBinding<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CqBinding").field("selective", &self.selective).finish_non_exhaustive()
    }
}

impl<L: Lock> fmt::Debug for Report<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("tx", &self.tx).field("rx", &self.rx).finish_non_exhaustive()
    }
}

impl<L: Lock> Default for Report<L> {
    fn default() -> Self {
        Self::new()
    }
}

/// What an operation's owner wants to hear.
#[derive(Clone, Copy, Debug)]
pub struct Interest {
    /// The application's context.
    pub context: usize,
    /// Effective operation flags.
    pub flags: Flags,
    /// Never a success entry.
    pub silent: bool,
}

impl<L: Lock> Report<L> {
    /// Nothing bound.
    pub const fn new() -> Self {
        Self {
            tx: None,
            rx: None,
            counters: [const { None }; COUNTED.len()],
            counting: false,
            reader: (0, EntryBuf::NONE),
        }
    }

    /// Binds a counter to the directions in `flags`. `EINVAL` if one is taken, and then nothing
    /// has changed.
    pub fn bind_counter(&mut self, value: &Arc<CounterValue>, flags: Flags) -> Result<(), Errno> {
        let chosen = |direction: &Flags| flags.contains(*direction);
        let taken = COUNTED.iter().zip(&self.counters).any(|(d, c)| chosen(d) && c.is_some());
        if taken {
            return Err(Errno::EINVAL);
        }
        for (direction, counter) in COUNTED.iter().zip(&mut self.counters) {
            if chosen(direction) {
                *counter = Some(value.clone());
                self.counting = true;
            }
        }
        Ok(())
    }

    /// Whether a counter counts this direction.
    pub fn counts(&self, direction: Flags) -> bool {
        COUNTED.iter().zip(&self.counters).any(|(d, c)| *d == direction && c.is_some())
    }

    /// Whether an operation with these completion flags is counted.
    #[inline]
    pub fn counts_kind(&self, kind: Flags) -> bool {
        self.counting && self.counter(kind).is_some()
    }

    /// Nothing bound any more.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// From here on entries for `queue` go to its reader's `out`, as long as the queue is empty.
    #[inline]
    pub fn divert(&mut self, queue: &CompletionQueue<L>, out: &mut EntryBuf) {
        let address = core::ptr::from_ref(queue).addr();
        self.reader = (address, core::mem::replace(out, EntryBuf::NONE));
    }

    /// Ends [`Report::divert`].
    #[inline]
    pub fn restore(&mut self, out: &mut EntryBuf) {
        *out = core::mem::replace(&mut self.reader, (0, EntryBuf::NONE)).1;
    }

    #[inline]
    fn counter(&self, kind: Flags) -> Option<&CounterValue> {
        COUNTED
            .iter()
            .zip(&self.counters)
            .find(|(direction, _)| kind.intersects(**direction))
            .and_then(|(_, counter)| counter.as_deref())
    }

    /// Whether the success of an operation that this endpoint starts will be an entry.
    #[inline]
    pub const fn tells(&self, interest: &Interest) -> bool {
        match &self.tx {
            Some(tx) => {
                !interest.silent && (!tx.selective || interest.flags.contains(Flags::COMPLETION))
            }
            None => false,
        }
    }

    /// An operation that this endpoint started has succeeded. `kind`: its completion flags.
    #[inline]
    pub fn sent(&mut self, interest: &Interest, kind: Flags, bytes: usize) {
        if self.tells(interest)
            && let Some(tx) = &self.tx
        {
            deliver(&tx.queue, &mut self.reader, Entry::new(interest.context, kind));
        }
        if self.counting
            && let Some(counter) = self.counter(kind)
        {
            counter.count(bytes as u64);
        }
    }

    /// An operation that this endpoint started has failed.
    #[cold]
    pub fn send_failed(&self, error: CqError) {
        let kind = Flags::from_bits_retain(error.entry.flags);
        if let Some(tx) = &self.tx {
            tx.queue.push_error(error);
        }
        if let Some(counter) = self.counter(kind) {
            counter.count_error();
        }
    }

    /// A receive has succeeded; `entry.flags` says what else it means. The release of a
    /// multi-receive buffer is reported even where its owner did not ask for completions.
    #[inline]
    pub fn received(&mut self, flags: Flags, entry: Entry) {
        if let Some(rx) = &self.rx
            && (!rx.selective
                || flags.contains(Flags::COMPLETION)
                || entry.flags & Flags::MULTI_RECV.bits() != 0)
        {
            deliver(&rx.queue, &mut self.reader, entry);
        }
        if let Some(counter) = &self.counters[1] {
            counter.count(entry.len as u64);
        }
    }

    /// A peek has found a message. That is no receive, so nothing is counted.
    pub fn peeked(&self, flags: Flags, entry: Entry) {
        if let Some(rx) = &self.rx
            && (!rx.selective || flags.contains(Flags::COMPLETION))
        {
            rx.queue.push(entry);
        }
    }

    /// A peek has found nothing.
    pub fn peek_failed(&self, error: CqError) {
        if let Some(rx) = &self.rx {
            rx.queue.push_error(error);
        }
    }

    /// A receive has failed.
    #[cold]
    pub fn receive_failed(&self, error: CqError) {
        if let Some(rx) = &self.rx {
            rx.queue.push_error(error);
        }
        if let Some(counter) = &self.counters[1] {
            counter.count_error();
        }
    }

    /// A peer has read or written memory here. With remote CQ data that makes an entry.
    pub fn accessed(&self, kind: Flags, bytes: usize, data: Option<u64>, src: u64) {
        if let (Some(rx), Some(data)) = (&self.rx, data) {
            let flags = kind | Flags::REMOTE_CQ_DATA;
            rx.queue.push(Entry { len: bytes, data, src, ..Entry::new(0, flags) });
        }
        if let Some(counter) = self.counter(kind & (Flags::REMOTE_READ | Flags::REMOTE_WRITE)) {
            counter.count(bytes as u64);
        }
    }
}
