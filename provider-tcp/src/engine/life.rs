//! PENDING. Whether peers are alive.
//!
//! A peer that computes says nothing for as long as it likes; its kernel answers for it. So a peer is
//! dead only if its kernel owes an answer, has been asked again for it, and has been silent for
//! longer than the bound. That is looked at now and then while anything is on its way; where nothing
//! is, the kernel's keepalive asks within the same bound.

use std::time::Duration;

use fabric_core::{Errno, lock::Lock, log::Subsys, slab::Handle};

use super::{
    Engine,
    conn::{Conn, State},
    timers::Due,
};
use crate::net::{Life, Net, Stream};

/// Looks within the bound, so that a death is told that much later than the bound at most.
const LOOKS: u32 = 8;
const LOOK_MIN: Duration = Duration::from_millis(100);
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Looks in a row that find a peer's kernel silent before that counts: it may have been asked just
/// now, after a long time in which there was nothing to ask.
const CERTAIN: u8 = 2;
/// Staging memory that a connection without traffic keeps.
const KEPT: usize = 4 << 10;

impl<L: Lock, N: Net> Engine<L, N> {
    /// Something is on its way to a peer: looks after it from now on.
    #[cold]
    pub(super) fn watch_over(&mut self) {
        let Some(bound) = self.patience else { return };
        self.looking = true;
        let pause = (bound / LOOKS).clamp(LOOK_MIN, LOOK_MAX);
        self.schedule(self.net.now() + pause, Due::Look);
    }

    /// Looks at all peers, and again later if any owes something.
    pub(super) fn look(&mut self) {
        self.looking = false;
        let Some(bound) = self.patience else { return };
        let mut owed = false;
        let mut dead: Vec<Handle> = Vec::new();
        for (handle, conn) in self.conns.iter_mut() {
            if !matches!(conn.state, State::Open | State::Requested) {
                continue;
            }
            let Some(life) = conn.stream.life() else { continue };
            owed |= life.owes || !conn.tx.is_idle();
            if conn.is_dead(life, bound) {
                dead.push(handle);
            } else if conn.tx.is_idle() && conn.tx.out.capacity() > KEPT {
                conn.tx.out = Vec::new();
            }
        }
        for handle in dead {
            self.say_dead(handle);
            self.down(handle, Errno::ETIMEDOUT);
        }
        if owed {
            self.watch_over();
        }
    }

    fn say_dead(&self, handle: Handle) {
        let Some(conn) = self.conns.get(handle) else { return };
        let Some(ep) = self.core.eps.get(conn.ep) else { return };
        let Some(peer) = ep.peers.get(conn.peer as usize) else { return };
        let (to, patience) = (peer.address, self.patience.unwrap_or_default());
        fabric_core::warn!(
            "tcp",
            Subsys::EpCtrl,
            "{to} is dead: its host has acknowledged nothing for more than {} s (FI_TCP_PEER_TIMEOUT)",
            patience.as_secs()
        );
    }
}

impl<S> Conn<S> {
    /// Takes a look at the peer's life into account.
    fn is_dead(&mut self, life: Life, bound: Duration) -> bool {
        self.unheard = if life.asked { self.unheard.saturating_add(1) } else { 0 };
        self.unheard >= CERTAIN && life.silence >= bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_where_an_answer_is_due() {
        let mut conn = Conn::new((), Handle::from_raw(1), 0, State::Open);
        let bound = Duration::from_secs(3);
        let life = |asked, secs| Life { owes: true, asked, silence: Duration::from_secs(secs) };
        // Nobody has asked for long, or only just now.
        assert!(!conn.is_dead(life(false, 100), bound));
        assert!(!conn.is_dead(life(true, 100), bound));
        assert!(!conn.is_dead(life(false, 0), bound));
        // Asked, and silent for ever longer.
        for secs in 0..3 {
            assert!(!conn.is_dead(life(true, secs), bound));
        }
        assert!(conn.is_dead(life(true, 3), bound));
        assert!(!conn.is_dead(life(true, 0), bound));
    }
}
