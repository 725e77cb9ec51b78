//! SETUP. Domains: what endpoints share.

use core::{fmt, marker::PhantomData};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use fabric_core::{
    attr::{Info, Progress, Threading},
    av::AddressFormat,
    domain::Domain as Core,
    inet,
};
#[cfg(test)]
use fabric_core::{flags::MrMode, mr::Registrar};
use provider_shm::ShmAddresses;

use crate::{
    address::{Address, Peer, PeerSpace},
    dispatch::{Any, EndpointCalls, Kind, Provider, Threads},
    endpoint::{Endpoint, EndpointBuilder},
    error::{Error, Result},
    events::Events,
    fabric::Fabric,
    queue::Queue,
    reactor::Reactor,
    registered::Pool,
    trace::span,
};

/// A domain: endpoints, memory and peers that belong together.
///
/// Endpoints of a domain share a completion queue unless they are opened otherwise: whoever waits for
/// an operation moves all of them forward. Threads that are to work side by side without waiting for
/// each other use endpoints with queues of their own, or domains of their own.
///
/// It is a handle; it stays open as long as there is one, or anything that was opened in it.
pub struct Domain<P: Provider = Any> {
    inner: Arc<DomainInner<P>>,
}

impl<P: Provider> Clone for Domain<P> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<P: Provider> fmt::Debug for Domain<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("provider", &self.inner.kind.name()).finish_non_exhaustive()
    }
}

impl<P: Provider> Domain<P> {
    /// Opens an endpoint of reliable datagrams.
    pub fn endpoint(&self) -> Result<Endpoint<P>> {
        self.builder().open()
    }

    /// Opens an endpoint in another way.
    pub fn builder(&self) -> EndpointBuilder<P> {
        EndpointBuilder::new(self.inner.clone())
    }

    /// Makes a peer known by its address.
    pub fn peer(&self, address: &Address) -> Result<Peer> {
        self.inner.peers.insert(address)
    }

    /// Makes a peer known by host and port, where addresses are such.
    pub fn peer_at(&self, node: &str, service: &str) -> Result<Peer> {
        self.inner.peers.insert_service(node, service)
    }

    /// The address of a known peer.
    pub fn address_of(&self, peer: Peer) -> Result<Address> {
        self.inner.peers.address(peer)
    }

    /// Forgets a peer. Each time that it was made known counts.
    ///
    /// Another peer may be made known in its place: the old name is not to be used any more.
    pub fn forget(&self, peer: Peer) -> Result<()> {
        self.inner.peers.remove(peer)
    }

    /// An address for people.
    pub fn display(&self, address: &Address) -> Result<String> {
        self.inner.peers.text(address)
    }

    /// What the provider promises.
    pub fn info(&self) -> &Info {
        &self.inner.info
    }

    pub(crate) const fn inner(&self) -> &Arc<DomainInner<P>> {
        &self.inner
    }
}

/// How a domain is opened.
#[derive(Clone, Debug)]
#[must_use]
pub struct DomainBuilder<P: Provider> {
    fabric: Fabric,
    reactor: Option<Arc<dyn Reactor>>,
    #[cfg(test)]
    device: Option<Arc<dyn Registrar>>,
    provider: PhantomData<P>,
}

impl<P: Provider> DomainBuilder<P> {
    pub(crate) fn new(fabric: Fabric) -> Self {
        Self {
            fabric,
            reactor: None,
            #[cfg(test)]
            device: None,
            provider: PhantomData,
        }
    }

    /// Futures wait with this reactor. Without one they ask to be polled again at once.
    pub fn reactor(mut self, reactor: impl Reactor) -> Self {
        self.reactor = Some(Arc::new(reactor));
        self
    }

    /// Memory of operations has to be registered on this device.
    #[cfg(test)]
    pub(crate) fn on(mut self, device: impl Registrar + 'static) -> Self {
        self.device = Some(Arc::new(device));
        self
    }

    /// Opens what the provider calls the domain.
    fn open_core(&self, info: &mut Info) -> fabric_core::Result<Arc<Core>> {
        #[cfg(test)]
        if let Some(device) = &self.device {
            info.domain.get_or_insert_default().mr_mode |= MrMode::LOCAL;
            return Core::open_on(info, device.clone());
        }
        self.fabric.kind().open_domain(info)
    }

