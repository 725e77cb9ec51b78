//! Objects as C uses them: opened, used and closed through their tables.

mod belonging;
mod queues;
mod vectors;

use core::ffi::{c_int, c_void};

use fabric_core::{
    attr::Version,
    flags::{Flags, MrMode},
};

use crate::{
    abi::{
        Plain,
        attr::{fi_av_attr, fi_cntr_attr, fi_mr_attr, fi_mr_map_raw, fi_mr_raw_attr},
        constants::*,
        fid::{fid, fid_av, fid_cntr, fid_domain, fid_eq, fid_fabric, fid_mr},
        info::{fi_domain_attr, fi_fabric_attr, fi_info},
        iovec,
    },
    entry, info,
    node::Node,
};

const NULL: *mut c_void = core::ptr::null_mut();

/// `fi_close`.
fn close<T>(object: *mut T) -> c_int {
    let fid = object.cast::<fid>();
    // SAFETY: every object of these tests starts with a `fid` and stays readable after close.
    unsafe { ((*(*fid).ops).close)(fid) }
}

/// `fi_control`.
fn control<T, A>(object: *mut T, command: c_int, arg: &mut A) -> c_int {
    let fid = object.cast::<fid>();
    // SAFETY: as for `close`; the argument is the command's.
    unsafe { ((*(*fid).ops).control)(fid, command, (&raw mut *arg).cast()) }
}

/// `fi_bind` of every class.
fn bind<T, B>(object: *mut T, bound: *mut B, flags: u64) -> c_int {
    let fid = object.cast::<fid>();
    // SAFETY: as for `close`.
    unsafe { ((*(*fid).ops).bind)(fid, bound.cast(), flags) }
}

/// A fabric and a domain, of shared memory unless said otherwise, closed at the end.
struct Open {
    info: *mut fi_info,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
}

impl Open {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// With domain attributes edited after discovery.
    fn with(edit: impl FnOnce(&mut fi_domain_attr)) -> Self {
        Self::of(c"shm", edit)
    }

    /// The same of a provider.
    fn of(provider: &core::ffi::CStr, edit: impl FnOnce(&mut fi_domain_attr)) -> Self {
        let mut fabric_attr = fi_fabric_attr::zeroed();
        fabric_attr.prov_name = provider.as_ptr().cast_mut();
        let mut hints = fi_info::zeroed();
        hints.fabric_attr = &raw mut fabric_attr;
        let (mut info, mut fabric) = (core::ptr::null_mut(), core::ptr::null_mut());
        let none = core::ptr::null();
        let version = Version::new(2, 6).0;
        let hints = &raw const hints;
        // SAFETY: whole hints and room for a pointer.
        let code =
            unsafe { entry::getinfo(Node::V1_9, version, none, none, 0, hints, &raw mut info) };
        assert_eq!(code, 0);
        // SAFETY: the info has all its structs.
        let attr = unsafe { (*info).fabric_attr };
        // SAFETY: attributes and room for a pointer.
        assert_eq!(unsafe { entry::fabric(Node::V1_9, attr, &raw mut fabric, NULL) }, 0);
        // SAFETY: the info is private to this function.
        edit(unsafe { &mut *(*info).domain_attr });
        let mut open = Self { info, fabric, domain: core::ptr::null_mut() };
        assert_eq!(open.domain(0), 0);
        open
    }

    fn domain(&mut self, flags: u64) -> c_int {
        // SAFETY: the fabric is open, the info whole.
        unsafe {
            ((*(*self.fabric).ops).domain2)(
                self.fabric,
                self.info,
                &raw mut self.domain,
                flags,
                NULL,
            )
        }
    }

    fn mr_regattr(&self, attr: &fi_mr_attr, flags: u64) -> Result<*mut fid_mr, c_int> {
        let mut mr = core::ptr::null_mut();
        // SAFETY: the domain is open, the attributes whole.
        let code =
            unsafe { ((*(*self.domain).mr).regattr)(self.domain.cast(), attr, flags, &raw mut mr) };
        if code == 0 { Ok(mr) } else { Err(code) }
    }

    fn cntr(&self, wait_obj: u32) -> *mut fid_cntr {
        let mut cntr = core::ptr::null_mut();
        let mut attr = fi_cntr_attr { wait_obj, ..fi_cntr_attr::zeroed() };
        // SAFETY: the domain is open.
        let code = unsafe {
            ((*(*self.domain).ops).cntr_open)(self.domain, &raw mut attr, &raw mut cntr, NULL)
        };
        assert_eq!(code, 0);
        cntr
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            if !self.domain.is_null() {
                assert_eq!(close(self.domain), 0);
            }
            assert_eq!(close(self.fabric), 0);
        }
        // SAFETY: from `getinfo`, freed once.
        unsafe { info::free(self.info) };
    }
}

