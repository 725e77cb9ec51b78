//! HOT. Operations as an application posts them: plain structs, built on the caller's stack.
//!
//! Buffers are raw addresses, because the memory stays the application's: it promises, by posting,
//! that the bytes stay valid until the operation completes (`fi_msg(3)`).

use core::marker::PhantomData;

use crate::{completion::Interest, flags::Flags};

/// `FI_ADDR_UNSPEC` and `FI_ADDR_NOTAVAIL`: no peer, any peer, unknown peer.
pub const ADDR_UNSPEC: u64 = u64::MAX;

/// One piece of local memory; the layout of `struct iovec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct IoVec {
    /// First byte; may be null when `len` is zero.
    pub base: *mut u8,
    /// Bytes.
    pub len: usize,
}

impl IoVec {
    /// The empty piece.
    pub const EMPTY: Self = Self { base: core::ptr::null_mut(), len: 0 };
}

// SAFETY: an `IoVec` is an address and a length; whoever dereferences it answers for the access.
unsafe impl Send for IoVec {}
// SAFETY: as above, sharing the description does not touch the memory.
unsafe impl Sync for IoVec {}

/// Where the pieces of local memory are registered: the descriptor ([`Region::descriptor`]) of each
/// piece's region, in order. Pieces beyond the list, and zeros, have none.
///
/// [`Region::descriptor`]: crate::mr::Region::descriptor
#[derive(Clone, Copy, Debug)]
pub struct Descs<'a> {
    first: *const usize,
    count: usize,
    list: PhantomData<&'a [usize]>,
}

impl<'a> Descs<'a> {
    /// Nothing is registered.
    pub const NONE: Self = Self::new(&[]);

    /// The descriptors in a list.
    #[inline]
    pub const fn new(list: &'a [usize]) -> Self {
        Self { first: list.as_ptr(), count: list.len(), list: PhantomData }
    }

    /// The descriptors in an array of the application's, which nobody looks at where nothing has to
    /// be registered; null is none.
    ///
    /// # Safety
    /// Where the endpoint's domain asks for registered local memory (`MrMode::LOCAL`), `first` is null
    /// or readable for `count` words while the value lives.
    #[inline]
    pub const unsafe fn from_raw(first: *const usize, count: usize) -> Self {
        Self { first, count: if first.is_null() { 0 } else { count }, list: PhantomData }
    }

    /// The descriptor of a piece, zero if it has none. For endpoints that need it only.
    #[inline]
    pub fn of(&self, piece: usize) -> usize {
        if piece >= self.count {
            return 0;
        }
        // SAFETY: inside the array, which is readable by the constructors' contracts.
        unsafe { self.first.add(piece).read_unaligned() }
    }
}

/// One piece of remote memory; the layout of `struct fi_rma_iov`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RmaIov {
    /// Virtual address or offset, as the region's mode says.
    pub addr: u64,
    /// Bytes.
    pub len: usize,
    /// Key of the region.
    pub key: u64,
}

/// What every transmit-side operation carries.
#[derive(Clone, Copy, Debug)]
pub struct TxMeta {
    /// The target's handle in the address vector.
    pub dest: u64,
    /// The application's context, given back in the completion.
    pub context: usize,
    /// Effective operation flags: those of the call, or the endpoint's defaults.
    pub flags: Flags,
    /// Data for the target's completion; used with [`Flags::REMOTE_CQ_DATA`].
    pub data: u64,
    /// A call of the inject family: never a success entry, counters still count.
    pub silent: bool,
}

impl TxMeta {
    /// What its owner wants to hear.
    #[inline]
    pub const fn interest(&self) -> Interest {
        Interest { context: self.context, flags: self.flags, silent: self.silent }
    }

    /// The application may reuse its buffer when the call returns.
    #[inline]
    pub const fn injects(&self) -> bool {
        self.silent || self.flags.contains(Flags::INJECT)
    }

    /// Data for the target's completion.
    #[inline]
    pub const fn cq_data(&self) -> Option<u64> {
        if self.flags.contains(Flags::REMOTE_CQ_DATA) { Some(self.data) } else { None }
    }
}

/// A send, tagged or not.
#[derive(Clone, Copy, Debug)]
pub struct SendOp<'a> {
    /// Common part.
    pub meta: TxMeta,
    /// Source.
    pub iov: &'a [IoVec],
    /// Tagged interface.
    pub tagged: bool,
    /// Tag; zero when not tagged.
    pub tag: u64,
}

/// A receive, tagged or not. `flags` may hold PEEK, CLAIM, DISCARD, MULTI_RECV, COMPLETION.
#[derive(Clone, Copy, Debug)]
pub struct RecvOp<'a> {
    /// Destination.
    pub iov: &'a [IoVec],
    /// Only from this peer, or [`ADDR_UNSPEC`].
    pub src: u64,
    /// Tagged interface.
    pub tagged: bool,
    /// Tag to match.
    pub tag: u64,
    /// Tag bits that do not count.
    pub ignore: u64,
    /// The application's context.
    pub context: usize,
    /// Effective operation flags.
    pub flags: Flags,
}

/// Direction of a one-sided operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmaKind {
    /// Remote memory to local memory.
    Read,
    /// Local memory to remote memory.
    Write,
}

/// A one-sided read or write.
#[derive(Clone, Copy, Debug)]
pub struct RmaOp<'a> {
    /// Common part.
    pub meta: TxMeta,
    /// Direction.
    pub kind: RmaKind,
    /// Local memory.
    pub iov: &'a [IoVec],
    /// Remote memory; the same number of bytes in all.
    pub remote: &'a [RmaIov],
}

/// The three families of atomic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicKind {
    /// Change the target.
    Base = 0,
    /// Change the target and fetch its old value.
    Fetch = 1,
    /// Change the target if a comparison holds, and fetch its old value.
    Compare = 2,
}

/// An atomic operation. `datatype` and `op` have passed [`crate::atomic::valid`]; lengths are
/// bytes.
#[derive(Clone, Copy, Debug)]
pub struct AtomicOp<'a> {
    /// Common part.
    pub meta: TxMeta,
    /// Family.
    pub kind: AtomicKind,
    /// `enum fi_datatype`.
    pub datatype: u32,
    /// `enum fi_op`.
    pub op: u32,
    /// Operands; empty for an atomic read.
    pub operand: &'a [IoVec],
    /// Values to compare with; empty unless `kind` is `Compare`.
    pub compare: &'a [IoVec],
    /// Where old values go; empty for `Base`.
    pub result: &'a [IoVec],
    /// Target memory.
    pub remote: &'a [RmaIov],
}
