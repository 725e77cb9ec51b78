//! HOT. Packets: what travels in one message of a connection. A control header says what the packet
//! is and which message it belongs to, an operation header says what the message is, and what lies
//! behind the two depends on the kind.
//!
//! Senders leave fields that a kind does not use as they were; they are not looked at here, and are
//! zero in what is sent. Neither are the version numbers, which no peer checks: the hand-shake has.

mod atomic;
mod ranges;

use crate::op::AtomicKind;
pub use atomic::{AtomicRequest, AtomicResponse};
pub use ranges::{RANGES_LEN, Ranges};

/// Bytes of the two headers in front of every packet.
pub const HEAD_LEN: usize = 64;

const CONTROL_VERSION: u8 = 4;
const OPERATION_VERSION: u8 = 2;
/// Remote CQ data is there.
const CQ_DATA: u32 = 0x20000;

const MESSAGE: u8 = 0;
const TAGGED: u8 = 1;

/// Kinds of packets.
mod kind {
    pub(super) const EAGER: u8 = 0;
    pub(super) const SEGMENT: u8 = 1;
    pub(super) const ANNOUNCEMENT: u8 = 2;
    pub(super) const READ_DONE: u8 = 3;
    pub(super) const ATOMIC: u8 = 4;
    pub(super) const ATOMIC_RESPONSE: u8 = 5;
    pub(super) const CREDIT: u8 = 6;
    pub(super) const WRITE_READY: u8 = 7;
    pub(super) const WRITE_DONE: u8 = 8;
}

/// What a sender says of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Tagged interface.
    pub tagged: bool,
    /// Tag; zero when not tagged.
    pub tag: u64,
    /// Bytes of the whole message.
    pub size: u64,
    /// Remote CQ data.
    pub data: Option<u64>,
}

/// Which of a message's segments this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number; not needed, since segments come in order.
    pub number: u32,
    /// Where it stands.
    pub place: Place,
}

/// Where a segment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In front.
    First,
    /// Between others.
    Middle,
    /// At the end.
    Last,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A whole message; the body is its bytes.
    Eager(Message),
    /// Part of a message; the body is the part.
    Segment(Message, Segment),
    /// A message whose bytes can be read at the sender, or be asked for.
    Announcement(Message, Ranges),
    /// The bytes of an announced message have been read.
    ReadDone,
    /// Where the bytes of an announced message are to be written.
    WriteReady(Ranges),
    /// The bytes of an announced message have been written.
    WriteDone,
    /// An atomic operation; the body is its values.
    Atomic(AtomicRequest),
    /// What an atomic operation led to; the body is the old values.
    AtomicResponse(AtomicResponse),
    /// So many packets more may be sent.
    Credit(u64),
}

/// A packet as it was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// How the receiver knows the connection.
    pub connection: u64,
    /// The sender's name for the message; in answers, the name that is answered to.
    pub message: u64,
    /// What it is.
    pub packet: Packet,
    /// What lies behind the headers.
    pub body: &'a [u8],
}

/// Why a packet is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// It ends within its headers.
    #[error("a packet of {len} bytes, at least {needed} belong there")]
    Short {
        /// Its bytes.
        len: usize,
        /// Bytes that such a packet has.
        needed: usize,
    },
    /// No such kind.
    #[error("a packet of kind {0}")]
    Kind(u8),
    /// An operation that this kind of packet is not for.
    #[error("operation {op} in a packet of kind {kind}")]
    Operation {
        /// Kind of packet.
        kind: u8,
        /// The operation.
        op: u8,
    },
    /// The headers announce other bytes than there are.
    #[error("{there} bytes behind headers that say {said}")]
    Size {
        /// Announced.
        said: u64,
        /// Received.
        there: usize,
    },
    /// A segment of no known place.
    #[error("a segment of place {0}")]
    Place(u64),
    /// Memory that cannot be.
    #[error("{count} ranges of memory that cannot be")]
    Ranges {
        /// How many.
        count: u8,
    },
    /// An atomic operation that does not exist.
    #[error("operation {op} on datatype {datatype}")]
    Atomic {
        /// `enum fi_datatype`.
        datatype: u8,
        /// `enum fi_op`.
        op: u8,
    },
}

/// Reads a packet.
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Parsed<'_>, PacketError> {
    let Some((head, body)) = bytes.split_first_chunk::<HEAD_LEN>() else {
        return Err(PacketError::Short { len: bytes.len(), needed: HEAD_LEN });
    };
    let kind = head[1];
    let mut parsed = Parsed {
        connection: word(head, 8),
        message: word(head, 16),
        packet: Packet::ReadDone,
        body,
    };
    parsed.packet = match kind {
        kind::EAGER => {
            let message = message(head)?;
            has(body, message.size)?;
            Packet::Eager(message)
        }
        kind::SEGMENT => {
            has(body, u16::from_ne_bytes([head[2], head[3]]).into())?;
            let place = match word(head, 24) & 3 {
                1 => Place::First,
                2 => Place::Middle,
                3 => Place::Last,
                other => return Err(PacketError::Place(other)),
            };
            let number = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
            Packet::Segment(message(head)?, Segment { number, place })
        }
        kind::ANNOUNCEMENT => {
            let message = message(head)?;
            Packet::Announcement(message, Ranges::parse(body, message.size)?)
        }
        kind::WRITE_READY => Packet::WriteReady(Ranges::parse(body, 0)?),
        kind::READ_DONE => Packet::ReadDone,
        kind::WRITE_DONE => Packet::WriteDone,
        kind::ATOMIC => {
            has(body, word(head, 40))?;
            let (request, values) = AtomicRequest::parse(head, body)?;
            parsed.body = values;
            Packet::Atomic(request)
        }
        kind::ATOMIC_RESPONSE => {
            has(body, word(head, 40))?;
            let (response, values) = AtomicResponse::parse(body)?;
            parsed.body = values;
            Packet::AtomicResponse(response)
        }
        kind::CREDIT => Packet::Credit(word(head, 24)),
        other => return Err(PacketError::Kind(other)),
    };
    Ok(parsed)
}

