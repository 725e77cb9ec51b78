//! PENDING. Connected endpoints: one connection in a life, asked for or accepted, and the events that
//! tell of it (`fi_cm(3)`).
//!
//! | asking                                        | accepting                          |
//! |-----------------------------------------------|------------------------------------|
//! | resolve the address, which finds the device   | the request comes with its device  |
//! | resolve the route                             |                                    |
//! | make the queue pair, post receives            | make the queue pair, post receives |
//! | connect                                       | accept                             |
//! | established: `Connected`, or rejected         | established: `Connected`           |
//!
//! Receives are posted before the peer can know of the queue pair, so that its first message finds
//! them. Each connection has one deadline for all of its steps.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    eq::{Event, EventQueue},
    flags::Flags,
    inet::SocketAddress,
    log::Subsys,
    param::known,
    slab::Handle,
};

use super::{Engine, ep::Phase};
use crate::{
    NAME,
    sys::{
        CmEvent, CmId, ConnParam,
        cm_abi::{
            RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR,
            RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_ESTABLISHED,
            RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_ROUTE_RESOLVED,
            RDMA_CM_EVENT_UNREACHABLE,
        },
    },
};
use fabric_core::rdm_over_msg as layer;

/// Bytes that an application may send along: what a request has room for, less the byte that says how
/// many there are. The connection manager pads with zeros.
pub(crate) const DATA_MAX: usize = 55;
/// What each step of the kernel's may take.
const STEP_MS: i32 = 2000;
/// How often the device repeats what is not answered: the most that there is.
const RETRIES: u8 = 7;
/// How often it repeats what finds no receive: a peer that computes is not dead.
const WITHOUT_END: u8 = 7;

/// The application's words with their length in front.
pub(crate) fn private_data(data: &[u8]) -> Result<Vec<u8>> {
    if data.len() > DATA_MAX {
        return Err(Errno::EINVAL);
    }
    let mut all = Vec::with_capacity(1 + data.len());
    all.push(data.len() as u8);
    all.extend_from_slice(data);
    Ok(all)
}

/// The words in what a peer has sent. It may have sent nothing, or say that it has sent more than it
/// has.
pub(crate) fn parse_data(all: &[u8]) -> Vec<u8> {
    match all.split_first() {
        Some((len, data)) => data[..data.len().min(usize::from(*len))].to_vec(),
        None => Vec::new(),
    }
}

/// What a peer's request leaves of the own limits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reads {
    /// Reads and atomic operations in flight.
    pub(crate) own: u8,
    /// Those of the peer's that are served at a time.
    pub(crate) served: u8,
}

impl Engine {
    fn param(&self, data: Vec<u8>, reads: Option<Reads>) -> ConnParam {
        let limits = &self.device.limits;
        let peer = reads.unwrap_or(Reads { own: u8::MAX, served: u8::MAX });
        ConnParam {
            data,
            serves: limits.serves.min(peer.served),
            reads: limits.reads.min(peer.own),
            retries: RETRIES,
            rnr_retries: WITHOUT_END,
        }
    }

    /// Asks a peer for a connection. The outcome is an event.
    pub(crate) fn connect(
        &mut self,
        handle: Handle,
        to: SocketAddress,
        data: &[u8],
        eq: Option<Arc<EventQueue>>,
        patience: Duration,
    ) -> Result<()> {
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        if ep.phase != Phase::Unconnected {
            return Err(Errno::EINVAL);
        }
        let greeting = private_data(data)?;
        let id = CmId::new(&self.cm, handle.raw())?;
        let from = ep.local.filter(|from| from.family() == to.family() && !from.is_wildcard());
        let resolving = id.resolve_address(from, to, STEP_MS);
        ep.id = Some(id);
        (ep.eq, ep.greeting, ep.peer) = (eq, greeting, Some(to));
        ep.phase = Phase::Resolving;
        self.expect(handle, patience);
        if let Err(reason) = resolving {
            self.refused(handle, reason, reason.get(), &[]);
        }
        Ok(())
    }

    /// Accepts a request. `Err`: it is given up, and the endpoint stays as it was.
    pub(crate) fn accept(
        &mut self,
        handle: Handle,
        mut id: CmId,
        reads: Reads,
        data: &[u8],
        eq: Option<Arc<EventQueue>>,
        patience: Duration,
    ) -> Result<()> {
        let ep = self.eps.get(handle).ok_or(Errno::EOPBADSTATE)?;
        if ep.phase != Phase::Unconnected {
            return Err(Errno::EINVAL);
        }
        let param = self.param(private_data(data)?, Some(reads));
        id.migrate(&self.cm, handle.raw())?;
        id.create_qp(&self.queues_of(ep)?, &ep.limits.cap()).map_err(|reason| self.told(reason))?;
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        ep.peer = id.peer();
        ep.id = Some(id);
        (ep.eq, ep.phase) = (eq, Phase::Asked);
        self.expect(handle, patience);
        let begun = self.ready_to_receive(handle).and_then(|()| {
            let id = self.eps.get(handle).and_then(|ep| ep.id.as_ref());
            id.ok_or(Errno::EOPBADSTATE)?.accept(&param)
        });
        if let Err(reason) = begun {
            self.refused(handle, reason, reason.get(), &[]);
        }
        Ok(())
    }

