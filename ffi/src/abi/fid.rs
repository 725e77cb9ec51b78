//! SETUP. Objects as C sees them: a `fid` at offset 0, then the class's own table.

use core::ffi::{c_char, c_int, c_void};

use super::{
    c_struct,
    collective::{fi_ops_av_set, fi_ops_collective},
    constants::fi_addr_t,
    data_ops::{fi_ops_atomic, fi_ops_msg, fi_ops_rma, fi_ops_tagged},
    ops::{
        fi_ops_av, fi_ops_cm, fi_ops_cntr, fi_ops_cq, fi_ops_domain, fi_ops_ep, fi_ops_eq,
        fi_ops_fabric, fi_ops_mr, fi_ops_poll, fi_ops_wait,
    },
    ops_table,
};

c_struct! {
    /// Head of every object: its class, the application's context, the operations of any object.
    pub struct fid {
        pub fclass: usize,
        pub context: *mut c_void,
        pub ops: *mut fi_ops,
    }
}

ops_table! {
    /// Operations that every object has.
    pub struct fi_ops {
        close: fn(fid: *mut fid) -> c_int,
        bind: fn(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int,
        control: fn(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int,
        ops_open: fn(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut *mut c_void,
            context: *mut c_void,
        ) -> c_int,
        tostr: fn(fid: *const fid, buf: *mut c_char, len: usize) -> c_int,
        ops_set: fn(
            fid: *mut fid,
            name: *const c_char,
            flags: u64,
            ops: *mut c_void,
            context: *mut c_void,
        ) -> c_int,
    }
}

c_struct! {
    /// Fabric object.
    pub struct fid_fabric {
        pub fid: fid,
        pub ops: *mut fi_ops_fabric,
        pub api_version: u32,
    }
}

c_struct! {
    /// Domain object.
    pub struct fid_domain {
        pub fid: fid,
        pub ops: *mut fi_ops_domain,
        pub mr: *mut fi_ops_mr,
    }
}

c_struct! {
    /// Endpoint object; also transmit and receive contexts and shared receive contexts.
    pub struct fid_ep {
        pub fid: fid,
        pub ops: *mut fi_ops_ep,
        pub cm: *mut fi_ops_cm,
        pub msg: *mut fi_ops_msg,
        pub rma: *mut fi_ops_rma,
        pub tagged: *mut fi_ops_tagged,
        pub atomic: *mut fi_ops_atomic,
        pub collective: *mut fi_ops_collective,
    }
}

c_struct! {
    /// Passive endpoint object.
    pub struct fid_pep {
        pub fid: fid,
        pub ops: *mut fi_ops_ep,
        pub cm: *mut fi_ops_cm,
    }
}

c_struct! {
    /// Shared transmit context object.
    pub struct fid_stx {
        pub fid: fid,
        pub ops: *mut fi_ops_ep,
    }
}

c_struct! {
    /// Address vector object.
    pub struct fid_av {
        pub fid: fid,
        pub ops: *mut fi_ops_av,
    }
}

c_struct! {
    /// Address vector set object.
    pub struct fid_av_set {
        pub fid: fid,
        pub ops: *mut fi_ops_av_set,
    }
}

c_struct! {
    /// Completion queue object.
    pub struct fid_cq {
        pub fid: fid,
        pub ops: *mut fi_ops_cq,
    }
}

c_struct! {
    /// Counter object.
    pub struct fid_cntr {
        pub fid: fid,
        pub ops: *mut fi_ops_cntr,
    }
}

c_struct! {
    /// Event queue object.
    pub struct fid_eq {
        pub fid: fid,
        pub ops: *mut fi_ops_eq,
    }
}

c_struct! {
    /// Wait set object.
    pub struct fid_wait {
        pub fid: fid,
        pub ops: *mut fi_ops_wait,
    }
}

c_struct! {
    /// Poll set object.
    pub struct fid_poll {
        pub fid: fid,
        pub ops: *mut fi_ops_poll,
    }
}

c_struct! {
    /// Memory region object; applications read `mem_desc` and `key` directly.
    pub struct fid_mr {
        pub fid: fid,
        pub mem_desc: *mut c_void,
        pub key: u64,
    }
}

c_struct! {
    /// Multicast or collective group object; applications read `fi_addr` directly.
    pub struct fid_mc {
        pub fid: fid,
        pub fi_addr: fi_addr_t,
    }
}

c_struct! {
    /// Argument of `FI_ALIAS`.
    pub struct fi_alias {
        pub fid: *mut *mut fid,
        pub flags: u64,
    }
}

c_struct! {
    /// Argument of `FI_GET_VAL` and `FI_SET_VAL`.
    pub struct fi_fid_var {
        pub name: c_int,
        pub val: *mut c_void,
    }
}

c_struct! {
    /// Argument of `FI_EXPORT_FID`.
    pub struct fi_fid_export {
        pub fid: *mut *mut fid,
        pub flags: u64,
        pub context: *mut c_void,
    }
}

const _: () = assert!(size_of::<fid>() == 24);
const _: () = assert!(size_of::<fi_ops>() == 56);
const _: () = assert!(size_of::<fid_fabric>() == 40);
const _: () = assert!(size_of::<fid_domain>() == 40);
const _: () = assert!(size_of::<fid_ep>() == 80);
const _: () = assert!(size_of::<fid_mr>() == 40);
