//! HOT. The producing end of a ring.

use core::ptr;

use super::{HAS_B, IN_BULK, LINE, PushError, RingMemory};
use crate::{
    sync::{Ordering, fence},
    wire::{Head, Source, head_flags},
};

/// The producing end.
#[derive(Debug)]
pub struct Producer {
    pub(super) memory: RingMemory,
    /// Sequence number of the next packet; the first is 1.
    pub(super) next: u32,
    /// Packets that the consumer has given back, as last seen.
    pub(super) consumed: u32,
    /// Packets in the ring at most.
    room: u32,
    /// `consumed` when the last push was refused for want of room.
    refused: Option<u32>,
    /// Bulk positions grow for ever; the offset is the remainder.
    bulk_head: u64,
    /// Offset of `bulk_head`, or the bulk's size instead of zero: a remainder would be a division for
    /// every packet.
    bulk_at: u64,
    bulk_tail: u64,
    /// `bulk_head` behind the packet in each slot.
    marks: Box<[u64]>,
}

impl Producer {
    /// Starts producing into fresh (zeroed) memory.
    pub fn new(memory: RingMemory) -> Self {
        Self {
            memory,
            next: 1,
            consumed: 0,
            room: memory.geometry.slots,
            refused: None,
            bulk_head: 0,
            bulk_at: 0,
            bulk_tail: 0,
            marks: vec![0; memory.geometry.slots as usize].into_boxed_slice(),
        }
    }

    /// Most payload bytes of one packet.
    pub const fn max_payload(&self) -> usize {
        self.memory.geometry.max_payload()
    }

    /// Packets pushed so far, modulo 2^32.
    pub const fn pushed(&self) -> u32 {
        self.next.wrapping_sub(1)
    }

    /// Whether a packet without bulk, or at least the last one, can be pushed now.
    pub fn has_room(&mut self) -> bool {
        let full =
            |ring: &Self| ring.pushed().wrapping_sub(ring.consumed) >= ring.memory.geometry.slots;
        if full(self) {
            let _ = self.refresh();
        }
        !full(self)
    }

    /// Whether the consumer has come to this ring: its first packet is given back at once.
    pub fn is_visited(&mut self) -> bool {
        if self.consumed == 0 {
            let _ = self.refresh();
        }
        self.consumed != 0
    }

    /// Whether the last push was refused for want of room.
    pub const fn was_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Keeps one slot of a fresh ring for [`Producer::push_last`] until the consumer has come. Later
    /// that would mean to look more often for what it has given back.
    pub fn keep_one(&mut self) {
        self.room = self.memory.geometry.slots - 1;
    }

    /// Keeps no slot any more.
    pub fn keep_none(&mut self) {
        self.room = self.memory.geometry.slots;
    }

    /// Publishes the ring's last packet, into the slot that was kept for it if there is no other.
    pub fn push_last(&mut self, head: Head) -> Result<(), PushError> {
        self.keep_none();
        self.push(head, &Source::fixed(&[]))
    }

    /// Publishes a packet, or changes nothing.
    #[inline]
    pub fn push(&mut self, head: Head, source: &Source<'_>) -> Result<(), PushError> {
        let total = source.total();
        let inline_room = if head.b == 0 { 48 } else { 40 };
        if self.next.wrapping_sub(1).wrapping_sub(self.consumed) >= self.room {
            self.refresh()?;
            if self.next.wrapping_sub(1).wrapping_sub(self.consumed) >= self.room {
                return Err(self.full());
            }
        }
        let bulk = if total > inline_room { Some(self.reserve(total)?) } else { None };

        let slot = self.memory.slot(self.next);
        let bulk_base = self.memory.bulk;
        let flags = (head.flags & (head_flags::TRANSPORT - 1))
            | if head.b != 0 { HAS_B } else { 0 }
            | if bulk.is_some() { IN_BULK } else { 0 };
        slot.body.write(|body| {
            let body = body.cast::<u64>();
            // SAFETY: the slot is ours until the release store below: the consumer has given it
            // back. All writes stay within the 56 bytes of the body: two words, then at most 48
            // or 40 bytes, or one word for the bulk. The reserved bulk range is ours likewise.
            unsafe {
                body.write(head.a);
                let mut rest = body.add(1);
                if head.b != 0 {
                    rest.write(head.b);
                    rest = rest.add(1);
                }
                match bulk {
                    None => write_source(rest.cast(), source),
                    Some(offset) => {
                        rest.write((total as u64) << 32 | u64::from(offset));
                        write_source(bulk_base.add(offset as usize), source);
                    }
                }
            }
        });
        let inline_len = if bulk.is_some() { 0 } else { total as u64 };
        let word = u64::from(self.next)
            | u64::from(head.op) << 32
            | u64::from(flags) << 40
            | inline_len << 48;
        self.marks[(self.next.wrapping_sub(1) & (self.memory.geometry.slots - 1)) as usize] =
            self.bulk_head;
        // Release: pairs with the acquire load in `Consumer::peek`.
        slot.word.store(word, Ordering::Release);
        self.next = self.next.wrapping_add(1);
        self.refused = None;
        Ok(())
    }