    /// Ends a connection. The peer is told.
    pub(crate) fn shutdown(&mut self, handle: Handle) -> Result<()> {
        self.flush();
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        match ep.phase {
            // The peer was first; programs that answer its event with a shutdown are no different.
            Phase::Ended => Ok(()),
            Phase::Connected => {
                ep.phase = Phase::Ended;
                ep.id.as_ref().ok_or(Errno::ENOTCONN)?.disconnect()
            }
            _ => Err(Errno::ENOTCONN),
        }
    }

    /// Why there is no queue pair.
    #[cold]
    fn told(&self, reason: Errno) -> Errno {
        let name = &self.device.name;
        match reason {
            Errno::EDOMAIN => fabric_core::warn!(
                NAME,
                Subsys::EpCtrl,
                "the peer is not reached over {name}, which the domain is of, but another device"
            ),
            _ => fabric_core::warn!(
                NAME,
                Subsys::EpCtrl,
                "{name} gives no queue pair: {reason}{}",
                crate::mr::memlock_hint(reason)
            ),
        }
        reason
    }

    /// Gives the device the receives that have waited for the queue pair, which completions name from
    /// now on.
    fn ready_to_receive(&mut self, handle: Handle) -> Result<()> {
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        let number = ep.id.as_ref().and_then(CmId::qp_number).ok_or(Errno::EOPBADSTATE)?;
        self.by_qp.insert(number, handle);
        while let Some((pieces, op)) = ep.receives.waiting.front().copied() {
            ep.post_recv(handle, pieces, op)?;
            ep.receives.waiting.pop_front();
        }
        Ok(())
    }

    /// Takes an event in. Events of identifiers that are gone name nothing.
    pub(super) fn connection_event(&mut self, event: CmEvent) {
        if event.request.is_some() {
            self.listener_event(event);
            return;
        }
        let handle = Handle::from_raw(event.word);
        let Some(ep) = self.eps.get_mut(handle) else { return };
        match event.kind {
            RDMA_CM_EVENT_ADDR_RESOLVED if ep.phase == Phase::Resolving => {
                ep.phase = Phase::Routing;
                let step =
                    ep.id.as_ref().map_or(Err(Errno::EOPBADSTATE), |id| id.resolve_route(STEP_MS));
                self.next_step(handle, step);
            }
            RDMA_CM_EVENT_ROUTE_RESOLVED if ep.phase == Phase::Routing => {
                ep.phase = Phase::Asked;
                let step = self.ask(handle);
                self.next_step(handle, step);
            }
            RDMA_CM_EVENT_ESTABLISHED if ep.phase == Phase::Asked => self.up(handle, &event.data),
            RDMA_CM_EVENT_DISCONNECTED => self.down(handle),
            RDMA_CM_EVENT_DEVICE_REMOVAL => self.lost(handle, Errno::ENODEV),
            RDMA_CM_EVENT_REJECTED => {
                let data = parse_data(&event.data);
                self.refused(handle, Errno::ECONNREFUSED, event.status, &data);
            }
            RDMA_CM_EVENT_ADDR_ERROR
            | RDMA_CM_EVENT_ROUTE_ERROR
            | RDMA_CM_EVENT_UNREACHABLE
            | RDMA_CM_EVENT_CONNECT_ERROR => {
                let reason = match event.status {
                    ..0 => Errno::new(event.status.saturating_abs()),
                    _ => Errno::EHOSTUNREACH,
                };
                self.refused(handle, reason, event.status, &[]);
            }
            _ => {}
        }
    }

    fn next_step(&mut self, handle: Handle, step: Result<()>) {
        if let Err(reason) = step {
            self.refused(handle, reason, reason.get(), &[]);
        }
    }

    /// The way to the peer is known: asks it.
    fn ask(&mut self, handle: Handle) -> Result<()> {
        let ep = self.eps.get(handle).ok_or(Errno::EOPBADSTATE)?;
        let queues = self.queues_of(ep)?;
        let cap = ep.limits.cap();
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        let data = std::mem::take(&mut ep.greeting);
        let made = ep.id.as_mut().ok_or(Errno::EOPBADSTATE)?.create_qp(&queues, &cap);
        made.map_err(|reason| self.told(reason))?;
        self.ready_to_receive(handle)?;
        let param = self.param(data, None);
        let id = self.eps.get(handle).and_then(|ep| ep.id.as_ref());
        id.ok_or(Errno::EOPBADSTATE)?.connect(&param)
    }

