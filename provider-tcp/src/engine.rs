//! HOT. The protocol over streams: reliable datagrams and connected endpoints speak the same
//! messages, so one engine serves both.
//!
//! `post_*` are commands of the application; [`Engine::progress`] reads what has come and sends what
//! had to wait. The network is any [`Net`].
//!
//! | message | way |
//! |---|---|
//! | small | header and bytes are staged, and leave together |
//! | large | header staged, bytes leave from the application's memory |
//! | large and tagged, where the peer knows it | `Rts`, `Cts`, `Data` |
//! | write | as a message; `Ack` if asked for |
//! | read | `Read`, `ReadResponse` |
//! | atomic operation | `Atomic`; `Ack`, or `AtomicResponse` if it fetches |
//!
//! Every operation of the application that does not finish in its post call sits in the table `ops`,
//! in exactly one entry. Answers carry no names: each completes the oldest operation that waits for
//! its kind.
#![deny(unsafe_code)]

mod asking;
mod atomics;
mod burst;
mod cancel;
mod claims;
mod conn;
mod connect;
mod failure;
mod forget;
mod habit;
mod layer;
mod leaving;
mod life;
mod msg;
mod outgoing;
mod pressure;
mod receive;
mod remote;
mod rendezvous;
mod rx_context;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    av::{Av, Routes, Sender},
    completion::Report,
    engine::Stats,
    lock::Lock,
    matching::PeerId,
    mem::Payload,
    mr::MrTable,
    op::ADDR_UNSPEC,
    reaching::{Attempts, random},
    slab::{Handle, Slab},
};

use self::{
    asking::Asking,
    cancel::Contexts,
    conn::Conn,
    forget::Forgotten,
    habit::Habit,
    rx_context::RxContext,
    timers::{Due, Timers},
    transmit::TxOp,
};
pub(crate) use self::{
    atomics::ATOMIC_MAX,
    connect::send_whole,
    layer::exposed,
    msg::{Answer, Msg},
};
use crate::{
    address::SocketAddress,
    frame::head::{HEAD_MAX, RtsIndex},
    net::{Net, Ready},
};

/// What an engine keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Largest inject, in bytes.
    pub(crate) inject: usize,
    /// Operations that wait to be sent before posts make progress.
    pub(crate) outstanding: usize,
    /// Receives may name their sender.
    pub(crate) directed: bool,
    /// Completions name the sender.
    pub(crate) source: bool,
    /// Target-side one-sided access counts for endpoint counters.
    pub(crate) rma_event: bool,
    /// Writes wait for the reads before them (`FI_ORDER_WAR`).
    pub(crate) war: bool,
    /// Atomic operations, of the endpoint and of its peers.
    pub(crate) atomics: bool,
    /// The kernel may hold small sends back for others.
    pub(crate) coalesce: bool,
    /// How long a peer may take to be reached.
    pub(crate) connect: Duration,
}

/// Where the bytes of a waiting message are.
#[derive(Debug)]
pub(crate) enum Body {
    /// Here.
    Here(Payload),
    /// With the sender, who has announced the message on a connection.
    Announced { conn: Handle, index: RtsIndex, ack: bool },
}

/// A peer of an endpoint.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddress,
    /// How the address vector has it, if that is another host's view of the same.
    listed: Option<SocketAddress>,
    pub(crate) conn: Option<Handle>,
    /// Operations that wait for a connection.
    pub(crate) waiting: VecDeque<Handle>,
    /// Operations that wait with the application.
    pub(crate) asking: Asking,
    pub(crate) attempts: Attempts,
    pub(crate) identity: Identity,
    /// How completions name it.
    sender: Sender,
    /// Bytes of its messages that wait for receives.
    pub(crate) kept: usize,
    /// Operations that wait to be sent to it.
    queued: usize,
}

/// What tells an endpoint from a later one at its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Other libraries put a process number here; zero is nothing said.
    pub(crate) nonce: u32,
    /// Of endpoints of our own kind.
    pub(crate) epoch: Option<u64>,
}

