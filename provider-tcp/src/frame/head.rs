//! HOT. Headers of data messages: 16 bytes, then words of 8 bytes, then the payload.
//!
//! A [`Header`] is checked: it comes from a constructor or from [`parse`], and both leave nothing
//! in it that its kind of message does not have. So `parse` gives back what `write` was given.

mod error;
mod op;
mod parse;
mod ranges;
#[cfg(test)]
mod tests;

use std::num::NonZeroU16;

use bitflags::bitflags;
use fabric_core::{Errno, op::AtomicKind};

use super::Endian;
pub use error::{HeadError, Sizes};
pub use op::Op;
pub use parse::{Parsed, parse};
pub use ranges::{RANGES_MAX, Ranges};

/// Bytes of every header's first part.
pub const BASE_LEN: usize = 16;
/// The longest header: base, data, atomic operation, four ranges.
pub const HEAD_MAX: usize = BASE_LEN + WORD + WORD + RANGES_MAX * RANGE_LEN;

const WORD: usize = 8;
const RANGE_LEN: usize = 3 * WORD;
const VERSION: u8 = 3;
/// `op_data` that makes a message an acknowledgement.
const ACK: u8 = 2;

bitflags! {
    /// What a message asks for.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct HeadFlags: u16 {
        /// A word of remote CQ data; only where [`Op::carries_data`], whatever else says so.
        const REMOTE_DATA = 0x0001;
        /// Acknowledge when the payload has arrived.
        const DELIVERY_COMPLETE = 0x0004;
        /// Acknowledge when the payload is in persistent memory.
        const COMMIT_COMPLETE = 0x0008;
        /// In a CTS of our own kind: a receive was there before the message was announced.
        const POSTED = 0x0010;
    }
}

/// Names a rendezvous among those that one direction has open: 1 to [`RtsIndex::last`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RtsIndex(NonZeroU16);

impl RtsIndex {
    /// The last one. With `extensions` it has a second byte, where other kinds have the number of
    /// their ranges.
    #[inline]
    pub const fn last(extensions: bool) -> u16 {
        if extensions { u16::MAX } else { 254 }
    }

    /// `None` for what names no rendezvous.
    #[inline]
    pub const fn new(value: u16, extensions: bool) -> Option<Self> {
        match NonZeroU16::new(value) {
            Some(index) if value <= Self::last(extensions) => Some(Self(index)),
            _ => None,
        }
    }

    /// 1 to [`RtsIndex::last`].
    #[inline]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

/// An atomic operation as a header names it. Whether the combination exists is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// Family.
    pub kind: AtomicKind,
    /// `enum fi_datatype`.
    pub datatype: u8,
    /// `enum fi_op`.
    pub op: u8,
}

impl Atomic {
    /// Bytes of payload for `target` bytes of target memory: operands, then comparands.
    #[inline]
    const fn payload(self, target: usize) -> Option<usize> {
        match self.kind {
            AtomicKind::Fetch if self.op as u32 == fabric_core::atomic::atomic_op::ATOMIC_READ => {
                Some(0)
            }
            AtomicKind::Base | AtomicKind::Fetch => Some(target),
            AtomicKind::Compare => target.checked_mul(2),
        }
    }
}

/// What a request is answered with. Each kind of answer completes the oldest request that waits for
/// it; an error stands in for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Answer {
    /// An acknowledgement.
    Ack = Op::Ack.code(),
    /// The response to a read.
    Read = Op::ReadResponse.code(),
    /// The response to a fetching atomic operation.
    Atomic = Op::AtomicResponse.code(),
}

/// Why a request has no other answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub errno: Errno,
    /// The answer that does not come.
    pub instead_of: Answer,
}

/// A message's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    op: Op,
    flags: HeadFlags,
    index: Option<RtsIndex>,
    detail: Detail,
    cq_data: u64,
    tag: u64,
    message_len: usize,
    payload_len: usize,
    ranges: Ranges,
}

/// The shortest header, for [`parse`] to replace.
impl Default for Header {
    fn default() -> Self {
        Self::ack()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    None,
    Atomic(Atomic),
    Refusal(Refusal),
}

/// What each kind of message is made of. Lengths are those of memory, so at most `isize::MAX`.
impl Header {
    /// An untagged message.
    #[inline]
    pub const fn message(payload_len: usize) -> Self {
        Self { payload_len, ..Self::base(Op::Message) }
    }

