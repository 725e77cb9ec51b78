//! Connected endpoints within the process: a listener is found by its name, and reports requests
//! when its event queue is read.

use core::mem;
use std::{
    collections::VecDeque,
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use fabric_core::{
    Errno, Result,
    api::{Endpoint, PassiveEndpoint, SharedReceive},
    attr::{Info, RxAttr},
    av::Av,
    completion::{Counter, Cq},
    domain::Domain,
    engine::Stats,
    eq::{BoundEq, Drive, ErrorEvent, Event, EventQueue, RequestHandle},
    flags::Flags,
    lock::SafeLock,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    wait::Signal,
};

/// Who listens in this process.
static LISTENERS: Mutex<Vec<Arc<Listener>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic under a lock of the mock")
}

/// A passive endpoint.
pub(super) struct Listener {
    name: Mutex<Vec<u8>>,
    info: Info,
    eq: Mutex<Option<BoundEq>>,
    object: AtomicUsize,
    pub(super) backlog: AtomicUsize,
    incoming: Mutex<VecDeque<Arc<Request>>>,
    arrived: Signal,
    me: Weak<Self>,
}

/// What a peer waits for.
pub(super) struct Request {
    from: Weak<Peer>,
    name: Vec<u8>,
    data: Vec<u8>,
    answered: AtomicBool,
}

/// What a passive endpoint gives up.
struct Reserved(Vec<u8>);

impl Request {
    /// The one who asks, if nobody has answered before.
    fn answer(&self) -> Result<Option<Arc<Peer>>> {
        if self.answered.swap(true, Ordering::AcqRel) {
            return Err(Errno::EINVAL);
        }
        Ok(self.from.upgrade())
    }

    fn refuse(&self, data: &[u8]) -> Result<()> {
        if let Some(peer) = self.answer()? {
            peer.error(Errno::ECONNREFUSED, data);
        }
        Ok(())
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let _ = self.refuse(b"dropped");
    }
}

impl PassiveEndpoint for Listener {
    fn open(info: &Info, _: usize) -> Result<Arc<Self>> {
        let arrived = Signal::new()?;
        Ok(Arc::new_cyclic(|me| Self {
            name: Mutex::new(info.src_addr.clone()),
            info: info.clone(),
            eq: Mutex::default(),
            object: AtomicUsize::new(0),
            backlog: AtomicUsize::new(0),
            incoming: Mutex::default(),
            arrived,
            me: me.clone(),
        }))
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        let driven: Weak<dyn Drive> = self.me.clone();
        *lock(&self.eq) = Some(eq.bind_driven(driven)?);
        Ok(())
    }

    fn listen(self: &Arc<Self>, object: usize) -> Result<()> {
        lock(&self.eq).as_ref().ok_or(Errno::ENOEQ)?;
        if self.object.swap(object, Ordering::AcqRel) != 0 {
            return Err(Errno::EINVAL);
        }
        lock(&LISTENERS).push(self.clone());
        Ok(())
    }

    fn reject(&self, request: &RequestHandle, data: &[u8]) -> Result<()> {
        request.downcast_ref::<Request>().ok_or(Errno::EINVAL)?.refuse(data)
    }

    fn close(self: &Arc<Self>) {
        lock(&LISTENERS).retain(|other| !Arc::ptr_eq(other, self));
        let gone = mem::take(&mut *lock(&self.incoming));
        drop(gone);
        let eq = lock(&self.eq).take();
        drop(eq);
    }

    fn name(&self) -> Result<Vec<u8>> {
        Ok(lock(&self.name).clone())
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        *lock(&self.name) = name.to_vec();
        Ok(())
    }

    fn set_backlog(&self, backlog: usize) -> Result<()> {
        self.backlog.store(backlog, Ordering::Relaxed);
        Ok(())
    }

    fn surrender(&self) -> Result<RequestHandle> {
        let name = mem::take(&mut *lock(&self.name));
        if name.is_empty() { Err(Errno::EINVAL) } else { Ok(Arc::new(Reserved(name))) }
    }
}

