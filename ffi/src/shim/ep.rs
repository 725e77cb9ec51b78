//! SETUP. Endpoints: `fi_ops_ep`.

use core::ffi::c_void;
use std::sync::Arc;

use fabric_core::{Errno, Result, api::Endpoint};

use super::payload::{DomainObject, EpObject};
use crate::{
    abi::{constants::FI_CLASS_EP, fid::fid_ep, info::fi_info},
    object::CObject,
};

impl<E: Endpoint> CObject for EpObject<E> {
    type Head = fid_ep;
    const CLASS: usize = FI_CLASS_EP;
}

/// Opens an endpoint. Not supported.
///
/// # Safety
/// `info` is an info of the application or null.
pub(super) unsafe fn open<E: Endpoint>(
    _domain: &Arc<DomainObject<E>>,
    _info: *mut fi_info,
    _flags: u64,
    _context: *mut c_void,
) -> Result<*mut fid_ep> {
    Err(Errno::ENOSYS)
}
