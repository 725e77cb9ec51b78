//! HOT. Multi-receive buffers: one buffer, many messages, given back exactly once and last.

use super::{Core, receive::Receive};
use crate::{
    Errno,
    completion::{CqError, Entry},
    flags::Flags,
    lock::Lock,
    matching::PostedId,
    mem::Buffers,
    slab::Handle,
};

/// A multi-receive buffer.
#[derive(Debug)]
pub(crate) struct MultiBuffer {
    pub(crate) buffers: Buffers,
    pub(crate) context: usize,
    pub(crate) flags: Flags,
    pub(crate) tagged: bool,
    /// With less room than this it is given back.
    pub(crate) min: usize,
    pub(crate) used: usize,
    /// Messages placed and not complete.
    pub(crate) under_way: usize,
    /// No further message will be placed.
    pub(crate) retired: bool,
    /// It was cancelled, and its owner must hear so at the end.
    pub(crate) cancelled: bool,
}

impl<L: Lock> Core<L> {
    /// Reserves room for a message of `len` bytes in the buffer behind a posted receive.
    pub(crate) fn reserve(&mut self, posted: PostedId, handle: Handle, len: usize) -> Receive {
        let Some(multi) = self.multi.get_mut(handle) else { return Receive::NOWHERE };
        let place = multi.buffers.slice(multi.used, len);
        let base = multi.buffers.base() + multi.used;
        multi.used += place.len();
        multi.under_way += 1;
        let (context, flags) = (multi.context, multi.flags);
        if multi.buffers.len() - multi.used < multi.min.max(1) {
            multi.retired = true;
            self.matcher.remove_posted(posted);
        }
        Receive { buffers: place, context, flags, multi: Some(handle), base }
    }

    /// A message in a multi-receive buffer is complete. `MULTI_RECV` if that gives the buffer back.
    pub(crate) fn placed(&mut self, handle: Handle) -> Flags {
        let Some(multi) = self.multi.get_mut(handle) else { return Flags::empty() };
        multi.under_way -= 1;
        if multi.retired && multi.under_way == 0 && !multi.cancelled {
            self.multi.remove(handle);
            return Flags::MULTI_RECV;
        }
        Flags::empty()
    }

    /// Reports a cancelled buffer once its last message is complete.
    pub(crate) fn release_cancelled(&mut self, handle: Handle) {
        let ended = self.multi.get(handle).is_some_and(|m| m.cancelled && m.under_way == 0);
        if !ended {
            return;
        }
        let Some(multi) = self.multi.remove(handle) else { return };
        let kind = if multi.tagged { Flags::TAGGED } else { Flags::MSG };
        let flags = Flags::RECV | Flags::MULTI_RECV | kind;
        let entry = Entry { buf: multi.buffers.base(), ..Entry::new(multi.context, flags) };
        self.report.receive_failed(CqError::new(entry, Errno::ECANCELED));
    }
}
