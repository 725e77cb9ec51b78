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

/// Has `engine` make progress until it owes nothing, or until the time that counts from `begin` is over.
pub fn settle<E>(
    engine: &mut E,
    begin: Instant,
    patience: Patience,
    progress: impl Fn(&mut E),
    owes: impl Fn(&mut E) -> usize,
) {
    let (mut owed, mut moved) = (owes(engine), Instant::now());
    while owed != 0 && begin.elapsed() < patience.whole && moved.elapsed() < patience.stalled {
        progress(engine);
        let left = owes(engine);
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
        let mut owed = 5;
        let patience = Patience { whole: NEVER, stalled: NEVER };
        settle(&mut owed, Instant::now(), patience, |owed| *owed -= 1, |owed| *owed);
        assert_eq!(owed, 0);
    }

    #[test]
    fn not_for_a_peer_that_takes_nothing() {
        for patience in [
            Patience { whole: NEVER, stalled: Duration::from_millis(5) },
            Patience { whole: Duration::from_millis(5), stalled: NEVER },
        ] {
            let mut owed = 5;
            settle(&mut owed, Instant::now(), patience, |_| (), |owed| *owed);
            assert_eq!(owed, 5);
        }
    }
}
