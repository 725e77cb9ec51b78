//! HOT. The rings that we fill.

mod share;

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use fabric_core::{
    Errno, Result,
    log::Subsys,
    matching::PeerId,
    mem::Buffers,
    ring::{Geometry, Producer, PushError},
    shortage,
    wire::{Head, Refused, Source, WireTx},
};

use super::MOVED;
use crate::{
    address::socket_address,
    copy,
    link::{Hello, Link},
    offer::NAME,
    segment::{LEAST_HOT, Segment, cold, hot},
    unreached,
};

/// Payload bytes of one packet at most, so that a large transfer's two copies overlap.
const SEGMENT: usize = 80 << 10;

/// A ring that we fill.
#[derive(Debug)]
struct Outgoing {
    producer: Producer,
    /// Dropped after the producer.
    segment: Segment,
    /// It has replaced another.
    follows: bool,
    /// Packets in all when large rings were last looked through for one that rests.
    noted: Option<u32>,
}

impl Outgoing {
    fn create(geometry: Option<Geometry>) -> Result<(Self, OwnedFd)> {
        let (segment, fd) = Segment::create(geometry.ok_or(Errno::EOTHER)?)?;
        let mut producer = Producer::new(segment.memory());
        if !is_hot(&segment) {
            // A page can be left also when it is full and has not been looked at.
            producer.keep_one();
        }
        Ok((Self { producer, segment, follows: false, noted: None }, fd))
    }

    fn bytes(&self) -> usize {
        self.segment.geometry().bytes()
    }

    /// Whether the reader keeps up: it need not hold more than the ring it reads and the next one.
    fn can_be_left(&mut self) -> bool {
        self.producer.has_room() && (!self.follows || self.producer.is_visited())
    }
}

/// Direct copies from a peer's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Copies {
    #[default]
    Untried,
    Work,
    Fail,
}

/// The sending half of one peer.
#[derive(Debug, Default)]
pub(crate) struct TxPeer {
    pub(crate) address: Box<[u8]>,
    /// As introduced by the peer.
    pub(crate) hello: Option<Hello>,
    /// The peer has said that it never sleeps.
    pub(crate) always_polls: bool,
    pub(crate) link: Option<Arc<Link>>,
    /// The peer has it, or finds it when it looks at its socket.
    ring: Option<Outgoing>,
    /// A first ring that could not be handed over yet, since the peer's backlog was full. Nothing is
    /// put into it: what is in a ring counts as sent.
    offered: Option<(Outgoing, OwnedFd)>,
    /// A small ring has been full: this pair is busy and gets a large one when there is a slot to
    /// say so, if there is room for it.
    crowded: bool,
    copies: Copies,
    /// The log knows that it cannot be reached.
    told: bool,
}

impl TxPeer {
    pub(crate) fn new(address: Box<[u8]>) -> Self {
        Self { address, ..Self::default() }
    }

    /// Back to the state before first contact; the address stays, and what has been told of it.
    fn reset(&mut self) {
        let address = std::mem::take(&mut self.address);
        *self = Self { address, told: self.told, ..Self::default() };
    }

    /// Nothing has been set up.
    pub(crate) fn is_unused(&self) -> bool {
        self.link.is_none() && self.hello.is_none() && self.ring.is_none() && self.offered.is_none()
    }

    fn wake(&self) {
        if let Some(link) = &self.link {
            link.ring_bell();
        }
    }

    /// Tells the log why this peer is not reached, once until it is.
    fn tell_of(&mut self, why: impl FnOnce(&[u8]) -> String) {
        if !std::mem::replace(&mut self.told, true) {
            let address = String::from_utf8_lossy(&self.address);
            let address = address.trim_end_matches('\0');
            fabric_core::warn_few!(
                NAME,
                Subsys::EpCtrl,
                "{address} cannot be reached: {}",
                why(&self.address)
            );
        }
    }
}

