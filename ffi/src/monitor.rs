//! SETUP. The object `mr_cache` (`fi_open`): an application lends its memory monitor, and tells of memory
//! that goes by it.

use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabric_core::{
    Errno, Result,
    monitor::{self, Monitor},
};

use crate::{
    abi::{
        Plain,
        constants::{FI_CLASS_MEM_MONITOR, FI_CLASS_MR_CACHE},
        ext::{fi_ops_mem_monitor, fi_ops_mem_notify, fid_mem_monitor, fid_mr_cache},
        fid::{fi_ops, fid},
    },
    object::{self, CObject, Shell, from_fid},
    panic::{guard, status},
};

/// The object "mr_cache".
#[derive(Debug)]
struct CacheObject;

impl CObject for CacheObject {
    type Head = fid_mr_cache;
    const CLASS: usize = FI_CLASS_MR_CACHE;
}

const OBJECT: &fi_ops = &fi_ops { close, bind, ..fi_ops::UNSUPPORTED };

/// What replaces the table of the application's monitor while it is lent.
const IMPORTED: &fi_ops = &fi_ops { close: give_back, ..fi_ops::UNSUPPORTED };

static NOTIFY: fi_ops_mem_notify =
    fi_ops_mem_notify { size: size_of::<fi_ops_mem_notify>(), notify: Some(notify) };

/// Opens the object.
pub(crate) fn open(context: *mut c_void) -> *mut fid {
    let mut head = fid_mr_cache::zeroed();
    head.fid.ops = (&raw const *OBJECT).cast_mut();
    object::open(Arc::new(CacheObject), context, head).cast()
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the caller passes an object that nobody else closes now.
    unsafe { object::close(fid, |shell: &Shell<CacheObject>| shell.retire().map(drop)) }
}

/// `fi_import_fid`: caches of registrations ask the application's monitor until that is closed.
///
/// `EINVAL` for flags, for an object of another class, and for a table that is too short or has a hole;
/// `EBUSY` while another monitor is lent.
unsafe extern "C" fn bind(fid: *mut fid, theirs: *mut fid, flags: u64) -> c_int {
    guard(|| {
        // SAFETY: the caller passes an object.
        status(unsafe { from_fid::<CacheObject>(fid) }.and_then(|shell| {
            if flags != 0 || theirs.is_null() || theirs == fid || !theirs.is_aligned() {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the caller passes an object, which starts with its class.
            if unsafe { (*theirs).fclass } != FI_CLASS_MEM_MONITOR {
                return Err(Errno::EINVAL);
            }
            let lent: *mut fid_mem_monitor = theirs.cast();
            // SAFETY: its class says that it is a monitor, with a table that starts with its size.
            let ops = unsafe { (*lent).export_ops };
            // SAFETY: as above.
            if ops.is_null() || unsafe { (*ops).size } < size_of::<fi_ops_mem_monitor>() {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the table is long enough.
            let theirs_now = Theirs::of(lent, unsafe { &*ops })?;
            let mut import = import();
            monitor::import(Arc::new(theirs_now))?;
            *import = Some(lent.addr());
            // SAFETY: the object is the application's, which lends it.
            unsafe {
                (*lent).import_ops = (&raw const NOTIFY).cast_mut();
                (*lent).fid.ops = (&raw const *IMPORTED).cast_mut();
                (*lent).fid.context = shell.context();
            }
            Ok(())
        }))
    })
}

/// `fi_close` on the application's monitor: nobody asks it any more. `EBUSY` while registrations are
/// kept under it, `EINVAL` if it is not lent.
unsafe extern "C" fn give_back(fid: *mut fid) -> c_int {
    guard(|| {
        let mut import = import();
        status(if *import == Some(fid.addr()) {
            monitor::release().map(|()| *import = None)
        } else {
            Err(Errno::EINVAL)
        })
    })
}

/// The application tells of memory that goes. It may be inside `munmap` or `free`.
unsafe extern "C" fn notify(_: *mut fid_mem_monitor, addr: *const c_void, len: usize) {
    monitor::notify(addr.addr(), len);
}

/// The monitor that is lent. The value is whole after every statement, so a panic elsewhere does not
/// spoil it.
fn import() -> MutexGuard<'static, Option<usize>> {
    static IMPORT: Mutex<Option<usize>> = Mutex::new(None);
    IMPORT.lock().unwrap_or_else(PoisonError::into_inner)
}

type StartFn = unsafe extern "C" fn(*mut fid_mem_monitor) -> c_int;
type StopFn = unsafe extern "C" fn(*mut fid_mem_monitor);
type SubscribeFn = unsafe extern "C" fn(*mut fid_mem_monitor, *const c_void, usize) -> c_int;
type UnsubscribeFn = unsafe extern "C" fn(*mut fid_mem_monitor, *const c_void, usize);
type ValidFn = unsafe extern "C" fn(*mut fid_mem_monitor, *const c_void, usize) -> bool;

/// The application's monitor, which is asked from any thread.
struct Theirs {
    lent: *mut fid_mem_monitor,
    start: StartFn,
    stop: StopFn,
    subscribe: SubscribeFn,
    unsubscribe: UnsubscribeFn,
    valid: ValidFn,
}

// SAFETY: the application has promised that its functions can be called from any thread (fi_open
// "mr_cache"), and lends the object until it closes it.
unsafe impl Send for Theirs {}
// SAFETY: as above.
unsafe impl Sync for Theirs {}

impl Theirs {
    fn of(lent: *mut fid_mem_monitor, ops: &fi_ops_mem_monitor) -> Result<Self> {
        Ok(Self {
            lent,
            start: ops.start.ok_or(Errno::EINVAL)?,
            stop: ops.stop.ok_or(Errno::EINVAL)?,
            subscribe: ops.subscribe.ok_or(Errno::EINVAL)?,
            unsubscribe: ops.unsubscribe.ok_or(Errno::EINVAL)?,
            valid: ops.valid.ok_or(Errno::EINVAL)?,
        })
    }
}

/// An address of the application's, which is only told.
const fn address(start: usize) -> *const c_void {
    core::ptr::without_provenance(start)
}

fn returned(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Errno::new(code.saturating_abs())) }
}

