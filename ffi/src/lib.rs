//! The C face of Percale: `libfabric.so.1`, binary compatible with libfabric 2.6.
//!
//! C reaches the library through few exported functions, bound to their version nodes in
//! `symbols` and written in `entry`, `info` and `tostr`, and through the operation tables of the
//! objects that it opens: [`abi`] has their layout, [`stubs`] their defaults.

pub mod abi;
mod entry;
mod foreign;
pub mod getinfo;
pub mod info;
mod logging;
mod monitor;
mod named;
pub mod node;
pub mod object;
mod opened;
pub mod panic;
mod params;
pub mod provider;
pub mod shim;
pub mod stubs;
mod symbols;
pub mod text;
mod tostr;
