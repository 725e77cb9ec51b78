//! HOT. The provider that was chosen at run time.

use core::marker::PhantomData;
use std::sync::Arc;

use super::{
    AnyCounter, AnyEndpoint, AnyQueue, AnySharedReceive, Kind, Provider, Shared, Threads, only,
};
use fabric_core::{
    Errno, Result,
    attr::{CntrEvents, Info},
    domain::Domain,
    eq::RequestHandle,
    flags::Flags,
};

/// The provider that discovery has chosen.
#[derive(Debug)]
pub struct Any<T = Shared>(PhantomData<T>);

/// Calls with two objects of the same provider.
macro_rules! each {
    (($one:ident, $two:ident): ($ones:ident, $twos:ident) => $call:expr) => {
        match ($one, $two) {
            ($ones::Shm($one), $twos::Shm($two)) => $call,
            ($ones::Tcp($one), $twos::Tcp($two)) => $call,
            ($ones::TcpRxm($one), $twos::TcpRxm($two)) => $call,
            ($ones::Verbs($one), $twos::Verbs($two)) => $call,
            ($ones::VerbsRxm($one), $twos::VerbsRxm($two)) => $call,
            _ => Err(Errno::EDOMAIN),
        }
    };
}

impl<T: Threads> Provider for Any<T> {
    type Threads = T;
    type Endpoint = AnyEndpoint<T::Lock>;
    type Queue = AnyQueue<T::Lock>;
    type Counter = AnyCounter<T::Lock>;
    type SharedReceive = AnySharedReceive<T::Lock>;

    fn supports(_: Kind) -> bool {
        true
    }

    fn open_queue(kind: Kind) -> Result<Self::Queue> {
        Ok(match kind {
            Kind::Shm => AnyQueue::Shm(only::open_queue()?),
            Kind::Tcp => AnyQueue::Tcp(only::open_queue()?),
            Kind::TcpRxm => AnyQueue::TcpRxm(only::open_queue()?),
            Kind::Verbs => AnyQueue::Verbs(only::open_queue()?),
            Kind::VerbsRxm => AnyQueue::VerbsRxm(only::open_queue()?),
        })
    }

    fn open_counter(kind: Kind, events: CntrEvents) -> Result<Self::Counter> {
        Ok(match kind {
            Kind::Shm => AnyCounter::Shm(only::open_counter(events)?),
            Kind::Tcp => AnyCounter::Tcp(only::open_counter(events)?),
            Kind::TcpRxm => AnyCounter::TcpRxm(only::open_counter(events)?),
            Kind::Verbs => AnyCounter::Verbs(only::open_counter(events)?),
            Kind::VerbsRxm => AnyCounter::VerbsRxm(only::open_counter(events)?),
        })
    }

    fn open_endpoint(
        kind: Kind,
        domain: &Arc<Domain>,
        info: &Info,
        request: Option<&RequestHandle>,
    ) -> Result<Self::Endpoint> {
        Ok(match kind {
            Kind::Shm => AnyEndpoint::Shm(only::open_endpoint(domain, info, request)?),
            Kind::Tcp => AnyEndpoint::Tcp(only::open_endpoint(domain, info, request)?),
            Kind::TcpRxm => AnyEndpoint::TcpRxm(only::open_endpoint(domain, info, request)?),
            Kind::Verbs => AnyEndpoint::Verbs(only::open_endpoint(domain, info, request)?),
            Kind::VerbsRxm => AnyEndpoint::VerbsRxm(only::open_endpoint(domain, info, request)?),
        })
    }

    fn open_shared_receive(
        kind: Kind,
        domain: &Arc<Domain>,
        info: &Info,
    ) -> Result<Self::SharedReceive> {
        Ok(match kind {
            Kind::Shm => AnySharedReceive::Shm(only::open_shared_receive(domain, info)?),
            Kind::Tcp => AnySharedReceive::Tcp(only::open_shared_receive(domain, info)?),
            Kind::TcpRxm => AnySharedReceive::TcpRxm(only::open_shared_receive(domain, info)?),
            Kind::Verbs => AnySharedReceive::Verbs(only::open_shared_receive(domain, info)?),
            Kind::VerbsRxm => AnySharedReceive::VerbsRxm(only::open_shared_receive(domain, info)?),
        })
    }

    fn bind_queue(endpoint: &Self::Endpoint, queue: &Self::Queue) -> Result<()> {
        each!((endpoint, queue): (AnyEndpoint, AnyQueue) => only::bind_queue(endpoint, queue))
    }

    fn bind_shared_receive(endpoint: &Self::Endpoint, receive: &Self::SharedReceive) -> Result<()> {
        each!((endpoint, receive): (AnyEndpoint, AnySharedReceive) => {
            only::bind_shared_receive(endpoint, receive)
        })
    }

    fn bind_counter(
        endpoint: &Self::Endpoint,
        counter: &Self::Counter,
        directions: Flags,
    ) -> Result<()> {
        each!((endpoint, counter): (AnyEndpoint, AnyCounter) => {
            only::bind_counter(endpoint, counter, directions)
        })
    }
}
