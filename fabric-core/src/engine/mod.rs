//! HOT. The protocol of reliable datagrams between endpoints, without I/O and without a clock.
//!
//! `post_*` are commands of the application, `handle_*` are packets, `flush_*` emit what had to
//! wait. A transport is any [`Wire`]; tests drive two engines against each other with a scripted
//! one.
//!
//! | message | way |
//! |---|---|
//! | up to the eager limit | `Message`: bytes in the packet, complete when emitted |
//! | larger | `Offer`, `Request`, `Segment`..., `Finish` |
//! | the same, and the sender does not answer | the receiver copies directly, `Finish` |
//! | very large, and the sender comes back | copied from both ends: `Invite`, `Ready`, `Share`, `Shared` |
//! | small write | `Write`, `Finish` |
//! | large write | `WriteOffer`, `Request` and `Segment`... or copied, `Finish` |
//! | small read | `Read`, `Reply` |
//! | large read | `Read`, `Grant`, `Stream` and `Segment`... or copied, `Release` |
//! | atomic | `Atomic`, `Reply` or `Finish` |
//!
//! Operations of the application that do not finish in the post call sit in the table `ops`, each in
//! exactly one entry; a peer's work that we do sits in `transfers` and `services`, which are other
//! types: one cannot be mistaken for the other.

#![deny(unsafe_code)]

mod atomics;
mod failure;
mod forget;
mod one_sided;
mod packet;
mod peers;
mod pull;
mod receive;
mod rendezvous;
mod transmit;

#[cfg(all(test, not(loom)))]
#[allow(unsafe_code, reason = "tests describe their own memory")]
pub(crate) mod tests;

use std::{collections::VecDeque, fmt, sync::Arc};

use crate::{
    Errno, Result,
    av::{Av, Routes},
    completion::Report,
    flags::Flags,
    inbox::Inbox,
    lock::Lock,
    matching::PeerId,
    mr::MrTable,
    slab::{Handle, Slab},
    wait::Sleepers,
    wire::{Event, Op, Packet, Wire, WireRx, WireTx},
};

pub(crate) use self::{
    peers::Peer,
    receive::Body,
    rendezvous::{Service, Transfer},
    transmit::TxOp,
};

/// What an engine may use and must keep to.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest inject of any kind, in bytes.
    pub inject: usize,
    /// Messages up to this size travel in one packet, if the transport can.
    pub eager: usize,
    /// Progress calls in which the owner of a large transfer may begin to send it in segments,
    /// before it is copied directly.
    pub patience: u32,
    /// Direct copies of at least this many bytes are made from both ends, half as many at a time.
    pub shared: usize,
    /// Peers may be asked to write their half of such a copy. Otherwise nobody else writes to the memory
    /// of operations.
    pub lends: bool,
    /// Operations that wait to be emitted at the same time. Those that a peer knows of are not
    /// counted: what they wait for may be a receive, which no progress of ours brings nearer.
    pub outstanding: usize,
    /// Payload of an atomic operation in bytes.
    pub atomic: usize,
    /// Bytes from one peer that wait for a receive before it is told to keep its payloads.
    pub waiting_bytes: usize,
    /// Multi-receive buffers with less room are given back.
    pub min_multi_recv: usize,
    /// One-sided operations keep their order with what is posted behind them.
    pub ordered: bool,
    /// Receives may name their sender.
    pub directed: bool,
    /// Completions name the sender.
    pub source: bool,
    /// Target-side one-sided access counts for endpoint counters.
    pub rma_event: bool,
}

/// Plain counts of what an endpoint did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages that travelled in one packet.
    pub eager: u64,
    /// Messages whose bytes stayed with the sender at first.
    pub rendezvous: u64,
    /// Transfers copied directly from a peer's memory.
    pub copies: u64,
    /// Segments emitted.
    pub segments: u64,
    /// Messages received.
    pub received: u64,
    /// Messages that arrived before their receive.
    pub unexpected: u64,
    /// Operations that had to wait for room or order.
    pub queued: u64,
    /// One-sided and atomic operations served for peers.
    pub served: u64,
}

