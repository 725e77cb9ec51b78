//! PENDING. Attempts to reach a peer, of endpoints that open connections on demand; and how such an
//! endpoint is told from a later one at its address.

mod asking;

use std::time::{Duration, Instant};

pub use asking::Asking;

use crate::Errno;

/// Between two attempts to reach a peer: at first, and at most.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// How long a peer that was connected before may take to come back.
const AGAIN: Duration = Duration::from_secs(1);
/// Answers in a row that are none of the protocol before it is over: a port may just have changed hands.
const STRANGERS: u8 = 3;

/// How far the attempts to reach a peer are.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    /// Those in a row that failed.
    failures: u32,
    /// When to try again, and when to give up.
    retry: Option<Instant>,
    give_up: Option<Instant>,
    /// Answers of strangers in a row.
    strangers: u8,
    /// The peer was there, so that it has been given more time.
    given_time: bool,
    /// It has been connected.
    met: bool,
}

impl Attempts {
    /// Begins another attempt with a peer that may take so long to be reached; returns when to give up.
    /// `None`: the pause behind the last one is not over.
    pub fn begin(&mut self, now: Instant, patience: Duration) -> Option<Instant> {
        if self.retry.is_some_and(|at| at > now) {
            return None;
        }
        self.retry = None;
        let patience = if self.met { patience.min(AGAIN) } else { patience };
        Some(*self.give_up.get_or_insert(now + patience))
    }

    /// One has failed; returns when to try again. `None`: that is over. `met`: the peer's host has
    /// answered, and may have given up because we made no progress. `port` is the peer's; at 0 nobody
    /// will ever listen. After `EPROTO` that was not it, but a stranger, who will be no other the next
    /// time.
    pub fn fail(
        &mut self,
        now: Instant,
        patience: Duration,
        reason: Errno,
        met: bool,
        port: u16,
    ) -> Option<Instant> {
        let met = met && reason != Errno::EPROTO;
        self.strangers = if reason == Errno::EPROTO { self.strangers + 1 } else { 0 };
        if self.strangers >= STRANGERS || port == 0 {
            self.end();
            return None;
        }
        let pause = PAUSE.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX);
        let at = now + jittered(pause, port, self.failures);
        self.failures += 1;
        if met && !self.given_time && self.give_up.is_some_and(|end| end <= at) {
            self.given_time = true;
            self.give_up = Some(now + patience);
        }
        self.give_up.filter(|end| at < *end)?;
        self.retry = Some(at);
        Some(at)
    }

    /// The peer reaches for us instead; returns when that should have come to something.
    pub fn yield_to_peer(&mut self, now: Instant) -> Instant {
        let at = self.give_up.unwrap_or(now);
        self.retry = Some(at);
        at
    }

    /// Whether it is time to try again.
    pub fn is_due(&self, now: Instant) -> bool {
        self.retry.is_some_and(|at| at <= now)
    }

    /// Whether it is time to give up.
    pub fn is_late(&self, now: Instant) -> bool {
        self.give_up.is_some_and(|end| end <= now)
    }

    /// None has failed yet.
    pub const fn is_first(&self) -> bool {
        self.failures == 0
    }

    /// Another one follows.
    pub const fn is_pending(&self) -> bool {
        self.retry.is_some()
    }

    /// The peer has been reached.
    pub const fn succeed(&mut self) {
        self.met = true;
        self.end();
    }

    /// Nobody wants to reach it any more.
    pub const fn end(&mut self) {
        (self.retry, self.give_up, self.failures) = (None, None, 0);
        (self.strangers, self.given_time) = (0, false);
    }
}

/// What is to be done with a request in the name of a peer that is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The peer has gone, and this is its successor.
    Believed,
    /// The peer is there.
    Refused,
    /// To be asked for again, after [`LOOK`].
    Open,
}

/// Between two looks at what has shown about such a request.
pub const LOOK: Duration = Duration::from_millis(20);

