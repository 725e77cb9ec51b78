//! PENDING. The transport as the engine drives it: who the peers are, connections, and ends.

pub(crate) mod clock;
mod peers;
mod sockets;

use std::{
    collections::{HashMap, VecDeque},
    ffi::CStr,
    os::fd::{AsFd, RawFd},
    sync::Arc,
    time::Instant,
};

use fabric_core::{
    Errno, Result,
    attr::Info,
    av::AddressFormat,
    flags::Flags,
    log::Subsys,
    matching::PeerId,
    param::known::SHM_DISABLE_CMA,
    shortage,
    slab::{Handle, Slab},
    wait::{Alarm, WaitSet},
    wire::{Event, Wire, WireTx},
};

use self::clock::{HURRY_TICKS, IDLE_TICKS, YOUNG_LOOKS, YOUNG_TICKS, ticks};
use crate::{
    address::{ShmAddresses, canonical, socket_address, unique},
    link::{Handed, Hello, Link},
    listener::Listener,
    offer::{CAPS, NAME},
    reserve::Reserve,
    rings::{ShmRx, ShmTx},
    segment::{cold, permitted},
    unreached,
};

/// The listening socket's token; links have their handle, which is never zero.
const LISTENER: u64 = 0;

/// Peers that are known before some are forgotten; twice as many as were left then, the next time.
const CROWD: usize = 64;

/// The token of what wakes sleepers of our own; no link has such a handle.
const ALARM: u64 = u64::MAX;

/// One endpoint's shared-memory transport.
#[derive(Debug)]
pub struct ShmWire {
    tx: ShmTx,
    rx: ShmRx,
    sockets: WaitSet,
    /// Among them; there if somebody ever sleeps on them.
    alarm: Option<Alarm>,
    /// Something was heard since we were armed: whoever sleeps may have missed it, and the bells
    /// that it asked for have been used up.
    heard: bool,
    listener: Option<Listener>,
    reserve: Reserve,
    /// Tokens of sockets that wait for a descriptor.
    starved: Vec<u64>,
    /// Sleepers look again by and by, see [`ShmWire::rest`].
    resting: bool,
    /// Watched sockets and whose they are, once they have said so.
    links: Slab<Watched>,
    /// Those whose process could not be named for want of a descriptor.
    nameless: Vec<Handle>,
    /// Those that have handed over a ring for which there is no memory now.
    unmapped: Vec<Handle>,
    /// Links that have not introduced themselves, oldest first.
    strangers: VecDeque<Handle>,
    by_address: HashMap<Box<[u8]>, PeerId>,
    /// Numbers of peers that have been forgotten.
    free: Vec<PeerId>,
    /// With as many peers as this, it is time to forget some.
    crowd: usize,
    /// Peers that have introduced themselves while the last packets of an earlier one of the same
    /// address were still to be read. Nothing else of what they say is heard before.
    successors: Vec<(Handle, Hello)>,
    /// Ended peers whose last packets are still to be read.
    ending: Vec<(PeerId, Errno)>,
    events: VecDeque<Event>,
    /// The word that peers read to try out direct copies.
    _probe: Box<u64>,
    last_look: u64,
    polls: u32,
    /// Looks at the pace of a young endpoint that are left.
    young: u32,
}

#[derive(Debug)]
struct Watched {
    link: Arc<Link>,
    peer: Option<PeerId>,
    /// A ring that could not be mapped for want of memory. Nothing else of what the peer says is heard
    /// before.
    unmapped: Option<(Handed, Instant)>,
}

/// The canonical form of an address that an endpoint is to have.
fn own(address: &[u8]) -> Result<Box<[u8]>> {
    canonical(address).inspect_err(|_| {
        fabric_core::warn_few!(
            NAME,
            Subsys::EpCtrl,
            "\"{}\" can be no endpoint's address: {}",
            address.escape_ascii(),
            ShmAddresses.fault(address)
        );
    })
}

impl ShmWire {
    fn with_address(address: Box<[u8]>) -> Result<Self> {
        let mut random = [0u8; 24];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let mut id = [0u8; 16];
        id.copy_from_slice(&random[..16]);
        let mut word = [0u8; 8];
        word.copy_from_slice(&random[16..]);
        let probe = Box::new(u64::from_ne_bytes(word));
        let at = std::ptr::from_ref::<u64>(&probe) as u64;
        let hello = Hello { id, sleeps: false, probe: (at, *probe), address };
        Ok(Self {
            tx: ShmTx::new(hello, !SHM_DISABLE_CMA.truth()),
            rx: ShmRx::default(),
            sockets: WaitSet::new()?,
            alarm: None,
            heard: false,
            listener: None,
            reserve: Reserve::default(),
            starved: Vec::new(),
            resting: false,
            links: Slab::new(usize::MAX),
            nameless: Vec::new(),
            unmapped: Vec::new(),
            strangers: VecDeque::new(),
            by_address: HashMap::new(),
            free: Vec::new(),
            crowd: CROWD,
            successors: Vec::new(),
            ending: Vec::new(),
            events: VecDeque::new(),
            _probe: probe,
            last_look: 0,
            polls: 0,
            young: YOUNG_LOOKS,
        })
    }

    fn listen(&mut self, sleeps: bool) -> Result<()> {
        if sleeps && self.alarm.is_none() {
            let alarm = Alarm::new()?;
            self.sockets.add(alarm.as_fd(), ALARM)?;
            self.alarm = Some(alarm);
        }
        self.tx.hello.sleeps = sleeps;
        let listener = Listener::open(&socket_address(&self.tx.hello.address)?)?;
        self.sockets.add(listener.as_fd(), LISTENER)?;
        // Peers can come from now on, so nothing can fail any more.
        self.listener = Some(listener);
        Ok(())
    }

