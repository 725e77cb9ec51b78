//! HOT. A ring of packets between one producer and one consumer, over memory that both can write.
//!
//! Layout, in cache lines of 64 bytes:
//!
//! ```text
//! line 0     constants, written once before the ring is handed over
//! line 1     producer's:  waiting (the producer sleeps for room)
//! line 2     consumer's:  consumed, armed (the consumer sleeps), pressure
//! line 3..   slots, one line each
//! then       bulk: payloads that do not fit a slot, each contiguous
//! ```
//!
//! A slot's first word holds the packet's sequence number, so that one line carries flag, header
//! and small payload, and a reader polls exactly the line it will read. The consumer gives room
//! back a quarter of the ring at a time: its line is not written for every packet.
//!
//! Neither side trusts the other: indices are compared with what is possible, offsets are bounded,
//! payload bytes may change while they are read.

use core::ptr::{self, NonNull};

use crate::{
    mem::SharedBytes,
    sync::{AtomicU32, AtomicU64, Ordering, TurnCell, fence},
    wire::{Head, Packet, Source, head_flags},
};

/// Bytes of a cache line and a slot.
pub const LINE: usize = 64;

/// Longest payload whose lines are fetched before its slot says that they are there.
const FETCHED: u32 = 256;

const HAS_B: u8 = head_flags::TRANSPORT;
const IN_BULK: u8 = head_flags::TRANSPORT << 1;

/// The first three lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Lines {
    constants: [u64; 8],
    producer: ProducerLine,
    consumer: ConsumerLine,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct ProducerLine {
    waiting: AtomicU32,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct ConsumerLine {
    consumed: AtomicU32,
    armed: AtomicU32,
    pressure: AtomicU32,
}

/// One slot.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Slot {
    word: AtomicU64,
    body: TurnCell<[u64; 7]>,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Lines>() == 3 * LINE);
    assert!(size_of::<Slot>() == LINE);
    assert!(core::mem::offset_of!(Lines, producer) == LINE);
    assert!(core::mem::offset_of!(Lines, consumer) == 2 * LINE);
};

impl Default for Lines {
    fn default() -> Self {
        Self {
            constants: [0; 8],
            producer: ProducerLine { waiting: AtomicU32::new(0) },
            consumer: ConsumerLine {
                consumed: AtomicU32::new(0),
                armed: AtomicU32::new(0),
                pressure: AtomicU32::new(0),
            },
        }
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self { word: AtomicU64::new(0), body: TurnCell::new([0; 7]) }
    }
}

/// How a ring's memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    slots: u32,
    bulk: u32,
}

impl Geometry {
    /// A ring of `slots` (a power of two, at least 4) in `bytes` of memory, the rest being bulk.
    /// `None` if that does not make a ring.
    pub fn new(slots: u32, bytes: usize) -> Option<Self> {
        let slot_bytes = (slots as usize).checked_mul(LINE)?;
        let bulk = bytes.checked_sub(3 * LINE)?.checked_sub(slot_bytes)?;
        let fits = slots.is_power_of_two() && slots >= 4 && bulk.is_multiple_of(LINE);
        (fits && bulk >= 8 * LINE).then_some(Self { slots, bulk: u32::try_from(bulk).ok()? })
    }

    /// Bytes of memory.
    pub const fn bytes(&self) -> usize {
        3 * LINE + self.slots as usize * LINE + self.bulk as usize
    }

    /// Number of slots.
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    /// Most payload bytes of one packet: with a quarter of the bulk not yet given back and the
    /// rest of a lap skipped there is still room for this much.
    pub const fn max_payload(&self) -> usize {
        (self.bulk as usize * 3 / 8) & !(LINE - 1)
    }
}

/// The memory of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingMemory {
    lines: NonNull<Lines>,
    slots: NonNull<Slot>,
    bulk: *mut u8,
    geometry: Geometry,
}

// SAFETY: a description of memory; the two ends are what accesses it, one thread each at a time.
unsafe impl Send for RingMemory {}

impl RingMemory {
    /// Describes mapped memory.
    ///
    /// # Safety
    /// `base` is aligned to a line and valid for reads and writes of `geometry.bytes()` bytes as
    /// long as a producer or consumer made from this exists. It may be shared with other processes.
    pub unsafe fn new(base: NonNull<u8>, geometry: Geometry) -> Self {
        // SAFETY: both offsets lie inside the memory, whose size the caller vouches for.
        let (slots, bulk) = unsafe {
            let slots = base.add(3 * LINE);
            (slots, slots.add(geometry.slots as usize * LINE))
        };
        Self { lines: base.cast(), slots: slots.cast(), bulk: bulk.as_ptr(), geometry }
    }

