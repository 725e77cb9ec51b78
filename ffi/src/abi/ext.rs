//! SETUP. Structs that others fill: provider libraries, log callbacks, memory monitors. Their
//! slots may be null, so they are options.

use core::ffi::{c_char, c_int, c_void};

use super::{
    c_struct,
    constants::{fi_hmem_iface, fi_log_level, fi_log_subsys},
    fid::{fid, fid_fabric},
    info::{fi_fabric_attr, fi_info},
    iovec,
    msg::fi_context,
};

c_struct! {
    /// A provider as separately built provider libraries describe themselves; also names the
    /// caller of the log and parameter functions.
    pub struct fi_provider {
        pub version: u32,
        pub fi_version: u32,
        pub context: fi_context,
        pub name: *const c_char,
        pub getinfo: Option<
            unsafe extern "C" fn(
                u32,
                *const c_char,
                *const c_char,
                u64,
                *const fi_info,
                *mut *mut fi_info,
            ) -> c_int,
        >,
        pub fabric: Option<
            unsafe extern "C" fn(
                *mut fi_fabric_attr,
                *mut *mut fid_fabric,
                *mut c_void,
            ) -> c_int,
        >,
        pub cleanup: Option<unsafe extern "C" fn()>,
    }
}

c_struct! {
    /// Log callbacks of an application.
    pub struct fid_logging {
        pub fid: fid,
        pub ops: *mut fi_ops_log,
    }
}

c_struct! {
    /// Log operations.
    pub struct fi_ops_log {
        pub size: usize,
        pub enabled: Option<
            unsafe extern "C" fn(
                *const fi_provider,
                fi_log_level,
                fi_log_subsys,
                u64,
            ) -> c_int,
        >,
        pub ready: Option<
            unsafe extern "C" fn(
                *const fi_provider,
                fi_log_level,
                fi_log_subsys,
                u64,
                *mut u64,
            ) -> c_int,
        >,
        pub log: Option<
            unsafe extern "C" fn(
                *const fi_provider,
                fi_log_level,
                fi_log_subsys,
                *const c_char,
                c_int,
                *const c_char,
            ),
        >,
    }
}

c_struct! {
    /// A memory monitor that an application lends to the library.
    pub struct fid_mem_monitor {
        pub fid: fid,
        pub export_ops: *mut fi_ops_mem_monitor,
        pub import_ops: *mut fi_ops_mem_notify,
    }
}

c_struct! {
    /// What the application's monitor offers.
    pub struct fi_ops_mem_monitor {
        pub size: usize,
        pub start: Option<unsafe extern "C" fn(*mut fid_mem_monitor) -> c_int>,
        pub stop: Option<unsafe extern "C" fn(*mut fid_mem_monitor)>,
        pub subscribe: Option<
            unsafe extern "C" fn(
                *mut fid_mem_monitor,
                *const c_void,
                usize,
            ) -> c_int,
        >,
        pub unsubscribe: Option<unsafe extern "C" fn(*mut fid_mem_monitor, *const c_void, usize)>,
        pub valid: Option<unsafe extern "C" fn(*mut fid_mem_monitor, *const c_void, usize) -> bool>,
    }
}

c_struct! {
    /// What the library offers to the application's monitor.
    pub struct fi_ops_mem_notify {
        pub size: usize,
        pub notify: Option<unsafe extern "C" fn(*mut fid_mem_monitor, *const c_void, usize)>,
    }
}

c_struct! {
    /// Copy routines that an application sets on a domain.
    pub struct fi_hmem_override_ops {
        pub size: usize,
        pub copy_from_hmem_iov: Option<
            unsafe extern "C" fn(
                *mut c_void,
                usize,
                fi_hmem_iface,
                u64,
                *const iovec,
                usize,
                u64,
            ) -> isize,
        >,
        pub copy_to_hmem_iov: Option<
            unsafe extern "C" fn(
                fi_hmem_iface,
                u64,
                *const iovec,
                usize,
                u64,
                *const c_void,
                usize,
            ) -> isize,
        >,
    }
}

c_struct! {
    /// The object "percale_explain" (`rdma/percale.h`).
    pub struct fid_percale_explain {
        pub fid: fid,
        pub text: *const c_char,
    }
}

c_struct! {
    /// A connection request: what `fi_info.handle` points to.
    pub struct fid_connreq {
        pub fid: fid,
    }
}

c_struct! {
    /// What an application's memory monitor is lent to.
    pub struct fid_mr_cache {
        pub fid: fid,
    }
}

const _: () = assert!(size_of::<fi_provider>() == 72);
const _: () = assert!(size_of::<fi_ops_log>() == 32);
const _: () = assert!(size_of::<fi_ops_mem_monitor>() == 48);
