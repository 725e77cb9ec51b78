//! HOT. Memory that others change while it is looked at.
#![allow(unsafe_code, reason = "reads and writes memory that has no owner")]

use core::{
    fmt, ptr,
    sync::atomic::{AtomicU32, AtomicU64},
};
use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

use crate::memory::Memory;

/// Memory that peers, or other threads, may change at any time.
///
/// Bytes are copied out and in, each access happens as it is written, and nothing is assumed about
/// what was there before. What several bytes say together is only sure where the program knows that
/// nobody writes them now, as by a message that says so, and for the words of [`View::atomic_u64`].
///
/// Ranges that are not inside are the program's mistake, and panic as with slices.
///
/// ```
/// # fn main() -> percale::Result<()> {
/// use std::sync::atomic::Ordering;
///
/// let domain = percale::Fabric::loopback()?.domain()?;
/// let view = domain.region(64, percale::Access::ReadWrite)?.view();
/// view.put(0, 1.5f64);
/// assert_eq!(view.get::<f64>(0), 1.5);
/// view.atomic_u64(8).fetch_add(2, Ordering::AcqRel);
/// assert_eq!(view.to_vec()[8..16], 2u64.to_ne_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct View {
    memory: Arc<Memory>,
    at: usize,
    len: usize,
}

/// What is moved at a time.
const WORD: usize = size_of::<u64>();

impl View {
    pub(super) fn new(memory: Arc<Memory>) -> Self {
        let len = memory.len();
        Self { memory, at: 0, len }
    }

    /// A part that is within the memory.
    pub(super) fn part(memory: Arc<Memory>, at: usize, len: usize) -> Self {
        assert!(at.checked_add(len).is_some_and(|end| end <= memory.len()));
        Self { memory, at, len }
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte, for programs that have their own way of looking at such memory. It is valid as
    /// long as the view, or another of the same region.
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.at(self.at)
    }

    /// A part of it.
    ///
    /// # Panics
    /// If it is not inside.
    pub fn slice(&self, at: usize, len: usize) -> Self {
        self.address(at, len);
        Self { memory: self.memory.clone(), at: self.at + at, len }
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// If they are not inside.
    pub fn read(&self, at: usize, out: &mut [u8]) {
        let base = self.address(at, out.len());
        let head = base.align_offset(WORD).min(out.len());
        let (first, rest) = out.split_at_mut(head);
        let (words, last) = rest.split_at_mut(rest.len() / WORD * WORD);
        for (i, byte) in first.iter_mut().enumerate() {
            // SAFETY: inside, by `address`.
            *byte = unsafe { ptr::read_volatile(base.wrapping_add(i)) };
        }
        let base = base.wrapping_add(head);
        for (i, word) in words.chunks_exact_mut(WORD).enumerate() {
            let from = base.wrapping_add(i * WORD).cast::<u64>();
            // SAFETY: inside, by `address`; aligned, by `align_offset`.
            word.copy_from_slice(&unsafe { ptr::read_volatile(from) }.to_ne_bytes());
        }
        let base = base.wrapping_add(words.len());
        for (i, byte) in last.iter_mut().enumerate() {
            // SAFETY: inside, by `address`.
            *byte = unsafe { ptr::read_volatile(base.wrapping_add(i)) };
        }
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If they are not inside.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let base = self.address(at, bytes.len());
        let head = base.align_offset(WORD).min(bytes.len());
        let (first, rest) = bytes.split_at(head);
        let (words, last) = rest.split_at(rest.len() / WORD * WORD);
        for (i, byte) in first.iter().enumerate() {
            // SAFETY: inside, by `address`.
            unsafe { ptr::write_volatile(base.wrapping_add(i), *byte) };
        }
        let base = base.wrapping_add(head);
        for (i, chunk) in words.chunks_exact(WORD).enumerate() {
            let mut word = [0; WORD];
            word.copy_from_slice(chunk);
            let to = base.wrapping_add(i * WORD).cast::<u64>();
            // SAFETY: inside, by `address`; aligned, by `align_offset`.
            unsafe { ptr::write_volatile(to, u64::from_ne_bytes(word)) };
        }
        let base = base.wrapping_add(words.len());
        for (i, byte) in last.iter().enumerate() {
            // SAFETY: inside, by `address`.
            unsafe { ptr::write_volatile(base.wrapping_add(i), *byte) };
        }
    }

    /// All bytes as they are found.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }

    /// Copies a value out. It may be one that nobody has put there whole.
    ///
    /// # Panics
    /// If it is not inside.
    pub fn get<T: AnyBitPattern + NoUninit + Zeroable>(&self, at: usize) -> T {
        let mut value = T::zeroed();
        self.read(at, bytemuck::bytes_of_mut(&mut value));
        value
    }

    /// Copies a value in.
    ///
    /// # Panics
    /// If it is not inside.
    pub fn put<T: NoUninit>(&self, at: usize, value: T) {
        self.write(at, bytemuck::bytes_of(&value));
    }

    /// A word that peers change with atomic operations, and that is changed with such here.
    ///
    /// # Panics
    /// If it is not inside, or its place is no multiple of 8.
    pub fn atomic_u64(&self, at: usize) -> &AtomicU64 {
        let address = self.address(at, size_of::<u64>()).cast::<u64>();
        assert!(address.is_aligned(), "atomic words are aligned");
        // SAFETY: inside and aligned, and valid as long as `self`; atomics may be changed by others.
        unsafe { AtomicU64::from_ptr(address) }
    }

    /// As [`View::atomic_u64`], of half the size.
    ///
    /// # Panics
    /// If it is not inside, or its place is no multiple of 4.
    pub fn atomic_u32(&self, at: usize) -> &AtomicU32 {
        let address = self.address(at, size_of::<u32>()).cast::<u32>();
        assert!(address.is_aligned(), "atomic words are aligned");
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(address) }
    }

    /// The address of a range that is inside.
    fn address(&self, at: usize, len: usize) -> *mut u8 {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "{len} bytes at {at} are not within {}", self.len);
        self.memory.at(self.at + at)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(len: usize) -> View {
        View::new(Arc::new(Memory::new(len).unwrap()))
    }

    #[test]
    fn any_range_is_copied_whole() {
        let view = view(64);
        for at in 0..20 {
            for len in 0..30 {
                let bytes: Vec<u8> = (0..len).map(|i| (i + at) as u8 + 1).collect();
                view.write(at, &bytes);
                let mut out = vec![0; len];
                view.read(at, &mut out);
                assert_eq!(out, bytes);
                view.write(0, &[0; 64]);
            }
        }
        assert_eq!(view.to_vec(), [0; 64]);
    }

    #[test]
    fn nothing_outside_is_touched() {
        let whole = view(32);
        let part = whole.slice(8, 9);
        part.write(0, &[9; 9]);
        assert_eq!(whole.to_vec()[7..18], [0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0]);
        for (at, len) in [(0, 10), (10, 0), (usize::MAX, 2)] {
            let read = std::panic::AssertUnwindSafe(|| part.read(at, &mut vec![0; len]));
            assert!(std::panic::catch_unwind(read).is_err());
        }
        assert!(view(0).is_empty());
    }

    #[test]
    fn words_are_shared_between_threads() {
        let view = view(16);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        view.atomic_u64(8).fetch_add(1, core::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!((view.get::<u64>(8), view.get::<u64>(0)), (100, 0));
    }
}
