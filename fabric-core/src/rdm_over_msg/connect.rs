//! PENDING. Connections: opened on demand, one for each pair.
//!
//! Two endpoints that reach for each other at the same time must agree which connection stays: it is
//! the one that the endpoint with the higher address has asked for. A peer that asks for another
//! while one is up has either been started anew, then it has another [`ConnectionId::owner`], or is
//! mistaken. The transport decides whether that owner is to be believed, which may take a while.

use std::{cmp::Ordering, time::Instant};

use super::{
    Address, Conn, Core, Engine, Requested, State, Token, Transport, credits,
    record::{Acceptance, ConnectionId, Features, FlowControl, Refusal, Request},
};
use crate::{
    Errno, Result,
    lock::Lock,
    log::Subsys,
    matching::PeerId,
    reaching::{LOOK, Verdict},
    slab::Handle,
};

/// Receives of a connection, as peers are told. Where nobody counts them, any number will do.
const fn receives<T: Transport>() -> u32 {
    if T::RECEIVES == 0 { 4096 } else { T::RECEIVES }
}

/// What this side can do beyond the protocol.
const FEATURES: Features = Features { transport: true };

impl<T: Transport, L: Lock> Engine<T, L> {
    /// Starts to listen.
    pub(crate) fn listen(&mut self) -> Result<()> {
        self.transport.listen()?;
        self.name().map(|_| ())
    }

    /// The endpoint's own address.
    pub(crate) fn name(&mut self) -> Result<T::Address> {
        let name = self.transport.name()?;
        self.core.peers.local = Some(name);
        Ok(name)
    }

    /// Begins to connect to a peer, unless that is under way.
    pub(super) fn reach(&mut self, peer: PeerId) {
        let now = self.transport.now();
        let Some(request) = self.core.request(peer) else { return };
        let patience = self.core.limits.connect;
        let Some(target) = self.core.peers.get_mut(peer) else { return };
        if target.conn.is_some() {
            return;
        }
        let Some(end) = target.attempts.begin(now, patience) else { return };
        let (to, is_first) = (target.address, target.attempts.is_first());
        let Some(handle) = self.conns.next_handle() else { return };
        match self.transport.connect(Token(handle.raw()), to, &request.bytes()) {
            Ok(link) => {
                target.conn = Some(handle);
                let _ = self.conns.insert(Conn::new(link, peer, State::Asked));
                if is_first {
                    self.schedule(end, peer);
                }
            }
            Err(reason) => self.not_reached(peer, reason, false),
        }
    }

    /// An attempt to reach a peer has failed: another one later, or the end of what waits for it.
    /// `met`: its host has answered, and it may have given up because we made no progress.
    fn not_reached(&mut self, peer: PeerId, reason: Errno, met: bool) {
        let now = self.transport.now();
        let patience = self.core.limits.connect;
        let Some(target) = self.core.peers.get_mut(peer) else { return };
        target.conn = None;
        if !target.is_wanted() {
            return target.attempts.end();
        }
        let port = target.address.port();
        match target.attempts.fail(now, patience, reason, met, port) {
            Some(at) => self.schedule(at, peer),
            None => self.not_to_be_reached(peer, reason),
        }
    }

    /// Ends what waits for a peer.
    fn not_to_be_reached(&mut self, peer: PeerId, reason: Errno) {
        let (local, now) = (self.core.peers.local, self.transport.now());
        let Some(target) = self.core.peers.get_mut(peer) else { return };
        target.conn = None;
        target.attempts.end();
        target.asking.fail(reason, now);
        let (address, waiting) = (target.address, std::mem::take(&mut target.waiting));
        if let Some(local) = local {
            let words = "cannot be reached from";
            crate::warn!("ofi_rxm", Subsys::EpCtrl, "{address} {words} {local}: {reason}");
        }
        for op in waiting {
            self.core.finish(op, Err(reason));
        }
        // Nobody else can satisfy receives that name it.
        self.core.peer_down(peer, None, reason);
    }

    /// It is time to try a peer again.
    pub(super) fn try_again(&mut self, peer: PeerId, now: Instant) {
        let Some(target) = self.core.peers.get_mut(peer) else { return };
        if !target.attempts.is_due(now) {
            return self.say_if_silent(peer, now);
        }
        if target.attempts.is_late(now) {
            // It wanted to connect to us instead, and has not.
            return self.not_to_be_reached(peer, Errno::ECONNREFUSED);
        }
        self.reach(peer);
    }

