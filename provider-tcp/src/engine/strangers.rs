//! PENDING. Strangers: who answers, or calls, and is no peer.

use std::{
    collections::VecDeque,
    fmt,
    time::{Duration, Instant},
};

use fabric_core::{Errno, Result, lock::Lock, log::Subsys, slab::Handle};

use super::Engine;
use crate::{
    address::SocketAddress,
    frame::{cm::Shown, record::Speaker},
    net::Net,
};

/// Why a connection message that is well formed is of no use.
pub(super) const OF_ANOTHER_KIND: &str = "a connection message of another kind of endpoint";

/// A stranger that is met again within this time is not told of again.
const KNOWN: Duration = Duration::from_secs(10);

/// Strangers that are kept in mind.
const MOST: usize = 16;

/// The strangers that the log has been told of, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Strangers(VecDeque<(SocketAddress, Instant)>);

impl Strangers {
    /// Whether the log does not know of this one.
    pub(super) fn is_news(&mut self, address: SocketAddress, now: Instant) -> bool {
        self.0.retain(|(_, since)| now.saturating_duration_since(*since) < KNOWN);
        if self.0.iter().any(|(known, _)| *known == address) {
            return false;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((address, now));
        true
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
        self.no_peer(
            handle,
            format_args!(
                "what answers there does not speak this protocol: {why}; it begins with {shown}"
            ),
        );
    }

    /// Who answers on a connection of ours is no peer: tells the log, and ends it.
    #[cold]
    pub(super) fn no_peer(&mut self, handle: Handle, why: fmt::Arguments<'_>) {
        if let Some(address) = self.target(handle)
            && self.strangers.is_news(address, self.net.now())
        {
            fabric_core::warn_few!("tcp", Subsys::EpCtrl, "{address} is no peer: {why}");
        }
        self.down(handle, Errno::EPROTO);
    }

    /// An endpoint of the other provider has asked for a connection. It comes from another port each
    /// time.
    #[cold]
    pub(super) fn refuse_speaker(
        &mut self,
        handle: Handle,
        own: Speaker,
        other: Speaker,
    ) -> Result<()> {
        if let Some(from) = self.conns.get(handle).and_then(|conn| conn.from)
            && self.strangers.is_news(from.with_port(0), self.net.now())
        {
            let advice = own.advice(other);
            fabric_core::warn_few!("tcp", Subsys::EpCtrl, "{from} is refused: {advice}");
        }
        self.refuse_with(handle, &own.refusal())
    }

    /// Whom a connection was opened to.
    pub(super) fn target(&self, handle: Handle) -> Option<SocketAddress> {
        let conn = self.conns.get(handle)?;
        match &conn.layer {
            Some(layer) => layer.to,
            None => Some(self.core.eps.get(conn.ep)?.peers.get(conn.peer as usize)?.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn each_stranger_is_news_for_a_while() {
        let address = |port: u16| SocketAddress::from(SocketAddr::from(([10, 0, 0, 1], port)));
        let (mut strangers, begin) = (Strangers::default(), Instant::now());
        for port in [1, 2] {
            assert!(strangers.is_news(address(port), begin));
        }
        for port in [1, 2, 1] {
            assert!(!strangers.is_news(address(port), begin + KNOWN / 2));
        }
        assert!(strangers.is_news(address(1), begin + KNOWN));
        for port in 0..1000 {
            strangers.is_news(address(port), begin + KNOWN);
        }
        assert_eq!(strangers.0.len(), MOST);
    }
}
