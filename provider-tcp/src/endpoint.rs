//! HOT. Endpoints over TCP: what applications bind, enable and use.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    api::{Endpoint, NoSharedReceive},
    attr::{EpType, Info},
    av::Av,
    bindings::Bindings,
    completion::{CompletionQueue, Counter, Cq, EntryBuf},
    discovery::Names,
    domain::Domain,
    engine::Stats,
    eq::{EventQueue, RequestHandle},
    flags::Flags,
    lock::{Access, Guarded, Lock},
    log::Subsys,
    matching::PeerId,
    mem::Buffers,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    options::{self, Sizes},
    slab::Handle,
};

use crate::{
    address::SocketAddress,
    engine::{Engine, Ep, Limits},
    net::{Net, Sockets},
    offer::CAPS,
};

/// Sizes of an endpoint whose info names none.
const SIZES: Sizes = Sizes { tx: 256, rx: 65536, inject: 128, max_msg: usize::MAX, atomic: 0 };
/// Default of `FI_OPT_MIN_MULTI_RECV`.
const MIN_MULTI_RECV: usize = 16384;
/// How long a peer may take to be reached.
const CONNECT: Duration = Duration::from_secs(30);
/// How long closing waits for the network to take what the application believes sent, and how long
/// while it takes nothing.
const OWED_PATIENCE: Duration = Duration::from_secs(5);
const STALLED: Duration = Duration::from_secs(1);

/// An endpoint.
pub struct TcpEndpoint<L: Lock> {
    port: Arc<Port<L>>,
    /// Of this endpoint in the engine.
    ep: Handle,
    bindings: Bindings<Self>,
    /// The address to listen at, as it is known before enabling.
    tx_flags: Flags,
    rx_flags: Flags,
    caps: Flags,
    sizes: Sizes,
    /// The process that has opened it.
    owner: u32,
}

/// An engine and its lock; one for a reliable datagram endpoint.
struct Port<L: Lock> {
    engine: L::Cell<Engine<L, Sockets>>,
}

impl<L: Lock> fmt::Debug for TcpEndpoint<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpEndpoint").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl<L: Lock> TcpEndpoint<L> {
    #[inline]
    fn engine(&self) -> Access<'_, L, Engine<L, Sockets>> {
        self.port.engine.lock()
    }

    /// Sends where one peer is all there is have it implied.
    #[inline]
    fn target(&self, engine: &mut Engine<L, Sockets>, dest: u64) -> Result<PeerId> {
        if !engine.core.eps.get(self.ep).is_some_and(|ep| ep.enabled) {
            return Err(Errno::EOPBADSTATE);
        }
        engine.resolve(self.ep, dest)
    }
}

/// Whether this kind of endpoint can be what `info` asks for, which need not come from discovery.
fn check(info: &Info) -> Result<()> {
    let ep_type = info.ep.as_ref().map_or(0, |ep| ep.ep_type);
    if !matches!(EpType::from_raw(ep_type), Some(EpType::Unspec | EpType::Rdm)) {
        fabric_core::warn!(
            "tcp",
            Subsys::EpCtrl,
            "ep_attr.type: wanted {ep_type}, offered FI_EP_RDM"
        );
        return Err(Errno::EINVAL);
    }
    let beyond = info.caps - CAPS;
    if !beyond.is_empty() {
        let beyond = Names("FI_", beyond);
        fabric_core::warn!("tcp", Subsys::EpCtrl, "caps: wanted {beyond}, which is not offered");
        return Err(Errno::EINVAL);
    }
    Ok(())
}

impl<L: Lock> Endpoint for TcpEndpoint<L> {
    type Lock = L;

    type SharedReceive = NoSharedReceive;

