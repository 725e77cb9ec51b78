//! HOT. A completion queue's entries: a ring that grows instead of dropping.
//!
//! Entries and errors keep one order: success entries in front of an error are read first, then
//! the error must be taken before anything behind it.

use std::{collections::VecDeque, fmt};

use super::{CqError, Entry, EntryBuf};
use crate::{
    Errno, Result,
    lock::{Guarded, Lock},
    sync::{AtomicBool, AtomicU64, Ordering, fence},
    wait::Signal,
};

/// The entries of one queue and, if it can be slept on, its signal.
pub struct CompletionQueue<L: Lock> {
    state: L::Cell<State>,
    /// Entries and errors in it: exact under the lock, a hint without.
    waiting: AtomicU64,
    /// Somebody sleeps or is about to.
    armed: AtomicBool,
    signal: Option<Signal>,
}

struct State {
    entries: VecDeque<Entry>,
    /// Errors with the number of success entries pushed before each.
    errors: VecDeque<(u64, CqError)>,
    pushed: u64,
    popped: u64,
}

impl<L: Lock> fmt::Debug for CompletionQueue<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").field("signal", &self.signal).finish_non_exhaustive()
    }
}

impl<L: Lock> CompletionQueue<L> {
    /// A queue with room for `size` entries before it has to grow, if there is memory for them.
    pub fn new(size: usize, signal: Option<Signal>) -> Self {
        // The application's size is a wish: memory is taken as it is used.
        let mut entries = VecDeque::new();
        let _ = entries.try_reserve_exact(size.clamp(16, 4096));
        Self {
            state: Guarded::new(State { entries, errors: VecDeque::new(), pushed: 0, popped: 0 }),
            waiting: AtomicU64::new(0),
            armed: AtomicBool::new(false),
            signal,
        }
    }

    /// Whether there seems to be nothing to read. What another thread adds at this moment may not
    /// be seen yet.
    #[inline]
    pub fn seems_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Relaxed: only a hint for readers without the lock.
    #[inline]
    fn note(&self, state: &State) {
        // The hint is no part of the protocols that are modelled, and would only multiply them.
        if cfg!(loom) {
            return;
        }
        let waiting = state.entries.len() + state.errors.len();
        self.waiting.store(waiting as u64, Ordering::Relaxed);
    }

    /// Appends a completion.
    #[inline]
    pub fn push(&self, entry: Entry) {
        let mut state = self.state.lock();
        state.entries.push_back(entry);
        state.pushed += 1;
        self.note(&state);
        drop(state);
        self.ring();
    }

    /// Appends an error.
    #[cold]
    pub fn push_error(&self, error: CqError) {
        let mut state = self.state.lock();
        let at = state.pushed;
        state.errors.push_back((at, error));
        self.note(&state);
        drop(state);
        self.ring();
    }

    #[inline]
    fn ring(&self) {
        if let Some(signal) = &self.signal {
            // Pairs with the fence in `arm`: either the sleeper sees the entry or we see `armed`.
            fence(Ordering::SeqCst);
            if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
                signal.set();
            }
        }
    }

    /// Moves entries into `out`; `EAVAIL` when an error is at the head, `EAGAIN` when empty.
    #[inline]
    pub fn read(&self, out: &mut EntryBuf) -> Result<usize> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut limit = u64::MAX;
        if let Some((at, _)) = state.errors.front() {
            limit = at - state.popped;
            if limit == 0 {
                return Err(Errno::EAVAIL);
            }
        }
        let mut taken = 0;
        while taken < limit && out.has_room() {
            let Some(entry) = state.entries.pop_front() else { break };
            out.push(&entry);
            taken += 1;
        }
        state.popped += taken;
        self.note(state);
        if taken == 0 { Err(Errno::EAGAIN) } else { Ok(taken as usize) }
    }

    /// Takes the error at the head.
    pub fn read_error(&self) -> Option<CqError> {
        let mut state = self.state.lock();
        let popped = state.popped;
        match state.errors.front() {
            Some((at, _)) if *at == popped => {
                let (_, error) = state.errors.pop_front()?;
                self.note(&state);
                Some(error)
            }
            _ => None,
        }
    }

    /// Whether there is anything to read.
    pub fn has_entries(&self) -> bool {
        let state = self.state.lock();
        !state.entries.is_empty() || !state.errors.is_empty()
    }

    /// Announces a sleeper; `false` if there is something to read already.
    pub fn arm(&self) -> bool {
        if let Some(signal) = &self.signal {
            signal.clear();
        }
        self.armed.store(true, Ordering::Relaxed);
        // Pairs with the fence in `ring`.
        fence(Ordering::SeqCst);
        if !self.has_entries() {
            return true;
        }
        // Another thread may sleep, and what was cleared above may have been meant for it.
        if let Some(signal) = &self.signal {
            signal.set();
        }
        false
    }

    /// Whether there is room for an entry.
    pub fn has_room(&self) -> bool {
        self.state.lock().entries.capacity() != 0
    }

    /// The signal, if this queue has one.
    pub fn signal(&self) -> Option<&Signal> {
        self.signal.as_ref()
    }
}
