//! HOT. What travels on a connection: from bytes to checked values, and back.
//!
//! Pure functions: nothing here reads a socket, allocates, or keeps state between calls. What a
//! parser returns has passed every check that its bytes alone allow; what they break is an error
//! that ends the connection. `docs/src/wire-tcp.md` has the layouts.
//!
//! - [`cm`]: the message with which each side introduces itself, and its user data.
//! - [`record`] and [`extension`]: the user data of reliable datagram endpoints.
//! - [`head`]: the headers of everything that follows.
#![deny(unsafe_code)]

pub mod cm;
pub mod extension;
pub mod head;
pub mod record;

/// Whether a peer's words have the byte order of this host.
///
/// A connection has one order for both directions, found from the [probe](cm) in the peer's
/// connection message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// They do: words travel as they lie in memory.
    Native,
    /// They do not: both sides send words in network order.
    Swapped,
}

impl Endian {
    #[inline(always)]
    const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Native => u16::from_ne_bytes(bytes),
            Self::Swapped => u16::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    const fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Native => u64::from_ne_bytes(bytes),
            Self::Swapped => u64::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    const fn u16_bytes(self, value: u16) -> [u8; 2] {
        match self {
            Self::Native => value.to_ne_bytes(),
            Self::Swapped => value.to_be_bytes(),
        }
    }

    #[inline(always)]
    const fn u64_bytes(self, value: u64) -> [u8; 8] {
        match self {
            Self::Native => value.to_ne_bytes(),
            Self::Swapped => value.to_be_bytes(),
        }
    }
}
