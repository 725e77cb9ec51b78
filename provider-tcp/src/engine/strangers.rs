//! PENDING. Strangers: who answers, or calls, and is no peer.

use std::time::{Duration, Instant};

use fabric_core::{Errno, lock::Lock, log::Subsys, slab::Handle};

use super::Engine;
use crate::{address::SocketAddress, frame::cm::Shown, net::Net};

/// Why a connection message that is well formed is of no use.
pub(super) const OF_ANOTHER_KIND: &str = "a connection message of another kind of endpoint";

/// A stranger that is met again within this time is not told of again.
const KNOWN: Duration = Duration::from_secs(10);

/// The stranger that the log has been told of last.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Option<(SocketAddress, Instant)>);

impl Strangers {
    /// Whether the log does not know of this one.
    fn is_news(&mut self, address: SocketAddress, now: Instant) -> bool {
        let known = self.0.is_some_and(|(known, since)| {
            known == address && now.saturating_duration_since(since) < KNOWN
        });
        if !known {
            self.0 = Some((address, now));
        }
        !known
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// What has come on a connection is none of the protocol: tells the log, and ends it.
    #[cold]
    pub(super) fn estranged(&mut self, handle: Handle, bytes: &[u8], why: &str) {
        let Some(conn) = self.conns.get(handle) else { return };
        let shown = Shown(bytes);
        if let Some(from) = conn.from {
            fabric_core::warn_few!(
                "tcp",
                Subsys::EpCtrl,
                "{from} is let go: {why}; it begins with {shown}"
            );
            return self.down(handle, Errno::EPROTO);
        }
        let layered = conn.layer.as_ref().and_then(|layer| layer.to);
        let (ep, peer) = (conn.ep, conn.peer);
        let known = layered.or_else(|| self.core.peer_mut(ep, peer).map(|peer| peer.address));
        if let Some(address) = known
            && self.strangers.is_news(address, self.net.now())
        {
            fabric_core::warn_few!(
                "tcp",
                Subsys::EpCtrl,
                "{address} is no peer: what answers there does not speak this protocol: {why}; it \
                 begins with {shown}"
            );
        }
        self.down(handle, Errno::EPROTO);
    }
}