/// Half to all of a pause, so that peers that failed together do not come back together.
fn jittered(pause: Duration, port: u16, failures: u32) -> Duration {
    let seed = (u32::from(port) ^ std::process::id()).wrapping_add(failures.wrapping_mul(97));
    let part = seed.wrapping_mul(0x9e37_79b9) >> 16;
    pause / 2 + pause.mul_f64(f64::from(part) / 131_072.0)
}

/// A number that no other endpoint is likely to have.
pub fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(15);
    const REFUSED: Errno = Errno::ECONNREFUSED;

    #[test]
    fn pauses_grow_until_it_is_over() {
        let begin = Instant::now();
        let (mut now, mut attempts) = (begin, Attempts::default());
        let mut count = 0;
        while let Some(end) = attempts.begin(now, PATIENCE) {
            assert_eq!(end, begin + PATIENCE);
            let Some(at) = attempts.fail(now, PATIENCE, REFUSED, false, 5000) else { break };
            let pause = at - now;
            assert!(pause >= PAUSE / 2 && pause <= PAUSE_MAX, "{pause:?}");
            assert!(attempts.is_pending() && !attempts.is_due(now) && attempts.is_due(at));
            assert_eq!(attempts.begin(now, PATIENCE), None);
            (now, count) = (at, count + 1);
        }
        assert!((30..80).contains(&count), "{count}");
        assert!(now < begin + PATIENCE && !attempts.is_late(now));
        assert!(attempts.is_late(begin + PATIENCE));
    }

    #[test]
    fn whoever_was_there_is_given_more_time_once() {
        let begin = Instant::now();
        let mut attempts = Attempts::default();
        let end = attempts.begin(begin, PATIENCE).unwrap();
        let again = attempts.fail(end, PATIENCE, REFUSED, true, 5000).unwrap();
        let later = attempts.begin(again, PATIENCE).unwrap();
        assert_eq!(later, end + PATIENCE);
        assert_eq!(attempts.fail(later, PATIENCE, REFUSED, true, 5000), None);
    }

    #[test]
    fn strangers_are_asked_three_times() {
        let now = Instant::now();
        let mut attempts = Attempts::default();
        for _ in 0..2 {
            attempts.begin(now, PATIENCE);
            let first = attempts.fail(now, PATIENCE, Errno::EPROTO, true, 5000).unwrap();
            attempts.begin(first, PATIENCE);
            // Somebody else has been there in between.
            let next = attempts.fail(first, PATIENCE, REFUSED, false, 5000).unwrap();
            let mut at = next;
            for _ in 0..2 {
                attempts.begin(at, PATIENCE);
                at = attempts.fail(at, PATIENCE, Errno::EPROTO, true, 5000).unwrap();
            }
            attempts.begin(at, PATIENCE);
            assert_eq!(attempts.fail(at, PATIENCE, Errno::EPROTO, true, 5000), None);
            assert!(at - now < Duration::from_millis(50), "and soon");
            assert!(!attempts.is_pending());
        }
    }

    #[test]
    fn nobody_is_at_port_zero() {
        let (now, mut attempts) = (Instant::now(), Attempts::default());
        attempts.begin(now, PATIENCE);
        assert_eq!(attempts.fail(now, PATIENCE, REFUSED, false, 0), None);
        assert!(!attempts.is_pending());
    }

    #[test]
    fn whoever_was_connected_gets_a_second() {
        let now = Instant::now();
        let mut attempts = Attempts::default();
        attempts.begin(now, PATIENCE);
        attempts.succeed();
        assert!(!attempts.is_pending());
        assert_eq!(attempts.begin(now, PATIENCE), Some(now + AGAIN));
        attempts.end();
        assert_eq!(attempts.begin(now, AGAIN / 2), Some(now + AGAIN / 2));
    }

    #[test]
    fn a_peer_that_reaches_for_us_has_as_long() {
        let now = Instant::now();
        let mut attempts = Attempts::default();
        let end = attempts.begin(now, PATIENCE).unwrap();
        assert_eq!(attempts.yield_to_peer(now), end);
        assert!(!attempts.is_due(now) && attempts.is_due(end) && attempts.is_late(end));
    }
}
