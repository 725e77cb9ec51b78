//! HOT. Entries that queue reads write into the application's buffers.

use core::ffi::{c_int, c_void};

use fabric_core::attr::Version;

use super::{c_struct, constants::fi_addr_t, fid::fid, info::fi_info};

c_struct! {
    /// Completion in format `FI_CQ_FORMAT_CONTEXT`.
    pub struct fi_cq_entry {
        pub op_context: *mut c_void,
    }
}

c_struct! {
    /// Completion in format `FI_CQ_FORMAT_MSG`.
    pub struct fi_cq_msg_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
    }
}

c_struct! {
    /// Completion in format `FI_CQ_FORMAT_DATA`.
    pub struct fi_cq_data_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
        pub buf: *mut c_void,
        pub data: u64,
    }
}

c_struct! {
    /// Completion in format `FI_CQ_FORMAT_TAGGED`.
    pub struct fi_cq_tagged_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
        pub buf: *mut c_void,
        pub data: u64,
        pub tag: u64,
    }
}

c_struct! {
    /// Failed operation. Callers before 1.20 allocate less: see [`fi_cq_err_entry::size_for`].
    pub struct fi_cq_err_entry {
        pub op_context: *mut c_void,
        pub flags: u64,
        pub len: usize,
        pub buf: *mut c_void,
        pub data: u64,
        pub tag: u64,
        pub olen: usize,
        pub err: c_int,
        pub prov_errno: c_int,
        pub err_data: *mut c_void,
        pub err_data_size: usize,
        pub src_addr: fi_addr_t,
    }
}

c_struct! {
    /// Event of an asynchronous control operation.
    pub struct fi_eq_entry {
        pub fid: *mut fid,
        pub context: *mut c_void,
        pub data: u64,
    }
}

c_struct! {
    /// Failed control operation.
    pub struct fi_eq_err_entry {
        pub fid: *mut fid,
        pub context: *mut c_void,
        pub data: u64,
        pub err: c_int,
        pub prov_errno: c_int,
        pub err_data: *mut c_void,
        pub err_data_size: usize,
    }
}

c_struct! {
    /// Connection event; `data` bytes follow the struct.
    pub struct fi_eq_cm_entry {
        pub fid: *mut fid,
        pub info: *mut fi_info,
        pub data: [u8; 0],
    }
}

impl fi_cq_err_entry {
    /// Bytes that a caller of interface version `version` has allocated; never write more.
    pub const fn size_for(version: Version) -> usize {
        match (version.major(), version.minor()) {
            (0, _) | (1, ..=4) => 72,
            (1, ..=19) => 80,
            _ => size_of::<Self>(),
        }
    }
}

const _: () = assert!(size_of::<fi_cq_tagged_entry>() == 48);
const _: () = assert!(size_of::<fi_cq_err_entry>() == 88);
const _: () = assert!(size_of::<fi_eq_err_entry>() == 48);
const _: () = assert!(size_of::<fi_eq_cm_entry>() == 16);
