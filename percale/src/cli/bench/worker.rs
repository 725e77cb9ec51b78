//! One end of what is measured, on the safe interface: it does what a conductor says.

use std::{io::Write, time::Instant};

use percale::{
    Access, Address, Any, Change, Domain, Endpoint, Error, Fabric, Hints, Info, Op, Peer, Region,
    Remote, op::Receiving,
};

use super::{
    processors,
    words::{Kind, MEMORY, Order, Took, hex, unhex, values},
};

/// How a worker is started.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) provider: Option<String>,
    /// The address to be reached at, where addresses are such.
    pub(super) node: Option<String>,
    pub(super) processor: Option<usize>,
    /// It is asked, and measures nothing.
    pub(super) is_server: bool,
}

/// Bytes that are written, read and added to.
const SHARED: usize = MEMORY;
/// Messages that end or answer something.
const SMALL: usize = 8;

/// Does what `orders` say until there are no more.
pub(super) fn work(
    setup: &Setup,
    orders: impl Iterator<Item = String>,
    mut output: impl Write,
) -> std::io::Result<()> {
    // What an error says of several causes stays one line.
    let mut say = |text: &str| {
        let line = text.lines().map(str::trim).collect::<Vec<_>>().join("; ");
        output.write_all((line + "\n").as_bytes())?;
        output.flush()
    };
    if let Some(processor) = setup.processor {
        processors::stay_on(processor);
    }
    let mut end = match End::open(setup) {
        Ok(end) => end,
        Err(error) => return say(&format!("failed {error}")),
    };
    say(&end.ready)?;
    for order in orders {
        let answer = end.answer(&order, setup.is_server);
        let answer = answer.unwrap_or_else(|error| format!("failed {error}"));
        say(&answer)?;
        if answer.starts_with("failed") {
            break;
        }
    }
    Ok(())
}

/// An endpoint, the memory that its peer may reach, and the peer's.
struct End {
    /// What it introduces itself with.
    ready: String,
    domain: Domain,
    endpoint: Endpoint,
    region: Option<Region>,
    peer: Option<(Peer, Option<Remote>)>,
}

/// Why something cannot be done, in one line.
type Why = Box<dyn std::error::Error>;

impl End {
    fn open(setup: &Setup) -> Result<Self, Why> {
        let info = offer(setup)?;
        let caps = info.caps;
        let fabric = Fabric::of_offer(info)?;
        let domain = fabric.domain()?;
        let endpoint = domain.endpoint()?;
        let region = match caps.intersects(percale::flags::Flags::RMA) {
            true => Some(domain.region(SHARED, Access::ReadWrite)?),
            false => None,
        };
        let mut ready = format!(
            "ready provider={} version={} address={}",
            fabric.provider(),
            env!("CARGO_PKG_VERSION"),
            hex(endpoint.address()?.as_bytes())
        );
        if let Some(region) = &region {
            ready.push_str(&format!(" remote={}", hex(&region.remote().to_bytes())));
        }
        let atomics = u8::from(caps.intersects(percale::flags::Flags::ATOMIC));
        ready.push_str(&format!(" atomics={atomics}"));
        Ok(Self { ready, domain, endpoint, region, peer: None })
    }

    fn answer(&mut self, line: &str, is_server: bool) -> Result<String, Why> {
        if let Some(about) = line.strip_prefix("peer ") {
            self.meet(about)?;
            return Ok("met".to_owned());
        }
        let order = Order::parse(line).ok_or_else(|| format!("not understood: {line}"))?;
        let (peer, remote) = self.peer.ok_or("there is no peer yet")?;
        let pair = Pair { endpoint: &self.endpoint, peer, remote };
        let took = match (order.kind, is_server) {
            (Kind::Latency, false) => pair.ask(order)?,
            (Kind::Latency, true) => pair.answer(order)?,
            (Kind::Messages, false) => pair.send(order)?,
            (Kind::Messages, true) => pair.receive(order)?,
            (_, false) => pair.reach(order)?,
            (_, true) => {
                self.region.as_ref().ok_or("there is no memory for peers")?;
                pair.be_reached()?
            }
        };
        Ok(took.to_string())
    }

