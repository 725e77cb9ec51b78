//! HOT. Atomic operations (`fi_atomic(3)`): which exist, and how a target's memory is changed.
//!
//! A datatype, an operation and a family are checked once, when an operation is posted or arrives
//! ([`valid`]). The target then changes its memory with [`apply()`], one CPU atomic per element, so
//! that operations of several peers, of other processes and of the application's own CPU atomics
//! on the same element never tear or lose an update. Order between elements is not promised.

mod apply;
mod arith;
mod table;

pub use apply::{apply, check_target};
pub use table::{atomic_op, datatype, datatype_size, valid};
