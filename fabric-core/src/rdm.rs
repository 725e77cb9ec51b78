//! HOT. Reliable-datagram endpoints over any [`Wire`]: what applications bind, enable and use.

use std::{
    ffi::CStr,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Errno, Result,
    api::{Endpoint, NoSharedReceive},
    attr::{EpType, Info},
    av::Av,
    bindings::Bindings,
    closing::{self, Patience},
    completion::{CompletionQueue, Counter, Cq, EntryBuf},
    domain::Domain,
    engine::{Engine, Limits, Stats},
    eq::{EventQueue, RequestHandle},
    flags::{Flags, Order},
    lock::{Access, Guarded, Lock},
    log::Subsys,
    mem::Buffers,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    options::{self, Sizes},
    wire::Wire,
};

/// Bytes of one message in one packet, where the transport can.
const EAGER: usize = 64 * 1024;
/// Progress calls in which a sender may answer before its memory is copied: some microseconds.
const PATIENCE: u32 = 256;
/// Direct copies from both ends start here: below, the invitation costs more than it saves.
const SHARED: usize = 384 * 1024;
/// Largest atomic payload.
const ATOMIC: usize = 4096;
/// Bytes from one peer without receives before it keeps its payloads.
const WAITING_BYTES: usize = 16 << 20;
/// How long closing waits for a peer that is writing to our memory at this very moment.
const LENT_PATIENCE: Duration = Duration::from_secs(1);
/// How long closing waits for room for what the application believes sent, and how long while none
/// is made.
const OWED: Patience =
    Patience { whole: Duration::from_secs(1), stalled: Duration::from_millis(50) };
/// Sizes of an endpoint whose info names none.
const SIZES: Sizes =
    Sizes { tx: 1024, rx: 1024, inject: 4096, max_msg: usize::MAX, atomic: ATOMIC };
/// Default of `FI_OPT_MIN_MULTI_RECV`.
const MIN_MULTI_RECV: usize = 4096;

/// An endpoint of reliable datagrams.
pub struct RdmEndpoint<W: Wire, L: Lock> {
    engine: L::Cell<Engine<W, L>>,
    bindings: Bindings<Self>,
    tx_flags: Flags,
    rx_flags: Flags,
    caps: Flags,
    sizes: Sizes,
    /// The process that has opened it.
    owner: u32,
}

impl<W: Wire, L: Lock> fmt::Debug for RdmEndpoint<W, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdmEndpoint").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl<W: Wire, L: Lock> RdmEndpoint<W, L> {
    #[inline]
    fn enabled(&self) -> Result<Access<'_, L, Engine<W, L>>> {
        let engine = self.engine.lock();
        if engine.enabled { Ok(engine) } else { Err(Errno::EOPBADSTATE) }
    }
}

/// One progress call.
#[inline]
fn advance<W: Wire, L: Lock>(engine: &mut Engine<W, L>) {
    if engine.enabled {
        engine.progress();
        engine.hand_on();
    }
}

/// Before an endpoint goes: lets peers finish writing to its memory, and what the application has
/// been told is sent leave, as long as the peers make room for it.
fn settle<W: Wire, L: Lock>(engine: &mut Engine<W, L>) {
    let begin = Instant::now();
    // A peer that fills memory for us says so soon, or ends.
    while engine.core.lends() && begin.elapsed() < LENT_PATIENCE {
        engine.progress();
    }
    closing::settle(engine, begin, OWED, Engine::progress, |engine| engine.core.owed());
}

/// Whether this kind of endpoint can be what `info` asks for, which need not come from discovery.
fn check(info: &Info, caps: Flags) -> Result<()> {
    let ep_type = info.ep.as_ref().map_or(0, |ep| ep.ep_type);
    if !matches!(EpType::from_raw(ep_type), Some(EpType::Unspec | EpType::Rdm)) {
        crate::warn!("core", Subsys::EpCtrl, "ep_attr.type: wanted {ep_type}, offered FI_EP_RDM");
        return Err(Errno::EINVAL);
    }
    options::check_caps("core", info.caps, caps)
}

impl<W: Wire, L: Lock> Endpoint for RdmEndpoint<W, L> {
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
        check(info, W::CAPS)?;
        let (tx, rx) = (info.tx.as_ref(), info.rx.as_ref());
        let sizes = Sizes::of(info, SIZES);
        let limits = Limits {
            inject: sizes.inject,
            eager: EAGER,
            patience: PATIENCE,
            shared: SHARED,
            outstanding: sizes.tx,
            atomic: ATOMIC,
            waiting_bytes: WAITING_BYTES,
            min_multi_recv: MIN_MULTI_RECV,
            ordered: tx.is_some_and(|tx| !Order::SAS.contains(tx.msg_order)),
            directed: info.caps.contains(Flags::DIRECTED_RECV),
            source: info.caps.contains(Flags::SOURCE),
            rma_event: info.caps.contains(Flags::RMA_EVENT),
        };
        let wire = W::open(info)?;
        Ok(Arc::new(Self {
            engine: Guarded::new(Engine::new(wire, domain.regions().clone(), limits)),
            bindings: Bindings::new(domain),
            tx_flags: tx.map_or(Flags::empty(), |tx| tx.op_flags),
            rx_flags: rx.map_or(Flags::empty(), |rx| rx.op_flags),
            caps: info.caps,
            sizes,
            owner: std::process::id(),
        }))
    }

    fn words(prov_errno: i32) -> Option<&'static CStr> {
        W::words(Errno::new(prov_errno))
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
            let (av, sleeps) = (start.av.cloned(), start.sleeps);
            start.apply(&mut engine.core.report);
            engine.set_av(av);
            engine.wire.enable(sleeps)?;
            engine.enabled = true;
            Ok(())
        })
    }

    fn close(self: &Arc<Self>) {
        if !self.bindings.stop(self) {
            return;
        }
        let mut engine = self.engine.lock();
        // The rings of a forked child are its parent's to fill.
        if engine.enabled && self.owner == std::process::id() {
            settle(&mut engine);
        }
        engine.enabled = false;
        engine.drop_all();
        engine.wire.close();
        drop(engine);
        self.bindings.release();
    }

    fn name(&self) -> Result<Vec<u8>> {
        Ok(self.engine.lock().wire.name().to_vec())
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        let _open = self.bindings.not_enabled()?;
        self.engine.lock().wire.set_name(name)
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
        // SAFETY: this function's own contract.
        let (operand, compare, result) = unsafe {
            (Buffers::new(op.operand)?, Buffers::new(op.compare)?, Buffers::new(op.result)?)
        };
        let mut engine = self.enabled()?;
        let posted = engine.post_atomic(op, operand, compare, result);
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
        self.engine.lock().wire.wait_fd()
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
