//! Percale over shared memory, between processes of one host.
//!
//! Peers share no writable memory but their own pair's rings. A ring is a sealed memfd that its
//! producer makes and hands to its consumer over an AF_UNIX socket, with the first packets already
//! in it; the socket then carries doorbells and tells of a peer's end. Nothing is named in
//! `/dev/shm`, and identity is a random number, never a process id.

pub mod address;
pub mod copy;
pub mod link;
pub mod listener;
pub mod offer;
pub mod reserve;
pub mod rings;
pub mod segment;
mod unreached;
mod wire;

pub use address::ShmAddresses;
pub use offer::ShmSource;
pub use wire::ShmWire;

/// A shm endpoint guarded by `L`.
pub type ShmEndpoint<L> = fabric_core::rdm::WireRdmEndpoint<ShmWire, L>;
