//! HOT. Reliable datagrams over connected endpoints, in the protocol of `ofi_rxm`.
//!
//! An endpoint has one connection with each peer, opened on first use, and sends its messages over
//! it as [packets](packet). Any provider whose connections carry whole messages can be beneath: it
//! is a [`Transport`].
//!
//! | message | way |
//! |---|---|
//! | up to the eager limit | one packet |
//! | up to the limit for segments | segments, put together by the receiver |
//! | larger | an announcement; the receiver reads the bytes and says so, or tells where to write them |
//! | read, write | the transport's own |
//! | atomic operation | a packet, and one in answer |
//!
//! What takes longer than a call sits in the table `works`, in exactly one entry: an operation of
//! the application, or the transfer of a message that a peer has announced. Packets name it by its
//! handle, so that an answer that comes late, twice or from another peer finds nothing.

mod atomics;
mod connect;
mod credits;
mod endpoint;
mod failure;
pub mod packet;
mod peers;
mod pieces;
mod pressure;
mod receive;
pub mod record;
mod remote;
mod rendezvous;
mod segments;
#[cfg(all(test, not(loom)))]
mod tests;
mod transmit;
mod transport;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    fmt,
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use self::{
    credits::Credits, peers::Peers, receive::Arrivals, receive::Body, rendezvous::Transfer,
    segments::Assembly, transmit::TxOp,
};
pub use self::{
    endpoint::MsgRdmEndpoint,
    transport::{Access, Address, Event, PRIVATE_DATA_MAX, Sent, Taker, Token, Transport},
};
use crate::{
    av::Av,
    backlog::Backlog,
    completion::Report,
    engine::Stats,
    inbox::Inbox,
    lock::Lock,
    matching::PeerId,
    mr::MrTable,
    reaching::random,
    slab::{Handle, Slab},
};

/// What an engine keeps to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest inject, in bytes.
    pub inject: usize,
    /// Ranges of remote memory in one operation (`rma_iov_limit`).
    pub ranges: usize,
    /// Operations that wait to be sent before posts make progress.
    pub outstanding: usize,
    /// Largest message of one packet, and largest segment.
    pub eager: u32,
    /// Largest message that is sent in segments.
    pub segmented: usize,
    /// Announced messages are to be written by their senders, and not read by us.
    pub written: bool,
    /// Multi-receive buffers with less room are given back.
    pub min_multi_recv: usize,
    /// Receives may name their sender.
    pub directed: bool,
    /// Completions name the sender.
    pub source: bool,
    /// Target-side one-sided access counts for endpoint counters.
    pub rma_event: bool,
    /// How long a peer may take to be reached.
    pub connect: Duration,
}

/// The engine of one endpoint.
pub struct Engine<T: Transport, L: Lock> {
    pub(crate) transport: T,
    pub(crate) core: Core<T, L>,
    conns: Slab<Conn<T>>,
    /// Connections with something to send that the transport did not take.
    listed: Vec<Handle>,
    /// Some of them are since the transport was armed.
    newly_listed: bool,
    /// Connections whose messages are not taken.
    paused: Vec<Handle>,
    /// Connections whose messages are not to be taken any more.
    full: Vec<Handle>,
    events: Vec<Event<T>>,
    /// Connections that peers ask for.
    requests: VecDeque<Requested<T>>,
    /// Those in the name of a peer that is connected, until it shows whose they are.
    undecided: Vec<Requested<T>>,
    /// When peers are tried again.
    timers: BinaryHeap<Reverse<(Instant, PeerId)>>,
}

/// Everything but the connections.
pub(crate) struct Core<T: Transport, L: Lock> {
    pub(crate) inbox: Inbox<Body<T>>,
    pub(crate) report: Report<L>,
    pub(crate) stats: Stats,
    pub(crate) limits: Limits,
    peers: Peers<T::Address>,
    works: Slab<Work<T>>,
    assemblies: Slab<Assembly>,
    regions: Arc<MrTable>,
    /// Operations that wait to be sent.
    backlog: Backlog,
    /// Bytes of messages that wait for receives.
    kept: usize,
    /// Tells this endpoint from a later one at its address.
    owner: NonZeroU32,
}

/// What takes longer than a call.
enum Work<T: Transport> {
    /// An operation of the application.
    Op(TxOp<T>),
    /// A message that a peer has announced, on its way to its receive.
    Transfer(Transfer<T>),
}

/// A connection.
struct Conn<T: Transport> {
    link: T::Conn,
    peer: PeerId,
    state: State,
    /// How the peer knows it; stands in every packet.
    theirs: u32,
    /// Answers that the transport did not take yet: whole packets.
    answers: VecDeque<Box<[u8]>>,
    /// Announced messages that are to be read, or written, now: operations may wait for their end, so
    /// they do not wait for operations.
    announced: VecDeque<Handle>,
    /// Operations that wait for their turn.
    queue: VecDeque<Handle>,
    /// Messages that come in segments, by the peer's names for them.
    assembling: Vec<(u64, Handle)>,
    /// Announced messages that the peer writes to us, by its names for them.
    written: Vec<(u64, Handle)>,
    credits: Credits,
    listed: bool,
    paused: bool,
}

/// A connection that a peer asks for.
struct Requested<T: Transport> {
    request: T::Request,
    from: T::Address,
    data: Vec<u8>,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// We have asked for it.
    Asked,
    /// We have accepted it.
    Accepted,
    /// Messages may travel.
    Open,
}

/// Room for events that is kept.
const EVENTS: usize = 1024;

