//! HOT. Receive contexts that endpoints share.

use std::sync::Arc;

use crate::{
    Errno, Result,
    attr::RxAttr,
    domain::Domain,
    op::{Descs, RecvOp},
};

/// A receive context that several endpoints take their receives from (`fi_srx_context(3)`).
///
/// Receives complete in the queue and on the counters of the endpoint that a message came to.
pub trait SharedReceive: Sized + Send + Sync + 'static {
    /// Opens a context of a domain. `context` is the application's.
    fn open(domain: &Arc<Domain>, attr: &RxAttr, context: usize) -> Result<Arc<Self>>;
    /// Ends the context and drops its receives. No endpoint is bound to it any more.
    fn close(self: &Arc<Self>);

    /// Posts a receive, or peeks, claims, discards as the flags say.
    ///
    /// # Safety
    /// The memory that `op` describes is valid for the operation's accesses until it completes or
    /// the context is closed.
    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()>;
    /// The same into memory that is registered as `descs` say.
    ///
    /// # Safety
    /// As for [`SharedReceive::recv`]. Descriptors are checked, or numbers that only a device looks
    /// at.
    #[inline]
    unsafe fn recv_registered(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()> {
        let _ = descs;
        // SAFETY: this function's own contract.
        unsafe { self.recv(op) }
    }
    /// Cancels the receive with this context, if it is still waiting; `Ok` either way.
    fn cancel(&self, context: usize) -> Result<()>;

    /// Reads `FI_OPT_ENDPOINT` option `name`, as the bytes of its C type.
    fn option(&self, name: i32) -> Result<Vec<u8>> {
        let _ = name;
        Err(Errno::ENOPROTOOPT)
    }
    /// Sets an option from the bytes of its C type; unknown or read-only is `ENOPROTOOPT`.
    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        let _ = (name, value);
        Err(Errno::ENOPROTOOPT)
    }
}

/// For providers whose endpoints share nothing: opening one is `ENOSYS`.
#[derive(Clone, Copy, Debug)]
pub enum NoSharedReceive {}

impl SharedReceive for NoSharedReceive {
    fn open(_: &Arc<Domain>, _: &RxAttr, _: usize) -> Result<Arc<Self>> {
        Err(Errno::ENOSYS)
    }

    fn close(self: &Arc<Self>) {
        match **self {}
    }

    unsafe fn recv(&self, _: &RecvOp<'_>) -> Result<()> {
        match *self {}
    }

    fn cancel(&self, _: usize) -> Result<()> {
        match *self {}
    }
}
