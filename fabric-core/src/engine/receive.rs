//! HOT. Receives: posting, matching with what waits, placing what arrives.

use super::{Core, Engine, MultiBuffer, packet::Reader, rendezvous::Offer};
use crate::{
    Errno, Result,
    completion::{CqError, Entry},
    flags::Flags,
    lock::Lock,
    matching::{ANY_PEER, Key, Matched, PeerId, Want},
    mem::{Buffers, Payload},
    op::{ADDR_UNSPEC, RecvOp},
    slab::Handle,
    wire::{Head, Op, Packet, Wire, WireTx, head_flags},
};

/// A posted receive, or the place of one message in a multi-receive buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) buffers: Buffers,
    pub(crate) context: usize,
    /// Effective operation flags.
    pub(crate) flags: Flags,
    pub(crate) multi: Option<Handle>,
    /// Address that the completion reports; zero outside multi-receive buffers.
    pub(crate) base: usize,
}

impl Receive {
    /// Takes no bytes.
    pub(crate) const NOWHERE: Self =
        Self { buffers: Buffers::EMPTY, context: 0, flags: Flags::empty(), multi: None, base: 0 };

    /// Of one message, into all of `buffers`.
    #[inline]
    const fn whole(op: &RecvOp<'_>, buffers: Buffers) -> Self {
        Self { buffers, context: op.context, flags: op.flags, multi: None, base: 0 }
    }
}

/// A message that waits for its receive.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) len: usize,
    pub(crate) data: Option<u64>,
    pub(crate) body: Body,
}

/// Where a waiting message's bytes are.
#[derive(Debug)]
pub(crate) enum Body {
    /// Here; the handle is the sender's if it waits for an acknowledgement, else zero.
    Here(Payload, u64),
    /// With the sender.
    Offered(Offer),
}

/// What a receive that no message matched says of itself.
pub(super) fn unmatched(want: &Want, context: usize) -> Entry {
    let kind = if want.tagged { Flags::TAGGED } else { Flags::MSG };
    Entry { tag: want.tag, ..Entry::new(context, Flags::RECV | kind) }
}

/// What every received message says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) key: Key,
    pub(crate) len: usize,
    pub(crate) data: Option<u64>,
}

impl Arrival {
    #[inline]
    fn flags(&self) -> Flags {
        let kind = if self.key.tagged { Flags::TAGGED } else { Flags::MSG };
        let data = if self.data.is_some() { Flags::REMOTE_CQ_DATA } else { Flags::empty() };
        Flags::RECV | kind | data
    }
}

impl<W: Wire, L: Lock> Engine<W, L> {
    /// Posts a receive into `buffers`, which describe `op.iov`.
    #[inline]
    pub(crate) fn post_recv(&mut self, op: &RecvOp<'_>, buffers: Buffers) -> Result<()> {
        let peer = if op.src == ADDR_UNSPEC || !self.core.limits.directed {
            ANY_PEER
        } else {
            self.resolve(op.src)?
        };
        let want = Want { tagged: op.tagged, peer, tag: op.tag, ignore: op.ignore };
        let special = Flags::PEEK | Flags::CLAIM | Flags::DISCARD | Flags::MULTI_RECV;
        if op.flags.intersects(special) {
            return self.post_special(op, want, buffers);
        }
        let receive = Receive::whole(op, buffers);
        if self.core.matcher.waiting_len() != 0
            && let Some((key, waiting)) = self.core.matcher.take_waiting(&want)
        {
            self.refresh_if_stale(key.peer);
            self.core.receive_waiting(self.wire.tx(), key, waiting, receive);
            return Ok(());
        }
        self.core.matcher.post(want, receive);
        Ok(())
    }

    /// Peek, claim, discard and multi-receive.
    #[cold]
    fn post_special(&mut self, op: &RecvOp<'_>, want: Want, buffers: Buffers) -> Result<()> {
        if op.flags.contains(Flags::MULTI_RECV) {
            if op.flags.intersects(Flags::PEEK | Flags::CLAIM | Flags::DISCARD) {
                return Err(Errno::EINVAL);
            }
            return self.post_multi(op, want, buffers);
        }
        if op.flags.contains(Flags::PEEK) {
            self.peek(op, want);
            return Ok(());
        }
        if !op.flags.contains(Flags::CLAIM) {
            // Discarding needs a peek or a claim to name the message.
            return Err(Errno::EINVAL);
        }
        let (key, waiting) = self.core.matcher.take_claimed(op.context).ok_or(Errno::EINVAL)?;
        self.refresh_if_stale(key.peer);
        if op.flags.contains(Flags::DISCARD) {
            let arrival = Arrival { key, len: waiting.len, data: waiting.data };
            self.core.discard(self.wire.tx(), key.peer, waiting);
            let entry = self.core.entry(op.context, &arrival);
            self.core.report.received(op.flags, Entry { len: 0, ..entry });
            return Ok(());
        }
        let receive = Receive::whole(op, buffers);
        self.core.receive_waiting(self.wire.tx(), key, waiting, receive);
        Ok(())
    }

