//! PENDING. Atomic operations as packets.

use super::{HEAD_LEN, PacketError, Ranges, ranges::ENTRIES_LEN};
use crate::{
    Errno,
    atomic::{self, atomic_op::ATOMIC_READ},
    op::AtomicKind,
};

/// Status and length, in network byte order, which nothing else is.
const STATUS_LEN: usize = 8;

/// What is to be done to the receiver's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicRequest {
    /// Family.
    pub kind: AtomicKind,
    /// `enum fi_datatype`.
    pub datatype: u8,
    /// `enum fi_op`.
    pub op: u8,
    /// Bytes of an element.
    pub size: usize,
    /// Whole elements.
    pub ranges: Ranges,
}

pub(super) const fn number(kind: AtomicKind) -> u8 {
    match kind {
        AtomicKind::Base => 6,
        AtomicKind::Fetch => 7,
        AtomicKind::Compare => 8,
    }
}

impl AtomicRequest {
    /// Reads the operation, and the values behind it: operands, then comparands.
    pub(super) fn parse<'a>(
        head: &[u8; HEAD_LEN],
        body: &'a [u8],
    ) -> Result<(Self, &'a [u8]), PacketError> {
        let kind = match head[34] {
            6 => AtomicKind::Base,
            7 => AtomicKind::Fetch,
            8 => AtomicKind::Compare,
            op => return Err(PacketError::Operation { kind: head[1], op }),
        };
        let (datatype, op, count) = (head[56], head[57], head[58]);
        let size =
            atomic::datatype_size(datatype.into()).ok_or(PacketError::Atomic { datatype, op })?;
        let Some((entries, values)) = body.split_first_chunk::<ENTRIES_LEN>() else {
            let needed = HEAD_LEN + ENTRIES_LEN;
            return Err(PacketError::Short { len: HEAD_LEN + body.len(), needed });
        };
        let ranges = Ranges::entries(entries, count, size);
        let ranges = ranges.ok_or(PacketError::Ranges { count })?;
        let request = Self { kind, datatype, op, size, ranges };
        let said = request.values_len();
        if said != Some(values.len()) {
            let said = said.map_or(u64::MAX, |said| said as u64);
            return Err(PacketError::Size { said, there: values.len() });
        }
        Ok((request, values))
    }

    /// Bytes of operands and comparands.
    fn values_len(&self) -> Option<usize> {
        let each = usize::from(u32::from(self.op) != ATOMIC_READ)
            + usize::from(self.kind == AtomicKind::Compare);
        self.ranges.len().checked_mul(each)
    }

    /// Bytes of the operands; as many of comparands follow, if there are any.
    pub fn operand_len(&self) -> usize {
        if u32::from(self.op) == ATOMIC_READ { 0 } else { self.ranges.len() }
    }

    /// The ranges as they are sent.
    pub fn ranges_bytes(&self) -> [u8; ENTRIES_LEN] {
        let mut out = [0; ENTRIES_LEN];
        self.ranges.put(&mut out, self.size.max(1));
        out
    }
}

/// What an atomic operation led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicResponse {
    /// Why it was refused.
    pub outcome: Result<(), Errno>,
}

impl AtomicResponse {
    /// Reads the outcome, and the old values behind it.
    pub(super) fn parse(body: &[u8]) -> Result<(Self, &[u8]), PacketError> {
        let Some((status, values)) = body.split_first_chunk::<STATUS_LEN>() else {
            let needed = HEAD_LEN + STATUS_LEN;
            return Err(PacketError::Short { len: HEAD_LEN + body.len(), needed });
        };
        let [s0, s1, s2, s3, l0, l1, l2, l3] = *status;
        super::has(values, u32::from_be_bytes([l0, l1, l2, l3]).into())?;
        let outcome = match i32::from_be_bytes([s0, s1, s2, s3]) {
            0 => Ok(()),
            status => Err(Errno::new(status.saturating_neg())),
        };
        Ok((Self { outcome }, values))
    }

    /// As it is sent in front of `len` bytes of old values.
    pub fn bytes(&self, len: usize) -> [u8; STATUS_LEN] {
        let status = self.outcome.map_or_else(|reason| -reason.get(), |()| 0);
        let mut out = [0; STATUS_LEN];
        out[..4].copy_from_slice(&status.to_be_bytes());
        out[4..].copy_from_slice(&(len as u32).to_be_bytes());
        out
    }
}
