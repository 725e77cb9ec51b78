//! PENDING. Taking back what has been posted and has not begun.
//!
//! An operation is looked for by its context, and very many may wait. They are put in order by the
//! first call that looks, and from then on as they are posted, so that cancelling them all takes time in
//! proportion to their number; programs that never cancel pay for nothing.

use std::collections::HashMap;

use fabric_core::{
    Errno,
    lock::Lock,
    slab::{Handle, Slab},
};

use super::{Engine, transmit::TxOp};
use crate::net::Net;

/// The operations of each context, in the order of the calls; some of them may have ended.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    handles: Option<HashMap<usize, Vec<Handle>>>,
    /// In all of them.
    len: usize,
}

/// Operations that have ended are kept until there are more of them than this and of those that wait.
const ENDED: usize = 1024;

impl Contexts {
    /// An operation is posted.
    #[inline]
    pub(super) fn add(&mut self, context: usize, handle: Handle, ops: &Slab<TxOp>) {
        if self.handles.is_some() {
            self.insert(context, handle, ops);
        }
    }

    #[cold]
    fn insert(&mut self, context: usize, handle: Handle, ops: &Slab<TxOp>) {
        if self.len > 2 * ops.len() + ENDED {
            *self = Self::default();
        } else if let Some(handles) = &mut self.handles {
            handles.entry(context).or_default().push(handle);
            self.len += 1;
        }
    }

    /// The oldest operation of an endpoint that has this context and has not begun.
    fn find(&mut self, ep: Handle, context: usize, ops: &Slab<TxOp>) -> Option<Handle> {
        let handles = self.handles.get_or_insert_with(|| {
            let mut all: HashMap<_, Vec<_>> = HashMap::with_capacity(ops.len());
            for (handle, op) in ops.iter() {
                all.entry(op.interest.context).or_default().push(handle);
            }
            self.len = ops.len();
            all
        });
        let waits = |handle: &Handle| {
            ops.get(*handle).is_some_and(|op| op.ep == ep && op.queued && !op.interest.silent)
        };
        handles.get(&context)?.iter().copied().find(waits)
    }
}

impl<L: Lock, N: Net> Engine<L, N> {
    /// Takes back what was posted with `context` and has not begun. Nothing found is fine, too: the
    /// operation's own completion is there or on its way.
    pub(crate) fn cancel(&mut self, ep: Handle, context: usize) {
        let Some(state) = self.core.eps.get(ep) else { return };
        let (rx, queued) = (state.rx, state.backlog.len());
        if queued != 0
            && let Some(handle) = self.core.by_context.find(ep, context, &self.core.ops)
        {
            self.core.finish(handle, Err(Errno::ECANCELED));
        } else if !self.core.shares(ep) {
            self.core.cancel_receive(rx, context);
        }
    }
}
