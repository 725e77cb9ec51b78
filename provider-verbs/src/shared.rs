//! HOT. Receive contexts that the endpoints of a domain share: the device's shared receive queues.

use std::{fmt, sync::Arc};

use fabric_core::{
    Errno, Result,
    api::SharedReceive,
    attr::RxAttr,
    domain::Domain,
    mem::Buffers,
    op::{Descs, RecvOp},
    param::known,
    slab::Handle,
};

use crate::{device::PIECES, endpoint::Port};

/// A shared receive context.
pub struct VerbsSharedReceive {
    port: Arc<Port>,
    context: Handle,
}

impl fmt::Debug for VerbsSharedReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsSharedReceive").field("context", &self.context).finish_non_exhaustive()
    }
}

impl VerbsSharedReceive {
    /// Its name in the engine behind `port`; `EINVAL` if it is of another domain.
    pub(crate) fn within(&self, port: &Arc<Port>) -> Result<Handle> {
        if Arc::ptr_eq(&self.port, port) { Ok(self.context) } else { Err(Errno::EINVAL) }
    }
}

impl SharedReceive for VerbsSharedReceive {
    fn open(domain: &Arc<Domain>, attr: &RxAttr, _: usize) -> Result<Arc<Self>> {
        let port = Port::of(domain)?;
        let receives = if attr.size == 0 { known::VERBS_RX_SIZE.size() } else { attr.size };
        let pieces = if attr.iov_limit == 0 { PIECES } else { attr.iov_limit.min(PIECES) };
        let context = port.lock().open_shared(receives, pieces as u32)?;
        Ok(Arc::new(Self { port, context }))
    }

    fn close(self: &Arc<Self>) {
        self.port.lock().close_shared(self.context);
    }

    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        unsafe { self.recv_registered(op, Descs::NONE) }
    }

    unsafe fn recv_registered(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        self.port.lock().post_shared(self.context, op, &buffers, descs)
    }

    /// The device has all receives, and gives none back.
    fn cancel(&self, _: usize) -> Result<()> {
        Ok(())
    }
}
