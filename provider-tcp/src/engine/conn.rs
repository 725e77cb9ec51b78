//! HOT. One connection: what is on its way in each direction.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Instant,
};

use fabric_core::{
    inbox::{Arrival, Receive},
    matching::PeerId,
    mem::Buffers,
    mr::Resolved,
    slab::Handle,
};

use super::{
    atomics::Operands, bulk::Pace, burst::Burst, claims::Claim, leaving::Leaving, life::Pulse,
    trust::Trust,
};
use crate::{
    frame::{
        Endian,
        cm::{CM_DATA_MAX, CM_HEADER_LEN},
        head::{Header, Refusal, RtsIndex},
    },
    net::Interest,
};

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn<S> {
    pub(crate) stream: S,
    /// The endpoint that it serves; `None` until an accepted one has said for whom it is.
    pub(crate) ep: Handle,
    /// The peer, as the endpoint numbers it. Accepted connections have one from the request on.
    pub(crate) peer: PeerId,
    pub(crate) state: State,
    pub(crate) endian: Endian,
    /// Rendezvous messages are understood at the other end.
    pub(crate) rendezvous: bool,
    /// So are messages of our own kind.
    pub(crate) extensions: bool,
    /// So is, in answers to announced messages, that a receive was there.
    pub(crate) tells_posted: bool,
    /// Where an accepted connection comes from.
    pub(crate) from: Option<crate::address::SocketAddress>,
    /// When it was asked for.
    pub(crate) begun: Option<Instant>,
    /// It came up while nobody here looked.
    pub(crate) late: bool,
    /// When a hand-shake that makes no progress is given up.
    pub(crate) deadline: Option<Instant>,
    /// The request has been read, and waits.
    pub(crate) claim: Option<Claim>,
    /// Requests that wait for a sign of life on this connection.
    pub(crate) claimants: u32,
    pub(crate) rx: Rx,
    pub(crate) tx: Tx,
    /// Operations that wait for an acknowledgement, oldest first.
    pub(crate) acks: VecDeque<Handle>,
    /// Reads that wait for their bytes, oldest first.
    pub(crate) reads: VecDeque<Handle>,
    /// Atomic operations that wait for old values, oldest first.
    pub(crate) fetches: VecDeque<Handle>,
    /// Announced messages of ours that wait to be asked for.
    pub(crate) announced: BTreeMap<RtsIndex, Handle>,
    /// The index of the last of them.
    pub(crate) last_index: u16,
    /// Indices under which the peer has announced messages whose bytes have not come.
    pub(crate) offered: BTreeSet<RtsIndex>,
    /// Those of them that we have asked for.
    pub(crate) asked: BTreeMap<RtsIndex, Asked>,
    /// Looks in a row that found nothing.
    pub(crate) idle: u32,
    pub(crate) pulse: Pulse,
    /// Nothing will come but what is in the socket, which is no more than that holds.
    pub(crate) ended: bool,
    /// What the net was asked to tell.
    pub(crate) watched: Interest,
    /// Of a connection of the protocol above.
    pub(crate) layer: Option<Layered>,
}

/// What the protocol above knows of a connection, and it of that.
#[derive(Debug)]
pub(crate) struct Layered {
    /// How it is named there.
    pub(crate) token: u64,
    /// Whom it has asked for.
    pub(crate) to: Option<crate::address::SocketAddress>,
    /// What goes with the request; later what has come with a refusal.
    pub(crate) words: Vec<u8>,
    /// Messages are not taken for the time being.
    pub(crate) paused: bool,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Ours: the socket is not connected yet.
    Connecting,
    /// Ours: the request is out.
    Requested,
    /// Theirs: the request has not come yet.
    Accepted,
    /// Theirs: the request waits for the answer of the protocol above.
    Waiting,
    /// Messages may travel.
    Open,
}

/// An announced message whose receive is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// `None`: the message is not wanted.
    pub(crate) receive: Option<Receive>,
    pub(crate) arrival: Arrival,
    pub(crate) ack: bool,
}

/// The receiving direction.
#[derive(Debug)]
pub(crate) struct Rx {
    /// Bytes that have been read and not understood yet: part of a header, or what lies behind a
    /// message that must wait.
    pub(crate) carry: Vec<u8>,
    pub(crate) phase: Phase,
    pub(crate) pace: Pace,
}

