//! Percale over shared memory, between processes of one host.

pub mod offer;

pub use offer::ShmSource;
