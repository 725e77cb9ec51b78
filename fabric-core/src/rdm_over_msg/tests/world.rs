//! Connections in memory that do what their script says: refuse, delay, split and cut.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    super::{Access, Event, Sent, Taker, Token, Transport, packet::Ranges},
    at::At,
    dice::Dice,
};
use crate::{
    Errno, Result,
    attr::Info,
    domain::Domain,
    flags::{Flags, MrMode},
    mem::{Buffers, Payload},
    mr::{MrRequest, MrTable, Region},
    op::{RmaIov, RmaKind},
    reaching::Verdict,
};

/// How a world behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    /// Every so manyth call finds no room; zero: none.
    pub(super) refuse: u64,
    /// Every so manyth look at what has come finds nothing; zero: none.
    pub(super) late: u64,
    /// Every so manyth injected message leaves in parts; zero: none.
    pub(super) parts: u64,
    /// Every so manyth message that could be taken in place is told instead; zero: none.
    pub(super) told: u64,
    /// Every so manyth request for a connection is lost, and as many acceptances; zero: none.
    pub(super) lost: u64,
    pub(super) seed: u64,
}

impl Default for Script {
    fn default() -> Self {
        Self { refuse: 0, late: 0, parts: 0, told: 0, lost: 0, seed: 1 }
    }
}

/// Something on its way to the other side.
enum Carried {
    Message(Vec<u8>, Option<Token>),
    Rma { kind: RmaKind, local: Buffers, remote: Vec<RmaIov>, data: Option<u64>, token: Token },
}

type Queue = VecDeque<Event<TestTransport>>;

#[derive(Default)]
struct Side {
    /// Who it is, once it knows.
    owner: Option<usize>,
    token: Option<Token>,
    /// What comes from the other side.
    incoming: VecDeque<Carried>,
    paused: bool,
    gone: bool,
}

struct Link {
    sides: [Side; 2],
    up: bool,
}

struct Endpoint {
    events: Queue,
    regions: Arc<MrTable>,
    alarm: Option<Instant>,
}

struct World {
    script: Script,
    dice: Dice,
    now: Instant,
    endpoints: Vec<Endpoint>,
    listeners: HashMap<At, usize>,
    links: Vec<Link>,
    moved: usize,
    verdict: Verdict,
}

