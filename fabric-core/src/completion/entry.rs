//! HOT. What a completion says, in the layout that the C formats are prefixes of (`fi_cq(3)`).

use crate::{Errno, attr::CqFormat, flags::Flags, op::ADDR_UNSPEC};

/// A completion. The first 48 bytes are `struct fi_cq_tagged_entry`; the shorter formats are its
/// prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// The operation's context; zero for events without one.
    pub context: usize,
    /// Kind and direction of the operation.
    pub flags: u64,
    /// Bytes received, where that is meaningful.
    pub len: usize,
    /// Where the message was placed, for multi-receive buffers.
    pub buf: usize,
    /// Remote CQ data.
    pub data: u64,
    /// Tag.
    pub tag: u64,
    /// Sender, as the application knows it.
    pub src: u64,
}

impl Entry {
    /// An entry with a context and flags and nothing else.
    #[inline]
    pub const fn new(context: usize, flags: Flags) -> Self {
        Self { context, flags: flags.bits(), len: 0, buf: 0, data: 0, tag: 0, src: ADDR_UNSPEC }
    }
}

/// Bytes of one entry in a format.
pub const fn format_size(format: CqFormat) -> usize {
    match format {
        CqFormat::Unspec | CqFormat::Context => 8,
        CqFormat::Msg => 24,
        CqFormat::Data => 40,
        CqFormat::Tagged => 48,
    }
}

/// A failed operation (`struct fi_cq_err_entry`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CqError {
    /// The common part; `src` is the peer, where it is known.
    pub entry: Entry,
    /// Bytes that did not fit.
    pub olen: usize,
    /// Reason.
    pub err: Errno,
    /// The provider's own number for it; the operating system's error where there was one.
    pub prov_errno: i32,
    /// More about it; see [`CqError::data`].
    pub err_data: Box<[u8]>,
}

impl CqError {
    /// An error without further data.
    pub fn new(entry: Entry, err: Errno) -> Self {
        Self { entry, olen: 0, err, prov_errno: err.get(), err_data: Box::default() }
    }

    /// Adds error data: the peer's address, as the address vector would take it.
    pub fn data(mut self, data: &[u8]) -> Self {
        self.err_data = data.into();
        self
    }
}

// SAFETY: a description of the application's memory; a call of one thread uses it.
unsafe impl Send for EntryBuf {}

/// Room for entries in one format, in memory of the application.
#[derive(Debug)]
pub struct EntryBuf {
    base: *mut u8,
    size: usize,
    room: usize,
    src: *mut u64,
    used: usize,
}

impl EntryBuf {
    /// No room.
    pub const NONE: Self =
        Self { base: core::ptr::null_mut(), size: 0, room: 0, src: core::ptr::null_mut(), used: 0 };

    /// Describes room for `room` entries of `format` and, unless null, as many sources.
    ///
    /// # Safety
    /// `base` is valid for writing `room * format_size(format)` bytes and `src` is null or valid
    /// for `room` aligned words, while the value lives.
    #[inline]
    pub const unsafe fn new(base: *mut u8, format: CqFormat, room: usize, src: *mut u64) -> Self {
        Self { base, size: format_size(format), room, src, used: 0 }
    }

    /// Entries written so far.
    #[inline]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Whether another entry fits.
    #[inline]
    pub const fn has_room(&self) -> bool {
        self.used < self.room
    }

    /// Appends the entry's prefix; without room it does nothing.
    #[inline]
    pub fn push(&mut self, entry: &Entry) {
        if !self.has_room() {
            return;
        }
        // SAFETY: `used < room`, so both places lie within what `new`'s caller promised; `size` is
        // at most 48, the length of the C prefix of `Entry`.
        unsafe {
            let from = core::ptr::from_ref(entry).cast::<u8>();
            let to = self.base.add(self.used * self.size);
            // Constant sizes let each format be a few plain moves.
            match self.size {
                48 => core::ptr::copy_nonoverlapping(from, to, 48),
                40 => core::ptr::copy_nonoverlapping(from, to, 40),
                24 => core::ptr::copy_nonoverlapping(from, to, 24),
                _ => core::ptr::copy_nonoverlapping(from, to, 8),
            }
            if !self.src.is_null() {
                self.src.add(self.used).write(entry.src);
            }
        }
        self.used += 1;
    }
}