/// Rings that we fill.
#[derive(Debug)]
pub struct ShmTx {
    pub(crate) peers: Vec<TxPeer>,
    /// How this endpoint introduces itself.
    pub(crate) hello: Hello,
    /// Links made here that the owner must start to watch.
    pub(crate) fresh: Vec<(PeerId, Arc<Link>)>,
    /// Peers whose first ring waits to be handed over.
    pub(crate) retry: Vec<PeerId>,
    /// Peers that broke a ring's rules, or that no ring can be made for: the owner must give them up.
    pub(crate) broken: Vec<(PeerId, Errno)>,
    pub(crate) copies_allowed: bool,
    /// Peers that this endpoint knows.
    pub(crate) known: usize,
    /// Bytes of all rings.
    bytes: usize,
    /// When large rings were last looked through for one that rests.
    looked_through: u64,
}

impl ShmTx {
    pub(crate) fn new(hello: Hello, copies_allowed: bool) -> Self {
        Self {
            peers: Vec::new(),
            hello,
            fresh: Vec::new(),
            retry: Vec::new(),
            broken: Vec::new(),
            copies_allowed,
            known: 0,
            bytes: 0,
            looked_through: 0,
        }
    }

    fn peer(&mut self, peer: PeerId) -> Option<&mut TxPeer> {
        self.peers.get_mut(peer as usize)
    }

    /// Forgets what was set up with a peer.
    pub(crate) fn reset(&mut self, peer: PeerId) {
        let Some(state) = self.peers.get_mut(peer as usize) else { return };
        let offered = state.offered.iter().map(|(ring, _)| ring);
        self.bytes -= state.ring.iter().chain(offered).map(Outgoing::bytes).sum::<usize>();
        state.reset();
        self.broken.retain(|(other, _)| *other != peer);
        self.fresh.retain(|(other, _)| *other != peer);
        self.retry.retain(|other| *other != peer);
    }

    /// First contact: makes a ring and hands it over. `Again`: that is tried again with each look at
    /// the sockets.
    #[cold]
    fn open_ring(&mut self, peer: PeerId, geometry: Option<Geometry>) -> Result<(), Refused> {
        let state = self.peers.get_mut(peer as usize).ok_or(Refused::Down(Errno::EINVAL))?;
        if state.offered.is_some() {
            return Err(Refused::Again);
        }
        let met = state.link.is_some();
        let handed_over = match Outgoing::create(geometry) {
            Ok(offered) => {
                self.bytes += offered.0.bytes();
                state.offered = Some(offered);
                self.keep_to_share(peer);
                self.hand_over(peer)
            }
            Err(reason) => {
                state.tell_of(|_| format!("no ring can be made: {}", shortage::explained(reason)));
                Err(Refused::Down(reason))
            }
        };
        match handed_over {
            // It has sent us something, perhaps waits for an answer, and must hear that none comes.
            Err(Refused::Down(reason)) if met => return Err(self.give_up(peer, reason)),
            Err(Refused::Down(_)) => self.reset(peer),
            Ok(()) | Err(Refused::Again) => {}
        }
        handed_over
    }

    /// Hands a waiting first ring over, connecting if that is still to be done.
    pub(crate) fn hand_over(&mut self, peer: PeerId) -> Result<(), Refused> {
        let Some(state) = self.peers.get_mut(peer as usize) else { return Ok(()) };
        let Some((ring, fd)) = &state.offered else { return Ok(()) };
        let link = match &state.link {
            Some(link) => link.clone(),
            None => match introduce(&state.address, &self.hello) {
                Ok(link) => {
                    let link = Arc::new(link);
                    state.link = Some(link.clone());
                    self.fresh.push((peer, link.clone()));
                    link
                }
                Err(reason) => return Err(self.postponed(peer, reason)),
            },
        };
        match link.give_ring(fd.as_fd(), ring.segment.geometry()) {
            Ok(()) => {
                state.ring = state.offered.take().map(|(ring, _)| ring);
                state.told = false;
                Ok(())
            }
            Err(reason) => Err(self.postponed(peer, reason)),
        }
    }

