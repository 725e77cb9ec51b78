//! HOT. Registered words that the device writes old values of atomic operations to.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use fabric_core::{Result, op::IoVec};

use super::{Mr, Pd, abi::IBV_ACCESS_LOCAL_WRITE};

/// Words that are handed out one by one.
#[derive(Debug)]
pub(crate) struct Words {
    /// Before the memory, so that the device forgets it first.
    mr: Mr,
    memory: Box<[AtomicU64]>,
    free: Vec<usize>,
}

impl Words {
    /// Registers so many.
    pub(crate) fn new(pd: &Arc<Pd>, count: usize) -> Result<Self> {
        let memory: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        let base = memory.as_ptr().cast_mut().cast();
        let iov = IoVec { base, len: size_of_val(&*memory) };
        let mr = Mr::new(pd, iov, IBV_ACCESS_LOCAL_WRITE)?;
        Ok(Self { mr, memory, free: (0..count).collect() })
    }

    /// Takes one, if one is free.
    pub(crate) fn take(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// Gives one back that no operation writes to any more.
    pub(crate) fn give_back(&mut self, word: usize) {
        self.free.push(word);
    }

    /// Where a word is, for the device.
    pub(crate) fn address(&self, word: usize) -> (usize, u32) {
        (self.memory[word].as_ptr().addr(), self.mr.lkey())
    }

    /// What the device has written, once the operation has completed.
    pub(crate) fn value(&self, word: usize) -> u64 {
        self.memory[word].load(Ordering::Acquire)
    }
}