#[test]
fn parents_outlive_their_children() {
    let open = Open::new();
    assert_eq!(close(open.fabric), -16);
    let cntr = open.cntr(FI_WAIT_NONE);
    assert_eq!(close(open.domain), -16);
    assert_eq!(close(cntr), 0);
    assert_eq!(close(cntr), -22, "closed twice");
    drop(open);
}

#[test]
fn fabrics_and_domains_refuse_what_they_do_not_know() {
    let mut open = Open::new();
    let domain = open.domain;
    assert_eq!(open.domain(FI_PEER), -22);
    assert_eq!(open.domain(1), -260);
    // SAFETY: the fabric is open; nulls are refused.
    unsafe {
        let ops = &*(*open.fabric).ops;
        let mut room = core::ptr::null_mut();
        assert_eq!((ops.domain)(open.fabric, core::ptr::null_mut(), &raw mut room, NULL), -22);
        assert_eq!((ops.domain)(open.fabric, open.info, core::ptr::null_mut(), NULL), -22);
        assert_eq!((ops.passive_ep)(open.fabric, open.info, core::ptr::null_mut(), NULL), -38);
    }
    let mut attr = fi_fabric_attr::zeroed();
    let mut fabric = core::ptr::null_mut();
    let mut code = |name: Option<&core::ffi::CStr>, provider: Option<&core::ffi::CStr>| {
        let pointer = |text: Option<&core::ffi::CStr>| {
            text.map_or(core::ptr::null_mut(), |text| text.as_ptr().cast_mut())
        };
        (attr.name, attr.prov_name) = (pointer(name), pointer(provider));
        // SAFETY: attributes and room for a pointer.
        unsafe { entry::fabric(Node::V1_9, &raw mut attr, &raw mut fabric, NULL) }
    };
    assert_eq!(code(Some(c"shm"), None), -22);
    assert_eq!(code(Some(c"other"), Some(c"shm")), -22);
    assert_eq!(code(None, Some(c"psm3")), -19);
    assert_eq!(code(None, Some(c"verbs")), -19);
    assert_eq!(code(None, Some(c"SHM")), 0);
    assert_eq!(close(fabric), 0);
    open.domain = domain;
}

#[test]
fn discovery_names_open_objects() {
    let open = Open::new();
    let list = |fabric: *mut fid_fabric, domain: *mut fid_domain| {
        let mut fabric_attr = fi_fabric_attr::zeroed();
        fabric_attr.fabric = fabric;
        let mut domain_attr = fi_domain_attr::zeroed();
        domain_attr.domain = domain;
        domain_attr.mr_mode = MrMode::VIRT_ADDR.bits().cast_signed();
        let mut hints = fi_info::zeroed();
        hints.fabric_attr = &raw mut fabric_attr;
        hints.domain_attr = &raw mut domain_attr;
        let mut info = core::ptr::null_mut();
        let (version, none) = (Version::new(1, 18).0, core::ptr::null());
        let hints = &raw const hints;
        // SAFETY: whole hints and room for a pointer.
        let code =
            unsafe { entry::getinfo(Node::V1_9, version, none, none, 0, hints, &raw mut info) };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: the info has all its structs and is freed once.
        unsafe {
            let found = ((*(*info).fabric_attr).fabric, (*(*info).domain_attr).domain);
            info::free(info);
            Ok(found)
        }
    };
    let (null_fabric, null_domain) = (core::ptr::null_mut(), core::ptr::null_mut());
    assert_eq!(list(open.fabric, open.domain), Ok((open.fabric, open.domain)));
    let (fabric, domain) = list(null_fabric, null_domain).unwrap();
    assert!(!fabric.is_null() && !domain.is_null(), "the first one that is open");
    assert_eq!(list(core::ptr::dangling_mut(), null_domain), Err(-61));
    assert_eq!(list(null_fabric, open.fabric.cast()), Err(-61), "another class");
    let closed = open.domain;
    drop(open);
    assert_eq!(list(null_fabric, closed), Err(-61), "no longer open");
}

#[test]
fn discovery_passes_handles_on() {
    let mut hints = fi_info::zeroed();
    hints.handle = core::ptr::dangling_mut();
    let (none, mut info) = (core::ptr::null(), core::ptr::null_mut());
    let version = Version::new(2, 6).0;
    let at = &raw const hints;
    // SAFETY: whole hints and room for a pointer; the list is freed once.
    unsafe {
        assert_eq!(entry::getinfo(Node::V1_9, version, none, none, 0, at, &raw mut info), 0);
        assert_eq!((*info).handle, hints.handle);
        info::free(info);
    }
}

