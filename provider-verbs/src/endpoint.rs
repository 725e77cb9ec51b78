//! HOT. Endpoints over verbs: what applications bind, connect and use.

use std::{
    fmt,
    os::fd::RawFd,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    attr::{EpType, Info},
    av::Av,
    bindings::Bindings,
    closing::{self, Patience},
    completion::{CompletionQueue, Counter, Cq, EntryBuf},
    domain::Domain,
    engine::Stats,
    eq::{Drive, EventQueue, RequestHandle},
    flags::Flags,
    fork::Owner,
    inet::{SocketAddress, local},
    lock::{Access, Guarded, Lock, SafeLock},
    log::Subsys,
    mem::Buffers,
    op::{AtomicKind, AtomicOp, Descs, RecvOp, RmaOp, SendOp},
    options::{self, Sizes},
    slab::Handle,
};

use crate::{
    NAME,
    device::Device,
    engine::{DATA_MAX, Engine, EpLimits, WORD, is_native},
    mr,
    offer::MSG_CAPS,
    passive::Request,
    settings,
    shared::VerbsSharedReceive,
    sys::Pd,
};

/// How long closing waits for the peer's device to take what the application believes sent, and how
/// long while it takes nothing.
const OWED: Patience = Patience { whole: Duration::from_secs(5), stalled: Duration::from_secs(1) };
/// `FI_SHARED_CONTEXT`.
const SHARED: usize = usize::MAX;

/// Opens a domain: the device that its name says, and a protection domain on it.
pub fn open_domain(info: &Info) -> Result<Arc<Domain>> {
    let name = info.domain.as_ref().and_then(|domain| domain.name.as_deref());
    let device = Device::named(name.ok_or(Errno::EINVAL)?)?;
    let pd = Pd::new(device.open()?)?;
    let (atomics, iwarp) = (device.limits.atomics, device.limits.iwarp);
    let on_demand = mr::on_demand(&device, pd.context(), atomics);
    let registrar = mr::Device { pd: pd.clone(), atomics, iwarp, on_demand };
    let domain = Domain::open_on(info, Arc::new(registrar))?;
    domain.common(|| Port::new(device, pd))?;
    Ok(domain)
}

/// An engine and its lock, one for all endpoints of a domain: event queues drive it from any thread,
/// so it is always guarded.
pub(crate) struct Port {
    engine: <SafeLock as Lock>::Cell<Engine>,
    wait_fd: RawFd,
}

impl Port {
    fn new(device: Arc<Device>, pd: Arc<Pd>) -> Result<Arc<Self>> {
        let engine = Engine::new(device, pd)?;
        let wait_fd = engine.wait_fd();
        Ok(Arc::new(Self { engine: Guarded::new(engine), wait_fd }))
    }

    /// The one of a domain that [`open_domain`] has opened.
    pub(crate) fn of(domain: &Arc<Domain>) -> Result<Arc<Self>> {
        domain.common(|| Err(Errno::EINVAL))
    }

    #[inline]
    pub(crate) fn lock(&self) -> Access<'_, SafeLock, Engine> {
        self.engine.lock()
    }

    /// Has a progress call made ([`Guarded::pass`]).
    #[inline]
    fn pass(&self, enough: impl Fn() -> bool, progress: impl FnOnce(&mut Engine)) -> bool {
        self.engine.pass(enough, |engine| {
            progress(engine);
            true
        })
    }
}

impl Drive for Port {
    fn drive(&self) {
        let mut looked = false;
        let look = |engine: &mut Engine| {
            engine.look();
            looked = true;
            // That is no progress call, which others may wait for.
            false
        };
        self.engine.pass(|| false, look);
        // Nor has who made one looked at connections.
        if !looked {
            self.lock().look();
        }
    }

    fn arm(&self) -> Result<bool> {
        Ok(self.engine.lock().arm())
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Ok(self.wait_fd)
    }
}

/// A connected endpoint.
pub struct VerbsEndpoint {
    port: Arc<Port>,
    /// Of this endpoint in the engine.
    ep: Handle,
    bindings: Bindings<Self>,
    tx_flags: Flags,
    rx_flags: Flags,
    caps: Flags,
    sizes: Sizes,
    /// The process that has opened it.
    owner: Owner,
    /// The connection request that it is to accept.
    request: Option<Arc<Request>>,
    /// It receives from a shared context.
    shares: bool,
}

impl fmt::Debug for VerbsEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsEndpoint").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl VerbsEndpoint {
    #[inline]
    fn engine(&self) -> Access<'_, SafeLock, Engine> {
        self.port.lock()
    }
}

