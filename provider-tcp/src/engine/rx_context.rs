//! PENDING. Receive contexts: an endpoint's own, or one that connected endpoints share.
//!
//! A receive of a shared context is nobody's until a message takes it. From then on it is that of
//! the endpoint the message came to, and completes in the queue and counters there. What no message
//! takes, receives that are cancelled and peeks that find nothing, is told to the endpoint that has
//! been bound the longest.

use fabric_core::{
    Errno, Result,
    completion::Report,
    flags::Flags,
    inbox::{Arrival, Inbox, Posted, Receive},
    lock::Lock,
    matching::{ANY_PEER, Key, PeerId, Want},
    mem::{Buffers, Payload},
    op::RecvOp,
    slab::Handle,
};

use super::{Body, Core, Engine, Ep, conn::Conn};
use crate::net::Net;

/// Bytes of one peer, and of all, that are kept without anybody waiting for what comes behind them.
const KEPT_PEER: usize = 16 << 20;
const KEPT_ALL: usize = 256 << 20;
/// The same where somebody may be waiting.
const KEPT_MAX: usize = 1 << 30;

/// How much of what comes without a receive is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// What the peer's and the endpoint's budgets allow.
    Budget,
    /// More: what is waited for may be behind it.
    Stretched,
    /// All there is: the stream has ended, and its socket has no more than it holds. A message says
    /// itself how long it is, so that no single one may be longer than can be kept.
    Socket,
}

/// What keeping a message takes beside its bytes.
const KEPT_EACH: usize = 128;

/// A receive context.
pub(crate) struct RxContext<L: Lock> {
    pub(crate) inbox: Inbox<Body>,
    /// Connections with a message that must wait for its receive.
    pub(super) stalled: Vec<Handle>,
    /// Bytes of messages that wait for receives.
    kept: usize,
    /// Endpoints that receive from it, in the order of binding.
    users: Vec<Handle>,
    shared: bool,
    /// Reports to nobody.
    mute: Report<L>,
}

impl<L: Lock> RxContext<L> {
    fn new(min_multi_recv: usize, shared: bool) -> Self {
        Self {
            inbox: Inbox::new(min_multi_recv),
            stalled: Vec::new(),
            kept: 0,
            users: Vec::new(),
            shared,
            mute: Report::new(),
        }
    }

    /// Bytes of messages that wait for receives.
    #[cfg(test)]
    pub(super) const fn kept(&self) -> usize {
        self.kept
    }

    /// Whether endpoints share it.
    #[inline]
    pub(super) const fn is_shared(&self) -> bool {
        self.shared
    }

    /// How messages of an endpoint's peer are named in the inbox. Connected endpoints have one peer
    /// each, so they stand for it where they share.
    #[inline]
    pub(super) const fn sender(&self, ep: Handle, peer: PeerId) -> PeerId {
        if self.shared { ep.index() } else { peer }
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Takes an endpoint, with a receive context of its own.
    pub(crate) fn open_endpoint(&mut self, state: Ep<L>, min_multi_recv: usize) -> Result<Handle> {
        let core = &mut self.core;
        let context = RxContext::new(min_multi_recv, false);
        let rx = core.contexts.insert(context).map_err(|_| Errno::EMFILE)?;
        let opened = core.eps.insert(Ep { rx, ..state }).map_err(|_| Errno::EMFILE);
        match (opened, core.contexts.get_mut(rx)) {
            (Ok(ep), Some(context)) => context.users.push(ep),
            _ => drop(core.contexts.remove(rx)),
        }
        opened
    }

    /// Opens a receive context to be shared.
    pub(crate) fn open_shared(&mut self, min_multi_recv: usize) -> Result<Handle> {
        let context = RxContext::new(min_multi_recv, true);
        self.core.contexts.insert(context).map_err(|_| Errno::EMFILE)
    }

    /// Ends a shared context, of which no endpoint receives any more.
    pub(crate) fn close_shared(&mut self, context: Handle) {
        self.core.contexts.remove(context);
    }

    /// Has an endpoint receive from a shared context; `EINVAL` if it does already.
    pub(crate) fn share(&mut self, ep: Handle, context: Handle) -> Result<()> {
        let core = &mut self.core;
        let state = core.eps.get_mut(ep).ok_or(Errno::EOPBADSTATE)?;
        let own = state.rx;
        if core.contexts.get(own).is_some_and(|own| own.shared) {
            return Err(Errno::EINVAL);
        }
        core.contexts.get_mut(context).ok_or(Errno::EINVAL)?.users.push(ep);
        state.rx = context;
        core.contexts.remove(own);
        Ok(())
    }

    /// Posts a receive to a shared context, from whomever it is. Looking for messages takes an
    /// endpoint that can report them (`EOPBADSTATE`).
    pub(crate) fn post_shared(
        &mut self,
        context: Handle,
        op: &RecvOp<'_>,
        buffers: Buffers,
    ) -> Result<()> {
        let want = Want { tagged: op.tagged, peer: ANY_PEER, tag: op.tag, ignore: op.ignore };
        self.post_into(context, op, want, buffers)
    }

    /// Takes back a receive of a shared context that no message has taken.
    pub(crate) fn cancel_shared(&mut self, context: Handle, receive: usize) {
        self.core.cancel_receive(context, receive);
    }
}

impl<L: Lock> Core<L> {
    /// An endpoint and the context that it receives from.
    #[inline]
    pub(super) fn receiver(&mut self, ep: Handle) -> Option<(&mut Ep<L>, &mut RxContext<L>)> {
        let ep = self.eps.get_mut(ep)?;
        let context = self.contexts.get_mut(ep.rx)?;
        Some((ep, context))
    }

