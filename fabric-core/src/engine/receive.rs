//! HOT. Receives: posting, matching with what waits, placing what arrives.

use super::{Core, Engine, packet::Reader, rendezvous::Offer};
use crate::{
    Errno, Result,
    inbox::{self, Arrival, Inbox, Posted, Receive},
    lock::Lock,
    log::Subsys,
    matching::{ANY_PEER, Key, PeerId, Want},
    mem::{Buffers, Payload},
    op::{ADDR_UNSPEC, RecvOp},
    shortage,
    wire::{Head, Op, Packet, Wire, WireTx, head_flags},
};

/// More bytes than a line of the log takes on its way.
const TELLING: usize = 32 << 10;

/// A message that waits for its receive.
pub(crate) type Waiting = inbox::Waiting<Body>;

/// Where a waiting message's bytes are.
#[derive(Debug)]
pub(crate) enum Body {
    /// Here; the handle is the sender's if it waits for an acknowledgement, else zero.
    Here(Payload, u64),
    /// With the sender.
    Offered(Offer),
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
        let core = &mut self.core;
        match core.inbox.post(&mut core.report, op, want, buffers)? {
            Posted::Done => {}
            Posted::Met(key, waiting, receive) => self.meet(key, waiting, receive),
            special => self.finish_special(op, special),
        }
        Ok(())
    }

    /// A receive has met a message that waited.
    fn meet(&mut self, key: Key, waiting: Waiting, receive: Receive) {
        self.refresh_if_stale(key.peer);
        self.core.receive_waiting(self.wire.tx(), key, waiting, receive);
    }

    /// What peeks, discards and multi-receive buffers leave to be done.
    #[cold]
    fn finish_special(&mut self, op: &RecvOp<'_>, posted: Posted<Body>) {
        match posted {
            Posted::Done => {}
            Posted::Met(key, waiting, receive) => self.meet(key, waiting, receive),
            Posted::Buffer(buffer) => {
                // What waits goes in until the buffer is used up.
                while let Some((key, waiting, place)) = self.core.inbox.next_for_buffer(&buffer) {
                    self.meet(key, waiting, place);
                }
            }
            Posted::Seen(arrival) => self.answer_peek(op, &arrival),
            Posted::Dropped { key, waiting, peeked } => {
                let arrival = Arrival::of(key, &waiting);
                self.core.discard(self.wire.tx(), key.peer, waiting);
                if peeked {
                    self.answer_peek(op, &arrival);
                } else {
                    self.refresh_if_stale(key.peer);
                    let src = self.core.source(key.peer);
                    Inbox::<Body>::answer_discard(&mut self.core.report, op, &arrival, src);
                }
            }
        }
    }

    fn answer_peek(&mut self, op: &RecvOp<'_>, arrival: &Arrival) {
        self.refresh_if_stale(arrival.key.peer);
        let src = self.core.source(arrival.key.peer);
        Inbox::<Body>::answer_peek(&mut self.core.report, op, arrival, src);
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
        let arrival = arrival(peer, head, payload.len());
        self.stats.received += 1;
        match self.inbox.take_receive(&arrival) {
            Some(receive) => {
                let placed = payload.copy_to(0, &receive.buffers, 0, arrival.len);
                self.complete_receive(&receive, &arrival, Ok(placed));
                if handle != 0 {
                    self.acknowledge(tx, peer, handle, 0);
                }
            }
            None => {
                let bytes = self.memory_to_keep(&arrival).and_then(|()| payload.to_boxed());
                let Some(bytes) = bytes else { return self.put_off(&arrival) };
                self.keep(&arrival, Body::Here(Payload::owned(bytes), handle));
            }
        }
        Some(())
    }

    /// `None`: there is no memory to note one more message that waits.
    pub(super) fn memory_to_keep(&mut self, arrival: &Arrival) -> Option<()> {
        self.inbox.can_keep(arrival).then_some(())
    }

    /// Leaves a message in its ring, and what is behind it, until there is memory or a receive for it.
    #[cold]
    pub(super) fn put_off(&mut self, arrival: &Arrival) -> Option<()> {
        self.stats.received -= 1;
        self.short_of_memory = true;
        // Saying so takes memory as well.
        let can_be_told = Vec::<u8>::new().try_reserve_exact(TELLING).is_ok();
        if can_be_told && !std::mem::replace(&mut self.told_of_shortage, true) {
            crate::error!(
                "core",
                Subsys::EpData,
                "a message of {} bytes for which no receive is posted waits with its sender: {}",
                arrival.len,
                shortage::explained(Errno::ENOMEM)
            );
        }
        None
    }

    /// Keeps a message until its receive is posted.
    #[cold]
    pub(super) fn keep(&mut self, arrival: &Arrival, body: Body) {
        self.stats.unexpected += 1;
        self.told_of_shortage = false;
        let held = match &body {
            Body::Here(payload, _) => payload.buffers().len(),
            Body::Offered(_) => 0,
        };
        self.peer_mut(arrival.key.peer).waiting_bytes += held;
        self.inbox.keep(arrival, body);
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
        let arrival = Arrival::of(key, &waiting);
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

    /// Ends a receive, exactly once. `Ok` carries the bytes placed.
    #[inline]
    pub(super) fn complete_receive(
        &mut self,
        receive: &Receive,
        arrival: &Arrival,
        outcome: Result<usize>,
    ) {
        let src = self.source(arrival.key.peer);
        self.inbox.complete(&mut self.report, receive, arrival, src, outcome);
    }
}

/// What a packet's header says of its message.
#[inline]
pub(super) const fn arrival(peer: PeerId, head: &Head, len: usize) -> Arrival {
    let tagged = head.flags & head_flags::TAGGED != 0;
    let data = if head.flags & head_flags::DATA != 0 { Some(head.b) } else { None };
    let tag = if tagged { head.a } else { 0 };
    Arrival { key: Key { tagged, peer, tag }, len, data }
}
