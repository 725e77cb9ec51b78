//! HOT. From bytes to a header.

use fabric_core::{Errno, op::AtomicKind};

use super::{
    ACK, Answer, Atomic, BASE_LEN, Detail, Endian, HeadError, HeadFlags, Header, Op, RANGES_MAX,
    Ranges, Refusal, RtsIndex, Sizes, VERSION, WORD, has_cq_data, header_len,
};

/// Flags that older peers have sent. They ask for nothing.
const IGNORED: u16 = 0x0082;
/// That one of them with which some peers put a tag behind an untagged message's data.
const OLD_TAGGED: u16 = 0x0080;

/// What the front of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Too few bytes to tell: come back with this many, counted from the same start.
    Short(usize),
    /// A header of this many bytes. `Header::payload_len` bytes of payload follow.
    Whole(usize),
}

/// Reads a header from the front of `bytes` to `into`, which changes only if the answer is
/// [`Parsed::Whole`], and has no use after an error. In place, because a header with room for its
/// ranges is long to be moved.
///
/// Without `extensions`, kinds of messages that are ours alone are refused like any unknown one.
/// An error is found as early as the bytes that show it are there; more bytes never mend it.
#[inline]
pub fn parse(
    bytes: &[u8],
    endian: Endian,
    extensions: bool,
    into: &mut Header,
) -> Result<Parsed, HeadError> {
    let Some(base) = bytes.first_chunk::<BASE_LEN>() else { return Ok(Parsed::Short(BASE_LEN)) };
    // The last byte counts the sender's messages, and only in builds of peers that check it.
    let [version, code, f0, f1, op_data, count, head_len, _, size @ ..] = *base;
    if version != VERSION {
        return Err(HeadError::Version { found: version });
    }
    let Some(mut op) = Op::from_code(code, extensions) else {
        return Err(HeadError::Op { found: code, extensions });
    };
    if op == Op::Message && op_data == ACK {
        op = Op::Ack;
    }
    let raw_flags = endian.u16([f0, f1]);
    let accepted = accepted_flags(op, extensions);
    let Some(flags) = HeadFlags::from_bits(raw_flags & !IGNORED).filter(|f| accepted.contains(*f))
    else {
        return Err(HeadError::Flags { found: raw_flags, accepted: accepted.bits() | IGNORED });
    };

    let wide = if extensions { count } else { 0 };
    // Messages without ranges, and other libraries' of a rendezvous, have anything in `count`.
    let count = if op.has_ranges() { usize::from(count) } else { 0 };
    if count > RANGES_MAX {
        return Err(HeadError::RangeCount { found: count });
    }
    let expected = header_len(op, flags, count);
    let len = usize::from(head_len);
    if len != expected && !(len == expected + WORD && has_old_tag(op, raw_flags)) {
        let accepted = expected as u8;
        return Err(HeadError::HeaderSize { op, found: head_len, accepted });
    }
    let payload_len = payload_len(op, len, endian.u64(size))?;
    let index = if matches!(op, Op::Rts | Op::Cts | Op::Data) {
        let found = u16::from_le_bytes([op_data, wide]);
        let Some(index) = RtsIndex::new(found, extensions) else {
            return Err(HeadError::Index { op, found, accepted: RtsIndex::last(extensions) });
        };
        Some(index)
    } else {
        None
    };

    let Some(words) = bytes.get(BASE_LEN..len) else { return Ok(Parsed::Short(len)) };
    let mut words = Words { words, endian };
    let cq_data = if has_cq_data(op, flags) { words.next() } else { 0 };
    let (mut tag, mut message_len, mut detail) = (0, 0, Detail::None);
    match op {
        Op::Tagged => tag = words.next(),
        Op::Rts => {
            tag = words.next();
            message_len = parse_message_len(words.next())?;
        }
        Op::Atomic => detail = Detail::Atomic(atomic(words.next())?),
        Op::Error => detail = Detail::Refusal(refusal(words.next())?),
        _ => {}
    }
    into.ranges.clear();
    if op.has_ranges() {
        let ranges = parse_ranges(&mut words, count, &mut into.ranges);
        let fit = ranges.and_then(|()| check_payload(op, detail, &into.ranges, len, payload_len));
        if let Err(error) = fit {
            *into = Header::default();
            return Err(error);
        }
    }
    into.op = op;
    into.flags = flags;
    into.index = index;
    into.detail = detail;
    into.cq_data = cq_data;
    into.tag = tag;
    into.message_len = message_len;
    into.payload_len = payload_len;
    Ok(Parsed::Whole(len))
}

