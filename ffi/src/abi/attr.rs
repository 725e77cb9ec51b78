//! SETUP. Attributes that applications pass when they open objects or control them.

use core::ffi::{c_char, c_int, c_void};

use fabric_core::attr::Version;
use libc::{pollfd, pthread_cond_t, pthread_mutex_t};

use super::{
    c_struct,
    constants::{
        fi_addr_t, fi_av_type, fi_cntr_events, fi_cq_format, fi_cq_wait_cond, fi_hmem_iface,
        fi_param_type, fi_wait_obj,
    },
    fid::{fid_av, fid_mr, fid_wait},
    iovec,
};

/// The device that holds a region's memory; read as the arm that `iface` names.
#[derive(Clone, Copy)]
#[repr(C)]
pub union fi_mr_device {
    pub reserved: u64,
    pub cuda: c_int,
    pub ze: c_int,
    pub neuron: c_int,
    pub synapseai: c_int,
    pub rocr: c_int,
}

c_struct! {
    /// How to open an address vector.
    pub struct fi_av_attr {
        pub r#type: fi_av_type,
        pub rx_ctx_bits: c_int,
        pub count: usize,
        pub ep_per_node: usize,
        pub name: *const c_char,
        pub map_addr: *mut c_void,
        pub flags: u64,
    }
}

c_struct! {
    /// How to open a completion queue.
    pub struct fi_cq_attr {
        pub size: usize,
        pub flags: u64,
        pub format: fi_cq_format,
        pub wait_obj: fi_wait_obj,
        pub signaling_vector: c_int,
        pub wait_cond: fi_cq_wait_cond,
        pub wait_set: *mut fid_wait,
    }
}

c_struct! {
    /// How to open a counter.
    pub struct fi_cntr_attr {
        pub events: fi_cntr_events,
        pub wait_obj: fi_wait_obj,
        pub wait_set: *mut fid_wait,
        pub flags: u64,
    }
}

c_struct! {
    /// How to open an event queue.
    pub struct fi_eq_attr {
        pub size: usize,
        pub flags: u64,
        pub wait_obj: fi_wait_obj,
        pub signaling_vector: c_int,
        pub wait_set: *mut fid_wait,
    }
}

c_struct! {
    /// How to open a wait set.
    pub struct fi_wait_attr {
        pub wait_obj: fi_wait_obj,
        pub flags: u64,
    }
}

c_struct! {
    /// How to open a poll set.
    pub struct fi_poll_attr {
        pub flags: u64,
    }
}

c_struct! {
    /// What to register. With `FI_MR_DMABUF`, `mr_iov` points to a [`fi_mr_dmabuf`]. Callers
    /// before 2.0 pass a shorter struct: see [`fi_mr_attr::size_for`].
    pub struct fi_mr_attr {
        pub mr_iov: *const iovec,
        pub iov_count: usize,
        pub access: u64,
        pub offset: u64,
        pub requested_key: u64,
        pub context: *mut c_void,
        pub auth_key_size: usize,
        pub auth_key: *mut u8,
        pub iface: fi_hmem_iface,
        pub device: fi_mr_device,
        pub hmem_data: *mut c_void,
        pub page_size: usize,
        pub base_mr: *const fid_mr,
        pub sub_mr_cnt: usize,
    }
}

c_struct! {
    /// A region given as a dma-buf.
    pub struct fi_mr_dmabuf {
        pub fd: c_int,
        pub offset: u64,
        pub len: usize,
        pub base_addr: *mut c_void,
    }
}

c_struct! {
    /// A registration's key taken from an address vector.
    pub struct fi_mr_auth_key {
        pub av: *mut fid_av,
        pub src_addr: fi_addr_t,
    }
}

c_struct! {
    /// Argument of `FI_REFRESH`.
    pub struct fi_mr_modify {
        pub flags: u64,
        pub attr: fi_mr_attr,
    }
}

c_struct! {
    /// Argument of `FI_GET_RAW_MR`.
    pub struct fi_mr_raw_attr {
        pub flags: u64,
        pub base_addr: *mut u64,
        pub raw_key: *mut u8,
        pub key_size: *mut usize,
    }
}

c_struct! {
    /// Argument of `FI_MAP_RAW_MR`.
    pub struct fi_mr_map_raw {
        pub flags: u64,
        pub base_addr: u64,
        pub raw_key: *mut u8,
        pub key_size: usize,
        pub key: *mut u64,
    }
}

c_struct! {
    /// Answer of an atomic query.
    pub struct fi_atomic_attr {
        pub count: usize,
        pub size: usize,
    }
}

c_struct! {
    /// One configuration variable as `fi_getparams` lists it.
    pub struct fi_param {
        pub name: *const c_char,
        pub r#type: fi_param_type,
        pub help_string: *const c_char,
        pub value: *const c_char,
    }
}

c_struct! {
    /// Answer of `FI_GETWAIT` for `FI_WAIT_MUTEX_COND`.
    pub struct fi_mutex_cond {
        pub mutex: *mut pthread_mutex_t,
        pub cond: *mut pthread_cond_t,
    }
}

c_struct! {
    /// Argument and answer of `FI_GETWAIT` for `FI_WAIT_POLLFD`.
    pub struct fi_wait_pollfd {
        pub change_index: u64,
        pub nfds: usize,
        pub fd: *mut pollfd,
    }
}

impl fi_mr_attr {
    /// Bytes that a caller of interface version `version` has allocated; never read more.
    pub const fn size_for(version: Version) -> usize {
        match (version.major(), version.minor()) {
            (0, _) | (1, ..=4) => 48,
            (1, ..=8) => 64,
            (1, ..=18) => 80,
            (1, ..=21) => 88,
            (1, _) => 96,
            _ => size_of::<Self>(),
        }
    }
}

const _: () = assert!(size_of::<fi_mr_attr>() == 112);
const _: () = assert!(size_of::<fi_cq_attr>() == 40);
const _: () = assert!(size_of::<fi_av_attr>() == 48);
