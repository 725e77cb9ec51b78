//! HOT. Receive contexts that the connected endpoints of a domain share.

use std::{fmt, sync::Arc};

use fabric_core::{
    Errno, Result, api::SharedReceive, attr::RxAttr, domain::Domain, mem::Buffers, op::RecvOp,
    options, slab::Handle,
};

use crate::{endpoint::MIN_MULTI_RECV, port::Port};

/// A shared receive context.
pub struct TcpSharedReceive {
    port: Arc<Port>,
    context: Handle,
}

impl fmt::Debug for TcpSharedReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSharedReceive").field("context", &self.context).finish_non_exhaustive()
    }
}

impl TcpSharedReceive {
    /// Its name in the engine behind `port`; `EINVAL` if it is of another domain.
    pub(crate) fn within(&self, port: &Arc<Port>) -> Result<Handle> {
        if Arc::ptr_eq(&self.port, port) { Ok(self.context) } else { Err(Errno::EINVAL) }
    }
}

impl SharedReceive for TcpSharedReceive {
    fn open(domain: &Arc<Domain>, _: &RxAttr, _: usize) -> Result<Arc<Self>> {
        let port = domain.common(Port::new)?;
        let context = port.lock().open_shared(MIN_MULTI_RECV)?;
        Ok(Arc::new(Self { port, context }))
    }

    fn close(self: &Arc<Self>) {
        self.port.lock().close_shared(self.context);
    }

    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        let mut engine = self.port.lock();
        let posted = engine.post_shared(self.context, op, buffers);
        engine.hand_on();
        posted
    }

    fn cancel(&self, context: usize) -> Result<()> {
        self.port.lock().cancel_shared(self.context, context);
        Ok(())
    }

    fn option(&self, name: i32) -> Result<Vec<u8>> {
        if name != options::MIN_MULTI_RECV {
            return Err(Errno::ENOPROTOOPT);
        }
        let engine = self.port.lock();
        let context = engine.core.contexts.get(self.context).ok_or(Errno::EOPBADSTATE)?;
        Ok(context.inbox.min_multi_recv.to_ne_bytes().to_vec())
    }

    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        let size = options::min_multi_recv(name, value)?;
        let mut engine = self.port.lock();
        let context = engine.core.contexts.get_mut(self.context).ok_or(Errno::EOPBADSTATE)?;
        context.inbox.min_multi_recv = size;
        Ok(())
    }
}