/// What the next bytes are.
#[derive(Debug)]
pub(crate) enum Phase {
    /// A header.
    Header,
    /// The payload of a message, `left` bytes of it.
    Payload { sink: Sink, got: usize, left: usize },
    /// The payload of a message that nobody has asked for yet: it waits in the socket.
    Stalled(Header),
}

/// Where a payload goes. Bytes beyond its room are dropped.
#[derive(Debug)]
pub(crate) enum Sink {
    /// To a receive.
    Receive { receive: Receive, arrival: Arrival, ack: bool },
    /// To the heap, until a receive is posted.
    Keep { bytes: Vec<u8>, arrival: Arrival, ack: bool },
    /// To memory that a peer writes.
    Write { pieces: Pieces, data: Option<u64>, ack: bool, commit: bool },
    /// To the buffers of a read.
    Read { op: Handle, buffers: Buffers },
    /// Nowhere.
    Drop { ack: bool },
    /// Nowhere: the request is refused.
    Refuse(Refusal),
    /// Operands, to be applied once they are all there.
    Atomic(Box<Operands>),
    /// To the protocol above.
    Packet { bytes: Vec<u8>, ack: bool },
}

/// Memory of ours that a peer reads or writes.
pub(crate) type Pieces = Vec<(Buffers, Resolved)>;

impl Sink {
    /// The part of the memory behind `got` bytes that one call can fill.
    #[inline]
    pub(crate) fn place(&self, got: usize, left: usize) -> Buffers {
        match self {
            Self::Receive { receive, .. } => receive.buffers.slice(got, left),
            Self::Read { buffers, .. } => buffers.slice(got, left),
            Self::Write { pieces, .. } => place_in(pieces, got),
            Self::Keep { .. }
            | Self::Drop { .. }
            | Self::Refuse(_)
            | Self::Atomic(_)
            | Self::Packet { .. } => Buffers::EMPTY,
        }
    }

    /// Takes bytes for the place behind `got`.
    #[inline]
    pub(crate) fn fill(&mut self, got: usize, bytes: &[u8]) {
        match self {
            Self::Receive { receive, .. } => {
                receive.buffers.fill(got, bytes);
            }
            Self::Read { buffers, .. } => {
                buffers.fill(got, bytes);
            }
            Self::Keep { bytes: kept, .. } | Self::Packet { bytes: kept, .. } => {
                kept.extend_from_slice(bytes);
            }
            Self::Atomic(operands) => operands.fill(got, bytes),
            Self::Write { pieces, .. } => {
                let (mut got, mut bytes) = (got, bytes);
                while !bytes.is_empty() {
                    let place = place_in(pieces, got);
                    let n = place.fill(0, bytes);
                    if n == 0 {
                        break;
                    }
                    got += n;
                    bytes = &bytes[n..];
                }
            }
            Self::Drop { .. } | Self::Refuse(_) => {}
        }
    }
}

/// The rest of the piece in which byte `at` of all lies.
pub(crate) fn place_in(pieces: &Pieces, mut at: usize) -> Buffers {
    for (piece, _) in pieces {
        if at < piece.len() {
            return piece.slice(at, piece.len() - at);
        }
        at -= piece.len();
    }
    Buffers::EMPTY
}

/// The sending direction: `out`, then the rest of `current`, then `control`, then `queue`.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    /// Headers, and payloads that were small enough to be copied.
    pub(crate) out: Vec<u8>,
    /// Bytes of `out` that have left.
    pub(crate) sent: usize,
    /// Operations in `out` whose end has not been told.
    pub(crate) leaving: Leaving,
    /// A payload that leaves from where it is. Its header is the end of `out`.
    pub(crate) current: Option<Current>,
    /// Answers that wait for the end of `current`.
    pub(crate) control: VecDeque<Control>,
    /// Operations that wait for their turn.
    pub(crate) queue: VecDeque<Handle>,
    /// Messages sent, modulo 256.
    pub(crate) id: u8,
    pub(super) burst: Burst,
    pub(super) trust: Trust,
    /// The socket took less than it was given.
    pub(crate) blocked: bool,
    /// The socket holds back what it was given last.
    pub(crate) held: bool,
    /// Listed for the next progress call.
    pub(crate) listed: bool,
}

