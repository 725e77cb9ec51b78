//! PENDING. Peers: introductions, ends, and successors at the same address.

use std::sync::Arc;

use fabric_core::{
    Errno,
    log::Subsys,
    matching::PeerId,
    slab::Handle,
    wire::{Event, Wire},
};

use super::{CROWD, ShmWire, Watched, clock::YOUNG_LOOKS};
use crate::{
    link::{Hello, Link},
    offer::NAME,
    rings::{RxPeer, TxPeer},
};

impl ShmWire {
    pub(super) fn introduced(&mut self, handle: Handle, link: &Arc<Link>, hello: Hello) {
        let peer = match self.links.get(handle).and_then(|watched| watched.peer) {
            Some(peer) => peer,
            None => {
                self.strangers.retain(|stranger| *stranger != handle);
                self.peer_slot(&hello.address)
            }
        };
        if self.precedes(peer, link, &hello) {
            // Another endpoint has taken the address of one that we have not seen end, or that has
            // ended and whose last packets are still to be read. The new one has its turn then.
            self.end(peer, Errno::ECONNRESET);
            self.successors.push((handle, hello));
            self.finish_ending();
            return;
        }
        self.admit(handle, peer, link, hello);
    }

    /// Whether the peer as we know it is another than the one that says this.
    ///
    /// One that never answered is told by its process: two connections of one endpoint are of one
    /// process, and one that has ended, or has closed its end, makes no new ones.
    fn precedes(&self, peer: PeerId, link: &Arc<Link>, hello: &Hello) -> bool {
        let state = &self.tx.peers[peer as usize];
        match (&state.hello, &state.link) {
            (Some(known), _) => known.id != hello.id,
            (None, Some(old)) if !Arc::ptr_eq(old, link) => {
                old.pid() != link.pid() || (!old.is_alive() && link.is_alive())
            }
            (None, _) => false,
        }
    }

    fn admit(&mut self, handle: Handle, peer: PeerId, link: &Arc<Link>, hello: Hello) {
        if let Some(watched) = self.links.get_mut(handle) {
            watched.peer = Some(peer);
        }
        let tx = &mut self.tx.peers[peer as usize];
        tx.always_polls = !hello.sleeps;
        tx.hello = Some(hello);
        tx.link.get_or_insert_with(|| link.clone());
        self.rx.peers[peer as usize].link.get_or_insert_with(|| link.clone());
    }

    /// Admits those who have waited for the end of their predecessors.
    pub(super) fn admit_successors(&mut self) {
        for (handle, hello) in std::mem::take(&mut self.successors) {
            let Some(watched) = self.links.get(handle) else { continue };
            let link = watched.link.clone();
            let peer = self.peer_slot(&hello.address);
            if self.precedes(peer, &link, &hello) {
                self.end(peer, Errno::ECONNRESET);
                self.successors.push((handle, hello));
            } else {
                self.admit(handle, peer, &link, hello);
                self.hear(handle);
            }
        }
    }

    pub(super) fn hung_up(&mut self, handle: Handle, reason: Errno) {
        let Some(watched) = self.links.remove(handle) else { return };
        self.heard = true;
        self.unwatch(&watched.link);
        match watched.peer {
            Some(peer) => self.end(peer, reason),
            None => self.strangers.retain(|stranger| *stranger != handle),
        }
    }

    /// Notes a peer's end; it takes effect when its last packets have been read.
    pub(super) fn end(&mut self, peer: PeerId, reason: Errno) {
        if !self.ending.iter().any(|(other, _)| *other == peer) {
            self.ending.push((peer, reason));
        }
    }

    pub(super) fn finish_ending(&mut self) {
        let mut at = 0;
        while let Some(&(peer, reason)) = self.ending.get(at) {
            if self.rx.ready(peer) {
                at += 1;
                continue;
            }
            self.ending.swap_remove(at);
            self.forget(peer);
            fabric_core::info!(
                NAME,
                Subsys::EpCtrl,
                "{} has ended: {reason}",
                String::from_utf8_lossy(self.address(peer)).trim_end_matches('\0')
            );
            self.events.push_back(Event::Down(peer, reason));
            self.admit_successors();
        }
    }

    pub(super) fn forget(&mut self, peer: PeerId) {
        self.tx.reset(peer);
        self.rx.reset(peer);
        let of_peer = |watched: &Watched| watched.peer == Some(peer);
        let handles: Vec<_> =
            self.links.iter().filter(|(_, w)| of_peer(w)).map(|(handle, _)| handle).collect();
        for handle in handles {
            if let Some(watched) = self.links.remove(handle) {
                self.unwatch(&watched.link);
            }
        }
    }

    pub(super) fn peer_slot(&mut self, address: &[u8]) -> PeerId {
        if let Some(peer) = self.by_address.get(address) {
            return *peer;
        }
        let peer = self.free.pop().unwrap_or_else(|| {
            self.tx.peers.push(TxPeer::default());
            self.rx.peers.push(RxPeer::default());
            // More peers than a PeerId can number would not fit into memory.
            (self.tx.peers.len() - 1) as PeerId
        });
        self.tx.peers[peer as usize] = TxPeer::new(address.into());
        self.by_address.insert(address.into(), peer);
        self.tx.known = self.by_address.len();
        self.young = YOUNG_LOOKS;
        peer
    }

    /// Forgets peers that are not connected and not `used`.
    pub(super) fn retire(&mut self, mut used: impl FnMut(PeerId, &[u8]) -> bool) -> Vec<PeerId> {
        let mut gone = Vec::new();
        let by_address = std::mem::take(&mut self.by_address);
        for (address, peer) in by_address {
            if self.is_connected(peer) || used(peer, &address) {
                self.by_address.insert(address, peer);
            } else {
                self.tx.peers[peer as usize] = TxPeer::default();
                gone.push(peer);
            }
        }
        self.free.extend(&gone);
        self.tx.known = self.by_address.len();
        self.crowd = CROWD.max(2 * self.by_address.len());
        gone
    }

    /// Whether there is a connection, the beginning of one, or news of its end still to be told.
    fn is_connected(&self, peer: PeerId) -> bool {
        let told = |event: &Event| match event {
            Event::Writable(other) | Event::Down(other, _) => *other == peer,
        };
        !self.tx.peers[peer as usize].is_unused()
            || !self.rx.peers[peer as usize].is_unused()
            || self.ending.iter().any(|(other, _)| *other == peer)
            || self.events.iter().any(told)
    }
}
