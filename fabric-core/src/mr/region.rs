//! HOT. One memory region and the pieces of it that a request covers.

use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering, fence},
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{IOV_LIMIT, KEY_SIZE, MrRequest, Registered, probe, raw_key};
use crate::{
    Errno, Result, atomic,
    flags::{Flags, MrMode},
    mem::Buffers,
    op::{AtomicKind, IoVec},
};

/// Counts remote writes to a region; what a counter does for `FI_RMA_EVENT`.
pub trait RemoteWriteEvent: fmt::Debug + Send + Sync {
    /// A remote write of `bytes` has completed and is visible.
    fn count(&self, bytes: u64);
}

/// The length that, from address zero, means the whole address space.
const EVERYTHING: usize = usize::MAX;

/// The next region's seal.
static SEALS: AtomicU64 = AtomicU64::new(1);

/// Registered memory.
#[derive(Debug)]
pub struct Region {
    key: u64,
    /// Its place in the table.
    pub(super) place: u64,
    pieces: Pieces,
    access: Flags,
    flags: Flags,
    context: usize,
    mode: MrMode,
    bound: AtomicBool,
    enabled: AtomicBool,
    /// Unlike that of any other region of this process, and zero once closed.
    seal: AtomicU64,
    events: OnceLock<Arc<dyn RemoteWriteEvent>>,
    /// What a device keeps of it, until it is closed.
    registered: Mutex<Option<Registered>>,
}

impl Region {
    pub(super) fn new(mode: MrMode, key: u64, pieces: Pieces, request: &MrRequest<'_>) -> Self {
        let mut region = Self {
            key,
            place: key,
            pieces,
            access: request.access,
            flags: request.flags,
            context: request.context,
            mode,
            bound: AtomicBool::new(false),
            enabled: AtomicBool::new(false),
            seal: AtomicU64::new(SEALS.fetch_add(1, Ordering::Relaxed)),
            events: OnceLock::new(),
            registered: Mutex::new(None),
        };
        *region.enabled.get_mut() = !region.waits_for_enable();
        region
    }

    /// The same, known to a device. Its keys need not tell regions apart: one that peers cannot reach
    /// may have none.
    pub(super) fn on(mut self, registered: Registered) -> Self {
        self.place = self.seal.load(Ordering::Relaxed);
        self.registered = Mutex::new(Some(registered));
        self
    }

    /// What operations on local memory in this region name it by (`fi_mr_desc`), never zero.
    pub fn descriptor(&self) -> usize {
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        // Where nobody looks at it, anything but null will do.
        registered.as_ref().map_or(1, |registered| registered.descriptor)
    }

    /// The key that peers use.
    pub const fn key(&self) -> u64 {
        self.key
    }

    /// What the region was registered for.
    pub const fn access(&self) -> Flags {
        self.access
    }

    /// Flags of the registration.
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// The application's context.
    pub const fn context(&self) -> usize {
        self.context
    }

    /// The memory as registered.
    pub fn iov(&self) -> &[IoVec] {
        self.pieces.as_slice()
    }

    /// The address of the first byte, as peers spell it, and the key as bytes (`fi_mr_raw_attr`).
    pub fn raw_attr(&self) -> (u64, [u8; KEY_SIZE]) {
        let base =
            if self.mode.contains(MrMode::VIRT_ADDR) { self.pieces.first_address() } else { 0 };
        (base, raw_key(self.key))
    }

    /// Where a word is that a peer may read, and its value (address, value) as long as the region is
    /// open. Who copies the memory directly looks there afterwards: if it is another word, the bytes
    /// may be anything's.
    pub fn seal(&self) -> (u64, u64) {
        (self.seal.as_ptr() as u64, self.seal.load(Ordering::Acquire))
    }

    /// Binds the region to an endpoint, before it is enabled (`EOPBADSTATE` after).
    pub fn bind_endpoint(&self) -> Result<()> {
        self.check_bindable()?;
        self.bound.store(true, Ordering::Release);
        Ok(())
    }

    /// Binds the counter of remote writes.
    ///
    /// `EINVAL` for a second one, or if the domain wants such regions announced with `RMA_EVENT`
    /// and this one was not; `EOPBADSTATE` once enabled.
    pub fn bind_events(&self, events: Arc<dyn RemoteWriteEvent>) -> Result<()> {
        if self.mode.contains(MrMode::RMA_EVENT) && !self.flags.contains(Flags::RMA_EVENT) {
            return Err(Errno::EINVAL);
        }
        self.check_bindable()?;
        self.events.set(events).map_err(|_| Errno::EINVAL)
    }

