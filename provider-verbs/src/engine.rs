//! HOT. What moves the endpoints of a domain: one engine, one connection manager's channel, and as few
//! completion queues as the device's limits allow.
//!
//! The device works by itself. What is done here is to take completions and events in, and to
//! account for them: each posted request stands in its endpoint's list until it is known how it has
//! ended.

mod complete;
mod connect;
mod ep;
mod events;
mod id;
pub(crate) mod layer;
mod lent;
mod post;
mod shared;

use std::{
    collections::HashMap,
    fmt,
    os::fd::RawFd,
    sync::Arc,
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    log::Subsys,
    slab::{Handle, Slab},
    wait::Sleepers,
};

pub(crate) use complete::{failure, receive_failure};
pub(crate) use connect::{DATA_MAX, Reads, parse_data, private_data};
pub(crate) use ep::{Ep, EpLimits};
use layer::Layer;
pub(crate) use post::{STRANGE, WORD, full, is_native, local};
use shared::Shared;

use crate::{
    NAME,
    clock::Clock,
    device::Device,
    events::Events,
    sys::{CmEvents, CompChannel, Context, Cq, Pd, Words, abi::ibv_wc},
};

/// Completions taken in one call of the device.
const BATCH: usize = 16;
/// Progress calls after which connections are looked at.
const LOOK: u32 = 256;
/// The same while connections come up.
const LOOK_OFTEN: u32 = 16;
/// Entries of the first completion queue.
const ENTRIES: u32 = 4096;
/// Atomic operations that may be in flight.
const WORDS: u32 = 1024;

/// A completion queue, with entries for all that may complete in it.
#[derive(Debug)]
struct Queue {
    cq: Arc<Cq>,
    entries: u32,
    reserved: u32,
    /// For receives that connections share: any of them may end here.
    shared: u32,
}