/// What an endpoint of a device can keep to, of what its info asks for. Beyond the device's limits is
/// `EINVAL`.
fn sizes(info: &Info, device: &Device) -> Result<Sizes> {
    let limits = &device.limits;
    let default = Sizes {
        tx: 384,
        rx: 384,
        inject: limits.inline as usize,
        max_msg: limits.message as usize,
        atomic: if limits.atomics { WORD } else { 0 },
    };
    let sizes = Sizes::of(info, default);
    // One request of the device's is kept back.
    let most = (limits.queue as usize).saturating_sub(1);
    device.offers(&[
        ("tx_attr.size", sizes.tx, most),
        ("rx_attr.size", sizes.rx, most),
        ("tx_attr.inject_size", sizes.inject, default.inject),
        ("ep_attr.max_msg_size", sizes.max_msg, default.max_msg),
    ])?;
    Ok(sizes)
}

impl Endpoint for VerbsEndpoint {
    type Lock = SafeLock;
    type SharedReceive = VerbsSharedReceive;

    const AUTONOMOUS: bool = true;

    fn open(
        domain: &Arc<Domain>,
        info: &Info,
        request: Option<&RequestHandle>,
        _context: usize,
    ) -> Result<Arc<Self>> {
        options::check_type(NAME, info, EpType::Msg, "FI_EP_MSG")?;
        options::check_caps(NAME, info.caps, MSG_CAPS)?;
        let port = Port::of(domain)?;
        let (device, context) = {
            let engine = port.lock();
            (engine.device.clone(), engine.context())
        };
        let request = match request {
            Some(request) => {
                let request = Request::of(request)?;
                request.check(context)?;
                Some(request)
            }
            None => None,
        };
        let shares = info.ep.as_ref().is_some_and(|ep| ep.rx_ctx_cnt == SHARED);
        let sizes = sizes(info, &device)?;
        let local = local(info)?;
        let limits = EpLimits {
            sends: sizes.tx as u32,
            receives: if shares { 0 } else { sizes.rx as u32 },
            pieces: device.limits.pieces,
            inline: sizes.inject as u32,
            message: sizes.max_msg,
            data: info.domain.as_ref().is_none_or(|domain| domain.cq_data_size != 0),
        };
        let ep = port.lock().open(limits, local)?;
        let (tx, rx) = (info.tx.as_ref(), info.rx.as_ref());
        Ok(Arc::new(Self {
            port,
            ep,
            bindings: Bindings::new(domain),
            tx_flags: tx.map_or(Flags::empty(), |tx| tx.op_flags),
            rx_flags: rx.map_or(Flags::empty(), |rx| rx.op_flags),
            caps: info.caps,
            sizes,
            owner: Owner::here(),
            request,
            shares,
        }))
    }

    fn introduce(&self, object: usize) {
        if let Some(ep) = self.engine().eps.get_mut(self.ep) {
            ep.object = object;
        }
    }

    fn bind_av(self: &Arc<Self>, av: &Arc<Av>) -> Result<()> {
        self.bindings.bind_av(av)
    }

    fn bind_cq(self: &Arc<Self>, cq: &Arc<Cq<Self>>, flags: Flags) -> Result<()> {
        self.bindings.bind_cq(self, cq, flags)
    }

    fn bind_counter(self: &Arc<Self>, counter: &Arc<Counter<Self>>, flags: Flags) -> Result<()> {
        self.bindings.bind_counter(self, counter, flags, |value, flags| {
            let mut engine = self.engine();
            let ep = engine.eps.get_mut(self.ep).ok_or(Errno::EOPBADSTATE)?;
            ep.report.bind_counter(value, flags)
        })
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        let engine: Weak<dyn Drive> = Arc::<Port>::downgrade(&self.port);
        self.bindings.bind_driving_eq(eq, engine)
    }

    fn bind_shared_receive(self: &Arc<Self>, context: &Arc<VerbsSharedReceive>) -> Result<()> {
        let _open = self.bindings.not_enabled()?;
        if !self.shares {
            return Err(Errno::EINVAL);
        }
        self.engine().share(self.ep, context.within(&self.port)?)
    }

    fn enable(self: &Arc<Self>) -> Result<()> {
        let counts = |direction| {
            self.engine().eps.get(self.ep).is_some_and(|ep| ep.report.counts(direction))
        };
        if self.shares && !self.engine().shares(self.ep) {
            fabric_core::warn!(NAME, Subsys::EpCtrl, "enable: no shared receive context is bound");
            return Err(Errno::EOPBADSTATE);
        }
        self.bindings.enable(self, self.caps, false, counts, |start| {
            let mut engine = self.engine();
            let ep = engine.eps.get_mut(self.ep).ok_or(Errno::EOPBADSTATE)?;
            start.apply(&mut ep.report);
            ep.enabled = true;
            Ok(())
        })
    }

    fn close(self: &Arc<Self>) {
        if self.owner.abandons(self) || !self.bindings.stop(self) {
            return;
        }
        self.engine().post_end(self.ep);
        let owed = self.engine().owes(self.ep);
        // Others use the engine meanwhile.
        closing::settle(owed, Instant::now(), OWED, || {
            let mut engine = self.engine();
            engine.progress();
            engine.owes(self.ep)
        });
        self.engine().close(self.ep);
        self.bindings.release();
    }

