//! PENDING. Persistent memory: writing a processor's caches back to it (`FI_COMMIT_COMPLETE`).
//!
//! Bytes that have been stored sit in a cache until their line is written back, and are lost with
//! the power until then. Whether memory is persistent is its owner's knowledge; ordinary memory
//! takes no harm. A file's pages that the kernel caches are not reached this way: they need
//! `msync(2)`, by who has mapped them.

#[cfg(not(miri))]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use core::arch::asm;

use crate::mem::Buffers;

/// Whether this processor's caches can be written back from here. Where not, nobody may promise it.
pub const POSSIBLE: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Writes the lines of all pieces back; when it returns they are in the memory's power-fail domain.
pub fn write_back(memory: &Buffers) {
    let writer = Writer::of_host();
    for piece in memory.iov().iter().filter(|piece| piece.len != 0) {
        let first = piece.base.addr();
        // Lines are powers of two; the last byte's address exists, so nothing wraps.
        let begin = first & !(writer.line - 1);
        for line in (begin..=first + (piece.len - 1)).step_by(writer.line) {
            // SAFETY: the line has a byte of the piece in it, which `Buffers::new`'s caller vouches
            // for; writing back changes no memory.
            unsafe { writer.line_at(line) };
        }
    }
    Writer::complete();
}

/// How lines are written back.
#[derive(Clone, Copy, Debug)]
struct Writer {
    /// Bytes of a line.
    line: usize,
    /// The better of the two instructions exists.
    better: bool,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Writer {
    /// `CLWB` leaves the line in the cache; `CLFLUSH`, which every processor has, drops it.
    fn of_host() -> Self {
        use core::arch::x86_64::__cpuid_count;
        const CLWB: u32 = 1 << 24;
        static HOST: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        #[allow(unused_unsafe, reason = "the call is safe from one release of the compiler on")]
        let ask = |leaf| {
            // SAFETY: every processor of this architecture has the instruction.
            unsafe { __cpuid_count(leaf, 0) }
        };
        let better = || ask(0).eax >= 7 && ask(7).ebx & CLWB != 0;
        Self { line: 64, better: *HOST.get_or_init(better) }
    }

    /// # Safety
    /// Memory is mapped at the address.
    unsafe fn line_at(self, address: usize) {
        if self.better {
            // SAFETY: the caller's promise, and the processor has the instruction.
            unsafe { asm!("clwb [{}]", in(reg) address, options(nostack, preserves_flags)) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { asm!("clflush [{}]", in(reg) address, options(nostack, preserves_flags)) };
        }
    }

    /// Waits for the lines that have been begun.
    fn complete() {
        // SAFETY: a fence touches no memory.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) };
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
impl Writer {
    /// `DC CVAP` reaches the point of persistence. Processors without it have none beyond the point
    /// of coherency, which `DC CVAC` reaches.
    fn of_host() -> Self {
        /// `HWCAP_DCPOP`.
        const DCPOP: libc::c_ulong = 1 << 16;
        let types: u64;
        // SAFETY: the kernel lets programs read the register with the sizes of lines, or reads it
        // for them.
        unsafe {
            asm!("mrs {}, ctr_el0", out(reg) types, options(nomem, nostack, preserves_flags))
        };
        // SAFETY: asks the C library for a word that the kernel has left with it.
        let features = unsafe { libc::getauxval(libc::AT_HWCAP) };
        Self { line: 4 << ((types >> 16) & 0xf), better: features & DCPOP != 0 }
    }

    /// # Safety
    /// Memory is mapped at the address.
    unsafe fn line_at(self, address: usize) {
        if self.better {
            // SAFETY: the caller's promise, and the processor has the instruction, spelled as the
            // system instruction that it is for assemblers of the base architecture.
            unsafe {
                asm!("sys #3, c7, c12, #1, {}", in(reg) address, options(nostack, preserves_flags))
            };
        } else {
            // SAFETY: the caller's promise.
            unsafe { asm!("dc cvac, {}", in(reg) address, options(nostack, preserves_flags)) };
        }
    }

    /// Waits for the lines that have been begun.
    fn complete() {
        // SAFETY: a barrier touches no memory.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Writer {
    const fn of_host() -> Self {
        Self { line: 64, better: false }
    }

    /// # Safety
    /// None is needed.
    const unsafe fn line_at(self, _: usize) {}

    const fn complete() {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::op::IoVec;

    #[test]
    fn bytes_stay_as_they_are() {
        let mut bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        let expected = bytes.clone();
        for (at, len) in [(0, 10_000), (1, 1), (63, 2), (64, 64), (9_999, 1), (0, 0)] {
            let piece = IoVec { base: bytes.as_mut_ptr().wrapping_add(at), len };
            // SAFETY: the piece lies in `bytes`, which lives on.
            let memory = unsafe { Buffers::new(&[piece, IoVec::EMPTY]) }.unwrap();
            write_back(&memory);
        }
        assert_eq!(bytes, expected);
        for line in [Writer::of_host().line, 64] {
            assert!(line.is_power_of_two() && line >= 16);
        }
    }
}
