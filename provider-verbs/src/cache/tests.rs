//! Registrations on a device that counts them, and memory that goes: told by a script, and by the
//! kernel.

use core::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{
    Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap, munmap,
};

use super::*;
use crate::sys::{
    abi::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_ON_DEMAND},
    mock::{self, RXE},
};

/// A kernel that tells what a test says.
struct Script {
    notices: Notices,
    watches: AtomicBool,
}

impl Script {
    fn tell(&self, start: usize, end: usize, soon: bool) {
        self.notices.take(|push| push(Gone { start, end, soon }));
    }
}

impl Watch for Script {
    fn watch(&self, _: usize, _: usize) -> bool {
        self.watches.load(Ordering::Relaxed)
    }

    fn notices(&self) -> &Notices {
        &self.notices
    }
}

fn scripted(count: usize, bytes: usize) -> (Arc<Script>, Cache, Arc<Pd>) {
    let pd = Pd::new(mock::device(RXE)).unwrap();
    let script = Arc::new(Script { notices: Notices::new(), watches: AtomicBool::new(true) });
    let cache = Cache::with(Some(script.clone()), CacheLimits { count, bytes });
    (script, cache, pd)
}

/// The device looks at no memory, so any address will do.
fn memory(start: usize, len: usize) -> IoVec {
    IoVec { base: core::ptr::without_provenance_mut(start), len }
}

const MANY: usize = 1 << 30;

#[test]
fn registrations_are_kept_and_found() {
    let (_, mut cache, pd) = scripted(16, MANY);
    let mut get = |start, len, rights| cache.get(&pd, memory(start, len), rights).unwrap().lkey();
    let first = get(0x10100, 0x2000, IBV_ACCESS_LOCAL_WRITE);
    assert_eq!(get(0x10100, 0x2000, IBV_ACCESS_LOCAL_WRITE), first);
    assert_eq!(get(0x10800, 0x100, 0), first, "a part, for less");
    assert_eq!(get(0x10000, 0x3000, 0), first, "whole pages are registered");
    assert_ne!(get(0x10000, 0x3001, 0), first, "beyond them");
    let read = get(0x20010, 0x20, IBV_ACCESS_REMOTE_READ);
    assert_eq!(get(0x20010, 0x20, IBV_ACCESS_REMOTE_READ), read);
    assert_ne!(get(0x2000f, 0x20, IBV_ACCESS_REMOTE_READ), read, "peers reach what was named");
    let written = get(0x40000, 0x20, IBV_ACCESS_REMOTE_WRITE);
    assert_ne!(get(0x40000, 0x20, IBV_ACCESS_REMOTE_WRITE), written, "never kept");
}

/// What has gone is not found again, and ends with the operation that uses it.
#[test]
fn memory_that_has_gone_is_registered_anew() {
    let (script, mut cache, pd) = scripted(16, MANY);
    let mut get = |start, len| cache.get(&pd, memory(start, len), 0).unwrap();
    let (first, other) = (get(0x10000, 0x3000), get(0x20000, 0x1000));
    assert_eq!(mock::regions(), 2);
    script.tell(0x12000, 0x13000, false);
    let again = get(0x10000, 0x3000);
    assert_ne!(again.lkey(), first.lkey());
    assert_eq!(get(0x20000, 0x1000).lkey(), other.lkey(), "what is elsewhere stays");
    assert_eq!(mock::regions(), 3, "one is in use");
    drop(first);
    assert_eq!(mock::regions(), 2);
}

/// The notice of pages that are given back comes before they are: that range is never trusted again,
/// until something else is mapped there.
#[test]
fn memory_whose_pages_are_given_back() {
    let (script, mut cache, pd) = scripted(16, MANY);
    let mut get = || cache.get(&pd, memory(0x10000, 0x1000), 0).unwrap().lkey();
    let first = get();
    script.tell(0x10000, 0x11000, true);
    let (second, third) = (get(), get());
    assert!(first != second && second != third && third != first);
    script.tell(0x8000, 0x20000, false);
    let fourth = get();
    assert_eq!(get(), fourth);
}

#[test]
fn what_cannot_be_watched_is_not_kept() {
    let (script, mut cache, pd) = scripted(16, MANY);
    script.watches.store(false, Ordering::Relaxed);
    drop(cache.get(&pd, memory(0x10000, 0x1000), 0).unwrap());
    assert_eq!(mock::regions(), 0);
    script.watches.store(true, Ordering::Relaxed);
    script.notices.take(|_| {
        drop(cache.get(&pd, memory(0x10000, 0x1000), 0).unwrap());
        assert_eq!(mock::regions(), 0, "while something is being told");
    });
    let mut off = Cache::with(None, CacheLimits { count: 16, bytes: MANY });
    drop(off.get(&pd, memory(0x10000, 0x1000), 0).unwrap());
    assert_eq!(mock::regions(), 0);
}

