//! HOT. The calls that endpoints, queues and counters of every provider answer, and the `match` over
//! the providers that `enum_dispatch` makes of them; it wants traits and enums in one file.
#![allow(unsafe_code, reason = "passes calls on whose promises are the caller's")]

use core::fmt;
use std::{os::fd::OwnedFd, sync::Arc};

use enum_dispatch::enum_dispatch;
use fabric_core::{
    Result,
    av::Av,
    completion::CqError,
    engine::Stats,
    eq::EventQueue,
    lock::Lock,
    op::{AtomicOp, Descs, RecvOp, RmaOp, SendOp},
};
use provider_shm::ShmEndpoint;
use provider_tcp::{TcpEndpoint, TcpRxmEndpoint};
use provider_verbs::{VerbsEndpoint, VerbsRxmEndpoint};

use super::{Batch, HeldCounter, HeldEndpoint, HeldQueue, HeldSharedReceive};

/// What is asked of an endpoint; as [`fabric_core::api::Endpoint`], without its types.
#[enum_dispatch]
pub trait EndpointCalls {
    /// Posts a send from memory that is registered as `descs` say.
    ///
    /// # Safety
    /// The memory that `op` describes stays valid until the operation has completed or the endpoint
    /// is closed.
    unsafe fn send(&self, op: &SendOp<'_>, descs: Descs<'_>) -> Result<()>;
    /// Posts a receive.
    ///
    /// # Safety
    /// As for [`EndpointCalls::send`].
    unsafe fn recv(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()>;
    /// Posts a read or write.
    ///
    /// # Safety
    /// As for [`EndpointCalls::send`].
    unsafe fn rma(&self, op: &RmaOp<'_>, descs: Descs<'_>) -> Result<()>;
    /// Posts an atomic operation.
    ///
    /// # Safety
    /// As for [`EndpointCalls::send`].
    unsafe fn atomic(&self, op: &AtomicOp<'_>) -> Result<()>;
    /// Takes an operation back, if it is still waiting.
    fn cancel(&self, context: usize);
    /// Binds an address vector.
    fn bind_av(&self, av: &Arc<Av>) -> Result<()>;
    /// Binds an event queue.
    fn bind_eq(&self, eq: &Arc<EventQueue>) -> Result<()>;
    /// Tells what events name as their object.
    fn introduce(&self, object: usize);
    /// Starts it.
    fn enable(&self) -> Result<()>;
    /// Ends it: no memory of an operation is touched any more.
    fn close(&self);
    /// Asks a peer for a connection.
    fn connect(&self, peer: &[u8], data: &[u8]) -> Result<()>;
    /// Accepts the request that it was opened with.
    fn accept(&self, data: &[u8]) -> Result<()>;
    /// Ends the connection.
    fn shutdown(&self) -> Result<()>;
    /// The connected peer's address.
    fn peer_name(&self) -> Result<Vec<u8>>;
    /// Its address.
    fn name(&self) -> Result<Vec<u8>>;
    /// Takes another address, before it is started.
    fn set_name(&self, name: &[u8]) -> Result<()>;
    /// Counts of what happened. Waits for whoever is inside the endpoint.
    fn stats(&self) -> Stats;
    /// Sets an option.
    fn set_option(&self, name: i32, value: &[u8]) -> Result<()>;
    /// Largest payload of an atomic operation.
    fn atomic_limit(&self) -> usize;
}

/// What is asked of a receive context that endpoints share.
#[enum_dispatch]
pub trait SharedReceiveCalls {
    /// Posts a receive.
    ///
    /// # Safety
    /// As for [`EndpointCalls::send`], until the context is closed.
    unsafe fn recv(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()>;
    /// Takes an operation back, if it is still waiting.
    fn cancel(&self, context: usize);
    /// Ends it. No endpoint receives from it any more.
    fn close(&self);
}

/// What is asked of a completion queue.
#[enum_dispatch]
pub trait QueueCalls {
    /// Makes progress and takes completions: `EAGAIN` if there are none, `EAVAIL` if an error comes
    /// first.
    fn read(&self, batch: &mut Batch) -> Result<usize>;
    /// Takes the error that comes first.
    fn read_error(&self) -> Option<CqError>;
    /// Makes progress and prepares for sleeping on the descriptor; `false` means read first.
    fn try_wait(&self) -> Result<bool>;
    /// The descriptor to sleep on: another one for the same.
    fn descriptor(&self) -> Result<OwnedFd>;
}

/// What is asked of a counter.
#[enum_dispatch]
pub trait CounterCalls {
    /// Makes progress and reads the successes.
    fn read(&self) -> u64;
    /// Reads the failures.
    fn read_error(&self) -> u64;
    /// Adds to the successes.
    fn add(&self, n: u64);
    /// Prepares for sleeping on the descriptor; `false` means read first.
    fn try_wait(&self) -> Result<bool>;
    /// The descriptor to sleep on: another one for the same.
    fn descriptor(&self) -> Result<OwnedFd>;
}

/// An endpoint of the provider that was chosen.
#[enum_dispatch(EndpointCalls)]
pub enum AnyEndpoint<L: Lock> {
    /// Shared memory.
    Shm(HeldEndpoint<ShmEndpoint<L>>),
    /// TCP.
    Tcp(HeldEndpoint<TcpEndpoint>),
    /// Reliable datagrams over TCP connections.
    TcpRxm(HeldEndpoint<TcpRxmEndpoint<L>>),
    /// RDMA verbs.
    Verbs(HeldEndpoint<VerbsEndpoint>),
    /// Reliable datagrams over connections of RDMA verbs.
    VerbsRxm(HeldEndpoint<VerbsRxmEndpoint<L>>),
}

/// A shared receive context of the provider that was chosen.
#[enum_dispatch(SharedReceiveCalls)]
pub enum AnySharedReceive<L: Lock> {
    /// Shared memory.
    Shm(HeldSharedReceive<ShmEndpoint<L>>),
    /// TCP.
    Tcp(HeldSharedReceive<TcpEndpoint>),
    /// Reliable datagrams over TCP connections.
    TcpRxm(HeldSharedReceive<TcpRxmEndpoint<L>>),
    /// RDMA verbs.
    Verbs(HeldSharedReceive<VerbsEndpoint>),
    /// Reliable datagrams over connections of RDMA verbs.
    VerbsRxm(HeldSharedReceive<VerbsRxmEndpoint<L>>),
}

/// A completion queue of the provider that was chosen.
#[enum_dispatch(QueueCalls)]
pub enum AnyQueue<L: Lock> {
    /// Shared memory.
    Shm(HeldQueue<ShmEndpoint<L>>),
    /// TCP.
    Tcp(HeldQueue<TcpEndpoint>),
    /// Reliable datagrams over TCP connections.
    TcpRxm(HeldQueue<TcpRxmEndpoint<L>>),
    /// RDMA verbs.
    Verbs(HeldQueue<VerbsEndpoint>),
    /// Reliable datagrams over connections of RDMA verbs.
    VerbsRxm(HeldQueue<VerbsRxmEndpoint<L>>),
}

/// A counter of the provider that was chosen.
#[enum_dispatch(CounterCalls)]
pub enum AnyCounter<L: Lock> {
    /// Shared memory.
    Shm(HeldCounter<ShmEndpoint<L>>),
    /// TCP.
    Tcp(HeldCounter<TcpEndpoint>),
    /// Reliable datagrams over TCP connections.
    TcpRxm(HeldCounter<TcpRxmEndpoint<L>>),
    /// RDMA verbs.
    Verbs(HeldCounter<VerbsEndpoint>),
    /// Reliable datagrams over connections of RDMA verbs.
    VerbsRxm(HeldCounter<VerbsRxmEndpoint<L>>),
}

impl<L: Lock> Clone for AnyEndpoint<L> {
    fn clone(&self) -> Self {
        match self {
            Self::Shm(endpoint) => Self::Shm(endpoint.clone()),
            Self::Tcp(endpoint) => Self::Tcp(endpoint.clone()),
            Self::TcpRxm(endpoint) => Self::TcpRxm(endpoint.clone()),
            Self::Verbs(endpoint) => Self::Verbs(endpoint.clone()),
            Self::VerbsRxm(endpoint) => Self::VerbsRxm(endpoint.clone()),
        }
    }
}

impl<L: Lock> Clone for AnySharedReceive<L> {
    fn clone(&self) -> Self {
        match self {
            Self::Shm(receive) => Self::Shm(receive.clone()),
            Self::Tcp(receive) => Self::Tcp(receive.clone()),
            Self::TcpRxm(receive) => Self::TcpRxm(receive.clone()),
            Self::Verbs(receive) => Self::Verbs(receive.clone()),
            Self::VerbsRxm(receive) => Self::VerbsRxm(receive.clone()),
        }
    }
}

impl<L: Lock> fmt::Debug for AnyEndpoint<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyEndpoint")
    }
}

impl<L: Lock> fmt::Debug for AnyQueue<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyQueue")
    }
}

impl<L: Lock> fmt::Debug for AnyCounter<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyCounter")
    }
}

impl<L: Lock> fmt::Debug for AnySharedReceive<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnySharedReceive")
    }
}