    fn meet(&mut self, about: &str) -> Result<(), Why> {
        let values = values(about);
        let bytes = |name: &str| values.get(name).and_then(|text| unhex(text));
        let address = bytes("address").ok_or("a peer has an address")?;
        let peer = self.domain.peer(&Address::from_bytes(address))?;
        let remote = bytes("remote").and_then(|bytes| bytes.try_into().ok());
        self.peer = Some((peer, remote.map(Remote::from_bytes)));
        Ok(())
    }
}

/// The offer with most of what can be measured, of the provider itself if it has one: its name takes
/// layers over it, too.
fn offer(setup: &Setup) -> Result<Info, Why> {
    let ladder: [fn(Hints) -> Hints; 3] = [
        |hints| hints.messages().rma().atomics(),
        |hints| hints.messages().rma(),
        |hints| hints.messages(),
    ];
    let mut first = None;
    let mut refusal = None;
    for can in ladder {
        let mut hints = can(Hints::rdm());
        if let Some(provider) = &setup.provider {
            hints = hints.provider(provider);
        }
        if let Some(node) = &setup.node {
            hints = hints.at(node, None);
        }
        let named = |info: &&Info| {
            let name = info.fabric.as_ref().and_then(|fabric| fabric.prov_name.as_deref());
            setup.provider.is_none() || name == setup.provider.as_deref()
        };
        match hints.offers() {
            Ok(offers) => match offers.iter().find(named) {
                Some(own) => return Ok(own.clone()),
                None => first = first.or_else(|| offers.into_iter().next()),
            },
            Err(error) => refusal = Some(error),
        }
    }
    match (first, refusal) {
        (Some(info), _) => Ok(info),
        // The reasons of the least that was asked for.
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err("there are no offers".into()),
    }
}

/// What is done to the other end.
struct Pair<'a> {
    endpoint: &'a Endpoint,
    peer: Peer,
    remote: Option<Remote>,
}

/// Buffers that are used again and again.
struct Pool {
    buffers: Vec<Vec<u8>>,
}

impl Pool {
    fn new(count: usize, size: usize) -> Self {
        Self { buffers: vec![vec![0x55u8; size]; count] }
    }

    fn take(&mut self) -> Vec<u8> {
        self.buffers.pop().expect("as many as a window has")
    }
}

