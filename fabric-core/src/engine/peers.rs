//! HOT. Peers: what waits for each, and which address-vector handle leads to which.

use std::collections::VecDeque;

use super::{Core, Engine};
use crate::{
    Result,
    av::Sender,
    lock::Lock,
    matching::PeerId,
    op::ADDR_UNSPEC,
    slab::Handle,
    wire::{Head, Refused, Source, Wire, WireTx},
};

/// What an engine keeps about one peer.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// Answers and requests of ours that found no room.
    pub(crate) control: VecDeque<(Head, Box<[u8]>)>,
    /// Operations and services that send segments.
    pub(crate) streams: VecDeque<Stream>,
    /// Operations not started yet, in order.
    pub(crate) queue: VecDeque<Handle>,
    /// Operations started and not finished.
    pub(crate) outstanding: usize,
    /// Reads among them whose bytes we copy: writes must not overtake them.
    pub(crate) large_reads: usize,
    /// Writes among them whose bytes the target fetches: nothing must overtake them.
    pub(crate) large_writes: usize,
    /// Listed in `Core::blocked`.
    pub(crate) listed: bool,
    /// Bytes that wait for receives.
    pub(crate) waiting_bytes: usize,
    /// The peer was told so.
    pub(crate) pressed: bool,
    /// How completions name it.
    sender: Sender,
}

/// Who sends segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// An operation of this endpoint.
    Op(Handle),
    /// A read that is served.
    Service(Handle),
}

impl Peer {
    /// Nothing waits, so an operation may be emitted at once.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.queue.is_empty() && !self.holds(false)
    }

    /// Whether an operation has to wait for large ones in front of it. Reads keep their order among
    /// themselves without waiting for each other.
    #[inline]
    pub(crate) const fn holds(&self, is_read: bool) -> bool {
        self.large_writes != 0 || (self.large_reads != 0 && !is_read)
    }

    /// Something waits for it, or of it.
    pub(super) fn is_busy(&self) -> bool {
        self.listed
            || self.outstanding != 0
            || !self.queue.is_empty()
            || !self.streams.is_empty()
            || !self.control.is_empty()
    }
}

impl<W: Wire, L: Lock> Engine<W, L> {
    /// The peer behind a handle of the address vector; unknown handles are `EINVAL`.
    #[inline]
    pub(crate) fn resolve(&mut self, addr: u64) -> Result<PeerId> {
        match self.core.routes.known(addr) {
            Some(peer) => Ok(peer),
            None => self.resolve_slowly(addr),
        }
    }

    #[cold]
    fn resolve_slowly(&mut self, addr: u64) -> Result<PeerId> {
        self.forget_peers();
        let wire = &mut self.wire;
        let peer = self.core.routes.resolve(addr, |address| wire.peer(address))?;
        self.core.peer_mut(peer);
        Ok(peer)
    }

    /// Before completions name this peer: looks it up again if the address vector has changed.
    #[inline]
    pub(crate) fn refresh_if_stale(&mut self, peer: PeerId) {
        if !self.core.limits.source {
            return;
        }
        let Some(av) = self.core.routes.av() else { return };
        let known = self.core.peers.get(peer as usize).map_or_else(Sender::default, |p| p.sender);
        if known.is_stale(av) {
            self.refresh_sender(peer);
        }
    }

    #[cold]
    fn refresh_sender(&mut self, peer: PeerId) {
        let Some(av) = self.core.routes.av().cloned() else { return };
        let address = self.wire.address(peer);
        self.core.peer_mut(peer).sender.refresh(&av, address);
    }
}

impl<L: Lock> Core<L> {
    /// A peer's state, made on first sight.
    #[inline]
    pub(crate) fn peer_mut(&mut self, peer: PeerId) -> &mut Peer {
        let at = peer as usize;
        if at >= self.peers.len() {
            self.peers.resize_with(at + 1, Peer::default);
        }
        &mut self.peers[at]
    }

    /// The sender's handle for completions.
    #[inline]
    pub(crate) fn source(&self, peer: PeerId) -> u64 {
        match self.peers.get(peer as usize) {
            Some(peer) if self.limits.source => peer.sender.id(),
            _ => ADDR_UNSPEC,
        }
    }

    /// Lists a peer for `flush`.
    pub(crate) fn block(&mut self, peer: PeerId) {
        let state = self.peer_mut(peer);
        if !state.listed {
            state.listed = true;
            self.blocked.push(peer);
            self.newly_blocked = true;
        }
    }

    /// Lists a peer if something waits for it.
    pub(crate) fn unblock(&mut self, peer: PeerId) {
        let state = self.peer_mut(peer);
        let waits =
            !state.control.is_empty() || !state.streams.is_empty() || !state.queue.is_empty();
        if waits {
            self.block(peer);
        }
    }

    /// Emits a packet of the protocol, now or as soon as there is room.
    #[inline]
    pub(crate) fn control<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        head: Head,
        fixed: &[u8],
    ) {
        if self.peer_mut(peer).control.is_empty() {
            match tx.try_emit(peer, head, &Source::fixed(fixed)) {
                // A peer that is gone needs no answer; its end is reported by the wire.
                Ok(()) | Err(Refused::Down(_)) => return,
                Err(Refused::Again) => {}
            }
        }
        self.peer_mut(peer).control.push_back((head, fixed.into()));
        self.block(peer);
    }

    /// Emits what waits, for every peer that has something.
    pub(crate) fn flush<T: WireTx>(&mut self, tx: &mut T) {
        let mut at = 0;
        while let Some(&peer) = self.blocked.get(at) {
            if self.flush_peer(tx, peer) {
                self.peer_mut(peer).listed = false;
                self.blocked.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// `true` when nothing waits for the peer any more.
    fn flush_peer<T: WireTx>(&mut self, tx: &mut T, peer: PeerId) -> bool {
        while let Some((head, fixed)) = self.peer_mut(peer).control.pop_front() {
            if tx.try_emit(peer, head, &Source::fixed(&fixed)) == Err(Refused::Again) {
                self.peer_mut(peer).control.push_front((head, fixed));
                return false;
            }
        }
        self.flush_streams(tx, peer) & self.flush_queue(tx, peer)
    }
}
