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
mod bulk;
mod burst;
mod cancel;
mod claims;
mod conn;
mod connect;
mod ep;
mod failed;
mod failure;
mod forget;
mod habit;
mod handshake;
mod layer;
mod leaving;
mod life;
mod msg;
mod outgoing;
mod post_receive;
mod pressure;
mod receive;
mod remote;
mod rendezvous;
mod rx_context;
mod strangers;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
mod trust;

use std::{
    fmt,
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    lock::Lock,
    matching::PeerId,
    mem::Payload,
    rdm_over_msg::Taker,
    slab::{Handle, Slab},
    wait::Sleepers,
};

pub(crate) use self::{
    atomics::ATOMIC_MAX,
    ep::{Ep, Identity, Limits},
    handshake::send_whole,
    layer::exposed,
    msg::{Answer, Msg},
};
use self::{
    cancel::Contexts,
    conn::Conn,
    ep::Peer,
    habit::Habit,
    rx_context::RxContext,
    strangers::Strangers,
    timers::{Due, Timers},
    transmit::TxOp,
};
use crate::{
    frame::head::{HEAD_MAX, RtsIndex},
    net::{Net, Ready},
};

/// Where the bytes of a waiting message are.
#[derive(Debug)]
pub(crate) enum Body {
    /// Here.
    Here(Payload),
    /// With the sender, who has announced the message on a connection.
    Announced { conn: Handle, index: RtsIndex, ack: bool },
}

/// Everything but the network.
pub(crate) struct Core<L: Lock> {
    pub(crate) eps: Slab<Ep<L>>,
    pub(crate) contexts: Slab<RxContext<L>>,
    pub(crate) ops: Slab<TxOp>,
    /// What of them may be cancelled.
    by_context: Contexts,
    /// What the protocol above has to hear.
    pub(crate) layer: layer::Told<L>,
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
    sleepers: Sleepers,
    strangers: Strangers,
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
                layer: layer::Told::default(),
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
            strangers: Strangers::default(),
            looked: net.now(),
            sleepers: Sleepers::default(),
            net,
        }
    }

    /// Moves everything forward that can move.
    #[inline]
    pub(crate) fn progress(&mut self) {
        self.progress_for(&mut ());
    }

    /// The same; the protocol above takes messages.
    #[inline]
    pub(crate) fn progress_for(&mut self, above: &mut impl Taker) {
        self.round = self.round.wrapping_add(1);
        self.habit.comes_back(|| self.net.now());
        if !self.listed.is_empty() {
            self.flush();
        }
        let (mut busy, mut waiting) = (false, false);
        let mut at = 0;
        while let Some(&handle) = self.hot.get(at) {
            if self.conns.get(handle).is_some_and(|conn| conn.rx.is_in_bulk()) {
                waiting = true;
                at += 1;
                continue;
            }
            busy |= self.read_for(handle, above);
            if self.conns.get(handle).is_some_and(|conn| conn.idle < IDLE) {
                at += 1;
            } else if self.hot.get(at) == Some(&handle) {
                self.hot.swap_remove(at);
            }
        }
        let pause = if busy { ASK_BUSY } else { ASK_IDLE };
        if waiting || self.hot.is_empty() || self.round.is_multiple_of(pause) {
            self.ask(above);
        }
        if !self.listed.is_empty() {
            self.flush();
        }
    }

    /// Asks the net what is ready. The clock is one of the things that may be.
    fn ask(&mut self, above: &mut impl Taker) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let rang = self.net.ready(&mut ready);
        for event in &ready {
            self.event(*event, above);
        }
        self.ready = ready;
        if rang {
            self.look_at_clock();
        }
    }

    fn event(&mut self, event: Ready, above: &mut impl Taker) {
        let handle = Handle::from_raw(event.token);
        if self.conns.get(handle).is_none() {
            // Not a connection, or one that has ended since.
            if self.core.eps.get(Handle::from_raw(event.token ^ LISTENER)).is_some() {
                self.accept(Handle::from_raw(event.token ^ LISTENER));
            }
            return;
        }
        if event.ended {
            self.ended(handle);
        }
        if event.write {
            self.writable(handle);
        }
        if event.read && self.read_for(handle, above) {
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
        let quiet = self.listed.is_empty() && self.core.layer.is_empty();
        self.sleepers.arm(quiet, self.net.bell())
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
        if self.sleepers.are_armed()
            && (must || !self.listed.is_empty() || !self.core.layer.is_empty())
        {
            self.sleepers.wake(self.net.bell());
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
        let mut is_layers = false;
        while let Some(due) = self.timers.pop(now) {
            match due {
                Due::Handshake(handle) => self.overdue(handle, now),
                Due::Again(ep, peer) => self.try_again(ep, peer, now),
                Due::Claim(handle) => self.look_at_claim(handle),
                Due::Listener(ep) => self.listen_again(ep),
                Due::Look => self.look(),
                Due::Layer => is_layers = true,
            }
        }
        // However often it has asked: it looks at all that is due.
        if is_layers {
            self.core.layer.push(layer::Event::Alarm);
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