    /// Completes the oldest operation that asked for it.
    #[inline]
    pub const fn ack() -> Self {
        Self::base(Op::Ack)
    }

    /// A tagged message.
    #[inline]
    pub const fn tagged(tag: u64, payload_len: usize) -> Self {
        Self { tag, payload_len, ..Self::base(Op::Tagged) }
    }

    /// Asks for the bytes of `ranges`.
    #[inline]
    pub const fn read(ranges: Ranges) -> Self {
        Self { ranges, ..Self::base(Op::Read) }
    }

    /// The bytes that the oldest read asked for.
    #[inline]
    pub const fn read_response(payload_len: usize) -> Self {
        Self { payload_len, ..Self::base(Op::ReadResponse) }
    }

    /// Bytes for `ranges`.
    #[inline]
    pub const fn write(ranges: Ranges) -> Self {
        Self { ranges, payload_len: ranges.total(), ..Self::base(Op::Write) }
    }

    /// Announces a tagged message whose bytes wait to be asked for.
    #[inline]
    pub const fn rts(index: RtsIndex, tag: u64, message_len: usize) -> Self {
        Self { index: Some(index), tag, message_len, ..Self::base(Op::Rts) }
    }

    /// Asks for an announced message's bytes.
    #[inline]
    pub const fn cts(index: RtsIndex) -> Self {
        Self { index: Some(index), ..Self::base(Op::Cts) }
    }

    /// An announced message's bytes. Carries the announcement's flags
    /// ([`with_flags`](Self::with_flags)).
    #[inline]
    pub const fn data(index: RtsIndex, payload_len: usize) -> Self {
        Self { index: Some(index), payload_len, ..Self::base(Op::Data) }
    }

    /// An atomic operation on `ranges`; `None` if the payload for it would be longer than memory.
    #[inline]
    pub fn atomic(atomic: Atomic, ranges: Ranges) -> Option<Self> {
        let payload_len =
            atomic.payload(ranges.total()).filter(|len| isize::try_from(*len).is_ok());
        let detail = Detail::Atomic(atomic);
        Some(Self { detail, ranges, payload_len: payload_len?, ..Self::base(Op::Atomic) })
    }

    /// The old values that the oldest fetching atomic operation asked for.
    #[inline]
    pub const fn atomic_response(payload_len: usize) -> Self {
        Self { payload_len, ..Self::base(Op::AtomicResponse) }
    }

    /// Stands in for an answer.
    #[inline]
    pub const fn error(refusal: Refusal) -> Self {
        Self { detail: Detail::Refusal(refusal), ..Self::base(Op::Error) }
    }

    /// Adds remote CQ data, if this kind of message carries it.
    #[inline]
    #[must_use]
    pub const fn with_cq_data(mut self, data: u64) -> Self {
        if self.op.carries_data() {
            self.cq_data = data;
            self.flags = self.flags.union(HeadFlags::REMOTE_DATA);
        }
        self
    }

    /// Replaces the flags. Where data may be carried, only
    /// [`with_cq_data`](Self::with_cq_data) changes [`HeadFlags::REMOTE_DATA`].
    #[inline]
    #[must_use]
    pub const fn with_flags(mut self, flags: HeadFlags) -> Self {
        let kept = if self.op.carries_data() { HeadFlags::REMOTE_DATA } else { HeadFlags::empty() };
        self.flags = self.flags.intersection(kept).union(flags.difference(kept));
        self
    }

    const fn base(op: Op) -> Self {
        Self {
            op,
            flags: HeadFlags::empty(),
            index: None,
            detail: Detail::None,
            cq_data: 0,
            tag: 0,
            message_len: 0,
            payload_len: 0,
            ranges: Ranges::NONE,
        }
    }
}

/// What is in it.
impl Header {
    /// Kind of message.
    #[inline]
    pub const fn op(&self) -> Op {
        self.op
    }

    /// Flags as they travel; [`data`](Self::cq_data) tells whether there is data.
    #[inline]
    pub const fn flags(&self) -> HeadFlags {
        self.flags
    }

    /// The answer that the sender waits for. That to an RTS comes when its data has arrived.
    #[inline]
    pub const fn answer(&self) -> Option<Answer> {
        let asks = HeadFlags::DELIVERY_COMPLETE.union(HeadFlags::COMMIT_COMPLETE);
        match self.op {
            Op::Read => Some(Answer::Read),
            Op::Atomic if self.fetches() => Some(Answer::Atomic),
            Op::Message | Op::Tagged | Op::Write | Op::Rts | Op::Data | Op::Atomic
                if self.flags.intersects(asks) =>
            {
                Some(Answer::Ack)
            }
            _ => None,
        }
    }

