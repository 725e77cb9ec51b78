//! HOT. Bounds on what a peer that does not keep up makes wait here.
//!
//! *Answers.* Whoever asks and takes no answer would have them pile up at the target, so beyond
//! [`ANSWERS_MAX`] the target leaves a connection's requests in its socket. Two sides that did that to
//! each other, with full sockets between them, would wait for each other for ever. So nobody of our
//! own kind asks for more than [`ASKED_MAX`] answers at a time, which no target finds too many; other
//! libraries ask for more, and always read on.
//!
//! *Operations.* Those that wait to be sent to a peer take as much of the endpoint's room as is left
//! for its other peers, so that one that takes nothing is refused before the others are.

use fabric_core::{Errno, Result, lock::Lock, matching::PeerId, slab::Handle};

use super::{
    Engine, Ep,
    conn::{Conn, Tx},
    transmit::{TxKind, TxOp},
};
use crate::net::Net;

/// Answers that are asked for on one connection before operations wait for some to come.
pub(super) const ASKED_MAX: usize = 4096;
/// What waits to leave on a connection before nothing more is taken from it: the answers that a peer
/// may ask for, and as many announced messages of ours that it has asked for.
const ANSWERS_MAX: usize = 2 * ASKED_MAX;

/// Operations that wait to be sent, all peers together, before all but a few of each are refused.
const QUEUED_MAX: usize = 128 << 10;
/// Operations that may wait for a peer whatever waits for others.
const QUEUED_MIN: usize = 16;
/// Posts above an endpoint's size between two rounds of progress.
const PROGRESS_EVERY: usize = 16;

impl<L: Lock, N: Net> Engine<L, N> {
    /// Before an operation towards a peer is taken: makes progress if many wait. `EAGAIN`: too many.
    ///
    /// Two sides that only post would otherwise wait for each other for ever: those who post before
    /// they receive are refused late, and make progress all the while.
    pub(super) fn make_room(&mut self, ep: Handle, peer: PeerId) -> Result<()> {
        let state = self.core.eps.get(ep).ok_or(Errno::EOPBADSTATE)?;
        if state.queued < state.limits.outstanding {
            return Ok(());
        }
        let full = !state.has_room_for(peer);
        if full || state.queued.is_multiple_of(PROGRESS_EVERY) {
            self.progress();
        }
        if full { Err(Errno::EAGAIN) } else { Ok(()) }
    }
}

impl<L: Lock> Ep<L> {
    /// Whether one more operation may wait for a peer: it has no more than what is left for others.
    fn has_room_for(&self, peer: PeerId) -> bool {
        let all = QUEUED_MAX.max(self.limits.outstanding.saturating_mul(2));
        let own = self.peers.get(peer as usize).map_or(0, |peer| peer.queued);
        own < all.saturating_sub(self.queued).max(QUEUED_MIN)
    }

    /// An operation waits to be sent to a peer.
    pub(super) fn queued_for(&mut self, peer: PeerId) {
        self.queued += 1;
        if let Some(peer) = self.peers.get_mut(peer as usize) {
            peer.queued += 1;
        }
    }

    /// It does not any more, if it did.
    pub(super) fn taken_off(&mut self, op: &mut TxOp) {
        if !std::mem::take(&mut op.queued) {
            return;
        }
        self.queued -= 1;
        if let Some(peer) = self.peers.get_mut(op.peer as usize) {
            peer.queued -= 1;
        }
    }
}

impl<S> Conn<S> {
    /// Whether the peer owes as many answers as one may ask for, and this operation asks for another.
    pub(super) fn asks_too_much(&self, op: &TxOp) -> bool {
        let owed = self.acks.len() + self.reads.len() + self.fetches.len() + self.announced.len();
        owed >= ASKED_MAX && self.will_answer(op)
    }

    /// Whether the peer gives an answer of any kind to an operation.
    fn will_answer(&self, op: &TxOp) -> bool {
        match op.kind {
            TxKind::Read(_) | TxKind::Atomic { .. } => true,
            TxKind::Write(_) => self.extensions || op.acknowledged(),
            TxKind::Packet(_) => op.acknowledged(),
            TxKind::Send { .. } => op.acknowledged() || self.announces(op),
        }
    }
}

impl Tx {
    /// Whether so many answers wait that the peer may ask for no more.
    #[inline]
    pub(super) fn is_swamped(&self) -> bool {
        self.control.len() > ANSWERS_MAX
    }
}