/// A payload that leaves from application memory.
#[derive(Debug)]
pub(crate) enum Current {
    /// Of an operation, from byte `at`.
    Op { op: Handle, at: usize },
    /// Of a read that is answered.
    Answer { pieces: Pieces, at: usize, len: usize },
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Control {
    /// A header without payload.
    Head(Header),
    /// The bytes of a read.
    ReadResponse { pieces: Pieces, len: usize },
    /// The old values that an atomic operation fetches.
    Values(Box<[u8]>),
    /// The bytes of an announced message of ours.
    Announced { index: RtsIndex, op: Handle },
}

impl Tx {
    /// Nothing waits, so that a message may be sent at once.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        self.current.is_none() && self.control.is_empty() && self.queue.is_empty()
    }

    /// Bytes staged and not sent.
    #[inline]
    pub(crate) fn staged(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Whether anything waits to leave.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.staged() == 0 && self.is_clear()
    }
}

impl<S> Conn<S> {
    pub(crate) fn new(stream: S, ep: Handle, peer: PeerId, state: State) -> Self {
        Self {
            stream,
            ep,
            peer,
            state,
            endian: Endian::Native,
            rendezvous: false,
            extensions: false,
            tells_posted: false,
            from: None,
            begun: None,
            late: false,
            deadline: None,
            claim: None,
            claimants: 0,
            rx: Rx { carry: Vec::new(), phase: Phase::Header, pace: Pace::default() },
            tx: Tx::default(),
            acks: VecDeque::new(),
            reads: VecDeque::new(),
            fetches: VecDeque::new(),
            announced: BTreeMap::new(),
            last_index: 0,
            offered: BTreeSet::new(),
            asked: BTreeMap::new(),
            idle: 0,
            pulse: Pulse::default(),
            ended: false,
            watched: Interest::NONE,
            layer: None,
        }
    }

    /// Something that the peer still owes us.
    pub(crate) fn waits_for_answers(&self) -> bool {
        self.waits_for_reads()
            || !self.acks.is_empty()
            || !self.fetches.is_empty()
            || !self.announced.is_empty()
            || !self.asked.is_empty()
    }

    /// Bytes of reads, or old values: as long as not all of them are here, the target may not have
    /// looked at all of its memory.
    pub(crate) fn waits_for_reads(&self) -> bool {
        !self.reads.is_empty()
            || matches!(self.rx.phase, Phase::Payload { sink: Sink::Read { .. }, .. })
    }

    /// Every operation that has begun here, or waits here for its turn; some more than once.
    pub(crate) fn operations(&self) -> impl Iterator<Item = Handle> {
        let reading = match &self.rx.phase {
            Phase::Payload { sink: Sink::Read { op, .. }, .. } => Some(*op),
            _ => None,
        };
        let sending = match &self.tx.current {
            Some(Current::Op { op, .. }) => Some(*op),
            _ => None,
        };
        let announced = self.announced.values().copied();
        let asked_for = self.tx.control.iter().filter_map(|control| match control {
            Control::Announced { op, .. } => Some(*op),
            _ => None,
        });
        let answered =
            self.acks.iter().chain(&self.reads).chain(&self.fetches).copied().chain(reading);
        answered
            .chain(announced)
            .chain(asked_for)
            .chain(sending)
            .chain(self.tx.queue.iter().copied())
    }

    /// Nothing keeps what comes next waiting in its socket.
    #[inline]
    pub(crate) fn takes_more(&self) -> bool {
        let paused = || self.layer.as_ref().is_some_and(|layer| layer.paused);
        !self.is_stalled() && (self.ended || !(self.tx.is_swamped() || paused()))
    }

    /// A message without a receive keeps it waiting.
    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        matches!(self.rx.phase, Phase::Stalled(_))
    }

    /// What the net should tell.
    pub(crate) fn interest(&self) -> Interest {
        Interest {
            read: self.takes_more() && self.state != State::Connecting && self.claim.is_none(),
            write: self.tx.blocked || self.state == State::Connecting,
            end: self.state == State::Open && !self.ended,
        }
    }

    /// An index that no announced message of ours has: the next one in turn.
    pub(crate) fn free_index(&mut self) -> Option<RtsIndex> {
        let last = RtsIndex::last(self.extensions);
        if self.announced.len() >= usize::from(last) {
            return None;
        }
        loop {
            self.last_index = if self.last_index >= last { 1 } else { self.last_index + 1 };
            let index = RtsIndex::new(self.last_index, self.extensions)?;
            if !self.announced.contains_key(&index) {
                return Some(index);
            }
        }
    }
}

/// Bytes of the longest connection message.
pub(crate) const CM_MAX: usize = CM_HEADER_LEN + CM_DATA_MAX;
