//! SETUP. Endpoints that wait for connections.

use std::sync::Arc;

use super::CM_DATA_SIZE;
use crate::{
    Errno, Result,
    attr::Info,
    eq::{EventQueue, RequestHandle},
};

/// `FI_OPT_CM_DATA_SIZE`.
const CM_DATA: i32 = 1;

/// An endpoint that listens for connection requests (`fi_passive_ep(3)`).
///
/// It belongs to no domain, and is driven by reading the event queue that is bound to it: calls may
/// come from several threads.
pub trait PassiveEndpoint: Sized + Send + Sync + 'static {
    /// Opens one that does not listen yet, with the address of `info` if that has one. `context` is
    /// the application's.
    fn open(info: &Info, context: usize) -> Result<Arc<Self>>;

    /// Binds the event queue that requests are reported to, instead of one bound before.
    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()>;
    /// Starts to listen. Requests name `object` as the endpoint that they came to. `ENOEQ` without
    /// an event queue, `EINVAL` when called twice.
    ///
    /// The provider bounds what peers can queue up unread ([`EventQueue::pending`]).
    fn listen(self: &Arc<Self>, object: usize) -> Result<()>;
    /// Refuses a request, for the reasons in `data`, at most [`CM_DATA_SIZE`] bytes or what
    /// [`PassiveEndpoint::option`] says. `EINVAL` for a request of another kind of endpoint, and
    /// for one that has been answered. The peer gets an error event with the data.
    fn reject(&self, request: &RequestHandle, data: &[u8]) -> Result<()>;
    /// Stops listening and releases the event queue. Requests that the application has read, but
    /// not answered, can still be accepted; of the others, peers are refused.
    fn close(self: &Arc<Self>);

    /// The local address, as `fi_getname` returns it.
    fn name(&self) -> Result<Vec<u8>>;
    /// Takes another local address, before listening.
    fn set_name(&self, name: &[u8]) -> Result<()>;
    /// Bounds the requests that wait in the transport (`FI_BACKLOG`), before listening.
    fn set_backlog(&self, backlog: usize) -> Result<()>;
    /// Gives the address up to an active endpoint, which is opened with the handle as its request
    /// and may connect from there. The passive endpoint is then of no more use. `EINVAL` if the
    /// transport cannot, or if it listens.
    fn surrender(&self) -> Result<RequestHandle> {
        Err(Errno::EINVAL)
    }

    /// Reads `FI_OPT_ENDPOINT` option `name`, as the bytes of its C type.
    fn option(&self, name: i32) -> Result<Vec<u8>> {
        match name {
            CM_DATA => Ok(CM_DATA_SIZE.to_ne_bytes().to_vec()),
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
    /// Sets an option from the bytes of its C type; unknown or read-only is `ENOPROTOOPT`.
    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        let _ = (name, value);
        Err(Errno::ENOPROTOOPT)
    }
}
