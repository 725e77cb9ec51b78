//! SETUP. Endpoints and their peers.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use fabric_core::{
    Result,
    av::{Av, Routes, Sender},
    backlog::Backlog,
    completion::Report,
    engine::Stats,
    lock::Lock,
    matching::PeerId,
    mr::MrTable,
    op::ADDR_UNSPEC,
    reaching::{Asking, Attempts, random},
    slab::Handle,
};

use super::{forget::Forgotten, msg::Msg};
use crate::address::SocketAddress;

/// What an engine keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Largest inject, in bytes.
    pub(crate) inject: usize,
    /// Operations that wait to be sent before posts make progress.
    pub(crate) outstanding: usize,
    /// Receives may name their sender.
    pub(crate) directed: bool,
    /// Completions name the sender.
    pub(crate) source: bool,
    /// Target-side one-sided access counts for endpoint counters.
    pub(crate) rma_event: bool,
    /// Writes wait for the reads before them (`FI_ORDER_WAR`).
    pub(crate) war: bool,
    /// Atomic operations, of the endpoint and of its peers.
    pub(crate) atomics: bool,
    /// The kernel may hold small sends back for others.
    pub(crate) coalesce: bool,
    /// How long a peer may take to be reached.
    pub(crate) connect: Duration,
}

/// A peer of an endpoint.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddress,
    /// How the address vector has it, if that is another host's view of the same.
    pub(super) listed: Option<SocketAddress>,
    pub(crate) conn: Option<Handle>,
    /// Operations that wait for a connection.
    pub(crate) waiting: VecDeque<Handle>,
    /// Operations that wait with the application.
    pub(crate) asking: Asking,
    pub(crate) attempts: Attempts,
    pub(crate) identity: Identity,
    /// How completions name it.
    pub(super) sender: Sender,
    /// Bytes of its messages that wait for receives.
    pub(crate) kept: usize,
    /// Operations that wait to be sent to it.
    pub(super) queued: usize,
}

/// What tells an endpoint from a later one at its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Other libraries put a process number here; zero is nothing said.
    pub(crate) nonce: u32,
    /// Of endpoints of our own kind.
    pub(crate) epoch: Option<u64>,
}

impl Identity {
    /// Whether both are one endpoint's, as far as they tell.
    pub(crate) fn agrees(self, other: Self) -> bool {
        match (self.epoch, other.epoch) {
            (Some(epoch), Some(other)) => epoch == other,
            _ => self.nonce == 0 || self.nonce == other.nonce,
        }
    }
}

/// An endpoint.
pub(crate) struct Ep<L: Lock> {
    /// What it receives from.
    pub(crate) rx: Handle,
    pub(crate) report: Report<L>,
    pub(crate) regions: Arc<MrTable>,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    pub(crate) peers: Vec<Peer>,
    pub(super) by_address: HashMap<SocketAddress, PeerId>,
    pub(super) forgotten: Forgotten,
    pub(super) routes: Routes,
    /// Where it listens.
    pub(crate) local: Option<SocketAddress>,
    /// The two halves of its [`Identity`].
    pub(crate) nonce: NonZeroU32,
    pub(crate) epoch: u64,
    /// Operations that wait to be sent.
    pub(crate) backlog: Backlog,
    /// Data calls are accepted.
    pub(crate) enabled: bool,
    /// A connected endpoint's state; reliable datagrams have none.
    pub(crate) msg: Option<Msg>,
    /// A protocol of its own sends messages over the connections: the longest that it receives.
    pub(crate) layer: Option<usize>,
}

impl<L: Lock> Ep<L> {
    pub(crate) fn new(regions: Arc<MrTable>, limits: Limits) -> Self {
        Self {
            rx: Handle::from_raw(0),
            report: Report::new(),
            regions,
            limits,
            stats: Stats::default(),
            peers: Vec::new(),
            by_address: HashMap::new(),
            forgotten: Forgotten::default(),
            routes: Routes::default(),
            local: None,
            nonce: NonZeroU32::new(random() as u32).unwrap_or(NonZeroU32::MIN),
            epoch: random(),
            backlog: Backlog::new(limits.outstanding),
            enabled: false,
            msg: None,
            layer: None,
        }
    }

    /// Takes the address vector's entries as peers.
    pub(crate) fn set_av(&mut self, av: Option<Arc<Av>>) {
        self.routes = Routes::new(av);
    }

    #[cold]
    pub(super) fn resolve_slowly(&mut self, addr: u64) -> Result<PeerId> {
        let mut routes = std::mem::take(&mut self.routes);
        let peer = routes.resolve(addr, |bytes| {
            let address = SocketAddress::parse(bytes)?;
            let peer = self.peer(address);
            self.peers[peer as usize].list(address);
            Ok(peer)
        });
        self.routes = routes;
        peer
    }

    /// The peer with this address, made known if it was not.
    pub(crate) fn peer(&mut self, address: SocketAddress) -> PeerId {
        let address = self.at_own_link(address);
        if let Some(peer) = self.by_address.get(&address) {
            return *peer;
        }
        let peer = match self.forgotten.take() {
            Some(peer) => {
                self.peers[peer as usize] = Peer::new(address);
                peer
            }
            None => {
                self.peers.push(Peer::new(address));
                (self.peers.len() - 1) as PeerId
            }
        };
        self.by_address.insert(address, peer);
        peer
    }

    /// An address as it is here. The interface of a link-local one is a number of the host that has
    /// told it; a link-local endpoint has peers at its own link only.
    fn at_own_link(&self, address: SocketAddress) -> SocketAddress {
        match self.local {
            Some(local) if local.is_link_local() && address.is_link_local() => {
                address.with_scope(local.scope())
            }
            _ => address,
        }
    }

    /// How completions name a peer.
    #[inline]
    pub(crate) fn source(&mut self, peer: PeerId) -> u64 {
        if !self.limits.source {
            return ADDR_UNSPEC;
        }
        let Some(state) = self.peers.get_mut(peer as usize) else { return ADDR_UNSPEC };
        if let Some(av) = self.routes.av()
            && state.sender.is_stale(av)
        {
            state.sender.refresh(av, &state.listed.unwrap_or(state.address).to_bytes());
        }
        state.sender.id()
    }
}

impl<L: Lock> fmt::Debug for Ep<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ep").field("peers", &self.peers.len()).finish_non_exhaustive()
    }
}
