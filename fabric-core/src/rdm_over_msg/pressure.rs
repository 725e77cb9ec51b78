//! HOT. Bounds on what a peer that does not keep up makes wait here.
//!
//! *Messages* without a receive are kept as they came, within a budget. Beyond it the connection is
//! paused, and with it everything behind them. That is harmless only while nothing that the
//! application waits for can be behind them, so the budget stretches where receives are posted, and
//! where the peer is to answer something.
//!
//! *Answers.* Whoever asks and takes no answer would have them pile up here, so beyond
//! [`ANSWERS_MAX`] nothing more is taken of its connection. Two sides that did that to each other, with
//! a full network between them, would wait for each other for ever. So nobody of our own kind asks for
//! more than [`ASKED_MAX`] answers at a time, which nobody finds too many.
//!
//! *Operations*: see [`Backlog`](crate::backlog).

use super::{
    Conn, Core, Engine, Transport, Work,
    transmit::{ACKNOWLEDGED, TxKind, TxOp},
};
use crate::{
    Errno, Result, backlog::Room, flags::Flags, lock::Lock, matching::PeerId, slab::Handle,
};

/// Bytes of one peer, and of all, that are kept without anybody waiting for what comes behind them.
pub(super) const KEPT_PEER: usize = 16 << 20;
const KEPT_ALL: usize = 256 << 20;
/// The same where somebody may be waiting.
const KEPT_MAX: usize = 1 << 30;
/// What keeping a message takes beside its bytes.
const KEPT_EACH: usize = 128;
/// Answers that a peer is asked for before operations wait for some to come.
pub(super) const ASKED_MAX: u32 = 4096;
/// What waits to leave on a connection before nothing more is taken of it.
pub(super) const ANSWERS_MAX: usize = 2 * ASKED_MAX as usize;

/// What a peer makes wait.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Bytes of its messages that wait for receives.
    pub(super) kept: usize,
    /// Operations that wait to be sent to it.
    pub(super) queued: usize,
    /// Operations that have left, and have not ended.
    pub(super) begun: u32,
    /// Of these, and of messages on their way here, those that end with what it says.
    pub(super) asked: u32,
}

impl<T: Transport, L: Lock> Engine<T, L> {
    /// Before an operation towards a peer is taken: makes progress if many wait. `EAGAIN`: too many.
    #[inline]
    pub(super) fn make_room(&mut self, peer: PeerId) -> Result<()> {
        let own = self.core.peers.get(peer).map_or(0, |peer| peer.load.queued);
        let room = self.core.backlog.room(own);
        if room != Room::Some {
            self.progress();
        }
        if room == Room::None { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    /// Answers an injected operation towards a peer that is not connected, and sees to it that it will
    /// be: `EAGAIN`, or why it could not be.
    #[cold]
    pub(super) fn not_yet(&mut self, peer: PeerId) -> Errno {
        let now = self.transport.now();
        let Some(target) = self.core.peers.get_mut(peer) else { return Errno::EINVAL };
        let progress_is_due = match target.asking.ask(now) {
            Ok(due) => due,
            Err(reason) => return reason,
        };
        if target.conn.is_none() {
            self.reach(peer);
        }
        if progress_is_due {
            self.progress();
        }
        Errno::EAGAIN
    }

    /// Pauses a connection that takes too much memory.
    #[inline]
    pub(super) fn pause_if_full(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        if !conn.paused && self.core.is_full(conn) {
            conn.paused = true;
            self.paused.push(handle);
            self.transport.pause(conn.link, true);
        }
    }

    /// Pauses those that have taken too much.
    #[cold]
    pub(super) fn pause_full(&mut self) {
        while let Some(handle) = self.full.pop() {
            self.pause_if_full(handle);
        }
    }

    /// Takes messages of a connection again, if there is room for them or somebody waits for what is
    /// behind them.
    #[inline]
    pub(super) fn resume(&mut self, handle: Handle) {
        if self.conns.get(handle).is_some_and(|conn| conn.paused && !self.core.is_full(conn)) {
            self.paused.retain(|paused| *paused != handle);
            self.unpause(handle);
        }
    }

    /// The same for all.
    #[cold]
    pub(super) fn resume_all(&mut self) {
        let mut paused = std::mem::take(&mut self.paused);
        paused.retain(|handle| {
            let Some(conn) = self.conns.get(*handle) else { return false };
            let stays = self.core.is_full(conn);
            if !stays {
                self.unpause(*handle);
            }
            stays
        });
        self.paused = paused;
    }

    fn unpause(&mut self, handle: Handle) {
        if let Some(conn) = self.conns.get_mut(handle) {
            conn.paused = false;
            self.transport.pause(conn.link, false);
        }
    }
}

impl<T: Transport, L: Lock> Core<T, L> {
    /// Counts bytes of messages without a receive.
    #[inline]
    pub(super) fn hold(&mut self, peer: PeerId, len: usize, messages: usize) {
        let len = len.saturating_add(KEPT_EACH * messages);
        self.kept = self.kept.saturating_add(len);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.load.kept = peer.load.kept.saturating_add(len);
        }
    }

    /// Bytes that were kept are not any more.
    pub(super) fn let_go(&mut self, peer: PeerId, len: usize, messages: usize) {
        let len = len.saturating_add(KEPT_EACH * messages);
        self.kept = self.kept.saturating_sub(len);
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.load.kept = peer.load.kept.saturating_sub(len);
        }
    }

