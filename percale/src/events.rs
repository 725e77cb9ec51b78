//! PENDING. Event queues: from what happens to connections to those who wait for it.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Instant,
};

use fabric_core::{
    Errno,
    attr::{Info, WaitObj},
    eq::{EqAttr, ErrorEvent, Event, EventQueue, RequestHandle},
    flags::Flags,
    slab::{Handle, Slab},
};

use crate::{
    dispatch,
    error::{Error, Result},
    reactor::Reactor,
    waiting::{News, WaitingRoom},
};

/// What has happened to a connection or a listener.
pub(crate) enum ConnectionEvent {
    /// A peer asks for a connection.
    Request { info: Arc<Info>, handle: RequestHandle, data: Vec<u8> },
    /// It is up.
    Connected(Vec<u8>),
    /// The peer has ended it.
    Shutdown,
    /// It has failed.
    Failed(ErrorEvent),
}

/// An event queue, and who its events are for.
pub(crate) struct Events {
    queue: Arc<EventQueue>,
    room: WaitingRoom,
    /// What has happened to each object and was not taken. The objects' numbers are the handles'.
    boxes: Mutex<Slab<VecDeque<ConnectionEvent>>>,
}

impl Events {
    pub(crate) fn open(reactor: Option<&dyn Reactor>) -> Result<Arc<Self>> {
        let refused = |errno| Error::Refused { call: "open an event queue", errno };
        let attr = EqAttr { wait_obj: WaitObj::Fd, ..EqAttr::default() };
        let queue = EventQueue::open(&attr).map_err(refused)?;
        let descriptor = dispatch::descriptor_of_events(&queue).map_err(refused)?;
        let room = WaitingRoom::open(descriptor, reactor)?;
        Ok(Arc::new(Self { queue, room, boxes: Mutex::new(Slab::new(usize::MAX)) }))
    }

    pub(crate) const fn queue(&self) -> &Arc<EventQueue> {
        &self.queue
    }

    /// A number for an object whose events are kept for it.
    pub(crate) fn enlist(&self) -> Result<Handle, Errno> {
        self.boxes().insert(VecDeque::new()).map_err(|_| Errno::ENOMEM)
    }

    /// An object has gone.
    pub(crate) fn strike(&self, object: Handle) {
        let gone = self.boxes().remove(object);
        self.room.remove(object.index());
        // Behind the lock: peers that asked for a connection are refused now.
        drop(gone);
    }

    /// Waits for the next event of an object, as a task.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, object: Handle) -> Poll<ConnectionEvent> {
        self.room.poll(self, cx, object.index(), || self.take(object))
    }

    /// Waits for the next event of an object, as a thread; `None` when the deadline passes.
    pub(crate) fn wait(
        &self,
        deadline: Option<Instant>,
        object: Handle,
    ) -> Option<ConnectionEvent> {
        self.room.wait(self, deadline, object.index(), || self.take(object))
    }

    fn take(&self, object: Handle) -> Option<ConnectionEvent> {
        self.boxes().get_mut(object)?.pop_front()
    }

    fn deliver(&self, object: usize, event: ConnectionEvent) {
        let object = Handle::from_raw(object as u64);
        let stranger = match self.boxes().get_mut(object) {
            Some(events) => {
                events.push_back(event);
                None
            }
            None => Some(event),
        };
        // Behind the lock, as in `strike`.
        drop(stranger);
        self.room.wake_one(object.index());
    }

    // Events are put and taken in one step, so a poisoned lock is as good as any.
    fn boxes(&self) -> MutexGuard<'_, Slab<VecDeque<ConnectionEvent>>> {
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl News for Events {
    fn drive(&self) -> bool {
        let mut any = false;
        loop {
            match self.queue.read(Flags::empty()) {
                Ok(Event::ConnectionRequest { object, info, handle, data }) => {
                    self.deliver(object, ConnectionEvent::Request { info, handle, data });
                }
                Ok(Event::Connected { object, data }) => {
                    self.deliver(object, ConnectionEvent::Connected(data));
                }
                Ok(Event::Shutdown { object }) => self.deliver(object, ConnectionEvent::Shutdown),
                Ok(_) => {}
                Err(Errno::EAVAIL) => match self.queue.read_error(Flags::empty()) {
                    Ok(error) => self.deliver(error.object, ConnectionEvent::Failed(error)),
                    Err(_) => return any,
                },
                Err(_) => return any,
            }
            any = true;
        }
    }

    fn try_wait(&self) -> bool {
        self.queue.try_wait().unwrap_or(false)
    }

    fn is_impatient(&self) -> bool {
        false
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("queue", &self.queue).finish_non_exhaustive()
    }
}
