//! PENDING. What an endpoint's rings may take of a node's memory, and large rings that are taken back.

use fabric_core::matching::PeerId;

use super::{ShmTx, is_hot};
use crate::{
    segment::{MOST_HOT, NODE, cold},
    wire::clock::{REST_TICKS, ticks},
};

impl ShmTx {
    /// Bytes for all rings, if each peer that this endpoint knows has as many peers on this node.
    const fn share(&self) -> usize {
        NODE / (self.known + 1)
    }

    /// Bytes for further rings. A ring that has been replaced is its reader's until that has come
    /// away from it.
    pub(super) const fn left(&self) -> usize {
        self.share().saturating_sub(self.bytes)
    }

    /// Takes large rings back from peers that nothing was sent to since this was done last, which was
    /// a while ago, until there is room for a large ring of `other`.
    #[cold]
    pub(super) fn take_back_resting(&mut self, other: PeerId) {
        let now = ticks();
        if now.wrapping_sub(self.looked_through) < REST_TICKS {
            return;
        }
        self.looked_through = now;
        for peer in (0..self.peers.len() as PeerId).filter(|peer| *peer != other) {
            let Some(ring) = self.peer(peer).and_then(|state| state.ring.as_mut()) else {
                continue;
            };
            let pushed = Some(ring.producer.pushed());
            let rests = std::mem::replace(&mut ring.noted, pushed) == pushed;
            if rests && self.left() < MOST_HOT {
                self.shrink(peer);
            }
        }
    }

    /// Takes large rings back from whomever it can as long as the rings, that of `other` among them,
    /// take more than the share.
    pub(super) fn keep_to_share(&mut self, other: PeerId) {
        let mut peers = (0..self.peers.len() as PeerId).filter(|peer| *peer != other);
        while self.bytes > self.share()
            && let Some(peer) = peers.next()
        {
            self.shrink(peer);
        }
    }

    /// Replaces a large ring by a page, unless a packet has found no room in it: one of that length
    /// is still to come.
    fn shrink(&mut self, peer: PeerId) {
        let large = self
            .peer(peer)
            .and_then(|state| state.ring.as_ref())
            .is_some_and(|ring| is_hot(&ring.segment) && !ring.producer.was_refused());
        if large {
            self.replace(peer, cold());
        }
    }
}

#[cfg(test)]
impl ShmTx {
    /// Bytes of all rings, and what they may be at most.
    pub(crate) const fn bytes_of_share(&self) -> (usize, usize) {
        (self.bytes, self.share())
    }

    /// Bytes of a peer's ring.
    pub(crate) fn ring_bytes(&self, peer: PeerId) -> usize {
        self.peers[peer as usize].ring.as_ref().map_or(0, |ring| ring.bytes())
    }

    /// Forgets when resting rings were looked for.
    pub(crate) fn a_while_later(&mut self) {
        self.looked_through = ticks().wrapping_sub(2 * REST_TICKS);
    }
}
