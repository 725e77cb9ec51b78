//! HOT. Receives that the application posts, and what waits for them.

use fabric_core::{
    Errno, Result,
    flags::Flags,
    inbox::{Arrival, Inbox, Posted, Receive, Waiting},
    lock::Lock,
    matching::{ANY_PEER, Key, Want},
    mem::Buffers,
    op::{ADDR_UNSPEC, RecvOp},
    slab::Handle,
};

use super::{Body, Engine, Msg, conn::Phase};
use crate::net::Net;

impl<L: Lock, N: Net> Engine<L, N> {
    /// Posts a receive into `buffers`, which describe `op.iov`.
    #[inline]
    pub(crate) fn post_recv(
        &mut self,
        ep: Handle,
        op: &RecvOp<'_>,
        buffers: Buffers,
    ) -> Result<()> {
        let state = self.core.eps.get(ep).ok_or(Errno::EOPBADSTATE)?;
        let ended = state.msg.as_ref().is_some_and(Msg::has_ended);
        let rx = state.rx;
        let peer = if op.src == ADDR_UNSPEC || !state.limits.directed {
            ANY_PEER
        } else {
            self.resolve(ep, op.src)?
        };
        let want = Want { tagged: op.tagged, peer, tag: op.tag, ignore: op.ignore };
        let looks = op.flags.intersects(Flags::PEEK | Flags::CLAIM | Flags::DISCARD);
        if ended && !looks {
            // No message can come any more, but one that came before may be waiting.
            let several = op.flags.contains(Flags::MULTI_RECV);
            let context = self.core.contexts.get(rx).ok_or(Errno::EOPBADSTATE)?;
            if several || !context.inbox.has_waiting(&want) {
                return self.post_too_late(ep, op, want, buffers);
            }
        }
        self.post_into(rx, op, want, buffers)
    }

    /// A receive on a connection that has ended. A program that has not read so cannot know: it fails as
    /// those did that were posted before the end.
    #[cold]
    fn post_too_late(
        &mut self,
        ep: Handle,
        op: &RecvOp<'_>,
        want: Want,
        buffers: Buffers,
    ) -> Result<()> {
        let state = self.core.eps.get(ep).ok_or(Errno::EOPBADSTATE)?;
        if state.msg.as_ref().is_none_or(Msg::end_is_read) {
            return Err(Errno::ENOTCONN);
        }
        self.post_into(state.rx, op, want, buffers)?;
        self.core.fail_receives(ep, Errno::ECANCELED);
        Ok(())
    }

    #[inline]
    pub(super) fn post_into(
        &mut self,
        rx: Handle,
        op: &RecvOp<'_>,
        want: Want,
        buffers: Buffers,
    ) -> Result<()> {
        match self.core.post_receive(rx, op, want, buffers)? {
            Posted::Done => {}
            Posted::Met(key, waiting, receive) => self.meet(rx, key, waiting, receive),
            special => self.finish_special(rx, op, special),
        }
        if self.core.contexts.get(rx).is_some_and(|rx| !rx.stalled.is_empty()) {
            self.resume_stalled(rx);
        }
        Ok(())
    }

    /// A receive has met a message that waited.
    fn meet(&mut self, rx: Handle, key: Key, waiting: Waiting<Body>, receive: Receive) {
        let arrival = Arrival::of(key, &waiting);
        match waiting.body {
            Body::Here(payload) => {
                let Some(ep) = self.core.recipient(rx, key) else { return };
                let room = receive.buffers.len();
                let placed = payload.buffers().copy_into(&receive.buffers).min(room);
                self.core.let_go(ep, key, waiting.len);
                self.core.received(ep, &receive, &arrival, Ok(placed));
            }
            Body::Announced { conn: handle, index, ack } => {
                let Some(conn) = self.conns.get_mut(handle) else { return };
                self.core.ask(conn, index, receive, arrival, ack, false);
                self.list(handle);
            }
        }
    }

    /// What peeks, discards and multi-receive buffers leave to be done.
    #[cold]
    fn finish_special(&mut self, rx: Handle, op: &RecvOp<'_>, posted: Posted<Body>) {
        match posted {
            Posted::Done => {}
            Posted::Met(key, waiting, receive) => self.meet(rx, key, waiting, receive),
            Posted::Buffer(buffer) => {
                while let Some((key, waiting, place)) =
                    self.core.contexts.get_mut(rx).and_then(|rx| rx.inbox.next_for_buffer(&buffer))
                {
                    self.meet(rx, key, waiting, place);
                }
            }
            Posted::Seen(arrival) => {
                self.core.tell_found(rx, op, &arrival, Inbox::<Body>::answer_peek)
            }
            Posted::Dropped { key, waiting, peeked } => {
                let arrival = Arrival::of(key, &waiting);
                self.discard(rx, key, waiting);
                let answer =
                    if peeked { Inbox::<Body>::answer_peek } else { Inbox::<Body>::answer_discard };
                self.core.tell_found(rx, op, &arrival, answer);
            }
        }
    }

    /// Drops a message that waited. The bytes of an announced one come all the same, since there is
    /// no other answer.
    fn discard(&mut self, rx: Handle, key: Key, waiting: Waiting<Body>) {
        match waiting.body {
            Body::Here(_) => {
                if let Some(ep) = self.core.recipient(rx, key) {
                    self.core.let_go(ep, key, waiting.len);
                }
            }
            Body::Announced { conn: handle, index, ack } => {
                if let Some(conn) = self.conns.get_mut(handle) {
                    self.core.ask_and_drop(conn, index, waiting.len, ack);
                    self.list(handle);
                }
            }
        }
    }

    /// A receive has been posted: messages that waited in their sockets may have a place now.
    #[cold]
    fn resume_stalled(&mut self, rx: Handle) {
        let Some(context) = self.core.contexts.get_mut(rx) else { return };
        for handle in std::mem::take(&mut context.stalled) {
            self.resume(handle);
        }
    }

    /// Tries again what had to wait.
    pub(super) fn resume(&mut self, handle: Handle) {
        let Some(conn) = self.conns.get_mut(handle) else { return };
        let Phase::Stalled(header) = conn.rx.phase else { return };
        conn.rx.phase = Phase::Header;
        match self.core.begin_at(handle, conn, &header, &[], &mut ()) {
            Ok(Some(_)) => self.read_carried(handle),
            Ok(None) => {}
            Err(reason) => self.down(handle, reason),
        }
    }
}
