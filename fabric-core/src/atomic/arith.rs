//! HOT. Elements of atomic operations: numbers, and the CPU atomics that hold their bits.

use core::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};

/// The bits of an element as an unsigned integer of the same width, and the CPU atomic of it.
///
/// Orderings are acquire and release: a peer that learns of an atomic operation through another
/// one (a lock word, a flag) sees what was written before it, as with CPU atomics.
pub(super) trait Bits: Copy + PartialEq {
    /// The CPU atomic.
    type Atomic;

    /// Views an element of application memory.
    ///
    /// # Safety
    /// `element` is aligned to its size, valid for reads and writes for `'a`, and meanwhile
    /// changed by others with atomic instructions only.
    unsafe fn at<'a>(element: *mut u8) -> &'a Self::Atomic;

    /// Element `index` of unaligned bytes; zero where the bytes end, so that an operation without
    /// an operand or comparison reads zeros.
    fn read(bytes: &[u8], index: usize) -> Self;
    /// Stores element `index` into unaligned bytes; nothing where the bytes end.
    fn write(self, bytes: &mut [u8], index: usize);

    fn load(cell: &Self::Atomic) -> Self;
    fn store(cell: &Self::Atomic, new: Self);
    fn swap(cell: &Self::Atomic, new: Self) -> Self;
    fn compare_exchange(cell: &Self::Atomic, seen: Self, new: Self) -> Result<Self, Self>;
    fn fetch_add(cell: &Self::Atomic, operand: Self) -> Self;
    fn fetch_or(cell: &Self::Atomic, operand: Self) -> Self;
    fn fetch_and(cell: &Self::Atomic, operand: Self) -> Self;
    fn fetch_xor(cell: &Self::Atomic, operand: Self) -> Self;
    /// The bits of `operand` where `mask` is set, those of `self` elsewhere.
    fn masked(self, operand: Self, mask: Self) -> Self;
}

/// What every datatype with atomic operations can do.
pub(super) trait Number: Copy + PartialEq {
    type Bits: Bits;
    const ZERO: Self;
    const ONE: Self;
    fn from_bits(bits: Self::Bits) -> Self;
    fn to_bits(self) -> Self::Bits;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;

    /// C truth: not zero. A NaN is true.
    fn truth(self) -> bool {
        self != Self::ZERO
    }
    fn from_truth(truth: bool) -> Self {
        if truth { Self::ONE } else { Self::ZERO }
    }
}

macro_rules! bits {
    ($($int:ty, $atomic:ty;)*) => {$(
        impl Bits for $int {
            type Atomic = $atomic;

            #[inline]
            unsafe fn at<'a>(element: *mut u8) -> &'a $atomic {
                // SAFETY: the caller promises alignment, validity and atomic-only access for 'a.
                unsafe { <$atomic>::from_ptr(element.cast()) }
            }
            #[inline]
            fn read(bytes: &[u8], index: usize) -> Self {
                let (elements, _) = bytes.as_chunks();
                elements.get(index).map_or(0, |element| Self::from_ne_bytes(*element))
            }
            #[inline]
            fn write(self, bytes: &mut [u8], index: usize) {
                let (elements, _) = bytes.as_chunks_mut();
                if let Some(element) = elements.get_mut(index) {
                    *element = self.to_ne_bytes();
                }
            }
            #[inline]
            fn load(cell: &$atomic) -> Self {
                cell.load(Acquire)
            }
            #[inline]
            fn store(cell: &$atomic, new: Self) {
                cell.store(new, Release);
            }
            #[inline]
            fn swap(cell: &$atomic, new: Self) -> Self {
                cell.swap(new, AcqRel)
            }
            #[inline]
            fn compare_exchange(cell: &$atomic, seen: Self, new: Self) -> Result<Self, Self> {
                cell.compare_exchange(seen, new, AcqRel, Acquire)
            }
            #[inline]
            fn fetch_add(cell: &$atomic, operand: Self) -> Self {
                cell.fetch_add(operand, AcqRel)
            }
            #[inline]
            fn fetch_or(cell: &$atomic, operand: Self) -> Self {
                cell.fetch_or(operand, AcqRel)
            }
            #[inline]
            fn fetch_and(cell: &$atomic, operand: Self) -> Self {
                cell.fetch_and(operand, AcqRel)
            }
            #[inline]
            fn fetch_xor(cell: &$atomic, operand: Self) -> Self {
                cell.fetch_xor(operand, AcqRel)
            }
            #[inline]
            fn masked(self, operand: Self, mask: Self) -> Self {
                (operand & mask) | (self & !mask)
            }
        }
    )*};
}

bits! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

macro_rules! integers {
    ($($int:ty, $bits:ty;)*) => {$(
        impl Number for $int {
            type Bits = $bits;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline]
            fn from_bits(bits: $bits) -> Self {
                bits as Self
            }
            #[inline]
            fn to_bits(self) -> $bits {
                self as $bits
            }
            #[inline]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}

integers! {
    i8, u8;
    u8, u8;
    i16, u16;
    u16, u16;
    i32, u32;
    u32, u32;
    i64, u64;
    u64, u64;
}

macro_rules! floats {
    ($($float:ty, $bits:ty;)*) => {$(
        impl Number for $float {
            type Bits = $bits;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline]
            fn from_bits(bits: $bits) -> Self {
                Self::from_bits(bits)
            }
            #[inline]
            fn to_bits(self) -> $bits {
                self.to_bits()
            }
            #[inline]
            fn sum(self, other: Self) -> Self {
                self + other
            }
            #[inline]
            fn product(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}

floats! {
    f32, u32;
    f64, u64;
}

/// The bits of an element from those of its halves, in the order of addresses.
#[inline]
pub(super) fn joined(halves: [u32; 2]) -> u64 {
    let [[a, b, c, d], [e, f, g, h]] = halves.map(u32::to_ne_bytes);
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The opposite of [`joined`].
#[inline]
pub(super) fn halved(whole: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = whole.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
}

/// `FI_FLOAT_COMPLEX`: C's layout, real part in the lower address.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Complex {
    re: f32,
    im: f32,
}

impl Number for Complex {
    type Bits = u64;
    const ZERO: Self = Self { re: 0.0, im: 0.0 };
    const ONE: Self = Self { re: 1.0, im: 0.0 };
    #[inline]
    fn from_bits(bits: u64) -> Self {
        let [re, im] = halved(bits).map(f32::from_bits);
        Self { re, im }
    }
    #[inline]
    fn to_bits(self) -> u64 {
        joined([self.re, self.im].map(f32::to_bits))
    }
    #[inline]
    fn sum(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
    /// The textbook product, without C's recovery of infinities from NaN parts.
    #[inline]
    fn product(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}
