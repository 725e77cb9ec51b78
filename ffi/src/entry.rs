//! SETUP. The exported functions behind their version nodes.

use core::ffi::{CStr, c_char, c_int, c_void};

use fabric_core::{
    Errno, Result,
    attr::{API_VERSION, Version},
    discovery::NoProvider,
    flags::Flags,
    log::Subsys,
};

use crate::{
    abi::{
        fid::fid_fabric,
        info::{fi_fabric_attr, fi_info},
    },
    getinfo::{self as discovery, Offer},
    info::{self, Hints},
    node::{self, Node},
    panic::status,
    text,
};

/// Flag bits that core and layered providers of other implementations use among themselves.
const PRIVATE_FLAGS: u64 = 0xf << 58;

/// `fi_version`.
pub(crate) fn version() -> u32 {
    API_VERSION.0
}

/// `fi_strerror`: either sign; the host's text below 256, the fabric's own from there.
pub(crate) fn strerror(errnum: c_int) -> *const c_char {
    match errnum.unsigned_abs() {
        host @ 0..256 => text::host_error(host as c_int),
        fabric => FABRIC_ERRORS.get(fabric as usize - 256).unwrap_or(&FABRIC_ERRORS[0]).as_ptr(),
    }
}

/// The texts of `Errno::fabric_text`, terminated.
const FABRIC_ERRORS: [&CStr; 16] = [
    c"Unspecified error",
    c"Provided buffer is too small",
    c"Operation not permitted in current state",
    c"Error available",
    c"Flags not supported",
    c"Missing or unavailable event queue",
    c"Invalid resource domain",
    c"Missing or unavailable completion queue",
    c"CRC error",
    c"Truncation error",
    c"Required key not available",
    c"Missing or unavailable address vector",
    c"Queue has been overrun",
    c"Receiver not ready, no receive buffers available",
    c"Memory registration limit reached",
    c"Host address unreachable from this side of the firewall",
];

/// `fi_getinfo` for callers of `node`. Writes null to `info` on failure.
///
/// # Safety
/// The texts are terminated or null, `hints` has the node's struct sizes or is null, `info` has
/// room for a pointer or is null.
pub(crate) unsafe fn getinfo(
    node: Node,
    version: u32,
    host: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    if info.is_null() {
        return -Errno::EINVAL.get();
    }
    // SAFETY: the caller gives room for a pointer.
    unsafe { info.write(core::ptr::null_mut()) };
    node::record(node);
    let list = || {
        fabric_core::discovery::forget_report();
        let version = Version(version);
        if version > API_VERSION {
            let error = NoProvider::Version(version);
            fabric_core::warn!("core", Subsys::Core, "fi_getinfo: {error}");
            return Err(Errno::ENOSYS);
        }
        // SAFETY: the caller passes a terminated text or null.
        let host = unsafe { text::read(host) }?;
        // SAFETY: as above.
        let service = unsafe { text::read(service) }?;
        // SAFETY: the caller passes hints of the node's sizes or null.
        let hints = unsafe { Hints::read(hints, node, version) }?;
        let flags = Flags::from_bits_retain(flags & !PRIVATE_FLAGS);
        let mut found = discovery::getinfo(
            version,
            host.as_deref(),
            service.as_deref(),
            flags,
            hints.as_ref(),
        )?;
        if flags != Flags::PROV_ATTR_ONLY {
            set_api_version(&mut found, version);
        }
        write_offers(&found)
    };
    match list() {
        Ok(first) => {
            // SAFETY: the caller gives room for a pointer.
            unsafe { info.write(first) };
            0
        }
        Err(errno) => -errno.get(),
    }
}

fn set_api_version(found: &mut [Offer], version: Version) {
    for fabric in found.iter_mut().filter_map(|offer| offer.info.fabric.as_mut()) {
        fabric.api_version = version;
    }
}

