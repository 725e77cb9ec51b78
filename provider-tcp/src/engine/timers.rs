//! PENDING. What is due at a time. Nothing is taken back: what has become of it is for the reader to
//! look at, so that a hand-shake that ends well costs no search.

use std::{cmp::Reverse, collections::BinaryHeap, time::Instant};

use fabric_core::{matching::PeerId, slab::Handle};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A hand-shake must have moved on.
    Handshake(Handle),
    /// A peer is tried again.
    Again(Handle, PeerId),
    /// The listener is watched again.
    Listener(Handle),
    /// Peers that owe acknowledgements are looked at.
    Look,
}

/// A heap of them.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Instant, Due)>>);

impl Timers {
    /// Adds one.
    pub(super) fn push(&mut self, at: Instant, due: Due) {
        self.0.push(Reverse((at, due)));
    }

    /// When the first is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes out the first that is due by `now`.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Due> {
        self.first().filter(|at| *at <= now)?;
        self.0.pop().map(|Reverse((_, due))| due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn in_order_of_time() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut timers = Timers::default();
        assert_eq!(timers.first(), None);
        timers.push(at(30), Due::Look);
        timers.push(at(10), Due::Again(Handle::from_raw(1), 2));
        timers.push(at(20), Due::Handshake(Handle::from_raw(3)));
        assert_eq!(timers.first(), Some(at(10)));
        assert_eq!(timers.pop(at(9)), None);
        assert_eq!(timers.pop(at(25)), Some(Due::Again(Handle::from_raw(1), 2)));
        assert_eq!(timers.pop(at(25)), Some(Due::Handshake(Handle::from_raw(3))));
        assert_eq!(timers.pop(at(25)), None);
        assert_eq!(timers.pop(at(30)), Some(Due::Look));
        assert_eq!(timers.first(), None);
    }
}
