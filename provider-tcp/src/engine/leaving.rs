//! HOT. When operations leave, and when that is told.
//!
//! A system call for each message is what bounds the rate of small ones, so those of a window share
//! calls. Nothing that an application takes for sent may depend on another call of it, though: it may
//! wait for its peer by other ways. So what is staged has completed when it has left, and what has no
//! completion entry goes to the kernel at once, which may hold it back for a moment.

use std::collections::VecDeque;

use fabric_core::{
    Errno,
    completion::{CqError, Entry, Interest, Report},
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    slab::Handle,
};

use super::{
    Core, Ep,
    conn::{Conn, Tx},
};

/// When an operation leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// In this call.
    Now,
    /// In this call; the kernel may hold it back for company, for a moment.
    Held,
    /// In the next progress call, which its owner makes to learn of its end, or has promised
    /// (`FI_MORE`).
    Staged,
}

/// Operations whose end is told when the last of their bytes leaves, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    staged: VecDeque<Staged>,
    /// Bytes that were staged before those that are now.
    base: u64,
}

#[derive(Debug)]
struct Staged {
    /// Behind its last byte, of all bytes that were ever staged.
    end: u64,
    interest: Interest,
    kind: Flags,
    len: usize,
}

impl Tx {
    /// When an operation leaves that is posted behind progress call `round`: with `more` announced
    /// behind it, and with its end `told` once it has left. All leave at once if operations do not
    /// `coalesce`.
    #[inline]
    pub(super) fn when(&mut self, round: u32, coalesce: bool, more: bool, told: bool) -> Leave {
        if more {
            Leave::Staged
        } else if self.burst.is_among_first(round, coalesce) {
            Leave::Now
        } else if told {
            Leave::Staged
        } else {
            Leave::Held
        }
    }

    /// Tells the end of an operation whose last byte has just been staged, once that has left; at once
    /// where nobody hears of it.
    #[inline]
    pub(super) fn promise<L: Lock>(
        &mut self,
        report: &mut Report<L>,
        interest: &Interest,
        kind: Flags,
        len: usize,
    ) {
        if report.tells(interest) {
            let end = self.leaving.base + self.out.len() as u64;
            self.leaving.staged.push_back(Staged { end, interest: *interest, kind, len });
        } else {
            report.sent(interest, kind, len);
        }
    }

    /// Takes note that `count` more staged bytes have left.
    #[inline]
    pub(super) fn left(&mut self, count: usize) {
        self.sent += count;
        if self.staged() == 0 {
            self.forget_sent();
        }
    }

    /// Lets go of bytes that have left.
    pub(super) fn forget_sent(&mut self) {
        self.leaving.base += self.sent as u64;
        if self.staged() == 0 {
            self.out.clear();
        } else {
            self.out.drain(..self.sent);
        }
        self.sent = 0;
    }

    /// Tells the ends of the operations that have left.
    #[inline]
    pub(super) fn tell_left<L: Lock>(&mut self, report: &mut Report<L>) {
        let left = self.leaving.base + self.sent as u64;
        while let Some(op) = self.leaving.staged.front()
            && op.end <= left
        {
            report.sent(&op.interest, op.kind, op.len);
            self.leaving.staged.pop_front();
        }
    }
}

impl<L: Lock> Core<L> {
    /// All of an operation is staged, so that its memory is no longer needed: it ends when it has left.
    pub(super) fn promise<S>(&mut self, conn: &mut Conn<S>, handle: Handle, len: usize) {
        let Some(mut op) = self.ops.remove(handle) else { return };
        let Some(ep) = self.eps.get_mut(op.ep) else { return };
        ep.taken_off(&mut op);
        if ep.layer.is_some() {
            return self.layer_done(op.interest.context, Ok(len));
        }
        conn.tx.promise(&mut ep.report, &op.interest, op.kind.flags(), len);
    }
}

impl Leaving {
    /// Tells the failure of what has not left.
    pub(super) fn fail<L: Lock>(self, ep: &mut Ep<L>, peer: PeerId, reason: Errno) {
        for op in self.staged {
            ep.fail(peer, &op.interest, op.kind, reason);
        }
    }
}

impl<L: Lock> Ep<L> {
    /// Tells the failure of an operation towards a peer.
    #[cold]
    pub(super) fn fail(&mut self, peer: PeerId, interest: &Interest, kind: Flags, reason: Errno) {
        let src = self.source(peer);
        let entry = Entry { src, ..Entry::new(interest.context, kind) };
        let mut error = CqError::new(entry, reason);
        if let Some(peer) = self.peers.get(peer as usize) {
            error = error.data(&peer.address.to_bytes());
        }
        self.report.send_failed(error);
    }
}
