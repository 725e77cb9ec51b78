//! SETUP. Endpoints: opening and closing them. What they do is in [`messages`] and its siblings.

mod atomics;
mod many;
mod messages;
mod one_sided;
mod remote_writes;

use core::{
    fmt,
    marker::PhantomData,
    task::{Context, Poll},
};
use std::{sync::Arc, time::Instant};

use fabric_core::{
    Errno, attr::Info, engine::Stats, eq::RequestHandle, flags::Flags, slab::Handle,
};

pub use self::{
    atomics::{Change, Element},
    many::{Message, Messages},
    messages::{Outgoing, TagMatch},
    remote_writes::{RemoteWrite, RemoteWrites},
};
use crate::{
    address::Address,
    connection::Mailbox,
    counter::{Counter, CounterInner},
    dispatch::{Any, EndpointCalls, Provider, Threads},
    domain::DomainInner,
    error::{Error, Result},
    events::{ConnectionEvent, Events},
    faults::{Fate, Faults},
    op::{Op, Origin, Request, Task},
    queue::{Poster, Queue},
    reactor::Reactor,
    registered::Known,
    shared_receive::SharedReceiveInner,
    trace::span,
    waiting::News,
};
pub(crate) use messages::Target;

/// An endpoint of reliable datagrams.
///
/// It is a handle: copies of it are the same endpoint, which closes with the last of them and of its
/// operations, or with [`Endpoint::close`].
pub struct Endpoint<P: Provider = Any> {
    pub(crate) inner: Arc<EndpointInner<P>>,
}

impl<P: Provider> Clone for Endpoint<P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<P: Provider> fmt::Debug for Endpoint<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl<P: Provider> Endpoint<P> {
    /// Where peers reach it.
    pub fn address(&self) -> Result<Address> {
        let name = self.inner.calls.name().map_err(Error::refused("ask for an address"))?;
        Ok(Address::from_bytes(name))
    }

    /// What the provider promises.
    pub fn info(&self) -> &Info {
        &self.inner.domain.info
    }

    /// Counts of what has happened.
    pub fn stats(&self) -> Stats {
        self.inner.calls.stats()
    }

    /// Makes progress for all operations of the queue, without waiting.
    pub fn progress(&self) {
        self.inner.queue.drive();
    }

    /// Operations that have not been waited for to their end.
    pub fn operations(&self) -> usize {
        self.inner.queue.operations()
    }

    /// Closes the endpoint. Whoever waits for one of its operations gets the buffers back, with
    /// [`Error::Cancelled`].
    ///
    /// What has been sent leaves before: that takes some seconds at most where a peer takes nothing.
    pub fn close(self) {
        self.inner.close();
    }
}

/// How an endpoint is opened.
#[derive(Debug)]
#[must_use]
pub struct EndpointBuilder<P: Provider> {
    domain: Arc<DomainInner<P>>,
    address: Option<Address>,
    own_queue: bool,
    reactor: Option<Arc<dyn Reactor>>,
    faults: Option<Faults>,
    counters: Vec<(Arc<CounterInner<P>>, Flags)>,
}

impl<P: Provider> EndpointBuilder<P> {
    pub(crate) fn new(domain: Arc<DomainInner<P>>) -> Self {
        Self {
            domain,
            address: None,
            own_queue: false,
            reactor: None,
            faults: None,
            counters: Vec::new(),
        }
    }

    /// Peers reach it at this address.
    pub fn address(mut self, address: Address) -> Self {
        self.address = Some(address);
        self
    }

    /// Its operations complete in a queue of their own, so that waiting for them moves this endpoint
    /// alone, and meets no other thread.
    pub fn own_queue(mut self) -> Self {
        self.own_queue = true;
        self
    }

    /// Futures wait with this reactor, and not the domain's; so the queue is its own, too.
    pub fn reactor(mut self, reactor: impl Reactor) -> Self {
        self.own_queue = true;
        self.reactor = Some(Arc::new(reactor));
        self
    }

    /// A counter counts what happens here, in these directions: SEND, RECV, READ, WRITE, REMOTE_READ,
    /// REMOTE_WRITE. Each can be counted by one counter.
    pub fn counting(mut self, counter: &Counter<P>, directions: Flags) -> Self {
        self.counters.push((counter.inner().clone(), directions));
        self
    }

    /// Its operations meet with faults.
    pub fn faults(mut self, faults: &Faults) -> Self {
        self.faults = Some(faults.clone());
        self
    }

    /// Opens the endpoint.
    pub fn open(self) -> Result<Endpoint<P>> {
        let domain = self.domain;
        let queue = if self.own_queue {
            let reactor = self.reactor.as_ref().or(domain.reactor.as_ref());
            Queue::open(domain.kind, reactor.map(|reactor| &**reactor))?
        } else {
            domain.queue.clone()
        };
        let inner =
            EndpointInner::open(&domain, queue, &domain.info, None, None, Way::Own(self.faults))?;
        let start = || {
            if let Some(address) = &self.address {
                inner.calls.set_name(address.as_bytes())?;
            }
            inner.calls.bind_av(inner.domain.peers().av())?;
            P::bind_queue(&inner.calls, inner.queue.calls())?;
            for (counter, directions) in &self.counters {
                P::bind_counter(&inner.calls, &counter.calls, *directions)?;
            }
            inner.calls.enable()
        };
        start().map_err(Error::refused("start an endpoint"))?;
        Ok(Endpoint { inner })
    }
}