impl Identity {
    /// Whether both are one endpoint's, as far as they tell.
    pub(crate) fn agrees(self, other: Self) -> bool {
        match (self.epoch, other.epoch) {
            (Some(epoch), Some(other)) => epoch == other,
            _ => self.nonce == 0 || self.nonce == other.nonce,
        }
    }
}

/// An endpoint.
pub(crate) struct Ep<L: Lock> {
    /// What it receives from.
    pub(crate) rx: Handle,
    pub(crate) report: Report<L>,
    pub(crate) regions: Arc<MrTable>,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    pub(crate) peers: Vec<Peer>,
    by_address: HashMap<SocketAddress, PeerId>,
    forgotten: Forgotten,
    routes: Routes,
    /// Where it listens.
    pub(crate) local: Option<SocketAddress>,
    /// The two halves of its [`Identity`].
    pub(crate) nonce: NonZeroU32,
    pub(crate) epoch: u64,
    /// Operations that wait to be sent.
    pub(crate) queued: usize,
    /// Data calls are accepted.
    pub(crate) enabled: bool,
    /// A connected endpoint's state; reliable datagrams have none.
    pub(crate) msg: Option<Msg>,
    /// A protocol of its own sends messages over the connections: the longest that it receives.
    pub(crate) layer: Option<usize>,
}

/// Everything but the network.
pub(crate) struct Core<L: Lock> {
    pub(crate) eps: Slab<Ep<L>>,
    pub(crate) contexts: Slab<RxContext<L>>,
    pub(crate) ops: Slab<TxOp>,
    /// What of them may be cancelled.
    by_context: Contexts,
    /// What the protocol above has to hear.
    pub(crate) layer: Vec<layer::Event<L>>,
    /// Staged bytes that leave without waiting for announced ones.
    batch: usize,
}

/// Sizes of buffers, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffering {
    /// Messages that are gathered in as much leave together.
    pub(crate) batch: usize,
    /// Read ahead of what is understood; a header's worth at least.
    pub(crate) ahead: usize,
}

impl Default for Buffering {
    fn default() -> Self {
        Self { batch: 16 << 10, ahead: 16 << 10 }
    }
}

/// The engine of one or more endpoints.
pub(crate) struct Engine<L: Lock, N: Net> {
    pub(crate) net: N,
    pub(crate) core: Core<L>,
    pub(crate) conns: Slab<Conn<N::Stream>>,
    /// Connections that are read without asking first.
    hot: Vec<Handle>,
    /// Connections with something to send in the next progress call.
    listed: Vec<Handle>,
    ready: Vec<Ready>,
    /// As much as is read ahead, behind as much that has been read before.
    scratch: Box<[u8]>,
    /// Progress calls, modulo 2^32.
    pub(crate) round: u32,
    /// What the program does behind what it posts.
    habit: Habit,
    timers: Timers,
    /// How long a peer's kernel may owe an answer; `None` is for ever.
    patience: Option<Duration>,
    /// Something may be on its way to a peer, and will be looked after.
    looking: bool,
    /// When that was done last.
    looked: Instant,
    /// A thread sleeps, or is about to.
    asleep: bool,
}

/// Connections that are read without asking; more are better asked for at once.
const HOT: usize = 4;
/// Looks in a row without a byte after which a connection is no longer hot.
const IDLE: u32 = 512;
/// Progress calls after which the net is asked although hot connections are busy, or idle.
const ASK_BUSY: u32 = 64;
const ASK_IDLE: u32 = 8;

