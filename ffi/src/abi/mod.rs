//! SETUP. The C structs, operation tables and numbers of libfabric 2.6, under their C names.
//!
//! Structs that the library allocates have the size of node `FABRIC_1.10`, with the tail zero;
//! structs that callers allocate have their 2.6 size and may be shorter in old callers, which
//! whoever reads or writes them must respect. Field names and meanings are those of the manual
//! pages. `ffi/tests/layout.rs` proves every size and offset.
#![allow(
    non_camel_case_types,
    missing_docs,
    missing_debug_implementations,
    reason = "names and meanings are those of the C headers"
)]

pub mod attr;
pub mod collective;
pub mod constants;
pub mod data_ops;
pub mod event;
pub mod ext;
pub mod fid;
pub mod info;
pub mod msg;
pub mod ops;
pub mod trigger;

pub use libc::iovec;

pub(crate) use crate::stubs::ops_table;

/// A C struct that knows its layout, so that a test can compare it with the tables of record.
pub trait Layout {
    /// The struct tag in C.
    const NAME: &'static str;
    /// Name, offset and size of each field.
    const FIELDS: &'static [(&'static str, usize, usize)];
}

/// A C struct for which any bytes, and so all zeros, are a valid value.
///
/// # Safety
/// The struct holds integers, raw pointers, optional code pointers and unions of those only.
pub unsafe trait Plain: Copy {
    /// The value with every byte zero.
    fn zeroed() -> Self {
        // SAFETY: the trait's contract.
        unsafe { core::mem::zeroed() }
    }
}

/// Defines a [`Plain`] C struct.
macro_rules! c_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $(pub $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $name { $(pub $field: $ty,)* }

        // SAFETY: this macro is used for structs of integers, raw pointers, optional code pointers
        // and unions of those only.
        unsafe impl $crate::abi::Plain for $name {}

        impl $crate::abi::Layout for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [(&'static str, usize, usize)] = &[
                $((stringify!($field), core::mem::offset_of!($name, $field), size_of::<$ty>()),)*
            ];
        }
    };
}
pub(crate) use c_struct;
