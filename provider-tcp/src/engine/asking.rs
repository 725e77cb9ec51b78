//! PENDING. Injected operations towards a peer that is not connected.
//!
//! Whoever has injected an operation takes it for done, and may make no progress for a long time: it
//! computes, or waits for others by other means than this library. A connection takes progress to come
//! up, so such an operation stays with the application, which is told to try again.

use std::time::{Duration, Instant};

use fabric_core::{Errno, lock::Lock, matching::PeerId, slab::Handle};

use super::Engine;
use crate::net::Net;

/// How long the end of all attempts is told to whoever asks again. Later questions begin anew.
const FRESH: Duration = Duration::from_secs(1);
/// Questions in a row that are answered without progress, of an application that only asks.
const PROGRESS_EVERY: u32 = 16;

/// What has been asked of a peer, and the answer if it could not be reached.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    count: u32,
    answer: Option<(Errno, Instant)>,
}

impl Asking {
    /// Somebody wants to be connected.
    pub(super) const fn is_pending(&self) -> bool {
        self.count != 0
    }

    /// The peer has been reached, or nobody wants to reach it any more.
    pub(super) const fn end(&mut self) {
        self.count = 0;
    }

    /// The peer could not be reached.
    pub(super) const fn fail(&mut self, reason: Errno, now: Instant) {
        if self.is_pending() {
            self.answer = Some((reason, now));
        }
        self.end();
    }

    /// Takes a question. `None`: the attempts go on.
    fn ask(&mut self, now: Instant) -> Option<Errno> {
        if let Some((reason, since)) = self.answer.take()
            && now.saturating_duration_since(since) < FRESH
        {
            return Some(reason);
        }
        self.count = self.count.saturating_add(1);
        None
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Answers an injected operation towards a peer that is not connected, and sees to it that it will
    /// be: `EAGAIN`, or why it could not be.
    #[cold]
    pub(super) fn not_yet(&mut self, ep: Handle, peer: PeerId) -> Errno {
        let now = self.net.now();
        let Some(target) = self.core.peer_mut(ep, peer) else { return Errno::EINVAL };
        if let Some(reason) = target.asking.ask(now) {
            return reason;
        }
        let spins = target.asking.count.is_multiple_of(PROGRESS_EVERY);
        if target.conn.is_none() {
            self.reach(ep, peer);
        }
        if spins {
            self.progress();
        }
        Errno::EAGAIN
    }
}