impl<L: Lock, N: Net> fmt::Debug for Engine<L, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("conns", &self.conns.len()).finish_non_exhaustive()
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    pub(crate) fn new(net: N, patience: Option<Duration>, buffering: Buffering) -> Self {
        let ahead = buffering.ahead.max(HEAD_MAX);
        Self {
            core: Core {
                eps: Slab::new(usize::MAX),
                contexts: Slab::new(usize::MAX),
                ops: Slab::new(usize::MAX),
                by_context: Contexts::default(),
                layer: Vec::new(),
                batch: buffering.batch,
            },
            conns: Slab::new(usize::MAX),
            hot: Vec::with_capacity(HOT),
            listed: Vec::new(),
            ready: Vec::new(),
            scratch: vec![0; 2 * ahead].into_boxed_slice(),
            round: 0,
            habit: Habit::default(),
            timers: Timers::default(),
            patience,
            looking: patience.is_none(),
            looked: net.now(),
            asleep: false,
            net,
        }
    }

    /// Moves everything forward that can move.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.habit.comes_back(|| self.net.now());
        if !self.listed.is_empty() {
            self.flush();
        }
        let mut busy = false;
        let mut at = 0;
        while let Some(&handle) = self.hot.get(at) {
            busy |= self.read(handle);
            if self.conns.get(handle).is_some_and(|conn| conn.idle < IDLE) {
                at += 1;
            } else if self.hot.get(at) == Some(&handle) {
                self.hot.swap_remove(at);
            }
        }
        let pause = if busy { ASK_BUSY } else { ASK_IDLE };
        if self.hot.is_empty() || self.round.is_multiple_of(pause) {
            self.ask();
        }
        if !self.listed.is_empty() {
            self.flush();
        }
    }

    /// Asks the net what is ready. The clock is one of the things that may be.
    fn ask(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let rang = self.net.ready(&mut ready);
        for event in &ready {
            self.event(*event);
        }
        self.ready = ready;
        if rang {
            self.look_at_clock();
        }
    }

    fn event(&mut self, event: Ready) {
        let handle = Handle::from_raw(event.token);
        if self.conns.get(handle).is_none() {
            // Not a connection, or one that has ended since.
            if self.core.eps.get(Handle::from_raw(event.token ^ LISTENER)).is_some() {
                self.accept(Handle::from_raw(event.token ^ LISTENER));
            }
            return;
        }
        if event.write {
            self.writable(handle);
        }
        if event.read && self.read(handle) {
            self.heat(handle);
        }
    }

    /// Reads a busy connection without asking from now on.
    fn heat(&mut self, handle: Handle) {
        if self.hot.len() < HOT && !self.hot.contains(&handle) && self.conns.get(handle).is_some() {
            self.hot.push(handle);
        }
    }

    /// A connection is about to go.
    fn unheat(&mut self, handle: Handle) {
        self.hot.retain(|hot| *hot != handle);
    }

    /// Sends what waits on listed connections.
    fn flush(&mut self) {
        for at in (0..self.listed.len()).rev() {
            let handle = self.listed.swap_remove(at.min(self.listed.len() - 1));
            if let Some(conn) = self.conns.get_mut(handle) {
                conn.tx.listed = false;
                self.pump(handle);
            }
        }
    }

    /// Has a connection looked at in the next progress call.
    pub(crate) fn list(&mut self, handle: Handle) {
        if let Some(conn) = self.conns.get_mut(handle)
            && !conn.tx.listed
        {
            conn.tx.listed = true;
            self.listed.push(handle);
        }
    }

    /// Prepares for sleeping on the net's descriptor; `false` if there is something to do.
    pub(crate) fn arm(&mut self) -> bool {
        self.habit.comes_back(|| self.net.now());
        self.flush();
        self.asleep = self.listed.is_empty();
        self.asleep
    }

    /// At the end of a call of the application: what it leaves to be done is a sleeping thread's,
    /// which would not learn of it.
    #[inline]
    pub(crate) fn hand_on(&mut self) {
        self.hand_on_if(false);
    }

    /// The same where the protocol above may have left something, too.
    #[inline]
    pub(crate) fn hand_on_if(&mut self, must: bool) {
        if self.asleep && (must || !self.listed.is_empty() || !self.core.layer.is_empty()) {
            self.asleep = false;
            self.net.wake();
        }
    }

    /// Has something done at a time, in the progress call that follows.
    fn schedule(&mut self, at: Instant, due: Due) {
        self.timers.push(at, due);
        self.net.set_alarm(self.timers.first());
    }

    /// Does what is due.
    #[cold]
    fn look_at_clock(&mut self) {
        let now = self.net.now();
        while let Some(due) = self.timers.pop(now) {
            match due {
                Due::Handshake(handle) => self.overdue(handle, now),
                Due::Again(ep, peer) => self.try_again(ep, peer, now),
                Due::Claim(handle) => self.look_at_claim(handle),
                Due::Listener(ep) => self.listen_again(ep),
                Due::Look => self.look(),
                Due::Layer => self.core.layer.push(layer::Event::Alarm),
            }
        }
        self.net.set_alarm(self.timers.first());
    }

    /// Tells the net what to tell of a connection.
    pub(crate) fn rewatch(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        let interest = conn.interest();
        if interest != conn.watched {
            conn.watched = interest;
            self.net.change(&conn.stream, handle.raw(), interest);
        }
    }

    /// The peer behind a handle of an endpoint's address vector; unknown handles are `EINVAL`.
    #[inline]
    pub(crate) fn resolve(&mut self, ep: Handle, addr: u64) -> Result<PeerId> {
        let state = self.core.eps.get_mut(ep).ok_or(Errno::EOPBADSTATE)?;
        if let Some(msg) = &state.msg {
            return msg.target();
        }
        match state.routes.known(addr) {
            Some(peer) => Ok(peer),
            None => state.resolve_slowly(addr),
        }
    }
}

