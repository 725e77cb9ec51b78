//! SETUP. Peers that have come and gone are forgotten, so that no memory is held for every address
//! that was ever seen.

use fabric_core::{av::Sender, lock::Lock, matching::PeerId, reaching::Asking, slab::Handle};

use super::{Engine, Ep, Peer};
use crate::{address::SocketAddress, net::Net};

/// Peers that an endpoint has before it looks for some to forget.
const CROWD: usize = 1024;

/// The numbers of forgotten peers.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    /// To be given to others.
    free: Vec<PeerId>,
    /// How many peers there are when it is worth looking again.
    next_look: usize,
}

impl Forgotten {
    /// A number to use again.
    pub(super) fn take(&mut self) -> Option<PeerId> {
        self.free.pop()
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Before a stranger becomes a peer: forgets others, if there are many. The number of one that is
    /// forgotten will be another's, so nothing may be left that refers to it: no connection,
    /// operation, message or receive, and no entry of the address vector.
    pub(super) fn forget_peers(&mut self, ep: Handle) {
        let Some(state) = self.core.eps.get(ep) else { return };
        if !state.forgotten.free.is_empty()
            || state.peers.len() < state.forgotten.next_look.max(CROWD)
        {
            return;
        }
        let mut used = state.peers_in_use();
        let inbox = self.core.contexts.get(state.rx).map(|context| context.inbox.peers());
        let operations = self.core.ops.iter().filter(|(_, op)| op.ep == ep).map(|(_, op)| op.peer);
        let conns = self.conns.iter().filter(|(_, conn)| conn.ep == ep).map(|(_, conn)| conn.peer);
        for peer in operations.chain(conns).chain(inbox.into_iter().flatten()) {
            // Connections that have not said whose they are, and receives for any sender, name a
            // peer that does not exist.
            if let Some(used) = used.get_mut(peer as usize) {
                *used = true;
            }
        }
        if let Some(state) = self.core.eps.get_mut(ep) {
            state.forget(&used);
        }
    }
}

impl<L: Lock> Ep<L> {
    /// For each peer, whether the endpoint itself refers to it.
    fn peers_in_use(&self) -> Vec<bool> {
        let av = self.routes.av();
        let listed =
            |address: SocketAddress| av.is_some_and(|av| av.find(&address.to_bytes()).is_some());
        let known = |peer: &Peer| listed(peer.address) || peer.listed.is_some_and(listed);
        self.peers.iter().map(|peer| peer.is_busy() || known(peer)).collect()
    }

    fn forget(&mut self, used: &[bool]) {
        for (at, _) in used.iter().enumerate().filter(|(_, used)| !**used) {
            let address = self.peers[at].address;
            self.by_address.remove(&address);
            self.peers[at] = Peer::new(address);
            self.forgotten.free.push(at as PeerId);
        }
        // Looking costs as much as there are peers, and is paid for by as many newcomers.
        let left = self.peers.len() - self.forgotten.free.len();
        self.forgotten.next_look = self.peers.len().max(2 * left);
    }
}

impl Peer {
    pub(super) fn new(address: SocketAddress) -> Self {
        Self {
            address,
            listed: None,
            conn: None,
            waiting: std::collections::VecDeque::new(),
            asking: Asking::default(),
            attempts: fabric_core::reaching::Attempts::default(),
            identity: super::Identity::default(),
            sender: Sender::default(),
            kept: 0,
            queued: 0,
        }
    }

    /// The address vector has it under this address.
    pub(super) fn list(&mut self, address: SocketAddress) {
        let listed = Some(address).filter(|listed| *listed != self.address);
        if listed != self.listed {
            self.listed = listed;
            self.sender = Sender::default();
        }
    }

    /// Something is under way.
    fn is_busy(&self) -> bool {
        self.conn.is_some()
            || !self.waiting.is_empty()
            || self.kept != 0
            || self.attempts.is_pending()
    }
}
