//! HOT. Arguments of the data path's message calls.

use core::ffi::c_void;

use super::{
    c_struct,
    constants::{fi_addr_t, fi_datatype, fi_op},
    fid::fid_ep,
    iovec,
};

c_struct! {
    /// Argument of `fi_sendmsg` and `fi_recvmsg`.
    pub struct fi_msg {
        pub msg_iov: *const iovec,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub context: *mut c_void,
        pub data: u64,
    }
}

c_struct! {
    /// Argument of `fi_tsendmsg` and `fi_trecvmsg`.
    pub struct fi_msg_tagged {
        pub msg_iov: *const iovec,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub tag: u64,
        pub ignore: u64,
        pub context: *mut c_void,
        pub data: u64,
    }
}

c_struct! {
    /// Argument of `fi_readmsg` and `fi_writemsg`.
    pub struct fi_msg_rma {
        pub msg_iov: *const iovec,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub rma_iov: *const fi_rma_iov,
        pub rma_iov_count: usize,
        pub context: *mut c_void,
        pub data: u64,
    }
}

c_struct! {
    /// One piece of remote memory; the layout of the core's `RmaIov`.
    pub struct fi_rma_iov {
        pub addr: u64,
        pub len: usize,
        pub key: u64,
    }
}

c_struct! {
    /// One piece of local memory, counted in datatype elements.
    pub struct fi_ioc {
        pub addr: *mut c_void,
        pub count: usize,
    }
}

c_struct! {
    /// One piece of remote memory, counted in datatype elements.
    pub struct fi_rma_ioc {
        pub addr: u64,
        pub count: usize,
        pub key: u64,
    }
}

c_struct! {
    /// Argument of `fi_atomicmsg` and its relatives.
    pub struct fi_msg_atomic {
        pub msg_iov: *const fi_ioc,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub addr: fi_addr_t,
        pub rma_iov: *const fi_rma_ioc,
        pub rma_iov_count: usize,
        pub datatype: fi_datatype,
        pub op: fi_op,
        pub context: *mut c_void,
        pub data: u64,
    }
}

c_struct! {
    /// Result part of a deferred fetching atomic.
    pub struct fi_msg_fetch {
        pub msg_iov: *mut fi_ioc,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
    }
}

c_struct! {
    /// Compare part of a deferred comparing atomic.
    pub struct fi_msg_compare {
        pub msg_iov: *const fi_ioc,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
    }
}

c_struct! {
    /// Scratch space of an operation under mode `FI_CONTEXT`.
    pub struct fi_context {
        pub internal: [*mut c_void; 4],
    }
}

c_struct! {
    /// Scratch space of an operation under mode `FI_CONTEXT2`.
    pub struct fi_context2 {
        pub internal: [*mut c_void; 8],
    }
}

c_struct! {
    /// Context of a shared receive that names its endpoint.
    pub struct fi_recv_context {
        pub ep: *mut fid_ep,
        pub context: *mut c_void,
    }
}

const _: () = assert!(size_of::<fi_msg>() == 48);
const _: () = assert!(size_of::<fi_msg_tagged>() == 64);
const _: () = assert!(size_of::<fi_msg_rma>() == 64);
const _: () = assert!(size_of::<fi_msg_atomic>() == 72);
