//! HOT. Which operations leave at once, and which wait for company.
//!
//! A system call for each message is what bounds the rate of small ones. Few operations between two
//! progress calls are a conversation, whose peer waits for each of them; many are a window, of which
//! all but the first may share calls.

/// Operations that leave at once, as long as a conversation is expected.
const CONVERSATION: u32 = 8;
/// As many behind a window, since another one is likely to follow.
const BEHIND_WINDOW: u32 = 1;

/// Operations of one connection since the last progress call.
#[derive(Debug, Default)]
pub(super) struct Burst {
    /// That progress call.
    round: u32,
    count: u32,
    /// The burst before this one was a window.
    behind_window: bool,
}

impl Burst {
    /// Counts one more, behind progress call `round`. Whether it leaves at once; all do if operations
    /// do not `coalesce`.
    #[inline]
    pub(super) fn is_among_first(&mut self, round: u32, coalesce: bool) -> bool {
        if self.round != round {
            self.behind_window = self.count > CONVERSATION;
            (self.round, self.count) = (round, 0);
        }
        self.count = self.count.saturating_add(1);
        let first = if self.behind_window { BEHIND_WINDOW } else { CONVERSATION };
        !coalesce || self.count <= first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `count` leave at once.
    fn at_once(burst: &mut Burst, round: u32, count: usize) -> usize {
        (0..count).filter(|_| burst.is_among_first(round, true)).count()
    }

    #[test]
    fn conversations_leave_at_once_and_windows_behind_windows_do_not() {
        let mut burst = Burst::default();
        let counts = [1, 8, 9, 64, 8, 64, 2, 1];
        let expected = [1, 8, 8, 1, 1, 8, 1, 1];
        for (round, (count, expected)) in (7..).zip(counts.into_iter().zip(expected)) {
            assert_eq!(at_once(&mut burst, round, count), expected, "{count} in round {round}");
        }
    }

    #[test]
    fn all_leave_where_nothing_coalesces() {
        let mut burst = Burst::default();
        assert!((0..100).all(|_| burst.is_among_first(1, false)));
    }
}
