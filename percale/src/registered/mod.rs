//! HOT. Memory that devices know.
//!
//! Some providers (`FI_MR_LOCAL`: verbs) touch no memory that their device has not been told of. In a
//! domain of such a one, what an operation sends or receives is known in one of these ways:
//!
//! | memory                                            | way                                    |
//! |---------------------------------------------------|----------------------------------------|
//! | of the domain: [`Buffer`], parts of regions       | registered once, when it was made      |
//! | sent, and no longer than the device takes inline  | not at all: it is copied into the request |
//! | others up to [`PLACE_MOST`] bytes                 | a place of the pool takes its part     |
//! | others                                            | registered for this operation alone    |
//!
//! Elsewhere nothing has to be known, and the pool only has buffers to offer.
#![allow(unsafe_code, reason = "copies between places of the pool and buffers of operations")]

mod buffer;
mod pool;
mod registration;
#[cfg(test)]
mod tests;

use core::{fmt, ptr};

use fabric_core::{Errno, op::IoVec};

pub use self::buffer::Buffer;
use self::pool::Place;
pub(crate) use self::{
    pool::{PLACE_MOST, Pool},
    registration::{Mark, Registration},
};
use crate::{
    op::{Request, Way},
    queue::Outcome,
};

/// How the memory of an operation is known, until the operation has ended. It is dropped before the
/// operation's buffer.
pub(crate) enum Known {
    /// For this operation alone.
    Registered(#[expect(dead_code, reason = "held until it is dropped")] Registration),
    /// A place of the pool has the bytes. What comes goes home when the operation has ended.
    Copied { place: Place, home: Option<(IoVec, Way)> },
}

impl Known {
    /// Makes the memory of an operation known; `None` where that is not needed.
    pub(crate) fn of(
        pool: &Pool,
        request: &mut Request,
        inline: usize,
    ) -> Result<Option<Self>, Errno> {
        let Some(access) = pool.access() else { return Ok(None) };
        let Some((memory, way, mark)) = request.memory() else { return Ok(None) };
        if memory.len == 0 || (way.is_source() && memory.len <= inline) {
            return Ok(None);
        }
        let pooled = access.contains(way.access());
        if pooled && mark.is_of(pool.id()) {
            request.place(memory.base, mark.descriptor());
            return Ok(None);
        }
        if pooled && let Some(place) = pool.place(memory.len)? {
            let home = if way.is_source() {
                // SAFETY: the buffer is the operation's, and as long; the place is nobody else's.
                unsafe { ptr::copy_nonoverlapping(memory.base, place.base(), memory.len) };
                None
            } else {
                Some((memory, way))
            };
            request.place(place.base(), place.mark().descriptor());
            return Ok(Some(Self::Copied { place, home }));
        }
        let registration = pool.register(memory, way.access())?;
        request.place(memory.base, registration.descriptor());
        Ok(Some(Self::Registered(registration)))
    }

    /// The operation has ended: what has come goes to the buffer.
    pub(crate) fn settle(self, outcome: &Outcome) {
        let Self::Copied { place, home: Some((home, way)) } = self else { return };
        let brought = match outcome {
            Outcome::Done(entry) if way == Way::Received => entry.len,
            Outcome::Done(_) => home.len,
            Outcome::Failed(error) if error.err == Errno::ETRUNC => error.entry.len,
            Outcome::Failed(_) => 0,
        };
        let len = brought.min(home.len);
        // SAFETY: the operation has ended, so that its buffer, which is as long, is its owner's, who
        // calls this; the place is nobody else's.
        unsafe { ptr::copy_nonoverlapping(place.base(), home.base, len) };
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Registered(_) => "Registered",
            Self::Copied { .. } => "Copied",
        })
    }
}
