//! SETUP. Triggered and deferred operations.

use core::ffi::{c_int, c_void};

use super::{
    c_struct,
    constants::{fi_datatype, fi_hmem_iface, fi_op_type, fi_trigger_event},
    fid::{fid_cntr, fid_ep},
    msg::{
        fi_context2, fi_msg, fi_msg_atomic, fi_msg_compare, fi_msg_fetch, fi_msg_rma, fi_msg_tagged,
    },
};

/// The value of a [`fi_trigger_var`], as wide as its datatype.
#[derive(Clone, Copy)]
#[repr(C)]
pub union fi_trigger_value {
    pub val8: u8,
    pub val16: u16,
    pub val32: u32,
    pub val64: u64,
    pub data: *mut u8,
}

/// The device of a [`fi_trigger_xpu`].
#[derive(Clone, Copy)]
#[repr(C)]
pub union fi_trigger_device {
    pub reserved: u64,
    pub cuda: c_int,
    pub ze: c_int,
}

/// What starts a triggered operation with a [`fi_triggered_context`].
#[derive(Clone, Copy)]
#[repr(C)]
pub union fi_trigger {
    pub threshold: fi_trigger_threshold,
    pub xpu: fi_trigger_xpu,
    pub internal: [*mut c_void; 3],
}

/// What starts a triggered operation with a [`fi_triggered_context2`].
#[derive(Clone, Copy)]
#[repr(C)]
pub union fi_trigger2 {
    pub threshold: fi_trigger_threshold,
    pub xpu: fi_trigger_xpu,
    pub internal: [*mut c_void; 7],
}

/// The operation of a [`fi_deferred_work`]; read as the arm that `op_type` names.
#[derive(Clone, Copy)]
#[repr(C)]
pub union fi_deferred_op {
    pub msg: *mut fi_op_msg,
    pub tagged: *mut fi_op_tagged,
    pub rma: *mut fi_op_rma,
    pub atomic: *mut fi_op_atomic,
    pub fetch_atomic: *mut fi_op_fetch_atomic,
    pub compare_atomic: *mut fi_op_compare_atomic,
    pub cntr: *mut fi_op_cntr,
}

c_struct! {
    /// Start when a counter reaches a value.
    pub struct fi_trigger_threshold {
        pub cntr: *mut fid_cntr,
        pub threshold: usize,
    }
}

c_struct! {
    /// One store that a device does to start an operation.
    pub struct fi_trigger_var {
        pub datatype: fi_datatype,
        pub count: c_int,
        pub addr: *mut c_void,
        pub value: fi_trigger_value,
    }
}

c_struct! {
    /// Start from a device.
    pub struct fi_trigger_xpu {
        pub count: c_int,
        pub iface: fi_hmem_iface,
        pub device: fi_trigger_device,
        pub var: *mut fi_trigger_var,
    }
}

c_struct! {
    /// Context of a triggered operation; the size of [`super::msg::fi_context`].
    pub struct fi_triggered_context {
        pub event_type: fi_trigger_event,
        pub trigger: fi_trigger,
    }
}

c_struct! {
    /// Context of a triggered operation; the size of [`fi_context2`].
    pub struct fi_triggered_context2 {
        pub event_type: fi_trigger_event,
        pub trigger: fi_trigger2,
    }
}

c_struct! {
    /// Argument of `FI_QUEUE_WORK` and `FI_CANCEL_WORK`.
    pub struct fi_deferred_work {
        pub context: fi_context2,
        pub threshold: u64,
        pub triggering_cntr: *mut fid_cntr,
        pub completion_cntr: *mut fid_cntr,
        pub op_type: fi_op_type,
        pub op: fi_deferred_op,
    }
}

c_struct! {
    /// Deferred send or receive.
    pub struct fi_op_msg {
        pub ep: *mut fid_ep,
        pub msg: fi_msg,
        pub flags: u64,
    }
}

c_struct! {
    /// Deferred tagged send or receive.
    pub struct fi_op_tagged {
        pub ep: *mut fid_ep,
        pub msg: fi_msg_tagged,
        pub flags: u64,
    }
}

c_struct! {
    /// Deferred read or write.
    pub struct fi_op_rma {
        pub ep: *mut fid_ep,
        pub msg: fi_msg_rma,
        pub flags: u64,
    }
}

c_struct! {
    /// Deferred atomic.
    pub struct fi_op_atomic {
        pub ep: *mut fid_ep,
        pub msg: fi_msg_atomic,
        pub flags: u64,
    }
}

c_struct! {
    /// Deferred fetching atomic.
    pub struct fi_op_fetch_atomic {
        pub ep: *mut fid_ep,
        pub msg: fi_msg_atomic,
        pub fetch: fi_msg_fetch,
        pub flags: u64,
    }
}

c_struct! {
    /// Deferred comparing atomic.
    pub struct fi_op_compare_atomic {
        pub ep: *mut fid_ep,
        pub msg: fi_msg_atomic,
        pub fetch: fi_msg_fetch,
        pub compare: fi_msg_compare,
        pub flags: u64,
    }
}

c_struct! {
    /// Deferred counter update.
    pub struct fi_op_cntr {
        pub cntr: *mut fid_cntr,
        pub value: u64,
    }
}

const _: () = assert!(size_of::<fi_triggered_context>() == 32);
const _: () = assert!(size_of::<fi_triggered_context2>() == 64);
const _: () = assert!(size_of::<fi_deferred_work>() == 104);
