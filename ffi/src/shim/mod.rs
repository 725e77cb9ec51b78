//! The functions in the op tables: one file for each table of the C interface.

pub mod payload;
