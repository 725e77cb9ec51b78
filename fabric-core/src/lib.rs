//! The model and the protocols of Percale: attributes, completions, matching, the protocol engine.
//!
//! Nothing here opens a socket, maps memory or speaks C. Providers bring the transport, the `ffi`
//! crate brings the C face; both lean on this crate and never on each other.

pub mod api;
pub mod atomic;
pub mod attr;
pub mod auto;
pub mod av;
pub mod backlog;
pub mod bindings;
pub mod closing;
pub mod completion;
pub mod discovery;
pub mod domain;
pub mod engine;
pub mod eq;
pub mod errno;
pub mod flags;
pub mod fork;
pub mod inbox;
pub mod inet;
pub mod lock;
pub mod log;
pub mod matching;
pub mod mem;
pub mod monitor;
pub mod mr;
pub mod op;
pub mod options;
pub mod param;
pub mod persist;
pub mod rdm;
pub mod rdm_over_msg;
pub mod reaching;
pub mod ring;
pub mod shortage;
pub mod slab;
pub mod sync;
pub mod wait;
pub mod waiters;
pub mod wire;

pub use errno::{Errno, Result};