    /// Any user can take any name; who it was is told by a connection.
    fn is_taken_by_others(&self) -> bool {
        let place = socket_address(&self.tx.hello.address);
        matches!(place.and_then(|place| Link::connect(&place)), Err(Errno::EACCES))
    }
}

impl Wire for ShmWire {
    type Tx = ShmTx;
    type Rx = ShmRx;
    type Bell = Option<Alarm>;

    const CAPS: Flags = CAPS;

    fn words(err: Errno) -> Option<&'static CStr> {
        unreached::words(err)
    }

    fn open(info: &Info) -> Result<Self> {
        let address = if info.src_addr.is_empty() { unique()? } else { own(&info.src_addr)? };
        cold()
            .map_or(Err(Errno::EOTHER), permitted)
            .and_then(|()| Self::with_address(address))
            .inspect_err(|reason| {
                let reason = shortage::explained(*reason);
                fabric_core::warn_few!(NAME, Subsys::EpCtrl, "no endpoint can be opened: {reason}");
            })
    }

    #[inline]
    fn split(&mut self) -> (&mut ShmTx, &mut ShmRx) {
        (&mut self.tx, &mut self.rx)
    }

    fn name(&self) -> &[u8] {
        &self.tx.hello.address
    }

    fn set_name(&mut self, name: &[u8]) -> Result<()> {
        self.tx.hello.address = own(name)?;
        Ok(())
    }

    fn enable(&mut self, sleeps: bool) -> Result<()> {
        self.listen(sleeps).inspect_err(|reason| {
            let text = ShmAddresses.text(&self.tx.hello.address);
            match *reason {
                Errno::EADDRINUSE if self.is_taken_by_others() => {
                    fabric_core::warn_few!(
                        NAME,
                        Subsys::EpCtrl,
                        "a process of another user has taken the address {text}: use another one, or \
                         none, which the library then draws"
                    );
                }
                Errno::EADDRINUSE => fabric_core::warn_few!(
                    NAME,
                    Subsys::EpCtrl,
                    "another endpoint of this user has the address {text}"
                ),
                reason => fabric_core::warn_few!(
                    NAME,
                    Subsys::EpCtrl,
                    "cannot listen at {text}: {}",
                    shortage::explained(reason)
                ),
            }
        })
    }

    fn close(&mut self) {
        self.listener = None;
        for peer in 0..self.tx.peers.len() as PeerId {
            self.forget(peer);
        }
        self.links.drain().for_each(drop);
        self.nameless.clear();
        self.unmapped.clear();
        self.strangers.clear();
        self.successors.clear();
        self.events.clear();
        self.ending.clear();
    }

    fn peer(&mut self, address: &[u8]) -> Result<PeerId> {
        Ok(self.peer_slot(&canonical(address)?))
    }

    fn address(&self, peer: PeerId) -> &[u8] {
        self.tx.address(peer)
    }

    fn is_crowded(&self) -> bool {
        self.by_address.len() >= self.crowd
    }

    fn forget_unused(&mut self, used: impl FnMut(PeerId, &[u8]) -> bool) -> Vec<PeerId> {
        self.retire(used)
    }

    #[inline]
    fn poll_event(&mut self, now: bool) -> Option<Event> {
        while let Some((peer, reason)) = self.tx.broken.pop() {
            self.fail(peer, reason);
        }
        self.polls = self.polls.wrapping_add(1);
        if now || self.polls.is_multiple_of(8) {
            let hurry = self.rx.hurry || !self.tx.fresh.is_empty() || !self.ending.is_empty();
            let pause = match (hurry, self.young) {
                (true, _) => HURRY_TICKS,
                (false, 0) => IDLE_TICKS,
                (false, _) => YOUNG_TICKS,
            };
            if ticks().wrapping_sub(self.last_look) > pause || (now && self.events.is_empty()) {
                self.look_at_sockets();
            }
        }
        self.events.pop_front()
    }

    fn fail(&mut self, peer: PeerId, reason: Errno) {
        let address = String::from_utf8_lossy(self.address(peer));
        let address = address.trim_end_matches('\0');
        if reason == Errno::ECONNRESET {
            // It has left, as it may.
            fabric_core::info!(NAME, Subsys::EpCtrl, "{address} has ended: {reason}");
        } else {
            fabric_core::error!(
                NAME,
                Subsys::EpData,
                "{address}: {reason}; its connection is closed"
            );
        }
        self.ending.retain(|(other, _)| *other != peer);
        self.forget(peer);
        self.events.push_back(Event::Down(peer, reason));
        self.admit_successors();
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Ok(self.sockets.raw())
    }

    fn arm(&mut self, blocked: &[PeerId]) -> bool {
        if !self.tx.fresh.is_empty() {
            self.look_at_sockets();
        }
        self.heard = false;
        let quiet = self.rest()
            && self.events.is_empty()
            && self.tx.broken.is_empty()
            && self.ending.is_empty()
            && self.rx.arm();
        quiet && blocked.iter().all(|peer| self.tx.wait_for_room(*peer))
    }

    fn changed(&self) -> bool {
        let tx = &self.tx;
        let retry = !tx.retry.is_empty() && !self.resting;
        self.heard || retry || !tx.fresh.is_empty() || !tx.broken.is_empty()
    }

    fn bell(&mut self) -> &mut Option<Alarm> {
        &mut self.alarm
    }
}

#[cfg(test)]
mod tests;
