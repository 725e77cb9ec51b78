//! SETUP. A ring's memory: one sealed memfd, mapped by its two ends and named by nobody.
//!
//! The file cannot shrink, so a mapping never faults because of what the other side does, and
//! nothing is left anywhere when both processes are gone.

use std::{
    num::NonZeroUsize,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    ptr::NonNull,
};

use fabric_core::{
    Errno, Result,
    ring::{Geometry, RingMemory},
};
use rustix::{
    fs::{MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, munmap},
    process::{Resource, getrlimit},
};

/// Rings larger than this are not accepted from a peer.
const LARGEST: usize = 4 << 20;

/// Bytes that the rings of a node may take. An endpoint keeps to its share: it assumes that the peers
/// that it knows are all there are, and as many as it is known to.
pub const NODE: usize = 150 << 20;

/// Bytes of the smallest and of the largest ring of a busy pair.
pub const LEAST_HOT: usize = 16 << 10;
/// See [`LEAST_HOT`].
pub const MOST_HOT: usize = 256 << 10;

/// A page, for pairs that talk little: 16 slots and a little bulk.
pub fn cold() -> Option<Geometry> {
    Geometry::new(16, 4096)
}

/// For pairs that talk much or in larger messages, of an endpoint that may take `left` bytes more.
/// None takes more than a quarter of that while there are smaller ones, so that several partners get
/// something. `None` if there is no room for any.
pub fn hot(left: usize) -> Option<Geometry> {
    match left {
        0..LEAST_HOT => None,
        LEAST_HOT..0x4_0000 => Geometry::new(32, LEAST_HOT),
        0x4_0000..0x10_0000 => Geometry::new(128, 64 << 10),
        _ => Geometry::new(256, MOST_HOT),
    }
}

/// Whether the process may make files of a ring's size: the kernel tells it otherwise by a signal
/// that ends it. `EFBIG`.
pub fn permitted(geometry: Geometry) -> Result<()> {
    let limit = getrlimit(Resource::Fsize).current;
    let beyond = limit.is_some_and(|limit| limit < geometry.bytes() as u64);
    if beyond { Err(Errno::new(libc::EFBIG)) } else { Ok(()) }
}

/// A mapped ring.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    len: NonZeroUsize,
    geometry: Geometry,
}

// SAFETY: the mapping is valid in the whole process; the ring's ends say who may access what.
unsafe impl Send for Segment {}

impl Segment {
    /// Makes a zeroed ring. Its pages exist when this returns: `ENOMEM` or `ENOSPC` here, instead
    /// of a fault later. `EFBIG`: see [`permitted`].
    pub fn create(geometry: Geometry) -> Result<(Self, OwnedFd)> {
        permitted(geometry)?;
        let fd = memfd_create("percale-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        fallocate(&fd, rustix::fs::FallocateFlags::empty(), 0, geometry.bytes() as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((Self::map(fd.as_fd(), geometry)?, fd))
    }

    /// Maps a ring that a peer made. `EPROTO` unless it is what the peer says and cannot change.
    pub fn attach(fd: BorrowedFd<'_>, slots: u32, bytes: usize) -> Result<Self> {
        let geometry = Geometry::new(slots, bytes).ok_or(Errno::EPROTO)?;
        let sealed = fcntl_get_seals(fd)?.contains(SealFlags::SHRINK | SealFlags::GROW);
        let size = usize::try_from(fstat(fd)?.st_size).map_err(|_| Errno::EPROTO)?;
        if !sealed || bytes > LARGEST || size != geometry.bytes() {
            return Err(Errno::EPROTO);
        }
        Self::map(fd, geometry)
    }

    fn map(fd: BorrowedFd<'_>, geometry: Geometry) -> Result<Self> {
        let len = NonZeroUsize::new(geometry.bytes()).ok_or(Errno::EPROTO)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // The pages are there already; mapping them at once saves a fault for each.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let base = unsafe { mmap(std::ptr::null_mut(), len.get(), prot, flags, fd, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::ENOMEM)?;
        Ok(Self { base, len, geometry })
    }

    /// The ring in it, for an end that is dropped before the segment is.
    pub fn memory(&self) -> RingMemory {
        // SAFETY: page-aligned, mapped, of the geometry's size, and unmapped only when `self` is
        // dropped, which the owners of both ends do last (field order in `rings`).
        unsafe { RingMemory::new(self.base, self.geometry) }
    }

    /// Its first byte.
    #[cfg(test)]
    pub(crate) const fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Division of the memory.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: our own mapping, whose users are gone. There is nobody to tell of a failure.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_mapped_twice_and_checked() {
        let geometry = cold().unwrap();
        let (_ours, fd) = Segment::create(geometry).unwrap();
        assert!(Segment::attach(fd.as_fd(), geometry.slots(), geometry.bytes()).is_ok());
        let wrong = Segment::attach(fd.as_fd(), geometry.slots(), 8192).unwrap_err();
        assert_eq!(wrong, Errno::EPROTO);
    }

    #[test]
    fn rings_get_smaller_as_room_does() {
        let size = |left: usize| hot(left << 10).map(|ring| ring.bytes() >> 10);
        let rooms = [0, 15, 16, 255, 256, 1023, 1024, 1 << 30].map(size);
        let [none, least, middle, most] = [None, Some(16), Some(64), Some(256)];
        assert_eq!(rooms, [none, none, least, least, middle, middle, most, most]);
        let smallest = hot(LEAST_HOT).unwrap();
        assert!(smallest.max_payload() > crate::offer::INJECT_SIZE + 512, "an inject fits");
    }

    #[test]
    fn a_file_that_can_shrink_is_refused() {
        let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        let geometry = cold().unwrap();
        let refused = Segment::attach(fd.as_fd(), geometry.slots(), geometry.bytes()).unwrap_err();
        assert_eq!(refused, Errno::EPROTO);
    }
}
