//! Rings between ends that keep the rules, and ends that do not.

use proptest::prelude::*;

use super::*;
use crate::{
    mem::Buffers,
    op::IoVec,
    wire::{Head, Source},
};

/// A ring's memory, with room around it that nobody may touch.
struct Memory {
    words: Vec<[u64; 8]>,
    geometry: Geometry,
}

const GUARD: usize = 4;
const CANARY: u64 = 0xa5a5_a5a5_a5a5_a5a5;

impl Memory {
    fn new(slots: u32, bulk_lines: usize) -> Self {
        let bytes = 3 * LINE + slots as usize * LINE + bulk_lines * LINE;
        let geometry = Geometry::new(slots, bytes).unwrap();
        let mut words = vec![[0; 8]; bytes / LINE + 2 * GUARD + 1];
        let (front, back) = (GUARD + 1, words.len() - GUARD);
        words[..front].fill([CANARY; 8]);
        words[back..].fill([CANARY; 8]);
        let mut all = Self { words, geometry };
        // SAFETY: the ring's own lines, which are ours.
        unsafe { all.base().as_ptr().write_bytes(0, bytes) };
        all
    }

    /// The first line boundary behind the guard.
    fn base(&mut self) -> NonNull<u8> {
        // Not through a slice, which would claim the lines of both ends for itself.
        let start = self.words.as_mut_ptr().wrapping_add(GUARD).cast::<u8>();
        NonNull::new(start.wrapping_add(start.align_offset(LINE))).unwrap()
    }

    fn memory(&mut self) -> RingMemory {
        // SAFETY: aligned, as large as the geometry says, and the tests keep it.
        unsafe { RingMemory::new(self.base(), self.geometry) }
    }

    /// Writes a word anywhere in the ring, as a peer can.
    fn scribble(&mut self, at: usize, word: u64) {
        let words = self.geometry.bytes() / 8;
        // SAFETY: inside the ring, which nobody refers to at the moment.
        unsafe { self.base().cast::<u64>().add(at % words).write(word) };
    }

    fn contains(&mut self, at: *const u8, len: usize) -> bool {
        let base = self.base().as_ptr() as usize;
        let (from, to) = (at as usize, at as usize + len);
        let bulk = base + (3 + self.geometry.slots as usize) * LINE;
        // A small payload does not leave its slot.
        let in_slot = from > base + 3 * LINE && to <= bulk && to <= from.next_multiple_of(LINE);
        in_slot || from >= bulk && to <= base + self.geometry.bytes()
    }

    fn assert_guards(&mut self) {
        let bytes = self.geometry.bytes();
        let base = self.base().as_ptr() as usize;
        let start = self.words.as_ptr() as usize;
        for (n, word) in self.words.iter().flatten().enumerate() {
            let at = start + n * 8;
            assert!(at >= base && at < base + bytes || *word == CANARY || *word == 0, "word {n}");
        }
    }
}

fn push(ring: &mut Producer, head: Head, bytes: &[u8]) -> Result<(), PushError> {
    let (front, back) = bytes.split_at(bytes.len() / 3);
    let piece = IoVec { base: back.as_ptr().cast_mut(), len: back.len() };
    // SAFETY: only read, and only during the call.
    let data = unsafe { Buffers::new(&[piece]) }.unwrap();
    ring.push(head, &Source::all(front, &data))
}

#[test]
fn geometry_refuses_what_is_no_ring() {
    assert!(Geometry::new(4, 15 * LINE).is_some());
    for (slots, bytes) in [
        (2, 4096),
        (5, 4096),
        (0, 4096),
        (4, 14 * LINE),
        (4, 15 * LINE + 8),
        (4, 0),
        (1 << 31, 4096),
        (4, usize::MAX & !(LINE - 1)),
    ] {
        assert_eq!(Geometry::new(slots, bytes), None, "{slots} slots in {bytes} bytes");
    }
}

