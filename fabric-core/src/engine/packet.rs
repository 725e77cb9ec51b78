//! HOT. Building and reading the words in front of a packet's payload.

use crate::{mem::SharedBytes, op::RmaIov};

/// Most pieces of remote memory in one operation (`rma_iov_limit`).
pub(crate) const RMA_IOV_LIMIT: usize = 4;

/// Most pieces of memory that several remote pieces may resolve to.
pub(crate) const GRANT_LIMIT: usize = 16;

/// Words for the front of a payload, on the stack.
#[derive(Debug)]
pub(crate) struct Words {
    bytes: [u8; Self::ROOM],
    len: usize,
}

impl Words {
    /// The longest front: a grant.
    const ROOM: usize = 8 * (1 + 2 * RMA_IOV_LIMIT + 2 * GRANT_LIMIT);

    pub(crate) const fn new() -> Self {
        Self { bytes: [0; Self::ROOM], len: 0 }
    }

    /// Appends a word. The callers' bounds on pieces keep this below the room.
    #[inline]
    pub(crate) fn push(&mut self, word: u64) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + 8) {
            place.copy_from_slice(&word.to_ne_bytes());
            self.len += 8;
        }
    }

    pub(crate) fn push_remote(&mut self, pieces: &[RmaIov]) {
        self.push(pieces.len() as u64);
        for piece in pieces {
            self.push(piece.addr);
            self.push(piece.len as u64);
            self.push(piece.key);
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Remote pieces, few.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RemotePieces {
    pieces: [RmaIov; RMA_IOV_LIMIT],
    count: usize,
}

impl RemotePieces {
    /// `None` for too many pieces or a total that overflows.
    pub(crate) fn new(pieces: &[RmaIov]) -> Option<Self> {
        let mut all = Self::default();
        let mut total = 0usize;
        if pieces.len() > RMA_IOV_LIMIT {
            return None;
        }
        for piece in pieces {
            total = total.checked_add(piece.len)?;
            all.pieces[all.count] = *piece;
            all.count += 1;
        }
        (total <= isize::MAX as usize).then_some(all)
    }

    pub(crate) fn as_slice(&self) -> &[RmaIov] {
        &self.pieces[..self.count]
    }

    pub(crate) fn total(&self) -> usize {
        self.as_slice().iter().map(|piece| piece.len).sum()
    }
}

/// Reads words from a payload that the peer may be changing: each is read once.
#[derive(Debug)]
pub(crate) struct Reader {
    bytes: SharedBytes,
    at: usize,
}

impl Reader {
    #[inline]
    pub(crate) const fn new(bytes: SharedBytes) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline]
    pub(crate) fn word(&mut self) -> Option<u64> {
        let word = self.bytes.word(self.at)?;
        self.at += 8;
        Some(word)
    }

    pub(crate) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.word()?).ok().filter(|len| *len <= isize::MAX as usize)
    }

    pub(crate) fn remote(&mut self) -> Option<RemotePieces> {
        let count = usize::try_from(self.word()?).ok().filter(|n| *n <= RMA_IOV_LIMIT)?;
        let mut pieces = [RmaIov::default(); RMA_IOV_LIMIT];
        for piece in &mut pieces[..count] {
            *piece = RmaIov { addr: self.word()?, len: self.length()?, key: self.word()? };
        }
        RemotePieces::new(&pieces[..count])
    }

    /// Seals of regions (address, value), few, behind their number.
    pub(crate) fn seals(&mut self) -> Option<Seals> {
        let count = usize::try_from(self.word()?).ok().filter(|n| *n <= RMA_IOV_LIMIT)?;
        let mut seals = Seals { seals: [(0, 0); RMA_IOV_LIMIT], count };
        for seal in &mut seals.seals[..count] {
            *seal = (self.word()?, self.word()?);
        }
        Some(seals)
    }

    /// All remaining words as (address, length) pairs, at most `N`.
    pub(crate) fn places<const N: usize>(&mut self) -> Option<Places<N>> {
        let mut places = Places::default();
        while self.at < self.bytes.len() {
            places.push(self.word()?, self.length()?)?;
        }
        Some(places)
    }

    /// What follows the words.
    #[inline]
    pub(crate) fn rest(&self) -> SharedBytes {
        self.bytes.tail(self.at)
    }
}

/// Words in a peer's memory (address, value) that tell whether its regions are still open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seals {
    seals: [(u64, u64); RMA_IOV_LIMIT],
    count: usize,
}

impl Seals {
    /// Where the words are, as (address, length).
    pub(crate) fn places(&self) -> ([(u64, u64); RMA_IOV_LIMIT], usize) {
        (self.seals.map(|(addr, _)| (addr, 8)), self.count)
    }

    /// Whether these are the words of open regions.
    pub(crate) fn hold(&self, bytes: &[u8]) -> bool {
        let words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
        words.eq(self.seals[..self.count].iter().map(|(_, value)| *value))
    }
}

/// Pieces of a peer's memory by address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<const N: usize> {
    places: [(u64, u64); N],
    count: usize,
    total: usize,
}

impl<const N: usize> Default for Places<N> {
    fn default() -> Self {
        Self { places: [(0, 0); N], count: 0, total: 0 }
    }
}

impl<const N: usize> Places<N> {
    /// `None` if there are too many.
    pub(crate) fn from_slice(places: &[(u64, u64)]) -> Option<Self> {
        let mut all = Self::default();
        for (addr, len) in places {
            all.push(*addr, usize::try_from(*len).ok()?)?;
        }
        Some(all)
    }

    pub(crate) fn push(&mut self, addr: u64, len: usize) -> Option<()> {
        addr.checked_add(len as u64)?;
        *self.places.get_mut(self.count)? = (addr, len as u64);
        self.count += 1;
        self.total = self.total.checked_add(len).filter(|t| *t <= isize::MAX as usize)?;
        Some(())
    }

    pub(crate) fn as_slice(&self) -> &[(u64, u64)] {
        &self.places[..self.count]
    }

    pub(crate) const fn total(&self) -> usize {
        self.total
    }
}
