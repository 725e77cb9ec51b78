//! SETUP. Attempts to connect that have failed: what is known of them, and in words for the log.

use std::time::{Duration, Instant};

use fabric_core::{Errno, shortage::explained};

use super::conn::{Conn, State};
use crate::address::SocketAddress;

/// Whoever has found this much between asking for a connection and looking at it was away, and the
/// other end may have given up meanwhile.
const AWAY: Duration = Duration::from_secs(1);

/// A failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) reason: Errno,
    /// The other end's kernel had taken the connection.
    taken: bool,
    /// We had been away meanwhile.
    late: bool,
}

impl<S> Conn<S> {
    /// The connection is up, and seen so now.
    pub(super) fn seen_up(&mut self, now: Instant) {
        self.late = self.begun.is_some_and(|begun| now.saturating_duration_since(begun) >= AWAY);
    }

    /// How it has failed to come up.
    pub(super) fn failed(&self, reason: Errno) -> Failed {
        Failed { reason, taken: self.state == State::Requested, late: self.late }
    }
}

impl Failed {
    /// It could not even begin.
    pub(super) const fn at_once(reason: Errno) -> Self {
        Self { reason, taken: false, late: false }
    }

    /// Whoever is there was, and may be had by trying again: it may have given up because we made no
    /// progress. One that is silent has gone.
    pub(super) fn met(self) -> bool {
        self.taken && self.late && self.reason != Errno::ETIMEDOUT
    }

    /// Whether the other end's kernel had taken the connection.
    pub(super) const fn was_taken(self) -> bool {
        self.taken
    }

    /// The reason, and what it means on the way to `to`.
    pub(super) fn words(self, to: SocketAddress) -> String {
        let reason = explained(self.reason);
        match self.cause(to) {
            Some(cause) => format!("{reason}: {cause}"),
            None => reason,
        }
    }

    fn cause(self, to: SocketAddress) -> Option<&'static str> {
        Some(match (self.reason, self.taken) {
            (Errno::ECONNREFUSED, _) if to.port() == 0 => {
                "its address has port 0, where nobody listens: it was made without a service"
            }
            (Errno::ECONNREFUSED, false) => {
                "its host answers, and nobody listens at this port: the peer has not been started, \
                 has ended, or has another port"
            }
            (Errno::ECONNREFUSED, true) => "whoever listens there has turned us away",
            (Errno::ECONNRESET, true) => {
                "whatever listens there takes connections and closes them: it is no endpoint, or has \
                 no room for one more"
            }
            (Errno::ETIMEDOUT, false) => {
                "its host does not answer: it is down, has another address, or is behind a firewall"
            }
            (Errno::ETIMEDOUT, true) => {
                "it has taken the connection, and said nothing for FI_TCP_CONNECT_TIMEOUT: its program \
                 does not answer, or is none of this library"
            }
            (Errno::ENETUNREACH | Errno::EHOSTUNREACH, _) => {
                "there is no way to it from the address that the endpoint is bound to (ip route get)"
            }
            (Errno::EADDRNOTAVAIL, _) => {
                "no port is free to connect from (sysctl net.ipv4.ip_local_port_range), or the \
                 endpoint's address is this host's no more"
            }
            (Errno::EACCES | Errno::EPERM, _) => "a rule of this host forbids it",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn each_failure_has_its_cause() {
        let at = |port: u16| SocketAddress::from(SocketAddr::from(([10, 0, 0, 1], port)));
        let says = |reason, taken, word: &str| {
            let text = Failed { reason, taken, late: false }.words(at(7));
            assert!(text.contains(word) && !text.contains("  "), "{text}");
        };
        says(Errno::ECONNREFUSED, false, "nobody listens");
        says(Errno::ECONNREFUSED, true, "turned us away");
        says(Errno::ECONNRESET, true, "closes them");
        says(Errno::ETIMEDOUT, false, "does not answer");
        says(Errno::ETIMEDOUT, true, "FI_TCP_CONNECT_TIMEOUT");
        says(Errno::ENETUNREACH, false, "no way");
        says(Errno::EMFILE, false, "ulimit -n");
        assert!(Failed::at_once(Errno::ECONNREFUSED).words(at(0)).contains("port 0"));
    }

    #[test]
    fn whoever_gave_up_on_us_is_met_again() {
        let met = |taken, late, reason| Failed { reason, taken, late }.met();
        assert!(met(true, true, Errno::ECONNRESET));
        assert!(!met(true, false, Errno::ECONNRESET), "it closes at once, and will again");
        assert!(!met(false, true, Errno::ECONNREFUSED));
        assert!(!met(true, true, Errno::ETIMEDOUT));
    }
}
