//! HOT. From the objects of this crate to those of a provider: which types they are, and calls.
//!
//! A [`Provider`] names the types. [`Any`] has one variant for each provider, chosen when a domain
//! is opened, and `enum_dispatch` writes the `match`; the others are a provider's types as they are,
//! and a call is the provider's code. What is in here can be named and not used: it is no part of
//! the interface that versions promise.

mod any;
mod calls;
mod held;
mod only;
mod passive;

use std::{fmt, sync::Arc};

use fabric_core::{
    Result,
    attr::{CntrEvents, Info},
    completion::Entry,
    domain::Domain,
    eq::RequestHandle,
    flags::Flags,
    lock::{Lock, NoLock, SafeLock},
};

pub use self::{
    any::Any,
    calls::{
        AnyCounter, AnyEndpoint, AnyQueue, AnySharedReceive, CounterCalls, EndpointCalls,
        QueueCalls, SharedReceiveCalls,
    },
    held::{HeldCounter, HeldEndpoint, HeldQueue, HeldSharedReceive, descriptor_of_events},
    only::{Shm, Tcp, TcpRxm, Verbs, VerbsRxm},
};
pub(crate) use passive::Passive;

/// Completions that one call takes from a queue.
pub const BATCH: usize = 16;

/// Which provider an offer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `shm`.
    Shm,
    /// `tcp`.
    Tcp,
    /// `tcp;ofi_rxm`.
    TcpRxm,
    /// `verbs`.
    Verbs,
    /// `verbs;ofi_rxm`.
    VerbsRxm,
}

impl Kind {
    /// The kind of the provider of this name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Shm, Self::Tcp, Self::TcpRxm, Self::Verbs, Self::VerbsRxm]
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// The provider's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shm => provider_shm::offer::NAME,
            Self::Tcp => provider_tcp::offer::NAME,
            Self::TcpRxm => provider_tcp::offer::RXM_NAME,
            Self::Verbs => provider_verbs::NAME,
            Self::VerbsRxm => provider_verbs::RXM_NAME,
        }
    }

    /// Opens a domain of an offer.
    pub(crate) fn open_domain(self, info: &Info) -> Result<Arc<Domain>> {
        match self {
            Self::Shm | Self::Tcp | Self::TcpRxm => Domain::open(info),
            Self::Verbs | Self::VerbsRxm => provider_verbs::open_domain(info),
        }
    }
}

/// Who may call: threads at will, or the one that opened the domain.
///
/// Implemented by [`Shared`] and [`Local`], and by nothing else.
pub trait Threads: fmt::Debug + Sized + 'static {
    /// How the provider guards its objects.
    type Lock: Lock;
    /// What makes objects stay on their thread, or not.
    type Marker: fmt::Debug + Unpin;
    /// Whether objects may be used by several threads.
    const SHARED: bool;
}

/// Objects may be sent to other threads and used by several at once.
#[derive(Debug)]
pub struct Shared;

/// Objects stay on the thread that opened their domain, and take no locks.
#[derive(Debug)]
pub struct Local;

impl Threads for Shared {
    type Lock = SafeLock;
    type Marker = ();
    const SHARED: bool = true;
}

impl Threads for Local {
    type Lock = NoLock;
    /// A raw pointer is neither `Send` nor `Sync`.
    type Marker = *const ();
    const SHARED: bool = false;
}

/// The types of a provider's objects: [`Any`], chosen at run time, or one provider's.
///
/// Not to be implemented by programs.
pub trait Provider: fmt::Debug + Sized + 'static {
    /// Who may call.
    type Threads: Threads;
    /// Endpoints.
    type Endpoint: EndpointCalls + Clone + 'static;
    /// Completion queues.
    type Queue: QueueCalls + 'static;
    /// Counters.
    type Counter: CounterCalls + 'static;
    /// Receive contexts that endpoints share.
    type SharedReceive: SharedReceiveCalls + Clone + 'static;

    /// Whether objects of this kind can be opened with these types.
    fn supports(kind: Kind) -> bool;
    /// Opens a completion queue.
    fn open_queue(kind: Kind) -> Result<Self::Queue>;
    /// Opens a counter.
    fn open_counter(kind: Kind, events: CntrEvents) -> Result<Self::Counter>;
    /// Opens an endpoint.
    fn open_endpoint(
        kind: Kind,
        domain: &Arc<Domain>,
        info: &Info,
        request: Option<&RequestHandle>,
    ) -> Result<Self::Endpoint>;
    /// Opens a receive context for endpoints of this offer.
    fn open_shared_receive(
        kind: Kind,
        domain: &Arc<Domain>,
        info: &Info,
    ) -> Result<Self::SharedReceive>;
    /// Makes an endpoint report to a queue, all directions.
    fn bind_queue(endpoint: &Self::Endpoint, queue: &Self::Queue) -> Result<()>;
    /// Makes an endpoint receive from a context.
    fn bind_shared_receive(endpoint: &Self::Endpoint, receive: &Self::SharedReceive) -> Result<()>;
    /// Makes an endpoint count.
    fn bind_counter(
        endpoint: &Self::Endpoint,
        counter: &Self::Counter,
        directions: Flags,
    ) -> Result<()>;
}

/// Completions as they were taken from a queue.
#[derive(Debug)]
pub struct Batch {
    entries: [Entry; BATCH],
    used: usize,
}

impl Batch {
    /// Nothing.
    pub const fn new() -> Self {
        Self { entries: [Entry::new(0, Flags::empty()); BATCH], used: 0 }
    }

    /// This one instead.
    pub(crate) const fn set(&mut self, entry: Entry) {
        self.entries[0] = entry;
        self.used = 1;
    }

    /// The completions.
    pub fn entries(&self) -> &[Entry] {
        &self.entries[..self.used]
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}
