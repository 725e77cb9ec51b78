//! HOT. Memory that is not ours: the application's buffers and bytes that a peer can change.
//!
//! The copies of every protocol go through here, so that the engine itself needs no `unsafe`.

use core::{fmt, ptr};

use crate::{Errno, Result, op::IoVec};

/// Most pieces in one local buffer description (`iov_limit`).
pub const IOV_LIMIT: usize = 4;

/// Application memory that an operation may touch until it completes.
#[derive(Clone, Copy)]
pub struct Buffers {
    iov: [IoVec; IOV_LIMIT],
    count: usize,
    len: usize,
}

impl Buffers {
    /// No memory.
    pub const EMPTY: Self = Self { iov: [IoVec::EMPTY; IOV_LIMIT], count: 0, len: 0 };

    /// Describes `iov`; more than [`IOV_LIMIT`] pieces, a null piece with a length, or a total
    /// above `isize::MAX` is `EINVAL`.
    ///
    /// # Safety
    /// Each piece is valid for the accesses of its operation until that operation completes or its
    /// endpoint is closed.
    #[inline]
    pub unsafe fn new(iov: &[IoVec]) -> Result<Self> {
        if iov.len() > IOV_LIMIT {
            return Err(Errno::EINVAL);
        }
        let mut all = Self::EMPTY;
        let mut total = 0usize;
        for (slot, piece) in all.iov.iter_mut().zip(iov) {
            if piece.base.is_null() && piece.len != 0 {
                return Err(Errno::EINVAL);
            }
            total = total.checked_add(piece.len).ok_or(Errno::EINVAL)?;
            *slot = *piece;
        }
        if total > isize::MAX as usize {
            return Err(Errno::EINVAL);
        }
        all.count = iov.len();
        all.len = total;
        Ok(all)
    }

    /// Bytes in all.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces.
    #[inline]
    pub fn iov(&self) -> &[IoVec] {
        &self.iov[..self.count]
    }

    /// The first piece's address, as completions of multi-receive buffers report it.
    pub fn base(&self) -> usize {
        self.iov[0].base as usize
    }

    /// The part from `skip` of at most `len` bytes.
    pub fn slice(&self, skip: usize, len: usize) -> Self {
        let mut part = Self::EMPTY;
        let (mut skip, mut left) = (skip, len);
        for piece in self.iov() {
            if skip >= piece.len {
                skip -= piece.len;
                continue;
            }
            let take = (piece.len - skip).min(left);
            if take == 0 {
                break;
            }
            part.iov[part.count] = IoVec { base: piece.base.wrapping_add(skip), len: take };
            part.count += 1;
            part.len += take;
            left -= take;
            skip = 0;
        }
        part
    }

    /// Copies up to `bytes.len()` bytes in from a slice; returns how many fitted.
    pub fn fill(&self, skip: usize, bytes: &[u8]) -> usize {
        SharedBytes { ptr: bytes.as_ptr(), len: bytes.len() }.copy_to(0, self, skip, bytes.len())
    }

    /// Copies the bytes from `skip` out into `out`; returns how many there were.
    pub fn gather(&self, skip: usize, out: &mut [u8]) -> usize {
        let mut done = 0;
        for piece in self.slice(skip, out.len()).iov() {
            // SAFETY: `new`'s caller vouches for the piece; `slice` bounds the sum of lengths by
            // `out.len()`; `out` is ours and cannot overlap application memory being posted.
            unsafe { ptr::copy_nonoverlapping(piece.base, out.as_mut_ptr().add(done), piece.len) };
            done += piece.len;
        }
        done
    }

    /// Copies as many bytes as fit into `out`; returns how many.
    pub fn copy_into(&self, out: &Self) -> usize {
        let mut done = 0;
        for piece in self.iov() {
            let bytes = SharedBytes { ptr: piece.base, len: piece.len };
            let n = bytes.copy_to(0, out, done, piece.len);
            done += n;
            if n < piece.len {
                break;
            }
        }
        done
    }

    /// Appends the bytes to a buffer of our own.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len);
        for piece in self.iov() {
            let end = out.len() + piece.len;
            // SAFETY: `new`'s caller vouches for the piece; the lengths of all of them add up to
            // `self.len`, for which there is room behind the bytes in `out`; that is ours and cannot
            // overlap application memory being posted.
            unsafe {
                ptr::copy_nonoverlapping(piece.base, out.as_mut_ptr().add(out.len()), piece.len);
                out.set_len(end);
            }
        }
    }

    /// The bytes in a buffer of our own.
    pub fn to_boxed(&self) -> Box<[u8]> {
        let mut all = Vec::with_capacity(self.len);
        self.append_to(&mut all);
        all.into_boxed_slice()
    }
}

impl fmt::Debug for Buffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffers({} bytes in {} pieces)", self.len, self.count)
    }
}

/// What an operation reads from: application memory, or a copy that the operation owns.
#[derive(Debug)]
pub struct Payload {
    buffers: Buffers,
    /// `buffers` describes bytes from `Box::into_raw`, which this value frees.
    owned: bool,
}

impl Payload {
    /// Application memory.
    pub const fn borrowed(buffers: Buffers) -> Self {
        Self { buffers, owned: false }
    }

    /// A copy, so that the application may reuse its memory at once.
    pub fn copied(buffers: &Buffers) -> Self {
        Self::owned(buffers.to_boxed())
    }

    /// Bytes of our own.
    pub fn owned(bytes: Box<[u8]>) -> Self {
        let mut all = Buffers::EMPTY;
        let len = bytes.len();
        all.iov[0] = IoVec { base: Box::into_raw(bytes).cast(), len };
        all.count = 1;
        all.len = len;
        Self { buffers: all, owned: true }
    }