    /// Opens the domain.
    pub fn open(self) -> Result<Domain<P>> {
        span!("open_domain", provider = self.fabric.provider());
        self.fabric.check::<P>()?;
        let kind = self.fabric.kind();
        let mut info = self.fabric.info().clone();
        let attr = info.domain.get_or_insert_default();
        if P::Threads::SHARED {
            attr.threading = Threading::Safe as u32;
        } else {
            // Automatic progress is a thread of its own.
            attr.threading = Threading::Domain as u32;
            attr.progress = Progress::Manual as u32;
        }
        let format = addresses(kind, &info)
            .ok_or(fabric_core::Errno::EINVAL)
            .map_err(Error::refused("open a domain"))?;
        let core = self.open_core(&mut info).map_err(Error::refused("open a domain"))?;
        // Buffers are given back when an endpoint has been closed: nobody may write to them then.
        core.lend_nothing();
        let queue = Queue::open(kind, self.reactor.as_deref())?;
        Ok(Domain {
            inner: Arc::new(DomainInner {
                kind,
                pool: Pool::new(core.regions(), &info),
                core,
                info,
                peers: PeerSpace::open(format)?,
                queue,
                reactor: self.reactor,
                events: Mutex::default(),
                endpoints: Mutex::default(),
                marker: PhantomData,
            }),
        })
    }
}

fn addresses(kind: Kind, info: &Info) -> Option<&'static dyn AddressFormat> {
    match kind {
        Kind::Shm => Some(&ShmAddresses),
        Kind::Tcp | Kind::TcpRxm | Kind::Verbs | Kind::VerbsRxm => {
            inet::addresses(info.addr_format).map(|format| format as _)
        }
    }
}

/// What the objects of a domain share.
pub(crate) struct DomainInner<P: Provider> {
    pub(crate) kind: Kind,
    pub(crate) info: Info,
    pub(crate) core: Arc<Core>,
    peers: PeerSpace,
    pool: Pool,
    /// Of all endpoints that have none of their own.
    pub(crate) queue: Arc<Queue<P>>,
    pub(crate) reactor: Option<Arc<dyn Reactor>>,
    /// Opened with the first connection or listener.
    events: Mutex<Option<Arc<Events>>>,
    /// Those that are open, by their names.
    endpoints: Mutex<HashMap<u64, P::Endpoint>>,
    marker: PhantomData<<P::Threads as Threads>::Marker>,
}

static NAMES: AtomicU64 = AtomicU64::new(1);

impl<P: Provider> DomainInner<P> {
    pub(crate) const fn peers(&self) -> &PeerSpace {
        &self.peers
    }

    /// Its buffers, and memory that its device knows.
    #[inline]
    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The event queue of all connections and listeners.
    pub(crate) fn events(&self) -> Result<Arc<Events>> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(events) = &*events {
            return Ok(events.clone());
        }
        let opened = Events::open(self.reactor.as_deref())?;
        *events = Some(opened.clone());
        Ok(opened)
    }

    /// A name that nothing else ever has.
    pub(crate) fn name(&self) -> u64 {
        NAMES.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes an endpoint into the list, and gives it a name that no other one ever has.
    pub(crate) fn enlist(&self, endpoint: &P::Endpoint) -> u64 {
        let name = self.name();
        self.endpoints().insert(name, endpoint.clone());
        name
    }

    pub(crate) fn strike(&self, name: u64) {
        let gone = self.endpoints().remove(&name);
        drop(gone);
    }

    /// Returns when whoever was inside an endpoint of the domain has left it: what was changed before
    /// is seen by everybody from here on.
    pub(crate) fn quiesce(&self) {
        let endpoints: Vec<P::Endpoint> = self.endpoints().values().cloned().collect();
        for endpoint in endpoints {
            // Counts are read under the lock that everything else happens under.
            let _ = endpoint.stats();
        }
    }

    fn endpoints(&self) -> MutexGuard<'_, HashMap<u64, P::Endpoint>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
