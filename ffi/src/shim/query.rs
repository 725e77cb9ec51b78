//! SETUP. What atomic operations a domain supports: `fi_query_atomic`.

use core::ffi::c_int;

use fabric_core::{Errno, Result, api::Endpoint, atomic, flags::Flags, op::AtomicKind};

use super::payload::DomainObject;
use crate::{
    abi::{
        attr::fi_atomic_attr,
        constants::{fi_datatype, fi_op},
        fid::fid_domain,
    },
    object::call_target,
    panic::{guard, status},
};

pub(super) unsafe extern "C" fn query_atomic<E: Endpoint>(
    domain: *mut fid_domain,
    datatype: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    guard(|| {
        // SAFETY: the call came through a domain's table.
        status(unsafe { call_target::<DomainObject<E>>(domain) }.and_then(|object| {
            let answer = query::<E>(datatype, op, flags)?;
            if !object.domain.caps().contains(Flags::ATOMIC) {
                return Err(Errno::EOPNOTSUPP);
            }
            if attr.is_null() {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the caller gives room for the answer.
            unsafe { attr.write(answer) };
            Ok(())
        }))
    })
}

/// `EBADFLAGS` for unknown flags and for both families at once; tagged atomics do not exist.
fn query<E: Endpoint>(datatype: fi_datatype, op: fi_op, flags: u64) -> Result<fi_atomic_attr> {
    let flags = Flags::from_bits_retain(flags);
    let kinds = Flags::FETCH_ATOMIC | Flags::COMPARE_ATOMIC;
    if !(kinds | Flags::TAGGED).contains(flags) || flags.contains(kinds) {
        return Err(Errno::EBADFLAGS);
    }
    if flags.contains(Flags::TAGGED) {
        return Err(Errno::EOPNOTSUPP);
    }
    let kind = if flags.contains(Flags::FETCH_ATOMIC) {
        AtomicKind::Fetch
    } else if flags.contains(Flags::COMPARE_ATOMIC) {
        AtomicKind::Compare
    } else {
        AtomicKind::Base
    };
    let size = atomic::valid(kind, datatype, op)?;
    Ok(fi_atomic_attr { count: E::atomic_payload(kind, datatype, op)? / size, size })
}

#[cfg(test)]
mod tests {
    use fabric_core::lock::NoLock;
    use provider_shm::ShmEndpoint;

    use super::*;
    use crate::abi::constants::{FI_CSWAP, FI_LONG_DOUBLE, FI_SUM, FI_UINT64};

    #[test]
    fn answers() {
        let count = |datatype, op, flags: Flags| {
            query::<ShmEndpoint<NoLock>>(datatype, op, flags.bits())
                .map(|attr| (attr.count, attr.size))
        };
        let (fetch, compare) = (Flags::FETCH_ATOMIC, Flags::COMPARE_ATOMIC);
        assert_eq!(count(FI_UINT64, FI_SUM, Flags::empty()), Ok((512, 8)));
        assert_eq!(count(FI_UINT64, FI_SUM, fetch), Ok((512, 8)));
        assert_eq!(count(FI_UINT64, FI_CSWAP, compare), Ok((512, 8)));
        assert_eq!(count(FI_UINT64, FI_CSWAP, fetch), Err(Errno::EOPNOTSUPP));
        assert_eq!(count(FI_LONG_DOUBLE, FI_SUM, fetch), Err(Errno::EOPNOTSUPP));
        assert_eq!(count(FI_UINT64, FI_SUM, Flags::TAGGED), Err(Errno::EOPNOTSUPP));
        assert_eq!(count(FI_UINT64, FI_SUM, fetch | compare), Err(Errno::EBADFLAGS));
        assert_eq!(count(FI_UINT64, FI_SUM, Flags::MORE), Err(Errno::EBADFLAGS));
    }
}