/// How an endpoint is opened beyond the usual.
pub(crate) enum Way<'a, P: Provider> {
    /// With its own receives, and faults on purpose.
    Own(Option<Faults>),
    /// With those of a context, if there is one.
    Sharing(Option<&'a Arc<SharedReceiveInner<P>>>),
}

/// An endpoint and what it needs.
pub(crate) struct EndpointInner<P: Provider> {
    /// No other endpoint has it.
    name: u64,
    pub(crate) calls: P::Endpoint,
    pub(crate) queue: Arc<Queue<P>>,
    pub(crate) domain: Arc<DomainInner<P>>,
    /// Of connections.
    mailbox: Option<Mailbox>,
    /// Bytes that a request carries itself, which no device has to know.
    inline: usize,
    faults: Option<Faults>,
    /// What it receives from, if that is not its own.
    #[expect(dead_code, reason = "keeps the context open")]
    shared: Option<Arc<SharedReceiveInner<P>>>,
    marker: PhantomData<<P::Threads as Threads>::Marker>,
}

impl<P: Provider> fmt::Debug for EndpointInner<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointInner").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<P: Provider> fmt::Debug for DomainInner<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DomainInner").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<P: Provider> EndpointInner<P> {
    /// Opens an endpoint that is not bound to anything. It is closed when the last owner has gone.
    pub(crate) fn open(
        domain: &Arc<DomainInner<P>>,
        queue: Arc<Queue<P>>,
        info: &Info,
        request: Option<&RequestHandle>,
        events: Option<Arc<Events>>,
        way: Way<'_, P>,
    ) -> Result<Arc<Self>> {
        span!("open_endpoint", provider = domain.kind.name());
        let refused = |errno| Error::Refused { call: "open an endpoint", errno };
        let mailbox = events.map(Mailbox::open).transpose().map_err(refused)?;
        let calls = P::open_endpoint(domain.kind, &domain.core, info, request).map_err(refused)?;
        if let Some(mailbox) = &mailbox {
            calls.introduce(mailbox.object.raw() as usize);
        }
        let name = domain.enlist(&calls);
        let (faults, shared) = match way {
            Way::Own(faults) => (faults, None),
            Way::Sharing(receive) => (None, receive.cloned()),
        };
        if let Some(receive) = &shared {
            P::bind_shared_receive(&calls, &receive.calls).map_err(refused)?;
        }
        let inline = info.tx.as_ref().map_or(0, |tx| tx.inject_size);
        let (domain, marker) = (domain.clone(), PhantomData);
        Ok(Arc::new(Self { name, calls, queue, domain, mailbox, inline, faults, shared, marker }))
    }

    /// Waits for what happens to the connection, as a task.
    pub(crate) fn poll_event(&self, cx: &mut Context<'_>) -> Poll<ConnectionEvent> {
        match &self.mailbox {
            Some(mailbox) => mailbox.events.poll(cx, mailbox.object),
            None => Poll::Pending,
        }
    }

    /// Waits for what happens to the connection, as a thread.
    pub(crate) fn wait_event(&self, deadline: Option<Instant>) -> Option<ConnectionEvent> {
        let mailbox = self.mailbox.as_ref()?;
        mailbox.events.wait(deadline, mailbox.object)
    }

    /// Starts an operation whose memory `task` owns, or makes one that has failed before it began.
    pub(crate) fn start<T: Task>(
        self: &Arc<Self>,
        request: Result<Request, Errno>,
        task: T,
    ) -> Op<P, T> {
        let started = request.and_then(|request| self.start_lent(request));
        Op::new(Origin::Endpoint(self.clone()), started, task)
    }

    /// Starts an operation whose memory the caller answers for. How a device knows the memory is kept
    /// until the operation has ended, and no longer than the memory.
    pub(crate) fn start_lent(
        &self,
        mut request: Request,
    ) -> Result<(Handle, Option<Known>), Errno> {
        let due = self.due(&request)?;
        let known = Known::of(self.domain.pool(), &mut request, self.inline)?;
        let key = self.queue.start(self.name, self.poster(), (request, due), false)?;
        Ok((key, known))
    }

    /// Starts one that completes many times, into memory of the domain.
    pub(crate) fn start_many(&self, mut request: Request) -> Result<Handle, Errno> {
        let due = self.due(&request)?;
        // Such memory is known as long as it lives.
        Known::of(self.domain.pool(), &mut request, self.inline)?;
        self.queue.start(self.name, self.poster(), (request, due), true)
    }

    #[inline]
    pub(crate) const fn poster(&self) -> Poster<'_, P> {
        Poster::Endpoint(&self.calls)
    }

    /// When the operation is to start, if not at once; or why it is not.
    fn due(&self, request: &Request) -> Result<Option<Instant>, Errno> {
        let Some(faults) = &self.faults else { return Ok(None) };
        let peer = request.peer().map(|index| self.domain.peers().peer(index));
        match faults.fate(peer, request.is_receive()) {
            Fate::Pass => Ok(None),
            Fate::Fail(errno) => Err(errno),
            Fate::Late(by) => Ok(Instant::now().checked_add(by)),
        }
    }

    fn close(&self) {
        self.calls.close();
        self.queue.end_all(self.name);
        self.domain.strike(self.name);
    }
}

impl<P: Provider> Drop for EndpointInner<P> {
    fn drop(&mut self) {
        self.close();
    }
}
