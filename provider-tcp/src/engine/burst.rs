//! HOT. Which operations are the first of many.
//!
//! Few operations between two progress calls are a conversation, whose peer waits for each of them;
//! many are a window, of which all but the first may share what they cost.

/// Operations of a conversation.
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
    /// Counts one more, behind progress call `round`. Whether it is among the first.
    #[inline]
    pub(super) fn is_among_first(&mut self, round: u32) -> bool {
        if self.round != round {
            self.behind_window = self.count > CONVERSATION;
            (self.round, self.count) = (round, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count <= if self.behind_window { BEHIND_WINDOW } else { CONVERSATION }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_are_a_conversation_but_behind_a_window() {
        let mut burst = Burst::default();
        let counts = [1, 8, 9, 64, 8, 64, 2, 1];
        let expected = [1, 8, 8, 1, 1, 8, 1, 1];
        for (round, (count, expected)) in (7..).zip(counts.into_iter().zip(expected)) {
            let first = (0..count).filter(|_| burst.is_among_first(round)).count();
            assert_eq!(first, expected, "{count} in round {round}");
        }
    }
}
