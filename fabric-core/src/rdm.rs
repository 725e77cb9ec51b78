//! HOT. Reliable-datagram endpoints over any [`Wire`]: what applications bind, enable and use.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Errno, Result,
    api::{Endpoint, NoSharedReceive},
    attr::WaitObj,
    attr::{EpType, Info},
    auto::AutoProgress,
    av::{Av, BoundAv},
    completion::{CompletionQueue, Counter, Cq, EntryBuf},
    discovery::Names,
    domain::{Child, Domain},
    engine::{CqBinding, Engine, Limits, Stats},
    eq::{BoundEq, EventQueue, RequestHandle},
    flags::{Flags, Order},
    lock::{Access, Guarded, Lock},
    log::Subsys,
    mem::Buffers,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    wire::Wire,
};

/// `FI_OPT_MIN_MULTI_RECV` and the options that answer with a size.
mod option {
    pub(super) const MIN_MULTI_RECV: i32 = 0;
    pub(super) const TX_SIZE: i32 = 6;
    pub(super) const RX_SIZE: i32 = 7;
    pub(super) const MAX_MSG_SIZE: i32 = 12;
    pub(super) const MAX_TAGGED_SIZE: i32 = 13;
    pub(super) const MAX_RMA_SIZE: i32 = 14;
    pub(super) const MAX_ATOMIC_SIZE: i32 = 15;
    pub(super) const INJECT_MSG_SIZE: i32 = 16;
    pub(super) const INJECT_TAGGED_SIZE: i32 = 17;
    pub(super) const INJECT_RMA_SIZE: i32 = 18;
    pub(super) const INJECT_ATOMIC_SIZE: i32 = 19;
}

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
const OWED_PATIENCE: Duration = Duration::from_secs(1);
const STALLED: Duration = Duration::from_millis(50);
/// Default of `FI_OPT_MIN_MULTI_RECV`.
const MIN_MULTI_RECV: usize = 4096;

/// An endpoint of reliable datagrams.
pub struct RdmEndpoint<W: Wire, L: Lock> {
    engine: L::Cell<Engine<W, L>>,
    setup: Mutex<Setup<W, L>>,
    tx_flags: Flags,
    rx_flags: Flags,
    caps: Flags,
    sizes: Sizes,
    domain: Arc<Domain>,
    /// The process that has opened it.
    owner: u32,
}

struct Sizes {
    tx: usize,
    rx: usize,
    inject: usize,
    max_msg: usize,
}

/// What has been bound.
struct Setup<W: Wire, L: Lock> {
    child: Option<Child>,
    av: Option<BoundAv>,
    eq: Option<BoundEq>,
    tx: Option<CqUse<W, L>>,
    rx: Option<CqUse<W, L>>,
    counters: Vec<Arc<Counter<RdmEndpoint<W, L>>>>,
    auto: Option<AutoProgress>,
    state: State,
}

struct CqUse<W: Wire, L: Lock> {
    cq: Arc<Cq<RdmEndpoint<W, L>>>,
    selective: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Enabled,
    Closed,
}

impl<W: Wire, L: Lock> fmt::Debug for RdmEndpoint<W, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdmEndpoint").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl<W: Wire, L: Lock> RdmEndpoint<W, L> {
    fn setup(&self) -> MutexGuard<'_, Setup<W, L>> {
        self.setup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is bound may change only before the endpoint is enabled.
    fn binding(&self) -> Result<MutexGuard<'_, Setup<W, L>>> {
        let setup = self.setup();
        if setup.state == State::Open { Ok(setup) } else { Err(Errno::EOPBADSTATE) }
    }

    #[inline]
    fn enabled(&self) -> Result<Access<'_, L, Engine<W, L>>> {
        let engine = self.engine.lock();
        if engine.enabled { Ok(engine) } else { Err(Errno::EOPBADSTATE) }
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
    let (mut owed, mut moved) = (engine.core.owed(), Instant::now());
    while owed != 0 && begin.elapsed() < OWED_PATIENCE && moved.elapsed() < STALLED {
        engine.progress();
        let left = engine.core.owed();
        if left == owed {
            std::thread::yield_now();
        } else {
            (owed, moved) = (left, Instant::now());
        }
    }
}

