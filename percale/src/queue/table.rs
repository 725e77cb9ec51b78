//! HOT. What is known of each operation between its post and its end.

use std::collections::VecDeque;

use fabric_core::{
    Errno,
    completion::{CqError, Entry},
    flags::Flags,
    slab::{Handle, Slab},
};

/// How an operation has ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// As it should.
    Done(Entry),
    /// Otherwise.
    Failed(Box<CqError>),
}

impl Outcome {
    /// A failure that no provider has reported.
    #[cold]
    pub(crate) fn of(errno: Errno) -> Self {
        Self::Failed(Box::new(CqError::new(Entry::new(0, Flags::MULTI_RECV), errno)))
    }

    /// Whether the last completion of an operation with many is this one.
    const fn is_last(&self) -> bool {
        let entry = match self {
            Self::Done(entry) => entry,
            Self::Failed(error) => &error.entry,
        };
        entry.flags & Flags::MULTI_RECV.bits() != 0
    }
}

/// What keeps memory of an operation alive that nobody waits for.
pub(crate) type Kept = Box<dyn Send>;

/// The operations of one queue.
#[derive(Debug)]
pub(crate) struct Table {
    records: Slab<Record>,
}

struct Record {
    /// The endpoint.
    owner: u64,
    /// It completes many times.
    many: bool,
    state: State,
}

enum State {
    /// Under way.
    Pending,
    /// Under way, and nobody will ask.
    Abandoned(Kept),
    /// Ended, and not asked for yet.
    Ended(Outcome),
    /// Completes many times: what has not been asked for yet, and whether more will come.
    Many { outcomes: VecDeque<Outcome>, last: bool },
}

impl core::fmt::Debug for Record {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let state = match &self.state {
            State::Pending => "Pending",
            State::Abandoned(_) => "Abandoned",
            State::Ended(_) => "Ended",
            State::Many { .. } => "Many",
        };
        f.debug_struct("Record").field("owner", &self.owner).field("state", &state).finish()
    }
}

/// What becomes of an abandoned operation.
#[derive(Debug)]
pub(crate) enum Left {
    /// It goes on; its memory stays with the table.
    Running,
    /// It had ended: the memory is free.
    Ended(#[expect(dead_code, reason = "dropped by whoever gets it, outside the lock")] Freed),
}

/// Memory that has become free. To be dropped without a lock held: it runs code of the program.
pub(crate) struct Freed(#[expect(dead_code, reason = "held to be dropped")] Kept);

impl core::fmt::Debug for Freed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Freed")
    }
}

impl Table {
    pub(crate) const fn new() -> Self {
        Self { records: Slab::new(usize::MAX) }
    }

    /// A new operation of an endpoint. Its context is the handle's number.
    pub(crate) fn insert(&mut self, owner: u64) -> Result<Handle, Errno> {
        self.records
            .insert(Record { owner, many: false, state: State::Pending })
            .map_err(|_| Errno::ENOMEM)
    }

    /// A new operation that completes many times.
    pub(crate) fn insert_many(&mut self, owner: u64) -> Result<Handle, Errno> {
        let state = State::Many { outcomes: VecDeque::new(), last: false };
        self.records.insert(Record { owner, many: true, state }).map_err(|_| Errno::ENOMEM)
    }

    /// An operation has ended, or completed once more. The answer is what to drop.
    pub(crate) fn end(&mut self, key: Handle, outcome: Outcome) -> Option<Freed> {
        // What is not in the table was an operation of an endpoint that has been closed.
        let record = self.records.get_mut(key)?;
        match &mut record.state {
            State::Pending => record.state = State::Ended(outcome),
            // The first end counts: closing an endpoint ends what the provider will not.
            State::Ended(_) => {}
            State::Many { outcomes, last } => {
                *last |= outcome.is_last();
                outcomes.push_back(outcome);
            }
            // The rest of a buffer for many messages is still in use.
            State::Abandoned(_) if record.many && !outcome.is_last() => {}
            State::Abandoned(_) => {
                if let Some(Record { state: State::Abandoned(kept), .. }) = self.records.remove(key)
                {
                    return Some(Freed(kept));
                }
            }
        }
        None
    }