/// What all transports of one test share.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(super) fn new(script: Script) -> Self {
        Self(Arc::new(Mutex::new(World {
            script,
            dice: Dice::new(script.seed),
            now: Instant::now(),
            endpoints: Vec::new(),
            listeners: HashMap::new(),
            links: Vec::new(),
            moved: 0,
            verdict: Verdict::Believed,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transport at an address.
    pub(super) fn transport(&self, at: At, regions: Arc<MrTable>) -> TestTransport {
        let mut world = self.lock();
        world.endpoints.push(Endpoint { events: Queue::new(), regions, alarm: None });
        let me = world.endpoints.len() - 1;
        TestTransport { world: self.clone(), me, at, keys: 0, handed_on: false }
    }

    /// From now on every so manyth call finds no room.
    pub(super) fn refuse(&self, refuse: u64) {
        self.lock().script.refuse = refuse;
    }

    /// Lets time pass.
    pub(super) fn wait(&self, time: Duration) {
        self.lock().now += time;
    }

    /// Decides about requests in the name of peers that are connected.
    pub(super) fn decide(&self, verdict: Verdict) {
        self.lock().verdict = verdict;
    }

    /// Packets and accesses that were ever delivered.
    pub(super) fn moved(&self) -> usize {
        self.lock().moved
    }

    /// Connections that were ever asked for, and those of them that are up.
    pub(super) fn links(&self) -> (usize, usize) {
        let world = self.lock();
        (world.links.len(), world.links.iter().filter(|link| link.up).count())
    }

    /// Forgets connections of which nothing can come any more, and all but the first endpoint.
    pub(super) fn forget(&self) {
        let mut world = self.lock();
        let world = &mut *world;
        world.links.clear();
        world.endpoints.truncate(1);
    }

    /// Cuts all connections there are; what is on its way is lost.
    pub(super) fn cut(&self) {
        let mut world = self.lock();
        for at in 0..world.links.len() {
            world.cut(at, Errno::ECONNRESET);
        }
    }

    /// Cuts about half of them.
    pub(super) fn cut_some(&self) {
        let mut world = self.lock();
        for at in 0..world.links.len() {
            if world.dice.one_in(2) {
                world.cut(at, Errno::ECONNRESET);
            }
        }
    }
}

impl World {
    /// Ends a link for the sides that are still there.
    fn cut(&mut self, at: usize, reason: Errno) {
        let link = &mut self.links[at];
        let was_up = std::mem::take(&mut link.up);
        for side in &mut link.sides {
            side.incoming.clear();
            let gone = std::mem::replace(&mut side.gone, true);
            if let (Some(owner), Some(conn), false) = (side.owner, side.token, gone) {
                let event = if was_up {
                    Event::Ended { conn, reason }
                } else {
                    Event::Refused { conn, data: Vec::new(), reason, met: true }
                };
                self.endpoints[owner].events.push_back(event);
            }
        }
    }

    /// Offers a message in place, if nothing is left to be told that may have come before it.
    fn offer(
        &mut self,
        owner: usize,
        conn: Token,
        packet: &[u8],
        taker: &mut impl Taker,
    ) -> Result<bool> {
        let mut before = self.endpoints[owner].events.iter();
        let told = self.script.told;
        let offered = before.all(|event| matches!(event, Event::Done { .. }));
        if offered && !self.dice.one_in(told) { taker.take(conn, packet) } else { Ok(false) }
    }

    /// Delivers what has come to one side of a link.
    fn deliver(&mut self, at: usize, me: usize, taker: &mut impl Taker) {
        while let Some(carried) = {
            let side = &mut self.links[at].sides[me];
            if side.paused || side.gone { None } else { side.incoming.pop_front() }
        } {
            self.moved += 1;
            let sides = &self.links[at].sides;
            let (owner, other) = (sides[me].owner, sides[1 - me].owner);
            let (Some(owner), Some(other)) = (owner, other) else { return };
            let Some(token) = sides[me].token else { return };
            let back = sides[1 - me].gone;
            match carried {
                Carried::Message(packet, done) => {
                    match self.offer(owner, token, &packet, taker) {
                        Ok(true) => {}
                        Ok(false) => {
                            let event = Event::Packet { conn: token, packet };
                            self.endpoints[owner].events.push_back(event);
                        }
                        Err(reason) => return self.cut(at, reason),
                    }
                    if let (Some(token), false) = (done, back) {
                        let done = Event::Done { token, outcome: Ok(()) };
                        self.endpoints[other].events.push_back(done);
                    }
                }
                Carried::Rma { kind, local, remote, data, token: done } => {
                    let moved = access(&self.endpoints[owner].regions, kind, &local, &remote);
                    if let Err(reason) = moved {
                        let event = Event::Done { token: done, outcome: Err(reason) };
                        self.endpoints[other].events.push_back(event);
                        return self.cut(at, Errno::ECONNRESET);
                    }
                    if let Some(data) = data {
                        let (kind, bytes) = (Flags::REMOTE_WRITE, local.len());
                        let event = Event::Accessed { conn: token, kind, bytes, data: Some(data) };
                        self.endpoints[owner].events.push_back(event);
                    }
                    let event = Event::Done { token: done, outcome: Ok(()) };
                    self.endpoints[other].events.push_back(event);
                }
            }
        }
    }
}

/// Moves bytes between an operation's memory and a target's.
fn access(regions: &MrTable, kind: RmaKind, local: &Buffers, remote: &[RmaIov]) -> Result<()> {
    let mut at = 0;
    for range in remote {
        let need = match kind {
            RmaKind::Read => Flags::REMOTE_READ,
            RmaKind::Write => Flags::REMOTE_WRITE,
        };
        let memory = regions.resolve(range.key, range.addr, range.len as u64, need)?;
        let (here, there) = (local.slice(at, range.len), memory.buffers());
        match kind {
            RmaKind::Read => there.copy_into(&here),
            RmaKind::Write => here.copy_into(&there),
        };
        at += range.len;
    }
    Ok(())
}

/// One endpoint's connections.
pub(super) struct TestTransport {
    world: Shared,
    me: usize,
    at: At,
    keys: u64,
    /// Who sleeps has been woken for the engine's sake.
    pub(super) handed_on: bool,
}

impl fmt::Debug for TestTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TestTransport({})", self.at)
    }
}

/// A side of a link.
pub(super) type Conn = (usize, usize);

impl TestTransport {
    /// Room for one more thing on a link.
    fn carry(&mut self, (link, side): Conn, carried: Carried) -> Result<()> {
        let mut world = self.world.lock();
        let state = world.links.get(link).ok_or(Errno::ENOTCONN)?;
        if !state.up || state.sides[side].gone {
            return Err(Errno::ENOTCONN);
        }
        let refuse = world.script.refuse;
        if world.dice.one_in(refuse) {
            return Err(Errno::EAGAIN);
        }
        world.links[link].sides[1 - side].incoming.push_back(carried);
        Ok(())
    }

    fn message(
        &mut self,
        conn: Conn,
        head: &[u8],
        body: &Buffers,
        done: Option<Token>,
    ) -> Result<()> {
        let mut packet = head.to_vec();
        packet.resize(head.len() + body.len(), 0);
        body.gather(0, &mut packet[head.len()..]);
        self.carry(conn, Carried::Message(packet, done))
    }

    /// A packet of a peer that is made up.
    pub(super) fn say(&mut self, conn: Conn, packet: &[u8]) {
        self.message(conn, packet, &Buffers::EMPTY, None).unwrap();
    }
}

impl Transport for TestTransport {
    type Address = At;
    type Conn = Conn;
    type Request = usize;
    type Packet = Vec<u8>;
    type Exposure = Vec<Arc<Region>>;

    const CAPS: Flags = Flags::empty();
    const RANGES: usize = 2;
    const COPIED: usize = 200;
    const RECEIVES: u32 = 8;

    fn connect_timeout() -> Duration {
        Duration::from_secs(10)
    }

    fn open(_: &Arc<Domain>, _: &Info, _: usize) -> Result<Self> {
        Err(Errno::ENOSYS)
    }

    fn listen(&mut self) -> Result<()> {
        self.world.lock().listeners.insert(self.at, self.me);
        Ok(())
    }

    fn close(&mut self) {
        let mut world = self.world.lock();
        world.listeners.retain(|_, owner| *owner != self.me);
        for at in 0..world.links.len() {
            let own = world.links[at].sides.iter().position(|side| side.owner == Some(self.me));
            if let Some(side) = own {
                world.links[at].sides[side].gone = true;
                world.cut(at, Errno::ECONNRESET);
            }
        }
    }

    fn name(&mut self) -> Result<At> {
        Ok(self.at)
    }

    fn set_name(&mut self, name: At) -> Result<()> {
        self.at = name;
        Ok(())
    }

    fn connect(&mut self, token: Token, to: At, data: &[u8]) -> Result<Conn> {
        let mut world = self.world.lock();
        let own = Side { owner: Some(self.me), token: Some(token), ..Side::default() };
        world.links.push(Link { sides: [own, Side::default()], up: false });
        let request = world.links.len() - 1;
        let lost = world.script.lost;
        let lost = world.dice.one_in(lost);
        match world.listeners.get(&to).copied().filter(|_| !lost) {
            Some(listener) => {
                let event =
                    Event::Requested { request, from: At(self.at.0, 0), data: data.to_vec() };
                world.endpoints[listener].events.push_back(event);
            }
            None => {
                world.links[request].sides[0].gone = true;
                let reason = Errno::ECONNREFUSED;
                let event = Event::Refused { conn: token, data: Vec::new(), reason, met: false };
                world.endpoints[self.me].events.push_back(event);
            }
        }
        Ok((request, 0))
    }

    fn accept(&mut self, token: Token, request: usize, data: &[u8]) -> Result<Conn> {
        let mut world = self.world.lock();
        let lost = world.script.lost;
        if world.dice.one_in(lost) {
            world.cut(request, Errno::ECONNRESET);
        }
        let link = &mut world.links[request];
        if link.sides[0].gone {
            return Err(Errno::ECONNRESET);
        }
        link.up = true;
        (link.sides[1].owner, link.sides[1].token) = (Some(self.me), Some(token));
        let (other, conn) = (link.sides[0].owner, link.sides[0].token);
        let up = Event::Connected { conn: token, data: Vec::new() };
        world.endpoints[self.me].events.push_back(up);
        let up = Event::Connected { conn: conn.unwrap(), data: data.to_vec() };
        world.endpoints[other.unwrap()].events.push_back(up);
        Ok((request, 1))
    }

    fn reject(&mut self, request: usize, data: &[u8]) {
        let mut world = self.world.lock();
        let side = &mut world.links[request].sides[0];
        if !std::mem::replace(&mut side.gone, true) {
            let (conn, owner) = (side.token, side.owner);
            let (data, reason) = (data.to_vec(), Errno::ECONNREFUSED);
            let event = Event::Refused { conn: conn.unwrap(), data, reason, met: true };
            world.endpoints[owner.unwrap()].events.push_back(event);
        }
    }

    fn judge(&mut self, request: &usize, _: Conn, _: At) -> Result<Verdict> {
        let world = self.world.lock();
        if world.links[*request].sides[0].gone { Err(Errno::ECONNRESET) } else { Ok(world.verdict) }
    }

    fn end(&mut self, (link, side): Conn) {
        let mut world = self.world.lock();
        world.links[link].sides[side].gone = true;
        let me = self.me;
        let token = world.links[link].sides[side].token;
        // Nothing more of it is told to this side.
        world.endpoints[me].events.retain(|event| match event {
            Event::Packet { conn, .. }
            | Event::Ended { conn, .. }
            | Event::Refused { conn, .. }
            | Event::Accessed { conn, .. }
            | Event::Connected { conn, .. } => Some(*conn) != token,
            _ => true,
        });
        if world.links[link].up {
            world.cut(link, Errno::ECONNRESET);
        }
    }

    fn local(&self, _: Conn) -> Result<At> {
        Ok(self.at)
    }

    fn local_of(&self, _: &usize) -> Result<At> {
        Ok(self.at)
    }

    fn look(&mut self, (link, side): Conn) {
        self.world.lock().deliver(link, side, &mut ());
    }

    fn inject(
        &mut self,
        conn: Conn,
        head: &[u8],
        body: &Buffers,
        _: bool,
        token: Token,
    ) -> Result<Sent> {
        let parts = {
            let mut world = self.world.lock();
            let parts = world.script.parts;
            token != Token::NOBODY && world.dice.one_in(parts)
        };
        self.message(conn, head, body, Some(token).filter(|_| parts))?;
        Ok(if parts { Sent::Later } else { Sent::Now })
    }

    fn send(
        &mut self,
        conn: Conn,
        head: &[u8],
        body: &Buffers,
        _: Flags,
        token: Token,
    ) -> Result<Sent> {
        assert!(head.len() <= 64);
        let now = self.world.lock().dice.one_in(3);
        self.message(conn, head, body, Some(token).filter(|_| !now))?;
        Ok(if now { Sent::Now } else { Sent::Later })
    }

    fn access(&mut self, conn: Conn, access: &Access<'_>, token: Token) -> Result<()> {
        let Access { kind, local, remote, data, .. } = *access;
        assert_eq!(remote.iter().map(|range| range.len).sum::<usize>(), local.len());
        assert!((1..=Self::RANGES).contains(&remote.len()));
        let remote = remote.to_vec();
        self.carry(conn, Carried::Rma { kind, local: *local, remote, data, token })
    }

    fn expose(&mut self, memory: &Buffers, access: Flags) -> Result<(Vec<Arc<Region>>, Ranges)> {
        let mut exposed = Vec::new();
        let regions = self.world.lock().endpoints[self.me].regions.clone();
        for piece in memory.iov().iter().filter(|piece| piece.len != 0) {
            self.keys += 1;
            let request = MrRequest {
                iov: &[*piece],
                access,
                requested_key: (1 << 40) + self.keys,
                offset: 0,
                flags: Flags::empty(),
                context: 0,
            };
            exposed.push(regions.register(&request)?);
        }
        let range =
            |region: &Arc<Region>| RmaIov { addr: 0, len: region.iov()[0].len, key: region.key() };
        let ranges: Vec<_> = exposed.iter().map(range).collect();
        Ok((exposed, Ranges::new(&ranges).ok_or(Errno::EINVAL)?))
    }

    fn withdraw(&mut self, exposure: Vec<Arc<Region>>) {
        let regions = self.world.lock().endpoints[self.me].regions.clone();
        for region in exposure {
            regions.close(&region).unwrap();
        }
    }

    fn pause(&mut self, (link, side): Conn, pause: bool) {
        self.world.lock().links[link].sides[side].paused = pause;
    }

    fn poll(&mut self, events: &mut Vec<Event<Self>>, taker: &mut impl Taker) {
        let mut world = self.world.lock();
        let late = world.script.late;
        for at in 0..world.links.len() {
            for side in 0..2 {
                let own = world.links[at].up && world.links[at].sides[side].owner == Some(self.me);
                if own && !world.dice.one_in(late) {
                    world.deliver(at, side, taker);
                }
            }
        }
        let now = world.now;
        let own = &mut world.endpoints[self.me];
        if own.alarm.is_some_and(|at| at <= now) {
            own.alarm = None;
            own.events.push_back(Event::Alarm);
        }
        events.extend(own.events.drain(..));
    }

    fn owes(&mut self) -> usize {
        0
    }

    fn now(&self) -> Instant {
        self.world.lock().now
    }

    fn set_alarm(&mut self, at: Instant) {
        let mut world = self.world.lock();
        let own = &mut world.endpoints[self.me].alarm;
        *own = Some(own.map_or(at, |set| set.min(at)));
    }

    fn wait_fd(&self) -> Result<i32> {
        Err(Errno::ENOSYS)
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn hand_on(&mut self, must: bool) {
        self.handed_on |= must;
    }
}

/// A table of regions with the application's keys, by offsets.
pub(super) fn regions() -> Arc<MrTable> {
    Arc::new(MrTable::new(MrMode::empty()))
}

/// Bytes of our own to send.
pub(super) fn owned(bytes: &[u8]) -> Payload {
    Payload::owned(bytes.into())
}
