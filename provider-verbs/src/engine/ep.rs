//! HOT. An endpoint and its two lists of posted requests.

use std::{collections::VecDeque, fmt, sync::Arc};

use fabric_core::{
    Errno, Result,
    completion::{CqError, Entry, Interest, Report},
    engine::Stats,
    eq::{ErrorEvent, Event, EventQueue},
    flags::Flags,
    inet::SocketAddress,
    lock::SafeLock,
    slab::Handle,
};

use super::{
    Engine, id,
    layer::{Held, Link},
};
use crate::sys::{CmId, Pieces, QpCap, QpQueues, SendWork};

/// At most this part of the list is untold.
const UNTOLD: usize = 4;

/// What an endpoint keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpLimits {
    /// Requests of the sending side.
    pub(crate) sends: u32,
    /// Receives; none with a shared context.
    pub(crate) receives: u32,
    /// Pieces of a request.
    pub(crate) pieces: u32,
    /// Bytes of an inject, and of every request that carries them itself.
    pub(crate) inline: u32,
    /// Bytes of a message, a read or a write.
    pub(crate) message: usize,
    /// Writes may carry data for the peer's completion.
    pub(crate) data: bool,
}

impl EpLimits {
    /// Completions that may come at once.
    const fn entries(&self) -> u32 {
        // One more for the request that shows at the end that those before it are done.
        self.sends + self.receives + 1
    }

    pub(super) const fn cap(&self) -> QpCap {
        QpCap {
            sends: self.sends + 1,
            receives: self.receives,
            pieces: self.pieces,
            inline: self.inline,
        }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not asked for.
    Unconnected,
    /// The device is being looked for.
    Resolving,
    /// The way is being looked for.
    Routing,
    /// The peer has been asked, or answered.
    Asked,
    Connected,
    Ended,
}

/// An operation whose request the device has, or is about to get.
#[derive(Debug)]
pub(super) struct TxOp {
    pub(super) interest: Interest,
    /// Completion flags.
    pub(super) kind: Flags,
    pub(super) bytes: usize,
    /// The registered word that an old value comes back in.
    pub(super) result: Option<u32>,
    /// No operation of the application's, and what it holds.
    pub(super) held: Option<Held>,
}

impl TxOp {
    /// One of nobody's, that holds something until it has ended.
    pub(super) const fn held(held: Held) -> Self {
        Self {
            interest: Interest { context: 0, flags: Flags::empty(), silent: true },
            kind: Flags::empty(),
            bytes: 0,
            result: None,
            held: Some(held),
        }
    }
}

// Each is moved into the list and out of it.
const _: () = assert!(size_of::<TxOp>() <= 128);

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct RxOp {
    pub(super) context: usize,
    pub(super) flags: Flags,
}

/// The sending side's requests, in order.
#[derive(Debug, Default)]
pub(super) struct Sends {
    pub(super) list: VecDeque<TxOp>,
    /// The number of the first.
    pub(super) first: u32,
    /// Requests at the end of the list whose success the device will not tell of.
    pub(super) untold: usize,
    /// Requests at the end of the list that wait for others.
    pub(super) staged: Vec<SendWork>,
}

/// Receives, in order.
#[derive(Debug, Default)]
pub(super) struct Receives {
    pub(super) list: VecDeque<RxOp>,
    /// The number of the first.
    pub(super) first: u32,
    /// Those that the device gets as soon as there is a queue pair.
    pub(super) waiting: VecDeque<(Pieces, RxOp)>,
}

/// An endpoint.
pub(crate) struct Ep {
    pub(crate) report: Report<SafeLock>,
    pub(crate) limits: EpLimits,
    pub(crate) stats: Stats,
    /// How events name it.
    pub(crate) object: usize,
    pub(crate) local: Option<SocketAddress>,
    /// Data calls are accepted.
    pub(crate) enabled: bool,
    pub(super) eq: Option<Arc<EventQueue>>,
    pub(super) phase: Phase,
    pub(super) id: Option<CmId>,
    pub(super) peer: Option<SocketAddress>,
    /// What goes with the request for a connection.
    pub(super) greeting: Vec<u8>,
    pub(super) sends: Sends,
    pub(super) receives: Receives,
    /// The context that it receives from instead.
    pub(super) shared: Option<Handle>,
    /// What it has as a connection of the protocol above.
    pub(super) link: Option<Link>,
    /// The completion queue's place in the engine's list.
    queue: usize,
    /// A request has failed, and those behind it are on their way back.
    pub(super) failed: bool,
}

impl fmt::Debug for Ep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ep").field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl Ep {
    pub(super) fn tell(&self, event: Event) {
        if let Some(eq) = &self.eq {
            eq.push(event);
        }
    }

