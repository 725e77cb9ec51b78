//! PENDING. Whether peers are alive.
//!
//! A peer that computes says nothing for as long as it likes; its kernel answers for it. So a peer is
//! dead only if its kernel owes an answer, has been asked again for it, and has been silent for
//! longer than the bound. That is looked at now and then while anything is on its way; where nothing
//! is, the kernel's keepalive asks within the same bound.

use std::time::Duration;

use fabric_core::{Errno, lock::Lock, log::Subsys, slab::Handle};

use super::{Engine, conn::State, timers::Due};
use crate::net::{Life, Net, Stream};

/// Looks within the bound, so that a death is told that much later than the bound at most.
const LOOKS: u32 = 8;
const LOOK_MIN: Duration = Duration::from_millis(100);
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Looks in a row that find a peer's kernel silent before that counts: it may have been asked just
/// now, after a long time in which there was nothing to ask.
const CERTAIN: u8 = 2;
/// A kernel answers questions that follow each other closely only once, so that one that is not
/// answered means nothing for so long.
const ONCE: Duration = Duration::from_secs(2);
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
        let now = self.net.now();
        let since = now.saturating_duration_since(self.looked);
        self.looked = now;
        let mut owed = false;
        let mut dead: Vec<Handle> = Vec::new();
        for (handle, conn) in self.conns.iter_mut() {
            if !matches!(conn.state, State::Open | State::Requested) {
                continue;
            }
            let Some(life) = conn.stream.life() else { continue };
            owed |= life.owes || !conn.tx.is_idle();
            if conn.pulse.look(life, since, bound) {
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

/// What looks at a peer's life have found so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pulse {
    /// How often bytes had been sent again when the peer's kernel was last heard. A kernel without
    /// room answers each time, and the bytes are sent again after ever longer pauses.
    answered: u8,
    /// Looks in a row that found it asked and silent.
    silent: u8,
}

impl Pulse {
    /// Takes a look into account, the last one having been `since` ago. `true`: it is dead.
    fn look(&mut self, life: Life, since: Duration, bound: Duration) -> bool {
        if life.silence < since || !life.owes {
            self.answered = life.again;
        }
        let asked = match life.probes.max(life.again.saturating_sub(self.answered)) {
            0 => false,
            1 => life.silence >= ONCE,
            _ => true,
        };
        self.silent = if asked { self.silent.saturating_add(1) } else { 0 };
        self.silent >= CERTAIN && life.silence >= bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_secs(3);
    const PAUSE: Duration = Duration::from_secs(1);

    fn life(again: u8, probes: u8, silence: u64) -> Life {
        Life { owes: true, again, probes, silence: Duration::from_secs(silence), ended: false }
    }

    #[test]
    fn silence_counts_where_an_answer_is_due() {
        let mut pulse = Pulse::default();
        for silence in 1..100 {
            assert!(!pulse.look(life(0, 0, silence), PAUSE, BOUND));
        }
        // Asked just now, after all that time.
        assert!(!pulse.look(life(0, 2, 100), PAUSE, BOUND));
        assert!(!pulse.look(life(0, 0, 0), PAUSE, BOUND));
        // Asked, and silent for ever longer.
        assert!(!pulse.look(life(0, 2, 1), PAUSE, BOUND));
        assert!(!pulse.look(life(0, 2, 2), PAUSE, BOUND));
        assert!(pulse.look(life(0, 2, 3), PAUSE, BOUND));
    }

    #[test]
    fn bytes_that_are_sent_again_ask() {
        let mut pulse = Pulse::default();
        assert!(!pulse.look(life(1, 0, 1), PAUSE, BOUND));
        assert!(!pulse.look(life(2, 0, 2), PAUSE, BOUND));
        assert!(pulse.look(life(2, 0, 3), PAUSE, BOUND));
    }

    /// It answers each time that it has no room; until it is asked again it has nothing to answer.
    #[test]
    fn a_kernel_without_room_is_alive() {
        let mut pulse = Pulse::default();
        for again in 1..15 {
            assert!(!pulse.look(life(again, 0, 0), PAUSE, BOUND));
            for silence in 1..60 {
                assert!(!pulse.look(life(again, 0, silence), PAUSE, BOUND));
            }
        }
    }
}
