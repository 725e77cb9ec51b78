//! HOT. Buffers of a domain.

use super::{PLACE_MOST, pool::Place};
use crate::{
    buf::{Buf, BufMut, Piece},
    dispatch::Provider,
    domain::Domain,
    error::{Error, Result},
    memory::Memory,
};
use core::{
    fmt,
    ops::{Deref, DerefMut},
};

/// A buffer of a domain, registered where the provider's device wants that.
///
/// Operations take any buffer. Over `verbs`, what is not a `Buffer` or part of a
/// [`Region`](crate::Region) is copied on its way if it is small, and registered for each operation if
/// it is not; these are neither. They come from a pool of the domain, and go back when they are
/// dropped.
///
/// ```
/// # fn main() -> percale::Result<()> {
/// let domain = percale::Fabric::loopback()?.domain()?;
/// let (one, two) = (domain.endpoint()?, domain.endpoint()?);
/// let peer = domain.peer(&two.address()?)?;
///
/// let receive = two.recv(domain.buffer(100)?);
/// let mut message = domain.buffer(5)?;
/// message.copy_from_slice(b"hello");
/// one.send(peer, message).wait()?;
/// assert_eq!(&receive.wait()?.buffer[..], b"hello");
/// # Ok(())
/// # }
/// ```
pub struct Buffer {
    home: Home,
    len: usize,
}

enum Home {
    Place(Place),
    Own(Memory),
}

impl<P: Provider> Domain<P> {
    /// A buffer of so many bytes, which are whatever they were before.
    pub fn buffer(&self, len: usize) -> Result<Buffer> {
        let refused = |errno| Error::Refused { call: "get a buffer", errno };
        let pool = self.inner().pool();
        let place = if len <= PLACE_MOST { pool.place(len).map_err(refused)? } else { None };
        let home = match place {
            Some(place) => Home::Place(place),
            None => Home::Own(pool.memory(len).map_err(refused)?),
        };
        Ok(Buffer { home, len })
    }
}

impl Buffer {
    /// Bytes that there is room for, which a receive can use.
    pub fn capacity(&self) -> usize {
        match &self.home {
            Home::Place(place) => place.len(),
            Home::Own(memory) => memory.len(),
        }
    }

    /// Changes the length, within the capacity. Bytes that are new are whatever they were before.
    ///
    /// # Panics
    /// If it is beyond the capacity.
    pub fn resize(&mut self, len: usize) {
        let capacity = self.capacity();
        assert!(len <= capacity, "{len} bytes are more than the capacity of {capacity}");
        self.len = len;
    }

    fn base(&self) -> *mut u8 {
        match &self.home {
            Home::Place(place) => place.base(),
            Home::Own(memory) => memory.at(0),
        }
    }

    fn piece_of(&self, len: usize) -> Piece {
        let mark = match &self.home {
            Home::Place(place) => place.mark(),
            Home::Own(memory) => memory.mark(),
        };
        Piece::new(self.base(), len).marked(mark)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the capacity is no less, and initialised. Nobody else has the place: its region is for
        // operations of this process, which own the buffer while they use it.
        unsafe { core::slice::from_raw_parts(self.base(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.base(), self.len) }
    }
}

// SAFETY: the place does not move with the handle, and is nobody else's while there is one.
unsafe impl Buf for Buffer {
    fn piece(&self) -> Piece {
        self.piece_of(self.len)
    }
}

// SAFETY: as above; the whole capacity belongs to it.
unsafe impl BufMut for Buffer {
    fn piece_mut(&mut self) -> Piece {
        self.piece_of(self.capacity())
    }

    unsafe fn filled(&mut self, len: usize) {
        self.len = len;
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}
