//! A transport in memory that does what its script says: refuses, delays, denies copies, cuts.

use std::{
    collections::{HashMap, VecDeque},
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Errno, Result,
    attr::Info,
    flags::Flags,
    matching::PeerId,
    mem::{Buffers, SharedBytes},
    mr::Region,
    op::IoVec,
    wire::{Event, Head, Packet, Refused, Source, Wire, WireRx, WireTx},
};

/// How a network behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    /// Every so manyth emit is refused; zero: none.
    pub(super) refuse_every: u64,
    /// Packets that one direction of a pair holds.
    pub(super) room: usize,
    /// Payload bytes of a packet at first, and after growing; no less than 512.
    pub(super) max_payload: (usize, usize),
    /// Direct copies: every so manyth works; zero: none.
    pub(super) copy_every: u64,
    /// Packets arrive by [`Net::deliver`] only.
    pub(super) delayed: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            refuse_every: 0,
            room: usize::MAX,
            max_payload: (64 << 10, 64 << 10),
            copy_every: 1,
            delayed: false,
        }
    }
}

/// One direction of a pair.
#[derive(Debug, Default)]
struct Way {
    packets: VecDeque<(Head, Vec<u8>)>,
    arrived: usize,
    grown: bool,
    pressure: bool,
    cut: bool,
}

/// What all transports of one test share.
#[derive(Debug, Default)]
pub(super) struct Net {
    pub(super) script: Script,
    ways: HashMap<(PeerId, PeerId), Way>,
    events: HashMap<PeerId, VecDeque<Event>>,
    /// Memory that a peer's packets may offer for copying.
    pub(super) memory: Vec<IoVec>,
    /// Regions, whose seals may be read as long as there are peers.
    regions: Vec<Arc<Region>>,
    /// Copies that were asked for outside of it.
    pub(super) strayed: usize,
    /// Peers that broke the protocol, as (who says so, who).
    pub(super) failed: Vec<(PeerId, PeerId)>,
    pub(super) emitted: HashMap<u8, usize>,
    emits: u64,
    copies: u64,
}

impl Net {
    fn way(&mut self, from: PeerId, to: PeerId) -> &mut Way {
        self.ways.entry((from, to)).or_default()
    }

    /// Lets packets that are on their way arrive.
    pub(super) fn deliver(&mut self, from: PeerId, to: PeerId, packets: usize) {
        let way = self.way(from, to);
        way.arrived = (way.arrived + packets).min(way.packets.len());
    }

    /// Puts a packet in as if a peer had sent it.
    pub(super) fn inject(&mut self, from: PeerId, to: PeerId, head: Head, payload: Vec<u8>) {
        let way = self.way(from, to);
        way.packets.push_back((head, payload));
        way.arrived = way.packets.len();
    }

    /// Ends a pair's connection. What has arrived can still be read, the rest is lost.
    pub(super) fn cut(&mut self, a: PeerId, b: PeerId, reason: Errno) {
        for (from, to) in [(a, b), (b, a)] {
            let way = self.way(from, to);
            if way.cut {
                continue;
            }
            way.cut = true;
            way.packets.truncate(way.arrived);
            self.events.entry(to).or_default().push_back(Event::Down(from, reason));
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ways.values().all(|way| way.packets.is_empty() || way.cut)
    }
}

/// A network and the names in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Arc<Mutex<Net>>);

impl Shared {
    pub(super) fn new(script: Script) -> Self {
        Self(Arc::new(Mutex::new(Net { script, ..Net::default() })))
    }

