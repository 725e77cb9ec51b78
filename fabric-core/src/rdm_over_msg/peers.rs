//! SETUP. Peers: those of the address vector, and those that have connected. The ones that have come
//! and gone are forgotten, so that no memory is held for every address that was ever seen.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{Address, pressure::Load};
use crate::{
    Result,
    av::{Av, Routes, Sender},
    matching::PeerId,
    op::ADDR_UNSPEC,
    reaching::{Asking, Attempts},
    slab::Handle,
};

/// Peers that an endpoint has before it looks for some to forget.
const CROWD: usize = 1024;

/// A peer.
#[derive(Debug)]
pub(super) struct Peer<A> {
    pub(super) address: A,
    /// How the address vector has it, if that is another host's view of the same.
    listed: Option<A>,
    /// What to send on.
    pub(super) conn: Option<Handle>,
    /// Operations that wait for a connection.
    pub(super) waiting: VecDeque<Handle>,
    /// Operations that wait with the application.
    pub(super) asking: Asking,
    pub(super) attempts: Attempts,
    /// What tells it from a later endpoint at its address, while it is connected.
    pub(super) owner: u32,
    /// How completions name it.
    sender: Sender,
    /// What it makes wait here.
    pub(super) load: Load,
}

/// All peers, by number.
#[derive(Debug)]
pub(super) struct Peers<A> {
    list: Vec<Peer<A>>,
    by_address: HashMap<A, PeerId>,
    /// Numbers to be given to others.
    free: Vec<PeerId>,
    /// How many peers there are when it is worth looking for some to forget.
    next_look: usize,
    routes: Routes,
    /// The endpoint's own address.
    pub(super) local: Option<A>,
}

impl<A> Default for Peers<A> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            by_address: HashMap::new(),
            free: Vec::new(),
            next_look: 0,
            routes: Routes::default(),
            local: None,
        }
    }
}

impl<A: Address> Peers<A> {
    /// Takes the address vector's entries as peers.
    pub(super) fn set_av(&mut self, av: Option<Arc<Av>>) {
        self.routes = Routes::new(av);
    }

    #[inline]
    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer<A>> {
        self.list.get(peer as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, peer: PeerId) -> Option<&mut Peer<A>> {
        self.list.get_mut(peer as usize)
    }

    /// How many there are, forgotten ones included.
    #[cfg(all(test, not(loom)))]
    pub(super) const fn len(&self) -> usize {
        self.list.len()
    }

    /// The peer behind a handle of the address vector; unknown handles are `EINVAL`.
    #[inline]
    pub(super) fn resolve(&mut self, addr: u64) -> Result<PeerId> {
        match self.routes.known(addr) {
            Some(peer) => Ok(peer),
            None => self.resolve_slowly(addr),
        }
    }

    #[cold]
    fn resolve_slowly(&mut self, addr: u64) -> Result<PeerId> {
        let mut routes = std::mem::take(&mut self.routes);
        let peer = routes.resolve(addr, |bytes| {
            let address = A::parse(bytes)?;
            let peer = self.with_address(address);
            self.list[peer as usize].list(address);
            Ok(peer)
        });
        self.routes = routes;
        peer
    }

    /// The peer with this address, made known if it was not.
    pub(super) fn with_address(&mut self, address: A) -> PeerId {
        let address = self.local.map_or(address, |local| address.seen_from(local));
        if let Some(peer) = self.by_address.get(&address) {
            return *peer;
        }
        let peer = match self.free.pop() {
            Some(peer) => {
                self.list[peer as usize] = Peer::new(address);
                peer
            }
            None => {
                self.list.push(Peer::new(address));
                (self.list.len() - 1) as PeerId
            }
        };
        self.by_address.insert(address, peer);
        peer
    }

    /// How completions name a peer.
    #[inline]
    pub(super) fn source(&mut self, peer: PeerId) -> u64 {
        let Some(state) = self.list.get_mut(peer as usize) else { return ADDR_UNSPEC };
        if let Some(av) = self.routes.av()
            && state.sender.is_stale(av)
        {
            state.sender.refresh(av, &state.listed.unwrap_or(state.address).to_bytes());
        }
        state.sender.id()
    }

    /// Whether there are so many peers that some should be forgotten before one more is taken.
    pub(super) fn is_crowded(&self) -> bool {
        self.free.is_empty() && self.list.len() >= self.next_look.max(CROWD)
    }

    /// Forgets peers. The number of one that is forgotten will be another's, so `used` must name all
    /// those that anything refers to: a connection, an operation, a message or a receive.
    pub(super) fn forget(&mut self, used: impl Iterator<Item = PeerId>) {
        let av = self.routes.av();
        let listed = |address: A| av.is_some_and(|av| av.find(&address.to_bytes()).is_some());
        let known = |peer: &Peer<A>| listed(peer.address) || peer.listed.is_some_and(listed);
        let mut keep: Vec<bool> =
            self.list.iter().map(|peer| peer.is_busy() || known(peer)).collect();
        for peer in used {
            // Receives for any sender name a peer that does not exist.
            if let Some(keep) = keep.get_mut(peer as usize) {
                *keep = true;
            }
        }
        for (at, _) in keep.iter().enumerate().filter(|(_, keep)| !**keep) {
            let address = self.list[at].address;
            self.by_address.remove(&address);
            self.list[at] = Peer::new(address);
            self.free.push(at as PeerId);
        }
        // Looking costs as much as there are peers, and is paid for by as many newcomers.
        let left = self.list.len() - self.free.len();
        self.next_look = self.list.len().max(2 * left);
    }
}

impl<A: Address> Peer<A> {
    fn new(address: A) -> Self {
        Self {
            address,
            listed: None,
            conn: None,
            waiting: VecDeque::new(),
            asking: Asking::default(),
            attempts: Attempts::default(),
            owner: 0,
            sender: Sender::default(),
            load: Load::default(),
        }
    }

    /// The address vector has it under this address.
    fn list(&mut self, address: A) {
        let listed = Some(address).filter(|listed| *listed != self.address);
        if listed != self.listed {
            self.listed = listed;
            self.sender = Sender::default();
        }
    }

    /// Somebody waits for it to be reached.
    pub(super) fn is_wanted(&self) -> bool {
        !self.waiting.is_empty() || self.asking.is_pending()
    }

    /// Something is under way.
    fn is_busy(&self) -> bool {
        self.conn.is_some()
            || !self.waiting.is_empty()
            || self.load.kept != 0
            || self.attempts.is_pending()
    }
}
