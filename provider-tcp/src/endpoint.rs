//! HOT. Endpoints over TCP: what applications bind, enable and use.

use std::{
    ffi::CStr,
    fmt,
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
    lock::{Access, SafeLock},
    log::Subsys,
    matching::PeerId,
    mem::Buffers,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    options::{self, Sizes},
    slab::Handle,
};

use crate::{
    address::{SocketAddress, local},
    engine::{ATOMIC_MAX, Ep, Limits, Msg},
    frame::cm::CM_DATA_MAX,
    offer::{self, CAPS, MSG_CAPS, WAR},
    passive::Request,
    port::{Port, Tcp},
    settings,
    shared::TcpSharedReceive,
    words::words,
};

/// Sizes of an endpoint whose info names none.
const SIZES: Sizes = Sizes { tx: 256, rx: 65536, inject: 128, max_msg: usize::MAX, atomic: 0 };
/// Default of `FI_OPT_MIN_MULTI_RECV`.
pub(crate) const MIN_MULTI_RECV: usize = 16384;
/// How long closing waits for the network to take what the application believes sent, and how long
/// while it takes nothing.
const OWED: Patience = Patience { whole: Duration::from_secs(5), stalled: Duration::from_secs(1) };

/// What an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rdm,
    Msg,
    /// Connected, without a receive side of its own.
    SharedMsg,
}

/// An endpoint.
pub struct TcpEndpoint {
    port: Arc<Port>,
    /// Of this endpoint in the engine.
    ep: Handle,
    bindings: Bindings<Self>,
    /// The address to listen at, as it is known before enabling.
    tx_flags: Flags,
    rx_flags: Flags,
    caps: Flags,
    sizes: Sizes,
    /// The process that has opened it.
    owner: Owner,
    /// The connection request that a connected endpoint is to accept.
    request: Option<Arc<Request>>,
    kind: Kind,
}

impl fmt::Debug for TcpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpEndpoint").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl TcpEndpoint {
    #[inline]
    fn engine(&self) -> Access<'_, SafeLock, Tcp> {
        self.port.lock()
    }

    /// Sends where one peer is all there is have it implied.
    #[inline]
    fn target(&self, engine: &mut Tcp, dest: u64) -> Result<PeerId> {
        if !engine.core.eps.get(self.ep).is_some_and(|ep| ep.enabled) {
            return Err(Errno::EOPBADSTATE);
        }
        engine.resolve(self.ep, dest)
    }

    /// Before it goes: lets what the application has been told is sent leave, as long as the network
    /// takes it. Others use the engine meanwhile.
    fn settle(&self) {
        let owed = self.engine().owes(self.ep);
        closing::settle(owed, Instant::now(), OWED, || {
            let mut engine = self.engine();
            engine.progress();
            engine.hand_on();
            engine.owes(self.ep)
        });
    }
}

/// The kind of endpoint that `info` asks for, if it can be; it need not come from discovery.
fn check(info: &Info) -> Result<Kind> {
    let ep_type = info.ep.as_ref().map_or(0, |ep| ep.ep_type);
    let (kind, caps) = match EpType::from_raw(ep_type) {
        Some(EpType::Unspec | EpType::Rdm) => (Kind::Rdm, CAPS),
        Some(EpType::Msg) if offer::shares_receives(info) => (Kind::SharedMsg, CAPS),
        Some(EpType::Msg) => (Kind::Msg, MSG_CAPS),
        _ => {
            fabric_core::warn!(
                "tcp",
                Subsys::EpCtrl,
                "ep_attr.type: wanted {ep_type}, offered FI_EP_RDM and FI_EP_MSG"
            );
            return Err(Errno::EINVAL);
        }
    };
    options::check_caps("tcp", info.caps, caps | offer::extensions_of(kind == Kind::Rdm))?;
    Ok(kind)
}

impl Endpoint for TcpEndpoint {
    type Lock = SafeLock;

    type SharedReceive = TcpSharedReceive;

