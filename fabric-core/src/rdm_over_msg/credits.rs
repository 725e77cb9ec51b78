//! PENDING. Credits: how peers that count them learn how many messages they may send.
//!
//! Where a transport keeps so many receives posted for each connection, a peer may count them, and
//! sends nothing more when it believes that all are used. We decline that, and need no credits
//! ourselves, since such transports send again what has found no receive. But peers that are too old
//! to be asked decide alone. They begin with one credit and keep the last one for telling us of ours,
//! so they are told of all others when the connection is up, and of more whenever half of them have
//! been used.

use super::{Engine, Transport, packet::Head, record::FlowControl};
use crate::{lock::Lock, slab::Handle};

/// Receives that a peer has used and has not been told of; nothing if it does not count.
pub(super) type Credits = Option<u32>;

/// What is kept for a peer that has answered so.
pub(super) const fn wanted<T: Transport>(said: FlowControl) -> Credits {
    match said {
        FlowControl::Unsaid if T::RECEIVES > 1 => Some(T::RECEIVES - 1),
        _ => None,
    }
}

impl<T: Transport, L: Lock> Engine<T, L> {
    /// A peer has used a receive.
    #[inline]
    pub(super) fn count_receive(&mut self, handle: Handle) {
        if T::RECEIVES == 0 {
            return;
        }
        if let Some(Some(used)) = self.conns.get_mut(handle).map(|conn| &mut conn.credits) {
            *used += 1;
            if *used >= (T::RECEIVES / 2).max(1) {
                self.give_credits(handle);
            }
        }
    }

    /// Tells a peer of the receives that there are.
    #[cold]
    pub(super) fn give_credits(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        if let Some(used) = conn.credits.as_mut().filter(|used| **used != 0) {
            let head = Head::credit(std::mem::take(used).into()).about(conn.theirs, 0);
            self.answer(handle, head, &[]);
        }
    }
}
