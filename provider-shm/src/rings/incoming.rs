//! HOT. The rings that we empty.

use std::{collections::VecDeque, sync::Arc};

use fabric_core::{
    Errno, Result,
    matching::PeerId,
    ring::{Broken, Consumer},
    wire::{Packet, WireRx},
};

use super::MOVED;
use crate::{link::Link, segment::Segment};

/// Rings of one peer that wait for the present one to be emptied. A peer replaces a ring before we
/// have come to it only if it is its first.
const NEXT_RINGS: usize = 4;

/// Peers that are looked at in every progress call.
const ACTIVE: usize = 16;

/// Other peers that are looked at in one progress call.
const SWEEP: usize = 4;

/// A ring that we empty.
#[derive(Debug)]
pub(crate) struct Incoming {
    consumer: Consumer,
    /// Dropped after the consumer.
    _segment: Segment,
}

impl Incoming {
    pub(crate) fn new(segment: Segment) -> Self {
        Self { consumer: Consumer::new(segment.memory()), _segment: segment }
    }
}

/// The receiving half of one peer.
#[derive(Debug, Default)]
pub(crate) struct RxPeer {
    ring: Option<Incoming>,
    /// Rings that replace it, in order.
    next: VecDeque<Incoming>,
    pub(crate) link: Option<Arc<Link>>,
    /// The ring says that it has been replaced, and the replacement is not here yet.
    stalled: bool,
    /// What this peer has been told by [`WireRx::set_pressure`]; it looks at its newest ring.
    pressure: bool,
}

impl RxPeer {
    /// Nothing has been set up.
    pub(crate) fn is_unused(&self) -> bool {
        self.link.is_none() && self.ring.is_none() && self.next.is_empty()
    }
}

/// Rings that we empty.
#[derive(Debug, Default)]
pub struct ShmRx {
    pub(crate) peers: Vec<RxPeer>,
    active: Vec<PeerId>,
    others: Vec<PeerId>,
    at: usize,
    sweep_at: usize,
    swept: usize,
    /// A replacement ring is missing: look at the sockets soon.
    pub(crate) hurry: bool,
}

impl ShmRx {
    /// Takes a ring that a peer has handed over. `EPROTO` if more are waiting than a peer has use
    /// for.
    pub(crate) fn attach(&mut self, peer: PeerId, ring: Incoming) -> Result<()> {
        let Some(state) = self.peers.get_mut(peer as usize) else { return Ok(()) };
        if state.next.len() >= NEXT_RINGS {
            return Err(Errno::EPROTO);
        }
        state.stalled = false;
        if state.ring.is_none() && state.next.is_empty() {
            state.ring = Some(ring);
            let list = if self.active.len() < ACTIVE { &mut self.active } else { &mut self.others };
            list.push(peer);
        } else {
            state.next.push_back(ring);
        }
        Ok(())
    }

    /// Forgets a peer's rings.
    pub(crate) fn reset(&mut self, peer: PeerId) {
        if let Some(state) = self.peers.get_mut(peer as usize) {
            *state = RxPeer::default();
        }
        self.active.retain(|other| *other != peer);
        self.others.retain(|other| *other != peer);
        (self.at, self.sweep_at) = (0, 0);
    }

    /// Whether packets of this peer are left.
    #[inline]
    pub(crate) fn ready(&self, peer: PeerId) -> bool {
        self.peers.get(peer as usize).is_some_and(|state| {
            !state.stalled && state.ring.as_ref().is_some_and(|ring| ring.consumer.ready())
        })
    }

    /// Asks every peer to ring; `false` as soon as one has sent something.
    pub(crate) fn arm(&self) -> bool {
        self.active.iter().chain(&self.others).all(|peer| {
            let ring = self.peers.get(*peer as usize).and_then(|state| state.ring.as_ref());
            ring.is_none_or(|ring| ring.consumer.arm())
        })
    }

    /// One of the peers that are not looked at every time; a busy one takes the place of an active.
    #[cold]
    fn sweep(&mut self) -> Option<PeerId> {
        while self.swept < SWEEP.min(self.others.len()) {
            self.swept += 1;
            self.sweep_at = (self.sweep_at + 1) % self.others.len();
            let peer = self.others[self.sweep_at];
            if self.ready(peer) {
                let place = peer as usize % self.active.len().max(1);
                if let Some(active) = self.active.get_mut(place) {
                    self.others[self.sweep_at] = std::mem::replace(active, peer);
                }
                return Some(peer);
            }
        }
        None
    }
}

impl WireRx for ShmRx {
    #[inline]
    fn next_ready(&mut self) -> Option<PeerId> {
        while let Some(&peer) = self.active.get(self.at) {
            // Whatever this one has left when the caller has had enough waits for its next turn.
            self.at += 1;
            if self.ready(peer) {
                return Some(peer);
            }
        }
        if !self.others.is_empty()
            && let Some(peer) = self.sweep()
        {
            return Some(peer);
        }
        (self.at, self.swept) = (0, 0);
        None
    }

    #[inline]
    fn peek(&mut self, peer: PeerId) -> Result<Option<Packet>> {
        let Some(state) = self.peers.get_mut(peer as usize) else { return Ok(None) };
        loop {
            let Some(ring) = &mut state.ring else { return Ok(None) };
            let packet = ring.consumer.peek().map_err(|Broken| Errno::EPROTO)?;
            match packet {
                Some(packet) if packet.head.op == MOVED => {}
                other => return Ok(other),
            }
            match state.next.pop_front() {
                Some(next) => {
                    next.consumer.set_pressure(state.pressure);
                    state.ring = Some(next);
                }
                None => {
                    state.stalled = true;
                    self.hurry = true;
                    return Ok(None);
                }
            }
        }
    }

    #[inline]
    fn consume(&mut self, peer: PeerId) {
        let Some(state) = self.peers.get_mut(peer as usize) else { return };
        let Some(ring) = &mut state.ring else { return };
        if ring.consumer.consume()
            && let Some(link) = &state.link
        {
            link.ring_bell();
        }
    }

    fn set_pressure(&mut self, peer: PeerId, high: bool) {
        let Some(state) = self.peers.get_mut(peer as usize) else { return };
        state.pressure = high;
        if let Some(ring) = &state.ring {
            ring.consumer.set_pressure(high);
        }
    }
}
