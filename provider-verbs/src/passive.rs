//! SETUP. Endpoints that wait for connections.

use std::{
    fmt,
    os::fd::RawFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use fabric_core::{
    Errno, Result,
    api::PassiveEndpoint,
    attr::Info,
    eq::{BoundEq, Drive, Event, EventQueue, RequestHandle},
    inet::{SocketAddress, local},
    log::Subsys,
    options,
};

use crate::{
    NAME,
    clock::Clock,
    engine::{DATA_MAX, Reads, parse_data, private_data},
    sys::{CmEvent, CmEvents, CmId, Context, cm_abi::RDMA_CM_EVENT_CONNECT_REQUEST, tables},
};

/// Requests that may wait to be read.
const REQUESTS: usize = 4096;
/// The backlog of those who name none.
const BACKLOG: i32 = 1024;
/// Requests taken in by one call.
const AT_ONCE: usize = 64;

/// A passive endpoint.
pub struct VerbsPassive {
    state: Mutex<State>,
    events: Arc<CmEvents>,
    wait_fd: RawFd,
}

struct State {
    clock: Clock,
    info: Info,
    local: Option<SocketAddress>,
    backlog: i32,
    /// Has the address once the port matters.
    id: Option<CmId>,
    listens: bool,
    eq: Option<BoundEq>,
    object: usize,
    closed: bool,
}

/// A request that waits for its answer. Dropping it refuses it.
#[derive(Debug)]
pub(crate) struct Request {
    reads: Reads,
    id: Mutex<Option<CmId>>,
}

impl Request {
    /// What a handle of ours stands for.
    pub(crate) fn of(handle: &RequestHandle) -> Result<Arc<Self>> {
        handle.clone().downcast::<Self>().map_err(|_| Errno::EINVAL)
    }

    fn lock(&self) -> MutexGuard<'_, Option<CmId>> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an endpoint on a device can accept it: `EINVAL` if it has come over another one, or has
    /// been answered.
    pub(crate) fn check(&self, device: Context) -> Result<()> {
        let id = self.lock();
        let (context, _) = id.as_ref().and_then(CmId::device).ok_or(Errno::EINVAL)?;
        if context == device {
            return Ok(());
        }
        fabric_core::warn!(
            NAME,
            Subsys::EpCtrl,
            "the request has come over {}, the domain is of {}: open the domain that the \
             request's info names",
            context.name(),
            device.name()
        );
        Err(Errno::EINVAL)
    }

    /// Takes the connection; `EINVAL` if it has been taken.
    pub(crate) fn take(&self) -> Result<(CmId, Reads)> {
        Ok((self.lock().take().ok_or(Errno::EINVAL)?, self.reads))
    }

    fn refuse(&self, data: &[u8]) -> Result<()> {
        let words = private_data(data)?;
        let (id, _) = self.take()?;
        // A peer that has left needs no refusal.
        let _ = id.reject(&words);
        Ok(())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let _ = self.refuse(&[]);
    }
}

impl fmt::Debug for VerbsPassive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsPassive").field("local", &self.lock().local).finish_non_exhaustive()
    }
}

impl VerbsPassive {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PassiveEndpoint for VerbsPassive {
    fn open(info: &Info, _context: usize) -> Result<Arc<Self>> {
        let local = local(info)?;
        let events = CmEvents::new(tables().map_err(|_| Errno::ENODEV)?)?;
        let clock = Clock::new(events.fd())?;
        Ok(Arc::new(Self {
            wait_fd: clock.raw(),
            events,
            state: Mutex::new(State {
                clock,
                info: info.clone(),
                local,
                backlog: BACKLOG,
                id: None,
                listens: false,
                eq: None,
                object: 0,
                closed: false,
            }),
        }))
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        let engine: Weak<dyn Drive> = Arc::<Self>::downgrade(self);
        let bound = eq.bind_driven(engine)?;
        // The one bound before goes without the lock held.
        let _before = self.lock().eq.replace(bound);
        Ok(())
    }