impl Drive for Listener {
    fn drive(&self) {
        self.arrived.clear();
        let incoming = mem::take(&mut *lock(&self.incoming));
        for request in incoming {
            let info = Info {
                src_addr: lock(&self.name).clone(),
                dest_addr: request.name.clone(),
                ..self.info.clone()
            };
            let event = Event::ConnectionRequest {
                object: self.object.load(Ordering::Acquire),
                info: Arc::new(info),
                data: request.data.clone(),
                handle: request,
            };
            if let Some(eq) = &*lock(&self.eq) {
                eq.push(event);
            }
        }
    }

    fn arm(&self) -> Result<bool> {
        Ok(lock(&self.incoming).is_empty())
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Ok(self.arrived.as_fd().as_raw_fd())
    }
}

/// An active endpoint.
#[derive(Default)]
pub(super) struct Peer {
    name: Vec<u8>,
    context: usize,
    request: Option<RequestHandle>,
    eq: Mutex<Option<BoundEq>>,
    object: OnceLock<usize>,
    other: Mutex<Weak<Self>>,
    pub(super) shared: Mutex<Option<Arc<Posts>>>,
    me: OnceLock<Weak<Self>>,
}

impl Peer {
    fn push(&self, event: impl FnOnce(usize) -> Event) {
        let object = *self.object.get().expect("introduced before anything is reported");
        if let Some(eq) = &*lock(&self.eq) {
            eq.push(event(object));
        }
    }

    fn error(&self, err: Errno, data: &[u8]) {
        let object = *self.object.get().expect("introduced before anything is reported");
        let error =
            ErrorEvent { err_data: Arc::from(data), ..ErrorEvent::new(object, self.context, err) };
        if let Some(eq) = &*lock(&self.eq) {
            eq.push_error(error);
        }
    }

    fn me(&self) -> Weak<Self> {
        self.me.get().cloned().unwrap_or_default()
    }
}

impl Endpoint for Peer {
    type Lock = SafeLock;
    type SharedReceive = Posts;

