//! SETUP. Requests in the name of a peer that is connected: it has been started anew, or somebody else
//! says so who can connect from its host.
//!
//! The connection that is there decides. If its end has come, or comes, the request is believed. If
//! the kernel at its other end still answers for it after the request has come, the peer has not gone,
//! and the request is refused; a successor that came before its predecessor's end tries again. Until
//! either shows, the request waits, for as long as a hand-shake may take.

use std::time::{Duration, Instant};

use fabric_core::{
    Errno, Result,
    lock::Lock,
    log::Subsys,
    reaching::{LOOK, Verdict},
    slab::Handle,
};

use super::{Engine, conn::State, timers::Due};
use crate::{
    address::SocketAddress,
    net::{Net, Stream},
};

/// How exactly kernels tell when they have heard a peer.
const EXACT: Duration = Duration::from_millis(10);

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// The connection that is there.
    of: Handle,
    since: Instant,
    /// The kernel at its other end is asked for a sign of life.
    asks: bool,
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Whether a request in the name of `peer` is its own, given that another connection is its.
    ///
    /// A sign of life is asked for after a while only: the answer is to be told from what was heard
    /// before the request.
    pub(crate) fn judge(
        &mut self,
        claimant: Handle,
        rival: Handle,
        peer: SocketAddress,
    ) -> Result<Verdict> {
        let now = self.net.now();
        let ended = |stream: &N::Stream| stream.life().map(|life| life.ended);
        let Some(conn) = self.conns.get(claimant) else { return Err(Errno::ECONNRESET) };
        if ended(&conn.stream) == Some(true) {
            return Err(Errno::ECONNRESET);
        }
        let (earlier, from) = (conn.claim.filter(|claim| claim.of == rival), conn.from);
        let life = self.conns.get(rival).and_then(|rival| rival.stream.life());
        let Some(life) = life.filter(|life| !life.ended) else { return Ok(Verdict::Believed) };
        let Some(Claim { since, asks, .. }) = earlier else {
            self.settle_claim(claimant);
            if let Some(conn) = self.conns.get_mut(claimant) {
                conn.claim = Some(Claim { of: rival, since: now, asks: false });
            }
            self.rewatch(claimant);
            self.schedule(now + LOOK, Due::Claim(claimant));
            return Ok(Verdict::Open);
        };
        let waited = now.saturating_duration_since(since);
        if life.silence + EXACT < waited {
            if let Some(from) = from {
                fabric_core::warn!(
                    "tcp",
                    Subsys::EpCtrl,
                    "{from} claims to be {peer}, which is connected and alive: it is refused"
                );
            }
            return Ok(Verdict::Refused);
        }
        if !asks && waited >= LOOK {
            self.ask_about(claimant, rival);
        }
        Ok(Verdict::Open)
    }

    /// It is time to look again.
    pub(super) fn look_at_claim(&mut self, claimant: Handle) {
        let waits =
            |conn: &super::Conn<N::Stream>| conn.state == State::Accepted && conn.claim.is_some();
        if self.conns.get(claimant).is_some_and(waits) {
            self.schedule(self.net.now() + LOOK, Due::Claim(claimant));
            self.hear(claimant);
        }
    }

    /// Asks the peer's kernel for a sign of life, once, however many requests wait.
    fn ask_about(&mut self, claimant: Handle, rival: Handle) {
        if let Some(claim) = self.conns.get_mut(claimant).and_then(|conn| conn.claim.as_mut()) {
            claim.asks = true;
        }
        if let Some(rival) = self.conns.get_mut(rival) {
            rival.claimants += 1;
            if rival.claimants == 1 {
                self.net.ask_for_life(&rival.stream, true);
            }
        }
    }

    /// It waits no more.
    pub(super) fn settle_claim(&mut self, claimant: Handle) {
        let claim = self.conns.get_mut(claimant).and_then(|conn| conn.claim.take());
        self.withdraw_claim(claim);
    }

    /// A connection that waited, if it did, has been taken out of the table.
    pub(super) fn withdraw_claim(&mut self, claim: Option<Claim>) {
        let asked = claim.filter(|claim| claim.asks);
        if let Some(rival) = asked.and_then(|claim| self.conns.get_mut(claim.of)) {
            rival.claimants = rival.claimants.saturating_sub(1);
            if rival.claimants == 0 {
                self.net.ask_for_life(&rival.stream, false);
            }
        }
    }
}