    /// Describes separate pieces, as the models use them.
    ///
    /// # Safety
    /// As for [`RingMemory::new`], with `slots` pointing to `geometry.slots()` slots and `bulk` to
    /// the bulk's bytes.
    pub unsafe fn from_parts(
        lines: NonNull<Lines>,
        slots: NonNull<Slot>,
        bulk: *mut u8,
        geometry: Geometry,
    ) -> Self {
        Self { lines, slots, bulk, geometry }
    }

    #[inline]
    fn lines(&self) -> &Lines {
        // SAFETY: valid and aligned by the constructor's contract; all fields are atomics or
        // constants that nobody writes after the hand-over.
        unsafe { self.lines.as_ref() }
    }

    #[inline]
    fn slot(&self, sequence: u32) -> &Slot {
        let at = sequence.wrapping_sub(1) & (self.geometry.slots - 1);
        // SAFETY: `at` is below the number of slots; valid by the constructor's contract.
        unsafe { self.slots.add(at as usize).as_ref() }
    }
}

/// The other side broke the ring's rules; the ring is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// Why a packet was not pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// No room until the consumer has moved on.
    Full,
    /// More bytes than a packet can have.
    TooLong,
    /// The consumer's index is impossible.
    Broken,
}

/// The producing end.
#[derive(Debug)]
pub struct Producer {
    memory: RingMemory,
    /// Sequence number of the next packet; the first is 1.
    next: u32,
    /// Packets that the consumer has given back, as last seen.
    consumed: u32,
    /// `consumed` when the last push was refused for want of room.
    refused: Option<u32>,
    /// Bulk positions grow for ever; the offset is the remainder.
    bulk_head: u64,
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
            refused: None,
            bulk_head: 0,
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

    /// Whether a packet without bulk can be pushed now.
    pub fn has_room(&mut self) -> bool {
        let full =
            |ring: &Self| ring.pushed().wrapping_sub(ring.consumed) >= ring.memory.geometry.slots;
        if full(self) {
            let _ = self.refresh();
        }
        !full(self)
    }

    /// Publishes a packet, or changes nothing.
    #[inline]
    pub fn push(&mut self, head: Head, source: &Source<'_>) -> Result<(), PushError> {
        let total = source.total();
        let inline_room = if head.b == 0 { 48 } else { 40 };
        if self.next.wrapping_sub(1).wrapping_sub(self.consumed) >= self.memory.geometry.slots {
            self.refresh()?;
            if self.next.wrapping_sub(1).wrapping_sub(self.consumed) >= self.memory.geometry.slots {
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
        let offset = self.bulk_head % size;
        let skip = if offset + len > size { size - offset } else { 0 };
        if self.bulk_head + skip + len - self.bulk_tail > size {
            self.refresh()?;
            if self.bulk_head + skip + len - self.bulk_tail > size {
                return Err(self.full());
            }
        }
        let start = self.bulk_head + skip;
        self.bulk_head = start + len;
        Ok((start % size) as u32)
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
    /// `false` if some has been given back since, whether or not that has been noticed before.
    pub fn wait_for_room(&mut self) -> bool {
        self.memory.lines().producer.waiting.store(1, Ordering::Relaxed);
        // Pairs with the fence in `Consumer::give_back`.
        fence(Ordering::SeqCst);
        let _ = self.refresh();
        self.refused.is_none_or(|then| then == self.consumed)
    }

    /// Whether the consumer holds much that nobody has asked for.
    pub fn pressure(&self) -> bool {
        self.memory.lines().consumer.pressure.load(Ordering::Relaxed) != 0
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

/// The consuming end.
#[derive(Debug)]
pub struct Consumer {
    memory: RingMemory,
    /// Sequence number of the next packet.
    next: u32,
    /// Packets given back.
    returned: u32,
    /// Bulk bytes of packets consumed and not given back.
    bulk_held: u32,
    /// Bulk bytes of the packet that `peek` returned.
    bulk_now: u32,
    /// Where the next payload is likely to begin, and how many lines of it are worth fetching.
    expected: (u32, u32),
}

impl Consumer {
    /// Starts consuming.
    pub const fn new(memory: RingMemory) -> Self {
        Self { memory, next: 1, returned: 0, bulk_held: 0, bulk_now: 0, expected: (0, 0) }
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

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