impl Pair<'_> {
    /// The client's part of round trips; half of each is counted.
    fn ask(&self, order: Order) -> Result<Took, Error> {
        let (mut out, mut room) = (vec![0x55u8; order.size], Vec::<u8>::with_capacity(order.size));
        let mut nanos = Vec::with_capacity(order.count);
        let begin = Instant::now();
        let mut last = begin;
        for _ in 0..order.count {
            let answer = self.endpoint.recv(room);
            out = self.endpoint.send(self.peer, out).wait()?;
            room = answer.wait()?.buffer;
            let now = Instant::now();
            nanos.push((now - last).as_nanos() as f64 / 2.0);
            last = now;
        }
        Ok(Took::of((last - begin).as_secs_f64(), nanos))
    }

    fn answer(&self, order: Order) -> Result<Took, Error> {
        let mut out = vec![0x55u8; order.size];
        let mut question = Some(self.endpoint.recv(Vec::<u8>::with_capacity(order.size)));
        let mut left = order.count;
        while let Some(awaited) = question {
            left -= 1;
            let room = awaited.wait()?.buffer;
            // There is room for the next one before the answer asks for it.
            question = (left > 0).then(|| self.endpoint.recv(room));
            out = self.endpoint.send(self.peer, out).wait()?;
        }
        Ok(Took::default())
    }

    /// Windows of messages, each of which waits for a message that says that all of it is there.
    fn send(&self, order: Order) -> Result<Took, Error> {
        let mut pool = Pool::new(order.window, order.size);
        let mut room = Vec::<u8>::with_capacity(SMALL);
        let mut window = Vec::with_capacity(order.window);
        let begin = Instant::now();
        for _ in 0..order.count {
            let there = self.endpoint.recv(room);
            for _ in 0..order.window {
                window.push(self.endpoint.send(self.peer, pool.take()));
            }
            for send in window.drain(..) {
                pool.buffers.push(send.wait()?);
            }
            room = there.wait()?.buffer;
        }
        Ok(Took::of(begin.elapsed().as_secs_f64(), Vec::new()))
    }

    fn receive(&self, order: Order) -> Result<Took, Error> {
        let post = |pool: &mut Pool| -> Vec<Op<Any, Receiving<Vec<u8>>>> {
            (0..order.window).map(|_| self.endpoint.recv(pool.take())).collect()
        };
        let mut pool = Pool::new(order.window, order.size);
        let mut window = post(&mut pool);
        let mut small = vec![0u8; SMALL];
        for left in (0..order.count).rev() {
            for receive in window.drain(..) {
                pool.buffers.push(receive.wait()?.buffer);
            }
            if left > 0 {
                window = post(&mut pool);
            }
            small = self.endpoint.send(self.peer, small).wait()?;
        }
        Ok(Took::default())
    }

    /// Writes, reads and additions, a window of them at once; then a message that says so.
    fn reach(&self, order: Order) -> Result<Took, Error> {
        let refused = || Error::Refused {
            call: "reach the peer's memory",
            errno: percale::Errno::EOPNOTSUPP,
        };
        let remote = self.remote.ok_or_else(refused)?;
        let place = |i: usize| remote.slice(i * order.size, order.size).ok_or_else(refused);
        let places = (0..order.window).map(place).collect::<Result<Vec<Remote>, Error>>()?;
        let mut pool = Pool::new(order.window, order.size);
        let mut nanos = Vec::new();
        let begin = Instant::now();
        let mut last = begin;
        for _ in 0..order.count {
            self.window(order.kind, &places, &mut pool)?;
            if order.window == 1 {
                let now = Instant::now();
                nanos.push((now - last).as_nanos() as f64);
                last = now;
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        self.endpoint.send(self.peer, vec![0u8; SMALL]).wait()?;
        Ok(Took::of(seconds, nanos))
    }

    fn window(&self, kind: Kind, places: &[Remote], pool: &mut Pool) -> Result<(), Error> {
        let to = |_: &Remote| self.endpoint.to(self.peer).delivered();
        match kind {
            Kind::Write => {
                let start = |place| to(place).write(*place, pool.take());
                let started: Vec<_> = places.iter().map(start).collect();
                for write in started {
                    pool.buffers.push(write.wait()?);
                }
            }
            Kind::Read => {
                let start = |place: &Remote| self.endpoint.read(self.peer, *place, pool.take());
                let started: Vec<_> = places.iter().map(start).collect();
                for read in started {
                    pool.buffers.push(read.wait()?);
                }
            }
            Kind::FetchAdd => {
                let start = |place: &Remote| self.endpoint.fetch_add(self.peer, *place, 1u64);
                let started: Vec<_> = places.iter().map(start).collect();
                for fetch in started {
                    fetch.wait()?;
                }
            }
            Kind::Add => {
                let start = |place| to(place).change(Change::Sum, *place, vec![1u64]);
                let started: Vec<_> = places.iter().map(start).collect();
                for add in started {
                    add.wait()?;
                }
            }
            Kind::Latency | Kind::Messages => {}
        }
        Ok(())
    }

    /// Lets the other end reach this one's memory until it says that it has finished.
    fn be_reached(&self) -> Result<Took, Error> {
        let mut finished = self.endpoint.recv(vec![0u8; SMALL]);
        loop {
            // Awake all the time, as programs are that do this.
            match finished.test() {
                Ok(done) => return done.map(|_| Took::default()).map_err(Error::from),
                Err(again) => finished = again,
            }
        }
    }
}