/// Whether this kind of endpoint can be what `info` asks for, which need not come from discovery.
fn check(info: &Info, caps: Flags) -> Result<()> {
    let ep_type = info.ep.as_ref().map_or(0, |ep| ep.ep_type);
    if !matches!(EpType::from_raw(ep_type), Some(EpType::Unspec | EpType::Rdm)) {
        crate::warn!("core", Subsys::EpCtrl, "ep_attr.type: wanted {ep_type}, offered FI_EP_RDM");
        return Err(Errno::EINVAL);
    }
    let beyond = info.caps - caps;
    if !beyond.is_empty() {
        let beyond = Names("FI_", beyond);
        crate::warn!("core", Subsys::EpCtrl, "caps: wanted {beyond}, which is not offered");
        return Err(Errno::EINVAL);
    }
    Ok(())
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
        let or = |size: Option<usize>, default: usize| size.filter(|s| *s != 0).unwrap_or(default);
        let sizes = Sizes {
            tx: or(tx.map(|tx| tx.size), 1024),
            rx: or(rx.map(|rx| rx.size), 1024),
            inject: or(tx.map(|tx| tx.inject_size), 4096),
            max_msg: or(info.ep.as_ref().map(|ep| ep.max_msg_size), usize::MAX),
        };
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
            setup: Mutex::new(Setup {
                child: Some(domain.child()),
                av: None,
                eq: None,
                tx: None,
                rx: None,
                counters: Vec::new(),
                auto: None,
                state: State::Open,
            }),
            tx_flags: tx.map_or(Flags::empty(), |tx| tx.op_flags),
            rx_flags: rx.map_or(Flags::empty(), |rx| rx.op_flags),
            caps: info.caps,
            sizes,
            domain: domain.clone(),
            owner: std::process::id(),
        }))
    }

    fn bind_av(self: &Arc<Self>, av: &Arc<Av>) -> Result<()> {
        let mut setup = self.binding()?;
        if setup.av.is_some() {
            return Err(Errno::EINVAL);
        }
        setup.av = Some(av.bind()?);
        Ok(())
    }

    fn bind_cq(self: &Arc<Self>, cq: &Arc<Cq<Self>>, flags: Flags) -> Result<()> {
        let directions = Flags::SEND | Flags::RECV;
        if !(directions | Flags::SELECTIVE_COMPLETION).contains(flags) {
            return Err(Errno::EBADFLAGS);
        }
        let mut setup = self.binding()?;
        let (tx, rx) = (flags.contains(Flags::SEND), flags.contains(Flags::RECV));
        if (!tx && !rx) || (tx && setup.tx.is_some()) || (rx && setup.rx.is_some()) {
            return Err(Errno::EINVAL);
        }
        let selective = flags.contains(Flags::SELECTIVE_COMPLETION);
        if tx {
            setup.tx = Some(CqUse { cq: cq.clone(), selective });
        }
        if rx {
            setup.rx = Some(CqUse { cq: cq.clone(), selective });
        }
        drop(setup);
        cq.attach(self)
    }

    fn bind_counter(self: &Arc<Self>, counter: &Arc<Counter<Self>>, flags: Flags) -> Result<()> {
        let counted = Flags::SEND
            | Flags::RECV
            | Flags::READ
            | Flags::WRITE
            | Flags::REMOTE_READ
            | Flags::REMOTE_WRITE;
        if !counted.contains(flags) {
            return Err(Errno::EBADFLAGS);
        }
        if flags.is_empty() {
            return Err(Errno::EINVAL);
        }
        let mut setup = self.binding()?;
        self.engine.lock().core.report.bind_counter(counter.value(), flags)?;
        setup.counters.push(counter.clone());
        drop(setup);
        counter.attach(self)
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        self.binding()?.eq = Some(eq.bind()?);
        Ok(())
    }

    fn enable(self: &Arc<Self>) -> Result<()> {
        let mut setup = self.setup();
        match setup.state {
            State::Enabled => return Ok(()),
            State::Closed => return Err(Errno::EOPBADSTATE),
            State::Open => {}
        }
        let mut engine = self.engine.lock();
        let av = setup.av.as_ref().ok_or(Errno::ENOAV)?;
        let report = &mut engine.core.report;
        let sends = self.caps.intersects(Flags::SEND | Flags::READ | Flags::WRITE);
        let counted =
            report.counts(Flags::SEND) || report.counts(Flags::READ) || report.counts(Flags::WRITE);
        if sends && setup.tx.is_none() && !counted {
            return Err(Errno::ENOCQ);
        }
        let receives = self.caps.contains(Flags::RECV);
        if receives && setup.rx.is_none() && !report.counts(Flags::RECV) {
            return Err(Errno::ENOCQ);
        }
        let binding =
            |cq: &CqUse<W, L>| CqBinding { queue: cq.cq.queue().clone(), selective: cq.selective };
        report.tx = setup.tx.as_ref().map(binding);
        report.rx = setup.rx.as_ref().map(binding);
        engine.set_av(Some(Arc::clone(av)));
        let waits = |obj: WaitObj| !matches!(obj, WaitObj::None | WaitObj::Yield);
        let sleeps = self.domain.auto_progress()
            || [&setup.tx, &setup.rx].into_iter().flatten().any(|u| waits(u.cq.attr().wait_obj))
            || setup.counters.iter().any(|counter| waits(counter.attr().wait_obj));
        engine.wire.enable(sleeps)?;
        engine.enabled = true;
        drop(engine);
        if self.domain.auto_progress() {
            setup.auto = Some(AutoProgress::start(self)?);
        }
        setup.state = State::Enabled;
        Ok(())
    }

    fn close(self: &Arc<Self>) {
        let mut setup = self.setup();
        if setup.state == State::Closed {
            return;
        }
        setup.state = State::Closed;
        let auto = setup.auto.take();
        let cqs = (setup.tx.take(), setup.rx.take());
        let counters = std::mem::take(&mut setup.counters);
        drop(setup);
        // Joins the thread, which may be inside `progress`.
        drop(auto);
        for cq in [cqs.0, cqs.1].into_iter().flatten() {
            cq.cq.detach(self);
        }
        for counter in counters {
            counter.detach(self);
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
        let mut setup = self.setup();
        setup.av = None;
        setup.eq = None;
        setup.child = None;
    }

    fn name(&self) -> Result<Vec<u8>> {
        Ok(self.engine.lock().wire.name().to_vec())
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        let _open = self.binding()?;
        self.engine.lock().wire.set_name(name)
    }

    fn option(&self, name: i32) -> Result<Vec<u8>> {
        let size = match name {
            option::MIN_MULTI_RECV => self.engine.lock().core.limits.min_multi_recv,
            option::TX_SIZE => self.sizes.tx,
            option::RX_SIZE => self.sizes.rx,
            option::MAX_MSG_SIZE | option::MAX_TAGGED_SIZE | option::MAX_RMA_SIZE => {
                self.sizes.max_msg
            }
            option::MAX_ATOMIC_SIZE => ATOMIC,
            option::INJECT_MSG_SIZE
            | option::INJECT_TAGGED_SIZE
            | option::INJECT_RMA_SIZE
            | option::INJECT_ATOMIC_SIZE => self.sizes.inject,
            _ => return Err(Errno::ENOPROTOOPT),
        };
        Ok(size.to_ne_bytes().to_vec())
    }

    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        if name != option::MIN_MULTI_RECV {
            return Err(Errno::ENOPROTOOPT);
        }
        let bytes = value.try_into().map_err(|_| Errno::EINVAL)?;
        self.engine.lock().core.limits.min_multi_recv = usize::from_ne_bytes(bytes);
        Ok(())
    }

    fn tx_op_flags(&self) -> Flags {
        self.tx_flags
    }

    fn rx_op_flags(&self) -> Flags {
        self.rx_flags
    }

    fn atomic_limit(&self) -> usize {
        ATOMIC
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
        let mut engine = self.engine.lock();
        if engine.enabled {
            engine.progress();
            engine.hand_on();
        }
    }

    #[inline]
    fn progress_into(&self, queue: &CompletionQueue<L>, out: &mut EntryBuf) {
        let mut engine = self.engine.lock();
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
