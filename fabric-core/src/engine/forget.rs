//! SETUP. Peers that have come and gone are forgotten, so that no memory is held for every name
//! that was ever seen.

use super::{Core, Engine, Peer};
use crate::{lock::Lock, wire::Wire};

impl<W: Wire, L: Lock> Engine<W, L> {
    /// Forgets who is not connected, if there are many. The number of one that is forgotten may be
    /// another's next, so nothing may be left that refers to it: no operation, transfer, message or
    /// receive, and no entry of the address vector, by which it would be looked up again.
    #[cold]
    pub(super) fn forget_peers(&mut self) {
        if !self.wire.is_crowded() {
            return;
        }
        let named = self.core.peers_in_use();
        let av = self.core.routes.av();
        let gone = self.wire.forget_unused(|peer, address| {
            named.get(peer as usize).is_some_and(|named| *named)
                || av.is_some_and(|av| av.find(address).is_some())
        });
        for peer in gone {
            if let Some(state) = self.core.peers.get_mut(peer as usize) {
                *state = Peer::default();
            }
        }
    }
}

impl<L: Lock> Core<L> {
    /// For each peer, whether anything here refers to it.
    pub(super) fn peers_in_use(&self) -> Vec<bool> {
        let mut used: Vec<bool> = self.peers.iter().map(Peer::is_busy).collect();
        let operations = self.ops.iter().map(|(_, op)| op.peer);
        let transfers = self.transfers.iter().map(|(_, transfer)| transfer.peer);
        let services = self.services.iter().map(|(_, service)| service.peer);
        let named = operations.chain(transfers).chain(services).chain(self.inbox.peers());
        for peer in named {
            // Receives for any sender name a peer that does not exist.
            if let Some(used) = used.get_mut(peer as usize) {
                *used = true;
            }
        }
        used
    }
}
