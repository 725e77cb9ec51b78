//! HOT. Reliable-datagram endpoints: what applications bind, enable and use, whatever engine is inside.

mod over_wire;

use std::{ffi::CStr, fmt, sync::Arc};

use crate::{
    Errno, Result,
    api::{Endpoint, NoSharedReceive},
    attr::{EpType, Info},
    av::Av,
    bindings::Bindings,
    completion::{CompletionQueue, Counter, Cq, EntryBuf, Report},
    domain::Domain,
    engine::Stats,
    eq::{EventQueue, RequestHandle},
    flags::Flags,
    fork::Owner,
    lock::{Access, Guarded, Lock},
    mem::Buffers,
    op::{AtomicOp, RecvOp, RmaOp, SendOp},
    options::{self, Sizes},
};

pub use over_wire::WireRdmEndpoint;

/// An engine of reliable datagrams, as an endpoint drives it. Data calls and progress come between
/// `enable` and `close` only.
pub trait RdmEngine: Sized + Send + 'static {
    /// Level of locking of the endpoint.
    type Lock: Lock;

    /// What such an endpoint can do.
    const CAPS: Flags;
    /// Who speaks in the log.
    const NAME: &'static str;

    /// What a number in `prov_errno` means, where there is more to say than the system does.
    fn words(prov_errno: i32) -> Option<&'static CStr> {
        let _ = prov_errno;
        None
    }
    /// An engine for what `info` asks for, and its sizes.
    fn open(domain: &Arc<Domain>, info: &Info) -> Result<(Self, Sizes)>;
    /// Begins to serve peers. `sleeps`: threads will.
    fn enable(&mut self, av: Option<Arc<Av>>, sleeps: bool) -> Result<()>;
    /// Before it closes: lets what the application has been told is done be done, within bounds.
    fn settle(&mut self);
    /// Ends it: operations are dropped.
    fn close(&mut self);

    /// The local address.
    fn name(&mut self) -> Result<Vec<u8>>;
    /// Takes another local address, before it is enabled.
    fn set_name(&mut self, name: &[u8]) -> Result<()>;
    /// Where completions go.
    fn report(&mut self) -> &mut Report<Self::Lock>;
    /// Multi-receive buffers with less room are given back.
    fn min_multi_recv(&mut self) -> &mut usize;

    /// Posts a send of `buffers`, which describe `op.iov`.
    fn post_send(&mut self, op: &SendOp<'_>, buffers: Buffers) -> Result<()>;
    /// Posts a receive into `buffers`, which describe `op.iov`.
    fn post_recv(&mut self, op: &RecvOp<'_>, buffers: Buffers) -> Result<()>;
    /// Posts a read or write of `buffers`, which describe `op.iov`.
    fn post_rma(&mut self, op: &RmaOp<'_>, buffers: Buffers) -> Result<()>;
    /// Posts an atomic operation; the buffers describe its operands, comparands and results.
    fn post_atomic(&mut self, op: &AtomicOp<'_>, buffers: [Buffers; 3]) -> Result<()>;
    /// Takes back what was posted with `context` and has not begun.
    fn cancel(&mut self, context: usize);
    /// At the end of a call of the application: wakes who sleeps and has something to do.
    fn hand_on(&mut self);

    /// Moves everything forward that can move.
    fn progress(&mut self);
    /// A descriptor that is readable when something happens after `arm`.
    fn wait_fd(&mut self) -> Result<i32>;
    /// Prepares for sleeping; `false` if there is something to do.
    fn arm(&mut self) -> bool;
    /// Counts of what happened so far.
    fn stats(&self) -> Stats;
}

/// An endpoint of reliable datagrams.
pub struct RdmEndpoint<E: RdmEngine> {
    engine: <E::Lock as Lock>::Cell<State<E>>,
    bindings: Bindings<Self>,
    tx_flags: Flags,
    rx_flags: Flags,
    caps: Flags,
    sizes: Sizes,
    /// The process that has opened it.
    owner: Owner,
}

/// What the lock guards.
struct State<E> {
    engine: E,
    /// Data calls are accepted.
    enabled: bool,
}

impl<E: RdmEngine> State<E> {
    /// One progress call.
    #[inline]
    fn advance(&mut self) {
        if self.enabled {
            self.engine.progress();
            self.engine.hand_on();
        }
    }
}

impl<E: RdmEngine> fmt::Debug for RdmEndpoint<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdmEndpoint").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl<E: RdmEngine> RdmEndpoint<E> {
    #[inline]
    fn enabled(&self) -> Result<Access<'_, E::Lock, State<E>>> {
        let state = self.engine.lock();
        if state.enabled { Ok(state) } else { Err(Errno::EOPBADSTATE) }
    }

    /// Has the engine take an operation.
    #[inline]
    fn post(&self, post: impl FnOnce(&mut E) -> Result<()>) -> Result<()> {
        let mut state = self.enabled()?;
        let posted = post(&mut state.engine);
        state.engine.hand_on();
        posted
    }
}

/// Whether this kind of endpoint can be what `info` asks for, which need not come from discovery.
fn check<E: RdmEngine>(info: &Info) -> Result<()> {
    options::check_type(E::NAME, info, EpType::Rdm, "FI_EP_RDM")?;
    options::check_caps(E::NAME, info.caps, E::CAPS)
}

impl<E: RdmEngine> Endpoint for RdmEndpoint<E> {
    type Lock = E::Lock;
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
        check::<E>(info)?;
        let (engine, sizes) = E::open(domain, info)?;
        Ok(Arc::new(Self {
            engine: Guarded::new(State { engine, enabled: false }),
            bindings: Bindings::new(domain),
            tx_flags: info.tx.as_ref().map_or(Flags::empty(), |tx| tx.op_flags),
            rx_flags: info.rx.as_ref().map_or(Flags::empty(), |rx| rx.op_flags),
            caps: info.caps,
            sizes,
            owner: Owner::here(),
        }))
    }

    fn words(prov_errno: i32) -> Option<&'static CStr> {
        E::words(prov_errno)
    }

    fn bind_av(self: &Arc<Self>, av: &Arc<Av>) -> Result<()> {
        self.bindings.bind_av(av)
    }

    fn bind_cq(self: &Arc<Self>, cq: &Arc<Cq<Self>>, flags: Flags) -> Result<()> {
        self.bindings.bind_cq(self, cq, flags)
    }

    fn bind_counter(self: &Arc<Self>, counter: &Arc<Counter<Self>>, flags: Flags) -> Result<()> {
        let count =
            |value: &_, flags| self.engine.lock().engine.report().bind_counter(value, flags);
        self.bindings.bind_counter(self, counter, flags, count)
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        self.bindings.bind_eq(eq)
    }

    fn enable(self: &Arc<Self>) -> Result<()> {
        let counts = |direction| self.engine.lock().engine.report().counts(direction);
        self.bindings.enable(self, self.caps, true, counts, |start| {
            let mut state = self.engine.lock();
            let (av, sleeps) = (start.av.cloned(), start.sleeps);
            start.apply(state.engine.report());
            state.engine.enable(av, sleeps)?;
            state.enabled = true;
            Ok(())
        })
    }

    fn close(self: &Arc<Self>) {
        if self.owner.abandons(self) || !self.bindings.stop(self) {
            return;
        }
        let mut state = self.engine.lock();
        if state.enabled {
            state.engine.settle();
        }
        state.enabled = false;
        state.engine.close();
        drop(state);
        self.bindings.release();
    }

    fn name(&self) -> Result<Vec<u8>> {
        self.engine.lock().engine.name()
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        let _open = self.bindings.not_enabled()?;
        self.engine.lock().engine.set_name(name)
    }

    fn option(&self, name: i32) -> Result<Vec<u8>> {
        let size = match name {
            options::MIN_MULTI_RECV => *self.engine.lock().engine.min_multi_recv(),
            _ => self.sizes.option(name)?,
        };
        Ok(size.to_ne_bytes().to_vec())
    }

    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        let size = options::min_multi_recv(name, value)?;
        *self.engine.lock().engine.min_multi_recv() = size;
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
        self.post(|engine| engine.post_send(op, buffers))
    }

    #[inline]
    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        self.post(|engine| engine.post_recv(op, buffers))
    }

    unsafe fn rma(&self, op: &RmaOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        self.post(|engine| engine.post_rma(op, buffers))
    }

    unsafe fn atomic(&self, op: &AtomicOp<'_>) -> Result<()> {
        if self.sizes.atomic == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: this function's own contract.
        let buffers = unsafe {
            [Buffers::new(op.operand)?, Buffers::new(op.compare)?, Buffers::new(op.result)?]
        };
        self.post(|engine| engine.post_atomic(op, buffers))
    }

    fn cancel(&self, context: usize) -> Result<()> {
        self.enabled()?.engine.cancel(context);
        Ok(())
    }

    #[inline]
    fn progress(&self) {
        self.engine.lock().advance();
    }

    #[inline]
    fn poll(&self) -> bool {
        self.engine.pass(
            || false,
            |state| {
                state.advance();
                true
            },
        )
    }

    #[inline]
    fn poll_into(&self, queue: &CompletionQueue<E::Lock>, out: &mut EntryBuf) -> bool {
        let enough = || !queue.seems_empty();
        self.engine.pass(enough, |state| {
            if state.enabled {
                let engine = &mut state.engine;
                engine.report().divert(queue, out);
                engine.progress();
                engine.report().restore(out);
                engine.hand_on();
            }
            true
        })
    }

    fn wait_fd(&self) -> Result<i32> {
        self.engine.lock().engine.wait_fd()
    }

    fn arm(&self) -> Result<bool> {
        let mut state = self.engine.lock();
        Ok(!state.enabled || state.engine.arm())
    }

    fn stats(&self) -> Stats {
        self.engine.lock().engine.stats()
    }
}
