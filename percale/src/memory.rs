//! SETUP. Memory of our own, for peers to reach and for many messages.
#![allow(unsafe_code, reason = "allocates")]

use core::{fmt, ptr::NonNull};
use std::alloc::{Layout, alloc_zeroed, dealloc};

use fabric_core::op::IoVec;

use crate::registered::{Mark, Registration};

/// A page on every host that this runs on; more where pages are larger costs nothing.
const ALIGN: usize = 4096;

/// Zeroed memory. Others write to it: there is no reference to a part unless its owner knows that it is
/// left alone.
pub(crate) struct Memory {
    base: NonNull<u8>,
    len: usize,
    layout: Option<Layout>,
    /// Where it is registered for operations of this process.
    registered: Option<(Mark, Registration)>,
}

// SAFETY: an address and a length of memory that is ours; every access goes through a `View`, which
// treats it as memory that others change.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// So many bytes; `None` if there is no such memory.
    pub(crate) fn new(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(Self { base: NonNull::dangling(), len, layout: None, registered: None });
        }
        let layout = Layout::from_size_align(len, ALIGN).ok()?;
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { base, len, layout: Some(layout), registered: None })
    }

    /// The same, registered as long as it lives.
    pub(crate) fn known(mut self, mark: Mark, registration: Registration) -> Self {
        self.registered = Some((mark, registration));
        self
    }

    /// Where it is registered.
    pub(crate) fn mark(&self) -> Mark {
        self.registered.as_ref().map_or(Mark::NONE, |(mark, _)| *mark)
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The memory behind its first `at` bytes, which are within it.
    pub(crate) const fn at(&self, at: usize) -> *mut u8 {
        assert!(at <= self.len);
        self.base.as_ptr().wrapping_add(at)
    }

    pub(crate) const fn iov(&self) -> IoVec {
        IoVec { base: self.base.as_ptr(), len: self.len }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.registered = None;
        if let Some(layout) = self.layout {
            // SAFETY: allocated by `new` with this layout. Every view, part and operation that uses
            // the memory holds it, and peers' access has ended with the region.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.len)
    }
}