    pub(super) fn net(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address of node `n`.
pub(super) fn address(n: PeerId) -> [u8; 4] {
    n.to_be_bytes()
}

#[derive(Debug)]
pub(crate) struct TestTx {
    shared: Shared,
    me: PeerId,
    addresses: Vec<[u8; 4]>,
}

#[derive(Debug)]
pub(crate) struct TestRx {
    shared: Shared,
    me: PeerId,
    /// The packet that was looked at, kept in place until it is consumed.
    current: HashMap<PeerId, (Head, Vec<u8>)>,
    next: PeerId,
}

#[derive(Debug)]
pub(crate) struct TestWire {
    tx: TestTx,
    rx: TestRx,
    /// It cannot be armed.
    pub(super) busy: bool,
    /// Something happened since it was.
    pub(super) changed: bool,
    pub(super) rings: bool,
}

impl TestWire {
    pub(super) fn new(shared: &Shared, me: PeerId, nodes: PeerId) -> Self {
        let addresses = (0..nodes).map(address).collect();
        Self {
            busy: false,
            changed: false,
            rings: false,
            tx: TestTx { shared: shared.clone(), me, addresses },
            rx: TestRx { shared: shared.clone(), me, current: HashMap::new(), next: 0 },
        }
    }
}

impl TestWire {
    /// Lets peers read a region's seal, which then outlives it.
    pub(super) fn show(&self, region: &Arc<Region>) {
        let mut net = self.tx.shared.net();
        let (addr, _) = region.seal();
        net.memory.push(IoVec { base: addr as *mut u8, len: 8 });
        net.regions.push(region.clone());
    }
}

impl TestTx {
    /// The peer's memory at `remote`, if the script lets this copy happen.
    fn reach(&self, peer: PeerId, remote: &[(u64, u64)]) -> Result<Vec<Buffers>> {
        let mut net = self.shared.net();
        net.copies += 1;
        if !net.copies.is_multiple_of(net.script.copy_every) || net.way(peer, self.me).cut {
            return Err(Errno::EFAULT);
        }
        let inside = |&(at, len): &(u64, u64)| {
            net.memory.iter().any(|piece| {
                let start = piece.base as u64;
                at >= start && at + len <= start + piece.len as u64
            })
        };
        if !remote.iter().all(inside) {
            net.strayed += 1;
            return Err(Errno::EFAULT);
        }
        let describe = |&(at, len): &(u64, u64)| {
            let iov = IoVec { base: at as *mut u8, len: len as usize };
            // SAFETY: inside memory that the test keeps.
            unsafe { Buffers::new(&[iov]) }
        };
        remote.iter().map(describe).collect()
    }
}

impl WireTx for TestTx {
    fn address(&self, peer: PeerId) -> &[u8] {
        &self.addresses[peer as usize]
    }

    fn try_emit(&mut self, peer: PeerId, head: Head, source: &Source<'_>) -> Result<(), Refused> {
        let max = self.max_payload(peer);
        let mut net = self.shared.net();
        net.emits += 1;
        let (turn, Script { refuse_every, room, delayed, .. }) = (net.emits, net.script);
        let way = net.way(self.me, peer);
        if way.cut {
            return Err(Refused::Down(Errno::ECONNRESET));
        }
        if source.total() > max {
            return Err(Refused::Down(Errno::EMSGSIZE));
        }
        if way.packets.len() >= room || (refuse_every != 0 && turn.is_multiple_of(refuse_every)) {
            return Err(Refused::Again);
        }
        let mut payload = source.fixed.to_vec();
        let mut data = vec![0; source.len];
        assert_eq!(source.data.gather(source.skip, &mut data), source.len);
        payload.extend(data);
        way.packets.push_back((head, payload));
        if !delayed {
            way.arrived = way.packets.len();
        }
        *net.emitted.entry(head.op).or_default() += 1;
        Ok(())
    }

    fn max_payload(&self, peer: PeerId) -> usize {
        let mut net = self.shared.net();
        let (small, large) = net.script.max_payload;
        if net.way(self.me, peer).grown { large } else { small }
    }

    fn grow(&mut self, peer: PeerId, len: usize) -> bool {
        let mut net = self.shared.net();
        let fits = len <= net.script.max_payload.1;
        net.way(self.me, peer).grown |= fits;
        fits
    }

    fn can_copy(&mut self, _peer: PeerId) -> bool {
        self.shared.net().script.copy_every != 0
    }

    fn copy_from(
        &mut self,
        peer: PeerId,
        remote: &[(u64, u64)],
        skip: usize,
        local: &Buffers,
    ) -> Result<()> {
        let bytes: Vec<u8> = self
            .reach(peer, remote)?
            .iter()
            .flat_map(|piece| piece.to_boxed().into_vec())
            .collect();
        let wanted = bytes.get(skip..skip + local.len()).ok_or(Errno::EFAULT)?;
        assert_eq!(local.fill(0, wanted), local.len());
        Ok(())
    }

    fn copy_to(&mut self, peer: PeerId, local: &Buffers, remote: &[(u64, u64)]) -> Result<()> {
        let mut done = 0;
        for piece in self.reach(peer, remote)? {
            assert_eq!(local.slice(done, piece.len()).copy_into(&piece), piece.len());
            done += piece.len();
        }
        assert_eq!(done, local.len());
        Ok(())
    }

    fn pressure(&self, peer: PeerId) -> bool {
        self.shared.net().way(self.me, peer).pressure
    }
}

impl WireRx for TestRx {
    fn next_ready(&mut self) -> Option<PeerId> {
        let mut net = self.shared.net();
        let mut ready: Vec<_> = net
            .ways
            .iter()
            .filter(|((_, to), way)| *to == self.me && way.arrived != 0)
            .map(|((from, _), _)| *from)
            .collect();
        ready.sort_unstable();
        let next = self.next;
        let peer = ready.iter().copied().find(|p| *p >= next).or_else(|| ready.first().copied())?;
        self.next = peer + 1;
        let _ = net.way(peer, self.me);
        Some(peer)
    }

    fn peek(&mut self, peer: PeerId) -> Result<Option<Packet>> {
        let mut net = self.shared.net();
        let way = net.way(peer, self.me);
        if way.arrived == 0 {
            return Ok(None);
        }
        let current = &way.packets[0];
        let (head, payload) = self.current.entry(peer).or_insert_with(|| current.clone());
        // SAFETY: kept until `consume`.
        let bytes = unsafe { SharedBytes::new(payload.as_ptr(), payload.len()) };
        Ok(Some(Packet { head: *head, payload: bytes }))
    }

    fn consume(&mut self, peer: PeerId) {
        self.current.remove(&peer).expect("consumed without a look");
        let mut net = self.shared.net();
        let way = net.way(peer, self.me);
        way.packets.pop_front();
        way.arrived -= 1;
    }

    fn set_pressure(&mut self, peer: PeerId, high: bool) {
        self.shared.net().way(peer, self.me).pressure = high;
    }
}

impl Wire for TestWire {
    type Tx = TestTx;
    type Rx = TestRx;
    type Bell = bool;

    const CAPS: Flags = Flags::all();

    fn open(_info: &Info) -> Result<Self> {
        Err(Errno::ENOSYS)
    }

    fn split(&mut self) -> (&mut TestTx, &mut TestRx) {
        (&mut self.tx, &mut self.rx)
    }

    fn name(&self) -> &[u8] {
        self.address(self.tx.me)
    }

    fn set_name(&mut self, _name: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn enable(&mut self, _sleeps: bool) -> Result<()> {
        Ok(())
    }

    fn close(&mut self) {}

    fn peer(&mut self, address: &[u8]) -> Result<PeerId> {
        let known = self.tx.addresses.iter().position(|other| other == address);
        known.map(|at| at as PeerId).ok_or(Errno::EHOSTUNREACH)
    }

    fn address(&self, peer: PeerId) -> &[u8] {
        self.tx.address(peer)
    }

    fn poll_event(&mut self, _now: bool) -> Option<Event> {
        let mut net = self.tx.shared.net();
        let me = self.tx.me;
        let first = *net.events.get(&me)?.front()?;
        if let Event::Down(peer, _) = first
            && net.way(peer, me).arrived != 0
        {
            return None;
        }
        net.events.get_mut(&me)?.pop_front()
    }

    fn fail(&mut self, peer: PeerId, reason: Errno) {
        let me = self.tx.me;
        self.rx.current.remove(&peer);
        let mut net = self.tx.shared.net();
        net.failed.push((me, peer));
        let way = net.way(peer, me);
        way.packets.clear();
        way.arrived = 0;
        net.cut(me, peer, reason);
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Err(Errno::ENOSYS)
    }

    fn arm(&mut self, _blocked: &[PeerId]) -> bool {
        !self.busy
    }

    fn changed(&self) -> bool {
        self.changed
    }

    fn bell(&mut self) -> &mut bool {
        &mut self.rings
    }
}
