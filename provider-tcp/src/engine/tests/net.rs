//! A network in memory that does what its script says: splits, fills up, delays, cuts.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::{IpAddr, SocketAddr},
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fabric_core::{Errno, Result, mem::Buffers, wait::Bell};

use super::dice::Dice;
use crate::net::{Accepted, Interest, Life, Net, Ready, Stream};

/// How long a kernel holds back what may get company.
pub(super) const HELD: Duration = Duration::from_millis(200);

/// How a network behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    /// Bytes that one call moves at most; how many is up to the dice.
    pub(super) chunk: usize,
    /// Bytes that one direction of a connection holds.
    pub(super) room: usize,
    /// Every so manyth look finds nothing although there is something; zero: none.
    pub(super) late: u64,
    pub(super) seed: u64,
}

impl Default for Script {
    fn default() -> Self {
        Self { chunk: usize::MAX, room: 64 << 10, late: 0, seed: 1 }
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Way {
    bytes: VecDeque<u8>,
    /// So many of them are not delivered yet.
    held: usize,
    /// As many are told of, unless there is no room for more; zero is one.
    mark: usize,
    /// Nothing more will come.
    ended: bool,
    /// A connection message comes first, and leaves whole.
    begun: bool,
}

#[derive(Debug)]
struct Connection {
    /// From each side to the other.
    ways: [Way; 2],
    ends: [SocketAddr; 2],
    reset: bool,
    /// Neither side hears the other's kernel any more.
    silent: bool,
    /// Nothing can be sent any more, though what has come can be read.
    deaf: bool,
    /// When each side has heard the other's kernel, as far as it has asked.
    heard: [Option<Instant>; 2],
}

#[derive(Debug)]
struct World {
    script: Script,
    dice: Dice,
    now: Instant,
    connections: Vec<Connection>,
    /// Connections that wait to be accepted.
    listeners: HashMap<SocketAddr, VecDeque<usize>>,
    port: u16,
    /// Bytes that were ever sent, and received.
    moved: usize,
    /// Calls in which that was done.
    receives: usize,
    /// Bytes of them that were not received into their place.
    aside: usize,
    /// Calls after which nothing was held back any more.
    pushes: usize,
}

/// What all networks of one test share.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(super) fn new(script: Script) -> Self {
        Self(Arc::new(Mutex::new(World {
            script,
            dice: Dice::new(script.seed),
            now: Instant::now(),
            connections: Vec::new(),
            listeners: HashMap::new(),
            port: 50_000,
            moved: 0,
            receives: 0,
            aside: 0,
            pushes: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The network of a host with this address.
    pub(super) fn host(&self, ip: IpAddr) -> TestNet {
        TestNet {
            world: self.clone(),
            ip,
            bound: None,
            token: None,
            watched: BTreeMap::new(),
            alarm: None,
            bell: Rings::default(),
        }
    }

    /// Lets time pass.
    pub(super) fn wait(&self, time: Duration) {
        let world = &mut *self.lock();
        world.now += time;
        if time >= HELD {
            let ways = world.connections.iter_mut().flat_map(|connection| &mut connection.ways);
            ways.for_each(|way| way.held = 0);
        }
    }

    /// Has all connections there are fall silent, as if a host had gone without a word.
    pub(super) fn silence(&self) {
        for connection in &mut self.lock().connections {
            connection.silent = true;
        }
    }

    /// Bytes that were ever sent, and received.
    pub(super) fn moved(&self) -> usize {
        self.lock().moved
    }

    /// Calls that have had bytes leave, and calls that have received some.
    pub(super) fn calls(&self) -> (usize, usize) {
        let world = self.lock();
        (world.pushes, world.receives)
    }

    /// Bytes that were received, but not into their place.
    pub(super) fn aside(&self) -> usize {
        self.lock().aside
    }

    /// Cuts all connections there are; what is on its way is lost.
    pub(super) fn cut(&self) {
        for connection in &mut self.lock().connections {
            connection.reset = true;
        }
    }

    /// Has all connections there are, or the one that was opened last, take nothing any more, as if the
    /// other end had been closed with something unread.
    pub(super) fn deafen(&self, all: bool) {
        let connections = &mut self.lock().connections;
        let skip = if all { 0 } else { connections.len() - 1 };
        for connection in connections.iter_mut().skip(skip) {
            connection.deaf = true;
        }
    }

    /// Connections that were opened so far, and those of them that are whole.
    pub(super) fn connections(&self) -> (usize, usize) {
        let world = self.lock();
        let whole = |connection: &&Connection| {
            !connection.reset && connection.ways.iter().all(|way| !way.ended)
        };
        (world.connections.len(), world.connections.iter().filter(whole).count())
    }
}

impl World {
    fn port(&mut self) -> u16 {
        self.port += 1;
        self.port
    }

    /// How many of `most` bytes one call moves.
    fn some(&mut self, most: usize) -> usize {
        let most = most.min(self.script.chunk);
        if self.script.chunk == usize::MAX {
            return most;
        }
        self.dice.roll(most as u64) as usize + 1
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct TestStream {
    world: Shared,
    /// `None` where nobody listens.
    at: Option<usize>,
    side: usize,
}

impl TestStream {
    /// Bytes that it takes now.
    pub(super) fn room(&self) -> usize {
        let world = self.world.lock();
        let way = self.at.map(|at| world.connections[at].ways[self.side].bytes.len());
        way.map_or(0, |used| world.script.room.saturating_sub(used))
    }
}

impl Stream for TestStream {
    fn send(&mut self, bytes: &[u8], data: &Buffers, more: bool) -> Result<usize> {
        let world = &mut *self.world.lock();
        let at = self.at.ok_or(Errno::ENOTCONN)?;
        let len = bytes.len() + data.len();
        let connection = &world.connections[at];
        if connection.reset || connection.deaf || connection.ways[self.side].ended {
            return Err(Errno::ECONNRESET);
        }
        let room = world.script.room.saturating_sub(connection.ways[self.side].bytes.len());
        if room == 0 || len == 0 {
            return Err(Errno::EAGAIN);
        }
        let first = !std::mem::replace(&mut world.connections[at].ways[self.side].begun, true);
        let n = if first { len } else { world.some(len.min(room)) };
        let mut all = vec![0; n];
        world.moved += n;
        world.pushes += usize::from(!more);
        let staged = n.min(bytes.len());
        all[..staged].copy_from_slice(&bytes[..staged]);
        data.gather(0, &mut all[staged..]);
        let way = &mut world.connections[at].ways[self.side];
        way.bytes.extend(all);
        way.held = if more { way.held + n } else { 0 };
        Ok(n)
    }

    fn push(&mut self) {
        let Some(at) = self.at else { return };
        let world = &mut *self.world.lock();
        let held = std::mem::take(&mut world.connections[at].ways[self.side].held);
        world.pushes += usize::from(held != 0);
    }

    fn receive(&mut self, data: &Buffers, rest: &mut [u8]) -> Result<usize> {
        let world = &mut *self.world.lock();
        let at = self.at.ok_or(Errno::ECONNREFUSED)?;
        if world.connections[at].reset {
            return Err(Errno::ECONNRESET);
        }
        let way = &world.connections[at].ways[1 - self.side];
        let held = if way.ended { 0 } else { way.held };
        let most = (way.bytes.len() - held).min(data.len() + rest.len());
        if most == 0 && way.ended {
            return Ok(0);
        }
        let late = world.script.late;
        if most == 0 || world.dice.one_in(late) {
            return Err(Errno::EAGAIN);
        }
        let n = world.some(most);
        world.moved += n;
        world.receives += 1;
        let bytes: Vec<u8> = world.connections[at].ways[1 - self.side].bytes.drain(..n).collect();
        let (placed, left) = bytes.split_at(n.min(data.len()));
        world.aside += left.len();
        data.fill(0, placed);
        rest[..left.len()].copy_from_slice(left);
        Ok(n)
    }

    fn wait_for(&mut self, count: usize) {
        let Some(at) = self.at else { return };
        self.world.lock().connections[at].ways[1 - self.side].mark = count;
    }

    fn local(&self) -> Result<SocketAddr> {
        Ok(self.world.lock().connections[self.at.ok_or(Errno::ENOTCONN)?].ends[self.side])
    }

    fn life(&self) -> Option<Life> {
        let world = self.world.lock();
        let connection = &world.connections[self.at?];
        let heard = connection.heard[self.side];
        let silence = heard.map_or(Duration::MAX / 2, |heard| world.now - heard);
        let ended = connection.reset || connection.ways[1 - self.side].ended;
        Some(Life { owes: false, again: 0, probes: 0, silence, ended })
    }

    fn finish(&mut self) {
        let Some(at) = self.at else { return };
        let world = &mut *self.world.lock();
        world.connections[at].ways[self.side].ended = true;
        let way = &mut world.connections[at].ways[1 - self.side];
        (way.bytes, way.held) = (VecDeque::new(), 0);
    }
}

/// What the kernel does to a closed socket: the peer loses what was sent if something unread is
/// left.
impl Drop for TestStream {
    fn drop(&mut self) {
        let Some(at) = self.at else { return };
        let world = &mut *self.world.lock();
        let connection = &mut world.connections[at];
        connection.reset |= !connection.ways[1 - self.side].bytes.is_empty();
        connection.ways[self.side].ended = true;
    }
}

/// The network of one engine.
#[derive(Debug)]
pub(super) struct TestNet {
    world: Shared,
    ip: IpAddr,
    bound: Option<SocketAddr>,
    token: Option<u64>,
    watched: BTreeMap<u64, (Option<usize>, usize, Interest)>,
    alarm: Option<Instant>,
    pub(super) bell: Rings,
}

/// Whether it does.
#[derive(Debug, Default)]
pub(super) struct Rings(pub(super) bool);

impl Bell for Rings {
    fn ring(&mut self) {
        self.0 = true;
    }

    fn rest(&mut self) {
        self.0 = false;
    }
}

impl TestNet {
    /// The host's address.
    pub(super) const fn ip(&self) -> IpAddr {
        self.ip
    }
}

impl Net for TestNet {
    type Stream = TestStream;
    type Bell = Rings;

    fn bind(&mut self, address: SocketAddr) -> Result<SocketAddr> {
        let port = match address.port() {
            0 => self.world.lock().port(),
            port => port,
        };
        let address = SocketAddr::new(address.ip(), port);
        self.bound = Some(address);
        Ok(address)
    }

    fn listen(&mut self, token: u64) -> Result<()> {
        let port = self.bound.ok_or(Errno::EADDRNOTAVAIL)?.port();
        self.world.lock().listeners.insert(SocketAddr::new(self.ip, port), VecDeque::new());
        self.token = Some(token);
        Ok(())
    }

    fn accept(&mut self) -> Result<Accepted<TestStream>> {
        let bound = self.bound.ok_or(Errno::EAGAIN)?;
        let at = SocketAddr::new(self.ip, bound.port());
        let world = &mut *self.world.lock();
        let next = world.listeners.get_mut(&at).and_then(VecDeque::pop_front);
        let connection = next.ok_or(Errno::EAGAIN)?;
        Ok(Accepted {
            stream: TestStream { world: self.world.clone(), at: Some(connection), side: 1 },
            peer: world.connections[connection].ends[0],
        })
    }

    fn watch_listener(&mut self, token: u64, watch: bool) {
        self.token = watch.then_some(token);
    }

    fn stop_listening(&mut self) {
        if let Some(bound) = self.bound.take() {
            self.world.lock().listeners.remove(&SocketAddr::new(self.ip, bound.port()));
        }
    }

    fn connect(&mut self, from: Option<SocketAddr>, to: SocketAddr) -> Result<TestStream> {
        let world = &mut *self.world.lock();
        let ip = from.map(|from| from.ip()).filter(|ip| !ip.is_unspecified()).unwrap_or(self.ip);
        let end = SocketAddr::new(ip, world.port());
        let next = world.connections.len();
        let at = world.listeners.get_mut(&to).map(|backlog| {
            backlog.push_back(next);
            next
        });
        if at.is_some() {
            let ways = [Way::default(), Way::default()];
            world.connections.push(Connection {
                ways,
                ends: [end, to],
                reset: false,
                silent: false,
                deaf: false,
                heard: [None; 2],
            });
        }
        Ok(TestStream { world: self.world.clone(), at, side: 0 })
    }

    fn outcome(&mut self, stream: &TestStream) -> Result<()> {
        stream.at.map(drop).ok_or(Errno::ECONNREFUSED)
    }

    fn watch(&mut self, stream: &TestStream, token: u64, interest: Interest) -> Result<()> {
        self.watched.insert(token, (stream.at, stream.side, interest));
        Ok(())
    }

    fn change(&mut self, stream: &TestStream, token: u64, interest: Interest) {
        self.watched.insert(token, (stream.at, stream.side, interest));
    }

    fn ready(&mut self, out: &mut Vec<Ready>) -> bool {
        let world = self.world.lock();
        let backlog = |bound: SocketAddr| {
            world.listeners.get(&SocketAddr::new(self.ip, bound.port())).map_or(0, VecDeque::len)
        };
        if let (Some(bound), Some(token)) = (self.bound, self.token)
            && backlog(bound) != 0
        {
            out.push(Ready { token, read: true, write: false, ended: false });
        }
        for (token, (at, side, interest)) in &self.watched {
            let connection = at.map(|at| &world.connections[at]);
            let ended = connection.is_none_or(|connection| connection.reset);
            let fin = connection.is_some_and(|connection| connection.ways[1 - side].ended);
            let read = connection.is_some_and(|connection| {
                let way = &connection.ways[1 - side];
                let there = way.bytes.len() - way.held;
                let full = way.bytes.len() >= world.script.room;
                way.ended || there >= way.mark.max(1) || (there != 0 && full)
            });
            let write = connection
                .is_some_and(|connection| connection.ways[*side].bytes.len() < world.script.room);
            let fin = ended || (fin && (interest.read || interest.end));
            let read = fin || (interest.read && read);
            let write = ended || (interest.write && write);
            if read || write {
                out.push(Ready { token: *token, read, write, ended: fin });
            }
        }
        self.alarm.take_if(|at| *at <= world.now).is_some()
    }

    /// The answer is there at once.
    fn ask_for_life(&mut self, stream: &TestStream, soon: bool) {
        let Some(at) = stream.at else { return };
        let world = &mut *self.world.lock();
        let connection = &mut world.connections[at];
        if soon && !connection.silent {
            connection.heard[stream.side] = Some(world.now);
        }
    }

    fn now(&self) -> Instant {
        self.world.lock().now
    }

    fn wait_fd(&self) -> RawFd {
        -1
    }

    fn set_alarm(&mut self, at: Option<Instant>) {
        self.alarm = at;
    }

    fn bell(&mut self) -> &mut Rings {
        &mut self.bell
    }
}
