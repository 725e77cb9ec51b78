//! SETUP. The addresses of this host.

use std::ffi::CStr;

use fabric_core::{Result, inet::SocketAddress};

use super::{last, set};

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostAddress {
    /// The interface's name.
    pub(crate) interface: String,
    /// Its address, without a port.
    pub(crate) address: SocketAddress,
    /// It is up.
    pub(crate) up: bool,
}

/// All addresses of all interfaces, in the system's order.
pub(crate) fn host_addresses() -> Result<Vec<HostAddress>> {
    let mut list: *mut libc::ifaddrs = core::ptr::null_mut();
    // SAFETY: room for the list's address.
    set(unsafe { libc::getifaddrs(&raw mut list) }).map_err(|_| last())?;
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: null or an entry of the list, which is whole until it is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: null or an address of the length of its family; names end with a zero.
        if let Some(address) = unsafe { address(entry.ifa_addr) } {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push(HostAddress {
                interface: name.to_string_lossy().into_owned(),
                address,
                up: entry.ifa_flags & libc::IFF_UP as u32 != 0,
            });
        }
    }
    // SAFETY: the list from above, once.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// An address as C has it; `None` for null and for families that are not IP.
///
/// # Safety
/// `address` is null or readable as far as its family says.
pub(super) unsafe fn address(address: *const libc::sockaddr) -> Option<SocketAddress> {
    // SAFETY: the caller's promise.
    let family = unsafe { address.as_ref() }?.sa_family;
    let len = match i32::from(family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    // SAFETY: the caller's promise.
    let bytes = unsafe { core::slice::from_raw_parts(address.cast::<u8>(), len) };
    SocketAddress::parse(bytes).ok()
}

/// An address as C takes it.
pub(super) fn storage(address: SocketAddress) -> libc::sockaddr_storage {
    // SAFETY: all zeros is an address without a family.
    let mut storage: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    let bytes = address.to_bytes();
    // SAFETY: the storage is as long as any socket address.
    unsafe {
        core::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            (&raw mut storage).cast::<u8>(),
            bytes.len().min(size_of::<libc::sockaddr_storage>()),
        );
    }
    storage
}
