//! HOT. Providers by name, for programs that know theirs: their types as they are.

use core::marker::PhantomData;
use std::sync::Arc;

use fabric_core::{
    Result,
    api::{Endpoint, SharedReceive},
    attr::{CntrEvents, CqFormat, Info, WaitObj},
    completion::{Counter, CounterAttr, Cq, CqAttr},
    domain::Domain,
    eq::RequestHandle,
    flags::Flags,
};
use provider_shm::ShmEndpoint;
use provider_tcp::{TcpEndpoint, TcpRxmEndpoint};
use provider_verbs::{VerbsEndpoint, VerbsRxmEndpoint};

use super::{
    HeldCounter, HeldEndpoint, HeldQueue, HeldSharedReceive, Kind, Provider, Shared, Threads,
};

/// Shared memory.
#[derive(Debug)]
pub struct Shm<T = Shared>(PhantomData<T>);

/// TCP, connected or reliable datagrams.
#[derive(Debug)]
pub struct Tcp<T = Shared>(PhantomData<T>);

/// Reliable datagrams over connected TCP endpoints (`tcp;ofi_rxm`).
#[derive(Debug)]
pub struct TcpRxm<T = Shared>(PhantomData<T>);

/// Connections over RDMA verbs.
#[derive(Debug)]
pub struct Verbs<T = Shared>(PhantomData<T>);

/// Reliable datagrams over connections of RDMA verbs (`verbs;ofi_rxm`).
#[derive(Debug)]
pub struct VerbsRxm<T = Shared>(PhantomData<T>);

macro_rules! provider {
    ($name:ident, $threads:ident => $endpoint:ty) => {
        impl<$threads: Threads> Provider for $name<$threads> {
            type Threads = $threads;
            type Endpoint = HeldEndpoint<$endpoint>;
            type Queue = HeldQueue<$endpoint>;
            type Counter = HeldCounter<$endpoint>;
            type SharedReceive = HeldSharedReceive<$endpoint>;

            fn supports(kind: Kind) -> bool {
                kind == Kind::$name
            }

            fn open_queue(_: Kind) -> Result<Self::Queue> {
                open_queue()
            }

            fn open_counter(_: Kind, events: CntrEvents) -> Result<Self::Counter> {
                open_counter(events)
            }

            fn open_endpoint(
                _: Kind,
                domain: &Arc<Domain>,
                info: &Info,
                request: Option<&RequestHandle>,
            ) -> Result<Self::Endpoint> {
                open_endpoint(domain, info, request)
            }

            fn open_shared_receive(
                _: Kind,
                domain: &Arc<Domain>,
                info: &Info,
            ) -> Result<Self::SharedReceive> {
                open_shared_receive(domain, info)
            }

            fn bind_queue(endpoint: &Self::Endpoint, queue: &Self::Queue) -> Result<()> {
                bind_queue(endpoint, queue)
            }

            fn bind_shared_receive(
                endpoint: &Self::Endpoint,
                receive: &Self::SharedReceive,
            ) -> Result<()> {
                bind_shared_receive(endpoint, receive)
            }

            fn bind_counter(
                endpoint: &Self::Endpoint,
                counter: &Self::Counter,
                directions: Flags,
            ) -> Result<()> {
                bind_counter(endpoint, counter, directions)
            }
        }
    };
}

provider!(Shm, T => ShmEndpoint<T::Lock>);
provider!(Tcp, T => TcpEndpoint);
provider!(TcpRxm, T => TcpRxmEndpoint<T::Lock>);
provider!(Verbs, T => VerbsEndpoint);
provider!(VerbsRxm, T => VerbsRxmEndpoint<T::Lock>);

/// A queue with everything that completions tell, and a descriptor to sleep on.
pub(super) fn open_queue<E: Endpoint>() -> Result<HeldQueue<E>> {
    let attr = CqAttr { size: 0, format: CqFormat::Tagged, wait_obj: WaitObj::Fd };
    Cq::open(&attr).map(HeldQueue)
}

pub(super) fn open_counter<E: Endpoint>(events: CntrEvents) -> Result<HeldCounter<E>> {
    Counter::open(&CounterAttr { events, wait_obj: WaitObj::Fd }).map(HeldCounter)
}

pub(super) fn open_endpoint<E: Endpoint>(
    domain: &Arc<Domain>,
    info: &Info,
    request: Option<&RequestHandle>,
) -> Result<HeldEndpoint<E>> {
    E::open(domain, info, request, 0).map(HeldEndpoint)
}

pub(super) fn open_shared_receive<E: Endpoint>(
    domain: &Arc<Domain>,
    info: &Info,
) -> Result<HeldSharedReceive<E>> {
    let attr = info.rx.clone().unwrap_or_default();
    E::SharedReceive::open(domain, &attr, 0).map(HeldSharedReceive)
}

pub(super) fn bind_shared_receive<E: Endpoint>(
    endpoint: &HeldEndpoint<E>,
    receive: &HeldSharedReceive<E>,
) -> Result<()> {
    endpoint.0.bind_shared_receive(&receive.0)
}

pub(super) fn bind_queue<E: Endpoint>(
    endpoint: &HeldEndpoint<E>,
    queue: &HeldQueue<E>,
) -> Result<()> {
    endpoint.0.bind_cq(&queue.0, Flags::SEND | Flags::RECV)
}

pub(super) fn bind_counter<E: Endpoint>(
    endpoint: &HeldEndpoint<E>,
    counter: &HeldCounter<E>,
    directions: Flags,
) -> Result<()> {
    endpoint.0.bind_counter(&counter.0, directions)
}