    /// Whether no more should be taken of a connection.
    #[inline]
    pub(super) fn is_full(&self, conn: &Conn<T>) -> bool {
        if conn.answers.len() > ANSWERS_MAX {
            return true;
        }
        let Some(Load { kept, asked, .. }) = self.peers.get(conn.peer).map(|peer| &peer.load)
        else {
            return false;
        };
        if *kept <= KEPT_PEER && self.kept <= KEPT_ALL {
            return false;
        }
        // What is waited for may be behind these messages.
        let waited = self.inbox.posted_len() != 0 || *asked != 0;
        !waited || self.kept > KEPT_MAX
    }

    /// Whether an operation is fenced off by earlier ones that have not ended, or asks for one answer
    /// too many.
    #[inline]
    pub(super) fn must_wait(&self, op: &TxOp<T>) -> bool {
        if !op.queued {
            return false;
        }
        let Some(peer) = self.peers.get(op.peer) else { return false };
        peer.load.begun != 0 && op.interest.flags.contains(Flags::FENCE)
            || peer.load.asked >= ASKED_MAX && self.asks(op)
    }

    /// Whether the peer says how an operation ends.
    fn asks(&self, op: &TxOp<T>) -> bool {
        match op.kind {
            TxKind::Send { .. } => {
                let limits = &self.limits;
                op.flags().intersects(ACKNOWLEDGED)
                    || op.payload.buffers().len() > limits.segmented.max(limits.eager as usize)
            }
            TxKind::Read(_) | TxKind::Write(_) | TxKind::Atomic { .. } => true,
        }
    }

    /// An operation waits to be sent.
    pub(super) fn has_to_wait(&mut self, op: &mut TxOp<T>) {
        op.queued = true;
        self.backlog.add(self.peers.get_mut(op.peer).map(|peer| &mut peer.load.queued));
        self.stats.queued += 1;
    }

    /// An operation has left without waiting, and has not ended.
    pub(super) fn has_left(&mut self, op: &TxOp<T>) {
        let asks = self.asks(op);
        if let Some(peer) = self.peers.get_mut(op.peer) {
            peer.load.begun += 1;
            peer.load.asked += u32::from(asks);
        }
    }

    /// An operation waits no more: it has left, and has not ended.
    pub(super) fn has_begun(&mut self, handle: Handle) {
        let Some(Work::Op(op)) = self.works.get(handle) else { return };
        if !op.queued {
            return;
        }
        let (peer, asks) = (op.peer, self.asks(op));
        if let Some(Work::Op(op)) = self.works.get_mut(handle) {
            op.queued = false;
        }
        let mut load = self.peers.get_mut(peer).map(|peer| &mut peer.load);
        if let Some(load) = &mut load {
            load.begun += 1;
            load.asked += u32::from(asks);
        }
        self.backlog.remove(load.map(|load| &mut load.queued));
    }

    /// An operation is taken out of the table.
    #[inline]
    pub(super) fn has_ended(&mut self, op: &TxOp<T>) {
        let asks = !op.queued && self.asks(op);
        let load = self.peers.get_mut(op.peer).map(|peer| &mut peer.load);
        if op.queued {
            self.backlog.remove(load.map(|load| &mut load.queued));
        } else if let Some(load) = load {
            load.begun -= 1;
            load.asked -= u32::from(asks);
        }
    }

    /// An announced message is on its way here, which takes what the peer says; or is not any more.
    pub(super) fn count_transfer(&mut self, peer: PeerId, begins: bool) {
        if let Some(peer) = self.peers.get_mut(peer) {
            let asked = &mut peer.load.asked;
            *asked = if begins { *asked + 1 } else { *asked - 1 };
        }
    }
}