/// The engine of a domain.
pub(crate) struct Engine {
    pub(crate) eps: Slab<Ep>,
    shared: Slab<Shared>,
    /// Endpoints by the number of their queue pair, where receives do not tell.
    by_qp: HashMap<u32, Handle>,
    /// Endpoints with requests that wait for others.
    staged: Vec<Handle>,
    /// When connections that come up are given up.
    deadlines: Vec<(Instant, Handle)>,
    /// Progress calls, modulo 2^32.
    rounds: u32,
    /// The device rings for completions.
    armed: bool,
    /// The device is gone, or one of its queues has overrun: nothing completes any more.
    broken: bool,
    sleepers: Sleepers,
    words: Option<Words>,
    layer: Option<Layer>,
    queues: Vec<Queue>,
    comp: Arc<CompChannel>,
    cm: Arc<CmEvents>,
    events: Arc<Events>,
    clock: Clock,
    /// Where the device puts completions.
    completions: Box<[ibv_wc; BATCH]>,
    pd: Arc<Pd>,
    pub(crate) device: Arc<Device>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Engine {
    pub(crate) fn new(device: Arc<Device>, pd: Arc<Pd>) -> Result<Self> {
        let context = pd.context();
        let cm = CmEvents::new(context.tables())?;
        let comp = CompChannel::new(context)?;
        rustix::io::ioctl_fionbio(context.async_fd(), true)?;
        let clock = Clock::new(cm.fd())?;
        clock.watch_device(comp.fd(), context.async_fd())?;
        Ok(Self {
            eps: Slab::new(id::OWNERS),
            shared: Slab::new(id::OWNERS),
            by_qp: HashMap::new(),
            staged: Vec::new(),
            deadlines: Vec::new(),
            rounds: 0,
            armed: false,
            broken: false,
            sleepers: Sleepers::default(),
            words: None,
            layer: None,
            queues: Vec::new(),
            comp,
            cm,
            events: Events::of(context),
            clock,
            completions: Box::new([const { ibv_wc::zeroed() }; BATCH]),
            pd,
            device,
        })
    }

    /// The open device.
    pub(crate) fn context(&self) -> Context {
        self.pd.context()
    }

    /// What it is of.
    pub(crate) fn device_and_pd(&self) -> (Arc<Device>, Arc<Pd>) {
        (self.device.clone(), self.pd.clone())
    }

    /// Where events of connections come, and what the protocol above has here.
    pub(crate) fn layer_parts(&mut self) -> Result<(Arc<CmEvents>, &mut Layer)> {
        let layer = self.layer.as_mut().ok_or(Errno::EOPBADSTATE)?;
        Ok((self.cm.clone(), layer))
    }

    /// Ends all endpoints, and what there is for the protocol above.
    pub(crate) fn close_all(&mut self) {
        let all: Vec<Handle> = self.eps.iter().map(|(handle, _)| handle).collect();
        all.into_iter().for_each(|handle| self.close(handle));
        if let Some(layer) = &mut self.layer {
            layer.listener = None;
            layer.events.clear();
        }
    }

    /// What a thread sleeps on after [`Engine::arm`].
    pub(crate) fn wait_fd(&self) -> RawFd {
        self.clock.raw()
    }

    /// Takes in what has completed, and now and then what has become of connections.
    #[inline]
    pub(crate) fn progress(&mut self) {
        if !self.staged.is_empty() {
            self.flush();
        }
        if self.poll() && self.armed {
            // Others may sleep on, and have to be rung for again.
            self.rearm();
        }
        self.rounds = self.rounds.wrapping_add(1);
        let pause = if self.deadlines.is_empty() { LOOK } else { LOOK_OFTEN };
        if self.rounds.is_multiple_of(pause) {
            self.look();
        }
    }

    /// Takes in all completions; whether there were any.
    fn poll(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.queues.len() {
            loop {
                let count = match self.queues[at].cq.poll(&mut *self.completions) {
                    Ok(count) => count,
                    Err(reason) => {
                        self.breaks(reason);
                        break;
                    }
                };
                any |= count != 0;
                for place in 0..count {
                    let completion = self.completions[place];
                    self.complete(&completion);
                }
                if count < BATCH {
                    break;
                }
            }
        }
        any
    }

    /// Takes in what has become of connections and of the device; whether there was anything.
    pub(crate) fn look(&mut self) -> bool {
        let ready = self.clock.ready();
        // The bell of sleepers is no news of its own, and rings until the engine is armed.
        let mut seen = ready.connections || ready.device;
        if ready.connections {
            while let Ok(event) = self.cm.next() {
                self.connection_event(event);
            }
        }
        if ready.device || self.events.any() {
            self.device_events(ready.device);
        }
        if !self.deadlines.is_empty() {
            let before = self.deadlines.len();
            self.look_at_clock();
            seen |= self.deadlines.len() != before;
        }
        if let Some(layer) = &mut self.layer
            && layer.alarm.is_some_and(|at| at <= Instant::now())
        {
            layer.alarm = None;
            layer.events.push(fabric_core::rdm_over_msg::Event::Alarm);
            seen = true;
        }
        if ready.clock {
            // Others may sleep on.
            self.set_clock();
        }
        seen
    }

    /// Prepares for sleeping on the descriptor; `false` if there is something to do.
    pub(crate) fn arm(&mut self) -> bool {
        self.flush();
        self.armed = true;
        self.set_clock();
        // What is ready already does not ring for those who wait for a descriptor to become so.
        let seen = self.look();
        let told = self.layer.as_ref().is_some_and(|layer| !layer.events.is_empty());
        let quiet = !self.rearm() && !seen && !told;
        self.sleepers.arm(quiet, self.clock.alarm())
    }

    /// A thread that sleeps is woken if there is something for it. `must`: the protocol above has left
    /// something.
    pub(crate) fn hand_on(&mut self, must: bool) {
        let told = |layer: &Layer| !layer.events.is_empty();
        if self.sleepers.are_armed() && (must || self.layer.as_ref().is_some_and(told)) {
            self.sleepers.wake(self.clock.alarm());
        }
    }

    /// Gives up an endpoint's connection if that takes so long to come up.
    fn expect(&mut self, handle: Handle, patience: Duration) {
        self.deadlines.push((Instant::now() + patience, handle));
        self.set_clock_for_sleepers();
    }

    /// Has the protocol above called at this time.
    pub(crate) fn layer_alarm(&mut self, at: Instant) {
        if let Some(layer) = &mut self.layer {
            layer.alarm = Some(layer.alarm.map_or(at, |alarm| alarm.min(at)));
            self.set_clock_for_sleepers();
        }
    }

    fn set_clock_for_sleepers(&mut self) {
        if self.sleepers.are_armed() {
            self.set_clock();
        }
    }

    fn set_clock(&mut self) {
        let alarm = self.layer.as_ref().and_then(|layer| layer.alarm);
        let deadlines = self.deadlines.iter().map(|(at, _)| *at);
        self.clock.alarm().set(deadlines.chain(alarm).min());
    }

    /// Has the device ring for what completes from now on. What has completed before has been taken
    /// in: whether that was anything.
    fn rearm(&mut self) -> bool {
        self.comp.drain();
        for queue in &self.queues {
            if let Err(reason) = queue.cq.arm() {
                fabric_core::warn!(NAME, Subsys::Cq, "a completion queue does not ring: {reason}");
            }
        }
        self.poll()
    }

    /// Nothing completes any more: every operation fails now.
    #[cold]
    fn breaks(&mut self, reason: Errno) {
        if std::mem::replace(&mut self.broken, true) {
            return;
        }
        let name = &self.device.name;
        fabric_core::error!(NAME, Subsys::Core, "{name} fails: {reason}; all connections end");
        let all: Vec<Handle> = self.eps.iter().map(|(handle, _)| handle).collect();
        for handle in all {
            self.lost(handle, reason);
        }
    }

    /// A completion queue with room for so many more entries; its place in the list.
    fn reserve(&mut self, entries: u32) -> Result<usize> {
        let fits = |queue: &Queue| queue.entries - queue.shared - queue.reserved >= entries;
        if let Some(at) = self.queues.iter().position(fits) {
            self.queues[at].reserved += entries;
            return Ok(at);
        }
        let shared = self.layer.as_ref().map_or(0, Layer::receives);
        let most = self.device.limits.cq;
        if entries.saturating_add(shared) > most {
            fabric_core::warn!(
                NAME,
                Subsys::EpCtrl,
                "an endpoint needs {entries} entries of a completion queue, {} has {most}: ask for \
                 smaller tx_attr.size and rx_attr.size",
                self.device.name
            );
            return Err(Errno::EINVAL);
        }
        // Each is larger than the one before, so that many endpoints make few queues.
        let last = self.queues.last().map_or(ENTRIES / 2, |queue| queue.entries);
        let size = last.saturating_mul(2).clamp(entries + shared, most);
        let cq = Cq::new(self.context(), size, Some(&self.comp))?;
        if self.armed {
            cq.arm()?;
        }
        self.queues.push(Queue { cq: Arc::new(cq), entries: size, reserved: entries, shared });
        Ok(self.queues.len() - 1)
    }

    fn words(&mut self) -> Result<&mut Words> {
        if self.words.is_none() {
            self.words = Some(Words::new(&self.pd, WORDS)?);
        }
        self.words.as_mut().ok_or(Errno::EOTHER)
    }
}

#[cfg(test)]
mod tests;
