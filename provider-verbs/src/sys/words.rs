//! HOT. Registered words that the device writes old values of atomic operations to.

use std::sync::Arc;

use fabric_core::Result;

use super::{Packets, Pd};

/// Words that are handed out one by one: packets of eight bytes.
#[derive(Debug)]
pub(crate) struct Words(Packets);

impl Words {
    /// Registers so many.
    pub(crate) fn new(pd: &Arc<Pd>, count: u32) -> Result<Self> {
        Ok(Self(Packets::new(pd, count, size_of::<u64>())?))
    }

    /// Takes one, if one is free.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.0.take()
    }

    /// Gives one back that no operation writes to any more.
    pub(crate) fn give_back(&mut self, word: u32) {
        self.0.give_back(word);
    }

    /// Where a word is, for the device.
    pub(crate) fn address(&self, word: u32) -> Result<(usize, u32)> {
        self.0.address(word)
    }

    /// What the device has written, once the operation has completed.
    pub(crate) fn value(&self, word: u32) -> u64 {
        self.0
            .bytes(word, size_of::<u64>())
            .first_chunk()
            .map_or(0, |word| u64::from_ne_bytes(*word))
    }
}
