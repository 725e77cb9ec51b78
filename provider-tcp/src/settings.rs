//! SETUP. What the environment says, in the engine's terms.

use std::time::Duration;

use fabric_core::param::{TcpPorts, known};

use crate::{engine::Buffering, net::Options};

/// Ports to listen at where the application leaves the choice to us; `None` is the kernel's.
pub(crate) fn ports() -> Option<(u16, u16)> {
    TcpPorts::in_force().range
}

/// How long a peer may take to be reached.
pub(crate) fn connect_timeout() -> Duration {
    Duration::from_secs(known::TCP_CONNECT_TIMEOUT.size() as u64)
}

/// How sockets are set up.
pub(crate) fn options() -> Options {
    let patience = Duration::from_secs(known::TCP_PEER_TIMEOUT.size() as u64);
    let patience = Some(patience).filter(|patience| !patience.is_zero());
    Options { patience, nodelay: known::TCP_NODELAY.truth() }
}

/// Whether small sends may wait for each other.
pub(crate) fn coalesce() -> bool {
    known::TCP_COALESCE.truth() && known::TCP_STAGING.size() != 0
}

/// How much is gathered before it is sent, and how much is read ahead.
pub(crate) fn buffering() -> Buffering {
    let batch = match known::TCP_STAGING.size() {
        // What has to wait for room in a socket leaves together even so.
        0 => Buffering::default().batch,
        size => size,
    };
    Buffering { batch, ahead: known::TCP_PREFETCH.size() }
}