    /// Looks among the messages that have been taken in. It makes no progress itself: MPICH keeps
    /// messages to itself outside the fabric, asks here first and receives from there first, so a
    /// peek that took in new messages would name one that its receive then does not get. Whoever
    /// reads the peek's completion makes progress, so that the next peek sees more.
    fn peek(&mut self, op: &RecvOp<'_>, want: Want) {
        let core = &mut self.core;
        let found = if op.flags.contains(Flags::DISCARD) {
            let taken = core.matcher.take_waiting(&want);
            taken.map(|(key, waiting)| {
                let arrival = Arrival { key, len: waiting.len, data: waiting.data };
                core.discard(self.wire.tx(), key.peer, waiting);
                arrival
            })
        } else {
            let seen = if op.flags.contains(Flags::CLAIM) {
                core.matcher.claim(&want, op.context)
            } else {
                core.matcher.peek_waiting(&want)
            };
            seen.map(|(key, waiting)| Arrival { key: *key, len: waiting.len, data: waiting.data })
        };
        match found {
            Some(arrival) => {
                self.refresh_if_stale(arrival.key.peer);
                let entry = self.core.entry(op.context, &arrival);
                self.core.report.peeked(op.flags, entry);
            }
            None => {
                let entry = unmatched(&want, op.context);
                self.core.report.peek_failed(CqError::new(entry, Errno::ENOMSG));
            }
        }
    }

    fn post_multi(&mut self, op: &RecvOp<'_>, want: Want, buffers: Buffers) -> Result<()> {
        if buffers.iov().len() > 1 {
            return Err(Errno::EINVAL);
        }
        let multi = MultiBuffer {
            buffers,
            context: op.context,
            flags: op.flags,
            tagged: op.tagged,
            min: self.core.limits.min_multi_recv,
            used: 0,
            under_way: 0,
            retired: false,
            cancelled: false,
        };
        let handle = self.core.multi.insert(multi).map_err(|_| Errno::EAGAIN)?;
        let receive = Receive {
            buffers,
            context: op.context,
            flags: op.flags,
            multi: Some(handle),
            base: buffers.base(),
        };
        let posted = self.core.matcher.post(want, receive);
        // What waits goes in until the buffer is used up.
        while self.core.multi.get(handle).is_some_and(|m| !m.retired) {
            let Some((key, waiting)) = self.core.matcher.take_waiting(&want) else { break };
            self.refresh_if_stale(key.peer);
            let place = self.core.reserve(posted, handle, waiting.len);
            self.core.receive_waiting(self.wire.tx(), key, waiting, place);
        }
        Ok(())
    }
}

