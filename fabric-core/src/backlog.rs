//! HOT. Operations of an endpoint that wait to be sent, and how many may.
//!
//! Two sides that only post would wait for each other for ever if they were refused: those who post
//! before they receive are refused late, and make progress all the while. Those that wait for one peer
//! take as much of the endpoint's room as is left for its other peers, so that one that takes nothing
//! is refused before the others are.

/// Operations that wait to be sent, all peers together, before all but a few of each are refused.
const MOST: usize = 128 << 10;
/// Operations that may wait for a peer whatever waits for others.
const LEAST: usize = 16;
/// Posts above an endpoint's size between two rounds of progress.
const PROGRESS_EVERY: usize = 16;

/// Counts of what waits. Those for one peer are kept with the peer, and handed in as `own`.
#[derive(Debug)]
pub struct Backlog {
    /// Operations that may wait without further ado.
    size: usize,
    all: usize,
}

/// Whether one more may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It may.
    Some,
    /// It may when progress has been made.
    Little,
    /// It may not, and progress should be made.
    None,
}

impl Backlog {
    /// For an endpoint that keeps so many operations.
    pub const fn new(size: usize) -> Self {
        Self { size, all: 0 }
    }

    /// Operations that wait.
    #[inline]
    pub const fn len(&self) -> usize {
        self.all
    }

    /// Nothing waits.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.all == 0
    }

    /// Whether one more may wait for a peer for which `own` do.
    #[inline]
    pub fn room(&self, own: usize) -> Room {
        if self.all < self.size {
            return Room::Some;
        }
        let most = MOST.max(self.size.saturating_mul(2));
        if own >= most.saturating_sub(self.all).max(LEAST) {
            Room::None
        } else if self.all.is_multiple_of(PROGRESS_EVERY) {
            Room::Little
        } else {
            Room::Some
        }
    }

    /// One more waits. Endpoints with one peer need not count for it.
    #[inline]
    pub fn add(&mut self, own: Option<&mut usize>) {
        self.all += 1;
        if let Some(own) = own {
            *own += 1;
        }
    }

    /// One waits no more.
    #[inline]
    pub fn remove(&mut self, own: Option<&mut usize>) {
        self.all -= 1;
        if let Some(own) = own {
            *own -= 1;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Fills the room that a peer may have.
    fn fill(backlog: &mut Backlog, own: &mut usize) -> usize {
        let before = *own;
        while backlog.room(*own) != Room::None {
            backlog.add(Some(own));
        }
        *own - before
    }

    #[test]
    fn within_its_size_nothing_is_refused_or_delayed() {
        let (mut backlog, mut own) = (Backlog::new(100), 0);
        for _ in 0..100 {
            assert_eq!(backlog.room(own), Room::Some);
            backlog.add(Some(&mut own));
        }
        let delayed = (0..160).filter(|_| {
            backlog.add(Some(&mut own));
            backlog.room(own) == Room::Little
        });
        assert_eq!(delayed.count(), 10);
    }

    #[test]
    fn a_peer_that_takes_nothing_leaves_room_for_others() {
        let mut backlog = Backlog::new(100);
        let (mut first, mut second, mut third) = (0, 0, 0);
        assert_eq!(fill(&mut backlog, &mut first), MOST / 2);
        assert_eq!(fill(&mut backlog, &mut second), MOST / 4);
        assert_eq!(fill(&mut backlog, &mut third), MOST / 8);
        // What is left is little, and everybody has a part of it.
        for _ in 0..1 << 20 {
            let mut own = 0;
            assert!(fill(&mut backlog, &mut own) >= LEAST);
            if own == LEAST {
                break;
            }
        }
        while first > 0 {
            backlog.remove(Some(&mut first));
        }
        assert_ne!(backlog.room(first), Room::None);
    }
}