    /// Opens the region to peers; harmless if it is open. `EOPBADSTATE` if the domain's mode has
    /// `ENDPOINT` and the region is bound to none.
    pub fn enable(&self) -> Result<()> {
        if self.mode.contains(MrMode::ENDPOINT) && !self.bound.load(Ordering::Acquire) {
            return Err(Errno::EOPBADSTATE);
        }
        // Release: pairs with the Acquire in `resolve`, which then sees the bound counter.
        self.enabled.store(true, Ordering::Release);
        Ok(())
    }

    /// The application has changed the mapping below parts of the region (`fi_mr_refresh`).
    ///
    /// Nothing has to be done, since memory is reached through the mapping of the moment. `EINVAL`
    /// if a part lies outside; `ENOSYS` where a device reaches it, which keeps to the pages that were
    /// there.
    pub fn refresh(&self, parts: &[IoVec]) -> Result<()> {
        if self.registered.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
            return Err(Errno::ENOSYS);
        }
        parts.iter().try_for_each(|part| {
            self.pieces.at_address(part.base as u64, part.len as u64).map(|_| ())
        })
    }

    pub(super) fn end(&self) {
        self.seal.store(0, Ordering::Relaxed);
        // Before whatever the owner does with its memory from here on: who sees that, and looks at
        // the seal behind a fence of its own, sees it broken.
        fence(Ordering::SeqCst);
        let registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(registered);
    }

    pub(super) fn resolve(self: &Arc<Self>, addr: u64, len: u64, need: Flags) -> Result<Resolved> {
        // Acquire: pairs with the Release in `enable`.
        if !self.enabled.load(Ordering::Acquire) {
            return Err(Errno::ENOKEY);
        }
        if !self.access.contains(need) {
            return Err(Errno::EACCES);
        }
        let pieces = if self.mode.contains(MrMode::VIRT_ADDR) {
            self.pieces.at_address(addr, len)?
        } else {
            self.pieces.at_offset(addr, len)?
        };
        let written = need.contains(Flags::REMOTE_WRITE);
        if self.pieces.are_everything() {
            pieces.iter().try_for_each(|piece| probe::reach(piece, written))?;
        }
        Ok(Resolved { pieces, written, region: self.clone() })
    }

    fn waits_for_enable(&self) -> bool {
        self.mode.contains(MrMode::ENDPOINT)
            || self.mode.contains(MrMode::RMA_EVENT) && self.flags.contains(Flags::RMA_EVENT)
    }

    fn check_bindable(&self) -> Result<()> {
        if self.waits_for_enable() && self.enabled.load(Ordering::Acquire) {
            return Err(Errno::EOPBADSTATE);
        }
        Ok(())
    }
}

/// Local memory that a peer may read or write, by its request.
#[derive(Clone, Debug)]
pub struct Resolved {
    pieces: Pieces,
    /// Written, and not only read.
    written: bool,
    region: Arc<Region>,
}

impl Resolved {
    /// Whether the region is still open. An access that takes several steps asks before each: its
    /// owner may give the memory away as soon as the region is closed.
    pub fn is_open(&self) -> bool {
        self.region.seal.load(Ordering::Acquire) != 0
    }

    /// The region's [`Region::context`].
    pub fn context(&self) -> usize {
        self.region.context()
    }

    /// The region's [`Region::seal`].
    pub fn seal(&self) -> (u64, u64) {
        self.region.seal()
    }