/// Tells the token of an endpoint's listener from its handle, which a connection may have, too.
pub(crate) const LISTENER: u64 = 1 << 31;

impl<L: Lock> Ep<L> {
    pub(crate) fn new(regions: Arc<MrTable>, limits: Limits) -> Self {
        Self {
            rx: Handle::from_raw(0),
            report: Report::new(),
            regions,
            limits,
            stats: Stats::default(),
            peers: Vec::new(),
            by_address: HashMap::new(),
            forgotten: Forgotten::default(),
            routes: Routes::default(),
            local: None,
            nonce: NonZeroU32::new(random() as u32).unwrap_or(NonZeroU32::MIN),
            epoch: random(),
            queued: 0,
            enabled: false,
            msg: None,
            layer: None,
        }
    }

    /// Takes the address vector's entries as peers.
    pub(crate) fn set_av(&mut self, av: Option<Arc<Av>>) {
        self.routes = Routes::new(av);
    }

    #[cold]
    fn resolve_slowly(&mut self, addr: u64) -> Result<PeerId> {
        let mut routes = std::mem::take(&mut self.routes);
        let peer = routes.resolve(addr, |bytes| {
            let address = SocketAddress::parse(bytes)?;
            let peer = self.peer(address);
            self.peers[peer as usize].list(address);
            Ok(peer)
        });
        self.routes = routes;
        peer
    }

    /// The peer with this address, made known if it was not.
    pub(crate) fn peer(&mut self, address: SocketAddress) -> PeerId {
        let address = self.at_own_link(address);
        if let Some(peer) = self.by_address.get(&address) {
            return *peer;
        }
        let peer = match self.forgotten.take() {
            Some(peer) => {
                self.peers[peer as usize] = Peer::new(address);
                peer
            }
            None => {
                self.peers.push(Peer::new(address));
                (self.peers.len() - 1) as PeerId
            }
        };
        self.by_address.insert(address, peer);
        peer
    }

    /// An address as it is here. The interface of a link-local one is a number of the host that has
    /// told it; a link-local endpoint has peers at its own link only.
    fn at_own_link(&self, address: SocketAddress) -> SocketAddress {
        match self.local {
            Some(local) if local.is_link_local() && address.is_link_local() => {
                address.with_scope(local.scope())
            }
            _ => address,
        }
    }

    /// How completions name a peer.
    #[inline]
    pub(crate) fn source(&mut self, peer: PeerId) -> u64 {
        if !self.limits.source {
            return ADDR_UNSPEC;
        }
        let Some(state) = self.peers.get_mut(peer as usize) else { return ADDR_UNSPEC };
        if let Some(av) = self.routes.av()
            && state.sender.is_stale(av)
        {
            state.sender.refresh(av, &state.listed.unwrap_or(state.address).to_bytes());
        }
        state.sender.id()
    }
}

impl<L: Lock> fmt::Debug for Ep<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ep").field("peers", &self.peers.len()).finish_non_exhaustive()
    }
}
