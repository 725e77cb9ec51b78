//! HOT. Whether the program comes back at once behind what it posts in a window.
//!
//! The kernel may hold the end of a window back until the next progress call, which saves most of what
//! sending messages one by one costs. A program that polls makes that call at once. Another one
//! computes first, or waits for its peer by other ways, and would have its peer wait as long. Which
//! one it is shows in what it has done so far, in the manner of a two-bit branch predictor: two windows
//! in a row that it did not come back behind, and nothing is held back any more until it has come back
//! behind two.

use std::time::{Duration, Instant};

/// Coming back within this time is at once: sending a window one by one takes longer.
const SOON: Duration = Duration::from_micros(100);
/// The highest score, and the one from which on it is expected to come back.
const MOST: u8 = 3;
const TRUSTED: u8 = 2;

/// What is known of the program. The default is that it does not come back.
#[derive(Debug, Default)]
pub(super) struct Habit {
    /// When the last operation of a window was posted, if no progress call has followed.
    posted: Option<Instant>,
    score: u8,
}

impl Habit {
    /// An operation that could be held back is posted. Whether the program is expected to come back.
    #[inline]
    pub(super) fn posts(&mut self, now: Instant) -> bool {
        if let Some(before) = self.posted.replace(now)
            && !is_soon(before, now)
        {
            self.score = self.score.saturating_sub(1);
        }
        self.score >= TRUSTED
    }

    /// A progress call.
    #[inline]
    pub(super) fn comes_back(&mut self, now: impl FnOnce() -> Instant) {
        if let Some(before) = self.posted.take() {
            self.score = if is_soon(before, now()) {
                (self.score + 1).min(MOST)
            } else {
                self.score.saturating_sub(1)
            };
        }
    }
}

fn is_soon(before: Instant, now: Instant) -> bool {
    now.saturating_duration_since(before) <= SOON
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Duration = Duration::from_millis(1);

    /// A window of three, and a progress call after a time. Whether its operations may be held back.
    fn window(habit: &mut Habit, now: &mut Instant, pause: Duration) -> bool {
        let held = [(); 3].map(|()| habit.posts(*now));
        *now += pause;
        habit.comes_back(|| *now);
        assert!(held == [held[0]; 3]);
        held[0]
    }

    #[test]
    fn who_comes_back_at_once_will_do_so_again() {
        let (mut habit, mut now) = (Habit::default(), Instant::now());
        let mut windows = |pause, count| {
            (0..count).map(|_| window(&mut habit, &mut now, pause)).collect::<Vec<_>>()
        };
        assert_eq!(windows(LATE, 3), [false; 3]);
        assert_eq!(windows(SOON, 6), [false, false, true, true, true, true]);
        assert_eq!(windows(LATE, 1), [true]);
        assert_eq!(windows(SOON, 2), [true; 2]);
        assert_eq!(windows(LATE, 4), [true, true, false, false]);
        assert_eq!(windows(SOON, 3), [false, false, true]);
    }

    #[test]
    fn pauses_between_posts_count_without_progress() {
        let (mut habit, mut now) = (Habit::default(), Instant::now());
        (0..4).for_each(|_| _ = window(&mut habit, &mut now, SOON));
        let mut posts = |pause| {
            now += pause;
            habit.posts(now)
        };
        assert_eq!(
            [SOON, SOON, LATE, SOON, LATE, SOON].map(&mut posts),
            [true, true, true, true, false, false]
        );
    }

    #[test]
    fn a_progress_call_without_a_window_says_nothing() {
        let mut habit = Habit::default();
        (0..10).for_each(|_| habit.comes_back(|| panic!("looks at the clock")));
        assert!(!habit.posts(Instant::now()));
    }
}
