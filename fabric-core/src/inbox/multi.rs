//! HOT. Multi-receive buffers: one buffer, many messages, given back exactly once and last.

use super::{Buffer, Inbox, Posted, Receive, Waiting, kind};
use crate::{
    Errno, Result,
    completion::{CqError, Entry, Report},
    flags::Flags,
    lock::Lock,
    matching::{Key, PostedId, Want},
    mem::Buffers,
    op::RecvOp,
    slab::Handle,
};

/// A multi-receive buffer.
#[derive(Debug)]
pub(super) struct MultiBuffer {
    buffers: Buffers,
    context: usize,
    flags: Flags,
    tagged: bool,
    /// With less room than this it is given back.
    min: usize,
    used: usize,
    /// Messages placed and not complete.
    under_way: usize,
    /// No further message will be placed.
    retired: bool,
    /// It was cancelled, and its owner must hear so at the end.
    cancelled: bool,
}

impl<B> Inbox<B> {
    pub(super) fn post_multi(
        &mut self,
        op: &RecvOp<'_>,
        want: Want,
        buffers: Buffers,
    ) -> Result<Posted<B>> {
        if buffers.iov().len() > 1 {
            return Err(Errno::EINVAL);
        }
        let multi = MultiBuffer {
            buffers,
            context: op.context,
            flags: op.flags,
            tagged: op.tagged,
            min: self.min_multi_recv,
            used: 0,
            under_way: 0,
            retired: false,
            cancelled: false,
        };
        let handle = self.multi.insert(multi).map_err(|_| Errno::EAGAIN)?;
        let receive =
            Receive { multi: Some(handle), base: buffers.base(), ..Receive::whole(op, buffers) };
        let posted = self.matcher.post(want, receive);
        Ok(Posted::Buffer(Buffer { want, posted, handle }))
    }

    /// The next message that waited for a buffer that has just been posted, and its place in it.
    pub fn next_for_buffer(&mut self, buffer: &Buffer) -> Option<(Key, Waiting<B>, Receive)> {
        if self.multi.get(buffer.handle).is_none_or(|multi| multi.retired) {
            return None;
        }
        let (key, waiting) = self.matcher.take_waiting(&buffer.want)?;
        let place = self.reserve(buffer.posted, buffer.handle, waiting.len);
        Some((key, waiting, place))
    }

    /// Reserves room for a message of `len` bytes in the buffer behind a posted receive.
    pub(super) fn reserve(&mut self, posted: PostedId, handle: Handle, len: usize) -> Receive {
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
    pub(super) fn placed(&mut self, handle: Handle) -> Flags {
        let Some(multi) = self.multi.get_mut(handle) else { return Flags::empty() };
        multi.under_way -= 1;
        if multi.retired && multi.under_way == 0 && !multi.cancelled {
            self.multi.remove(handle);
            return Flags::MULTI_RECV;
        }
        Flags::empty()
    }

    /// Takes no further messages, and says so once the last one is complete.
    pub(super) fn retire_cancelled<L: Lock>(&mut self, report: &Report<L>, handle: Handle) {
        if let Some(multi) = self.multi.get_mut(handle) {
            multi.retired = true;
            multi.cancelled = true;
        }
        self.release_cancelled(report, handle);
    }

    /// Reports a cancelled buffer once its last message is complete.
    pub(super) fn release_cancelled<L: Lock>(&mut self, report: &Report<L>, handle: Handle) {
        let ended = self.multi.get(handle).is_some_and(|m| m.cancelled && m.under_way == 0);
        if !ended {
            return;
        }
        let Some(multi) = self.multi.remove(handle) else { return };
        let flags = Flags::RECV | Flags::MULTI_RECV | kind(multi.tagged);
        let entry = Entry { buf: multi.buffers.base(), ..Entry::new(multi.context, flags) };
        report.receive_failed(CqError::new(entry, Errno::ECANCELED));
    }
}
