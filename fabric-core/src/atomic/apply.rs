//! HOT. Application of an atomic operation to the target's memory.

use super::{
    arith::{Bits, Complex, Number, halved, joined},
    atomic_op::*,
    datatype::*,
    table::{datatype_size, valid},
};
use crate::{
    Errno, Result,
    fork::ForkSafe,
    op::{AtomicKind, IoVec},
};

/// Whether a piece of target memory can hold whole elements of a datatype: `EINVAL` if it is aligned
/// less than C aligns them, or its length no multiple.
///
/// A target of several pieces is checked whole before the first is changed, so that a refused
/// operation has no effect.
pub fn check_target(datatype: u32, piece: &IoVec) -> Result<()> {
    let size = datatype_size(datatype).ok_or(Errno::EOPNOTSUPP)?;
    let alignment = if datatype == FLOAT_COMPLEX { align_of::<f32>() } else { size };
    let fits = (piece.base as usize).is_multiple_of(alignment) && piece.len.is_multiple_of(size);
    if fits { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Changes `count` elements at `target`, each with a CPU atomic, and stores their old values in
/// `result`.
///
/// `operand`, `compare` and `result` hold exactly `count` elements where the operation uses them
/// and are empty where not: no operand for an atomic read, comparison values for the comparing
/// family only, results for the fetching and comparing families only. They need no alignment.
///
/// A complex number needs the alignment of its parts. One that crosses the words of CPU atomics is
/// changed under a lock of this process, and its parts with an atomic each.
///
/// Integers wrap. Floating point numbers are compared by value: zeros of both signs are equal, a
/// NaN equals nothing, and minimum and maximum keep the target if either side is a NaN.
///
/// Fails without effect: `EOPNOTSUPP` as [`valid`], `EINVAL` for a misaligned target or a wrong
/// length.
///
/// # Safety
/// `target` is valid for reads and writes of `count` elements during the call (a resolved memory
/// region), does not overlap `operand`, `compare` or `result`, and is meanwhile changed by others
/// with atomic instructions only, which the application promises by exposing the region to atomic
/// operations.
#[expect(
    clippy::too_many_arguments,
    reason = "one call per request, each part checked against the others"
)]
pub unsafe fn apply(
    kind: AtomicKind,
    datatype: u32,
    op: u32,
    target: *mut u8,
    operand: &[u8],
    compare: &[u8],
    result: &mut [u8],
    count: usize,
) -> Result<()> {
    let size = valid(kind, datatype, op)?;
    let bytes = count.checked_mul(size).ok_or(Errno::EINVAL)?;
    let used = |used: bool| if used { bytes } else { 0 };
    if operand.len() != used(op != ATOMIC_READ)
        || compare.len() != used(kind == AtomicKind::Compare)
        || result.len() != used(kind != AtomicKind::Base)
    {
        return Err(Errno::EINVAL);
    }
    check_target(datatype, &IoVec { base: target, len: bytes })?;

    let run = Run { target, operand, compare, result, count };
    // SAFETY: the caller vouches for the target, its alignment has just been checked against that of
    // the datatype, which is the size of the type picked here but for complex numbers.
    unsafe {
        match datatype {
            INT8 => run.integer::<i8>(op),
            UINT8 => run.integer::<u8>(op),
            INT16 => run.integer::<i16>(op),
            UINT16 => run.integer::<u16>(op),
            INT32 => run.integer::<i32>(op),
            UINT32 => run.integer::<u32>(op),
            INT64 => run.integer::<i64>(op),
            UINT64 => run.integer::<u64>(op),
            FLOAT => run.ordered::<f32>(op),
            DOUBLE => run.ordered::<f64>(op),
            FLOAT_COMPLEX if target.addr().is_multiple_of(size) => run.number::<Complex>(op),
            FLOAT_COMPLEX => run.in_turn(op),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}

/// The operands of one call.
///
/// The methods pick the operation once and then loop. All of them are unsafe for the same reason:
/// the target holds `count` aligned elements of the type that they are called with.
struct Run<'a> {
    target: *mut u8,
    operand: &'a [u8],
    compare: &'a [u8],
    result: &'a mut [u8],
    count: usize,
}

impl Run<'_> {
    /// Operations of integers; the rest as for ordered numbers.
    unsafe fn integer<N: Number + PartialOrd>(self, op: u32) -> Result<()> {
        // SAFETY: as our caller's.
        unsafe {
            match op {
                SUM => self.each::<N>(|cell, operand, _| N::Bits::fetch_add(cell, operand)),
                BOR => self.each::<N>(|cell, operand, _| N::Bits::fetch_or(cell, operand)),
                BAND => self.each::<N>(|cell, operand, _| N::Bits::fetch_and(cell, operand)),
                BXOR => self.each::<N>(|cell, operand, _| N::Bits::fetch_xor(cell, operand)),
                CSWAP => self.each::<N>(|cell, operand, compare| {
                    match N::Bits::compare_exchange(cell, compare, operand) {
                        Ok(old) | Err(old) => old,
                    }
                }),
                MSWAP => self.each::<N>(|cell, operand, mask| {
                    update::<N::Bits>(cell, |old| Some(old.masked(operand, mask)))
                }),
                _ => self.ordered::<N>(op),
            }
        }
    }

    /// Operations that need an order; the rest as for any number.
    unsafe fn ordered<N: Number + PartialOrd>(self, op: u32) -> Result<()> {
        // SAFETY: as our caller's.
        unsafe {
            match op {
                MIN => self.replace_if::<N>(|target, operand, _| operand < target),
                MAX => self.replace_if::<N>(|target, operand, _| operand > target),
                CSWAP_LE => self.replace_if::<N>(|target, _, compare| compare <= target),
                CSWAP_LT => self.replace_if::<N>(|target, _, compare| compare < target),
                CSWAP_GE => self.replace_if::<N>(|target, _, compare| compare >= target),
                CSWAP_GT => self.replace_if::<N>(|target, _, compare| compare > target),
                _ => self.number::<N>(op),
            }
        }
    }

    unsafe fn number<N: Number>(self, op: u32) -> Result<()> {
        // SAFETY: as our caller's.
        unsafe {
            match op {
                SUM => self.compute::<N>(|target, operand| target.sum(operand)),
                PROD => self.compute::<N>(|target, operand| target.product(operand)),
                LOR => self.compute::<N>(|t, o| N::from_truth(t.truth() | o.truth())),
                LAND => self.compute::<N>(|t, o| N::from_truth(t.truth() & o.truth())),
                LXOR => self.compute::<N>(|t, o| N::from_truth(t.truth() ^ o.truth())),
                CSWAP => self.replace_if::<N>(|target, _, compare| compare == target),
                CSWAP_NE => self.replace_if::<N>(|target, _, compare| compare != target),
                ATOMIC_READ => self.each::<N>(|cell, _, _| N::Bits::load(cell)),
                ATOMIC_WRITE if self.result.is_empty() => self.each::<N>(|cell, operand, _| {
                    N::Bits::store(cell, operand);
                    operand
                }),
                ATOMIC_WRITE => self.each::<N>(|cell, operand, _| N::Bits::swap(cell, operand)),
                _ => Err(Errno::EOPNOTSUPP),
            }
        }
    }

    /// Operations of complex numbers that lie so that no CPU atomic reaches them as a whole: all of
    /// this process, one after the other.
    unsafe fn in_turn(self, op: u32) -> Result<()> {
        static TURN: ForkSafe<()> = ForkSafe::new(());
        const WHOLE: usize = size_of::<u64>();
        let part = |all: usize, at: usize| if all == 0 { 0..0 } else { at..at + WHOLE };
        let results = self.result.len();
        for at in (0..self.count).map(|index| index * WHOLE) {
            // SAFETY: in one of the `count` elements that the caller vouches for; each half is aligned.
            let halves = unsafe { [0, WHOLE / 2].map(|half| u32::at(self.target.add(at + half))) };
            let _turn = TURN.lock();
            let old = halves.map(u32::load);
            let mut whole = joined(old);
            let run = Run {
                target: (&raw mut whole).cast(),
                operand: &self.operand[part(self.operand.len(), at)],
                compare: &self.compare[part(self.compare.len(), at)],
                result: &mut self.result[part(results, at)],
                count: 1,
            };
            // SAFETY: one element of our own.
            unsafe { run.number::<Complex>(op)? };
            for ((half, old), new) in halves.into_iter().zip(old).zip(halved(whole)) {
                // What is not changed is not written, so that reading is reading.
                if new != old {
                    u32::store(half, new);
                }
            }
        }
        Ok(())
    }

    /// Replaces an element by a function of itself and its operand.
    unsafe fn compute<N: Number>(self, f: impl Fn(N, N) -> N) -> Result<()> {
        // SAFETY: as our caller's.
        unsafe {
            self.each::<N>(|cell, operand, _| {
                let operand = N::from_bits(operand);
                update::<N::Bits>(cell, |old| Some(f(N::from_bits(old), operand).to_bits()))
            })
        }
    }

    /// Replaces an element by its operand if `(target, operand, compare)` say so.
    unsafe fn replace_if<N: Number>(self, test: impl Fn(N, N, N) -> bool) -> Result<()> {
        // SAFETY: as our caller's.
        unsafe {
            self.each::<N>(|cell, operand, compare| {
                let (new, compare) = (N::from_bits(operand), N::from_bits(compare));
                update::<N::Bits>(cell, |old| {
                    test(N::from_bits(old), new, compare).then_some(operand)
                })
            })
        }
    }

    /// Runs `step(cell, operand, compare)`, which returns the old bits, on every element.
    unsafe fn each<N: Number>(
        self,
        step: impl Fn(&<N::Bits as Bits>::Atomic, N::Bits, N::Bits) -> N::Bits,
    ) -> Result<()> {
        for index in 0..self.count {
            // SAFETY: `index` is below the `count` elements that the caller vouches for, aligned
            // as the first one is.
            let cell = unsafe { N::Bits::at(self.target.add(index * size_of::<N::Bits>())) };
            let operand = N::Bits::read(self.operand, index);
            let compare = N::Bits::read(self.compare, index);
            step(cell, operand, compare).write(self.result, index);
        }
        Ok(())
    }
}

/// Changes a cell with a compare-and-exchange loop until `f` has seen the value that it replaces;
/// `None` leaves the cell alone. Returns the old bits.
fn update<B: Bits>(cell: &B::Atomic, f: impl Fn(B) -> Option<B>) -> B {
    let mut seen = B::load(cell);
    while let Some(new) = f(seen) {
        match B::compare_exchange(cell, seen, new) {
            Ok(old) => return old,
            Err(now) => seen = now,
        }
    }
    seen
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