/// The engine of one endpoint.
pub struct Engine<W: Wire, L: Lock> {
    pub(crate) wire: W,
    pub(crate) core: Core<L>,
    /// Progress calls in a row that found packets, modulo 2^32.
    busy: u32,
    pub(crate) sleepers: Sleepers,
}

impl<W: Wire, L: Lock> fmt::Debug for Engine<W, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("inbox", &self.core.inbox).finish_non_exhaustive()
    }
}

/// Everything but the wire.
pub(crate) struct Core<L: Lock> {
    pub(crate) inbox: Inbox<Body>,
    pub(crate) ops: Slab<TxOp>,
    /// Those among them that wait to be emitted.
    pub(crate) queued: usize,
    pub(crate) transfers: Slab<Transfer>,
    pub(crate) services: Slab<Service>,
    /// Transfers that are copied from here, a chunk at a time.
    pub(crate) pulls: VecDeque<Handle>,
    pub(crate) peers: Vec<Peer>,
    /// Peers for which something waits to be emitted.
    pub(crate) blocked: Vec<PeerId>,
    /// Some are among them that an engine armed before does not wait for.
    newly_blocked: bool,
    pub(crate) report: Report<L>,
    pub(crate) routes: Routes,
    pub(crate) regions: Arc<MrTable>,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    /// There was no memory for the packet at hand, which stays where it is.
    short_of_memory: bool,
    /// The log knows that there is no memory to keep messages.
    told_of_shortage: bool,
}

/// Packets handled in one progress call before the caller gets its turn.
const BUDGET: usize = 64;

/// Calls in a row that found packets before connections are looked at all the same.
const BUSY: u32 = 64;

impl<W: Wire, L: Lock> Engine<W, L> {
    /// An engine over `wire` for a domain's `regions`.
    pub fn new(wire: W, regions: Arc<MrTable>, limits: Limits) -> Self {
        let core = Core {
            inbox: Inbox::new(limits.min_multi_recv),
            ops: Slab::new(usize::MAX),
            queued: 0,
            transfers: Slab::new(usize::MAX),
            services: Slab::new(usize::MAX),
            pulls: VecDeque::new(),
            peers: Vec::new(),
            blocked: Vec::new(),
            newly_blocked: false,
            report: Report::new(),
            routes: Routes::default(),
            regions,
            limits,
            stats: Stats::default(),
            short_of_memory: false,
            told_of_shortage: false,
        };
        Self { wire, core, busy: 0, sleepers: Sleepers::default() }
    }

    /// Takes the address vector's entries as peers.
    pub(crate) fn set_av(&mut self, av: Option<Arc<Av>>) {
        self.core.routes = Routes::new(av);
    }

    /// Moves everything forward that can move.
    #[inline]
    pub fn progress(&mut self) {
        let mut left = BUDGET;
        while let Some(peer) = self.wire.split().1.next_ready() {
            self.refresh_if_stale(peer);
            if self.packets(peer, &mut left).is_err() {
                self.wire.fail(peer, Errno::EPROTO);
            }
            if left == 0 {
                break;
            }
        }
        // Whoever has something to read should read it: sockets are looked at in quieter calls, or
        // after many busy ones.
        self.busy = if left == BUDGET { 0 } else { self.busy.wrapping_add(1) };
        if !self.core.pulls.is_empty() {
            self.core.pull_some(self.wire.tx());
        }
        if !self.core.blocked.is_empty() {
            self.core.flush(self.wire.tx());
        }
        if self.busy.is_multiple_of(BUSY) {
            self.events(false);
        }
    }

