//! HOT. What leaves on a connection: answers, then operations in their turn.

use fabric_core::{Errno, Result, flags::Flags, lock::Lock, mem::Buffers, slab::Handle};

use super::{
    Core,
    conn::{Conn, Control, Current, Tx, place_in},
    transmit::{COPIED, STAGED_MAX, TxKind, TxOp, message},
    trust::Trust,
};
use crate::{
    frame::{
        Endian,
        head::{Answer, HEAD_MAX, HeadFlags, Header},
    },
    net::Stream,
};

impl Tx {
    /// Stages a header alone.
    #[inline]
    pub(super) fn head(&mut self, endian: Endian, header: &Header) {
        let mut bytes = [0; HEAD_MAX];
        let len = header.emit(endian, self.id, &mut bytes);
        self.id = self.id.wrapping_add(1);
        self.out.extend_from_slice(&bytes[..len]);
    }

    /// Stages a header and its payload.
    #[inline]
    pub(super) fn stage(&mut self, endian: Endian, header: &Header, payload: &Buffers) {
        self.head(endian, header);
        payload.append_to(&mut self.out);
    }

    /// What leaves from where it is.
    fn direct(&self, ops: &fabric_core::slab::Slab<TxOp>) -> Buffers {
        match &self.current {
            None => Buffers::EMPTY,
            Some(Current::Op { op, at }) => ops.get(*op).map_or(Buffers::EMPTY, |op| {
                let all = op.payload.buffers();
                all.slice(*at, all.len() - at)
            }),
            Some(Current::Answer { pieces, at, .. }) => place_in(pieces, *at),
        }
    }
}

impl<L: Lock> Core<L> {
    /// Sends until nothing is left or the socket takes no more; what it takes may be held back if `more`
    /// is to come.
    pub(super) fn pump<S: Stream>(&mut self, conn: &mut Conn<S>, more: bool) -> Result<()> {
        loop {
            self.stage(conn);
            let direct = conn.tx.direct(&self.ops);
            let total = conn.tx.staged() + direct.len();
            if total == 0 {
                if conn.tx.current.is_some() {
                    self.end_current(conn)?;
                    continue;
                }
                conn.tx.blocked = false;
                if conn.tx.held && !more {
                    conn.tx.held = false;
                    conn.stream.push();
                }
                return Ok(());
            }
            if let Some(Current::Answer { pieces, .. }) = &conn.tx.current
                && !pieces.iter().all(|(_, region)| region.is_open())
            {
                // The header is out, so the rest cannot be anything but these bytes.
                return Err(Errno::ENOKEY);
            }
            let sent = match conn.stream.send(&conn.tx.out[conn.tx.sent..], &direct, more) {
                Ok(sent) => {
                    conn.tx.held = more;
                    sent
                }
                Err(Errno::EAGAIN) => 0,
                Err(reason) => return Err(reason),
            };
            let staged = sent.min(conn.tx.staged());
            conn.tx.left(staged);
            self.tell_left(conn);
            match &mut conn.tx.current {
                Some(Current::Op { at, .. } | Current::Answer { at, .. }) => *at += sent - staged,
                None => {}
            }
            if sent < total {
                conn.tx.blocked = true;
                if conn.tx.sent >= STAGED_MAX {
                    conn.tx.forget_sent();
                }
                return Ok(());
            }
        }
    }

    /// Stages what is next: as much as leaves in one call.
    pub(super) fn stage<S>(&mut self, conn: &mut Conn<S>) {
        while conn.tx.current.is_none() && conn.tx.staged() < self.batch {
            if let Some(control) = conn.tx.control.pop_front() {
                self.answer(conn, control);
            } else if let Some(op) = conn.tx.queue.pop_front() {
                if !self.start(conn, op) {
                    conn.tx.queue.push_front(op);
                    break;
                }
            } else {
                break;
            }
        }
    }

    /// Stages an answer.
    fn answer<S>(&mut self, conn: &mut Conn<S>, control: Control) {
        match control {
            Control::Head(header) => conn.tx.head(conn.endian, &header),
            Control::ReadResponse { pieces, len } => {
                let open = pieces.iter().all(|(_, region)| region.is_open());
                match conn.refusal(Some(Answer::Read), Errno::ENOKEY) {
                    Ok(refusal) if !open => conn.tx.head(conn.endian, &Header::error(refusal)),
                    _ => {
                        conn.tx.head(conn.endian, &Header::read_response(len));
                        conn.tx.current = Some(Current::Answer { pieces, at: 0, len });
                    }
                }
            }
            Control::Values(values) => {
                conn.tx.head(conn.endian, &Header::atomic_response(values.len()));
                conn.tx.out.extend_from_slice(&values);
            }
            Control::Announced { index, op } => {
                let Some(entry) = self.ops.get(op) else { return };
                let flags = head_flags(entry);
                let len = entry.payload.buffers().len();
                if entry.acked {
                    conn.acks.push_back(op);
                }
                conn.tx.head(conn.endian, &Header::data(index, len).with_flags(flags));
                conn.tx.current = Some(Current::Op { op, at: 0 });
            }
        }
    }