    /// Whoever has been connected to may take as long as it likes to answer, since it may compute. That
    /// it does is said, because it may be no endpoint, too.
    fn say_if_silent(&self, peer: PeerId, now: Instant) {
        let Some(target) = self.core.peers.get(peer) else { return };
        let conn = target.conn.and_then(|conn| self.conns.get(conn));
        if target.attempts.is_late(now) && conn.is_some_and(|conn| conn.state == State::Asked) {
            let (to, patience) = (target.address, self.core.limits.connect.as_secs());
            crate::warn!(
                "ofi_rxm",
                Subsys::EpCtrl,
                "{to} is connected, but has not answered for {patience} s: it makes no progress, or is no fabric endpoint"
            );
        }
    }

    /// A peer asks for a connection.
    pub(super) fn requested(&mut self, requested: Requested<T>) {
        let Requested { request, from, data } = requested;
        let parsed = match Request::parse(&data, self.core.limits.eager) {
            Ok(parsed) => parsed,
            Err(error) => {
                crate::warn!("ofi_rxm", Subsys::EpCtrl, "{from} is refused: {error}");
                return self.transport.reject(request, &Refusal::Refused.bytes());
            }
        };
        let address = from.with_port(parsed.port).canonical();
        self.forget_peers();
        let peer = self.core.peers.with_address(address);
        if let Some(rival) = self.rival(peer) {
            // A connection whose end has come but has not been seen is no rival.
            self.transport.look(rival.1);
            self.take_events();
        }
        if let Some((rival, link)) = self.rival(peer)
            && !self.is_own(&request, address)
        {
            let owner = self.core.peers.get(peer).map_or(0, |peer| peer.owner);
            let Some(other) = self.conns.get(rival) else { return };
            let keep_ours = match other.state {
                // The peer compares with where that one comes from.
                State::Asked => match self.transport.local(link) {
                    Ok(local) => self.core.contest(address, local) == Ordering::Less,
                    Err(_) => false,
                },
                State::Accepted | State::Open => owner == parsed.id.owner,
            };
            if keep_ours {
                return self.transport.reject(request, &Refusal::Known.bytes());
            }
            if other.state == State::Asked {
                self.transport.end(link);
                self.conns.remove(rival);
                if let Some(target) = self.core.peers.get_mut(peer) {
                    target.conn = None;
                }
            } else {
                match self.transport.judge(&request, link, address) {
                    Ok(Verdict::Believed) => {}
                    Ok(Verdict::Open) => {
                        self.undecided.push(Requested { request, from, data });
                        return self.schedule(self.transport.now() + LOOK, peer);
                    }
                    // A successor that came before its predecessor's end tries again.
                    Ok(Verdict::Refused) | Err(_) => {
                        return self.transport.reject(request, &Refusal::Unsaid.bytes());
                    }
                }
                crate::info!("ofi_rxm", Subsys::EpCtrl, "{address} has been started anew");
                self.give_up(rival, Errno::ECONNRESET);
            }
        }
        self.admit(request, peer, &parsed);
    }

    fn rival(&self, peer: PeerId) -> Option<(Handle, T::Conn)> {
        let rival = self.core.peers.get(peer)?.conn?;
        Some((rival, self.conns.get(rival)?.link))
    }

    /// Whether the endpoint asks itself for a connection.
    fn is_own(&self, request: &T::Request, address: T::Address) -> bool {
        let local = self.transport.local_of(request).ok();
        local.is_some_and(|local| self.core.own_end(local) == Some(address))
    }

    fn admit(&mut self, request: T::Request, peer: PeerId, parsed: &Request) {
        let Some(handle) = self.conns.next_handle() else {
            return self.transport.reject(request, &Refusal::Unsaid.bytes());
        };
        let answer = Acceptance {
            id: self.core.id_for(peer),
            receives: receives::<T>(),
            flow_control: FlowControl::Off,
            features: FEATURES,
        };
        match self.transport.accept(Token(handle.raw()), request, &answer.bytes()) {
            Ok(link) => {
                if parsed.features.and(FEATURES).transport {
                    self.transport.extend(link);
                }
                let mut conn = Conn::new(link, peer, State::Accepted);
                conn.theirs = parsed.id.index;
                conn.credits = credits::wanted::<T>(parsed.flow_control);
                let _ = self.conns.insert(conn);
                if let Some(target) = self.core.peers.get_mut(peer) {
                    // Of a connection to ourselves, the end that we opened is the one to send on.
                    if target.conn.is_none_or(|own| self.conns.get(own).is_none()) {
                        target.conn = Some(handle);
                    }
                    target.owner = parsed.id.owner;
                }
            }
            Err(reason) => {
                // Our own attempt may have given way to this one.
                if self.core.peers.get(peer).is_some_and(|target| target.conn.is_none()) {
                    self.not_reached(peer, reason, false);
                }
            }
        }
    }

