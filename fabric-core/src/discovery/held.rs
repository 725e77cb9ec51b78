//! SETUP. Reasons that wait.
//!
//! Programs ask for what they would like best, and then for less. Why a discovery finds nothing is no
//! news if a later one finds something. So where nothing but the program's own hints is in the way, the
//! reasons are kept, and told at the program's end: those of the last discovery, unless one has found
//! something since. Who logs more than warnings is told at once.

use std::sync::OnceLock;

use super::{Rejection, rejection::Distance};
use crate::{
    fork::ForkSafe,
    log::{self, Level, Subsys},
};

/// The reasons, and the process that they are for: a forked child has its parent's memory.
static HELD: ForkSafe<(u32, Vec<Rejection>)> = ForkSafe::new((0, Vec::new()));

/// Tells the reasons for which nothing was found, now or at the end.
pub(super) fn tell(report: &[Rejection]) {
    let own_hints = report.first().is_some_and(|nearest| nearest.distance() == Distance::Hints);
    if own_hints && log::is_own_and_warns_only() && is_told_at_end() {
        *HELD.lock() = (std::process::id(), report.to_vec());
    } else {
        write(report);
    }
}

/// Something has been found.
pub(super) fn forget() {
    HELD.lock().1.clear();
}

fn write(report: &[Rejection]) {
    for rejection in report {
        crate::log_at!(Level::Warn, &rejection.provider, Subsys::Core, "{rejection}");
    }
}

/// Whether the end of the program, or of this library in it, comes by here.
fn is_told_at_end() -> bool {
    static PLACED: OnceLock<bool> = OnceLock::new();
    // SAFETY: the handler needs nothing but memory, locks and the log, which are there until the
    // process, or the library in it, has gone; it does not unwind.
    *PLACED.get_or_init(|| unsafe { libc::atexit(at_end) } == 0)
}

extern "C" fn at_end() {
    // Whoever holds the lock now will not let it go any more.
    let Some(mut held) = HELD.try_lock() else { return };
    let (owner, report) = std::mem::take(&mut *held);
    drop(held);
    if owner == std::process::id() {
        write(&report);
    }
}