    fn connect(self: &Arc<Self>, peer: &[u8], data: &[u8]) -> Result<()> {
        if self.request.is_some() {
            return Err(Errno::EINVAL);
        }
        let peer = SocketAddress::parse(peer)?;
        let eq = self.bindings.eq()?;
        self.enable()?;
        self.engine().connect(self.ep, peer, data, Some(eq), settings::connect_timeout())
    }

    fn accept(self: &Arc<Self>, data: &[u8]) -> Result<()> {
        let request = self.request.as_ref().ok_or(Errno::EINVAL)?;
        let eq = self.bindings.eq()?;
        self.enable()?;
        let (id, reads) = request.take()?;
        self.engine().accept(self.ep, id, reads, data, Some(eq), settings::connect_timeout())
    }

    fn shutdown(&self) -> Result<()> {
        self.engine().shutdown(self.ep)
    }

    fn peer_name(&self) -> Result<Vec<u8>> {
        let engine = self.engine();
        let ep = engine.eps.get(self.ep).ok_or(Errno::EOPBADSTATE)?;
        ep.peer().map(SocketAddress::to_bytes)
    }

    fn name(&self) -> Result<Vec<u8>> {
        let engine = self.engine();
        let ep = engine.eps.get(self.ep).ok_or(Errno::EOPBADSTATE)?;
        ep.name().map(SocketAddress::to_bytes).ok_or(Errno::EADDRNOTAVAIL)
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        let _open = self.bindings.not_enabled()?;
        let name = SocketAddress::parse(name)?;
        let mut engine = self.engine();
        engine.eps.get_mut(self.ep).ok_or(Errno::EOPBADSTATE)?.local = Some(name);
        Ok(())
    }

    fn option(&self, name: i32) -> Result<Vec<u8>> {
        let size = match name {
            options::CM_DATA_SIZE => DATA_MAX,
            _ => self.sizes.option(name)?,
        };
        Ok(size.to_ne_bytes().to_vec())
    }

    fn set_option(&self, _: i32, _: &[u8]) -> Result<()> {
        Err(Errno::ENOPROTOOPT)
    }

    fn tx_op_flags(&self) -> Flags {
        self.tx_flags
    }

    fn rx_op_flags(&self) -> Flags {
        self.rx_flags
    }

    fn atomic_limit(&self) -> usize {
        if self.caps.contains(Flags::ATOMIC) { self.sizes.atomic } else { 0 }
    }

    fn atomic_payload(kind: AtomicKind, datatype: u32, op: u32) -> Result<usize> {
        if is_native(kind, datatype, op) { Ok(WORD) } else { Err(Errno::EOPNOTSUPP) }
    }

    unsafe fn send(&self, op: &SendOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        unsafe { self.send_registered(op, Descs::NONE) }
    }

    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        unsafe { self.recv_registered(op, Descs::NONE) }
    }

    unsafe fn rma(&self, op: &RmaOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        unsafe { self.rma_registered(op, Descs::NONE) }
    }

    #[inline]
    unsafe fn send_registered(&self, op: &SendOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        self.engine().post_send(self.ep, op, &buffers, descs)
    }

    #[inline]
    unsafe fn recv_registered(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        self.engine().post_recv(self.ep, op, &buffers, descs)
    }

    #[inline]
    unsafe fn rma_registered(&self, op: &RmaOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        self.engine().post_rma(self.ep, op, &buffers, descs)
    }

    unsafe fn atomic(&self, op: &AtomicOp<'_>) -> Result<()> {
        if !self.caps.contains(Flags::ATOMIC) {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: this function's own contract.
        let buffers = unsafe {
            [Buffers::new(op.operand)?, Buffers::new(op.compare)?, Buffers::new(op.result)?]
        };
        self.engine().post_atomic(self.ep, op, &buffers)
    }

    fn cancel(&self, context: usize) -> Result<()> {
        self.engine().cancel(self.ep, context)
    }

    fn same_engine(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.port, &other.port)
    }

    #[inline]
    fn progress(&self) {
        self.engine().progress();
    }

    #[inline]
    fn poll(&self) -> bool {
        self.port.pass(|| false, Engine::progress)
    }

    #[inline]
    fn poll_into(&self, queue: &CompletionQueue<SafeLock>, out: &mut EntryBuf) -> bool {
        let enough = || !queue.seems_empty();
        self.port.pass(enough, |engine| {
            let Some(ep) = engine.eps.get_mut(self.ep) else { return };
            ep.report.divert(queue, out);
            engine.progress();
            if let Some(ep) = engine.eps.get_mut(self.ep) {
                ep.report.restore(out);
            }
        })
    }

    fn wait_fd(&self) -> Result<i32> {
        Ok(self.port.wait_fd)
    }

    fn arm(&self) -> Result<bool> {
        Ok(self.engine().arm())
    }

    fn stats(&self) -> Stats {
        self.engine().eps.get(self.ep).map_or_else(Stats::default, |ep| ep.stats)
    }
}