/// The list in memory of the application, with its open objects.
fn write_offers(offers: &[Offer]) -> Result<*mut fi_info> {
    let first = info::write_list(offers.iter().map(|offer| &offer.info))?;
    let mut next = first;
    for offer in offers {
        // SAFETY: the list has an info for each offer, complete and still private.
        let raw = unsafe { &mut *next };
        raw.handle = offer.handle;
        // SAFETY: an attribute struct is null or part of the info.
        if let Some(fabric) = unsafe { raw.fabric_attr.as_mut() } {
            fabric.fabric = offer.fabric;
        }
        // SAFETY: as above.
        if let Some(domain) = unsafe { raw.domain_attr.as_mut() } {
            domain.domain = offer.domain;
        }
        next = raw.next;
    }
    Ok(first)
}

/// `fi_fabric` for callers of `node`.
///
/// # Safety
/// `attr` points to the caller's attributes or is null, `fabric` has room for a pointer or is null.
pub(crate) unsafe fn fabric(
    node: Node,
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's contract is `open_fabric`'s.
    status(unsafe { open_fabric(node, attr, fabric, 0, context) })
}

/// `fi_fabric2`.
///
/// # Safety
/// `info` is an info of this library or null, `fabric` has room for a pointer or is null.
pub(crate) unsafe fn fabric2(
    info: *mut fi_info,
    fabric: *mut *mut fid_fabric,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if info.is_null() {
        return -Errno::EINVAL.get();
    }
    // SAFETY: the caller passes an info; callers of this function were built with 2.0 or newer.
    let attr = unsafe { (*info).fabric_attr };
    // SAFETY: the attributes are part of the caller's info.
    status(unsafe { open_fabric(Node::V1_8, attr, fabric, flags, context) })
}

/// # Safety
/// As [`fabric()`].
unsafe fn open_fabric(
    node: Node,
    attr: *const fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    flags: u64,
    context: *mut c_void,
) -> Result<()> {
    if attr.is_null() || fabric.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's attributes are not null, and 32 bytes at every node.
    let mut attr = unsafe { info::read_fabric(&*attr) }?;
    if node == Node::V1_0 {
        // The field lies in what was padding for these callers.
        attr.api_version = Version::new(1, 0);
    }
    let opened = discovery::open_fabric(&attr, flags, context)?;
    // SAFETY: the caller gives room for a pointer.
    unsafe { fabric.write(opened) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(errnum: c_int) -> String {
        // SAFETY: `strerror` returns a terminated text.
        unsafe { CStr::from_ptr(strerror(errnum)) }.to_str().expect("ASCII").to_owned()
    }

    #[test]
    fn error_texts_accept_either_sign() {
        assert_eq!(text_of(0), "Success");
        assert_eq!(text_of(-11), text_of(11));
        assert_eq!(text_of(-265), "Truncation error");
        for beyond in [272, -272, c_int::MAX, c_int::MIN] {
            assert_eq!(text_of(beyond), "Unspecified error");
        }
    }

    #[test]
    fn error_texts_are_those_of_the_core() {
        for (value, text) in (256..).zip(FABRIC_ERRORS) {
            assert_eq!(Errno::new(value).fabric_text().map(str::as_bytes), Some(text.to_bytes()));
        }
    }

    fn getinfo_code(version: Version, info: *mut *mut fi_info) -> c_int {
        let (host, service, hints) = (core::ptr::null(), core::ptr::null(), core::ptr::null());
        // SAFETY: nulls are allowed; `info` has room for a pointer or is null.
        unsafe { getinfo(Node::V1_9, version.0, host, service, 0, hints, info) }
    }

    #[test]
    fn newer_versions_than_this_are_not_known() {
        let mut info = core::ptr::dangling_mut();
        assert_eq!(getinfo_code(Version::new(2, 7), &raw mut info), -38);
        assert!(info.is_null());
        assert_eq!(getinfo_code(API_VERSION, core::ptr::null_mut()), -22);
    }

    #[test]
    fn fabrics_need_attributes_and_room() {
        let mut opened = core::ptr::null_mut();
        let null = core::ptr::null_mut();
        // SAFETY: nulls are allowed.
        unsafe {
            assert_eq!(fabric(Node::V1_0, null, &raw mut opened, core::ptr::null_mut()), -22);
            assert_eq!(
                fabric2(core::ptr::null_mut(), &raw mut opened, 0, core::ptr::null_mut()),
                -22
            );
        }
    }
}
