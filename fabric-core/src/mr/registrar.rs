//! SETUP. Devices that have to know memory before they touch it.

use core::{any::Any, fmt};

use super::MrRequest;
use crate::Result;

/// A device that registers memory.
pub trait Registrar: fmt::Debug + Send + Sync {
    /// Bytes of the device's keys (`mr_key_size`), at most [`super::KEY_SIZE`].
    fn key_size(&self) -> usize {
        super::KEY_SIZE
    }
    /// Makes the memory known to the device, for the accesses of the request and no others. The
    /// request has passed the table's own checks.
    fn register(&self, request: &MrRequest<'_>) -> Result<Registered>;
}

/// Memory that a device knows.
pub struct Registered {
    /// What peers name it by; of one that they cannot reach, anything.
    pub key: u64,
    /// What local operations name it by, not zero.
    pub descriptor: usize,
    /// Ends the registration when it is dropped.
    pub hold: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("key", &self.key).finish_non_exhaustive()
    }
}