    /// Stages an operation's header, and its payload if that is small. `false`: it must wait.
    fn start<S>(&mut self, conn: &mut Conn<S>, handle: Handle) -> bool {
        // A cancelled operation leaves its handle behind.
        let Some(op) = self.ops.get_mut(handle) else { return true };
        let war = self.eps.get(op.ep).is_some_and(|ep| ep.limits.war);
        if must_wait(op, conn, war) {
            return false;
        }
        conn.rx.pace.turns_round();
        let buffers = *op.payload.buffers();
        let mut header = match op.kind {
            TxKind::Send { tag, .. } if conn.announces(op) => {
                let Some(index) = conn.free_index() else { return false };
                conn.announced.insert(index, handle);
                Header::rts(index, tag, buffers.len())
            }
            TxKind::Send { tagged, tag } => {
                if Trust::concerns(op) {
                    conn.tx.trust.spend(buffers.len());
                }
                message(tagged, tag, buffers.len(), None)
            }
            TxKind::Packet(front) => Header::message(front.len + buffers.len()),
            TxKind::Write(ranges) => Header::write(ranges),
            TxKind::Read(ranges) => Header::read(ranges),
            TxKind::Atomic { atomic, ranges, .. } => match Header::atomic(atomic, ranges) {
                Some(header) if conn.extensions => header,
                _ => {
                    self.finish(handle, Err(Errno::EOPNOTSUPP));
                    return true;
                }
            },
        };
        if let Some(data) = op.data {
            header = header.with_cq_data(data);
        }
        if !matches!(op.kind, TxKind::Read(_)) {
            header = header.with_flags(head_flags(op));
        }
        if conn.extensions && op.kind.changes_memory() && header.answer().is_none() {
            // Success means done, because there is a way to say that it was refused.
            header = header.with_flags(HeadFlags::DELIVERY_COMPLETE);
        }
        op.acked = header.answer() == Some(Answer::Ack);
        let ep = op.ep;
        if let Some(ep) = self.eps.get_mut(ep) {
            ep.taken_off(op);
        }
        if header.index().is_some() {
            conn.tx.head(conn.endian, &header);
            if let Some(ep) = self.eps.get_mut(ep) {
                ep.stats.rendezvous += 1;
            }
            return true;
        }
        match header.answer() {
            Some(Answer::Ack) => conn.acks.push_back(handle),
            Some(Answer::Atomic) => conn.fetches.push_back(handle),
            Some(Answer::Read) => {
                conn.tx.head(conn.endian, &header);
                conn.reads.push_back(handle);
                return true;
            }
            None => {}
        }
        if let TxKind::Packet(front) = op.kind {
            conn.begin_packet(&header, &front, handle);
            return true;
        }
        if buffers.len() <= COPIED {
            conn.tx.stage(conn.endian, &header, &buffers);
            if header.answer().is_none() {
                self.promise(conn, handle, buffers.len());
            }
        } else {
            conn.tx.head(conn.endian, &header);
            conn.tx.current = Some(Current::Op { op: handle, at: 0 });
        }
        true
    }

    /// All of a payload has left.
    fn end_current<S>(&mut self, conn: &mut Conn<S>) -> Result<()> {
        match conn.tx.current.take() {
            Some(Current::Op { op, .. }) => {
                if let Some(entry) = self.ops.get(op)
                    && !entry.answered()
                {
                    let len = entry.payload.buffers().len();
                    self.finish(op, Ok(len));
                }
                Ok(())
            }
            // Fewer bytes than announced would leave the peer waiting for the rest.
            Some(Current::Answer { at, len, .. }) if at != len => Err(Errno::EIO),
            Some(Current::Answer { len, pieces, .. }) => {
                if let Some(ep) = self.eps.get_mut(conn.ep) {
                    ep.read_served(len);
                }
                self.layer_accessed(conn, Flags::REMOTE_READ, &pieces, None);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// What a header asks of the peer.
fn head_flags(op: &TxOp) -> HeadFlags {
    if !op.acknowledged() {
        HeadFlags::empty()
    } else if op.interest.flags.contains(Flags::COMMIT_COMPLETE) {
        HeadFlags::COMMIT_COMPLETE
    } else {
        HeadFlags::DELIVERY_COMPLETE
    }
}

/// Whether an operation may not start before the peer has answered earlier ones: one too many, a
/// fenced one, or a write whose reads before it must not see it.
fn must_wait<S>(op: &TxOp, conn: &Conn<S>, war: bool) -> bool {
    if conn.asks_too_much(op) {
        return true;
    }
    if op.interest.flags.contains(Flags::FENCE) {
        return conn.waits_for_answers();
    }
    war && op.kind.changes_memory() && conn.waits_for_reads()
}

impl<S> Conn<S> {
    /// Whether a message is announced first. Only to our own kind: others do not read on behind a
    /// message that nobody has asked for, so that the bytes of one that was announced before may never
    /// come through.
    pub(super) fn announces(&self, op: &TxOp) -> bool {
        Trust::concerns(op)
            && self.rendezvous
            && self.extensions
            && !self.tx.trust.covers(op.payload.buffers().len())
    }
}
