//! SETUP. What an endpoint is bound to, from opening to closing: one account for every provider.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crate::{
    Errno, Result,
    api::Endpoint,
    attr::WaitObj,
    auto::AutoProgress,
    av::{Av, BoundAv},
    completion::{Counter, CounterValue, Cq, CqBinding, Report},
    domain::{Child, Domain},
    eq::{BoundEq, Drive, EventQueue},
    flags::Flags,
    lock::Lock,
};

/// Directions that a counter can be bound for.
const COUNTED: Flags = Flags::SEND
    .union(Flags::RECV)
    .union(Flags::READ)
    .union(Flags::WRITE)
    .union(Flags::REMOTE_READ)
    .union(Flags::REMOTE_WRITE);

/// The queues, counters and tables of an endpoint of type `E`.
pub struct Bindings<E: Endpoint> {
    bound: Mutex<Bound<E>>,
    domain: Arc<Domain>,
}

struct Bound<E: Endpoint> {
    child: Option<Child>,
    av: Option<BoundAv>,
    eq: Option<BoundEq>,
    tx: Option<CqUse<E>>,
    rx: Option<CqUse<E>>,
    counters: Vec<Arc<Counter<E>>>,
    auto: Option<AutoProgress>,
    state: State,
}

struct CqUse<E: Endpoint> {
    cq: Arc<Cq<E>>,
    selective: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Enabled,
    Closed,
}

/// Proof that an endpoint is not enabled yet, and that nobody enables it meanwhile.
pub struct NotEnabled<'a, E: Endpoint>(MutexGuard<'a, Bound<E>>);

impl<E: Endpoint> fmt::Debug for NotEnabled<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NotEnabled({:?})", self.0.state)
    }
}

/// What an endpoint starts with.
#[derive(Debug)]
pub struct Start<'a, L: Lock> {
    /// The address vector.
    pub av: Option<&'a Arc<Av>>,
    /// The event queue.
    pub eq: Option<&'a Arc<EventQueue>>,
    /// Where operations of the endpoint report.
    pub tx: Option<CqBinding<L>>,
    /// Where receives report.
    pub rx: Option<CqBinding<L>>,
    /// Threads will at times sleep on the endpoint's descriptor.
    pub sleeps: bool,
}

impl<L: Lock> Start<'_, L> {
    /// Makes `report` report there; its counters stay.
    pub fn apply(self, report: &mut Report<L>) {
        report.tx = self.tx;
        report.rx = self.rx;
    }
}

impl<E: Endpoint> Bindings<E> {
    /// Nothing bound; the domain has one child more.
    pub fn new(domain: &Arc<Domain>) -> Self {
        let bound = Bound {
            child: Some(domain.child()),
            av: None,
            eq: None,
            tx: None,
            rx: None,
            counters: Vec::new(),
            auto: None,
            state: State::Open,
        };
        Self { bound: Mutex::new(bound), domain: domain.clone() }
    }

