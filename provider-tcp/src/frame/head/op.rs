//! HOT. Kinds of messages, and what their headers consist of.

use super::{BASE_LEN, WORD};

/// Kinds of messages. From [`Op::Atomic`] on they are ours, and travel only between two sides that
/// have both offered them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// An untagged message.
    Message,
    /// An operation has arrived: completes the oldest that asked for it.
    Ack,
    /// A tagged message.
    Tagged,
    /// Asks for bytes of remote memory.
    Read,
    /// The answer to the oldest read.
    ReadResponse,
    /// Bytes for remote memory.
    Write,
    /// Announces a tagged message: ready to send.
    Rts,
    /// Asks for an announced message: clear to send.
    Cts,
    /// An announced message's bytes.
    Data,
    /// An atomic operation on remote memory.
    Atomic,
    /// The answer to the oldest atomic operation that fetches.
    AtomicResponse,
    /// Stands in for an answer: the request was refused.
    Error,
}

/// What a kind's header and payload consist of, beside the base.
struct Form {
    code: u8,
    /// Words in front of the ranges, without CQ data.
    words: u8,
    data: bool,
    ranges: bool,
    payload: bool,
}

impl Op {
    /// The code on the wire. An acknowledgement is a message of a special kind there.
    #[inline]
    pub const fn code(self) -> u8 {
        self.form().code
    }

    /// Whether flags may say that remote CQ data is present.
    #[inline]
    pub const fn carries_data(self) -> bool {
        self.form().data
    }

    /// Whether ranges of remote memory are present.
    #[inline]
    pub const fn has_ranges(self) -> bool {
        self.form().ranges
    }

    /// Whether bytes may follow the header.
    #[inline]
    pub const fn has_payload(self) -> bool {
        self.form().payload
    }

    /// Bytes of the header without CQ data and ranges.
    #[inline]
    pub(super) const fn fixed_len(self) -> usize {
        BASE_LEN + WORD * self.form().words as usize
    }

    /// The kind with a code; acknowledgements are not told from messages.
    #[inline]
    pub(super) const fn from_code(code: u8, extensions: bool) -> Option<Self> {
        Some(match code {
            0 => Self::Message,
            1 => Self::Tagged,
            2 => Self::Read,
            3 => Self::ReadResponse,
            4 => Self::Write,
            5 => Self::Rts,
            6 => Self::Cts,
            7 => Self::Data,
            0x40 if extensions => Self::Atomic,
            0x41 if extensions => Self::AtomicResponse,
            0x42 if extensions => Self::Error,
            _ => return None,
        })
    }

    #[inline(always)]
    const fn form(self) -> &'static Form {
        &FORMS[self as usize]
    }
}

const fn form(code: u8, words: u8) -> Form {
    Form { code, words, data: false, ranges: false, payload: false }
}

impl Form {
    const fn data(self) -> Self {
        Self { data: true, ..self }
    }

    const fn ranges(self) -> Self {
        Self { ranges: true, ..self }
    }

    const fn payload(self) -> Self {
        Self { payload: true, ..self }
    }
}

/// In the order of [`Op`].
static FORMS: [Form; 12] = [
    form(0, 0).data().payload(),
    form(0, 0),
    form(1, 1).data().payload(),
    form(2, 0).ranges(),
    form(3, 0).payload(),
    form(4, 0).data().ranges().payload(),
    form(5, 2).data(),
    form(6, 0),
    form(7, 0).payload(),
    form(0x40, 1).data().ranges().payload(),
    form(0x41, 0).payload(),
    form(0x42, 1),
];
