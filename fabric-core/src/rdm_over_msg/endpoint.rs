//! HOT. Reliable-datagram endpoints over any [`Transport`]: what applications bind, enable and use.

use std::{
    ffi::CStr,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Address, Engine, Limits, Transport, atomics::atomic_limit, packet::HEAD_LEN};
use crate::{
    Errno, Result,
    api::{Endpoint, NoSharedReceive},
    attr::{EpType, Info},
    av::Av,
    bindings::Bindings,
    closing::{self, Patience},
    completion::{CompletionQueue, Counter, Cq, EntryBuf},
    domain::Domain,
    engine::Stats,
    eq::{EventQueue, RequestHandle},
    flags::Flags,
    lock::{Access, Guarded, Lock},
    log::Subsys,
    mem::Buffers,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    options::{self, Sizes},
    param::known,
};

/// Sizes of an endpoint whose info names none.
const SIZES: Sizes = Sizes { tx: 2048, rx: 2048, inject: 64, max_msg: usize::MAX, atomic: 0 };
/// Default of `FI_OPT_MIN_MULTI_RECV`.
const MIN_MULTI_RECV: usize = 16384;
/// How long closing waits for the network to take what the application believes sent, and how long
/// while it takes nothing.
const OWED: Patience = Patience { whole: Duration::from_secs(5), stalled: Duration::from_secs(1) };

/// An endpoint of reliable datagrams over connections.
pub struct MsgRdmEndpoint<T: Transport, L: Lock> {
    engine: L::Cell<Engine<T, L>>,
    bindings: Bindings<Self>,
    tx_flags: Flags,
    rx_flags: Flags,
    caps: Flags,
    sizes: Sizes,
    /// The process that has opened it.
    owner: u32,
}

impl<T: Transport, L: Lock> fmt::Debug for MsgRdmEndpoint<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MsgRdmEndpoint").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl<T: Transport, L: Lock> MsgRdmEndpoint<T, L> {
    #[inline]
    fn enabled(&self) -> Result<Access<'_, L, Engine<T, L>>> {
        let engine = self.engine.lock();
        if engine.enabled { Ok(engine) } else { Err(Errno::EOPBADSTATE) }
    }
}

/// One progress call.
#[inline]
fn advance<T: Transport, L: Lock>(engine: &mut Engine<T, L>) {
    if engine.enabled {
        engine.progress();
        engine.hand_on();
    }
}

/// Largest message in segments: there are none where a segment's header has no room for its length.
const fn segmented(eager: u32, limit: usize) -> usize {
    if eager > u16::MAX as u32 { 0 } else { limit }
}

/// Before an endpoint goes: lets what the application has been told is sent leave, as long as the
/// network takes it.
fn settle<T: Transport, L: Lock>(engine: &mut Engine<T, L>) {
    closing::settle(engine, Instant::now(), OWED, Engine::progress, Engine::owes);
}

/// Whether this kind of endpoint can be what `info` asks for, which need not come from discovery.
fn check(info: &Info, caps: Flags) -> Result<()> {
    let ep_type = info.ep.as_ref().map_or(0, |ep| ep.ep_type);
    if !matches!(EpType::from_raw(ep_type), Some(EpType::Unspec | EpType::Rdm)) {
        crate::warn!(
            "ofi_rxm",
            Subsys::EpCtrl,
            "ep_attr.type: wanted {ep_type}, offered FI_EP_RDM"
        );
        return Err(Errno::EINVAL);
    }
    options::check_caps("ofi_rxm", info.caps, caps)
}

impl<T: Transport, L: Lock> Endpoint for MsgRdmEndpoint<T, L> {
    type Lock = L;
    type SharedReceive = NoSharedReceive;

