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
use crate::{NAME, events::News, sys::AsyncEvent};

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
        let number = event.number;
        match News::of(event, &self.device) {
            Some(News::LinkDown) => self.tell_all(Errno::ENETDOWN, number),
            Some(News::LinkUp) => {
                for (_, ep) in self.eps.iter().filter(|(_, ep)| ep.phase == Phase::Connected) {
                    let data = u64::from(number);
                    ep.tell(Event::Notify(ControlEvent { object: ep.object, context: 0, data }));
                }
            }
            Some(News::GivenUp(qp, reason)) => self.given_up(qp, reason, number),
            Some(News::Gone) => {
                self.tell_all(Errno::ENODEV, number);
                self.breaks(Errno::ENODEV);
            }
            None => {}
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
