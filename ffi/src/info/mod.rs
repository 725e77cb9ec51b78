//! SETUP. `fi_info` across the C edge: hints in, offers out, copies and their release.
//!
//! What comes in is copied struct by struct, never further than the caller's node says, into
//! zeroed structs of full size. What goes out has full size at every node, of which an old caller
//! sees a prefix. Memory that goes out is from `malloc`, piece by piece, because applications free
//! and replace names and addresses themselves.

mod dup;
pub(crate) mod memory;
mod nic;
mod read;
mod write;

pub use dup::{dup, free};
pub use read::{Hints, read_fabric, read_rx};
pub use write::write_list;

/// Longest address or authorisation key that is accepted from an application.
pub const MAX_BYTES: usize = 4096;

#[cfg(test)]
mod tests;
