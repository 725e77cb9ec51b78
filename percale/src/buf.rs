//! HOT. Memory that operations own while they run.
//!
//! An operation takes its buffer and gives it back when it is done. In between nobody can reach it:
//! a future that is dropped leaves its buffer to the library until the operation has ended, and a
//! future that is forgotten leaks it.
#![allow(unsafe_code, reason = "says of types that their bytes stay where they are")]

use bytemuck::Pod;

use crate::registered::Mark;

/// Memory that an operation sends from.
///
/// ```
/// fn takes(_: impl percale::Buf) {}
/// takes(vec![1u8, 2, 3]);
/// takes(vec![0u64; 100]);
/// takes("text".to_owned());
/// takes(b"static" as &'static [u8]);
/// ```
///
/// # Safety
/// [`Buf::piece`] gives the same memory every time, until the value is dropped or changed, and also
/// after the value itself has moved. It is initialised and valid for reading.
pub unsafe trait Buf: Send + 'static {
    /// The bytes.
    fn piece(&self) -> Piece;
}

/// Memory that an operation receives into.
///
/// A `Vec` receives into its capacity, from the start, and has afterwards the length of what came:
///
/// ```
/// use percale::BufMut;
///
/// let mut buffer = Vec::<u8>::with_capacity(100);
/// assert!(buffer.piece_mut().len() >= 100);
/// ```
///
/// # Safety
/// [`BufMut::piece_mut`] gives the same memory every time, until the value is dropped or changed, and also
/// after the value itself has moved. It is valid for writing, and no reference to it is used
/// meanwhile.
pub unsafe trait BufMut: Send + 'static {
    /// The memory.
    fn piece_mut(&mut self) -> Piece;
    /// The first `len` bytes have been written; the others are as they were.
    ///
    /// # Safety
    /// They have, and they are no more than there is room for.
    unsafe fn filled(&mut self, len: usize);
}

/// A piece of memory, which may not have been initialised.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    base: *mut u8,
    len: usize,
    mark: Mark,
}

impl Piece {
    /// Of so many bytes from an address.
    pub const fn new(base: *mut u8, len: usize) -> Self {
        Self { base, len, mark: Mark::NONE }
    }

    /// Where it begins.
    pub const fn base(&self) -> *mut u8 {
        self.base
    }

    /// Of bytes that are only read.
    pub const fn of(bytes: &[u8]) -> Self {
        Self::new(bytes.as_ptr().cast_mut(), bytes.len())
    }

    /// Its bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The same, of memory that is registered.
    pub(crate) const fn marked(self, mark: Mark) -> Self {
        Self { mark, ..self }
    }

    /// Where it is registered.
    pub(crate) const fn mark(&self) -> Mark {
        self.mark
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

// SAFETY: a vector's elements are on the heap and do not move with it; plain data has no padding.
unsafe impl<T: Pod + Send> Buf for Vec<T> {
    fn piece(&self) -> Piece {
        Piece::of(bytemuck::cast_slice(self))
    }
}

// SAFETY: as above; the capacity belongs to the vector alone.
unsafe impl<T: Pod + Send> BufMut for Vec<T> {
    fn piece_mut(&mut self) -> Piece {
        Piece::new(self.as_mut_ptr().cast(), self.capacity() * size_of::<T>())
    }

    unsafe fn filled(&mut self, len: usize) {
        let whole = len.checked_div(size_of::<T>()).unwrap_or(0);
        // SAFETY: the caller has written `len` bytes within the capacity, and any bytes are a `T`.
        unsafe { self.set_len(whole) };
    }
}

// SAFETY: as for vectors.
unsafe impl<T: Pod + Send> Buf for Box<[T]> {
    fn piece(&self) -> Piece {
        Piece::of(bytemuck::cast_slice(self))
    }
}

// SAFETY: as for vectors.
unsafe impl<T: Pod + Send> BufMut for Box<[T]> {
    fn piece_mut(&mut self) -> Piece {
        Piece::new(self.as_mut_ptr().cast(), size_of_val::<[T]>(self))
    }

    unsafe fn filled(&mut self, _: usize) {}
}

// SAFETY: as for vectors.
unsafe impl Buf for String {
    fn piece(&self) -> Piece {
        Piece::of(self.as_bytes())
    }
}

// SAFETY: static memory stays, and is not written behind a shared reference.
unsafe impl Buf for &'static [u8] {
    fn piece(&self) -> Piece {
        Piece::of(self)
    }
}

// SAFETY: as for static bytes.
unsafe impl Buf for &'static str {
    fn piece(&self) -> Piece {
        Piece::of(self.as_bytes())
    }
}

// SAFETY: as for static bytes.
unsafe impl<const N: usize> Buf for &'static [u8; N] {
    fn piece(&self) -> Piece {
        Piece::of(*self)
    }
}

// SAFETY: shared bytes are on the heap, and not written.
unsafe impl Buf for std::sync::Arc<[u8]> {
    fn piece(&self) -> Piece {
        Piece::of(self)
    }
}

// SAFETY: no memory at all.
unsafe impl Buf for () {
    fn piece(&self) -> Piece {
        Piece::of(&[])
    }
}

// SAFETY: no memory at all.
unsafe impl BufMut for () {
    fn piece_mut(&mut self) -> Piece {
        Piece::new(core::ptr::null_mut(), 0)
    }

    unsafe fn filled(&mut self, _: usize) {}
}

#[cfg(feature = "bytes")]
mod of_bytes {
    use bytes::{Bytes, BytesMut};

    use super::{Buf, BufMut, Piece};

    // SAFETY: the bytes do not move with the handle, and are not written while there is one.
    unsafe impl Buf for Bytes {
        fn piece(&self) -> Piece {
            Piece::of(self)
        }
    }

    // SAFETY: the bytes do not move with the handle, which is their only one.
    unsafe impl Buf for BytesMut {
        fn piece(&self) -> Piece {
            Piece::of(self)
        }
    }

    // SAFETY: as above; the capacity belongs to this handle alone.
    unsafe impl BufMut for BytesMut {
        fn piece_mut(&mut self) -> Piece {
            Piece::new(self.as_mut_ptr(), self.capacity())
        }

        unsafe fn filled(&mut self, len: usize) {
            // SAFETY: the caller has written `len` bytes within the capacity.
            unsafe { self.set_len(len) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_receives_into_its_capacity() {
        let mut buffer: Vec<u32> = Vec::with_capacity(4);
        let room = buffer.piece_mut();
        assert!(room.len() >= 16);
        // SAFETY: within the room.
        unsafe { core::ptr::write_bytes(room.base(), 1, 10) };
        // SAFETY: ten bytes have been written.
        unsafe { buffer.filled(10) };
        assert_eq!(buffer, [0x0101_0101; 2]);
    }

    #[test]
    fn an_empty_type_takes_nothing() {
        let mut buffer: Vec<()> = vec![(); 3];
        assert_eq!(buffer.piece_mut().len(), 0);
        // SAFETY: nothing has been written.
        unsafe { buffer.filled(0) };
        assert!(buffer.is_empty() && buffer.piece().is_empty());
    }
}
