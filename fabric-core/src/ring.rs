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

mod consumer;
mod producer;

pub use self::{consumer::Consumer, producer::Producer};

use core::ptr::NonNull;

use crate::{
    sync::{AtomicU32, AtomicU64, TurnCell},
    wire::head_flags,
};

/// Bytes of a cache line and a slot.
pub const LINE: usize = 64;

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

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
