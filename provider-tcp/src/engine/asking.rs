//! PENDING. Injected operations towards a peer that is not connected stay with the application.

use fabric_core::{Errno, lock::Lock, matching::PeerId, slab::Handle};

use super::Engine;
use crate::net::Net;

impl<L: Lock, N: Net> Engine<L, N> {
    /// Answers an injected operation towards a peer that is not connected, and sees to it that it will
    /// be: `EAGAIN`, or why it could not be.
    #[cold]
    pub(super) fn not_yet(&mut self, ep: Handle, peer: PeerId) -> Errno {
        let now = self.net.now();
        let Some(target) = self.core.peer_mut(ep, peer) else { return Errno::EINVAL };
        let progress_is_due = match target.asking.ask(now) {
            Ok(due) => due,
            Err(reason) => return reason,
        };
        if target.conn.is_none() {
            self.reach(ep, peer);
        }
        if progress_is_due {
            self.progress();
        }
        Errno::EAGAIN
    }
}
