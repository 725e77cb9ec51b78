//! HOT. Receive contexts that endpoints share.

use std::sync::Arc;

use fabric_core::{
    Errno, Result,
    mem::Buffers,
    op::{Descs, RecvOp},
    slab::Handle,
};

use super::{
    Engine,
    ep::RxOp,
    id::{Id, Side},
};
use crate::sys::{Pieces, RecvWork, Srq};

/// Receives of a context, by the place that their completions name. The device takes them in the
/// order in which they are posted, but messages of several connections end in any.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: Arc<Srq>,
    /// Of a receive, at most.
    pieces: u32,
    receives: Vec<Option<(RxOp, Pieces)>>,
    free: Vec<u32>,
}

impl Shared {
    /// A receive has ended.
    #[inline]
    pub(super) fn take(&mut self, place: u32) -> Option<RxOp> {
        let (op, _) = self.receives.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(op)
    }

    /// A receive is posted once more.
    #[cold]
    pub(super) fn repost(&mut self, owner: Handle, place: u32) {
        if let Some(Some((_, pieces))) = self.receives.get(place as usize) {
            let id = Id::new(Side::Shared, owner, place).word();
            // It was in the queue before, so that there is room.
            let _ = self.queue.post(&RecvWork { id, pieces: *pieces });
        }
    }
}

impl Engine {
    /// Opens a context for so many receives.
    pub(crate) fn open_shared(&mut self, receives: usize, pieces: u32) -> Result<Handle> {
        let limits = &self.device.limits;
        let count = (receives as u64).clamp(1, u64::from(limits.shared)) as u32;
        if limits.srqs == 0 || limits.shared == 0 {
            return Err(Errno::ENOSYS);
        }
        let pieces = pieces.min(limits.shared_pieces).max(1);
        let queue = Srq::new(&self.pd, count, pieces)?;
        let free = (0..count).rev().collect();
        let shared = Shared { queue, pieces, receives: vec![None; count as usize], free };
        self.shared.insert(shared).map_err(|_| Errno::EMFILE)
    }

    /// Ends a context that no endpoint receives from any more.
    pub(crate) fn close_shared(&mut self, context: Handle) {
        self.shared.remove(context);
    }

    /// Has an endpoint receive from a context.
    pub(crate) fn share(&mut self, handle: Handle, context: Handle) -> Result<()> {
        let ep = self.eps.get_mut(handle).ok_or(Errno::EOPBADSTATE)?;
        if ep.shared.is_some() || self.shared.get(context).is_none() {
            return Err(Errno::EINVAL);
        }
        ep.shared = Some(context);
        Ok(())
    }

    /// Whether an endpoint receives from a context.
    pub(crate) fn shares(&self, handle: Handle) -> bool {
        self.eps.get(handle).is_some_and(|ep| ep.shared.is_some())
    }

    /// Posts a receive to a context.
    pub(crate) fn post_shared(
        &mut self,
        context: Handle,
        op: &RecvOp<'_>,
        buffers: &Buffers,
        descs: Descs<'_>,
    ) -> Result<()> {
        if op.tagged || op.flags.intersects(super::post::STRANGE) {
            return Err(Errno::EOPNOTSUPP);
        }
        let shared = self.shared.get_mut(context).ok_or(Errno::EOPBADSTATE)?;
        let pieces = super::post::local(buffers, descs, false, shared.pieces)?;
        let place = *shared.free.last().ok_or(Errno::EAGAIN)?;
        let id = Id::new(Side::Shared, context, place).word();
        shared.queue.post(&RecvWork { id, pieces }).map_err(super::post::full)?;
        shared.free.pop();
        let op = RxOp { context: op.context, flags: op.flags };
        shared.receives[place as usize] = Some((op, pieces));
        Ok(())
    }
}
