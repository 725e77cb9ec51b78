//! SETUP. What the application believes sent leaves before its endpoint does.

use std::time::{Duration, Instant};

/// How long closing waits.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// In all.
    pub whole: Duration,
    /// While nothing leaves.
    pub stalled: Duration,
}

/// Has progress made until nothing is owed, or until the time that counts from `begin` is over.
/// `progress` makes one call's worth of it, and returns what is owed then.
pub fn settle(
    mut owed: usize,
    begin: Instant,
    patience: Patience,
    mut progress: impl FnMut() -> usize,
) {
    let mut moved = Instant::now();
    while owed != 0 && begin.elapsed() < patience.whole && moved.elapsed() < patience.stalled {
        let left = progress();
        if left == owed {
            std::thread::yield_now();
        } else {
            (owed, moved) = (left, Instant::now());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NEVER: Duration = Duration::from_secs(3600);

    #[test]
    fn until_nothing_is_owed() {
        let mut left = 5;
        let patience = Patience { whole: NEVER, stalled: NEVER };
        settle(left, Instant::now(), patience, || {
            left -= 1;
            left
        });
        assert_eq!(left, 0);
    }

    #[test]
    fn not_for_a_peer_that_takes_nothing() {
        for patience in [
            Patience { whole: NEVER, stalled: Duration::from_millis(5) },
            Patience { whole: Duration::from_millis(5), stalled: NEVER },
        ] {
            let begin = Instant::now();
            settle(5, begin, patience, || 5);
            assert!(begin.elapsed() >= Duration::from_millis(5));
        }
    }
}