    fn words(prov_errno: i32) -> Option<&'static CStr> {
        T::words(Errno::new(prov_errno))
    }

    fn open(
        domain: &Arc<Domain>,
        info: &Info,
        request: Option<&RequestHandle>,
        _context: usize,
    ) -> Result<Arc<Self>> {
        if request.is_some() {
            return Err(Errno::EINVAL);
        }
        check(info, T::CAPS)?;
        let (tx, rx) = (info.tx.as_ref(), info.rx.as_ref());
        let eager = u32::try_from(known::RXM_BUFFER_SIZE.size()).unwrap_or(u32::MAX);
        let mut sizes = Sizes::of(info, SIZES);
        if info.caps.contains(Flags::ATOMIC) {
            sizes.atomic = atomic_limit(eager);
        }
        let limits = Limits {
            inject: sizes.inject,
            outstanding: sizes.tx.max(1),
            eager,
            segmented: segmented(eager, known::RXM_SAR_LIMIT.size()),
            written: known::RXM_USE_RNDV_WRITE.truth(),
            min_multi_recv: MIN_MULTI_RECV,
            directed: info.caps.contains(Flags::DIRECTED_RECV),
            source: info.caps.contains(Flags::SOURCE),
            rma_event: info.caps.contains(Flags::RMA_EVENT),
            connect: Duration::from_secs(known::TCP_CONNECT_TIMEOUT.size() as u64),
        };
        let transport = T::open(domain, info, HEAD_LEN + eager as usize)?;
        Ok(Arc::new(Self {
            engine: Guarded::new(Engine::new(transport, domain.regions().clone(), limits)),
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
        let count = |value: &_, flags| self.engine.lock().core.report.bind_counter(value, flags);
        self.bindings.bind_counter(self, counter, flags, count)
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        self.bindings.bind_eq(eq)
    }

    fn enable(self: &Arc<Self>) -> Result<()> {
        let counts = |direction| self.engine.lock().core.report.counts(direction);
        self.bindings.enable(self, self.caps, true, counts, |start| {
            let mut engine = self.engine.lock();
            let av = start.av.cloned();
            start.apply(&mut engine.core.report);
            engine.set_av(av);
            engine.listen()?;
            engine.enabled = true;
            Ok(())
        })
    }

    fn close(self: &Arc<Self>) {
        if !self.bindings.stop(self) {
            return;
        }
        let mut engine = self.engine.lock();
        // The connections of a forked child are its parent's, too.
        if engine.enabled && self.owner == std::process::id() {
            settle(&mut engine);
        }
        engine.enabled = false;
        engine.close();
        drop(engine);
        self.bindings.release();
    }

    fn name(&self) -> Result<Vec<u8>> {
        let mut engine = self.engine.lock();
        let name = engine.name()?;
        Ok(engine.transport.public_name(name).to_bytes())
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        let _open = self.bindings.not_enabled()?;
        self.engine.lock().transport.set_name(Address::parse(name)?)
    }

    fn option(&self, name: i32) -> Result<Vec<u8>> {
        let size = match name {
            options::MIN_MULTI_RECV => self.engine.lock().core.inbox.min_multi_recv,
            _ => self.sizes.option(name)?,
        };
        Ok(size.to_ne_bytes().to_vec())
    }

    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        let size = options::min_multi_recv(name, value)?;
        self.engine.lock().core.inbox.min_multi_recv = size;
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
        let mut engine = self.enabled()?;
        let posted = engine.post_send(op, buffers);
        engine.hand_on();
        posted
    }

    #[inline]
    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        let mut engine = self.enabled()?;
        let posted = engine.post_recv(op, buffers);
        engine.hand_on();
        posted
    }

    unsafe fn rma(&self, op: &RmaOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        let mut engine = self.enabled()?;
        let posted = engine.post_rma(op, buffers);
        engine.hand_on();
        posted
    }

    unsafe fn atomic(&self, op: &AtomicOp<'_>) -> Result<()> {
        if self.sizes.atomic == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: this function's own contract.
        let buffers = unsafe {
            [Buffers::new(op.operand)?, Buffers::new(op.compare)?, Buffers::new(op.result)?]
        };
        let mut engine = self.enabled()?;
        let posted = engine.post_atomic(op, buffers);
        engine.hand_on();
        posted
    }

    fn cancel(&self, context: usize) -> Result<()> {
        self.enabled()?.cancel(context);
        Ok(())
    }

    #[inline]
    fn progress(&self) {
        advance(&mut self.engine.lock());
    }

    #[inline]
    fn poll(&self) {
        if let Some(mut engine) = self.engine.lock_idle() {
            advance(&mut engine);
        }
    }

    #[inline]
    fn poll_into(&self, queue: &CompletionQueue<L>, out: &mut EntryBuf) {
        let Some(mut engine) = self.engine.lock_idle() else { return };
        if engine.enabled {
            engine.core.report.divert(queue, out);
            engine.progress();
            engine.core.report.restore(out);
            engine.hand_on();
        }
    }

    fn wait_fd(&self) -> Result<i32> {
        self.engine.lock().transport.wait_fd()
    }

    fn arm(&self) -> Result<bool> {
        let mut engine = self.engine.lock();
        if !engine.enabled {
            return Ok(true);
        }
        Ok(engine.arm())
    }

    fn stats(&self) -> Stats {
        self.engine.lock().stats()
    }
}
