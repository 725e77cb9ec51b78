//! PENDING. Memory that packets name.

use super::{PacketError, word};
use crate::op::RmaIov;

/// Ranges of one message.
const MOST: usize = 4;
const ENTRY: usize = 24;
/// Bytes of the entries alone; all are sent, used or not.
pub(super) const ENTRIES_LEN: usize = MOST * ENTRY;
/// Bytes of ranges with their number.
pub const RANGES_LEN: usize = ENTRIES_LEN + 8;

/// One to four ranges of remote memory, no byte of which has an address that wraps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ranges {
    list: [RmaIov; MOST],
    count: usize,
}

impl Ranges {
    /// No range, which no packet has.
    pub(in super::super) const NONE: Self =
        Self { list: [RmaIov { addr: 0, len: 0, key: 0 }; MOST], count: 0 };

    /// Takes ranges; `None` for none, for too many, and for what cannot be.
    pub fn new(ranges: &[RmaIov]) -> Option<Self> {
        let mut all = Self { list: [RmaIov::default(); MOST], count: ranges.len() };
        all.list.get_mut(..ranges.len())?.copy_from_slice(ranges);
        (all.count != 0 && all.total().is_some()).then_some(all)
    }

    /// Reads ranges that must have room for `size` bytes.
    pub(super) fn parse(body: &[u8], size: u64) -> Result<Self, PacketError> {
        let Some(body) = body.first_chunk::<RANGES_LEN>() else {
            let needed = super::HEAD_LEN + RANGES_LEN;
            return Err(PacketError::Short { len: super::HEAD_LEN + body.len(), needed });
        };
        let (count, wrong) = (body[ENTRIES_LEN], PacketError::Ranges { count: body[ENTRIES_LEN] });
        let ranges = Self::entries(body, count, 1).ok_or(wrong)?;
        let total = ranges.total().ok_or(wrong)?;
        if (total as u64) < size {
            return Err(wrong);
        }
        Ok(ranges)
    }

    /// The first `count` entries, with lengths in units of `unit` bytes.
    pub(super) fn entries(bytes: &[u8], count: u8, unit: usize) -> Option<Self> {
        let mut list = [RmaIov::default(); MOST];
        let used = list.get_mut(..count.into())?;
        for (range, entry) in used.iter_mut().zip(bytes.chunks_exact(ENTRY)) {
            let entry: &[u8; ENTRY] = entry.try_into().ok()?;
            let len = usize::try_from(word(entry, 8)).ok()?.checked_mul(unit)?;
            *range = RmaIov { addr: word(entry, 0), len, key: word(entry, 16) };
        }
        Self::new(&list[..count.into()])
    }

    /// The ranges.
    pub fn as_slice(&self) -> &[RmaIov] {
        &self.list[..self.count]
    }

    /// Bytes in all; `None` if that is too much or an address wraps.
    fn total(&self) -> Option<usize> {
        self.as_slice().iter().try_fold(0usize, |sum, range| {
            range.addr.checked_add(range.len as u64)?;
            sum.checked_add(range.len)
        })
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.total().unwrap_or(0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As they are sent.
    pub fn bytes(&self) -> [u8; RANGES_LEN] {
        let mut out = [0; RANGES_LEN];
        self.put(&mut out, 1);
        out[ENTRIES_LEN] = self.count as u8;
        out
    }

    /// Writes the entries, with lengths in units of `unit` bytes.
    pub(super) fn put(&self, out: &mut [u8], unit: usize) {
        for (range, entry) in self.as_slice().iter().zip(out.chunks_exact_mut(ENTRY)) {
            entry[..8].copy_from_slice(&range.addr.to_ne_bytes());
            entry[8..16].copy_from_slice(&((range.len / unit) as u64).to_ne_bytes());
            entry[16..].copy_from_slice(&range.key.to_ne_bytes());
        }
    }
}

impl core::fmt::Debug for Ranges {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}
