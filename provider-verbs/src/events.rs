//! PENDING. Asynchronous events of devices, for all that have to do with a device.
//!
//! The kernel tells an opening of a device of each event once, whoever asks first; several domains may
//! share one opening. Whoever takes events from the device hands them to everybody.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use fabric_core::{Errno, fork::ForkSafe, log::Subsys};

use crate::{
    NAME,
    device::Device,
    sys::{
        About, AsyncEvent, Context,
        abi::{
            IBV_EVENT_DEVICE_FATAL, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR,
            IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
        },
    },
};

/// Events that one reader has not taken in yet.
#[derive(Debug)]
pub(crate) struct Events {
    context: Context,
    waiting: Mutex<VecDeque<AsyncEvent>>,
}

static READERS: ForkSafe<Vec<Weak<Events>>> = ForkSafe::new(Vec::new());

impl Events {
    /// A reader of a device's events, from now on.
    pub(crate) fn of(context: Context) -> Arc<Self> {
        let events = Arc::new(Self { context, waiting: Mutex::default() });
        let mut readers = READERS.lock();
        readers.retain(|reader| reader.strong_count() != 0);
        readers.push(Arc::downgrade(&events));
        events
    }

    /// Asks the device for events, for all of its readers.
    pub(crate) fn fetch(&self) {
        while let Ok(event) = self.context.next_async_event() {
            let readers = READERS.lock().clone();
            for reader in readers.iter().filter_map(Weak::upgrade) {
                if reader.context == self.context {
                    lock(&reader.waiting).push_back(event);
                }
            }
        }
    }

    /// The next event, of those that have been fetched by whomever.
    pub(crate) fn next(&self) -> Option<AsyncEvent> {
        lock(&self.waiting).pop_front()
    }

    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        !lock(&self.waiting).is_empty()
    }
}

/// What an event means to endpoints at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The link is down.
    LinkDown,
    /// The link is up again.
    LinkUp,
    /// A queue pair works no more, and why.
    GivenUp(u32, Errno),
    /// The device works no more.
    Gone,
}

impl News {
    /// For endpoints at the device's port; a line in the log where no endpoint has a better one.
    pub(crate) fn of(event: AsyncEvent, device: &Device) -> Option<Self> {
        let AsyncEvent { number, about } = event;
        let Device { name, port: own, .. } = device;
        match (number, about) {
            (IBV_EVENT_PORT_ERR, About::Port(port)) if port == *own => {
                fabric_core::warn!(NAME, Subsys::Core, "{name} port {port}: the link is down");
                Some(Self::LinkDown)
            }
            (IBV_EVENT_PORT_ACTIVE, About::Port(port)) if port == *own => {
                fabric_core::info!(NAME, Subsys::Core, "{name} port {port}: the link is up");
                Some(Self::LinkUp)
            }
            (IBV_EVENT_QP_FATAL, About::QueuePair(qp)) => Some(Self::GivenUp(qp, Errno::EIO)),
            (IBV_EVENT_QP_REQ_ERR, About::QueuePair(qp)) => {
                Some(Self::GivenUp(qp, Errno::EREMOTEIO))
            }
            (IBV_EVENT_QP_ACCESS_ERR, About::QueuePair(qp)) => {
                Some(Self::GivenUp(qp, Errno::EACCES))
            }
            (IBV_EVENT_DEVICE_FATAL, _) => Some(Self::Gone),
            _ => {
                fabric_core::info!(NAME, Subsys::Core, "{name}: asynchronous event {number}");
                None
            }
        }
    }
}

/// What is locked is whole after every statement, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::mock::{self, RXE};

    #[test]
    fn everybody_hears_of_it_and_of_no_other_device() {
        let other = Events::of(mock::device(RXE));
        let context = mock::device(RXE);
        let readers = [Events::of(context), Events::of(context)];
        let event = AsyncEvent { number: 10, about: About::Port(1) };
        mock::async_event(10, 1);
        readers[0].fetch();
        readers[1].fetch();
        for reader in &readers {
            assert_eq!((reader.any(), reader.next(), reader.next()), (true, Some(event), None));
        }
        assert_eq!(other.next(), None);
    }
}