    /// A full backlog or socket is looked at again later, and so is the limit of descriptors on
    /// their way; anything else is the end.
    fn postponed(&mut self, peer: PeerId, reason: Errno) -> Refused {
        if reason != Errno::EAGAIN && reason != Errno::new(libc::ETOOMANYREFS) {
            if let Some(state) = self.peer(peer) {
                state.tell_of(|address| format!("{reason}: {}", unreached::cause(address, reason)));
            }
            return Refused::Down(reason);
        }
        if !self.retry.contains(&peer) {
            self.retry.push(peer);
        }
        Refused::Again
    }

    /// First contact with a packet. The peer need not have answered, but the ring must be on its way
    /// before anything in it counts as sent: a program may end right after that.
    #[cold]
    fn emit_first(&mut self, peer: PeerId, head: Head, source: &Source<'_>) -> Result<(), Refused> {
        self.open_ring(peer, cold())?;
        self.try_emit(peer, head, source)
    }

    /// Gives a peer that has none a large ring, if there is room for one and room to say so.
    fn enlarge(&mut self, peer: PeerId) -> bool {
        let Some(state) = self.peers.get(peer as usize) else { return false };
        if state.ring.as_ref().is_some_and(|ring| is_hot(&ring.segment)) {
            return false;
        }
        let first = state.ring.is_none();
        if hot(self.left()).is_none() {
            self.take_back_resting(peer);
        }
        match hot(self.left()) {
            None => false,
            geometry if first => self.open_ring(peer, geometry).is_ok(),
            geometry => self.replace(peer, geometry),
        }
    }

    /// Hands a peer another ring. What is in the old one is read before what the new one gets.
    fn replace(&mut self, peer: PeerId, geometry: Option<Geometry>) -> bool {
        let Some(state) = self.peers.get_mut(peer as usize) else { return false };
        let (Some(old), Some(link)) = (&mut state.ring, &state.link) else { return false };
        if !old.can_be_left() {
            return false;
        }
        let ring = Outgoing::create(geometry).and_then(|(ring, fd)| {
            link.give_ring(fd.as_fd(), ring.segment.geometry())?;
            Ok(Outgoing { follows: true, ..ring })
        });
        let Ok(ring) = ring else {
            // Tried again when there is room, not with every packet that finds none.
            old.producer.keep_none();
            return false;
        };
        let moved = Head { op: MOVED, flags: 0, a: 0, b: 0 };
        // There was room, and nobody else fills this ring: a refusal means broken rules.
        if old.producer.push_last(moved).is_err() {
            self.give_up(peer, Errno::EPROTO);
            return false;
        }
        if old.producer.consumer_sleeps() {
            link.ring_bell();
        }
        self.bytes = self.bytes + ring.bytes() - old.bytes();
        state.ring = Some(ring);
        true
    }

    #[cold]
    fn relieve(&mut self, peer: PeerId) {
        // Without room for it, there is no large ring before something else changes.
        if (self.enlarge(peer) || self.left() < LEAST_HOT)
            && let Some(state) = self.peer(peer)
        {
            state.crowded = false;
        }
    }

    #[cold]
    fn give_up(&mut self, peer: PeerId, reason: Errno) -> Refused {
        if self.broken.iter().all(|(other, _)| *other != peer) {
            self.broken.push((peer, reason));
        }
        Refused::Down(reason)
    }

    /// Announces that we sleep until there is room for this peer; `false` if there is some.
    pub(crate) fn wait_for_room(&mut self, peer: PeerId) -> bool {
        self.peer(peer)
            .and_then(|state| state.ring.as_mut())
            .is_none_or(|ring| ring.producer.wait_for_room())
    }
}

#[cfg(test)]
impl ShmTx {
    /// What happens where no segment can be made.
    pub(crate) fn open_no_ring(&mut self, peer: PeerId) -> Result<(), Refused> {
        self.open_ring(peer, None)
    }

    /// Does to a peer's ring what only a hostile consumer does.
    pub(crate) fn break_ring(&self, peer: PeerId) {
        const CONSUMED: usize = 2 * 64;
        let ring = self.peers[peer as usize].ring.as_ref().unwrap();
        let consumed = ring.segment.base().wrapping_add(CONSUMED).cast::<u32>();
        // SAFETY: inside the mapping, whose lines other processes change as well.
        unsafe { consumed.write_volatile(0x7000_0000) };
    }
}

