//! The model and the protocols of Percale: attributes, completions, matching, the protocol engine.
//!
//! Nothing here opens a socket, maps memory or speaks C. Providers bring the transport, the `ffi`
//! crate brings the C face; both lean on this crate and never on each other.

pub mod attr;
pub mod discovery;
pub mod errno;
pub mod flags;
pub mod log;
pub mod param;

pub use errno::{Errno, Result};
