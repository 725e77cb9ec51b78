//! HOT. Registered memory for packets of one size, which the device reads and writes.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    fmt,
    sync::Arc,
};

use fabric_core::{Errno, Result, mem::Buffers, op::IoVec};

use super::{Mr, Pd, Pieces, abi::IBV_ACCESS_LOCAL_WRITE};

/// Packets of a pool are aligned to lines of the cache.
const LINE: usize = 64;

/// The packets of one direction.
pub(crate) struct Packets {
    mr: Option<Mr>,
    base: *mut u8,
    layout: Layout,
    /// Bytes from one packet to the next.
    stride: usize,
    /// Bytes of a packet at most.
    size: usize,
    count: u32,
    free: Vec<u32>,
}

// SAFETY: the memory is the value's own; what the device does with it is told by completions.
unsafe impl Send for Packets {}

impl fmt::Debug for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packets({} of {} bytes)", self.count, self.size)
    }
}

impl Packets {
    /// Registers `count` packets of `size` bytes, all of them free.
    pub(crate) fn new(pd: &Arc<Pd>, count: u32, size: usize) -> Result<Self> {
        let stride = size.max(1).next_multiple_of(LINE);
        let bytes = stride.checked_mul(count as usize).ok_or(Errno::EINVAL)?;
        // Whole pages: children of forks may be without them.
        let page = rustix::param::page_size();
        let whole = bytes.checked_next_multiple_of(page).ok_or(Errno::EINVAL)?;
        let layout = Layout::from_size_align(whole, page).map_err(|_| Errno::EINVAL)?;
        if bytes == 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the layout has bytes.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            return Err(Errno::ENOMEM);
        }
        let free = (0..count).rev().collect();
        let mut packets = Self { mr: None, base, layout, stride, size, count, free };
        let iov = IoVec { base, len: bytes };
        packets.mr = Some(Mr::new(pd, iov, IBV_ACCESS_LOCAL_WRITE)?);
        Ok(packets)
    }

    /// Takes a packet, if one is free.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Half of the packets are taken.
    #[inline]
    pub(crate) fn is_scarce(&self) -> bool {
        self.free.len() < self.count as usize / 2
    }

    /// Gives a packet back that the device does not use any more.
    #[inline]
    pub(crate) fn give_back(&mut self, packet: u32) {
        self.free.push(packet);
    }

    fn at(&self, packet: u32) -> *mut u8 {
        debug_assert!(packet < self.count);
        self.base.wrapping_add(self.stride * packet as usize)
    }

    /// The first bytes of a packet for the device.
    #[inline]
    pub(crate) fn piece(&self, packet: u32, len: usize) -> Result<Pieces> {
        let mut pieces = Pieces::NONE;
        self.add(packet, len, &mut pieces)?;
        Ok(pieces)
    }

    /// The same behind others.
    #[inline]
    pub(crate) fn add(&self, packet: u32, len: usize, pieces: &mut Pieces) -> Result<()> {
        let (address, lkey) = self.address(packet)?;
        pieces.push(address, len.min(self.size), lkey)
    }

    /// Where a packet is, for the device.
    #[inline]
    pub(crate) fn address(&self, packet: u32) -> Result<(usize, u32)> {
        let lkey = self.mr.as_ref().ok_or(Errno::EOTHER)?.lkey();
        Ok((self.at(packet).addr(), lkey))
    }

    /// A whole packet for the device.
    pub(crate) fn whole(&self, packet: u32) -> Result<Pieces> {
        self.piece(packet, self.size)
    }

    /// Writes to a packet that was taken, and that the device does not have: `head`, then `body`. How
    /// many bytes that are; `EMSGSIZE` if there is no room for them.
    #[inline]
    pub(crate) fn fill(&mut self, packet: u32, head: &[u8], body: &Buffers) -> Result<usize> {
        let len = head.len() + body.len();
        if len > self.size || packet >= self.count {
            return Err(Errno::EMSGSIZE);
        }
        // SAFETY: inside the packet, which nobody else has.
        let bytes = unsafe { core::slice::from_raw_parts_mut(self.at(packet), len) };
        bytes[..head.len()].copy_from_slice(head);
        body.gather(0, &mut bytes[head.len()..]);
        Ok(len)
    }

    /// What the device has written to a packet, which it does not have any more.
    #[inline]
    pub(crate) fn bytes(&self, packet: u32, len: usize) -> &[u8] {
        if packet >= self.count {
            return &[];
        }
        let len = len.min(self.size);
        // SAFETY: inside the packet, which nobody else has.
        unsafe { core::slice::from_raw_parts(self.at(packet), len) }
    }

    /// Packets in all.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of a packet at most.
    #[inline]
    pub(crate) const fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        // The device lets go first.
        self.mr = None;
        // SAFETY: the memory from `new`, once.
        unsafe { dealloc(self.base, self.layout) };
    }
}
