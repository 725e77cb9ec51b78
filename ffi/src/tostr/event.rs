//! SETUP. Error entries of completion queues.

use core::fmt::{self, Write};

use super::Pointer;
use crate::abi::event::fi_cq_err_entry;

/// # Safety
/// `entry` is an error entry of version 1.5 or newer, up to `err_data_size`.
pub(super) unsafe fn cq_err_entry(out: &mut String, entry: *const fi_cq_err_entry) -> fmt::Result {
    /// Reads one field, so that the newest ones, which older callers lack, are never touched.
    macro_rules! field {
        ($name:ident) => {
            // SAFETY: the caller's entry holds this field.
            unsafe { (&raw const (*entry).$name).read() }
        };
    }
    writeln!(out, "fi_cq_err_entry:")?;
    writeln!(out, "    op_context: {}", Pointer(field!(op_context)))?;
    writeln!(out, "    flags: {:#x}", field!(flags))?;
    writeln!(out, "    len: {}", field!(len))?;
    writeln!(out, "    buf: {}", Pointer(field!(buf)))?;
    writeln!(out, "    data: {}", field!(data))?;
    writeln!(out, "    tag: {:#x}", field!(tag))?;
    writeln!(out, "    olen: {}", field!(olen))?;
    writeln!(out, "    err: {}", field!(err))?;
    writeln!(out, "    prov_errno: {}", field!(prov_errno))?;
    writeln!(out, "    err_data: {}", Pointer(field!(err_data)))?;
    writeln!(out, "    err_data_size: {}", field!(err_data_size))
}