    /// How the operation has ended, if it has; it is then forgotten.
    pub(crate) fn take(&mut self, key: Handle) -> Option<Outcome> {
        if !matches!(self.records.get(key)?.state, State::Ended(_)) {
            return None;
        }
        match self.records.remove(key)?.state {
            State::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The next completion of an operation with many: `Some(None)` when there will be no more, and
    /// the operation is then forgotten.
    pub(crate) fn take_next(&mut self, key: Handle) -> Option<Option<Outcome>> {
        let Some(Record { state: State::Many { outcomes, last }, .. }) = self.records.get_mut(key)
        else {
            return Some(None);
        };
        if let Some(outcome) = outcomes.pop_front() {
            return Some(Some(outcome));
        }
        if !*last {
            return None;
        }
        self.records.remove(key);
        Some(None)
    }

    /// Nobody waits for the operation any more; `kept` is what it uses.
    pub(crate) fn abandon(&mut self, key: Handle, kept: Kept) -> Left {
        let Some(record) = self.records.get_mut(key) else { return Left::Ended(Freed(kept)) };
        match &record.state {
            State::Pending | State::Many { last: false, .. } => {
                record.state = State::Abandoned(kept);
                Left::Running
            }
            _ => {
                self.records.remove(key);
                Left::Ended(Freed(kept))
            }
        }
    }

    /// Ends everything of an endpoint, which has been closed: who waits is to be woken, and what
    /// nobody waits for is to be dropped.
    pub(crate) fn end_all(&mut self, owner: u64) -> (Vec<Handle>, Vec<Freed>) {
        let keys: Vec<Handle> =
            self.records.iter().filter(|(_, r)| r.owner == owner).map(|(key, _)| key).collect();
        let freed = keys.iter().filter_map(|key| self.end(*key, Outcome::of(Errno::ECANCELED)));
        let freed = freed.collect();
        (keys, freed)
    }

    /// Operations under way or not asked for.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    fn done() -> Outcome {
        Outcome::Done(Entry::new(0, Flags::RECV))
    }

    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counted() -> (Arc<AtomicUsize>, Kept) {
        let count = Arc::new(AtomicUsize::new(0));
        (count.clone(), Box::new(Counted(count)))
    }

    #[test]
    fn an_outcome_is_taken_once() {
        let mut table = Table::new();
        let key = table.insert(1).unwrap();
        assert!(table.take(key).is_none());
        assert!(table.end(key, done()).is_none());
        assert!(matches!(table.take(key), Some(Outcome::Done(_))));
        assert!(table.take(key).is_none());
        assert!(table.end(key, done()).is_none(), "a stale context finds nothing");
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn abandoned_memory_is_kept_to_the_end_of_the_operation() {
        let mut table = Table::new();
        let (count, kept) = counted();
        let key = table.insert(1).unwrap();
        assert!(matches!(table.abandon(key, kept), Left::Running));
        assert_eq!(count.load(Ordering::Relaxed), 0);
        drop(table.end(key, done()));
        assert_eq!((count.load(Ordering::Relaxed), table.len()), (1, 0));
    }

    #[test]
    fn what_has_ended_is_free_when_it_is_abandoned() {
        let mut table = Table::new();
        let (count, kept) = counted();
        let key = table.insert(1).unwrap();
        table.end(key, done());
        assert!(matches!(table.abandon(key, kept), Left::Ended(_)));
        assert_eq!((count.load(Ordering::Relaxed), table.len()), (1, 0));
    }

    #[test]
    fn closing_ends_only_what_is_the_endpoints() {
        let mut table = Table::new();
        let (count, kept) = counted();
        let [mine, left, other] = [1, 1, 2].map(|owner| table.insert(owner).unwrap());
        table.abandon(left, kept);
        let (ended, freed) = table.end_all(1);
        assert_eq!(ended, [mine, left]);
        drop(freed);
        assert_eq!(count.load(Ordering::Relaxed), 1);
        assert!(table.take(other).is_none());
        assert!(matches!(table.take(mine), Some(Outcome::Failed(e)) if e.err == Errno::ECANCELED));
    }

    #[test]
    fn an_abandoned_buffer_for_many_is_kept_to_its_last_message() {
        let mut table = Table::new();
        let (count, kept) = counted();
        let key = table.insert_many(1).unwrap();
        table.abandon(key, kept);
        assert!(table.end(key, done()).is_none());
        assert_eq!(count.load(Ordering::Relaxed), 0);
        drop(table.end(key, Outcome::of(Errno::ECANCELED)));
        assert_eq!((count.load(Ordering::Relaxed), table.len()), (1, 0));
    }

    #[test]
    fn many_completions_end_with_the_one_that_says_so() {
        let mut table = Table::new();
        let key = table.insert_many(1).unwrap();
        assert!(table.take_next(key).is_none());
        table.end(key, done());
        table.end(key, Outcome::Done(Entry::new(0, Flags::RECV | Flags::MULTI_RECV)));
        assert!(matches!(table.take_next(key), Some(Some(_))));
        assert!(matches!(table.take_next(key), Some(Some(_))));
        assert!(matches!(table.take_next(key), Some(None)));
        assert_eq!(table.len(), 0);
    }
}
