//! SETUP. Objects that this library did not make: their tables may be short, null, or have holes.

use crate::abi::fid::{fi_ops, fid};

/// Reads one code pointer of a foreign object's `fi_ops`. `None` if the table is missing, too
/// short for the slot, or null there.
///
/// # Safety
/// `fid` is an object whose `ops` is null or points to a table of at least its `size` bytes;
/// `select` projects to a slot of the table without reading it.
pub(crate) unsafe fn slot<F: Copy>(
    fid: *const fid,
    select: impl FnOnce(*const fi_ops) -> *const F,
) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    // SAFETY: the caller passes an object.
    let ops: *const fi_ops = unsafe { (*fid).ops };
    if ops.is_null() {
        return None;
    }
    let slot = select(ops);
    let end = (slot.addr() - ops.addr()) + size_of::<F>();
    // SAFETY: every table starts with its size.
    if unsafe { (&raw const (*ops).size).read() } < end {
        return None;
    }
    // SAFETY: the table reaches to the slot's end; read as a number, null is not an error.
    if unsafe { slot.cast::<usize>().read() } == 0 {
        return None;
    }
    // SAFETY: the slot holds a code pointer, as its owner promises, and it is not null.
    Some(unsafe { slot.read() })
}
