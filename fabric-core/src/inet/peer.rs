//! SETUP. Socket addresses as those of peers that are reached over connections.

use core::cmp::Ordering;

use super::SocketAddress;
use crate::{Result, rdm_over_msg::Address};

impl Address for SocketAddress {
    fn parse(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        Self::to_bytes(*self)
    }

    fn port(&self) -> u16 {
        Self::port(*self)
    }

    fn with_port(self, port: u16) -> Self {
        Self::with_port(self, port)
    }

    fn canonical(self) -> Self {
        Self::canonical(self)
    }

    /// The interface of a link-local address is a number of the host that has told it; a link-local
    /// endpoint has peers at its own link only.
    fn seen_from(self, local: Self) -> Self {
        if local.is_link_local() && self.is_link_local() {
            self.with_scope(local.scope())
        } else {
            self
        }
    }

    fn contest(self, other: Self) -> Ordering {
        Self::contest(self, other)
    }
}
