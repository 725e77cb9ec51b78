//! PENDING. Connections of reliable datagram endpoints: opened on demand, one for each pair.

use std::time::Duration;

use fabric_core::{
    Errno, Result, lock::Lock, log::Subsys, matching::PeerId, shortage::explained, slab::Handle,
};

use super::{
    Core, Engine, LISTENER,
    conn::{Conn, State},
    failed::Failed,
    handshake::send_whole,
    timers::Due,
};
use crate::{
    address::SocketAddress,
    net::{Accepted, Net, REST, Stream, not_accepted},
};

/// Connections taken in one progress call.
const ACCEPTS: usize = 64;

impl<L: Lock, N: Net> Engine<L, N> {
    /// Starts to listen for an endpoint.
    pub(crate) fn listen(&mut self, ep: Handle) -> Result<()> {
        self.bind(ep)?;
        self.net.listen(ep.raw() ^ LISTENER)
    }

    /// Takes the endpoint's address, so that its port is known.
    fn bind(&mut self, ep: Handle) -> Result<SocketAddress> {
        let state = self.core.eps.get_mut(ep).ok_or(Errno::EOPBADSTATE)?;
        let local = state.local.ok_or(Errno::EADDRNOTAVAIL)?;
        let local = self.net.bind(local.get())?.into();
        state.local = Some(local);
        Ok(local)
    }

    /// The endpoint's own address: where it listens, or its end of the connection.
    pub(crate) fn name(&mut self, ep: Handle) -> Result<SocketAddress> {
        let state = self.core.eps.get(ep).ok_or(Errno::EOPBADSTATE)?;
        if state.msg.is_none() {
            return self.bind(ep);
        }
        let conn = state.peers.first().and_then(|peer| self.conns.get(peer.conn?));
        match conn {
            Some(conn) => conn.stream.local().map(SocketAddress::from),
            None => state.local.ok_or(Errno::EADDRNOTAVAIL),
        }
    }

    /// Begins to connect to a peer, unless that is under way.
    pub(super) fn reach(&mut self, ep: Handle, peer: PeerId) {
        let now = self.net.now();
        let Some(state) = self.core.eps.get_mut(ep) else { return };
        let Some(local) = state.local else { return };
        let patience = state.limits.connect;
        let Some(target) = state.peers.get_mut(peer as usize) else { return };
        if target.conn.is_some() {
            return;
        }
        let Some(give_up) = target.attempts.begin(now, patience) else { return };
        let to = target.address;
        let outcome = self.net.connect(Some(local.get()), to.get()).and_then(|stream| {
            let mut conn = Conn::new(stream, ep, peer, State::Connecting);
            (conn.begun, conn.deadline) = (Some(now), Some(give_up));
            self.adopt(conn)
        });
        match outcome {
            Ok(handle) => {
                if let Some(target) = self.core.peer_mut(ep, peer) {
                    target.conn = Some(handle);
                }
                self.schedule(give_up, Due::Handshake(handle));
            }
            Err(reason) => self.not_reached(ep, peer, Failed::at_once(reason)),
        }
    }

    /// Takes a connection into the table and has it watched.
    pub(super) fn adopt(&mut self, mut conn: Conn<N::Stream>) -> Result<Handle> {
        let handle = self.conns.next_handle().ok_or(Errno::EMFILE)?;
        conn.watched = conn.interest();
        self.net.watch(&conn.stream, handle.raw(), conn.watched)?;
        self.conns.insert(conn).map_err(|_| Errno::EMFILE)
    }

