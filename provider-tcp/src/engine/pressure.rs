//! HOT. Bounds on what a peer that does not keep up makes wait here.
//!
//! *Answers.* Whoever asks and takes no answer would have them pile up at the target, so beyond
//! [`ANSWERS_MAX`] the target leaves a connection's requests in its socket. Two sides that did that to
//! each other, with full sockets between them, would wait for each other for ever. So nobody of our
//! own kind asks for more than [`ASKED_MAX`] answers at a time, which no target finds too many; other
//! libraries ask for more, and always read on.

use fabric_core::{Errno, Result, backlog::Room, lock::Lock, matching::PeerId, slab::Handle};

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

impl<L: Lock, N: Net> Engine<L, N> {
    /// Before an operation towards a peer is taken: makes progress if many wait. `EAGAIN`: too many.
    #[inline]
    pub(super) fn make_room(&mut self, ep: Handle, peer: PeerId) -> Result<()> {
        let state = self.core.eps.get(ep).ok_or(Errno::EOPBADSTATE)?;
        let own = state.peers.get(peer as usize).map_or(0, |peer| peer.queued);
        let room = state.backlog.room(own);
        if room != Room::Some {
            self.progress();
        }
        if room == Room::None { Err(Errno::EAGAIN) } else { Ok(()) }
    }
}

impl<L: Lock> Ep<L> {
    /// An operation waits to be sent to a peer.
    pub(super) fn queued_for(&mut self, peer: PeerId) {
        self.backlog.add(self.peers.get_mut(peer as usize).map(|peer| &mut peer.queued));
    }

    /// It does not any more, if it did.
    pub(super) fn taken_off(&mut self, op: &mut TxOp) {
        if std::mem::take(&mut op.queued) {
            self.backlog.remove(self.peers.get_mut(op.peer as usize).map(|peer| &mut peer.queued));
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