    /// The least room that a multi-receive buffer of an endpoint's keeps.
    pub(crate) fn min_multi_recv(&mut self, ep: Handle) -> Option<&mut usize> {
        self.receiver(ep).map(|(_, context)| &mut context.inbox.min_multi_recv)
    }

    /// Whether an endpoint receives from a context that others may receive from, too.
    pub(crate) fn shares(&self, ep: Handle) -> bool {
        let rx = self.eps.get(ep).and_then(|ep| self.contexts.get(ep.rx));
        rx.is_some_and(|rx| rx.shared)
    }

    #[inline]
    pub(super) fn post_receive(
        &mut self,
        context: Handle,
        op: &RecvOp<'_>,
        want: Want,
        buffers: Buffers,
    ) -> Result<Posted<Body>> {
        let context = self.contexts.get_mut(context).ok_or(Errno::EOPBADSTATE)?;
        let first = context.users.first().and_then(|ep| self.eps.get_mut(*ep));
        let report = match first {
            Some(ep) => &mut ep.report,
            None if op.flags.intersects(Flags::PEEK | Flags::CLAIM) => {
                return Err(Errno::EOPBADSTATE);
            }
            None => &mut context.mute,
        };
        context.inbox.post(report, op, want, buffers)
    }

    /// `true` if there was such a receive.
    pub(super) fn cancel_receive(&mut self, context: Handle, receive: usize) -> bool {
        let Some(context) = self.contexts.get_mut(context) else { return false };
        let first = context.users.first().and_then(|ep| self.eps.get_mut(*ep));
        let report = first.map_or(&mut context.mute, |ep| &mut ep.report);
        context.inbox.cancel(report, receive)
    }

    /// The endpoint to which a message of a context has come.
    pub(super) fn recipient(&self, context: Handle, key: Key) -> Option<Handle> {
        let context = self.contexts.get(context)?;
        if context.shared { self.eps.at(key.peer) } else { context.users.first().copied() }
    }