    /// The domain.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Every change is made in one step, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Bound<E>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn binding(&self) -> Result<MutexGuard<'_, Bound<E>>> {
        let bound = self.lock();
        if bound.state == State::Open { Ok(bound) } else { Err(Errno::EOPBADSTATE) }
    }

    /// For changes that are possible only before enabling; afterwards `EOPBADSTATE`.
    pub fn not_enabled(&self) -> Result<NotEnabled<'_, E>> {
        self.binding().map(NotEnabled)
    }

    /// [`Endpoint::bind_av`].
    pub fn bind_av(&self, av: &Arc<Av>) -> Result<()> {
        let mut bound = self.binding()?;
        if bound.av.is_some() {
            return Err(Errno::EINVAL);
        }
        bound.av = Some(av.bind()?);
        Ok(())
    }

    /// [`Endpoint::bind_eq`].
    pub fn bind_eq(&self, eq: &Arc<EventQueue>) -> Result<()> {
        self.binding()?.eq = Some(eq.bind()?);
        Ok(())
    }

    /// The same for an endpoint whose connections are moved forward by reading the queue.
    pub fn bind_driving_eq(&self, eq: &Arc<EventQueue>, engine: Weak<dyn Drive>) -> Result<()> {
        self.binding()?.eq = Some(eq.bind_driven(engine)?);
        Ok(())
    }

    /// The event queue that is bound.
    pub fn eq(&self) -> Result<Arc<EventQueue>> {
        self.lock().eq.as_deref().cloned().ok_or(Errno::ENOEQ)
    }

    /// [`Endpoint::bind_cq`].
    pub fn bind_cq(&self, endpoint: &Arc<E>, cq: &Arc<Cq<E>>, flags: Flags) -> Result<()> {
        let directions = Flags::SEND | Flags::RECV;
        if !(directions | Flags::SELECTIVE_COMPLETION).contains(flags) {
            return Err(Errno::EBADFLAGS);
        }
        let mut bound = self.binding()?;
        let (tx, rx) = (flags.contains(Flags::SEND), flags.contains(Flags::RECV));
        if (!tx && !rx) || (tx && bound.tx.is_some()) || (rx && bound.rx.is_some()) {
            return Err(Errno::EINVAL);
        }
        let selective = flags.contains(Flags::SELECTIVE_COMPLETION);
        if tx {
            bound.tx = Some(CqUse { cq: cq.clone(), selective });
        }
        if rx {
            bound.rx = Some(CqUse { cq: cq.clone(), selective });
        }
        drop(bound);
        cq.attach(endpoint)
    }

    /// [`Endpoint::bind_counter`]; `count` makes the endpoint's report count, or refuses.
    pub fn bind_counter(
        &self,
        endpoint: &Arc<E>,
        counter: &Arc<Counter<E>>,
        flags: Flags,
        count: impl FnOnce(&Arc<CounterValue>, Flags) -> Result<()>,
    ) -> Result<()> {
        if !COUNTED.contains(flags) {
            return Err(Errno::EBADFLAGS);
        }
        if flags.is_empty() {
            return Err(Errno::EINVAL);
        }
        let mut bound = self.binding()?;
        count(counter.value(), flags)?;
        bound.counters.push(counter.clone());
        drop(bound);
        counter.attach(endpoint)
    }

    /// [`Endpoint::enable`] of an endpoint with `caps`: checks what has to be bound and hands it to
    /// `start`, where `counts` says for which directions there is a counter. Datagrams, reliable or
    /// not, need an address vector (`needs_av`).
    pub fn enable(
        &self,
        endpoint: &Arc<E>,
        caps: Flags,
        needs_av: bool,
        counts: impl Fn(Flags) -> bool,
        start: impl FnOnce(Start<'_, E::Lock>) -> Result<()>,
    ) -> Result<()> {
        let mut bound = self.lock();
        match bound.state {
            State::Enabled => return Ok(()),
            State::Closed => return Err(Errno::EOPBADSTATE),
            State::Open => {}
        }
        if needs_av && bound.av.is_none() {
            return Err(Errno::ENOAV);
        }
        let sends = caps.intersects(Flags::SEND | Flags::READ | Flags::WRITE);
        let counted = [Flags::SEND, Flags::READ, Flags::WRITE].into_iter().any(&counts);
        if sends && bound.tx.is_none() && !counted {
            return Err(Errno::ENOCQ);
        }
        if caps.contains(Flags::RECV) && bound.rx.is_none() && !counts(Flags::RECV) {
            return Err(Errno::ENOCQ);
        }
        let binding =
            |cq: &CqUse<E>| CqBinding { queue: cq.cq.queue().clone(), selective: cq.selective };
        let waits = |obj: WaitObj| !matches!(obj, WaitObj::None | WaitObj::Yield);
        let sleeps = self.domain.auto_progress()
            || [&bound.tx, &bound.rx].into_iter().flatten().any(|u| waits(u.cq.attr().wait_obj))
            || bound.counters.iter().any(|counter| waits(counter.attr().wait_obj));
        // Before the endpoint is at work: what fails here can be tried again.
        let auto = self.domain.auto_progress() && !E::AUTONOMOUS;
        let auto = auto.then(|| AutoProgress::start(endpoint)).transpose()?;
        start(Start {
            av: bound.av.as_deref(),
            eq: bound.eq.as_deref(),
            tx: bound.tx.as_ref().map(binding),
            rx: bound.rx.as_ref().map(binding),
            sleeps,
        })?;
        bound.auto = auto;
        bound.auto.iter_mut().for_each(AutoProgress::go);
        bound.state = State::Enabled;
        Ok(())
    }

    /// The first half of closing: nothing drives the endpoint any more when this returns. `false`
    /// if it was closed before.
    pub fn stop(&self, endpoint: &Arc<E>) -> bool {
        let mut bound = self.lock();
        if bound.state == State::Closed {
            return false;
        }
        bound.state = State::Closed;
        let auto = bound.auto.take();
        let cqs = [bound.tx.take(), bound.rx.take()];
        let counters = std::mem::take(&mut bound.counters);
        drop(bound);
        // Joins the thread, which may be inside `progress`.
        drop(auto);
        for cq in cqs.into_iter().flatten() {
            cq.cq.detach(endpoint);
        }
        for counter in counters {
            counter.detach(endpoint);
        }
        true
    }

    /// The second half: lets go of the address vector, the event queue and the domain.
    pub fn release(&self) {
        let mut bound = self.lock();
        bound.av = None;
        bound.eq = None;
        bound.child = None;
    }
}

impl<E: Endpoint> fmt::Debug for Bindings<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bindings").field("state", &self.lock().state).finish_non_exhaustive()
    }
}
