//! SETUP. Memory that the device knows.

use core::ffi::c_int;
use std::sync::Arc;

use fabric_core::{
    Errno, Result,
    flags::Flags,
    log::Subsys,
    mr::{MrRequest, Registered, Registrar},
    op::IoVec,
};
use rustix::process::{Resource, getrlimit};

use crate::{
    NAME, device, settings,
    sys::{
        Context, Mr, Pd,
        abi::{
            IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_ON_DEMAND, IBV_ACCESS_REMOTE_ATOMIC,
            IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ODP_SUPPORT_ATOMIC,
            IBV_ODP_SUPPORT_READ, IBV_ODP_SUPPORT_RECV, IBV_ODP_SUPPORT_SEND,
            IBV_ODP_SUPPORT_SRQ_RECV, IBV_ODP_SUPPORT_WRITE,
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
    /// Memory is not pinned: the device has its pages fetched when it needs them.
    pub(crate) on_demand: bool,
}

/// What a device has to have fetched on demand for regions of any access.
pub(crate) const ON_DEMAND: u32 = IBV_ODP_SUPPORT_SEND
    | IBV_ODP_SUPPORT_RECV
    | IBV_ODP_SUPPORT_WRITE
    | IBV_ODP_SUPPORT_READ
    | IBV_ODP_SUPPORT_SRQ_RECV;

/// The vendor that soft-RoCE says (`RXE_VENDOR_ID` of Linux).
const SOFT_ROCE: u32 = 0xff_ffff;

/// Whether regions on a device are not to be pinned; a line in the log if that is asked for and the
/// device cannot.
pub(crate) fn on_demand(device: &device::Device, context: Context, atomics: bool) -> bool {
    if !settings::on_demand() {
        return false;
    }
    if context.attr().is_ok_and(|attr| attr.vendor_id == SOFT_ROCE) {
        fabric_core::warn!(
            NAME,
            Subsys::Mr,
            "FI_VERBS_USE_ODP: soft-RoCE puts wrong bytes behind the first packet of a message into such \
             memory, so that of {} is pinned",
            context.name()
        );
        return false;
    }
    let atomic = if atomics { IBV_ODP_SUPPORT_ATOMIC } else { 0 };
    let able = device.limits.fetches(ON_DEMAND | atomic);
    if !able {
        fabric_core::warn!(
            NAME,
            Subsys::Mr,
            "FI_VERBS_USE_ODP: {} does not have all pages fetched on demand (it says {:#x}); memory is \
             pinned",
            context.name(),
            device.limits.on_demand
        );
    }
    able
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
        if self.on_demand {
            access |= IBV_ACCESS_ON_DEMAND;
        }
        access
    }
}

impl Registrar for Device {
    fn key_size(&self) -> usize {
        size_of::<u32>()
    }

    fn register(&self, request: &MrRequest<'_>) -> Result<Registered> {
        let [memory] = request.iov else { return Err(Errno::EINVAL) };
        if !request.flags.is_empty() {
            return Err(Errno::EBADFLAGS);
        }
        let mr = Mr::new(&self.pd, *memory, self.access(request.access))
            .inspect_err(|&reason| say_refused(*memory, reason))?;
        let (key, descriptor) = (u64::from(mr.rkey()), DESCRIPTOR | mr.lkey() as usize);
        Ok(Registered { key, descriptor, hold: Box::new(mr) })
    }
}

/// Memory has not been made known to the device: a line in the log.
#[cold]
pub(crate) fn say_refused(memory: IoVec, reason: Errno) {
    fabric_core::warn!(
        NAME,
        Subsys::Mr,
        "{} bytes at {:p} cannot be registered: {reason}{}",
        memory.len,
        memory.base,
        memlock_hint(reason)
    );
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
    use crate::sys::mock;

    #[test]
    fn descriptors_are_keys_with_a_mark() {
        assert_eq!(lkey_of(DESCRIPTOR), Some(0));
        assert_eq!(lkey_of(DESCRIPTOR | 0xffff_ffff), Some(0xffff_ffff));
        assert_eq!(lkey_of(0), None);
        assert_eq!(lkey_of(0x7fff_1234_5678), None, "an address is no descriptor");
    }

    fn device(atomics: bool, iwarp: bool) -> Device {
        let pd = Pd::new(mock::device(mock::RXE)).unwrap();
        Device { pd, atomics, iwarp, on_demand: false }
    }

    #[test]
    fn regions_have_the_accesses_that_are_asked_for() {
        let (local, remote) = (IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE);
        let plain = device(true, false);
        assert_eq!(plain.access(Flags::SEND | Flags::WRITE), 0, "memory may be read-only");
        assert_eq!(plain.access(Flags::REMOTE_READ), IBV_ACCESS_REMOTE_READ);
        assert_eq!(plain.access(Flags::READ), local);
        assert_eq!(
            plain.access(Flags::REMOTE_WRITE),
            local | remote | IBV_ACCESS_REMOTE_ATOMIC,
            "remote writes want local ones"
        );
        let iwarp = device(false, true);
        assert_eq!(iwarp.access(Flags::READ), local | remote);
        assert_eq!(iwarp.access(Flags::REMOTE_WRITE), local | remote);
        let unpinned = Device { on_demand: true, ..device(false, false) };
        assert_eq!(unpinned.access(Flags::SEND), IBV_ACCESS_ON_DEMAND);
    }

    /// What a device says it can have fetched, to libraries that can ask.
    #[test]
    fn pages_on_demand() {
        let all = ON_DEMAND | IBV_ODP_SUPPORT_ATOMIC;
        assert_eq!(mock::device(mock::RXE).on_demand(), 0, "nothing");
        mock::fetches(Some(all));
        assert_eq!(mock::device(mock::RXE).on_demand(), all);
        mock::fetches(Some(ON_DEMAND & !IBV_ODP_SUPPORT_READ));
        let context = mock::device(mock::RXE);
        let (attr, port) = (context.attr().unwrap(), context.port(1).unwrap());
        let limits = device::Limits::of(false, &attr, &port, 256);
        let limits = device::Limits { on_demand: context.on_demand(), ..limits };
        assert!(limits.fetches(IBV_ODP_SUPPORT_SEND) && !limits.fetches(ON_DEMAND));
        mock::fail("query_device_ex", &[libc::ENOSYS]);
        assert_eq!(context.on_demand(), 0);
    }

    #[test]
    fn registration_holds_and_lets_go() {
        let device = device(true, false);
        let memory = [0u8; 16];
        let iov = [IoVec { base: memory.as_ptr().cast_mut(), len: 16 }];
        let request = MrRequest {
            iov: &iov,
            access: Flags::REMOTE_READ,
            requested_key: 0,
            offset: 0,
            flags: Flags::empty(),
            context: 0,
        };
        let registered = device.register(&request).unwrap();
        assert_eq!((registered.key, lkey_of(registered.descriptor)), (0x8000_0001, Some(1)));
        assert_eq!(mock::regions(), 1);
        drop(registered);
        assert_eq!(mock::regions(), 0);
        mock::fail("ibv_reg_mr", &[libc::ENOMEM]);
        assert_eq!(device.register(&request).unwrap_err(), Errno::ENOMEM);
    }

    #[test]
    fn too_little_memory_to_lock_is_named() {
        let limited = getrlimit(Resource::Memlock).current.is_some();
        assert_eq!(memlock_hint(Errno::ENOMEM).contains("RLIMIT_MEMLOCK"), limited);
        assert_eq!(memlock_hint(Errno::EINVAL), "");
    }
}
