//! SETUP. `struct fi_ops_collective`: no provider has collectives; every call is `-FI_ENOSYS`.

use crate::abi::collective::fi_ops_collective;

/// The table of every endpoint.
pub(super) const fn table() -> *mut fi_ops_collective {
    fi_ops_collective::unsupported()
}