#[inline]
fn payload_len(op: Op, len: usize, size: u64) -> Result<usize, HeadError> {
    let least = len as u64;
    let payload = size.checked_sub(least).and_then(|len| usize::try_from(len).ok());
    match payload {
        Some(0) => Ok(0),
        Some(payload) if op.has_payload() && isize::try_from(payload).is_ok() => Ok(payload),
        _ => {
            let accepted =
                if op.has_payload() { Sizes::From(least) } else { Sizes::Exactly(least) };
            Err(HeadError::Size { op, found: size, accepted })
        }
    }
}

#[inline]
fn parse_ranges(words: &mut Words<'_>, count: usize, into: &mut Ranges) -> Result<(), HeadError> {
    for _ in 0..count {
        into.push(words.next(), words.next(), words.next())?;
    }
    Ok(())
}

/// Payload for remote memory has the length of that memory.
#[inline]
fn check_payload(
    op: Op,
    detail: Detail,
    ranges: &Ranges,
    len: usize,
    payload_len: usize,
) -> Result<(), HeadError> {
    let accepted = match detail {
        Detail::Atomic(atomic) => atomic.payload(ranges.total()),
        _ if op == Op::Write => Some(ranges.total()),
        _ => Some(0),
    };
    if accepted == Some(payload_len) {
        return Ok(());
    }
    let [len, payload_len, accepted] =
        [len, payload_len, accepted.unwrap_or(usize::MAX)].map(|len| len as u64);
    let accepted = Sizes::Exactly(len.saturating_add(accepted));
    Err(HeadError::Size { op, found: len + payload_len, accepted })
}

/// Flags that mean something in a kind of message.
#[inline]
const fn accepted_flags(op: Op, extensions: bool) -> HeadFlags {
    if extensions && matches!(op, Op::Cts) {
        HeadFlags::all()
    } else {
        HeadFlags::all().difference(HeadFlags::POSTED)
    }
}

#[cold]
fn has_old_tag(op: Op, raw_flags: u16) -> bool {
    op == Op::Message && raw_flags & OLD_TAGGED != 0
}

#[inline]
fn parse_message_len(found: u64) -> Result<usize, HeadError> {
    match isize::try_from(found) {
        Ok(len) => Ok(len.unsigned_abs()),
        Err(_) => Err(HeadError::MessageLen { found }),
    }
}

fn atomic(found: u64) -> Result<Atomic, HeadError> {
    let (kind, datatype, op) = match found.to_le_bytes() {
        [0, datatype, op, 0, 0, 0, 0, 0] => (AtomicKind::Base, datatype, op),
        [1, datatype, op, 0, 0, 0, 0, 0] => (AtomicKind::Fetch, datatype, op),
        [2, datatype, op, 0, 0, 0, 0, 0] => (AtomicKind::Compare, datatype, op),
        _ => return Err(HeadError::Atomic { found }),
    };
    Ok(Atomic { kind, datatype, op })
}

fn refusal(found: u64) -> Result<Refusal, HeadError> {
    let errno = i32::try_from(found & u64::from(u32::MAX)).ok().filter(|errno| *errno > 0);
    let instead_of = [Answer::Ack, Answer::Read, Answer::Atomic]
        .into_iter()
        .find(|answer| *answer as u64 == found >> 32);
    match (errno, instead_of) {
        (Some(errno), Some(instead_of)) => Ok(Refusal { errno: Errno::new(errno), instead_of }),
        _ => Err(HeadError::Refusal { found }),
    }
}

struct Words<'a> {
    words: &'a [u8],
    endian: Endian,
}

impl Words<'_> {
    /// The next word; zero behind the last, where nobody reads.
    #[inline(always)]
    fn next(&mut self) -> u64 {
        match self.words.split_first_chunk::<WORD>() {
            Some((word, rest)) => {
                self.words = rest;
                self.endian.u64(*word)
            }
            None => 0,
        }
    }
}
