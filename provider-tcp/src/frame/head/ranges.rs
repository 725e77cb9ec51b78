//! HOT. Ranges of remote memory in a header.

use core::fmt;

use fabric_core::op::RmaIov;

use super::HeadError;

/// Most ranges in one operation (`rma_iov_limit`).
pub const RANGES_MAX: usize = 4;

/// Ranges of which none wraps around, and whose lengths together are a length of memory.
#[derive(Clone, Copy)]
pub struct Ranges {
    /// Those beyond `count` are left over.
    ranges: [RmaIov; RANGES_MAX],
    count: u8,
    total: usize,
}

impl Ranges {
    /// No range.
    pub const NONE: Self = {
        let none = RmaIov { addr: 0, len: 0, key: 0 };
        Self { ranges: [none; RANGES_MAX], count: 0, total: 0 }
    };

    /// Checks ranges; the error says which rule they break.
    pub fn new(ranges: &[RmaIov]) -> Result<Self, HeadError> {
        let mut all = Self::NONE;
        if ranges.len() > RANGES_MAX {
            return Err(HeadError::RangeCount { found: ranges.len() });
        }
        for range in ranges {
            all.push(range.addr, range.len as u64, range.key)?;
        }
        Ok(all)
    }

    /// The ranges.
    #[inline]
    pub fn as_slice(&self) -> &[RmaIov] {
        &self.ranges[..self.len()]
    }

    /// Number of ranges.
    #[inline]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes in all of them.
    #[inline]
    pub const fn total(&self) -> usize {
        self.total
    }

    #[inline(always)]
    pub(super) const fn clear(&mut self) {
        self.count = 0;
        self.total = 0;
    }

    /// Appends a range; the caller has checked that there is room.
    #[inline]
    pub(super) fn push(&mut self, addr: u64, len: u64, key: u64) -> Result<(), HeadError> {
        let error = HeadError::Range { addr, len };
        if addr.checked_add(len).is_none() {
            return Err(error);
        }
        let Ok(len) = usize::try_from(len) else { return Err(error) };
        match self.total.checked_add(len).filter(|total| isize::try_from(*total).is_ok()) {
            Some(total) => self.total = total,
            None => return Err(HeadError::RangeTotal { last: len as u64 }),
        }
        let at = self.len();
        match self.ranges.get_mut(at) {
            Some(place) => *place = RmaIov { addr, len, key },
            None => return Err(HeadError::RangeCount { found: at + 1 }),
        }
        self.count += 1;
        Ok(())
    }
}

impl PartialEq for Ranges {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Ranges {}

impl fmt::Debug for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}
