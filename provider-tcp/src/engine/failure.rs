//! PENDING. The end of a connection: everything that depends on it completes now, with the reason.

use fabric_core::{Errno, lock::Lock, matching::PeerId, slab::Handle};

use super::{
    Body, Core, Engine,
    conn::{Conn, Phase, Sink, State},
};
use crate::net::{Net, Stream};

impl<L: Lock, N: Net> Engine<L, N> {
    /// Ends a connection.
    #[cold]
    pub(super) fn down(&mut self, handle: Handle, reason: Errno) {
        let Some(conn) = self.conns.remove(handle) else { return };
        self.hot.retain(|hot| *hot != handle);
        let (ep, peer, state) = (conn.ep, conn.peer, conn.state);
        if let Some(state) = self.core.eps.get_mut(ep) {
            state.stalled.retain(|stalled| *stalled != handle);
        }
        match state {
            // Nobody knows of it yet.
            State::Accepted => {}
            State::Connecting | State::Requested => {
                // Another connection to this peer may have come up meanwhile.
                let own = self.core.peer_mut(ep, peer).is_some_and(|p| p.conn == Some(handle));
                if own {
                    self.not_reached(ep, peer, reason, state == State::Requested);
                }
            }
            State::Open => {
                if let Some(target) = self.core.peer_mut(ep, peer)
                    && target.conn == Some(handle)
                {
                    target.conn = None;
                    target.nonce = 0;
                }
                self.core.cut(handle, conn, reason);
                self.core.disconnected(ep);
            }
        }
    }

    /// Takes back what was posted with `context` and has not begun. Nothing found is fine, too: the
    /// operation's own completion is there or on its way.
    pub(crate) fn cancel(&mut self, ep: Handle, context: usize) {
        let Some(state) = self.core.eps.get_mut(ep) else { return };
        if state.inbox.cancel(&mut state.report, context) {
            return;
        }
        let found = self.core.ops.iter().find(|(_, op)| {
            op.ep == ep && op.queued && op.interest.context == context && !op.interest.silent
        });
        if let Some((handle, _)) = found {
            self.core.finish(handle, Err(Errno::ECANCELED));
        }
    }

    /// Whether bytes that the application believes sent have not left yet.
    pub(crate) fn owes(&self) -> usize {
        let staged: usize = self.conns.iter().map(|(_, conn)| conn.tx.staged()).sum();
        let injected = self.core.ops.iter().filter(|(_, op)| op.is_injected()).count();
        staged + injected
    }

    /// Ends an endpoint: its connections close, its operations are dropped.
    pub(crate) fn close(&mut self, ep: Handle) {
        let own: Vec<Handle> =
            self.conns.iter().filter(|(_, conn)| conn.ep == ep).map(|(handle, _)| handle).collect();
        for handle in own {
            if let Some(mut conn) = self.conns.remove(handle) {
                // Unread bytes would make the kernel throw away what is still to be delivered.
                conn.stream.finish();
            }
            self.hot.retain(|hot| *hot != handle);
        }
        let dropped: Vec<Handle> =
            self.core.ops.iter().filter(|(_, op)| op.ep == ep).map(|(handle, _)| handle).collect();
        for op in dropped {
            self.core.ops.remove(op);
        }
        if self.core.eps.remove(ep).is_some_and(|ep| ep.msg.is_none()) {
            self.net.stop_listening();
        }
    }
}

impl<L: Lock> Core<L> {
    /// Completes what depended on an open connection.
    fn cut<S>(&mut self, handle: Handle, conn: Conn<S>, reason: Errno) {
        for op in conn.operations() {
            self.finish(op, Err(reason));
        }
        let Some(ep) = self.eps.get_mut(conn.ep) else { return };
        match conn.rx.phase {
            Phase::Payload { sink: Sink::Receive { receive, arrival, .. }, .. } => {
                ep.complete(&receive, &arrival, Err(reason));
            }
            Phase::Payload { sink: Sink::Keep { arrival, .. }, .. } => {
                ep.let_go(conn.peer, arrival.len);
            }
            _ => {}
        }
        for (_, asked) in conn.asked {
            if let Some(receive) = asked.receive {
                ep.complete(&receive, &asked.arrival, Err(reason));
            }
        }
        self.peer_down(conn.ep, conn.peer, handle, reason);
    }

    /// Nobody else can satisfy receives that name this peer, and what it had announced is gone.
    fn peer_down(&mut self, ep: Handle, peer: PeerId, conn: Handle, reason: Errno) {
        let Some(state) = self.eps.get_mut(ep) else { return };
        let Some(target) = state.peers.get(peer as usize) else { return };
        let address = target.address.to_bytes();
        let src = state.source(peer);
        let keep = |body: &Body| !matches!(body, Body::Announced { conn: of, .. } if *of == conn);
        state.inbox.peer_down(&mut state.report, peer, src, reason, &address, keep);
    }
}
