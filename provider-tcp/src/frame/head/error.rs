//! SETUP. Why a header was refused. The connection it came on is out of step and has to be closed.

use core::fmt;

use super::{Op, RANGES_MAX, VERSION};

/// Why a header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// Not the start of a header.
    #[error("message header: version {found}, accepted is {VERSION}")]
    Version {
        /// What was there.
        found: u8,
    },
    /// No kind of message, or one that was not agreed on.
    #[error(
        "message header: op {found:#04x}, accepted are 0 to 7{}",
        if *.extensions { " and 0x40 to 0x42" } else { "" }
    )]
    Op {
        /// What was there.
        found: u8,
        /// Whether ours were accepted.
        extensions: bool,
    },
    /// Flags without a meaning.
    #[error("message header: flags {found:#06x}, accepted are the bits of {accepted:#06x}")]
    Flags {
        /// What was there.
        found: u16,
        /// All that could be.
        accepted: u16,
    },
    /// A header of another length than its contents have.
    #[error("message header of {op:?}: header size {found}, accepted is {accepted}")]
    HeaderSize {
        /// Kind of message.
        op: Op,
        /// What was there.
        found: u8,
        /// What flags and number of ranges make it.
        accepted: u8,
    },
    /// A message of another length than its header says.
    #[error("message header of {op:?}: message size {found}, accepted is {accepted}")]
    Size {
        /// Kind of message.
        op: Op,
        /// What was there.
        found: u64,
        /// What could be.
        accepted: Sizes,
    },
    /// No rendezvous.
    #[error("message header of {op:?}: index {found}, accepted are 1 to {accepted}")]
    Index {
        /// Kind of message.
        op: Op,
        /// What was there.
        found: u16,
        /// The last that could be.
        accepted: u16,
    },
    /// A message longer than memory.
    #[error("message header of Rts: message of {found} bytes, accepted are 0 to {}", isize::MAX)]
    MessageLen {
        /// What was there.
        found: u64,
    },
    /// Too many ranges.
    #[error("message header: {found} ranges of memory, accepted are 0 to {RANGES_MAX}")]
    RangeCount {
        /// What was there.
        found: usize,
    },
    /// A range that wraps around.
    #[error(
        "message header: {len} bytes from address {addr:#x}, accepted are ranges that end below 2^64"
    )]
    Range {
        /// Its address.
        addr: u64,
        /// Its length.
        len: u64,
    },
    /// Ranges that are together longer than memory.
    #[error(
        "message header: {last} more bytes in another range, accepted are {} in all",
        isize::MAX
    )]
    RangeTotal {
        /// Length of the range that was too much.
        last: u64,
    },
    /// No atomic operation.
    #[error(
        "message header of Atomic: operation {found:#018x}, accepted are kind 0 to 2, datatype and \
         op in its lowest three bytes"
    )]
    Atomic {
        /// The word that was there.
        found: u64,
    },
    /// No error.
    #[error(
        "message header of Error: reason {found:#018x}, accepted are an error number in its low \
         half and an op that answers (0, 3, 0x41) above"
    )]
    Refusal {
        /// The word that was there.
        found: u64,
    },
}

/// Sizes that a message may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// This one.
    Exactly(u64),
    /// This one and all above it that payload in memory can have.
    From(u64),
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(size) => write!(f, "{size}"),
            Self::From(size) => write!(f, "{size} to {size} + {}", isize::MAX),
        }
    }
}
