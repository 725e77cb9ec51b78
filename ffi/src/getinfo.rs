//! SETUP. Discovery and fabrics behind the C edge: versions and sizes are settled, data is owned.

use core::ffi::c_void;

use fabric_core::{
    Errno, Result,
    attr::{FabricAttr, Info, Version},
    flags::Flags,
};

use crate::{abi::fid::fid_fabric, info::Hints};

/// Lists what matches `hints`, best first. An empty list is never returned: no match is
/// `ENODATA`.
pub fn getinfo(
    _version: Version,
    _node: Option<&str>,
    _service: Option<&str>,
    _flags: Flags,
    _hints: Option<Hints>,
) -> Result<Vec<Info>> {
    // No provider is registered.
    Err(Errno::ENODATA)
}

/// Opens the fabric that `attr` names. `attr.api_version` is what the application asked for.
pub fn open_fabric(
    _attr: &FabricAttr,
    _flags: u64,
    _context: *mut c_void,
) -> Result<*mut fid_fabric> {
    // No provider is registered.
    Err(Errno::ENOSYS)
}