    fn open(
        domain: &Arc<Domain>,
        info: &Info,
        request: Option<&RequestHandle>,
        _context: usize,
    ) -> Result<Arc<Self>> {
        if request.is_some() {
            return Err(Errno::EINVAL);
        }
        check(info)?;
        let (tx, rx) = (info.tx.as_ref(), info.rx.as_ref());
        let sizes = Sizes::of(info, SIZES);
        let limits = Limits {
            inject: sizes.inject,
            outstanding: sizes.tx.max(1),
            directed: info.caps.contains(Flags::DIRECTED_RECV),
            source: info.caps.contains(Flags::SOURCE),
            rma_event: info.caps.contains(Flags::RMA_EVENT),
            coalesce: true,
            connect: CONNECT,
        };
        let mut state = Ep::new(domain.regions().clone(), limits, MIN_MULTI_RECV);
        state.local = local(info)?;
        let mut engine = Engine::new(Sockets::new(None)?);
        let ep = engine.core.eps.insert(state).map_err(|_| Errno::EMFILE)?;
        Ok(Arc::new(Self {
            port: Arc::new(Port { engine: Guarded::new(engine) }),
            ep,
            bindings: Bindings::new(domain),
            tx_flags: tx.map_or(Flags::empty(), |tx| tx.op_flags),
            rx_flags: rx.map_or(Flags::empty(), |rx| rx.op_flags),
            caps: info.caps,
            sizes,
            owner: std::process::id(),
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
        self.bindings.bind_eq(eq)
    }

    fn enable(self: &Arc<Self>) -> Result<()> {
        let counts = |direction| {
            self.engine().core.eps.get(self.ep).is_some_and(|ep| ep.report.counts(direction))
        };
        self.bindings.enable(self, self.caps, true, counts, |start| {
            let mut engine = self.engine();
            let ep = engine.core.eps.get_mut(self.ep).ok_or(Errno::EOPBADSTATE)?;
            ep.set_av(start.av.cloned());
            start.apply(&mut ep.report);
            let address = ep.local.ok_or(Errno::EADDRNOTAVAIL)?;
            engine.listen(self.ep, address)?;
            if let Some(ep) = engine.core.eps.get_mut(self.ep) {
                ep.enabled = true;
            }
            Ok(())
        })
    }

    fn close(self: &Arc<Self>) {
        if !self.bindings.stop(self) {
            return;
        }
        let mut engine = self.engine();
        // The sockets of a forked child are its parent's, too.
        if self.owner == std::process::id() {
            settle(&mut engine);
        }
        engine.close(self.ep);
        drop(engine);
        self.bindings.release();
    }

    fn name(&self) -> Result<Vec<u8>> {
        let engine = self.engine();
        let ep = engine.core.eps.get(self.ep).ok_or(Errno::EOPBADSTATE)?;
        ep.local.map(SocketAddress::to_bytes).ok_or(Errno::EADDRNOTAVAIL)
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        let _open = self.bindings.not_enabled()?;
        let mut engine = self.engine();
        let ep = engine.core.eps.get_mut(self.ep).ok_or(Errno::EOPBADSTATE)?;
        ep.local = Some(SocketAddress::parse(name)?);
        Ok(())
    }

    fn option(&self, name: i32) -> Result<Vec<u8>> {
        let engine = self.engine();
        let size = match name {
            options::MIN_MULTI_RECV => {
                engine.core.eps.get(self.ep).map_or(MIN_MULTI_RECV, |ep| ep.inbox.min_multi_recv)
            }
            _ => self.sizes.option(name)?,
        };
        Ok(size.to_ne_bytes().to_vec())
    }

    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        if name != options::MIN_MULTI_RECV {
            return Err(Errno::ENOPROTOOPT);
        }
        let bytes = value.try_into().map_err(|_| Errno::EINVAL)?;
        if let Some(ep) = self.engine().core.eps.get_mut(self.ep) {
            ep.inbox.min_multi_recv = usize::from_ne_bytes(bytes);
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

    unsafe fn atomic(&self, _: &AtomicOp<'_>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn cancel(&self, context: usize) -> Result<()> {
        self.engine().cancel(self.ep, context);
        Ok(())
    }

    #[inline]
    fn progress(&self) {
        self.engine().progress();
    }

    #[inline]
    fn progress_into(&self, queue: &CompletionQueue<L>, out: &mut EntryBuf) {
        let mut engine = self.engine();
        if let Some(ep) = engine.core.eps.get_mut(self.ep) {
            ep.report.divert(queue, out);
            engine.progress();
            if let Some(ep) = engine.core.eps.get_mut(self.ep) {
                ep.report.restore(out);
            }
        }
    }

    fn wait_fd(&self) -> Result<i32> {
        Ok(self.engine().net.wait_fd())
    }

    fn arm(&self) -> Result<bool> {
        Ok(self.engine().arm())
    }

    fn stats(&self) -> Stats {
        self.engine().core.eps.get(self.ep).map_or_else(Stats::default, |ep| ep.stats)
    }
}

/// The address that an info gives to its endpoint.
fn local(info: &Info) -> Result<Option<SocketAddress>> {
    if info.src_addr.is_empty() {
        return Ok(None);
    }
    SocketAddress::parse(&info.src_addr).map(Some)
}

/// Before an endpoint goes: lets what the application has been told is sent leave, as long as the
/// network takes it.
fn settle<L: Lock>(engine: &mut Engine<L, Sockets>) {
    let begin = Instant::now();
    let (mut owed, mut moved) = (engine.owes(), begin);
    while owed != 0 && begin.elapsed() < OWED_PATIENCE && moved.elapsed() < STALLED {
        engine.progress();
        let left = engine.owes();
        if left == owed {
            std::thread::yield_now();
        } else {
            (owed, moved) = (left, Instant::now());
        }
    }
}
