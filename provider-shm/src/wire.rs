//! PENDING. The transport as the engine drives it: who the peers are, connections, and ends.

use std::{
    collections::{HashMap, VecDeque},
    os::fd::{AsFd, RawFd},
    sync::Arc,
};

use fabric_core::{
    Errno, Result,
    attr::Info,
    flags::Flags,
    log::Subsys,
    matching::PeerId,
    param::known::SHM_DISABLE_CMA,
    slab::{Handle, Slab},
    wait::{Signal, WaitSet},
    wire::{Event, Refused, Wire},
};

use crate::{
    address::{canonical, socket_address, unique},
    link::{Hello, Link, Said},
    listener::Listener,
    offer::{CAPS, NAME},
    rings::{Incoming, RxPeer, ShmRx, ShmTx, TxPeer},
    segment::Segment,
};

/// The listening socket's token; links have their handle, which is never zero.
const LISTENER: u64 = 0;

/// The token of what wakes a sleeper of our own; no link has such a handle.
const SIGNAL: u64 = u64::MAX;

/// Sockets handled in one look.
const READY: usize = 32;

/// Messages of one peer handled in one look.
const MESSAGES: usize = 64;

/// Links that have not introduced themselves; when more come, the oldest is closed. Peers connect
/// and introduce themselves in one go, so that only one that says nothing can get so old.
const STRANGERS: usize = 256;

/// Looks at the sockets are this far apart while packets are polled for.
const IDLE_TICKS: u64 = ticks_of(100);
/// The same for some milliseconds after a peer was new: others are about to come.
const YOUNG_TICKS: u64 = ticks_of(5);
/// That many looks are made at this pace.
const YOUNG_LOOKS: u32 = 2000;
/// The same while an answer is expected.
const HURRY_TICKS: u64 = ticks_of(2);

/// Ticks of about `micros` microseconds: the counters of today's processors run at 1 to 5 GHz.
const fn ticks_of(micros: u64) -> u64 {
    if cfg!(target_arch = "x86_64") { micros * 2500 } else { micros * 1000 }
}

/// A clock that costs a few cycles; only differences mean something, and those not much.
#[inline]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no precondition; every x86-64 processor has it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::{sync::OnceLock, time::Instant};
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// One endpoint's shared-memory transport.
#[derive(Debug)]
pub struct ShmWire {
    tx: ShmTx,
    rx: ShmRx,
    sockets: WaitSet,
    /// Wakes who sleeps on `sockets`; there if somebody ever does.
    signal: Option<Signal>,
    /// Something was heard since we were armed: whoever sleeps may have missed it, and the bells
    /// that it asked for have been used up.
    heard: bool,
    listener: Option<Listener>,
    /// Watched sockets and whose they are, once they have said so.
    links: Slab<Watched>,
    /// Links that have not introduced themselves, oldest first.
    strangers: VecDeque<Handle>,
    by_address: HashMap<Box<[u8]>, PeerId>,
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
}

impl ShmWire {
    fn look_at_sockets(&mut self) {
        for (peer, link) in std::mem::take(&mut self.tx.fresh) {
            self.watch(link, Some(peer));
        }
        for peer in std::mem::take(&mut self.tx.retry) {
            match self.tx.hand_over(peer) {
                Ok(()) => self.events.push_back(Event::Writable(peer)),
                Err(Refused::Again) => {}
                Err(Refused::Down(reason)) => self.ending.push((peer, reason)),
            }
        }
        self.rx.hurry = false;
        self.young = self.young.saturating_sub(1);
        let mut ready = [(0u64, false); READY];
        let mut count = 0;
        self.sockets.ready::<READY>(|token, hang_up| {
            if let Some(place) = ready.get_mut(count) {
                *place = (token, hang_up);
                count += 1;
            }
        });
        for &(token, _) in &ready[..count] {
            match token {
                LISTENER => self.accept(),
                SIGNAL => self.signal.iter().for_each(Signal::clear),
                token => self.hear(Handle::from_raw(token)),
            }
        }
        self.heard |= count != 0;
        self.finish_ending();
        self.last_look = ticks();
    }