    fn up(&mut self, handle: Handle, data: &[u8]) {
        self.deadlines.retain(|(_, owner)| *owner != handle);
        let iwarp = self.device.limits.iwarp;
        let Some(ep) = self.eps.get_mut(handle) else { return };
        ep.phase = Phase::Connected;
        if let (Some(id), false) = (&ep.id, iwarp) {
            // The device's own time will do where it does not take ours.
            let _ = id.set_min_rnr_timer(known::VERBS_MIN_RNR_TIMER.size() as u8);
        }
        let data = parse_data(data);
        ep.tell(Event::Connected { object: ep.object, data: data.clone() });
        self.tell_layer(handle, |conn| layer::Event::Connected { conn, data });
    }

    /// The peer has ended the connection, or has answered that this end has.
    fn down(&mut self, handle: Handle) {
        let Some(ep) = self.eps.get_mut(handle) else { return };
        match ep.phase {
            Phase::Connected if ep.link.is_some() => self.lost(handle, Errno::ECONNRESET),
            Phase::Connected => {
                ep.phase = Phase::Ended;
                if let Some(id) = &ep.id {
                    // What is posted comes back.
                    let _ = id.disconnect();
                }
                ep.tell(Event::Shutdown { object: ep.object });
            }
            Phase::Asked => self.refused(handle, Errno::ECONNABORTED, 0, &[]),
            _ => {}
        }
    }

    /// A connection could not be made.
    pub(super) fn refused(&mut self, handle: Handle, reason: Errno, status: i32, data: &[u8]) {
        self.deadlines.retain(|(_, owner)| *owner != handle);
        let Some(ep) = self.eps.get_mut(handle) else { return };
        if matches!(ep.phase, Phase::Connected | Phase::Ended) {
            return;
        }
        ep.phase = Phase::Ended;
        if let Some(peer) = ep.peer {
            fabric_core::info!(NAME, Subsys::EpCtrl, "no connection to {peer}: {reason}");
        }
        ep.tell_error(reason, status, data.to_vec());
        self.give_up(handle, Errno::ECANCELED);
        if self.is_link(handle) {
            let (data, met) = (data.to_vec(), reason == Errno::ECONNREFUSED);
            self.tell_layer(handle, |conn| layer::Event::Refused { conn, data, reason, met });
            self.remove(handle);
        }
    }

    /// The device is gone: nothing that it has comes back.
    #[cold]
    pub(super) fn lost(&mut self, handle: Handle, reason: Errno) {
        let Some(ep) = self.eps.get_mut(handle) else { return };
        match ep.phase {
            Phase::Connected if ep.link.is_some() => {
                self.tell_layer(handle, |conn| layer::Event::Ended { conn, reason });
                self.remove(handle);
            }
            Phase::Connected => {
                ep.phase = Phase::Ended;
                ep.tell(Event::Shutdown { object: ep.object });
                self.give_up(handle, reason);
            }
            Phase::Ended => self.give_up(handle, reason),
            _ => self.refused(handle, reason, reason.get(), &[]),
        }
    }

    /// Ends what there is of a connection, and all operations on it.
    fn give_up(&mut self, handle: Handle, reason: Errno) {
        let Some(ep) = self.eps.get_mut(handle) else { return };
        if let Some(number) = ep.id.as_ref().and_then(CmId::qp_number) {
            self.by_qp.remove(&number);
        }
        // With the queue pair, so that the device touches nothing of what is told of below.
        drop(ep.id.take());
        ep.sends.staged.clear();
        let sends = std::mem::take(&mut ep.sends.list);
        let receives = std::mem::take(&mut ep.receives.list);
        let waiting = std::mem::take(&mut ep.receives.waiting);
        for op in receives.into_iter().chain(waiting.into_iter().map(|(_, op)| op)) {
            ep.receive_failed(&op, Flags::MSG | Flags::RECV, reason, reason.get());
        }
        for op in sends {
            self.send_ended(handle, op, Err((reason, reason.get())));
        }
    }

    /// Gives up what has taken too long.
    pub(super) fn look_at_clock(&mut self) {
        let now = Instant::now();
        let late: Vec<Handle> =
            self.deadlines.iter().filter(|(at, _)| *at <= now).map(|(_, owner)| *owner).collect();
        for handle in late {
            self.refused(handle, Errno::ETIMEDOUT, Errno::ETIMEDOUT.get(), &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_applications() {
        assert_eq!(private_data(b"").unwrap(), [0]);
        assert_eq!(private_data(b"ab").unwrap(), [2, b'a', b'b']);
        assert_eq!(private_data(&[7; DATA_MAX]).unwrap().len(), 56);
        assert_eq!(private_data(&[7; DATA_MAX + 1]).unwrap_err(), Errno::EINVAL);
        assert_eq!(parse_data(&[]), []);
        assert_eq!(parse_data(&[2, b'a', b'b', 0, 0]), b"ab");
        assert_eq!(parse_data(&[9, b'a']), b"a", "no more than there is");
    }
}