    /// The memory, in order of the peer's bytes.
    pub const fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// The memory for copying.
    pub fn buffers(&self) -> Buffers {
        // SAFETY: by registering the memory its owner promised that peers may access it as long as
        // the region is open; an access that began before is its owner's to wait for (fi_mr(3)).
        // A resolution has at most `IOV_LIMIT` pieces inside the region and none at null, which
        // only a region of everything contains and `probe` refuses: nothing is refused here.
        unsafe { Buffers::new(self.pieces.as_slice()) }.unwrap_or(Buffers::EMPTY)
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.pieces.as_slice().iter().map(|piece| piece.len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Applies an atomic operation (family, datatype, operation) to `count` elements of one piece
    /// behind its first `skip` bytes. Fails as [`atomic::apply`] does; `EINVAL` too if they are not
    /// inside the piece.
    pub fn apply_atomic(
        &self,
        (piece, skip): (usize, usize),
        (kind, datatype, op): (AtomicKind, u32, u32),
        operand: &[u8],
        compare: &[u8],
        result: &mut [u8],
        count: usize,
    ) -> Result<()> {
        let piece = self.pieces.as_slice().get(piece).ok_or(Errno::EINVAL)?;
        let size = atomic::valid(kind, datatype, op)?;
        let len = count.checked_mul(size).ok_or(Errno::EINVAL)?;
        if piece.len.checked_sub(skip).is_none_or(|rest| len > rest) {
            return Err(Errno::EINVAL);
        }
        let target = piece.base.wrapping_add(skip);
        // SAFETY: the elements lie in a region whose owner lets peers apply atomic operations, by
        // the check above; the three slices are the caller's own memory.
        unsafe { atomic::apply(kind, datatype, op, target, operand, compare, result, count) }
    }

    /// To be called once when a write is complete and its bytes are visible: counts it, if the
    /// region has a counter.
    pub fn complete_write(&self, bytes: u64) {
        if self.written
            && let Some(events) = self.region.events.get()
        {
            events.count(bytes);
        }
    }
}

/// Up to [`IOV_LIMIT`] pieces of memory, stored in place.
#[derive(Clone, Copy)]
pub struct Pieces {
    iov: [IoVec; IOV_LIMIT],
    len: usize,
}

impl Pieces {
    const EMPTY: Self = Self { iov: [IoVec::EMPTY; IOV_LIMIT], len: 0 };

    /// Checks that the pieces can form a region: see the module's table.
    pub(super) fn of_region(iov: &[IoVec]) -> Result<Self> {
        if iov.is_empty() {
            return Err(Errno::EINVAL);
        }
        let mut pieces = Self::EMPTY;
        let mut total = 0u64;
        for piece in iov {
            (piece.base as usize).checked_add(piece.len).ok_or(Errno::EINVAL)?;
            if piece.base.is_null() && !matches!(piece.len, 0 | EVERYTHING) {
                return Err(Errno::EINVAL);
            }
            total = total.checked_add(piece.len as u64).ok_or(Errno::EINVAL)?;
            pieces.push(*piece)?;
        }
        Ok(pieces)
    }

    /// The pieces.
    pub fn as_slice(&self) -> &[IoVec] {
        &self.iov[..self.len]
    }

    /// Visits the pieces in order.
    pub fn iter(&self) -> core::slice::Iter<'_, IoVec> {
        self.as_slice().iter()
    }

    /// Whether they are the whole address space, where peers may name what is not there.
    fn are_everything(&self) -> bool {
        self.iter().any(|piece| piece.len == EVERYTHING)
    }

    fn first_address(&self) -> u64 {
        self.iov[0].base as u64
    }

    /// The part at an offset into the pieces laid end to end.
    fn at_offset(&self, offset: u64, len: u64) -> Result<Self> {
        let mut part = Self::EMPTY;
        let (mut skip, mut left) = (offset, len);
        for piece in self {
            if left == 0 {
                break;
            }
            match (piece.len as u64).checked_sub(skip) {
                Some(0) | None => skip -= piece.len as u64,
                Some(rest) => {
                    left -= part.push_within(piece, skip, rest.min(left))?;
                    skip = 0;
                }
            }
        }
        if left == 0 { Ok(part) } else { Err(Errno::EINVAL) }
    }

    /// The part at a virtual address. It may run from one piece into another where their
    /// addresses meet; memory between pieces is not part of the region.
    fn at_address(&self, address: u64, len: u64) -> Result<Self> {
        let mut part = Self::EMPTY;
        let (mut at, mut left) = (address, len);
        while left != 0 {
            let within = |piece: &&IoVec| {
                at.checked_sub(piece.base as u64).is_some_and(|skip| skip < piece.len as u64)
            };
            let piece = self.iter().find(within).ok_or(Errno::EINVAL)?;
            let skip = at - piece.base as u64;
            let taken = part.push_within(piece, skip, left.min(piece.len as u64 - skip))?;
            left -= taken;
            // The end of a piece does not wrap, see `of_region`.
            at += taken;
        }
        Ok(part)
    }

    /// Adds `len` bytes of `piece` behind its first `skip`; both are inside it. Returns `len`.
    fn push_within(&mut self, piece: &IoVec, skip: u64, len: u64) -> Result<u64> {
        let base = piece.base.wrapping_add(skip as usize);
        self.push(IoVec { base, len: len as usize })?;
        Ok(len)
    }

    fn push(&mut self, piece: IoVec) -> Result<()> {
        *self.iov.get_mut(self.len).ok_or(Errno::EINVAL)? = piece;
        self.len += 1;
        Ok(())
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<'a> IntoIterator for &'a Pieces {
    type Item = &'a IoVec;
    type IntoIter = core::slice::Iter<'a, IoVec>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