    /// Handles the packets that one peer has sent, within the budget.
    #[inline]
    fn packets(&mut self, peer: PeerId, left: &mut usize) -> Result<(), Malformed> {
        let (tx, rx) = self.wire.split();
        while *left > 0 {
            let Some(packet) = rx.peek(peer).map_err(|_| Malformed)? else { break };
            let handled = self.core.handle(tx, peer, &packet);
            if handled.is_err() && std::mem::take(&mut self.core.short_of_memory) {
                break;
            }
            rx.consume(peer);
            handled?;
            *left -= 1;
        }
        if let Some(high) = self.core.pressure_change(peer) {
            rx.set_pressure(peer, high);
        }
        Ok(())
    }

    /// Handles connections and ended peers.
    #[inline]
    pub(crate) fn events(&mut self, now: bool) {
        while let Some(event) = self.wire.poll_event(now) {
            self.event(event);
        }
    }

    #[cold]
    fn event(&mut self, event: Event) {
        match event {
            Event::Writable(peer) => {
                self.core.unblock(peer);
                self.core.flush(self.wire.tx());
            }
            Event::Down(peer, reason) => {
                self.core.peer_down(&self.wire, peer, reason);
                self.forget_peers();
            }
        }
    }

    /// Prepares for sleeping on the wire's descriptor; `false` if there is something to do.
    pub(crate) fn arm(&mut self) -> bool {
        self.events(true);
        let quiet = self.core.pulls.is_empty() && self.wire.arm(&self.core.blocked);
        if quiet {
            self.core.newly_blocked = false;
        }
        self.sleepers.arm(quiet, self.wire.bell())
    }

    /// At the end of a call of the application: what it leaves to be done is a sleeping thread's,
    /// which was armed before and would not learn of it.
    #[inline]
    pub(crate) fn hand_on(&mut self) {
        if self.sleepers.are_armed() {
            self.wake_sleeper();
        }
    }

    #[cold]
    fn wake_sleeper(&mut self) {
        let core = &self.core;
        if !core.pulls.is_empty() || core.newly_blocked || self.wire.changed() {
            self.sleepers.wake(self.wire.bell());
        }
    }

    /// Counts of what happened so far.
    pub fn stats(&self) -> Stats {
        self.core.stats
    }
}

/// The peer broke the protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Malformed;

impl<L: Lock> Core<L> {
    #[inline]
    fn handle<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Result<(), Malformed> {
        self.peer_mut(peer);
        match Op::from_raw(packet.head.op) {
            Some(Op::Message) => self.handle_message(tx, peer, packet),
            Some(Op::Offer) => self.handle_offer(tx, peer, packet),
            Some(Op::Request) => self.handle_request(peer, packet),
            Some(Op::Segment) => self.handle_segment(tx, peer, packet),
            Some(Op::Finish) => self.handle_finish(tx, peer, packet),
            Some(Op::Write) => self.handle_write(tx, peer, packet),
            Some(Op::WriteOffer) => self.handle_write_offer(tx, peer, packet),
            Some(Op::Read) => self.handle_read(tx, peer, packet),
            Some(Op::Atomic) => self.handle_atomic(tx, peer, packet),
            Some(Op::Reply) => self.handle_reply(tx, peer, packet),
            Some(Op::Grant) => self.handle_grant(tx, peer, packet),
            Some(Op::Release) => self.handle_release(peer, packet),
            Some(Op::Stream) => self.handle_stream(peer, packet),
            Some(Op::Invite) => self.handle_invite(tx, peer, packet),
            Some(Op::Ready) => self.handle_ready(tx, peer, packet),
            Some(Op::Share) => self.handle_share(tx, peer, packet),
            Some(Op::Shared) => self.handle_shared(tx, peer, packet),
            None => None,
        }
        .ok_or(Malformed)
    }
}

/// Direction and kind of what one-sided operations report.
pub(crate) const REMOTE_WRITE: Flags = Flags::RMA.union(Flags::REMOTE_WRITE);
pub(crate) const REMOTE_READ: Flags = Flags::RMA.union(Flags::REMOTE_READ);