    /// Reports a message that was looked for, as `how` says, where it has come to.
    pub(super) fn tell_found(
        &mut self,
        context: Handle,
        op: &RecvOp<'_>,
        arrival: &Arrival,
        how: fn(&mut Report<L>, &RecvOp<'_>, &Arrival, u64),
    ) {
        let ep = self.recipient(context, arrival.key);
        let Some(ep) = ep.and_then(|ep| self.eps.get_mut(ep)) else { return };
        let src = ep.source(ep.peer_of(arrival.key));
        how(&mut ep.report, op, arrival, src);
    }

    /// Ends a receive of an endpoint. `Ok` carries the bytes placed.
    #[inline]
    pub(super) fn received(
        &mut self,
        ep: Handle,
        receive: &Receive,
        arrival: &Arrival,
        outcome: Result<usize>,
    ) {
        let Some((ep, context)) = self.receiver(ep) else { return };
        let src = ep.source(ep.peer_of(arrival.key));
        context.inbox.complete(&mut ep.report, receive, arrival, src, outcome);
    }

    /// A message that had no receive when it began is here. By now there may be one.
    pub(super) fn arrived_whole(&mut self, ep: Handle, arrival: &Arrival, bytes: Box<[u8]>) {
        let Some((_, context)) = self.receiver(ep) else { return };
        match context.inbox.take_receive(arrival) {
            Some(receive) => {
                let placed = receive.buffers.fill(0, &bytes);
                self.let_go(ep, arrival.key, arrival.len);
                self.received(ep, &receive, arrival, Ok(placed));
            }
            None => context.inbox.keep(arrival, Body::Here(Payload::owned(bytes))),
        }
    }

    /// Counts a message without a receive that is to go to the heap; `false` if it may not.
    pub(super) fn hold(&mut self, ep: Handle, peer: PeerId, len: usize, bound: Bound) -> bool {
        let Some((ep, context)) = self.receiver(ep) else { return false };
        let len = len.saturating_add(KEPT_EACH);
        let held = ep.peers.get(peer as usize).map_or(0, |peer| peer.kept);
        let within = |held: usize, limit| held.checked_add(len).is_some_and(|sum| sum <= limit);
        let may = within(held, KEPT_PEER) && within(context.kept, KEPT_ALL);
        // What is waited for may be behind this message.
        let must = bound == Bound::Stretched || context.inbox.posted_len() != 0;
        let last = bound == Bound::Socket && len <= KEPT_MAX;
        if !(may || must && within(context.kept, KEPT_MAX) || last) {
            return false;
        }
        context.kept += len;
        if let Some(peer) = ep.peers.get_mut(peer as usize) {
            peer.kept += len;
        }
        true
    }

    /// Bytes that were kept are not any more.
    pub(super) fn let_go(&mut self, ep: Handle, key: Key, len: usize) {
        let Some((ep, context)) = self.receiver(ep) else { return };
        let len = len.saturating_add(KEPT_EACH);
        context.kept = context.kept.saturating_sub(len);
        let peer = ep.peer_of(key);
        if let Some(peer) = ep.peers.get_mut(peer as usize) {
            peer.kept = peer.kept.saturating_sub(len);
        }
    }

    /// No message can come any more for which an endpoint's own receives could wait.
    pub(super) fn fail_receives(&mut self, ep: Handle, reason: Errno) {
        if let Some((ep, context)) = self.receiver(ep)
            && !context.shared
        {
            context.inbox.fail_all(&mut ep.report, reason);
        }
    }

    /// Nobody else can satisfy receives that name this peer, and what it had announced on a
    /// connection is gone.
    pub(super) fn peer_down(
        &mut self,
        ep: Handle,
        peer: PeerId,
        conn: Option<Handle>,
        reason: Errno,
    ) {
        let Some((state, context)) = self.receiver(ep) else { return };
        let Some(target) = state.peers.get(peer as usize) else { return };
        let address = target.address.to_bytes();
        let src = state.source(peer);
        let keep =
            |body: &Body| !matches!(body, Body::Announced { conn: of, .. } if Some(*of) == conn);
        let sender = context.sender(ep, peer);
        context.inbox.peer_down(&mut state.report, sender, src, reason, &address, keep);
    }

    /// An endpoint closes. Receives of its own go without a word; those that others post to a shared
    /// context, and that a message has taken, end here.
    pub(super) fn leave_context<S>(&mut self, ep: Handle, conns: Vec<Conn<S>>) {
        if self.shares(ep) {
            for conn in conns {
                self.cut_receives(conn.ep, conn.rx.phase, conn.asked, Errno::ECANCELED);
            }
        }
        let Some((state, context)) = self.receiver(ep) else { return };
        if !context.shared {
            let own = state.rx;
            self.contexts.remove(own);
            return;
        }
        context.users.retain(|user| *user != ep);
        let kept: usize = state.peers.iter().map(|peer| peer.kept).sum();
        context.kept = context.kept.saturating_sub(kept);
        let (sender, reason) = (ep.index(), Errno::ECANCELED);
        context.inbox.peer_down(&mut state.report, sender, 0, reason, &[], |_| false);
    }
}

impl<L: Lock> Ep<L> {
    /// The peer from which a message has come; see [`RxContext::sender`].
    #[inline]
    pub(super) const fn peer_of(&self, key: Key) -> PeerId {
        if self.msg.is_some() { super::msg::PEER } else { key.peer }
    }
}