impl Monitor for Theirs {
    fn start(&self) -> Result<()> {
        // SAFETY: the monitor is lent.
        returned(unsafe { (self.start)(self.lent) })
    }

    fn stop(&self) {
        // SAFETY: as above.
        unsafe { (self.stop)(self.lent) };
    }

    fn subscribe(&self, start: usize, len: usize) -> Result<()> {
        // SAFETY: as above.
        returned(unsafe { (self.subscribe)(self.lent, address(start), len) })
    }

    fn unsubscribe(&self, start: usize, len: usize) {
        // SAFETY: as above.
        unsafe { (self.unsubscribe)(self.lent, address(start), len) };
    }

    fn is_valid(&self, start: usize, len: usize) -> bool {
        // SAFETY: as above.
        unsafe { (self.valid)(self.lent, address(start), len) }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use fabric_core::monitor::Keeper;

    use super::*;

    static STARTED: AtomicUsize = AtomicUsize::new(0);
    static TOLD: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn start(_: *mut fid_mem_monitor) -> c_int {
        STARTED.fetch_add(1, Ordering::Relaxed);
        0
    }
    unsafe extern "C" fn stop(_: *mut fid_mem_monitor) {
        STARTED.fetch_sub(1, Ordering::Relaxed);
    }
    unsafe extern "C" fn subscribe(_: *mut fid_mem_monitor, _: *const c_void, len: usize) -> c_int {
        if len == 1 { -22 } else { 0 }
    }
    unsafe extern "C" fn unsubscribe(_: *mut fid_mem_monitor, _: *const c_void, _: usize) {}
    unsafe extern "C" fn valid(_: *mut fid_mem_monitor, at: *const c_void, _: usize) -> bool {
        at.addr() != 4096
    }

    fn told(start: usize, len: usize) {
        TOLD.store(start + len, Ordering::Relaxed);
    }

    #[test]
    fn an_application_lends_its_monitor() {
        let object = open(core::ptr::null_mut());
        let mut ops = fi_ops_mem_monitor {
            size: size_of::<fi_ops_mem_monitor>(),
            start: Some(start),
            stop: Some(stop),
            subscribe: Some(subscribe),
            unsubscribe: Some(unsubscribe),
            valid: None,
        };
        let ops: *mut fi_ops_mem_monitor = &raw mut ops;
        let mut theirs = fid_mem_monitor::zeroed();
        theirs.export_ops = ops;
        let theirs: *mut fid_mem_monitor = &raw mut theirs;
        // SAFETY: both objects are whole.
        let import = move |flags| unsafe { ((*(*object).ops).bind)(object, theirs.cast(), flags) };
        // SAFETY: it is whole, and has a table once it is lent.
        let close = move || unsafe { ((*(*theirs).fid.ops).close)(theirs.cast()) };
        assert_eq!(import(0), -22, "wrong class");
        // SAFETY: the object is ours.
        unsafe { (*theirs).fid.fclass = FI_CLASS_MEM_MONITOR };
        assert_eq!(import(0), -22, "a hole in the table");
        // SAFETY: the table is ours.
        unsafe {
            (*ops).valid = Some(valid);
            (*ops).size -= 1;
        }
        assert_eq!(import(0), -22, "short table");
        // SAFETY: as above.
        unsafe { (*ops).size += 1 };
        assert_eq!((import(1), import(0), import(0)), (-22, 0, -16));

        let keeper = Keeper::begin(told);
        let asked = keeper.monitor().unwrap();
        assert_eq!(STARTED.load(Ordering::Relaxed), 1);
        assert_eq!(asked.subscribe(8192, 1), Err(Errno::EINVAL));
        assert!(asked.subscribe(8192, 2).is_ok());
        assert!(asked.is_valid(8192, 2) && !asked.is_valid(4096, 2));
        // SAFETY: the library has filled the table in.
        let notify = unsafe { (*(*theirs).import_ops).notify }.unwrap();
        // SAFETY: the monitor is lent.
        unsafe { notify(theirs, address(8192), 100) };
        assert_eq!(TOLD.load(Ordering::Relaxed), 8292);
        assert_eq!(close(), -16, "in use");
        drop(keeper);
        assert_eq!((STARTED.load(Ordering::Relaxed), close(), close()), (0, 0, -22));
        // SAFETY: the object is open.
        assert_eq!(unsafe { ((*(*object).ops).close)(object) }, 0);
    }
}
