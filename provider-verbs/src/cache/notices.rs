//! HOT. What is known of memory that is gone: written by one thread, read by all who keep
//! registrations.
//!
//! Who unmaps memory goes on as soon as the notice of it has been read from the kernel. So a thread
//! that registers the same address next must not miss it, although it is not in the ring yet: the
//! reader says before it reads that it is at it, and whoever sees that trusts nothing. Neither side
//! waits for the other, and nothing is allocated.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use crate::sys::Gone;

/// Notices that are kept for those who have not looked.
const KEPT: usize = 4096;
/// In the first word of a notice, whose addresses are those of pages.
const SOON: usize = 1;

/// The ring.
#[derive(Debug)]
pub(crate) struct Notices {
    /// Odd while notices are on their way from the kernel to the ring.
    turn: AtomicU64,
    /// Notices ever written.
    count: AtomicU64,
    ring: Box<[[AtomicUsize; 2]]>,
}

/// What somebody who reads finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// All that has gone before has been told.
    All,
    /// There may be more, which is told the next time.
    More,
    /// Notices have been overwritten: anything may be gone.
    Lost,
}

impl Notices {
    pub(crate) fn new() -> Self {
        let ring = (0..KEPT).map(|_| [AtomicUsize::new(0), AtomicUsize::new(0)]).collect();
        Self { turn: AtomicU64::new(0), count: AtomicU64::new(0), ring }
    }

    /// Where somebody begins to read.
    pub(crate) fn now(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Takes notices in, by the one thread that does. `read` is called when nobody trusts the ring.
    pub(crate) fn take(&self, mut read: impl FnMut(&mut dyn FnMut(Gone))) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::SeqCst);
        read(&mut |gone| self.push(gone));
        // Release: pairs with the load in `read`, which sees the ring as it is now.
        self.turn.store(turn + 2, Ordering::Release);
    }

    fn push(&self, gone: Gone) {
        let count = self.count.load(Ordering::Relaxed);
        let [first, second] = &self.ring[count as usize % KEPT];
        // Release: pairs with the fence in `read`. Who sees one of the words sees `count`, too.
        fence(Ordering::Release);
        first.store(gone.start | if gone.soon { SOON } else { 0 }, Ordering::Relaxed);
        second.store(gone.end, Ordering::Relaxed);
        // Release: pairs with the first load of `count` in `read`, which sees both words.
        self.count.store(count + 1, Ordering::Release);
    }

    /// Hands out what has come since `from`, which is moved on.
    #[inline]
    pub(crate) fn read(&self, from: &mut u64, mut each: impl FnMut(Gone)) -> Known {
        // SeqCst: the kernel orders it behind the store in `take` for who comes from an unmapping.
        let turn = self.turn.load(Ordering::SeqCst);
        let count = self.count.load(Ordering::Acquire);
        let known = if turn.is_multiple_of(2) { Known::All } else { Known::More };
        if count == *from {
            return known;
        }
        let first = std::mem::replace(from, count);
        if count - first < KEPT as u64 {
            for at in first..count {
                let [start, end] = &self.ring[at as usize % KEPT];
                let (start, end) = (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed));
                each(Gone { start: start & !SOON, end, soon: start & SOON != 0 });
            }
            // Acquire: pairs with the fence in `push`.
            fence(Ordering::Acquire);
            if self.count.load(Ordering::Relaxed) - first < KEPT as u64 {
                return known;
            }
        }
        Known::Lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(start: usize) -> Gone {
        Gone { start: start << 12, end: (start + 1) << 12, soon: start % 2 == 1 }
    }

    fn read(notices: &Notices, from: &mut u64) -> (Known, Vec<Gone>) {
        let mut all = Vec::new();
        let known = notices.read(from, |gone| all.push(gone));
        (known, all)
    }

    #[test]
    fn everybody_reads_everything_once() {
        let notices = Notices::new();
        let (mut one, mut other) = (notices.now(), notices.now());
        notices.take(|push| (1..4).for_each(|at| push(gone(at))));
        let all = vec![gone(1), gone(2), gone(3)];
        assert_eq!(read(&notices, &mut one), (Known::All, all.clone()));
        assert_eq!(read(&notices, &mut one), (Known::All, vec![]));
        assert_eq!(read(&notices, &mut other), (Known::All, all));
    }

    #[test]
    fn nobody_trusts_what_is_being_written() {
        let notices = Notices::new();
        let mut from = notices.now();
        notices.take(|push| {
            assert_eq!(read(&notices, &mut from), (Known::More, vec![]));
            push(gone(7));
            assert_eq!(read(&notices, &mut from), (Known::More, vec![gone(7)]));
        });
        assert_eq!(read(&notices, &mut from), (Known::All, vec![]));
    }

    #[test]
    fn who_comes_too_late_knows_nothing() {
        let notices = Notices::new();
        let mut from = notices.now();
        notices.take(|push| (0..KEPT + 1).for_each(|at| push(gone(at))));
        assert_eq!(read(&notices, &mut from).0, Known::Lost);
        assert_eq!(read(&notices, &mut from), (Known::All, vec![]));
    }
}
