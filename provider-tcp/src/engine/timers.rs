//! PENDING. What is due at a time. Nothing is taken back: what has become of it is for the reader to
//! look at, so that a hand-shake that ends well costs no search.

use std::{cmp::Reverse, collections::BinaryHeap, time::Instant};

use fabric_core::{Errno, lock::Lock, log::Subsys, matching::PeerId, slab::Handle};

use super::{
    Engine, LISTENER,
    conn::{Conn, State},
};
use crate::net::Net;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// A hand-shake must have moved on.
    Handshake(Handle),
    /// A peer is tried again.
    Again(Handle, PeerId),
    /// A request waits for what shows of the connection that is there.
    Claim(Handle),
    /// The listener is watched again.
    Listener(Handle),
    /// Peers that owe acknowledgements are looked at.
    Look,
    /// The protocol above wants to be called.
    Layer,
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

impl<L: Lock, N: Net> Engine<L, N> {
    /// The time for a step of a hand-shake is over. After a pause in which the application made no
    /// progress the step may have been made without our seeing it.
    pub(super) fn overdue(&mut self, handle: Handle, now: Instant) {
        let late = |conn: &Conn<N::Stream>| conn.deadline.is_some_and(|at| at <= now);
        let Some(conn) = self.conns.get(handle).filter(|conn| late(conn)) else { return };
        match conn.state {
            State::Connecting => self.connected(handle),
            State::Accepted => {
                self.greet(handle);
            }
            State::Requested => {
                self.greet(handle);
                if self.conns.get(handle).is_some_and(late) {
                    self.still_no_answer(handle);
                }
                return;
            }
            State::Waiting | State::Open => {}
        }
        if self.conns.get(handle).is_some_and(late) {
            self.down(handle, Errno::ETIMEDOUT);
        }
    }

    /// A program that asks for one connection hears of its end. Operations of reliable datagrams wait
    /// for as long as their peer computes.
    fn still_no_answer(&mut self, handle: Handle) {
        let to = self.target(handle);
        let Some(conn) = self.conns.get_mut(handle) else { return };
        conn.deadline = None;
        let Some(ep) = self.core.eps.get(conn.ep) else { return };
        if ep.msg.is_some() {
            return self.down(handle, Errno::ETIMEDOUT);
        }
        // The protocol above, where there is one, names its peer itself.
        let Some(to) = to.filter(|_| conn.layer.is_none()) else { return };
        let patience = ep.limits.connect.as_secs();
        fabric_core::warn_few!(
            "tcp",
            Subsys::EpCtrl,
            "{to} is connected, but has not answered for {patience} s: it makes no progress, or is no \
             fabric endpoint; what was posted to it waits"
        );
    }

    /// It is time to try a peer again.
    pub(super) fn try_again(&mut self, ep: Handle, peer: PeerId, now: Instant) {
        let target = self.core.peer_mut(ep, peer);
        if target.is_some_and(|target| target.attempts.is_due(now)) {
            self.reach(ep, peer);
        }
    }

    /// The listener has rested.
    pub(super) fn listen_again(&mut self, ep: Handle) {
        if self.core.eps.get(ep).is_some() {
            self.net.watch_listener(ep.raw() ^ LISTENER, true);
        }
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
