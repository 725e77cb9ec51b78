//! PENDING. A peer has ended: everything that depends on it completes now, with the reason.

use super::{
    Core, Engine, TxOp,
    receive::Body,
    rendezvous::{Transfer, TransferKind},
};
use crate::{
    Errno,
    completion::{CqError, Entry},
    flags::Flags,
    lock::Lock,
    matching::PeerId,
    slab::Handle,
    wire::Wire,
};

impl<L: Lock> Core<L> {
    /// Drains everything that waits for `peer`. Messages that have arrived whole stay.
    pub(super) fn peer_down<W: Wire>(&mut self, wire: &W, peer: PeerId, reason: Errno) {
        let address = wire.address(peer).to_vec();
        let state = self.peer_mut(peer);
        state.control.clear();
        state.streams.clear();
        state.queue.clear();

        let failed: Vec<Handle> =
            self.ops.iter().filter(|(_, op)| op.peer == peer).map(|(handle, _)| handle).collect();
        for handle in failed {
            self.finish_down(handle, reason, &address);
        }

        let cut: Vec<Handle> = self
            .transfers
            .iter()
            .filter(|(_, transfer)| transfer.peer == peer)
            .map(|(handle, _)| handle)
            .collect();
        for handle in cut {
            if let Some(Transfer { kind: TransferKind::Message { receive, arrival, .. }, .. }) =
                self.transfers.remove(handle)
            {
                self.complete_receive(&receive, &arrival, Err(reason));
            }
        }
        let served: Vec<Handle> = self
            .services
            .iter()
            .filter(|(_, service)| service.peer == peer)
            .map(|(handle, _)| handle)
            .collect();
        for handle in served {
            self.services.remove(handle);
        }

        // Nobody else can satisfy receives that name this peer, and offers died with it.
        let src = self.source(peer);
        self.inbox.peer_down(&mut self.report, peer, src, reason, &address, |body| {
            matches!(body, Body::Here(..))
        });

        let state = self.peer_mut(peer);
        state.outstanding = 0;
        state.large_reads = 0;
        state.large_writes = 0;
        state.pressed = false;
    }

    fn finish_down(&mut self, handle: Handle, reason: Errno, address: &[u8]) {
        let Some(op) = self.ops.remove(handle) else { return };
        self.queued -= usize::from(op.queued);
        let entry =
            Entry { src: self.source(op.peer), ..Entry::new(op.interest.context, op.kind.flags()) };
        self.report.send_failed(CqError::new(entry, reason).data(address));
    }
}

impl<L: Lock> Core<L> {
    /// Operations that the application believes done, and answers, that have not left yet.
    pub(crate) fn owed(&self) -> usize {
        let injected = |op: &TxOp| op.interest.silent || op.interest.flags.contains(Flags::INJECT);
        let answers: usize = self.peers.iter().map(|peer| peer.control.len()).sum();
        answers + self.ops.iter().filter(|(_, op)| injected(op)).count()
    }
}

impl<W: Wire, L: Lock> Engine<W, L> {
    /// Takes back what was posted with `context` and has not begun. Nothing found is fine, too:
    /// the operation's own completion is there or on its way.
    pub(crate) fn cancel(&mut self, context: usize) {
        let core = &mut self.core;
        if !core.inbox.cancel(&mut core.report, context) {
            core.cancel_queued(context);
        }
    }

    /// Drops everything: the endpoint is closing.
    pub(crate) fn drop_all(&mut self) {
        self.core.ops.drain().for_each(drop);
        self.core.queued = 0;
        self.core.transfers.drain().for_each(drop);
        self.core.services.drain().for_each(drop);
        self.core.pulls.clear();
        self.core.inbox.clear();
        self.core.peers.clear();
        self.core.blocked.clear();
        self.core.report.clear();
        self.core.routes = Default::default();
    }
}
