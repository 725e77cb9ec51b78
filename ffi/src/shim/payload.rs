//! SETUP. What the objects behind the C descriptors hold. Everything under a domain is generic over
//! the provider's endpoint `E`, so that a call from a table entry runs monomorphised code.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use fabric_core::{
    api::Endpoint,
    attr::{FabricAttr, Version},
    av::Av,
    completion::{Counter, Cq},
    domain::{Child, Domain},
    eq::EventQueue,
    mr::Region,
};

/// An open fabric.
#[derive(Debug)]
pub struct FabricObject {
    /// What it was opened with; `api_version` as the application asked.
    pub attr: FabricAttr,
    /// Version that bounds how much of the application's structures is touched.
    pub sizing: Version,
    children: AtomicUsize,
}

impl FabricObject {
    /// A fabric without children.
    pub const fn new(attr: FabricAttr, sizing: Version) -> Self {
        Self { attr, sizing, children: AtomicUsize::new(0) }
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
#[derive(Debug)]
pub struct DomainObject<E> {
    /// The domain.
    pub domain: Arc<Domain>,
    /// Its fabric.
    pub fabric: FabricChild,
    /// The provider's endpoint type.
    pub endpoint: core::marker::PhantomData<fn() -> E>,
}

/// An open address vector.
#[derive(Debug)]
pub struct AvObject {
    /// The vector.
    pub av: Arc<Av>,
    /// Its domain.
    pub child: Child,
}

/// An open event queue.
#[derive(Debug)]
pub struct EqObject {
    /// The queue.
    pub eq: Arc<EventQueue>,
    /// Its fabric.
    pub fabric: FabricChild,
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
}

/// An open endpoint.
#[derive(Debug)]
pub struct EpObject<E: Endpoint> {
    /// The endpoint.
    pub ep: Arc<E>,
    /// Its domain.
    pub domain: Arc<Domain>,
}
