//! SETUP. What the objects behind the C descriptors hold. Everything under a domain is generic over
//! the provider's endpoint `E`, so that a call from a table entry runs monomorphised code.

use core::marker::PhantomData;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use fabric_core::{
    api::Endpoint,
    attr::{FabricAttr, Version},
    av::{AddressFormat, Av},
    completion::{Counter, Cq},
    domain::{Child, Domain},
    eq::{BoundEq, EventQueue, RequestHandle},
    flags::Flags,
    mr::Region,
};

use crate::provider::Objects;

/// An open fabric.
#[derive(Debug)]
pub struct FabricObject {
    /// What it was opened with; `api_version` as the application asked.
    pub attr: FabricAttr,
    /// Version that bounds how much of the application's structures is touched.
    pub sizing: Version,
    /// The provider's objects.
    pub objects: Objects,
    /// The address that C knows it by, for infos; zero before there is one.
    pub address: AtomicUsize,
    children: AtomicUsize,
}

impl FabricObject {
    /// A fabric without children.
    pub const fn new(attr: FabricAttr, sizing: Version, objects: Objects) -> Self {
        let (address, children) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { attr, sizing, objects, address, children }
    }

    /// Counts an object under this fabric until the guard goes.
    pub fn child(self: &Arc<Self>) -> FabricChild {
        // Relaxed: only `in_use` looks, and the application serialises it with opening.
        self.children.fetch_add(1, Ordering::Relaxed);
        FabricChild(self.clone())
    }

    /// Whether something is open under it, so that closing is `EBUSY`.
    pub fn in_use(&self) -> bool {
        self.children.load(Ordering::Relaxed) != 0
    }
}

/// An object's claim on its fabric.
#[derive(Debug)]
pub struct FabricChild(pub Arc<FabricObject>);

impl Drop for FabricChild {
    fn drop(&mut self) {
        self.0.children.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open domain.
pub struct DomainObject<E> {
    /// The domain.
    pub domain: Arc<Domain>,
    /// Its fabric.
    pub fabric: FabricChild,
    /// The format of its address vectors.
    pub addresses: &'static dyn AddressFormat,
    /// The event queue bound to it.
    pub eq: OnceLock<BoundEq>,
    /// The provider's endpoint type.
    pub endpoint: PhantomData<fn() -> E>,
}

impl<E> core::fmt::Debug for DomainObject<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DomainObject").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl<E> DomainObject<E> {
    /// A domain of a fabric.
    pub const fn new(
        domain: Arc<Domain>,
        fabric: FabricChild,
        addresses: &'static dyn AddressFormat,
    ) -> Self {
        Self { domain, fabric, addresses, eq: OnceLock::new(), endpoint: PhantomData }
    }

    /// The provider's name, for messages.
    pub fn provider(&self) -> &str {
        self.fabric.0.attr.prov_name.as_deref().unwrap_or_default()
    }

    /// Version that bounds how much of the application's structures is touched.
    pub fn sizing(&self) -> Version {
        self.fabric.0.sizing
    }
}

/// An open address vector.
#[derive(Debug)]
pub struct AvObject {
    /// The vector.
    pub av: Arc<Av>,
    /// Its domain.
    pub child: Child,
    /// The domain's fabric.
    pub fabric: Arc<FabricObject>,
    /// Where insertions are reported if the vector was opened with `FI_EVENT`.
    pub eq: OnceLock<BoundEq>,
}

/// An open event queue.
#[derive(Debug)]
pub struct EqObject {
    /// The queue.
    pub eq: Arc<EventQueue>,
    /// Its fabric.
    pub fabric: FabricChild,
    /// Data of the last error that was handed out by reference.
    pub error_data: Mutex<Arc<[u8]>>,
}

/// An open completion queue.
#[derive(Debug)]
pub struct CqObject<E: Endpoint> {
    /// The queue.
    pub cq: Arc<Cq<E>>,
    /// Its domain.
    pub child: Child,
    /// Version that bounds how much of an error entry is written.
    pub sizing: Version,
    /// Data of the last error that was handed out by reference.
    pub error_data: Mutex<Box<[u8]>>,
}

/// An open counter.
#[derive(Debug)]
pub struct CntrObject<E: Endpoint> {
    /// The counter.
    pub counter: Arc<Counter<E>>,
    /// Its domain.
    pub child: Child,
}

/// A registered memory region.
#[derive(Debug)]
pub struct MrObject {
    /// The region.
    pub region: Arc<Region>,
    /// Its domain; regions make it busy by being in its table.
    pub domain: Arc<Domain>,
    /// Version that bounds how much of the application's structures is read.
    pub sizing: Version,
}

/// An open endpoint.
#[derive(Debug)]
pub struct EpObject<E: Endpoint> {
    /// The endpoint.
    pub ep: Arc<E>,
    /// Its domain.
    pub domain: Arc<DomainObject<E>>,
    /// The format of its peers' addresses, as the application asked for it.
    pub addr_format: u32,
    /// What its close has to look after.
    pub bound: Mutex<Bound<E>>,
}

impl<E: Endpoint> EpObject<E> {
    /// An endpoint without anything bound.
    pub fn new(ep: Arc<E>, domain: Arc<DomainObject<E>>, addr_format: u32) -> Self {
        Self { ep, domain, addr_format, bound: Mutex::default() }
    }