    fn open(
        _: &Arc<Domain>,
        info: &Info,
        request: Option<&RequestHandle>,
        context: usize,
    ) -> Result<Arc<Self>> {
        if info.caps.contains(Flags::MULTICAST) {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut name = info.src_addr.clone();
        if let Some(request) = request {
            if let Some(reserved) = request.downcast_ref::<Reserved>() {
                name.clone_from(&reserved.0);
            } else if !request.is::<Request>() {
                return Err(Errno::EINVAL);
            }
        }
        let peer = Arc::new(Self { name, context, request: request.cloned(), ..Self::default() });
        assert!(peer.me.set(Arc::downgrade(&peer)).is_ok());
        Ok(peer)
    }

    fn introduce(&self, object: usize) {
        assert_eq!(self.object.set(object), Ok(()), "introduced once");
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        *lock(&self.eq) = Some(eq.bind()?);
        Ok(())
    }

    fn bind_shared_receive(self: &Arc<Self>, context: &Arc<Posts>) -> Result<()> {
        match lock(&self.shared).replace(context.clone()) {
            Some(_) => Err(Errno::EINVAL),
            None => Ok(()),
        }
    }

    fn connect(self: &Arc<Self>, peer: &[u8], data: &[u8]) -> Result<()> {
        lock(&self.eq).as_ref().ok_or(Errno::ENOEQ)?;
        let listeners = lock(&LISTENERS).clone();
        let Some(listener) = listeners.iter().find(|other| *lock(&other.name) == peer) else {
            self.error(Errno::ECONNREFUSED, &[]);
            return Ok(());
        };
        let request = Request {
            from: self.me(),
            name: self.name.clone(),
            data: data.to_vec(),
            answered: AtomicBool::new(false),
        };
        lock(&listener.incoming).push_back(Arc::new(request));
        listener.arrived.set();
        Ok(())
    }

    fn accept(self: &Arc<Self>, data: &[u8]) -> Result<()> {
        let request = self.request.as_ref().and_then(|request| request.downcast_ref::<Request>());
        let from = request.ok_or(Errno::EINVAL)?.answer()?;
        if let Some(from) = from {
            *lock(&self.other) = from.me();
            *lock(&from.other) = self.me();
            from.push(|object| Event::Connected { object, data: data.to_vec() });
        }
        self.push(|object| Event::Connected { object, data: Vec::new() });
        Ok(())
    }

    fn shutdown(&self) -> Result<()> {
        if let Some(other) = mem::take(&mut *lock(&self.other)).upgrade() {
            other.push(|object| Event::Shutdown { object });
        }
        Ok(())
    }

    fn peer_name(&self) -> Result<Vec<u8>> {
        lock(&self.other).upgrade().map(|other| other.name.clone()).ok_or(Errno::ENOTCONN)
    }

    fn close(self: &Arc<Self>) {
        let _ = self.shutdown();
        let (eq, shared) = (lock(&self.eq).take(), lock(&self.shared).take());
        drop((eq, shared));
    }

    fn name(&self) -> Result<Vec<u8>> {
        Ok(self.name.clone())
    }

    fn bind_av(self: &Arc<Self>, _: &Arc<Av>) -> Result<()> {
        Err(Errno::EINVAL)
    }
    fn bind_cq(self: &Arc<Self>, _: &Arc<Cq<Self>>, _: Flags) -> Result<()> {
        Ok(())
    }
    fn bind_counter(self: &Arc<Self>, _: &Arc<Counter<Self>>, _: Flags) -> Result<()> {
        Ok(())
    }
    fn enable(self: &Arc<Self>) -> Result<()> {
        Ok(())
    }
    fn set_name(&self, _: &[u8]) -> Result<()> {
        Err(Errno::EINVAL)
    }
    fn option(&self, _: i32) -> Result<Vec<u8>> {
        Err(Errno::ENOPROTOOPT)
    }
    fn set_option(&self, _: i32, _: &[u8]) -> Result<()> {
        Err(Errno::ENOPROTOOPT)
    }
    fn tx_op_flags(&self) -> Flags {
        Flags::empty()
    }
    fn rx_op_flags(&self) -> Flags {
        Flags::empty()
    }
    fn atomic_limit(&self) -> usize {
        0
    }
    unsafe fn send(&self, _: &SendOp<'_>) -> Result<()> {
        Err(Errno::ENOTCONN)
    }
    unsafe fn recv(&self, _: &RecvOp<'_>) -> Result<()> {
        Err(Errno::EINVAL)
    }
    unsafe fn rma(&self, _: &RmaOp<'_>) -> Result<()> {
        Err(Errno::ENOTCONN)
    }
    unsafe fn atomic(&self, _: &AtomicOp<'_>) -> Result<()> {
        Err(Errno::ENOTCONN)
    }
    fn cancel(&self, _: usize) -> Result<()> {
        Ok(())
    }
    fn progress(&self) {}
    fn wait_fd(&self) -> Result<i32> {
        Err(Errno::ENODATA)
    }
    fn stats(&self) -> Stats {
        Stats::default()
    }
    fn arm(&self) -> Result<bool> {
        Ok(true)
    }
}

/// A shared receive context that writes down what it is asked to do.
pub(super) struct Posts {
    pub(super) attr: RxAttr,
    pub(super) calls: Mutex<Vec<String>>,
}

impl SharedReceive for Posts {
    fn open(_: &Arc<Domain>, attr: &RxAttr, context: usize) -> Result<Arc<Self>> {
        let calls = Mutex::new(vec![format!("open {context:#x}")]);
        Ok(Arc::new(Self { attr: attr.clone(), calls }))
    }
    fn close(self: &Arc<Self>) {
        lock(&self.calls).push("close".to_owned());
    }
    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()> {
        lock(&self.calls).push(format!("{op:?}"));
        Ok(())
    }
    fn cancel(&self, context: usize) -> Result<()> {
        lock(&self.calls).push(format!("cancel {context:#x}"));
        Ok(())
    }
}