    pub(super) fn tell_error(&self, reason: Errno, status: i32, data: Vec<u8>) {
        let error = ErrorEvent {
            prov_errno: status,
            err_data: data.into(),
            ..ErrorEvent::new(self.object, 0, reason)
        };
        if let Some(eq) = &self.eq {
            eq.push_error(error);
        }
    }

    /// Whether requests of the sending side can be posted.
    #[inline]
    pub(super) fn connected(&self) -> Result<()> {
        match self.phase {
            _ if !self.enabled => Err(Errno::EOPBADSTATE),
            Phase::Connected if !self.failed => Ok(()),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// So many requests that the device does not tell of are behind the last that it does that the
    /// next one is to be told of: room comes back.
    #[inline]
    pub(super) const fn is_untold_enough(&self) -> bool {
        self.sends.untold >= self.limits.sends as usize / UNTOLD
    }

    /// The number that the next request of the sending side gets.
    #[inline]
    pub(super) fn next_send(&self) -> u32 {
        id::next(self.sends.first, self.sends.list.len())
    }

    /// The application is told how a receive has failed.
    pub(super) fn receive_failed(&self, op: &RxOp, kind: Flags, err: Errno, status: i32) {
        let entry = Entry::new(op.context, kind);
        let error = CqError { prov_errno: status, ..CqError::new(entry, err) };
        self.report.receive_failed(error);
    }

    /// The peer at the other end; `ENOTCONN` if there is none.
    pub(crate) fn peer(&self) -> Result<SocketAddress> {
        match self.phase {
            Phase::Connected => self.peer.ok_or(Errno::ENOTCONN),
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// The local address, as far as it is known.
    pub(crate) fn name(&self) -> Option<SocketAddress> {
        self.id.as_ref().and_then(CmId::local).or(self.local)
    }
}

impl Engine {
    /// Opens an endpoint that is not connected.
    pub(crate) fn open(
        &mut self,
        limits: EpLimits,
        local: Option<SocketAddress>,
    ) -> Result<Handle> {
        let queue = self.reserve(limits.entries())?;
        let ep = Ep {
            report: Report::new(),
            limits,
            stats: Stats::default(),
            object: 0,
            local,
            enabled: false,
            eq: None,
            phase: Phase::Unconnected,
            id: None,
            peer: None,
            greeting: Vec::new(),
            sends: Sends::default(),
            receives: Receives::default(),
            shared: None,
            link: None,
            queue,
            failed: false,
        };
        self.eps.insert(ep).map_err(|ep| {
            self.queues[ep.queue].reserved -= ep.limits.entries();
            Errno::EMFILE
        })
    }

    /// Ends an endpoint. The device touches none of its memory any more when this returns.
    pub(crate) fn close(&mut self, handle: Handle) {
        self.remove(handle);
        // Drivers may leave its completions in the queue, where they would take the room of others.
        self.poll();
    }

    /// The same while completions are taken in, whose order counts.
    pub(super) fn remove(&mut self, handle: Handle) {
        let Some(mut ep) = self.eps.remove(handle) else { return };
        if let Some(number) = ep.id.as_ref().and_then(CmId::qp_number) {
            self.by_qp.remove(&number);
        }
        self.deadlines.retain(|(_, owner)| *owner != handle);
        self.staged.retain(|owner| *owner != handle);
        // The queue pair goes with it.
        drop(ep.id.take());
        self.queues[ep.queue].reserved -= ep.limits.entries();
        for op in ep.sends.list {
            if let (Some(word), Some(words)) = (op.result, &mut self.words) {
                words.give_back(word, false);
            }
            if let Some(layer) = &mut self.layer
                && let Some(held) = op.held
            {
                layer.let_go(held, false);
            }
        }
    }

    /// What queue pairs of an endpoint are made with.
    pub(super) fn queues_of(&self, ep: &Ep) -> Result<QpQueues> {
        let srq = match ep.shared {
            Some(context) => {
                Some(self.shared.get(context).ok_or(Errno::EOPBADSTATE)?.queue.clone())
            }
            None if ep.link.is_some() => self.layer_queue(),
            None => None,
        };
        Ok(QpQueues { pd: self.pd.clone(), cq: self.queues[ep.queue].cq.clone(), srq })
    }

    /// Requests of an endpoint that the application believes done, and that may not have left.
    pub(crate) fn owes(&self, handle: Handle) -> usize {
        match self.eps.get(handle) {
            Some(ep) if ep.connected().is_ok() => ep.sends.list.len(),
            _ => 0,
        }
    }
}