    #[inline]
    const fn fetches(&self) -> bool {
        match self.detail {
            Detail::Atomic(atomic) => !matches!(atomic.kind, AtomicKind::Base),
            _ => false,
        }
    }

    /// Remote CQ data.
    #[inline]
    pub const fn cq_data(&self) -> Option<u64> {
        if self.has_cq_data() { Some(self.cq_data) } else { None }
    }

    /// The rendezvous; present in RTS, CTS and data.
    #[inline]
    pub const fn index(&self) -> Option<RtsIndex> {
        self.index
    }

    /// Tag; zero where there is none.
    #[inline]
    pub const fn tag(&self) -> u64 {
        self.tag
    }

    /// Bytes of the message that an RTS announces; zero in others.
    #[inline]
    pub const fn message_len(&self) -> usize {
        self.message_len
    }

    /// Bytes that follow the header.
    #[inline]
    pub const fn payload_len(&self) -> usize {
        self.payload_len
    }

    /// Remote memory; empty where there is none.
    #[inline]
    pub const fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// The operation; present in [`Op::Atomic`].
    #[inline]
    pub const fn atomic_op(&self) -> Option<Atomic> {
        match self.detail {
            Detail::Atomic(atomic) => Some(atomic),
            _ => None,
        }
    }

    /// The reason; present in [`Op::Error`].
    #[inline]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self.detail {
            Detail::Refusal(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Bytes of the header itself.
    #[inline]
    pub const fn header_len(&self) -> usize {
        header_len(self.op, self.flags, self.ranges.len())
    }

    #[inline]
    const fn has_cq_data(&self) -> bool {
        has_cq_data(self.op, self.flags)
    }

    /// Writes the header to the front of `out` and returns its length. `id` counts the messages of
    /// this direction from zero, over all kinds.
    #[inline]
    pub fn emit(&self, endian: Endian, id: u8, out: &mut [u8; HEAD_MAX]) -> usize {
        let len = self.header_len();
        let [f0, f1] = endian.u16_bytes(self.flags.bits());
        let [op_data, count] = match self.index {
            Some(index) => index.get().to_le_bytes(),
            None => [ACK * u8::from(self.op == Op::Ack), self.ranges.len() as u8],
        };
        out[..8].copy_from_slice(&[VERSION, self.op.code(), f0, f1, op_data, count, len as u8, id]);
        let mut words = Words { out, at: 8, endian };
        words.push((len + self.payload_len) as u64);
        if self.has_cq_data() {
            words.push(self.cq_data);
        }
        match self.op {
            Op::Tagged => words.push(self.tag),
            Op::Rts => {
                words.push(self.tag);
                words.push(self.message_len as u64);
            }
            _ => {}
        }
        match self.detail {
            Detail::None => {}
            Detail::Atomic(Atomic { kind, datatype, op }) => {
                words.push(u64::from_le_bytes([kind as u8, datatype, op, 0, 0, 0, 0, 0]));
            }
            Detail::Refusal(Refusal { errno, instead_of }) => {
                words.push(errno.get() as u64 | (instead_of as u64) << 32);
            }
        }
        for range in self.ranges.as_slice() {
            words.push(range.addr);
            words.push(range.len as u64);
            words.push(range.key);
        }
        len
    }
}

#[inline]
const fn header_len(op: Op, flags: HeadFlags, ranges: usize) -> usize {
    op.fixed_len() + WORD * has_cq_data(op, flags) as usize + RANGE_LEN * ranges
}

#[inline]
const fn has_cq_data(op: Op, flags: HeadFlags) -> bool {
    op.carries_data() && flags.contains(HeadFlags::REMOTE_DATA)
}

/// Appends words; no header has more than there is room for.
struct Words<'a> {
    out: &'a mut [u8; HEAD_MAX],
    at: usize,
    endian: Endian,
}

impl Words<'_> {
    #[inline(always)]
    fn push(&mut self, word: u64) {
        if let Some(place) = self.out.get_mut(self.at..self.at + WORD) {
            place.copy_from_slice(&self.endian.u64_bytes(word));
            self.at += WORD;
        }
    }
}
