//! The C face of Percale: `libfabric.so.1`, binary compatible with libfabric 2.6.
//!
//! C reaches the library through few exported functions ([`entry`](crate) and its neighbours,
//! bound to their version nodes in `symbols`) and through the operation tables of the objects it
//! opens ([`abi`], [`stubs`]).

pub mod abi;
pub mod stubs;