    #[cold]
    fn full(&mut self) -> PushError {
        self.refused = Some(self.consumed);
        PushError::Full
    }

    /// Takes a contiguous bulk range and returns its offset.
    fn reserve(&mut self, len: usize) -> Result<u32, PushError> {
        if len > self.max_payload() {
            return Err(PushError::TooLong);
        }
        let size = u64::from(self.memory.geometry.bulk);
        let len = len.next_multiple_of(LINE) as u64;
        let (offset, skip) =
            if self.bulk_at + len > size { (0, size - self.bulk_at) } else { (self.bulk_at, 0) };
        if self.bulk_head + skip + len - self.bulk_tail > size {
            self.refresh()?;
            if self.bulk_head + skip + len - self.bulk_tail > size {
                return Err(self.full());
            }
        }
        self.bulk_head += skip + len;
        self.bulk_at = offset + len;
        // Below the size of the bulk, which is 32 bits wide.
        Ok(offset as u32)
    }

    /// Sees what the consumer has given back.
    #[cold]
    fn refresh(&mut self) -> Result<(), PushError> {
        // Acquire: pairs with the release store in `Consumer::give_back`; the consumer's reads of
        // the slots happened before.
        let consumed = self.memory.lines().consumer.consumed.load(Ordering::Acquire);
        let fresh = consumed.wrapping_sub(self.consumed);
        if fresh > self.pushed().wrapping_sub(self.consumed) {
            return Err(PushError::Broken);
        }
        if fresh != 0 {
            self.keep_none();
            self.consumed = consumed;
            let last = consumed.wrapping_sub(1) & (self.memory.geometry.slots - 1);
            self.bulk_tail = self.marks[last as usize];
        }
        Ok(())
    }

    /// Whether the consumer asked to be woken; asks once for each time it did.
    ///
    /// Call after pushing, when the consumer is known to sleep at times.
    #[inline]
    pub fn consumer_sleeps(&self) -> bool {
        // Pairs with the fence in `Consumer::arm`: either it sees the packet or we see `armed`.
        fence(Ordering::SeqCst);
        let armed = &self.memory.lines().consumer.armed;
        armed.load(Ordering::Relaxed) != 0 && armed.swap(0, Ordering::Relaxed) != 0
    }

    /// Announces that the producer sleeps until there is room for the packet that was refused last;
    /// `false` if some has been given back since, whether or not that has been noticed before, or
    /// if the consumer broke the rules, which the next push says.
    pub fn wait_for_room(&mut self) -> bool {
        self.memory.lines().producer.waiting.store(1, Ordering::Relaxed);
        // Pairs with the fence in `Consumer::give_back`.
        fence(Ordering::SeqCst);
        self.refresh().is_ok() && self.refused.is_none_or(|then| then == self.consumed)
    }

    /// Whether the consumer holds much that nobody has asked for.
    pub fn pressure(&self) -> bool {
        self.memory.lines().consumer.pressure.load(Ordering::Relaxed) != 0
    }
}

/// Copies a source to `to`.
///
/// # Safety
/// `to` is valid for writing `source.total()` bytes.
#[inline]
unsafe fn write_source(to: *mut u8, source: &Source<'_>) {
    let fixed = source.fixed;
    // SAFETY: the caller vouches for `to`; the application for the pieces of `data`, whose bytes
    // taken here sum up to at most `source.len`.
    unsafe {
        if !fixed.is_empty() {
            ptr::copy_nonoverlapping(fixed.as_ptr(), to, fixed.len());
        }
        let mut to = to.add(fixed.len());
        let iov = source.data.iov();
        if let [piece] = iov
            && source.skip == 0
        {
            ptr::copy_nonoverlapping(piece.base, to, source.len.min(piece.len));
            return;
        }
        for piece in source.data.slice(source.skip, source.len).iov() {
            ptr::copy_nonoverlapping(piece.base, to, piece.len);
            to = to.add(piece.len);
        }
    }
}