#[test]
fn sequence_numbers_wrap() {
    let mut memory = Memory::new(4, 8);
    let (mut producer, mut consumer) =
        (Producer::new(memory.memory()), Consumer::new(memory.memory()));
    let start = u32::MAX - 5;
    (producer.next, producer.consumed) = (start, start.wrapping_sub(1));
    (consumer.next, consumer.returned) = (start, start.wrapping_sub(1));
    // As the laps before would have left it.
    memory.scribble(16, u64::from(start.wrapping_sub(1)));
    for n in 0..20u64 {
        let head = Head { op: 1, flags: 0, a: n, b: 0 };
        push(&mut producer, head, &[n as u8; 70]).unwrap();
        let packet = consumer.peek().unwrap().unwrap();
        assert_eq!(
            (packet.head, packet.payload.to_boxed().unwrap()),
            (head, vec![n as u8; 70].into())
        );
        consumer.consume();
        assert_eq!(consumer.peek().unwrap().map(|packet| packet.head), None);
    }
}

#[test]
fn a_full_ring_has_a_slot_for_the_last_packet() {
    let mut memory = Memory::new(4, 8);
    let (mut producer, mut consumer) =
        (Producer::new(memory.memory()), Consumer::new(memory.memory()));
    producer.keep_one();
    let head = |n| Head { op: 1, flags: 0, a: n, b: 0 };
    for n in 0..3 {
        push(&mut producer, head(n), &[]).unwrap();
    }
    assert_eq!(push(&mut producer, head(3), &[]), Err(PushError::Full));
    assert!(producer.has_room(), "for the last one");
    producer.push_last(head(4)).unwrap();
    assert!(!producer.has_room());
    for n in [0, 1, 2, 4] {
        assert_eq!(consumer.peek().unwrap().unwrap().head, head(n));
        consumer.consume();
    }
}

#[test]
fn no_slot_is_kept_once_the_consumer_has_come() {
    let mut memory = Memory::new(4, 8);
    let (mut producer, mut consumer) =
        (Producer::new(memory.memory()), Consumer::new(memory.memory()));
    producer.keep_one();
    let head = Head { op: 1, flags: 0, a: 1, b: 0 };
    while push(&mut producer, head, &[]).is_ok() {}
    assert_eq!(producer.pushed(), 3);
    while consumer.peek().unwrap().is_some() {
        consumer.consume();
    }
    while push(&mut producer, head, &[]).is_ok() {}
    assert_eq!(producer.pushed(), 7);
}

#[test]
fn the_first_packet_is_given_back_at_once() {
    let mut memory = Memory::new(64, 256);
    let (mut producer, mut consumer) =
        (Producer::new(memory.memory()), Consumer::new(memory.memory()));
    let head = Head { op: 1, flags: 0, a: 1, b: 0 };
    for _ in 0..4 {
        push(&mut producer, head, &[]).unwrap();
        assert!(!producer.is_visited());
    }
    for _ in 0..2 {
        assert!(consumer.peek().unwrap().is_some());
        consumer.consume();
        assert!(producer.is_visited());
        assert_eq!(producer.consumed, 1, "later ones a quarter of the ring at a time");
    }
}