    fn accept(&mut self) {
        for _ in 0..READY {
            let Some(listener) = &mut self.listener else { return };
            match listener.accept() {
                Ok(Some(link)) => {
                    let link = Arc::new(link);
                    // A peer that is gone already is found out by `hear`.
                    let _ = link.say_hello(&self.tx.hello);
                    if let Some(handle) = self.watch(link, None) {
                        self.strangers.push_back(handle);
                        self.hear(handle);
                        if self.strangers.len() > STRANGERS
                            && let Some(oldest) = self.strangers.front()
                        {
                            self.hung_up(*oldest, Errno::ETIMEDOUT);
                        }
                    }
                }
                Ok(None) => return,
                Err(Errno::EACCES) => {
                    fabric_core::warn!(NAME, Subsys::EpCtrl, "refused a process of another user");
                }
                Err(reason) => {
                    fabric_core::error!(NAME, Subsys::EpCtrl, "cannot accept a peer: {reason}");
                    return;
                }
            }
        }
    }

    fn watch(&mut self, link: Arc<Link>, peer: Option<PeerId>) -> Option<Handle> {
        let handle = self.links.insert(Watched { link: link.clone(), peer }).ok()?;
        let watched = self.sockets.add(link.as_fd(), handle.raw()).and_then(|()| {
            link.process().map_or(Ok(()), |process| self.sockets.add(process, handle.raw()))
        });
        if let Err(reason) = watched {
            self.unwatch(&link);
            fabric_core::error!(NAME, Subsys::EpCtrl, "cannot watch a peer: {reason}");
            self.links.remove(handle);
            return None;
        }
        Some(handle)
    }

    fn unwatch(&self, link: &Link) {
        self.sockets.remove(link.as_fd());
        if let Some(process) = link.process() {
            self.sockets.remove(process);
        }
    }

    /// What a peer says now.
    fn hear(&mut self, handle: Handle) {
        for said in 0..MESSAGES {
            if self.successors.iter().any(|(waiting, _)| *waiting == handle) {
                return;
            }
            let Some(watched) = self.links.get(handle) else { return };
            let (link, peer) = (watched.link.clone(), watched.peer);
            match (link.hear(), peer) {
                (Ok(None), _) => {
                    // Nothing was said, so it may be the process that has news.
                    if said == 0 && link.has_exited() {
                        self.hung_up(handle, Errno::ECONNRESET);
                    }
                    return;
                }
                (Ok(Some(Said::Bell)), _) => {}
                (Ok(Some(Said::Hello(hello))), _) => self.introduced(handle, &link, hello),
                (Ok(Some(Said::Ring { fd, slots, bytes })), Some(peer)) => {
                    match Segment::attach(fd.as_fd(), slots, bytes) {
                        Ok(segment) => {
                            if let Err(reason) = self.rx.attach(peer, Incoming::new(segment)) {
                                return self.hung_up(handle, reason);
                            }
                        }
                        Err(reason) => return self.hung_up(handle, reason),
                    }
                }
                (Ok(Some(Said::Ring { .. })), None) => {
                    return self.hung_up(handle, Errno::EPROTO);
                }
                (Err(reason), _) => return self.hung_up(handle, reason),
            }
        }
    }

