//! HOT. The word that a work request comes back by: whose it is, and which of its owner's.
//!
//! A queue pair's completions may still be in a completion queue when the queue pair, its endpoint and
//! even the endpoint's successor in the table are gone; so the word holds a part of the owner's
//! generation, and completions of others are dropped.
//!
//! | bits | of requests of endpoints | of receives of shared contexts |
//! |------|--------------------------|--------------------------------|
//! | 63 to 62 | `00` sending side, `01` receives | `10`                 |
//! | 61 to 40 | the owner's place in its table   | the same             |
//! | 39 to 28 | its generation                   | the same             |
//! | 27 to 0  | its number in the owner's order  | its place in the context's table |

use fabric_core::slab::{Handle, Slab};

/// Owners of one kind.
pub(super) const OWNERS: usize = 1 << 22;
/// Requests of one owner; more than any device has in a queue.
const NUMBERS: u32 = 1 << 28;

/// Which queue a request is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Side {
    Send = 0,
    Receive = 1,
    Shared = 2,
}

/// A request's word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id {
    pub(super) side: Side,
    pub(super) place: u32,
    generation: u16,
    pub(super) number: u32,
}

impl Id {
    /// Of a request of `owner`.
    #[inline]
    pub(super) const fn new(side: Side, owner: Handle, number: u32) -> Self {
        let generation = (owner.raw() >> 32) as u16 & 0xfff;
        Self { side, place: owner.index(), generation, number: number % NUMBERS }
    }

    #[inline]
    pub(super) const fn word(self) -> u64 {
        (self.side as u64) << 62
            | (self.place as u64 & 0x3f_ffff) << 40
            | (self.generation as u64) << 28
            | self.number as u64
    }

    /// `None` for what no request has.
    #[inline]
    pub(super) const fn of(word: u64) -> Option<Self> {
        let side = match word >> 62 {
            0 => Side::Send,
            1 => Side::Receive,
            2 => Side::Shared,
            _ => return None,
        };
        Some(Self {
            side,
            place: (word >> 40) as u32 & 0x3f_ffff,
            generation: (word >> 28) as u16 & 0xfff,
            number: word as u32 % NUMBERS,
        })
    }

    /// The owner, if it is there still.
    #[inline]
    pub(super) fn owner<T>(self, table: &Slab<T>) -> Option<Handle> {
        let owner = table.at(self.place)?;
        ((owner.raw() >> 32) as u16 & 0xfff == self.generation).then_some(owner)
    }
}

/// The number that follows.
#[inline]
pub(super) const fn next(number: u32, by: usize) -> u32 {
    number.wrapping_add(by as u32) % NUMBERS
}

/// How far a number is behind the first one.
#[inline]
pub(super) const fn distance(first: u32, number: u32) -> usize {
    (number.wrapping_sub(first) % NUMBERS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let mut table = Slab::new(OWNERS);
        let first = table.insert(()).unwrap();
        table.remove(first);
        let owner = table.insert(()).unwrap();
        for side in [Side::Send, Side::Receive, Side::Shared] {
            for number in [0, 1, NUMBERS - 1] {
                let id = Id::of(Id::new(side, owner, number).word()).unwrap();
                assert_eq!((id.side, id.number, id.owner(&table)), (side, number, Some(owner)));
            }
        }
        let stale = Id::of(Id::new(Side::Send, first, 0).word()).unwrap();
        assert_eq!(stale.owner(&table), None, "of an endpoint that was there before");
        assert_eq!(Id::of(u64::MAX), None);
    }

    #[test]
    fn numbers_go_round() {
        assert_eq!(next(NUMBERS - 1, 2), 1);
        assert_eq!(distance(NUMBERS - 1, 1), 2);
        assert_eq!(distance(5, 5), 0);
        assert!(distance(5, 4) > 1 << 20, "a number of before is far away");
    }
}