    /// The bytes.
    #[inline]
    pub const fn buffers(&self) -> &Buffers {
        &self.buffers
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        if self.owned {
            let IoVec { base, len } = self.buffers.iov[0];
            // SAFETY: `owned` says that these are the parts of a box, given up once, here.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(base, len)) });
        }
    }
}

/// Bytes in memory that a peer may change at any time: only copies leave it.
#[derive(Clone, Copy)]
pub struct SharedBytes {
    ptr: *const u8,
    len: usize,
}

impl SharedBytes {
    /// No bytes.
    pub const EMPTY: Self = Self { ptr: ptr::null(), len: 0 };

    /// Describes mapped memory.
    ///
    /// # Safety
    /// The range stays mapped while the value or a copy of it is used.
    #[inline]
    pub const unsafe fn new(ptr: *const u8, len: usize) -> Self {
        Self { ptr, len }
    }

    /// Number of bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first byte's address.
    #[cfg(all(test, not(loom)))]
    pub(crate) const fn as_ptr(&self) -> *const u8 {
        self.ptr
    }

    /// A native-endian word at `at`, `None` past the end.
    #[inline]
    pub fn word(&self, at: usize) -> Option<u64> {
        if at.checked_add(8)? > self.len {
            return None;
        }
        // SAFETY: in bounds by the check; mapped by the constructor's promise; no alignment needed.
        Some(unsafe { ptr::read_unaligned(self.ptr.add(at).cast::<u64>()) })
    }

    /// Everything from `at`, empty past the end.
    #[inline]
    pub fn tail(&self, at: usize) -> Self {
        let at = at.min(self.len);
        Self { ptr: self.ptr.wrapping_add(at), len: self.len - at }
    }

    /// Copies `len` bytes from `at` into `out` from `skip`; returns how many fitted and were there.
    #[inline]
    pub fn copy_to(&self, at: usize, out: &Buffers, skip: usize, len: usize) -> usize {
        let len = len.min(self.len.saturating_sub(at));
        if skip == 0 && out.count == 1 {
            let n = len.min(out.iov[0].len);
            // SAFETY: source in bounds by the line above and mapped by promise; destination by
            // `Buffers::new`'s promise. `copy` allows overlap, since the peer may be ourselves.
            unsafe { ptr::copy(self.ptr.add(at), out.iov[0].base, n) };
            return n;
        }
        let mut done = 0;
        for piece in out.slice(skip, len).iov() {
            // SAFETY: as above; `slice` bounds the total by `len`.
            unsafe { ptr::copy(self.ptr.add(at + done), piece.base, piece.len) };
            done += piece.len;
        }
        done
    }

    /// Copies bytes from `at` into `out`; returns how many there were.
    pub fn copy_out(&self, at: usize, out: &mut [u8]) -> usize {
        let len = out.len().min(self.len.saturating_sub(at));
        if len != 0 {
            // SAFETY: in bounds by the line above and mapped by promise; `out` is ours.
            unsafe { ptr::copy_nonoverlapping(self.ptr.add(at), out.as_mut_ptr(), len) };
        }
        len
    }

    /// Copies everything into a buffer of our own. `None` if there is no memory for one.
    pub fn to_boxed(&self) -> Option<Box<[u8]>> {
        let mut all = Vec::new();
        all.try_reserve_exact(self.len).ok()?;
        all.resize(self.len, 0u8);
        let mut all = all.into_boxed_slice();
        if self.len != 0 {
            // SAFETY: the source is mapped by promise, the destination is fresh and of equal size.
            unsafe { ptr::copy_nonoverlapping(self.ptr, all.as_mut_ptr(), self.len) };
        }
        Some(all)
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({})", self.len)
    }
}

// SAFETY: a description of memory, as `IoVec` is.
unsafe impl Send for SharedBytes {}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffers(parts: &mut [Vec<u8>]) -> Buffers {
        let iov: Vec<_> =
            parts.iter_mut().map(|p| IoVec { base: p.as_mut_ptr(), len: p.len() }).collect();
        // SAFETY: the tests keep `parts` alive while they use the result.
        unsafe { Buffers::new(&iov) }.unwrap()
    }

    #[test]
    fn scatter_and_gather_over_pieces() {
        let mut parts = vec![vec![0u8; 3], vec![], vec![0u8; 5]];
        let all = buffers(&mut parts);
        assert_eq!(all.fill(0, b"abcdefghij"), 8);
        let mut out = [0u8; 4];
        assert_eq!(all.gather(2, &mut out), 4);
        assert_eq!(&out, b"cdef");
        assert_eq!(all.fill(6, b"XYZ"), 2);
        assert_eq!(parts[2], b"defXY");
    }

    #[test]
    fn refuses_null_and_overflow() {
        let null = IoVec { base: ptr::null_mut(), len: 1 };
        // SAFETY: refused before any access.
        assert_eq!(unsafe { Buffers::new(&[null]) }.unwrap_err(), Errno::EINVAL);
        let mut byte = 0u8;
        let huge = IoVec { base: &mut byte, len: usize::MAX };
        // SAFETY: refused before any access.
        assert_eq!(unsafe { Buffers::new(&[huge, huge]) }.unwrap_err(), Errno::EINVAL);
    }

    #[test]
    fn words_stop_at_the_end() {
        let bytes = [1u8; 12];
        // SAFETY: `bytes` outlives `shared`.
        let shared = unsafe { SharedBytes::new(bytes.as_ptr(), bytes.len()) };
        assert!(shared.word(4).is_some());
        assert!(shared.word(5).is_none());
        assert!(shared.word(usize::MAX).is_none());
    }
}
