//! PENDING. The end of a connection: everything that depends on it completes now, with the reason.

use std::collections::BTreeMap;

use fabric_core::{Errno, lock::Lock, slab::Handle};

use super::{
    Core, Engine, Identity,
    conn::{Asked, Conn, Phase, Sink, State},
};
use crate::{
    frame::head::RtsIndex,
    net::{Net, Stream},
};

impl<L: Lock, N: Net> Engine<L, N> {
    /// Ends a connection.
    #[cold]
    pub(super) fn down(&mut self, handle: Handle, reason: Errno) {
        let Some(conn) = self.conns.remove(handle) else { return };
        self.hot.retain(|hot| *hot != handle);
        self.withdraw_claim(conn.claim);
        let (ep, peer, state) = (conn.ep, conn.peer, conn.state);
        if let Some((_, context)) = self.core.receiver(ep) {
            context.stalled.retain(|stalled| *stalled != handle);
        }
        if let Some(layer) = &conn.layer
            && state != State::Open
        {
            return self.core.layer_refused(layer, conn.failed(reason));
        }
        match state {
            // Nobody knows of it yet.
            State::Accepted | State::Waiting => {}
            State::Connecting | State::Requested => {
                // Another connection to this peer may have come up meanwhile.
                let own = self.core.peer_mut(ep, peer).is_some_and(|p| p.conn == Some(handle));
                if own {
                    self.not_reached(ep, peer, conn.failed(reason));
                }
            }
            State::Open => {
                if let Some(target) = self.core.peer_mut(ep, peer)
                    && target.conn == Some(handle)
                {
                    target.conn = None;
                    target.identity = Identity::default();
                }
                let layer = conn.layer.as_ref().map(|layer| layer.token);
                self.core.cut(handle, conn, reason);
                self.core.disconnected(ep);
                self.core.layer_ended(layer, reason);
            }
        }
    }

    /// Bytes and operations that the application of an endpoint believes sent and that have not left
    /// yet.
    pub(crate) fn owes(&self, ep: Handle) -> usize {
        let own = self.conns.iter().filter(|(_, conn)| conn.ep == ep);
        let staged: usize = own.map(|(_, conn)| conn.tx.staged()).sum();
        let own = self.core.ops.iter().filter(|(_, op)| op.ep == ep);
        let injected = own.filter(|(_, op)| op.is_injected() && !op.is_staged());
        let injected = injected.count();
        staged + injected
    }

    /// Ends an endpoint: its connections close, its operations are dropped.
    pub(crate) fn close(&mut self, ep: Handle) {
        let own: Vec<Handle> =
            self.conns.iter().filter(|(_, conn)| conn.ep == ep).map(|(handle, _)| handle).collect();
        let mut ended = Vec::with_capacity(own.len());
        for handle in own {
            if let Some(mut conn) = self.conns.remove(handle) {
                // Unread bytes would make the kernel throw away what is still to be delivered.
                conn.stream.finish();
                ended.push(conn);
            }
            self.hot.retain(|hot| *hot != handle);
            if let Some((_, context)) = self.core.receiver(ep) {
                context.stalled.retain(|stalled| *stalled != handle);
            }
        }
        self.core.leave_context(ep, ended);
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
    fn cut<S>(&mut self, handle: Handle, mut conn: Conn<S>, reason: Errno) {
        for op in conn.operations() {
            self.finish(op, Err(reason));
        }
        self.fail_leaving(&mut conn, reason);
        self.cut_receives(conn.ep, conn.rx.phase, conn.asked, reason);
        self.peer_down(conn.ep, conn.peer, Some(handle), reason);
    }

    /// Ends the receives that messages of a connection have taken.
    pub(super) fn cut_receives(
        &mut self,
        ep: Handle,
        phase: Phase,
        asked: BTreeMap<RtsIndex, Asked>,
        reason: Errno,
    ) {
        match phase {
            Phase::Payload { sink: Sink::Receive { receive, arrival, .. }, .. } => {
                self.received(ep, &receive, &arrival, Err(reason));
            }
            Phase::Payload { sink: Sink::Keep { arrival, .. }, .. } => {
                self.let_go(ep, arrival.key, arrival.len);
            }
            _ => {}
        }
        for asked in asked.into_values() {
            if let Some(receive) = asked.receive {
                self.received(ep, &receive, &asked.arrival, Err(reason));
            }
        }
    }
}
