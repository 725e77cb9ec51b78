//! HOT. What an endpoint remembers of its address vector: which peer a handle leads to, and under
//! which handle a peer is known.

use std::sync::Arc;

use super::Av;
use crate::{
    Errno, Result,
    matching::{ANY_PEER, PeerId},
    op::ADDR_UNSPEC,
};

/// The address vector's handles as peers, resolved on first use.
#[derive(Debug, Default)]
pub struct Routes {
    av: Option<Arc<Av>>,
    generation: u64,
    peers: Vec<PeerId>,
}

impl Routes {
    /// Nothing resolved yet.
    pub fn new(av: Option<Arc<Av>>) -> Self {
        Self { av, generation: u64::MAX, peers: Vec::new() }
    }

    /// The address vector.
    pub fn av(&self) -> Option<&Arc<Av>> {
        self.av.as_ref()
    }

    /// The peer behind `addr`, if it has been resolved since the address vector changed.
    #[inline]
    pub fn known(&self, addr: u64) -> Option<PeerId> {
        let peer = *self.peers.get(usize::try_from(addr).ok()?)?;
        let fresh = self.av.as_ref()?.generation() == self.generation;
        (peer != ANY_PEER && fresh).then_some(peer)
    }

    /// Resolves `addr`: `find` gives the peer with an address. Unknown handles are `EINVAL`.
    #[cold]
    pub fn resolve(
        &mut self,
        addr: u64,
        find: impl FnOnce(&[u8]) -> Result<PeerId>,
    ) -> Result<PeerId> {
        let av = self.av.as_ref().ok_or(Errno::EINVAL)?;
        let generation = av.generation();
        if generation != self.generation {
            self.peers.clear();
            self.generation = generation;
        }
        let address = av.lookup(addr)?;
        let peer = find(&address)?;
        let at = usize::try_from(addr).map_err(|_| Errno::EINVAL)?;
        if self.peers.len() <= at {
            self.peers.resize(at + 1, ANY_PEER);
        }
        self.peers[at] = peer;
        Ok(peer)
    }
}

/// How completions name a peer, as of a generation of the address vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    id: u64,
    /// Of the vector, plus one; zero before it has been looked up.
    generation: u64,
}

impl Sender {
    /// Whether it has to be looked up again.
    #[inline]
    pub fn is_stale(&self, av: &Av) -> bool {
        self.generation != av.generation().wrapping_add(1)
    }

    /// Looks it up by the peer's canonical address.
    pub fn refresh(&mut self, av: &Av, address: &[u8]) {
        let generation = av.generation();
        let id = av.find(address).map_or(ADDR_UNSPEC, |addr| av.report_id(addr));
        *self = Self { id, generation: generation.wrapping_add(1) };
    }

    /// The handle or the application's id; [`ADDR_UNSPEC`] if the vector does not have the peer.
    #[inline]
    pub const fn id(&self) -> u64 {
        if self.generation == 0 { ADDR_UNSPEC } else { self.id }
    }
}