#[test]
fn shared_memory_shares_no_receives() {
    let open = Open::new();
    let (mut attr, mut srx) = (crate::abi::info::fi_rx_attr::zeroed(), core::ptr::null_mut());
    // SAFETY: the domain is open, the attributes whole.
    unsafe {
        let srx_ctx = (*(*open.domain).ops).srx_ctx;
        assert_eq!(srx_ctx(open.domain, &raw mut attr, &raw mut srx, NULL), -38);
        assert_eq!(srx_ctx(open.domain, &raw mut attr, core::ptr::null_mut(), NULL), -22);
    }
    assert!(srx.is_null());
}

#[test]
fn atomic_queries_go_through_the_table() {
    let open = Open::new();
    let mut attr = crate::abi::attr::fi_atomic_attr::zeroed();
    // SAFETY: the domain is open.
    let mut query = |op| unsafe {
        ((*(*open.domain).ops).query_atomic)(open.domain, FI_INT32, op, &raw mut attr, 0)
    };
    assert_eq!(query(FI_SUM), 0);
    assert_eq!(query(FI_CSWAP), -95);
    assert_eq!((attr.count, attr.size), (1024, 4));
}

#[test]
fn regions() {
    let open = Open::with(|attr| attr.mr_mode = 0);
    let mut memory = [0u8; 64];
    let iov = iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
    let attr = fi_mr_attr {
        mr_iov: &raw const iov,
        iov_count: 1,
        access: (Flags::REMOTE_READ | Flags::REMOTE_WRITE).bits(),
        requested_key: 77,
        context: core::ptr::dangling_mut(),
        ..fi_mr_attr::zeroed()
    };
    let mr = open.mr_regattr(&attr, 0).unwrap();
    // SAFETY: the region is open.
    unsafe {
        assert_eq!((*mr).key, 77);
        assert_eq!((*mr).fid.context, core::ptr::dangling_mut());
        assert!(!(*mr).mem_desc.is_null());
    }
    assert_eq!(open.mr_regattr(&attr, 0).unwrap_err(), -266, "key in use");
    let other = fi_mr_attr { requested_key: 78, ..attr };
    let refused = |attr: &fi_mr_attr, flags| open.mr_regattr(attr, flags).unwrap_err();
    assert_eq!(refused(&other, FI_MR_DMABUF), -95);
    assert_eq!(refused(&other, FI_MORE), -260);
    assert_eq!(refused(&fi_mr_attr { iface: FI_HMEM_CUDA, ..other }, 0), -38);
    assert_eq!(refused(&fi_mr_attr { base_mr: mr, ..other }, 0), -38);
    assert_eq!(refused(&fi_mr_attr { iov_count: 0, ..other }, 0), -22);
    assert_eq!(refused(&fi_mr_attr { iov_count: usize::MAX, ..other }, 0), -22);
    assert_eq!(refused(&fi_mr_attr { mr_iov: core::ptr::null(), ..other }, 0), -22);
    assert_eq!(refused(&fi_mr_attr { auth_key_size: 1, ..other }, 0), -22);
    assert_eq!(close(open.domain), -16, "a region keeps its domain open");

    let cntr = open.cntr(FI_WAIT_NONE);
    assert_eq!(bind(mr, cntr, 0), -260);
    assert_eq!(bind(mr, open.domain, FI_REMOTE_WRITE), -22);
    assert_eq!(bind(mr, cntr, FI_REMOTE_WRITE), 0);
    assert_eq!(close(cntr), -16, "the region counts on it");
    assert_eq!(control(mr, FI_ENABLE, &mut 0), 0);
    assert_eq!(control(mr, FI_GETWAIT, &mut 0), -38);
    raw_keys(&open, mr);
    assert_eq!(close(mr), 0);
    assert_eq!(close(mr), -22);
    assert_eq!(close(cntr), 0);
}

fn raw_keys(open: &Open, mr: *mut fid_mr) {
    let (mut base, mut key, mut size) = (9u64, [0u8; 16], 4usize);
    let mut raw = fi_mr_raw_attr {
        flags: 0,
        base_addr: &raw mut base,
        raw_key: key.as_mut_ptr(),
        key_size: &raw mut size,
    };
    assert_eq!(control(mr, FI_GET_RAW_MR, &mut raw), -257);
    assert_eq!(control(mr, FI_GET_RAW_MR, &mut raw), 0, "the size has been corrected");
    let mut mapped = 0u64;
    let mut map = fi_mr_map_raw {
        flags: 0,
        base_addr: 0,
        raw_key: key.as_mut_ptr(),
        key_size: 8,
        key: &raw mut mapped,
    };
    assert_eq!(control(open.domain, FI_MAP_RAW_MR, &mut map), 0);
    assert_eq!((mapped, base, size), (77, 0, 8));
    map.key_size = 16;
    assert_eq!(control(open.domain, FI_MAP_RAW_MR, &mut map), -22);
    assert_eq!(control(open.domain, FI_UNMAP_KEY, &mut mapped), 0);
    assert_eq!(control(open.domain, FI_QUEUE_WORK, &mut map), -38);
}
