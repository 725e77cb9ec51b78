//! Both ends of a ring under every interleaving and every order that the memory model allows.

use loom::{sync::Arc, thread};

use super::*;
use crate::{
    mem::Buffers,
    op::IoVec,
    wait::Signal,
    wire::{Head, Source},
};

const SLOTS: u32 = 4;
const BULK: usize = 8 * LINE;

/// The memory of one ring, alive while both ends are.
struct Memory {
    lines: Box<Lines>,
    slots: Box<[Slot]>,
    bulk: *mut [u8],
}

impl Memory {
    fn new() -> Self {
        Self {
            lines: Box::default(),
            slots: (0..SLOTS).map(|_| Slot::default()).collect(),
            bulk: Box::into_raw(vec![0u8; BULK].into_boxed_slice()),
        }
    }

    fn ends(&self) -> (Producer, Consumer) {
        let geometry = Geometry::new(SLOTS, 3 * LINE + SLOTS as usize * LINE + BULK).unwrap();
        // SAFETY: the pieces have the geometry's sizes; the models drop the memory last.
        let memory = unsafe {
            RingMemory::from_parts(
                NonNull::from(&*self.lines),
                NonNull::from(&self.slots[0]),
                self.bulk.cast(),
                geometry,
            )
        };
        (Producer::new(memory), Consumer::new(memory))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`, and both ends are gone.
        drop(unsafe { Box::from_raw(self.bulk) });
    }
}

/// Packet `n` has `len` bytes of `n`.
fn push(ring: &mut Producer, n: u64, len: usize) -> Result<(), PushError> {
    let bytes = vec![n as u8; len];
    let piece = IoVec { base: bytes.as_ptr().cast_mut(), len };
    // SAFETY: `bytes` outlives the call, which only reads it.
    let data = unsafe { Buffers::new(&[piece]) }.unwrap();
    // An odd packet has a second word, an even one has none.
    let head = Head { op: n as u8, flags: 0, a: n, b: n % 2 };
    ring.push(head, &Source::all(&[], &data))
}

/// Takes packet `n` if it is there, and checks all of it.
fn pop(ring: &mut Consumer, n: u64, len: usize) -> Option<bool> {
    let packet = ring.peek().unwrap()?;
    assert_eq!(packet.head, Head { op: n as u8, flags: 0, a: n, b: n % 2 });
    assert_eq!(packet.payload.to_boxed().unwrap(), vec![n as u8; len].into());
    // The payload of a small packet is read outside of the cell's watch: look once more inside.
    ring.memory.slot(ring.next).body.read(|_| ());
    Some(ring.consume())
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(preemptions));
    model
}

/// Two laps: slots are given back and used again while the other side polls.
fn laps(count: u64, len: fn(u64) -> usize) {
    bounded(2).check(move || {
        let memory = Arc::new(Memory::new());
        let (mut producer, mut consumer) = memory.ends();
        let sending = thread::spawn(move || {
            for n in 1..=count {
                while push(&mut producer, n, len(n)) == Err(PushError::Full) {
                    thread::yield_now();
                }
            }
        });
        for n in 1..=count {
            while pop(&mut consumer, n, len(n)).is_none() {
                thread::yield_now();
            }
        }
        sending.join().unwrap();
        drop(memory);
    });
}

#[test]
fn slots_are_reused_only_after_they_were_read() {
    laps(6, |_| 8);
}

#[test]
fn bulk_is_reused_only_after_it_was_read() {
    // Three lines are the most that one packet has; laps of the bulk skip its end.
    laps(5, |n| if n % 2 == 0 { 100 } else { 192 });
}

/// What a transport does: rings the bell for an armed consumer, sleeps when nothing is there.
#[test]
fn an_armed_consumer_is_woken() {
    bounded(3).check(|| {
        let memory = Arc::new(Memory::new());
        let (mut producer, mut consumer) = memory.ends();
        let bell = Arc::new(Signal::new().unwrap());
        let theirs = bell.clone();
        let sending = thread::spawn(move || {
            for n in 1..=2 {
                push(&mut producer, n, 8).unwrap();
                if producer.consumer_sleeps() {
                    theirs.set();
                }
            }
        });
        for n in 1..=2 {
            while pop(&mut consumer, n, 8).is_none() {
                bell.clear();
                if consumer.arm() {
                    bell.sleep();
                }
            }
        }
        sending.join().unwrap();
        drop(memory);
    });
}

#[test]
fn a_producer_that_waits_for_room_is_woken() {
    bounded(3).check(|| {
        let memory = Arc::new(Memory::new());
        let (mut producer, mut consumer) = memory.ends();
        for n in 1..=u64::from(SLOTS) {
            push(&mut producer, n, 8).unwrap();
        }
        let bell = Arc::new(Signal::new().unwrap());
        let theirs = bell.clone();
        let receiving = thread::spawn(move || {
            for n in 1..=u64::from(SLOTS) {
                if pop(&mut consumer, n, 8).unwrap() {
                    theirs.set();
                }
            }
            consumer
        });
        for n in 1..=2 {
            while push(&mut producer, u64::from(SLOTS) + n, 8) == Err(PushError::Full) {
                bell.clear();
                // A transport may look at the room for other reasons in between.
                producer.has_room();
                if producer.wait_for_room() {
                    bell.sleep();
                }
            }
        }
        let mut consumer = receiving.join().unwrap();
        for n in 1..=2 {
            pop(&mut consumer, u64::from(SLOTS) + n, 8).unwrap();
        }
        drop(memory);
    });
}
