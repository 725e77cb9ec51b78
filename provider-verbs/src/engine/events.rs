//! PENDING. What becomes of the device: its port, queue pairs that it gives up, and its own end.
//!
//! Endpoints with an event queue are told, each by an error of its own (`fi_eq(3)`, asynchronous
//! errors): the number in `prov_errno` is the event's. A link that comes up again is `FI_NOTIFY`.

use fabric_core::{
    Errno,
    eq::{ControlEvent, Event},
    log::Subsys,
    slab::Handle,
};

use super::{Engine, ep::Phase};
use crate::{
    NAME,
    sys::{
        About, AsyncEvent,
        abi::{
            IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR,
            IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
        },
    },
};

impl Engine {
    /// Takes in what the device tells; `ready`: it has something new.
    pub(super) fn device_events(&mut self, ready: bool) {
        if ready {
            self.events.fetch();
        }
        while let Some(event) = self.events.next() {
            self.device_event(event);
        }
    }

    #[cold]
    fn device_event(&mut self, event: AsyncEvent) {
        let AsyncEvent { number, about } = event;
        let name = &self.device.name;
        match (number, about) {
            (IBV_EVENT_PORT_ERR, About::Port(port)) if port == self.device.port => {
                fabric_core::warn!(NAME, Subsys::Core, "{name} port {port}: the link is down");
                self.tell_all(Errno::ENETDOWN, number);
            }
            (IBV_EVENT_PORT_ACTIVE, About::Port(port)) if port == self.device.port => {
                fabric_core::info!(NAME, Subsys::Core, "{name} port {port}: the link is up");
                for (_, ep) in self.eps.iter().filter(|(_, ep)| ep.phase == Phase::Connected) {
                    let data = u64::from(number);
                    ep.tell(Event::Notify(ControlEvent { object: ep.object, context: 0, data }));
                }
            }
            (IBV_EVENT_QP_FATAL, About::QueuePair(qp)) => self.given_up(qp, Errno::EIO, number),
            (IBV_EVENT_QP_REQ_ERR, About::QueuePair(qp)) => {
                self.given_up(qp, Errno::EREMOTEIO, number);
            }
            (IBV_EVENT_QP_ACCESS_ERR, About::QueuePair(qp)) => {
                self.given_up(qp, Errno::EACCES, number);
            }
            (IBV_EVENT_DEVICE_FATAL, _) => {
                self.tell_all(Errno::ENODEV, number);
                self.breaks(Errno::ENODEV);
            }
            _ => {
                fabric_core::info!(NAME, Subsys::Core, "{name}: asynchronous event {number}");
            }
        }
    }

    fn tell_all(&self, reason: Errno, number: u32) {
        for (_, ep) in self.eps.iter().filter(|(_, ep)| ep.phase == Phase::Connected) {
            ep.tell_error(reason, number as i32, Vec::new());
        }
    }

    /// The device has given a queue pair up, which may be that of an endpoint here: the connection
    /// ends, and what is posted comes back.
    fn given_up(&mut self, qp: u32, reason: Errno, number: u32) {
        let Some(handle): Option<Handle> = self.by_qp.get(&qp).copied() else { return };
        let Some(ep) = self.eps.get_mut(handle) else { return };
        let peer = ep.peer.map_or_else(String::new, |peer| format!(" to {peer}"));
        fabric_core::warn!(
            NAME,
            Subsys::EpCtrl,
            "the device gives the connection{peer} up: {reason} (asynchronous event {number})"
        );
        if self.is_link(handle) {
            self.lost(handle, reason);
            return;
        }
        let Some(ep) = self.eps.get_mut(handle) else { return };
        if ep.phase == Phase::Connected && !std::mem::replace(&mut ep.failed, true) {
            ep.tell_error(reason, number as i32, Vec::new());
            if let Some(id) = &ep.id {
                // The event that follows tells of the connection's end.
                let _ = id.disconnect();
            }
        }
    }
}