impl<T: Transport> Conn<T> {
    fn new(link: T::Conn, peer: PeerId, state: State) -> Self {
        Self {
            link,
            peer,
            state,
            theirs: 0,
            answers: VecDeque::new(),
            announced: VecDeque::new(),
            queue: VecDeque::new(),
            assembling: Vec::new(),
            written: Vec::new(),
            credits: None,
            listed: false,
            paused: false,
        }
    }

    /// Nothing waits, so that a message may be sent at once.
    #[inline]
    fn is_clear(&self) -> bool {
        self.state == State::Open
            && self.queue.is_empty()
            && self.announced.is_empty()
            && self.answers.is_empty()
    }
}

impl<T: Transport, L: Lock> Engine<T, L> {
    pub(crate) fn new(transport: T, regions: Arc<MrTable>, limits: Limits) -> Self {
        Self {
            transport,
            core: Core {
                inbox: Inbox::new(limits.min_multi_recv),
                report: Report::new(),
                stats: Stats::default(),
                limits,
                peers: Peers::default(),
                works: Slab::new(usize::MAX),
                assemblies: Slab::new(usize::MAX),
                regions,
                backlog: Backlog::new(limits.outstanding),
                kept: 0,
                owner: NonZeroU32::new(random() as u32).unwrap_or(NonZeroU32::MIN),
            },
            conns: Slab::new(usize::MAX),
            listed: Vec::new(),
            newly_listed: false,
            paused: Vec::new(),
            full: Vec::new(),
            events: Vec::new(),
            requests: VecDeque::new(),
            undecided: Vec::new(),
            timers: BinaryHeap::new(),
        }
    }

    /// Takes the address vector's entries as peers.
    pub(crate) fn set_av(&mut self, av: Option<Arc<Av>>) {
        self.core.peers.set_av(av);
    }

    /// Moves everything forward that can move.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.take_events();
        while let Some(request) = self.requests.pop_front() {
            self.requested(request);
        }
        if !self.listed.is_empty() {
            self.flush();
        }
    }

    /// Asks the transport what has happened, and sees to it; requests are left for later, since what
    /// a peer has sent before it came anew is the old connection's.
    #[inline]
    fn take_events(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        let (core, conns, full) = (&mut self.core, &mut self.conns, &mut self.full);
        self.transport.poll(&mut events, &mut Arrivals { core, conns, full });
        if !self.full.is_empty() {
            self.pause_full();
        }
        for event in events.drain(..) {
            match event {
                Event::Packet { conn, packet } => self.packet(conn, packet),
                Event::Done { token, outcome } => self.done(token, outcome),
                rare => self.rare(rare),
            }
        }
        if events.capacity() <= EVENTS {
            self.events = events;
        }
    }

    #[cold]
    fn rare(&mut self, event: Event<T>) {
        match event {
            Event::Connected { conn, data } => self.connected(conn, &data),
            Event::Refused { conn, data, reason, met } => self.refused(conn, &data, reason, met),
            Event::Ended { conn, reason } => self.ended(conn, reason),
            Event::Accessed { conn, kind, bytes, data } => {
                self.accessed(conn, kind, bytes, data);
            }
            Event::Alarm => self.look_at_clock(),
            Event::Requested { request, from, data } => {
                self.requests.push_back(Requested { request, from, data });
            }
            Event::Packet { .. } | Event::Done { .. } => {}
        }
    }

    /// Sends what waits on listed connections. What the transport still does not take waits for room
    /// there, as before.
    fn flush(&mut self) {
        let newly = self.newly_listed;
        for handle in std::mem::take(&mut self.listed) {
            if let Some(conn) = self.conns.get_mut(handle) {
                conn.listed = false;
                self.pump(handle);
            }
        }
        self.newly_listed = newly && !self.listed.is_empty();
    }

    /// Has a connection looked at in the next progress call.
    fn list(&mut self, handle: Handle) {
        if let Some(conn) = self.conns.get_mut(handle)
            && !conn.listed
        {
            conn.listed = true;
            self.listed.push(handle);
            self.newly_listed = true;
        }
    }

    /// Prepares for sleeping on the transport's descriptor; `false` if there is something to do. What
    /// the transport did not take waits for room there, which wakes.
    pub(crate) fn arm(&mut self) -> bool {
        if !self.listed.is_empty() {
            self.flush();
        }
        let quiet = self.transport.arm();
        self.newly_listed &= !quiet;
        quiet
    }

    /// At the end of a call of the application.
    #[inline]
    pub(crate) fn hand_on(&mut self) {
        self.transport.hand_on(self.newly_listed);
    }

    /// Does what is due.
    fn look_at_clock(&mut self) {
        let now = self.transport.now();
        self.requests.extend(self.undecided.drain(..));
        while let Some(Reverse((at, peer))) = self.timers.peek().copied() {
            if at > now {
                self.transport.set_alarm(at);
                return;
            }
            self.timers.pop();
            self.try_again(peer, now);
        }
    }

    fn schedule(&mut self, at: Instant, peer: PeerId) {
        // For what was there before, the alarm is set.
        if self.timers.peek().is_none_or(|Reverse((first, _))| at < *first) {
            self.transport.set_alarm(at);
        }
        self.timers.push(Reverse((at, peer)));
    }

    /// Counts of what happened so far.
    pub(crate) const fn stats(&self) -> Stats {
        self.core.stats
    }
}

impl<T: Transport, L: Lock> fmt::Debug for Engine<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("conns", &self.conns.len()).finish_non_exhaustive()
    }
}