fn introduce(address: &[u8], hello: &Hello) -> Result<Link> {
    let link = Link::connect(&socket_address(address)?)?;
    link.say_hello(hello)?;
    Ok(link)
}

fn is_hot(segment: &Segment) -> bool {
    cold().is_some_and(|cold| segment.geometry() != cold)
}

impl WireTx for ShmTx {
    fn address(&self, peer: PeerId) -> &[u8] {
        self.peers.get(peer as usize).map_or(&[], |state| &state.address)
    }

    #[inline]
    fn try_emit(&mut self, peer: PeerId, head: Head, source: &Source<'_>) -> Result<(), Refused> {
        let mut state = self.peers.get_mut(peer as usize).ok_or(Refused::Down(Errno::EINVAL))?;
        if state.crowded {
            self.relieve(peer);
            state = self.peers.get_mut(peer as usize).ok_or(Refused::Down(Errno::EINVAL))?;
        }
        let Some(ring) = &mut state.ring else { return self.emit_first(peer, head, source) };
        match ring.producer.push(head, source) {
            Ok(()) => {
                if !state.always_polls && ring.producer.consumer_sleeps() {
                    state.wake();
                }
                Ok(())
            }
            Err(PushError::Full) => {
                state.crowded = !is_hot(&ring.segment);
                Err(Refused::Again)
            }
            Err(PushError::TooLong) => Err(Refused::Down(Errno::EMSGSIZE)),
            Err(PushError::Broken) => Err(self.give_up(peer, Errno::EPROTO)),
        }
    }

    #[inline]
    fn max_payload(&self, peer: PeerId) -> usize {
        let ring = self.peers.get(peer as usize).and_then(|state| state.ring.as_ref());
        match ring {
            Some(ring) => ring.producer.max_payload().min(SEGMENT),
            None => cold().map_or(0, |cold| cold.max_payload()),
        }
    }

    #[cold]
    fn grow(&mut self, peer: PeerId, len: usize) -> bool {
        len <= self.max_payload(peer) || (self.enlarge(peer) && len <= self.max_payload(peer))
    }

    fn can_copy(&mut self, peer: PeerId) -> bool {
        let allowed = self.copies_allowed;
        let Some(state) = self.peer(peer) else { return false };
        if state.copies == Copies::Untried
            && let (Some(hello), Some(link)) = (&state.hello, &state.link)
        {
            let works = allowed && copy::probe(link.pid(), hello.probe);
            state.copies = if works { Copies::Work } else { Copies::Fail };
        }
        state.copies == Copies::Work
    }

    fn copy_from(
        &mut self,
        peer: PeerId,
        remote: &[(u64, u64)],
        skip: usize,
        local: &Buffers,
    ) -> Result<()> {
        let state = self.peer(peer).ok_or(Errno::EINVAL)?;
        let (Some(link), Some(hello)) = (&state.link, &state.hello) else {
            return Err(Errno::ENOTCONN);
        };
        let copied = copy::from_process(link.pid(), hello.probe, remote, skip, local);
        if matches!(copied, Err(Errno::EPERM | Errno::ENOSYS)) {
            state.copies = Copies::Fail;
        }
        copied
    }

    fn copy_to(&mut self, peer: PeerId, local: &Buffers, remote: &[(u64, u64)]) -> Result<()> {
        let state = self.peer(peer).ok_or(Errno::EINVAL)?;
        let link = state.link.as_ref().ok_or(Errno::ENOTCONN)?;
        if !link.is_alive() {
            return Err(Errno::ECONNRESET);
        }
        copy::to_process(link.pid(), local, remote)
    }

    fn pressure(&self, peer: PeerId) -> bool {
        let ring = self.peers.get(peer as usize).and_then(|state| state.ring.as_ref());
        ring.is_some_and(|ring| ring.producer.pressure())
    }
}
