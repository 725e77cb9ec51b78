//! HOT. The consuming end of a ring.

use super::{Broken, HAS_B, IN_BULK, LINE, RingMemory};
use crate::{
    mem::SharedBytes,
    sync::{Ordering, fence},
    wire::{Head, Packet, head_flags},
};

/// Longest payload whose lines are fetched before its slot says that they are there.
const FETCHED: u32 = 256;

/// The consuming end.
#[derive(Debug)]
pub struct Consumer {
    pub(super) memory: RingMemory,
    /// Sequence number of the next packet.
    pub(super) next: u32,
    /// Packets given back.
    pub(super) returned: u32,
    /// Bulk bytes of packets consumed and not given back.
    bulk_held: u32,
    /// Bulk bytes of the packet that `peek` returned.
    bulk_now: u32,
    /// Where the next payload is likely to begin, and how many lines of it are worth fetching.
    expected: (u32, u32),
}

impl Consumer {
    /// Starts consuming. The first packet will be given back at once, which tells the producer that
    /// there is somebody.
    pub const fn new(memory: RingMemory) -> Self {
        Self { memory, next: 1, returned: 0, bulk_held: u32::MAX, bulk_now: 0, expected: (0, 0) }
    }

    /// Whether a packet is there.
    #[inline]
    pub fn ready(&self) -> bool {
        let ready = self.memory.slot(self.next).word.load(Ordering::Relaxed) as u32 == self.next;
        if !ready {
            self.expect_payload();
        }
        ready
    }

    /// Fetches the lines that the next payload will be in, if it is like the last one: then they
    /// come together with the slot instead of after it.
    #[inline]
    fn expect_payload(&self) {
        let (start, lines) = self.expected;
        for line in 0..lines {
            fetch_line(self.memory.bulk.wrapping_add((start + line * LINE as u32) as usize));
        }
    }

    /// The packet at the head. The same one comes back until [`Consumer::consume`].
    #[inline]
    pub fn peek(&mut self) -> Result<Option<Packet>, Broken> {
        let slot = self.memory.slot(self.next);
        // Acquire: pairs with the release store in `Producer::push`.
        let word = slot.word.load(Ordering::Acquire);
        if word as u32 != self.next {
            return Ok(None);
        }
        let flags = (word >> 40) as u8;
        let inline_len = (word >> 48) as usize;
        let (head, payload, bulk) = slot.body.read(|body| {
            let body = body.cast::<u64>();
            // SAFETY: the slot's memory is mapped; reads stay within its seven words.
            unsafe {
                let a = body.read();
                let mut rest = body.add(1);
                let mut b = 0;
                let mut room = 48;
                if flags & HAS_B != 0 {
                    b = rest.read();
                    rest = rest.add(1);
                    room = 40;
                }
                let head = Head {
                    op: (word >> 32) as u8,
                    flags: flags & (head_flags::TRANSPORT - 1),
                    a,
                    b,
                };
                if flags & IN_BULK == 0 {
                    if inline_len > room {
                        return Err(Broken);
                    }
                    return Ok((head, SharedBytes::new(rest.cast(), inline_len), 0));
                }
                let place = rest.read();
                let (offset, len) = (place as u32, (place >> 32) as u32);
                let size = self.memory.geometry.bulk;
                if offset.checked_add(len).is_none_or(|end| end > size) {
                    return Err(Broken);
                }
                let lines = if len <= FETCHED { len.div_ceil(LINE as u32) } else { 0 };
                self.expected = ((offset + len).next_multiple_of(LINE as u32), lines);
                let at = self.memory.bulk.add(offset as usize);
                Ok((head, SharedBytes::new(at, len as usize), len))
            }
        })?;
        self.bulk_now = bulk;
        Ok(Some(Packet { head, payload }))
    }

    /// Moves on behind the packet that `peek` returned. `true` if the producer waits for the room
    /// that this gave back.
    #[inline]
    pub fn consume(&mut self) -> bool {
        self.bulk_held = self.bulk_held.saturating_add(self.bulk_now.next_multiple_of(64));
        self.bulk_now = 0;
        let done = self.next;
        self.next = self.next.wrapping_add(1);
        let geometry = &self.memory.geometry;
        if done.wrapping_sub(self.returned) >= geometry.slots / 4
            || self.bulk_held >= geometry.bulk / 4
        {
            self.give_back(done)
        } else {
            false
        }
    }

    fn give_back(&mut self, done: u32) -> bool {
        self.returned = done;
        self.bulk_held = 0;
        let lines = self.memory.lines();
        // Release: pairs with the acquire load in `Producer::refresh`.
        lines.consumer.consumed.store(done, Ordering::Release);
        // Pairs with the fence in `Producer::wait_for_room`.
        fence(Ordering::SeqCst);
        let waiting = &lines.producer.waiting;
        waiting.load(Ordering::Relaxed) != 0 && waiting.swap(0, Ordering::Relaxed) != 0
    }

    /// Asks to be woken by the next packet; `false` if one is there already.
    pub fn arm(&self) -> bool {
        self.memory.lines().consumer.armed.store(1, Ordering::Relaxed);
        // Pairs with the fence in `Producer::consumer_sleeps`.
        fence(Ordering::SeqCst);
        !self.ready()
    }

    /// Tells the producer that much of what it sent waits here for a receive.
    pub fn set_pressure(&self, high: bool) {
        self.memory.lines().consumer.pressure.store(high.into(), Ordering::Relaxed);
    }
}

/// Hints that a line will be read.
#[inline]
fn fetch_line(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: a prefetch never faults and changes nothing that a program can see.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
    let _ = at;
}
