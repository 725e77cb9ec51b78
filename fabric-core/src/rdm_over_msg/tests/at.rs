//! Addresses of endpoints in memory.

use std::{cmp::Ordering, fmt};

use super::super::Address;
use crate::{Errno, Result};

/// A host and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct At(pub(super) u16, pub(super) u16);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

impl Address for At {
    fn parse(bytes: &[u8]) -> Result<Self> {
        let [a, b, c, d] = *bytes.first_chunk().ok_or(Errno::EINVAL)?;
        Ok(Self(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }
    fn to_bytes(&self) -> Vec<u8> {
        [self.0.to_be_bytes(), self.1.to_be_bytes()].concat()
    }
    fn port(&self) -> u16 {
        self.1
    }
    fn with_port(self, port: u16) -> Self {
        Self(self.0, port)
    }
    fn canonical(self) -> Self {
        self
    }
    fn contest(self, other: Self) -> Ordering {
        self.cmp(&other)
    }
}
