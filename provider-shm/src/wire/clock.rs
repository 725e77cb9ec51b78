//! HOT. How often sockets are looked at, on a clock that costs a few cycles.

/// Looks at the sockets are this far apart while packets are polled for.
pub(super) const IDLE_TICKS: u64 = ticks_of(100);
/// The same for some milliseconds after a peer was new: others are about to come.
pub(super) const YOUNG_TICKS: u64 = ticks_of(5);
/// That many looks are made at this pace.
pub(super) const YOUNG_LOOKS: u32 = 2000;
/// The same while an answer is expected.
pub(super) const HURRY_TICKS: u64 = ticks_of(2);

/// A large ring that nothing is put into for so long may be taken back.
pub(crate) const REST_TICKS: u64 = ticks_of(10_000);

/// Ticks of about `micros` microseconds: the counters of today's processors run at 1 to 5 GHz.
const fn ticks_of(micros: u64) -> u64 {
    if cfg!(target_arch = "x86_64") { micros * 2500 } else { micros * 1000 }
}

/// A clock that costs a few cycles; only differences mean something, and those not much.
#[inline]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no precondition; every x86-64 processor has it.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    {
        use std::{sync::OnceLock, time::Instant};
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}