    fn introduced(&mut self, handle: Handle, link: &Arc<Link>, hello: Hello) {
        let peer = match self.links.get(handle).and_then(|watched| watched.peer) {
            Some(peer) => peer,
            None => {
                self.strangers.retain(|stranger| *stranger != handle);
                self.peer_slot(&hello.address)
            }
        };
        if self.precedes(peer, &hello) {
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
    fn precedes(&self, peer: PeerId, hello: &Hello) -> bool {
        let known = self.tx.peers[peer as usize].hello.as_ref();
        known.is_some_and(|known| known.id != hello.id)
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
    fn admit_successors(&mut self) {
        for (handle, hello) in std::mem::take(&mut self.successors) {
            let Some(watched) = self.links.get(handle) else { continue };
            let link = watched.link.clone();
            let peer = self.peer_slot(&hello.address);
            if self.precedes(peer, &hello) {
                self.end(peer, Errno::ECONNRESET);
                self.successors.push((handle, hello));
            } else {
                self.admit(handle, peer, &link, hello);
                self.hear(handle);
            }
        }
    }

    fn hung_up(&mut self, handle: Handle, reason: Errno) {
        let Some(watched) = self.links.remove(handle) else { return };
        self.unwatch(&watched.link);
        match watched.peer {
            Some(peer) => self.end(peer, reason),
            None => self.strangers.retain(|stranger| *stranger != handle),
        }
    }

    /// Notes a peer's end; it takes effect when its last packets have been read.
    fn end(&mut self, peer: PeerId, reason: Errno) {
        if !self.ending.iter().any(|(other, _)| *other == peer) {
            self.ending.push((peer, reason));
        }
    }

    fn finish_ending(&mut self) {
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

    fn forget(&mut self, peer: PeerId) {
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

    fn peer_slot(&mut self, address: &[u8]) -> PeerId {
        if let Some(peer) = self.by_address.get(address) {
            return *peer;
        }
        // More peers than a PeerId can number would not fit into memory.
        let peer = self.tx.peers.len() as PeerId;
        self.tx.peers.push(TxPeer::new(address.into()));
        self.rx.peers.push(RxPeer::default());
        self.by_address.insert(address.into(), peer);
        self.young = YOUNG_LOOKS;
        peer
    }
}

impl Wire for ShmWire {
    type Tx = ShmTx;
    type Rx = ShmRx;

    const CAPS: Flags = CAPS;

    fn open(info: &Info) -> Result<Self> {
        let address = if info.src_addr.is_empty() { unique()? } else { canonical(&info.src_addr)? };
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
            signal: None,
            heard: false,
            listener: None,
            links: Slab::new(usize::MAX),
            strangers: VecDeque::new(),
            by_address: HashMap::new(),
            successors: Vec::new(),
            ending: Vec::new(),
            events: VecDeque::new(),
            _probe: probe,
            last_look: 0,
            polls: 0,
            young: YOUNG_LOOKS,
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
        self.tx.hello.address = canonical(name)?;
        Ok(())
    }

    fn enable(&mut self, sleeps: bool) -> Result<()> {
        self.tx.hello.sleeps = sleeps;
        let listener = Listener::open(&socket_address(&self.tx.hello.address)?)?;
        self.sockets.add(listener.as_fd(), LISTENER)?;
        self.listener = Some(listener);
        if sleeps {
            let signal = Signal::new()?;
            self.sockets.add(signal.as_fd(), SIGNAL)?;
            self.signal = Some(signal);
        }
        Ok(())
    }

    fn close(&mut self) {
        self.listener = None;
        for peer in 0..self.tx.peers.len() as PeerId {
            self.forget(peer);
        }
        self.links.drain().for_each(drop);
        self.strangers.clear();
        self.successors.clear();
        self.events.clear();
        self.ending.clear();
    }

    fn peer(&mut self, address: &[u8]) -> Result<PeerId> {
        Ok(self.peer_slot(&canonical(address)?))
    }

    fn address(&self, peer: PeerId) -> &[u8] {
        self.tx.peers.get(peer as usize).map_or(&[], |state| &state.address)
    }

    #[inline]
    fn poll_event(&mut self, now: bool) -> Option<Event> {
        while let Some(peer) = self.tx.broken.pop() {
            self.fail(peer, Errno::EPROTO);
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
        fabric_core::error!(
            NAME,
            Subsys::EpData,
            "{} broke the protocol, its connection is closed",
            String::from_utf8_lossy(self.address(peer)).trim_end_matches('\0')
        );
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
        if !self.tx.retry.is_empty() {
            // Nobody tells of room in a full backlog: look again soon, but do not spin.
            std::thread::sleep(std::time::Duration::from_millis(1));
            return false;
        }
        self.heard = false;
        let quiet = self.events.is_empty()
            && self.tx.broken.is_empty()
            && self.ending.is_empty()
            && self.rx.arm();
        quiet && blocked.iter().all(|peer| self.tx.wait_for_room(*peer))
    }

    fn changed(&self) -> bool {
        let tx = &self.tx;
        self.heard || !tx.fresh.is_empty() || !tx.retry.is_empty() || !tx.broken.is_empty()
    }

    fn wake(&mut self) {
        self.signal.iter().for_each(Signal::set);
    }
}

#[cfg(test)]
mod tests;
