//! SETUP. Default operation tables: every slot answers, none is null.
//!
//! Applications call slots without checking them. A table of this crate is therefore a struct of
//! plain code pointers and starts from one of two constants: `UNSUPPORTED`, whose slots return
//! `-FI_ENOSYS`, to be completed with struct update syntax, and `CLOSED`, whose slots return
//! `-FI_EINVAL`, for objects that are gone.

use core::ffi::{c_char, c_int};

use fabric_core::Errno;

/// What a slot of this return type answers when it cannot serve the call.
pub trait Refusal {
    /// The operation is not supported.
    const UNSUPPORTED: Self;
    /// The object has been closed.
    const CLOSED: Self;
}

impl Refusal for isize {
    const UNSUPPORTED: Self = Errno::ENOSYS.to_c();
    const CLOSED: Self = Errno::EINVAL.to_c();
}

impl Refusal for c_int {
    const UNSUPPORTED: Self = -Errno::ENOSYS.get();
    const CLOSED: Self = -Errno::EINVAL.get();
}

/// Counter values, which cannot carry an error.
impl Refusal for u64 {
    const UNSUPPORTED: Self = 0;
    const CLOSED: Self = 0;
}

/// Texts.
impl Refusal for *const c_char {
    const UNSUPPORTED: Self = c"unknown".as_ptr();
    const CLOSED: Self = c"unknown".as_ptr();
}

/// Defines an operation table: the C struct, its layout, and the two default tables.
macro_rules! ops_table {
    ($(#[$meta:meta])* pub struct $name:ident {
        $($slot:ident: fn($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $name {
            /// Bytes of this table.
            pub size: usize,
            $(pub $slot: unsafe extern "C" fn($($arg: $ty),*) -> $ret,)*
        }

        impl $name {
            /// Every slot says that the operation is not supported.
            pub const UNSUPPORTED: Self = Self {
                size: size_of::<Self>(),
                $($slot: {
                    unsafe extern "C" fn unsupported($(_: $ty),*) -> $ret {
                        <$ret as $crate::stubs::Refusal>::UNSUPPORTED
                    }
                    unsupported
                },)*
            };

            /// Every slot says that the object is not valid.
            pub const CLOSED: Self = Self {
                size: size_of::<Self>(),
                $($slot: {
                    unsafe extern "C" fn closed($(_: $ty),*) -> $ret {
                        <$ret as $crate::stubs::Refusal>::CLOSED
                    }
                    closed
                },)*
            };

            /// The address of a static `CLOSED` table, as objects hold it.
            pub const fn closed() -> *mut Self {
                const TABLE: &$name = &$name::CLOSED;
                (&raw const *TABLE).cast_mut()
            }

            /// The address of a static `UNSUPPORTED` table, as objects hold it.
            pub const fn unsupported() -> *mut Self {
                const TABLE: &$name = &$name::UNSUPPORTED;
                (&raw const *TABLE).cast_mut()
            }
        }

        impl $crate::abi::Layout for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [(&'static str, usize, usize)] = &[
                ("size", 0, size_of::<usize>()),
                $((stringify!($slot), core::mem::offset_of!($name, $slot), size_of::<usize>()),)*
            ];
        }
    };
}
pub(crate) use ops_table;
