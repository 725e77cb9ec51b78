//! SETUP. Memory that the device knows.

use core::ffi::c_int;
use std::sync::Arc;

use fabric_core::{
    Errno, Result,
    flags::Flags,
    log::Subsys,
    mr::{MrRequest, Registered, Registrar},
};
use rustix::process::{Resource, getrlimit};

use crate::{
    NAME,
    sys::{
        Mr, Pd,
        abi::{
            IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ,
            IBV_ACCESS_REMOTE_WRITE,
        },
    },
};

/// Tells a descriptor from what is none; the device's key is below it.
const DESCRIPTOR: usize = 1 << 32;

/// The device's key in a descriptor. What is none can be anything: the device checks keys.
#[inline]
pub(crate) const fn lkey_of(descriptor: usize) -> Option<u32> {
    if descriptor >> 32 == 1 { Some(descriptor as u32) } else { None }
}

/// Registers memory of a domain.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) pd: Arc<Pd>,
    /// Peers may change words of memory that they may write.
    pub(crate) atomics: bool,
    pub(crate) iwarp: bool,
}

impl Device {
    /// The accesses that a region needs, and no others. Old values and the bytes of reads are written
    /// to local memory; on iWARP, a peer's answer to a read is a write of its own.
    fn access(&self, wanted: Flags) -> c_int {
        let mut access = 0;
        if wanted.intersects(Flags::RECV | Flags::READ | Flags::REMOTE_WRITE) {
            access |= IBV_ACCESS_LOCAL_WRITE;
        }
        if wanted.contains(Flags::REMOTE_READ) {
            access |= IBV_ACCESS_REMOTE_READ;
        }
        if wanted.contains(Flags::REMOTE_WRITE) || (self.iwarp && wanted.contains(Flags::READ)) {
            access |= IBV_ACCESS_REMOTE_WRITE;
        }
        if self.atomics && wanted.intersects(Flags::REMOTE_READ | Flags::REMOTE_WRITE) {
            // What peers may add to, they may also read and write.
            if wanted.contains(Flags::REMOTE_WRITE) {
                access |= IBV_ACCESS_REMOTE_ATOMIC;
            }
        }
        access
    }
}

impl Registrar for Device {
    fn register(&self, request: &MrRequest<'_>) -> Result<Registered> {
        let [memory] = request.iov else { return Err(Errno::EINVAL) };
        if !request.flags.is_empty() {
            return Err(Errno::EBADFLAGS);
        }
        let mr =
            Mr::new(&self.pd, *memory, self.access(request.access)).inspect_err(|&reason| {
                fabric_core::warn!(
                    NAME,
                    Subsys::Mr,
                    "{} bytes at {:p} cannot be registered: {reason}{}",
                    memory.len,
                    memory.base,
                    memlock_hint(reason)
                );
            })?;
        let (key, descriptor) = (u64::from(mr.rkey()), DESCRIPTOR | mr.lkey() as usize);
        Ok(Registered { key, descriptor, hold: Box::new(mr) })
    }
}

/// Where the kernel refuses memory, what it may be that it has too little of.
pub(crate) fn memlock_hint(reason: Errno) -> String {
    if !matches!(reason, Errno::ENOMEM | Errno::EAGAIN | Errno::EPERM) {
        return String::new();
    }
    match getrlimit(Resource::Memlock).current {
        Some(limit) => format!(
            "; the process may lock {limit} bytes of memory (RLIMIT_MEMLOCK), raise that with \
             ulimit -l or LimitMEMLOCK="
        ),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_keys_with_a_mark() {
        assert_eq!(lkey_of(DESCRIPTOR), Some(0));
        assert_eq!(lkey_of(DESCRIPTOR | 0xffff_ffff), Some(0xffff_ffff));
        assert_eq!(lkey_of(0), None);
        assert_eq!(lkey_of(0x7fff_1234_5678), None, "an address is no descriptor");
    }
}
