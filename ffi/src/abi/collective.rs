//! SETUP. Collective operations and the address vector sets that name their members.

use core::ffi::{c_int, c_void};

use super::{
    attr::fi_atomic_attr,
    c_struct,
    constants::{fi_addr_t, fi_collective_op, fi_datatype, fi_op},
    fid::{fid_av_set, fid_ep},
    msg::fi_ioc,
    ops_table,
};

c_struct! {
    /// How to make an address vector set.
    pub struct fi_av_set_attr {
        pub count: usize,
        pub start_addr: fi_addr_t,
        pub end_addr: fi_addr_t,
        pub stride: u64,
        pub comm_key_size: usize,
        pub comm_key: *mut u8,
        pub flags: u64,
    }
}

ops_table! {
    /// Address vector set operations.
    pub struct fi_ops_av_set {
        set_union: fn(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int,
        intersect: fn(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int,
        diff: fn(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int,
        insert: fn(set: *mut fid_av_set, addr: fi_addr_t) -> c_int,
        remove: fn(set: *mut fid_av_set, addr: fi_addr_t) -> c_int,
        addr: fn(set: *mut fid_av_set, coll_addr: *mut fi_addr_t) -> c_int,
    }
}

c_struct! {
    /// Question and answer of a collective query.
    pub struct fi_collective_attr {
        pub op: fi_op,
        pub datatype: fi_datatype,
        pub datatype_attr: fi_atomic_attr,
        pub max_members: usize,
        pub mode: u64,
    }
}

c_struct! {
    /// Address argument of `fi_join` for collectives.
    pub struct fi_collective_addr {
        pub set: *const fid_av_set,
        pub coll_addr: fi_addr_t,
    }
}

c_struct! {
    /// Argument of the collective message call.
    pub struct fi_msg_collective {
        pub msg_iov: *const fi_ioc,
        pub desc: *mut *mut c_void,
        pub iov_count: usize,
        pub coll_addr: fi_addr_t,
        pub root_addr: fi_addr_t,
        pub coll: fi_collective_op,
        pub datatype: fi_datatype,
        pub op: fi_op,
        pub context: *mut c_void,
    }
}

ops_table! {
    /// Collective operations.
    pub struct fi_ops_collective {
        barrier: fn(ep: *mut fid_ep, coll_addr: fi_addr_t, context: *mut c_void) -> isize,
        broadcast: fn(
            ep: *mut fid_ep,
            buf: *mut c_void,
            count: usize,
            desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize,
        alltoall: fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize,
        allreduce: fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            op: fi_op,
            flags: u64,
            context: *mut c_void,
        ) -> isize,
        allgather: fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize,
        reduce_scatter: fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            op: fi_op,
            flags: u64,
            context: *mut c_void,
        ) -> isize,
        reduce: fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            datatype: fi_datatype,
            op: fi_op,
            flags: u64,
            context: *mut c_void,
        ) -> isize,
        scatter: fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize,
        gather: fn(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize,
        msg: fn(
            ep: *mut fid_ep,
            msg: *const fi_msg_collective,
            resultv: *mut fi_ioc,
            result_desc: *mut *mut c_void,
            result_count: usize,
            flags: u64,
        ) -> isize,
        barrier2: fn(
            ep: *mut fid_ep,
            coll_addr: fi_addr_t,
            flags: u64,
            context: *mut c_void,
        ) -> isize,
    }
}

const _: () = assert!(size_of::<fi_ops_av_set>() == 56);
const _: () = assert!(size_of::<fi_ops_collective>() == 96);