    fn listen(self: &Arc<Self>, object: usize) -> Result<()> {
        let mut state = self.lock();
        if state.eq.is_none() {
            return Err(Errno::ENOEQ);
        }
        if state.listens || state.closed {
            return Err(Errno::EINVAL);
        }
        state.bind(&self.events)?;
        state.object = object;
        let backlog = state.backlog;
        state.id.as_ref().ok_or(Errno::EADDRNOTAVAIL)?.listen(backlog)?;
        state.listens = true;
        Ok(())
    }

    fn reject(&self, request: &RequestHandle, data: &[u8]) -> Result<()> {
        Request::of(request)?.refuse(data)
    }

    fn close(self: &Arc<Self>) {
        let mut state = self.lock();
        state.closed = true;
        // Requests hold their own identifiers, and what is not read is refused by the kernel.
        let id = state.id.take();
        let eq = state.eq.take();
        drop(state);
        drop((id, eq));
    }

    fn name(&self) -> Result<Vec<u8>> {
        Ok(self.lock().bind(&self.events)?.to_bytes())
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        let mut state = self.lock();
        if state.listens {
            return Err(Errno::EOPBADSTATE);
        }
        let name = SocketAddress::parse(name)?;
        if state.local.replace(name) != Some(name) {
            state.id = None;
        }
        Ok(())
    }

    fn set_backlog(&self, backlog: usize) -> Result<()> {
        let mut state = self.lock();
        if state.listens {
            return Err(Errno::EOPBADSTATE);
        }
        state.backlog = i32::try_from(backlog.clamp(1, REQUESTS)).map_err(|_| Errno::EINVAL)?;
        Ok(())
    }

    fn option(&self, name: i32) -> Result<Vec<u8>> {
        match name {
            options::CM_DATA_SIZE => Ok(DATA_MAX.to_ne_bytes().to_vec()),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}

impl Drive for VerbsPassive {
    fn drive(&self) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let mut requests = Vec::new();
        if state.clock.ready().connections {
            // What is not taken in waits with the kernel, up to the backlog.
            let waiting = state.eq.as_ref().map_or(0, |eq| eq.pending(state.object));
            let room = REQUESTS.saturating_sub(waiting).min(AT_ONCE);
            while requests.len() < room
                && let Ok(event) = self.events.next()
            {
                requests.extend(state.request(event));
            }
        }
        let eq = state.eq.as_deref().cloned();
        drop(state);
        for request in requests {
            if let Some(eq) = &eq {
                eq.push(request);
            }
        }
    }

    fn arm(&self) -> Result<bool> {
        Ok(true)
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Ok(self.wait_fd)
    }
}

impl State {
    /// Takes the address, so that its port is known.
    fn bind(&mut self, events: &Arc<CmEvents>) -> Result<SocketAddress> {
        let local = self.local.ok_or(Errno::EADDRNOTAVAIL)?;
        if self.id.is_some() || self.closed {
            return Ok(local);
        }
        let id = CmId::new(events, 0)?;
        id.bind(local)?;
        let local = id.local().unwrap_or(local);
        self.id = Some(id);
        Ok(*self.local.insert(local))
    }

    /// What an event asks for, if that is a connection.
    fn request(&self, event: CmEvent) -> Option<Event> {
        if event.kind != RDMA_CM_EVENT_CONNECT_REQUEST {
            return None;
        }
        let id = event.request?;
        let mut info = self.info.clone();
        if let Some(local) = id.local() {
            info.src_addr = local.to_bytes();
            info.addr_format = local.family().addr_format();
        }
        info.dest_addr = id.peer().map(SocketAddress::to_bytes).unwrap_or_default();
        // Who listens at all addresses learns the device here.
        let (context, _) = id.device()?;
        if let Some(domain) = &mut info.domain {
            domain.name = Some(context.name());
        }
        let (own, served) = event.reads;
        let request = Request { reads: Reads { own, served }, id: Mutex::new(Some(id)) };
        Some(Event::ConnectionRequest {
            object: self.object,
            info: Arc::new(info),
            handle: Arc::new(request),
            data: parse_data(&event.data),
        })
    }
}
