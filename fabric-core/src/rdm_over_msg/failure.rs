//! PENDING. The end of a connection: everything that depends on it completes now, with the reason.

use super::{
    Address, Core, Engine, State, Token, Transport, Work,
    receive::Body,
    segments::Target,
    transmit::{Phase, TxOp},
};
use crate::{Errno, lock::Lock, log::Subsys, matching::PeerId, slab::Handle};

impl<T: Transport, L: Lock> Engine<T, L> {
    /// The transport has ended a connection.
    pub(super) fn ended(&mut self, token: Token, reason: Errno) {
        self.down(Handle::from_raw(token.0), reason);
    }

    /// Ends a connection ourselves.
    #[cold]
    pub(super) fn give_up(&mut self, handle: Handle, reason: Errno) {
        let Some(conn) = self.conns.get(handle) else { return };
        self.transport.end(conn.link);
        self.down(handle, reason);
    }

    #[cold]
    fn down(&mut self, handle: Handle, reason: Errno) {
        let Some(conn) = self.conns.remove(handle) else { return };
        self.paused.retain(|paused| *paused != handle);
        let peer = conn.peer;
        if let Some(target) = self.core.peers.get_mut(peer) {
            if target.conn == Some(handle) {
                (target.conn, target.owner) = (None, 0);
            }
            if reason == Errno::ETIMEDOUT && conn.state == State::Open {
                let address = target.address;
                crate::warn!("ofi_rxm", Subsys::EpCtrl, "{address} is dead: {reason}");
            }
        }
        let of_conn = |work: &Work<T>| match work {
            Work::Op(op) => op.conn == Some(handle),
            Work::Transfer(transfer) => transfer.conn == handle,
        };
        let works: Vec<Handle> = self
            .core
            .works
            .iter()
            .filter(|(_, work)| of_conn(work))
            .map(|(handle, _)| handle)
            .collect();
        for work in works {
            match self.core.works.get(work) {
                Some(Work::Op(_)) => {
                    self.core.close_exposure(&mut self.transport, work);
                    self.core.finish(work, Err(reason));
                }
                Some(Work::Transfer(_)) => {
                    self.core.end_transfer(&mut self.transport, work, Err(reason));
                }
                None => {}
            }
        }
        for (_, assembly) in conn.assembling {
            self.core.drop_assembly(assembly, reason);
        }
        self.core.peer_down(peer, Some(handle), reason);
        // What waits for an accepted connection that never came up goes to the next one.
        if self.core.peers.get(peer).is_some_and(|p| p.conn.is_none() && p.is_wanted()) {
            self.reach(peer);
        }
    }

    /// Takes back what was posted with `context` and has not begun. Nothing found is fine, too: the
    /// operation's own completion is there or on its way.
    pub(crate) fn cancel(&mut self, context: usize) {
        let core = &mut self.core;
        if core.inbox.cancel(&mut core.report, context) {
            return;
        }
        let waits = |op: &TxOp<T>| {
            op.queued
                && matches!(op.phase, Phase::Waiting)
                && op.interest.context == context
                && !op.interest.silent
        };
        let found = core.works.iter().find_map(|(handle, work)| match work {
            Work::Op(op) if waits(op) => Some(handle),
            _ => None,
        });
        if let Some(handle) = found {
            core.finish(handle, Err(Errno::ECANCELED));
        }
    }

    /// Messages and operations that the application believes sent and that have not left yet.
    pub(crate) fn owes(&mut self) -> usize {
        let injected = self.core.works.iter().filter(|(_, work)| match work {
            Work::Op(op) => op.is_owed(),
            Work::Transfer(_) => false,
        });
        let answers: usize = self.conns.iter().map(|(_, conn)| conn.answers.len()).sum();
        self.transport.owes() + injected.count() + answers
    }

    /// Ends the endpoint: its connections close, its operations are dropped.
    pub(crate) fn close(&mut self) {
        self.transport.close();
        for (_, work) in self.core.works.drain() {
            if let Work::Op(TxOp { phase: Phase::Announced(announced), .. }) = work {
                self.transport.withdraw(announced.exposure);
            } else if let Work::Transfer(mut transfer) = work
                && let Some(exposure) = transfer.take_exposure()
            {
                self.transport.withdraw(exposure);
            }
        }
        self.conns.drain().for_each(drop);
        self.core.assemblies.drain().for_each(drop);
        self.core.inbox.clear();
        self.core.report.clear();
        self.core.peers = super::Peers::default();
        self.paused.clear();
        self.listed.clear();
        self.requests.clear();
        self.undecided.clear();
        self.events.clear();
    }
}

impl<T: Transport, L: Lock> Core<T, L> {
    /// No more segments of a message will come.
    fn drop_assembly(&mut self, handle: Handle, reason: Errno) {
        let Some(assembly) = self.assemblies.remove(handle) else { return };
        match assembly.target {
            Target::Receive(receive) => self.received(&receive, &assembly.arrival, Err(reason)),
            Target::Keep(bytes) => self.let_go(assembly.arrival.key.peer, bytes.len(), 0),
            Target::Drop => {}
        }
    }

    /// Nobody else can satisfy receives that name this peer, and what was to come on a connection is
    /// gone.
    pub(super) fn peer_down(&mut self, peer: PeerId, conn: Option<Handle>, reason: Errno) {
        let Some(target) = self.peers.get(peer) else { return };
        let address = target.address.to_bytes();
        let src = self.source(peer);
        let assemblies = &self.assemblies;
        let gone = std::cell::Cell::new(0);
        let keep = |body: &Body<T>| {
            let keep = match body {
                Body::Here(_) => true,
                Body::Assembling(handle) => assemblies.get(*handle).is_some(),
                Body::Announced { conn: of, .. } => Some(*of) != conn,
            };
            gone.set(gone.get() + usize::from(!keep));
            keep
        };
        self.inbox.peer_down(&mut self.report, peer, src, reason, &address, keep);
        self.let_go(peer, 0, gone.get());
    }
}
