//! HOT. When operations leave, and when that is told.
//!
//! A posted operation leaves in its own call: the program may wait for its peer by other ways and never
//! call again. What bounds the rate of small messages is less the system call than what the kernel does
//! behind it to send a segment and to wake the peer, so in a window the kernel may hold bytes back for
//! company (`MSG_MORE`), for a program that is known to come back at once. Only `FI_MORE` is a promise
//! to call again; what has it waits in our memory.
//!
//! An operation has completed when the kernel has its last byte. That is told then, and not before:
//! with a connection that ends fails all that has not left, entries and counters alike.

use std::{collections::VecDeque, time::Instant};

use fabric_core::{
    Errno,
    completion::{CqError, Entry, Interest},
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    slab::Handle,
};

use super::{
    Core, Ep,
    conn::{Conn, Tx},
    habit::Habit,
    layer,
};

/// When an operation leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// In this call.
    Now,
    /// In this call; the kernel may hold it back for company until the next progress call, for a moment
    /// at most.
    Held,
    /// With the operation that its owner has announced (`FI_MORE`), or in the next progress call.
    Staged,
}

/// Operations that are staged and have not left yet, oldest first.
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
    /// When an operation leaves that is posted behind progress call `round`, with `more` announced
    /// behind it. `habit`: of the program, where operations may be held back at all.
    #[inline]
    pub(super) fn when(
        &mut self,
        round: u32,
        more: bool,
        habit: Option<&mut Habit>,
        now: impl FnOnce() -> Instant,
    ) -> Leave {
        if more {
            return Leave::Staged;
        }
        let Some(habit) = habit else { return Leave::Now };
        let held = !self.burst.is_among_first(round) && habit.posts(now());
        if held { Leave::Held } else { Leave::Now }
    }

    /// Keeps an operation whose last byte has just been staged until that has left.
    #[inline]
    pub(super) fn promise(&mut self, interest: &Interest, kind: Flags, len: usize) {
        let end = self.place();
        self.leaving.staged.push_back(Staged { end, interest: *interest, kind, len });
    }

    /// Where the next byte is staged, among all that ever were.
    #[inline]
    pub(super) fn place(&self) -> u64 {
        self.leaving.base + self.out.len() as u64
    }

    /// Takes the last message back, which was staged at `place`, unless bytes of it have left.
    #[cold]
    pub(super) fn take_back(&mut self, place: u64) -> bool {
        if self.leaving.base + self.sent as u64 > place {
            return false;
        }
        self.out.truncate((place - self.leaving.base) as usize);
        self.id = self.id.wrapping_sub(1);
        true
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

    /// The oldest operation that has left and has not been told.
    #[inline]
    fn next_left(&mut self) -> Option<Staged> {
        let left = self.leaving.base + self.sent as u64;
        self.leaving.staged.front().filter(|op| op.end <= left)?;
        self.leaving.staged.pop_front()
    }
}

impl<L: Lock> Core<L> {
    /// All of an operation is staged, so that its memory is no longer needed: it ends when it has left.
    pub(super) fn promise<S>(&mut self, conn: &mut Conn<S>, handle: Handle, len: usize) {
        let Some(mut op) = self.ops.remove(handle) else { return };
        if let Some(ep) = self.eps.get_mut(op.ep) {
            ep.taken_off(&mut op);
        }
        conn.tx.promise(&op.interest, op.kind.flags(), len);
    }

    /// Tells the ends of a connection's operations that have left.
    #[inline]
    pub(super) fn tell_left<S>(&mut self, conn: &mut Conn<S>) {
        let Some(ep) = self.eps.get_mut(conn.ep) else { return };
        while let Some(op) = conn.tx.next_left() {
            match ep.layer {
                None => ep.report.sent(&op.interest, op.kind, op.len),
                Some(_) => self.layer.push(layer::done(op.interest.context, Ok(op.len))),
            }
        }
    }

    /// Tells the failure of what has not left.
    pub(super) fn fail_leaving<S>(&mut self, conn: &mut Conn<S>, reason: Errno) {
        let Some(ep) = self.eps.get_mut(conn.ep) else { return };
        for op in conn.tx.leaving.staged.drain(..) {
            match ep.layer {
                None => ep.fail(conn.peer, &op.interest, op.kind, reason),
                Some(_) => self.layer.push(layer::done(op.interest.context, Err(reason))),
            }
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