#[test]
fn nobody_sleeps_on_a_broken_ring() {
    let mut memory = Memory::new(4, 8);
    let mut producer = Producer::new(memory.memory());
    let head = Head { op: 1, flags: 0, a: 1, b: 0 };
    while push(&mut producer, head, &[]).is_ok() {}
    assert!(producer.wait_for_room());
    // The consumer's line: more given back than was pushed.
    memory.scribble(16, 5);
    assert!(!producer.wait_for_room());
    assert_eq!(push(&mut producer, head, &[]), Err(PushError::Broken));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn packets_arrive_whole_and_in_order(
        slots in prop::sample::select(vec![4u32, 8, 16]),
        bulk in 8usize..40,
        steps in prop::collection::vec((any::<bool>(), 0usize..700, 0u64..3, 0u8..64), 1..200),
    ) {
        let mut memory = Memory::new(slots, bulk);
        let (mut producer, mut consumer) = (Producer::new(memory.memory()), Consumer::new(memory.memory()));
        let mut under_way = std::collections::VecDeque::new();
        for (n, (pushes, len, b, flags)) in steps.into_iter().enumerate() {
            if pushes {
                let head = Head { op: n as u8, flags, a: n as u64, b };
                let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + n) as u8).collect();
                match push(&mut producer, head, &bytes) {
                    Ok(()) => under_way.push_back((head, bytes)),
                    Err(PushError::TooLong) => prop_assert!(len > producer.max_payload()),
                    Err(reason) => {
                        prop_assert_eq!(reason, PushError::Full);
                        prop_assert!(!under_way.is_empty(), "an empty ring has room for anything");
                    }
                }
            } else {
                let expected = under_way.pop_front();
                let got = consumer.peek().unwrap();
                prop_assert_eq!(got.is_some(), expected.is_some());
                prop_assert_eq!(consumer.ready(), expected.is_some());
                if let (Some(packet), Some((head, bytes))) = (got, expected) {
                    prop_assert_eq!(packet.head, head);
                    prop_assert_eq!(&packet.payload.to_boxed().unwrap()[..], &bytes[..]);
                    consumer.consume();
                }
            }
        }
        memory.assert_guards();
    }

    #[test]
    fn a_hostile_producer_is_survived(
        slots in prop::sample::select(vec![4u32, 8]),
        scribbles in prop::collection::vec(
            prop::collection::vec((any::<usize>(), any::<u64>(), any::<bool>()), 0..12),
            1..40,
        ),
        heads in prop::collection::vec((any::<u16>(), any::<u32>(), any::<u32>()), 40),
    ) {
        let mut memory = Memory::new(slots, 8);
        let mut consumer = Consumer::new(memory.memory());
        for (words, (kind, x, y)) in scribbles.into_iter().zip(heads) {
            for (at, word, small) in words {
                memory.scribble(at, if small { word % 1024 } else { word });
            }
            // The slot that is read next gets the right number and anything else.
            let slot = 24 + (consumer.next.wrapping_sub(1) & (slots - 1)) as usize * 8;
            let word = u64::from(consumer.next) | u64::from(kind) << 32 | u64::from(x % 64) << 48;
            memory.scribble(slot, word);
            memory.scribble(slot + 2, (u64::from(x % 1024) << 32) | u64::from(y % 1024));
            for _ in 0..2 {
                match consumer.peek() {
                    Ok(Some(packet)) => {
                        let bytes = packet.payload.to_boxed().unwrap();
                        prop_assert_eq!(bytes.len(), packet.payload.len());
                        prop_assert!(memory.contains(packet.payload.as_ptr(), packet.payload.len()));
                    }
                    Ok(None) => prop_assert!(false, "its number is there"),
                    Err(Broken) => {}
                }
            }
            consumer.consume();
            consumer.arm();
        }
        memory.assert_guards();
    }

    #[test]
    fn a_hostile_consumer_is_survived(
        indices in prop::collection::vec((any::<u32>(), any::<bool>(), 0usize..200), 1..100),
    ) {
        let mut memory = Memory::new(4, 8);
        let mut producer = Producer::new(memory.memory());
        for (index, near, len) in indices {
            let index = if near { producer.pushed().wrapping_add(index % 8).wrapping_sub(5) } else { index };
            memory.scribble(16, u64::from(index) | 1 << 32);
            let before = producer.pushed();
            let pushed = push(&mut producer, Head { op: 1, flags: 0, a: 1, b: 0 }, &vec![1; len]);
            prop_assert_eq!(producer.pushed().wrapping_sub(before), u32::from(pushed.is_ok()));
            prop_assert!(producer.pushed().wrapping_sub(producer.consumed) <= 4);
            producer.has_room();
            producer.wait_for_room();
            producer.consumer_sleeps();
        }
        memory.assert_guards();
    }
}