#[inline]
fn message(head: &[u8; HEAD_LEN]) -> Result<Message, PacketError> {
    let tagged = match head[34] {
        MESSAGE => false,
        TAGGED => true,
        op => return Err(PacketError::Operation { kind: head[1], op }),
    };
    let flags = u32::from_ne_bytes([head[36], head[37], head[38], head[39]]);
    Ok(Message {
        tagged,
        tag: if tagged { word(head, 56) } else { 0 },
        size: word(head, 40),
        data: (flags & CQ_DATA != 0).then(|| word(head, 48)),
    })
}

#[inline]
fn has(body: &[u8], said: u64) -> Result<(), PacketError> {
    if body.len() as u64 == said {
        return Ok(());
    }
    Err(PacketError::Size { said, there: body.len() })
}

/// The headers of a packet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head([u8; HEAD_LEN]);

impl Head {
    #[inline]
    const fn new(kind: u8) -> Self {
        let mut bytes = [0; HEAD_LEN];
        (bytes[0], bytes[1], bytes[32]) = (CONTROL_VERSION, kind, OPERATION_VERSION);
        Self(bytes)
    }

    /// Of a whole message.
    #[inline]
    pub fn eager(message: &Message) -> Self {
        Self::new(kind::EAGER).with_message(message)
    }

    /// Of a part of a message, of `len` bytes.
    pub fn segment(message: &Message, segment: Segment, len: u16) -> Self {
        let mut head = Self::new(kind::SEGMENT).with_message(message);
        head.0[2..4].copy_from_slice(&len.to_ne_bytes());
        head.0[4..8].copy_from_slice(&segment.number.to_ne_bytes());
        let place = match segment.place {
            Place::First => 1,
            Place::Middle => 2,
            Place::Last => 3,
        };
        head.with_word(24, place)
    }

    /// Of an announcement; [`Ranges::bytes`] follow.
    pub fn announcement(message: &Message) -> Self {
        Self::new(kind::ANNOUNCEMENT).with_message(message)
    }

    /// Says that a message has been read.
    pub const fn read_done() -> Self {
        Self::new(kind::READ_DONE)
    }

    /// Says where a message is to be written; [`Ranges::bytes`] follow.
    pub const fn write_ready() -> Self {
        Self::new(kind::WRITE_READY)
    }

    /// Says that a message has been written.
    pub const fn write_done() -> Self {
        Self::new(kind::WRITE_DONE)
    }

    /// Of an atomic operation; [`AtomicRequest::ranges_bytes`] and its values follow, `len` bytes in
    /// all.
    pub fn atomic(request: &AtomicRequest, len: usize) -> Self {
        let mut head = Self::new(kind::ATOMIC).with_operation(request.kind, len);
        let ranges = request.ranges.as_slice().len() as u8;
        head.0[56..59].copy_from_slice(&[request.datatype, request.op, ranges]);
        head
    }

    /// Of the answer to an atomic operation; [`AtomicResponse::bytes`] and the old values follow,
    /// `len` bytes in all.
    pub fn atomic_response(request: &AtomicRequest, len: usize) -> Self {
        let mut head = Self::new(kind::ATOMIC_RESPONSE).with_operation(request.kind, len);
        head.0[56..58].copy_from_slice(&[request.datatype, request.op]);
        head
    }

    /// Allows so many packets more.
    pub fn credit(count: u64) -> Self {
        let mut head = Self::new(kind::CREDIT).with_word(24, count);
        head.0[34] = kind::CREDIT;
        head
    }

    /// On a connection that the receiver knows as `connection`, about this message.
    #[inline]
    #[must_use]
    pub fn about(self, connection: u32, message: u64) -> Self {
        self.with_word(8, connection.into()).with_word(16, message)
    }

    /// Its bytes.
    #[inline]
    pub const fn bytes(&self) -> &[u8; HEAD_LEN] {
        &self.0
    }

    #[inline]
    fn with_message(mut self, message: &Message) -> Self {
        self.0[34] = if message.tagged { TAGGED } else { MESSAGE };
        self = self.with_word(40, message.size).with_word(56, message.tag);
        if let Some(data) = message.data {
            self.0[36..40].copy_from_slice(&CQ_DATA.to_ne_bytes());
            self = self.with_word(48, data);
        }
        self
    }

    fn with_operation(mut self, kind: AtomicKind, len: usize) -> Self {
        self.0[34] = atomic::number(kind);
        self.with_word(40, len as u64)
    }

    #[inline]
    fn with_word(mut self, at: usize, word: u64) -> Self {
        self.0[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        self
    }
}

#[inline]
fn word<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests;