    /// What is bound to it.
    pub fn bound(&self) -> MutexGuard<'_, Bound<E>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is bound to an endpoint beyond that which the endpoint itself keeps.
#[derive(Debug)]
pub struct Bound<E: Endpoint> {
    /// Where its events are.
    pub eqs: Vec<Arc<EventQueue>>,
    /// Where it receives from, counted there as long as this is held.
    pub srx: Option<SrxUse<E>>,
}

impl<E: Endpoint> Default for Bound<E> {
    fn default() -> Self {
        Self { eqs: Vec::new(), srx: None }
    }
}

/// A multicast group that an endpoint is a member of.
#[derive(Debug)]
pub struct GroupObject<E: Endpoint> {
    /// The endpoint.
    pub ep: Arc<E>,
    /// The number that the endpoint knows it by.
    pub number: u64,
}

/// An open shared receive context.
pub struct SrxObject<E: Endpoint> {
    /// The context.
    pub srx: Arc<E::SharedReceive>,
    /// Its domain.
    pub child: Child,
    /// Flags of receive calls that carry none.
    pub op_flags: Flags,
    /// Endpoints that receive from it.
    uses: AtomicUsize,
}

impl<E: Endpoint> core::fmt::Debug for SrxObject<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SrxObject").field("uses", &self.uses).finish_non_exhaustive()
    }
}

impl<E: Endpoint> SrxObject<E> {
    /// A context that no endpoint uses yet.
    pub const fn new(srx: Arc<E::SharedReceive>, child: Child, op_flags: Flags) -> Self {
        Self { srx, child, op_flags, uses: AtomicUsize::new(0) }
    }

    /// Counts an endpoint that receives from it, until the guard goes.
    pub fn uses(self: &Arc<Self>) -> SrxUse<E> {
        // Relaxed: only `in_use` looks, and the application serialises it with binding.
        self.uses.fetch_add(1, Ordering::Relaxed);
        SrxUse(self.clone())
    }

    /// Whether endpoints receive from it, so that closing is `EBUSY`.
    pub fn in_use(&self) -> bool {
        self.uses.load(Ordering::Relaxed) != 0
    }
}

/// An endpoint's claim on a shared receive context.
#[derive(Debug)]
pub struct SrxUse<E: Endpoint>(Arc<SrxObject<E>>);

impl<E: Endpoint> Drop for SrxUse<E> {
    fn drop(&mut self) {
        self.0.uses.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An open passive endpoint.
pub struct PepObject<P> {
    /// The endpoint.
    pub pep: Arc<P>,
    /// Its fabric.
    pub fabric: FabricChild,
    /// Where its events are.
    pub eqs: Mutex<Vec<Arc<EventQueue>>>,
    /// What an active endpoint takes over from it.
    pub surrendered: Mutex<Option<RequestHandle>>,
}

impl<P> core::fmt::Debug for PepObject<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PepObject").field("fabric", &self.fabric).finish_non_exhaustive()
    }
}