impl<L: Lock> Core<L> {
    #[inline]
    pub(super) fn handle_message<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        packet: &Packet,
    ) -> Option<()> {
        let head = &packet.head;
        let mut payload = packet.payload;
        let mut handle = 0;
        if head.flags & head_flags::ACK != 0 {
            let mut words = Reader::new(payload);
            handle = words.word()?;
            payload = words.rest();
        }
        let arrival = Arrival::new(peer, head, payload.len());
        self.stats.received += 1;
        match self.take_receive(&arrival) {
            Some(receive) => {
                let placed = payload.copy_to(0, &receive.buffers, 0, arrival.len);
                self.complete_receive(&receive, &arrival, Ok(placed));
                if handle != 0 {
                    self.acknowledge(tx, peer, handle, 0);
                }
            }
            None => {
                let body = Body::Here(Payload::owned(payload.to_boxed()), handle);
                self.keep(&arrival, body);
            }
        }
        Some(())
    }

    /// The receive for a message: the posted one, or a place in its buffer.
    #[inline]
    pub(super) fn take_receive(&mut self, arrival: &Arrival) -> Option<Receive> {
        match self.matcher.match_arrival(&arrival.key, |receive| receive.multi.is_some())? {
            Matched::Taken(receive) => Some(receive),
            Matched::Kept(posted) => {
                let handle = self.matcher.posted_mut(posted)?.multi?;
                Some(self.reserve(posted, handle, arrival.len))
            }
        }
    }

    /// Keeps a message until its receive is posted.
    #[cold]
    pub(super) fn keep(&mut self, arrival: &Arrival, body: Body) {
        self.stats.unexpected += 1;
        let held = match &body {
            Body::Here(payload, _) => payload.buffers().len(),
            Body::Offered(_) => 0,
        };
        self.peer_mut(arrival.key.peer).waiting_bytes += held;
        self.matcher.wait(arrival.key, Waiting { len: arrival.len, data: arrival.data, body });
    }

    fn kept_bytes_left(&mut self, peer: PeerId, bytes: usize) {
        let state = self.peer_mut(peer);
        state.waiting_bytes = state.waiting_bytes.saturating_sub(bytes);
    }

    /// Whether the peer should be told something new about the bytes that we keep for it.
    #[inline]
    pub(super) fn pressure_change(&mut self, peer: PeerId) -> Option<bool> {
        let limit = self.limits.waiting_bytes;
        let state = self.peer_mut(peer);
        let high = if state.pressed {
            state.waiting_bytes >= limit / 2
        } else {
            state.waiting_bytes > limit
        };
        let changed = high != state.pressed;
        state.pressed = high;
        changed.then_some(high)
    }

    /// Gives a message that waited to its receive.
    pub(super) fn receive_waiting<T: WireTx>(
        &mut self,
        tx: &mut T,
        key: Key,
        waiting: Waiting,
        receive: Receive,
    ) {
        let arrival = Arrival { key, len: waiting.len, data: waiting.data };
        match waiting.body {
            Body::Here(payload, handle) => {
                let room = receive.buffers.len();
                let placed = payload.buffers().copy_into(&receive.buffers).min(room);
                self.kept_bytes_left(key.peer, waiting.len);
                self.complete_receive(&receive, &arrival, Ok(placed));
                if handle != 0 {
                    self.acknowledge(tx, key.peer, handle, 0);
                }
            }
            Body::Offered(offer) => self.accept(tx, receive, &arrival, offer),
        }
    }

    /// Drops a message that waited; its sender is told that it is done.
    fn discard<T: WireTx>(&mut self, tx: &mut T, peer: PeerId, waiting: Waiting) {
        match waiting.body {
            Body::Here(_, handle) => {
                self.kept_bytes_left(peer, waiting.len);
                if handle != 0 {
                    self.acknowledge(tx, peer, handle, 0);
                }
            }
            Body::Offered(offer) => self.acknowledge(tx, peer, offer.handle, 0),
        }
    }

    /// Tells a peer that its operation is over.
    pub(super) fn acknowledge<T: WireTx>(
        &mut self,
        tx: &mut T,
        peer: PeerId,
        handle: u64,
        status: i32,
    ) {
        let head = Head { op: Op::Finish as u8, flags: 0, a: handle, b: status.max(0) as u64 };
        self.control(tx, peer, head, &[]);
    }

    #[inline]
    fn entry(&self, context: usize, arrival: &Arrival) -> Entry {
        Entry {
            context,
            flags: arrival.flags().bits(),
            len: arrival.len,
            buf: 0,
            data: arrival.data.unwrap_or(0),
            tag: arrival.key.tag,
            src: self.source(arrival.key.peer),
        }
    }

    /// Ends a receive, exactly once. `Ok` carries the bytes placed.
    #[inline]
    pub(super) fn complete_receive(
        &mut self,
        receive: &Receive,
        arrival: &Arrival,
        outcome: Result<usize>,
    ) {
        let mut entry = self.entry(receive.context, arrival);
        entry.buf = receive.base;
        if let Some(handle) = receive.multi {
            entry.flags |= self.placed(handle).bits();
        }
        match outcome {
            Ok(placed) if placed == arrival.len => self.report.received(receive.flags, entry),
            Ok(placed) => {
                entry.len = placed;
                let olen = arrival.len - placed;
                let error = CqError { olen, ..CqError::new(entry, Errno::ETRUNC) };
                self.report.receive_failed(error);
            }
            Err(reason) => {
                entry.len = 0;
                self.report.receive_failed(CqError::new(entry, reason));
            }
        }
        if let Some(handle) = receive.multi {
            self.release_cancelled(handle);
        }
    }

    /// Takes back a posted receive. `true` if there was one.
    pub(crate) fn cancel_posted(&mut self, context: usize) -> bool {
        let found = self.matcher.remove_posted_if(|_, receive| receive.context == context);
        let Some((want, receive)) = found else { return false };
        if let Some(handle) = receive.multi {
            if let Some(multi) = self.multi.get_mut(handle) {
                multi.retired = true;
                multi.cancelled = true;
            }
            self.release_cancelled(handle);
            return true;
        }
        let entry = unmatched(&want, context);
        self.report.receive_failed(CqError::new(entry, Errno::ECANCELED));
        true
    }
}

impl Arrival {
    #[inline]
    pub(super) const fn new(peer: PeerId, head: &Head, len: usize) -> Self {
        let tagged = head.flags & head_flags::TAGGED != 0;
        let data = if head.flags & head_flags::DATA != 0 { Some(head.b) } else { None };
        let tag = if tagged { head.a } else { 0 };
        Self { key: Key { tagged, peer, tag }, len, data }
    }
}