    /// A connection is up.
    pub(super) fn connected(&mut self, token: Token, data: &[u8]) {
        let handle = Handle::from_raw(token.0);
        let Some(conn) = self.conns.get_mut(handle) else { return };
        if conn.state == State::Asked {
            let Some(answer) = Acceptance::parse(data) else {
                return self.give_up(handle, Errno::EPROTO);
            };
            conn.theirs = answer.id.index;
            conn.credits = credits::wanted::<T>(answer.flow_control);
            if answer.features.and(FEATURES).transport {
                self.transport.extend(conn.link);
            }
            if let Some(target) = self.core.peers.get_mut(conn.peer) {
                target.owner = answer.id.owner;
            }
        }
        conn.state = State::Open;
        if let Some(target) = self.core.peers.get_mut(conn.peer) {
            target.attempts.succeed();
            target.asking.end();
            if target.conn == Some(handle) {
                for work in &target.waiting {
                    if let Some(super::Work::Op(op)) = self.core.works.get_mut(*work) {
                        op.conn = Some(handle);
                    }
                }
                conn.queue.append(&mut target.waiting);
            }
        }
        self.give_credits(handle);
        self.pump(handle);
    }

    /// A connection could not be made.
    pub(super) fn refused(&mut self, token: Token, data: &[u8], reason: Errno, met: bool) {
        let handle = Handle::from_raw(token.0);
        let Some(conn) = self.conns.remove(handle) else { return };
        let peer = conn.peer;
        let Some(target) = self.core.peers.get_mut(peer) else { return };
        // Another connection to this peer may have come up meanwhile.
        if target.conn != Some(handle) {
            return;
        }
        target.conn = None;
        match Refusal::parse(data) {
            Refusal::Known if target.is_wanted() => {
                // It asks for a connection itself. Should nothing come of that, it is over.
                let at = target.attempts.yield_to_peer(self.transport.now());
                self.schedule(at, peer);
            }
            Refusal::Known => target.attempts.end(),
            Refusal::Refused => {
                let address = target.address;
                crate::warn!(
                    "ofi_rxm",
                    Subsys::EpCtrl,
                    "{address} refuses: it speaks another version, or has another FI_OFI_RXM_BUFFER_SIZE"
                );
                self.not_to_be_reached(peer, Errno::ECONNREFUSED);
            }
            Refusal::Unsaid => self.not_reached(peer, reason, met),
        }
    }

    /// Before a stranger becomes a peer: forgets others, if there are many.
    fn forget_peers(&mut self) {
        if !self.core.peers.is_crowded() {
            return;
        }
        let core = &mut self.core;
        let works = core.works.iter().map(|(_, work)| match work {
            super::Work::Op(op) => op.peer,
            super::Work::Transfer(transfer) => transfer.peer(),
        });
        let conns = self.conns.iter().map(|(_, conn)| conn.peer);
        let assemblies = core.assemblies.iter().map(|(_, assembly)| assembly.arrival.key.peer);
        core.peers.forget(works.chain(conns).chain(assemblies).chain(core.inbox.peers()));
    }
}

impl<T: Transport, L: Lock> Core<T, L> {
    /// What the endpoint says to a peer when it asks for a connection.
    fn request(&self, peer: PeerId) -> Option<Request> {
        Some(Request {
            port: self.peers.local?.port(),
            flow_control: FlowControl::Off,
            eager_limit: self.limits.eager,
            receives: receives::<T>(),
            id: self.id_for(peer),
            features: FEATURES,
        })
    }

    /// How a peer is to know its connection: by its own number here.
    const fn id_for(&self, peer: PeerId) -> ConnectionId {
        ConnectionId { owner: self.owner.get(), index: peer }
    }

    /// An end of a connection as the peer names its owner: endpoints that listen at all of a host's
    /// addresses have another one on each connection.
    fn own_end(&self, local: T::Address) -> Option<T::Address> {
        Some(local.with_port(self.peers.local?.port()).canonical())
    }

    /// Compares a peer with our end of a connection to it.
    fn contest(&self, peer: T::Address, local: T::Address) -> Ordering {
        self.own_end(local).map_or(Ordering::Greater, |own| peer.contest(own))
    }
}