    /// An attempt to reach a peer has failed: another one later, or the end of what waits for it.
    pub(super) fn not_reached(&mut self, ep: Handle, peer: PeerId, failed: Failed) {
        if self.core.refused(ep, failed) {
            return;
        }
        let reason = failed.reason;
        let now = self.net.now();
        let Some(state) = self.core.eps.get_mut(ep) else { return };
        let (local, patience) = (state.local, state.limits.connect);
        let Some(target) = state.peers.get_mut(peer as usize) else { return };
        target.conn = None;
        if target.waiting.is_empty() && !target.asking.is_pending() {
            target.attempts_end();
            return;
        }
        let port = target.address.port();
        if let Some(at) = target.attempts.fail(now, patience, reason, failed.met(), port) {
            self.schedule(at, Due::Again(ep, peer));
            return;
        }
        target.asking.fail(reason, now);
        target.attempts_end();
        let address = target.address;
        let waiting = std::mem::take(&mut target.waiting);
        if let Some(local) = local {
            fabric_core::warn_few!(
                "tcp",
                Subsys::EpCtrl,
                "{address} cannot be reached from {local}: {}",
                failed.words(address)
            );
        }
        for op in waiting {
            self.core.finish(op, Err(reason));
        }
        // Nobody else can satisfy receives that name it.
        self.core.peer_down(ep, peer, None, reason);
    }

    /// The socket of a connection of ours is connected, or is not.
    pub(super) fn connected(&mut self, handle: Handle) {
        let now = self.net.now();
        let Some(conn) = self.conns.get_mut(handle) else { return };
        match self.net.outcome(&conn.stream) {
            Ok(()) => {}
            Err(Errno::EAGAIN) => return,
            Err(reason) => return self.down(handle, reason),
        }
        conn.seen_up(now);
        let state = self.core.eps.get(conn.ep);
        let patience = state.map_or(Duration::ZERO, |ep| ep.limits.connect);
        let connected = state.is_some_and(|ep| ep.msg.is_some());
        let request = match &mut conn.layer {
            Some(layer) => layer.request(),
            None => self.core.request(conn.ep),
        };
        let sent = request.and_then(|request| send_whole(&mut conn.stream, &request));
        if let Err(reason) = sent {
            return self.down(handle, reason);
        }
        conn.state = State::Requested;
        // Whoever we have connected to may take longer to answer: it is alive as long as its kernel
        // is, and computes. That it does not answer is said, though. Of a connected endpoint the time
        // runs on, unless it was not looked at.
        if !connected || conn.late {
            conn.deadline = Some(now + patience);
            self.schedule(now + patience, Due::Handshake(handle));
        }
        if !self.looking {
            self.watch_over();
        }
        self.rewatch(handle);
    }

    /// Takes what peers have opened.
    pub(super) fn accept(&mut self, ep: Handle) {
        let Some(patience) = self.core.eps.get(ep).map(|ep| ep.limits.connect) else { return };
        for _ in 0..ACCEPTS {
            match self.net.accept() {
                Ok(Accepted { stream, peer }) => {
                    let mut conn = Conn::new(stream, ep, PeerId::MAX, State::Accepted);
                    conn.from = Some(peer.into());
                    let deadline = self.net.now() + patience;
                    conn.deadline = Some(deadline);
                    match self.adopt(conn) {
                        Ok(handle) => self.schedule(deadline, Due::Handshake(handle)),
                        Err(reason) => fabric_core::warn_few!(
                            "tcp",
                            Subsys::EpCtrl,
                            "{peer} is turned away: {}",
                            explained(reason)
                        ),
                    }
                }
                Err(Errno::EAGAIN) => return,
                Err(Errno::EMFILE) => fabric_core::warn_few!(
                    "tcp",
                    Subsys::EpCtrl,
                    "a peer is turned away: {}",
                    explained(Errno::EMFILE)
                ),
                Err(reason) => {
                    not_accepted(reason);
                    self.net.watch_listener(ep.raw() ^ LISTENER, false);
                    self.schedule(self.net.now() + REST, Due::Listener(ep));
                    return;
                }
            }
        }
    }
}

impl super::Peer {
    /// Nobody wants to reach it any more.
    const fn attempts_end(&mut self) {
        self.attempts.end();
        self.asking.end();
    }
}

impl<L: Lock> Core<L> {
    pub(super) fn peer_mut(&mut self, ep: Handle, peer: PeerId) -> Option<&mut super::Peer> {
        self.eps.get_mut(ep)?.peers.get_mut(peer as usize)
    }
}
