//! SETUP. Addresses, and the peers that a domain knows by them.

use core::fmt;
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use fabric_core::{
    Errno,
    av::{AddressFormat, Av},
    flags::Flags,
};

use crate::error::{Error, Result};

/// The address of an endpoint: bytes that processes exchange in their own way, a file, a socket, MPI.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    bytes: Box<[u8]>,
}

impl Address {
    /// What [`Address::as_bytes`] gave, perhaps in another process.
    pub fn from_bytes(bytes: impl Into<Box<[u8]>>) -> Self {
        Self { bytes: bytes.into() }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({})", self.bytes.escape_ascii())
    }
}

/// A peer that a domain knows.
///
/// Small and free to copy. It is good for the endpoints of its domain, as long as the domain has not
/// forgotten it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    space: u32,
    index: u64,
}

/// The peers of one domain.
#[derive(Debug)]
pub(crate) struct PeerSpace {
    id: u32,
    av: Arc<Av>,
}

static SPACES: AtomicU32 = AtomicU32::new(1);

impl PeerSpace {
    pub(crate) fn open(format: &'static dyn AddressFormat) -> Result<Self> {
        let av = Av::open(fabric_core::attr::AvType::Table, 0, Flags::empty(), format)
            .map_err(Error::refused("open an address vector"))?;
        Ok(Self { id: SPACES.fetch_add(1, Ordering::Relaxed), av })
    }

    pub(crate) const fn av(&self) -> &Arc<Av> {
        &self.av
    }

    /// The peer that completions name by this index.
    pub(crate) const fn peer(&self, index: u64) -> Peer {
        Peer { space: self.id, index }
    }

    pub(crate) fn insert(&self, address: &Address) -> Result<Peer> {
        let index = self.av.insert(&address.bytes, None).map_err(Error::refused("add a peer"))?;
        Ok(self.peer(index))
    }

    pub(crate) fn insert_service(&self, node: &str, service: &str) -> Result<Peer> {
        let index = self
            .av
            .insert_service(Some(node), Some(service), None)
            .map_err(Error::refused("add a peer"))?;
        Ok(self.peer(index))
    }

    pub(crate) fn remove(&self, peer: Peer) -> Result<()> {
        let index = self.index(peer).map_err(Error::refused("forget a peer"))?;
        self.av.remove(index).map_err(Error::refused("forget a peer"))
    }

    pub(crate) fn address(&self, peer: Peer) -> Result<Address> {
        let index = self.index(peer).map_err(Error::refused("look a peer up"))?;
        let bytes = self.av.lookup(index).map_err(Error::refused("look a peer up"))?;
        Ok(Address { bytes: (*bytes).into() })
    }

    pub(crate) fn text(&self, address: &Address) -> Result<String> {
        self.av.straddr(&address.bytes).map_err(Error::refused("print an address"))
    }

    /// What a provider calls the peer; `EDOMAIN` for another domain's.
    #[inline]
    pub(crate) fn index(&self, peer: Peer) -> Result<u64, Errno> {
        if peer.space == self.id { Ok(peer.index) } else { Err(Errno::EDOMAIN) }
    }
}
