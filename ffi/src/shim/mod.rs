//! The functions in the op tables: one file for each table of the C interface.

mod args;
pub mod atomic;
pub mod cm;
pub mod collective;
pub mod ep;
pub mod msg;
pub mod payload;
pub mod rma;
pub mod tagged;

#[cfg(test)]
mod ep_tests;