    fn words(prov_errno: i32) -> Option<&'static CStr> {
        words(Errno::new(prov_errno))
    }

    fn open(
        domain: &Arc<Domain>,
        info: &Info,
        request: Option<&RequestHandle>,
        _context: usize,
    ) -> Result<Arc<Self>> {
        let kind = check(info)?;
        let request = match request {
            Some(_) if kind == Kind::Rdm => return Err(Errno::EINVAL),
            Some(request) => Some(Request::of(request)?),
            None => None,
        };
        let (tx, rx) = (info.tx.as_ref(), info.rx.as_ref());
        let mut sizes = Sizes::of(info, SIZES);
        let atomics = kind == Kind::Rdm && info.caps.contains(Flags::ATOMIC);
        sizes.atomic = if atomics { ATOMIC_MAX } else { 0 };
        let limits = Limits {
            inject: sizes.inject,
            outstanding: sizes.tx.max(1),
            directed: info.caps.contains(Flags::DIRECTED_RECV),
            source: info.caps.contains(Flags::SOURCE),
            rma_event: info.caps.contains(Flags::RMA_EVENT),
            war: tx.is_some_and(|tx| tx.msg_order.intersects(WAR)),
            atomics,
            coalesce: settings::coalesce(),
            connect: settings::connect_timeout(),
        };
        let mut state = Ep::new(domain.regions().clone(), limits);
        state.local = local(info)?;
        let port = match kind {
            Kind::Rdm => Port::new()?,
            Kind::Msg | Kind::SharedMsg => {
                state.msg = Some(Msg::new());
                domain.common(Port::new)?
            }
        };
        let ep = port.lock().open_endpoint(state, MIN_MULTI_RECV)?;
        Ok(Arc::new(Self {
            port,
            ep,
            request,
            kind,
            bindings: Bindings::new(domain),
            tx_flags: tx.map_or(Flags::empty(), |tx| tx.op_flags),
            rx_flags: rx.map_or(Flags::empty(), |rx| rx.op_flags),
            caps: info.caps,
            sizes,
            owner: Owner::here(),
        }))
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
            let ep = engine.core.eps.get_mut(self.ep).ok_or(Errno::EOPBADSTATE)?;
            ep.report.bind_counter(value, flags)
        })
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        if self.kind == Kind::Rdm {
            return self.bindings.bind_eq(eq);
        }
        let engine: Weak<dyn Drive> = Arc::<Port>::downgrade(&self.port);
        self.bindings.bind_driving_eq(eq, engine)
    }

    fn bind_shared_receive(self: &Arc<Self>, context: &Arc<TcpSharedReceive>) -> Result<()> {
        let _open = self.bindings.not_enabled()?;
        if self.kind != Kind::SharedMsg {
            return Err(Errno::EINVAL);
        }
        self.engine().share(self.ep, context.within(&self.port)?)
    }

    fn introduce(&self, object: usize) {
        if let Some(msg) = self.engine().core.eps.get_mut(self.ep).and_then(|ep| ep.msg.as_mut()) {
            msg.object = object;
        }
    }

    fn connect(self: &Arc<Self>, peer: &[u8], data: &[u8]) -> Result<()> {
        if self.kind == Kind::Rdm {
            return Err(Errno::ENOSYS);
        }
        if self.request.is_some() {
            return Err(Errno::EINVAL);
        }
        let peer = SocketAddress::parse(peer)?;
        let eq = self.bindings.eq()?;
        self.enable()?;
        let mut engine = self.engine();
        let connecting = engine.connect(self.ep, peer, data, eq, settings::connect_timeout());
        engine.hand_on();
        connecting
    }

    fn accept(self: &Arc<Self>, data: &[u8]) -> Result<()> {
        if self.kind == Kind::Rdm {
            return Err(Errno::ENOSYS);
        }
        let request = self.request.as_ref().ok_or(Errno::EINVAL)?;
        let eq = self.bindings.eq()?;
        self.enable()?;
        let answer = request.take()?;
        let mut engine = self.engine();
        let accepting = engine.accept_request(self.ep, answer, data, eq);
        engine.hand_on();
        accepting
    }

    fn shutdown(&self) -> Result<()> {
        if self.kind == Kind::Rdm {
            return Err(Errno::ENOSYS);
        }
        self.engine().shutdown(self.ep)
    }

    fn peer_name(&self) -> Result<Vec<u8>> {
        let engine = self.engine();
        let ep = engine.core.eps.get(self.ep).ok_or(Errno::EOPBADSTATE)?;
        let msg = ep.msg.as_ref().ok_or(Errno::ENOSYS)?;
        let peer = ep.peers.get(msg.target()? as usize).ok_or(Errno::ENOTCONN)?;
        Ok(peer.address.to_bytes())
    }

    fn same_engine(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.port, &other.port)
    }

    fn enable(self: &Arc<Self>) -> Result<()> {
        let counts = |direction| {
            self.engine().core.eps.get(self.ep).is_some_and(|ep| ep.report.counts(direction))
        };
        let rdm = self.kind == Kind::Rdm;
        if self.kind == Kind::SharedMsg && !self.engine().core.shares(self.ep) {
            fabric_core::warn!("tcp", Subsys::EpCtrl, "enable: no shared receive context is bound");
            return Err(Errno::EOPBADSTATE);
        }
        self.bindings.enable(self, self.caps, rdm, counts, |start| {
            let mut engine = self.engine();
            let ep = engine.core.eps.get_mut(self.ep).ok_or(Errno::EOPBADSTATE)?;
            ep.set_av(start.av.cloned());
            start.apply(&mut ep.report);
            if rdm {
                engine.listen(self.ep)?;
            }
            if let Some(ep) = engine.core.eps.get_mut(self.ep) {
                ep.enabled = true;
            }
            Ok(())
        })
    }

    fn close(self: &Arc<Self>) {
        if self.owner.abandons(self) || !self.bindings.stop(self) {
            return;
        }
        self.settle();
        self.engine().close(self.ep);
        self.bindings.release();
    }

    fn name(&self) -> Result<Vec<u8>> {
        let name = self.engine().name(self.ep)?;
        Ok(offer::reachable(name).to_bytes())
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        let _open = self.bindings.not_enabled()?;
        let mut engine = self.engine();
        let ep = engine.core.eps.get_mut(self.ep).ok_or(Errno::EOPBADSTATE)?;
        ep.local = Some(SocketAddress::parse(name)?);
        Ok(())
    }

    fn option(&self, name: i32) -> Result<Vec<u8>> {
        let mut engine = self.engine();
        let size = match name {
            options::MIN_MULTI_RECV => engine.core.min_multi_recv(self.ep).map_or(0, |size| *size),
            options::CM_DATA_SIZE if self.kind != Kind::Rdm => CM_DATA_MAX,
            _ => self.sizes.option(name)?,
        };
        Ok(size.to_ne_bytes().to_vec())
    }

    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        let wanted = options::min_multi_recv(name, value)?;
        if let Some(size) = self.engine().core.min_multi_recv(self.ep) {
            *size = wanted;
        }
        Ok(())
    }

    fn tx_op_flags(&self) -> Flags {
        self.tx_flags
    }

    fn rx_op_flags(&self) -> Flags {
        self.rx_flags
    }

    fn atomic_limit(&self) -> usize {
        self.sizes.atomic
    }

    #[inline]
    unsafe fn send(&self, op: &SendOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        let mut engine = self.engine();
        let peer = self.target(&mut engine, op.meta.dest)?;
        let posted = engine.post_send(self.ep, peer, op, buffers);
        engine.hand_on();
        posted
    }

    #[inline]
    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        let mut engine = self.engine();
        if !engine.core.eps.get(self.ep).is_some_and(|ep| ep.enabled) {
            return Err(Errno::EOPBADSTATE);
        }
        if self.kind == Kind::SharedMsg {
            // Receives are posted to the context.
            return Err(Errno::EOPNOTSUPP);
        }
        let posted = engine.post_recv(self.ep, op, buffers);
        engine.hand_on();
        posted
    }

    unsafe fn rma(&self, op: &RmaOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        let mut engine = self.engine();
        let peer = self.target(&mut engine, op.meta.dest)?;
        let posted = engine.post_rma(self.ep, peer, op, buffers);
        engine.hand_on();
        posted
    }

    unsafe fn atomic(&self, op: &AtomicOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe {
            [Buffers::new(op.operand)?, Buffers::new(op.compare)?, Buffers::new(op.result)?]
        };
        let mut engine = self.engine();
        let peer = self.target(&mut engine, op.meta.dest)?;
        let posted = engine.post_atomic(self.ep, peer, op, buffers);
        engine.hand_on();
        posted
    }

    fn cancel(&self, context: usize) -> Result<()> {
        self.engine().cancel(self.ep, context);
        Ok(())
    }

    #[inline]
    fn progress(&self) {
        let mut engine = self.engine();
        engine.progress();
        engine.hand_on();
    }

    #[inline]
    fn poll(&self) -> bool {
        self.port.pass(|| false, Tcp::progress)
    }

    #[inline]
    fn poll_into(&self, queue: &CompletionQueue<SafeLock>, out: &mut EntryBuf) -> bool {
        let enough = || !queue.seems_empty();
        self.port.pass(enough, |engine| {
            let Some(ep) = engine.core.eps.get_mut(self.ep) else { return };
            ep.report.divert(queue, out);
            engine.progress();
            if let Some(ep) = engine.core.eps.get_mut(self.ep) {
                ep.report.restore(out);
            }
        })
    }

    fn wait_fd(&self) -> Result<i32> {
        self.port.wait_fd()
    }

    fn arm(&self) -> Result<bool> {
        Ok(self.engine().arm())
    }

    fn stats(&self) -> Stats {
        self.engine().core.eps.get(self.ep).map_or_else(Stats::default, |ep| ep.stats)
    }
}
