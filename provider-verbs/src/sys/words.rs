//! HOT. Registered words that the device writes old values of atomic operations to.

use std::sync::Arc;

use fabric_core::{Result, mem::Buffers};

use super::{Packets, Pd};

/// Words that are handed out one by one: packets of eight bytes.
#[derive(Debug)]
pub(crate) struct Words {
    packets: Packets,
    /// Where the application wants each.
    into: Box<[Buffers]>,
}

impl Words {
    /// Registers so many.
    pub(crate) fn new(pd: &Arc<Pd>, count: u32) -> Result<Self> {
        let packets = Packets::new(pd, count, size_of::<u64>())?;
        Ok(Self { packets, into: vec![Buffers::EMPTY; count as usize].into() })
    }

    /// Takes one whose value goes to `into`, if one is free.
    pub(crate) fn take(&mut self, into: &Buffers) -> Option<u32> {
        let word = self.packets.take()?;
        *self.into.get_mut(word as usize)? = *into;
        Some(word)
    }

    /// Gives one back that no operation writes to any more. `done`: what the device has written is the
    /// application's.
    pub(crate) fn give_back(&mut self, word: u32, done: bool) {
        if let (true, Some(into)) = (done, self.into.get(word as usize)) {
            into.fill(0, self.packets.bytes(word, size_of::<u64>()));
        }
        self.packets.give_back(word);
    }

    /// Where a word is, for the device.
    pub(crate) fn address(&self, word: u32) -> Result<(usize, u32)> {
        self.packets.address(word)
    }
}
