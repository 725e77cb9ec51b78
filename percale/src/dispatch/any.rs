//! HOT. The provider that was chosen at run time.

use core::marker::PhantomData;
use std::sync::Arc;

use super::{AnyCounter, AnyEndpoint, AnyQueue, Kind, Provider, Shared, Threads, only};
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

impl<T: Threads> Provider for Any<T> {
    type Threads = T;
    type Endpoint = AnyEndpoint<T::Lock>;
    type Queue = AnyQueue<T::Lock>;
    type Counter = AnyCounter<T::Lock>;

    fn supports(_: Kind) -> bool {
        true
    }

    fn open_queue(kind: Kind) -> Result<Self::Queue> {
        Ok(match kind {
            Kind::Shm => AnyQueue::Shm(only::open_queue()?),
            Kind::Tcp => AnyQueue::Tcp(only::open_queue()?),
            Kind::TcpRxm => AnyQueue::TcpRxm(only::open_queue()?),
        })
    }

    fn open_counter(kind: Kind, events: CntrEvents) -> Result<Self::Counter> {
        Ok(match kind {
            Kind::Shm => AnyCounter::Shm(only::open_counter(events)?),
            Kind::Tcp => AnyCounter::Tcp(only::open_counter(events)?),
            Kind::TcpRxm => AnyCounter::TcpRxm(only::open_counter(events)?),
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
        })
    }

    fn bind_queue(endpoint: &Self::Endpoint, queue: &Self::Queue) -> Result<()> {
        match (endpoint, queue) {
            (AnyEndpoint::Shm(endpoint), AnyQueue::Shm(queue)) => only::bind_queue(endpoint, queue),
            (AnyEndpoint::Tcp(endpoint), AnyQueue::Tcp(queue)) => only::bind_queue(endpoint, queue),
            (AnyEndpoint::TcpRxm(endpoint), AnyQueue::TcpRxm(queue)) => {
                only::bind_queue(endpoint, queue)
            }
            _ => Err(Errno::EDOMAIN),
        }
    }

    fn bind_counter(
        endpoint: &Self::Endpoint,
        counter: &Self::Counter,
        directions: Flags,
    ) -> Result<()> {
        match (endpoint, counter) {
            (AnyEndpoint::Shm(endpoint), AnyCounter::Shm(counter)) => {
                only::bind_counter(endpoint, counter, directions)
            }
            (AnyEndpoint::Tcp(endpoint), AnyCounter::Tcp(counter)) => {
                only::bind_counter(endpoint, counter, directions)
            }
            (AnyEndpoint::TcpRxm(endpoint), AnyCounter::TcpRxm(counter)) => {
                only::bind_counter(endpoint, counter, directions)
            }
            _ => Err(Errno::EDOMAIN),
        }
    }
}
