//! HOT. Bytes that move between local memory and a peer's, in as many operations of the transport
//! as that takes.

use super::{Access, Token, Transport, packet::Ranges};
use crate::{
    Errno, Result,
    flags::Flags,
    mem::Buffers,
    op::{RmaIov, RmaKind},
};

/// How far it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pieces {
    /// The first range that no operation is about.
    next: usize,
    /// Bytes that operations are about.
    at: usize,
    /// All operations have been started.
    all: bool,
    /// Operations that have not ended.
    under_way: u32,
    failed: Option<Errno>,
}

/// What moves.
#[derive(Debug)]
pub(super) struct Way<'a> {
    pub(super) kind: RmaKind,
    pub(super) local: &'a Buffers,
    pub(super) remote: &'a Ranges,
    /// Tells the peer, with the last operation.
    pub(super) data: Option<u64>,
    pub(super) flags: Flags,
}

impl Pieces {
    /// Starts operations until there are enough; `EAGAIN`: another time.
    pub(super) fn start<T: Transport>(
        &mut self,
        transport: &mut T,
        conn: T::Conn,
        way: &Way<'_>,
        token: Token,
    ) -> Result<()> {
        let ranges = way.remote.as_slice();
        while !self.all {
            let mut list = [RmaIov::default(); 4];
            let (mut count, mut len) = (0, 0);
            let left = way.local.len() - self.at;
            while count < T::RANGES.min(list.len()) && self.next + count < ranges.len() {
                let range = ranges[self.next + count];
                let taken = range.len.min(left - len);
                list[count] = RmaIov { len: taken, ..range };
                (count, len) = (count + 1, len + taken);
            }
            let last = len == left || self.next + count == ranges.len();
            let (data, local) = (way.data.filter(|_| last), way.local.slice(self.at, len));
            let (kind, flags) = (way.kind, way.flags);
            let access = Access { kind, local: &local, remote: &list[..count], data, flags };
            transport.access(conn, &access, token)?;
            self.under_way += 1;
            (self.next, self.at, self.all) = (self.next + count, self.at + len, last);
        }
        Ok(())
    }

    /// One of the operations has ended. The outcome of all, once there are no more.
    pub(super) fn ended(&mut self, outcome: Result<()>) -> Option<Result<()>> {
        self.under_way = self.under_way.saturating_sub(1);
        if let Err(reason) = outcome {
            self.failed.get_or_insert(reason);
        }
        let over = self.under_way == 0 && (self.all || self.failed.is_some());
        over.then(|| self.failed.map_or(Ok(()), Err))
    }
}