#[test]
fn as_many_as_settings_say() {
    let (_, mut cache, pd) = scripted(3, 0x5000);
    let mut get = |start, len| cache.get(&pd, memory(start, len), 0).unwrap().lkey();
    let first = get(0x10000, 0x1000);
    for start in [0x20000, 0x30000] {
        get(start, 0x1000);
    }
    assert_eq!(get(0x10000, 0x1000), first);
    get(0x40000, 0x1000);
    assert_eq!(mock::regions(), 3);
    assert_eq!(get(0x10000, 0x1000), first, "the one that was longest unused has gone");
    get(0x50000, 0x4000);
    assert_eq!(mock::regions(), 2, "five pages in all");
    get(0x60000, 0x6000);
    assert_eq!(mock::regions(), 2, "more than all is not kept");
}

/// The kernel has too little memory to lock: what is kept makes room.
#[test]
fn room_is_made_for_what_is_needed() {
    let (_, mut cache, pd) = scripted(16, MANY);
    drop(cache.get(&pd, memory(0x10000, 0x1000), 0).unwrap());
    mock::fail("ibv_reg_mr", &[libc::ENOMEM]);
    let made = cache.get(&pd, memory(0x20000, 0x1000), 0).unwrap();
    assert_eq!(mock::regions(), 1);
    drop(made);
    mock::fail("ibv_reg_mr", &[libc::ENOMEM, libc::ENOMEM]);
    assert_eq!(cache.get(&pd, memory(0x30000, 0x1000), 0).unwrap_err(), Errno::ENOMEM);
}

const LEN: usize = 16 * 4096;

/// Memory at an address, or elsewhere if that has been taken.
fn map(at: *mut u8, extra: MapFlags) -> *mut u8 {
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: where nothing is mapped, or on memory of the test's own.
    let base = unsafe { mmap_anonymous(at.cast(), LEN, rights, flags | extra) };
    // SAFETY: at a place of the kernel's choice.
    let base = base.or_else(|_| unsafe { mmap_anonymous(NULL, LEN, rights, flags) }).unwrap();
    // SAFETY: mapped above.
    unsafe { base.cast::<u8>().write_bytes(7, LEN) };
    base.cast()
}

const NULL: *mut core::ffi::c_void = core::ptr::null_mut();

/// Memory that is unmapped, moved, given back or replaced, and mapped at the same address again, a
/// thousand times: no registration of before is ever found.
#[test]
fn no_registration_outlives_its_memory() {
    let Some(watcher) = Watcher::of_process() else {
        return println!("skipped: the kernel tells nothing");
    };
    let pd = Pd::new(mock::device(RXE)).unwrap();
    let limits = CacheLimits { count: 16, bytes: MANY };
    let mut cache = Cache::with(Some(watcher), limits);
    let mut kept = 0;
    let mut base = map(NULL.cast(), MapFlags::empty());
    for round in 0..1000 {
        // A part is watched as a whole: else it could not be moved as one.
        let part = IoVec { base: base.wrapping_add(4096), len: 4096 };
        drop(cache.get(&pd, part, 0).unwrap());
        let mut get = || cache.get(&pd, IoVec { base, len: LEN }, 0).unwrap().lkey();
        let key = get();
        kept += usize::from(get() == key);
        let mut on_top = MapFlags::FIXED_NOREPLACE;
        // SAFETY: the test's own memory, which nobody looks at.
        unsafe {
            match round % 5 {
                0 => munmap(base.cast(), LEN).unwrap(),
                1 => {
                    let to = mremap(base.cast(), LEN, 2 * LEN, MremapFlags::MAYMOVE).unwrap();
                    munmap(to, 2 * LEN).unwrap();
                }
                2 => {
                    madvise(base.cast(), LEN, Advice::LinuxDontNeed).unwrap();
                    base.write_bytes(7, LEN);
                    on_top = MapFlags::empty();
                }
                3 => assert_eq!(libc::syscall(libc::SYS_munmap, base, LEN), 0),
                _ => on_top = MapFlags::FIXED,
            }
        }
        if !on_top.is_empty() {
            base = map(base, on_top);
        }
        let again = cache.get(&pd, IoVec { base, len: LEN }, 0).unwrap().lkey();
        assert_ne!(again, key, "round {round}");
    }
    assert!(kept > 500, "only {kept} were kept");
    // SAFETY: as above.
    unsafe { munmap(base.cast(), LEN) }.unwrap();
}

/// Devices that have pages fetched need no notices: what is mapped next is found, too.
#[test]
fn registrations_on_demand_are_kept_whatever_happens_to_memory() {
    let pd = Pd::new(mock::device(RXE)).unwrap();
    let mut cache = Cache::open(true);
    let mut get = |start, len| cache.get(&pd, memory(start, len), 0).unwrap().lkey();
    let first = get(0x10000, 0x3000);
    assert_eq!((get(0x10000, 0x3000), get(0x11000, 0x100)), (first, first));
    assert_eq!(mock::access(), IBV_ACCESS_ON_DEMAND);
}
