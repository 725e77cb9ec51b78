//! PENDING. Event queues: `fi_ops_eq`.

use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use fabric_core::{
    Errno, Result,
    attr::{Version, WaitObj},
    eq::{EqAttr, ErrorEvent, Event, EventQueue},
    flags::Flags,
    log::Subsys,
};

use super::{
    connreq,
    eq_entry::{self, Entry},
    error::{self, strerror},
    payload::{EqObject, FabricObject},
    signed, table, tell_shortage, wait,
};
use crate::{
    abi::{
        Plain,
        attr::fi_eq_attr,
        constants::FI_CLASS_EQ,
        event::fi_eq_err_entry,
        fid::{fi_ops, fid, fid_eq},
        ops::fi_ops_eq,
    },
    info::MAX_BYTES,
    object::{self, CObject, Shell, call_target, from_fid},
    panic::{guard, status},
};

impl CObject for EqObject {
    type Head = fid_eq;
    const CLASS: usize = FI_CLASS_EQ;
}

const FID: &fi_ops = &fi_ops { close, control, ..fi_ops::UNSUPPORTED };

const OPS: &fi_ops_eq = &fi_ops_eq {
    read,
    readerr,
    write,
    sread,
    strerror: strerror::<fid_eq>,
    ..fi_ops_eq::UNSUPPORTED
};

/// Opens a queue of a fabric. `EINVAL` for wait objects that are retired or unknown, `EBADFLAGS`
/// for flags other than `FI_WRITE` and `FI_AFFINITY`.
///
/// # Safety
/// `attr` points to attributes or is null.
pub(super) unsafe fn open(
    fabric: &Arc<FabricObject>,
    attr: *mut fi_eq_attr,
    context: *mut c_void,
) -> Result<*mut fid_eq> {
    // SAFETY: the caller passes attributes, whose struct never grew.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
    let wait_obj = WaitObj::from_raw(attr.wait_obj).ok_or(Errno::EINVAL)?;
    let flags = Flags::from_bits_retain(attr.flags);
    let provider = fabric.attr.prov_name.as_deref().unwrap_or_default();
    let eq = EventQueue::open(&EqAttr { size: attr.size, flags, wait_obj })
        .inspect_err(tell_shortage(provider, Subsys::Eq, "fi_eq_open"))?;
    let mut head = fid_eq::zeroed();
    head.fid.ops = table(FID);
    head.ops = table(OPS);
    let object = EqObject { eq, fabric: fabric.child(), error_data: Mutex::new(Arc::default()) };
    Ok(object::open(Arc::new(object), context, head))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<EqObject>| {
        shell.payload()?.eq.close().inspect_err(|_| {
            fabric_core::warn!(
                "core",
                Subsys::Eq,
                "close: objects are bound to the queue, or threads wait in it"
            );
        })?;
        let object = shell.retire()?;
        connreq::remove_eq(&object.eq);
        Ok(())
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: the caller passes an object.
        status(unsafe { from_fid::<EqObject>(fid) }.and_then(|shell| {
            let object = shell.payload()?;
            // SAFETY: the argument is the one that the command asks for.
            unsafe {
                wait::control(command, arg, object.eq.attr().wait_obj, || object.eq.wait_fd())
            }
        }))
    })
}

/// Reads one event into the caller's variables. An event that does not fit is cut, as long as
/// nothing is lost with it that has to be released.
///
/// # Safety
/// The call came through a queue's table; `event` is null or has room for a number, `buf` is null
/// or writable for `len` bytes.
unsafe fn read_with(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
    read: impl FnOnce(&EqObject, Flags, &mut dyn FnMut(&Event) -> Result<Entry>) -> Result<Entry>,
) -> isize {
    guard(|| {
        // SAFETY: the caller's promise.
        signed(unsafe { call_target::<EqObject>(eq) }.and_then(|object| {
            if event.is_null() {
                return Err(Errno::EINVAL);
            }
            let flags = Flags::from_bits_retain(flags);
            let (room, keep) = (if buf.is_null() { 0 } else { len }, flags.contains(Flags::PEEK));
            let found = read(object, flags, &mut |event| eq_entry::of(event, object, room, keep))?;
            // SAFETY: not null, so the caller has room for a number.
            unsafe { event.write(found.number) };
            let count = found.bytes.len().min(room);
            // SAFETY: `count` is within the entry and within the caller's `len` bytes.
            unsafe { core::ptr::copy_nonoverlapping(found.bytes.as_ptr(), buf.cast(), count) };
            Ok(count)
        }))
    })
}

unsafe extern "C" fn read(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> isize {
    // SAFETY: the caller passes the table's own queue and its variables.
    unsafe {
        read_with(eq, event, buf, len, flags, |object, flags, take| {
            object.eq.read_with(flags, take)
        })
    }
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    // SAFETY: the caller passes the table's own queue and its variables.
    unsafe {
        read_with(eq, event, buf, len, flags, |object, flags, take| {
            object.eq.read_blocking_with(flags, timeout, take)
        })
    }
}

unsafe extern "C" fn readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> isize {
    guard(|| {
        // SAFETY: the call came through a queue's table.
        signed(unsafe { call_target::<EqObject>(eq) }.and_then(|object| {
            if buf.is_null() {
                return Err(Errno::EINVAL);
            }
            let found = object.eq.read_error(Flags::from_bits_retain(flags))?;
            let mut kept = object.error_data.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the caller's entry, whose struct never grew.
            unsafe { write_error(&found, object.fabric.0.sizing, buf, &mut kept) };
            Ok(size_of::<fi_eq_err_entry>())
        }))
    })
}

/// # Safety
/// `out` is an entry, whose `err_data` is writable for `err_data_size` bytes if that is not zero
/// and the version 1.5 or newer.
unsafe fn write_error(
    error: &ErrorEvent,
    version: Version,
    out: *mut fi_eq_err_entry,
    kept: &mut Arc<[u8]>,
) {
    // SAFETY: the caller's promise.
    let out = unsafe { &mut *out };
    let room = if version >= Version::new(1, 5) { out.err_data_size } else { 0 };
    kept.clone_from(&error.err_data);
    // SAFETY: the caller's promise.
    let (err_data, err_data_size) = unsafe { error::give_data(kept, out.err_data, room) };
    *out = fi_eq_err_entry {
        fid: core::ptr::with_exposed_provenance_mut(error.object),
        context: core::ptr::with_exposed_provenance_mut(error.context),
        data: error.data,
        err: error.err.get(),
        prov_errno: error.prov_errno,
        err_data,
        err_data_size,
    };
}

unsafe extern "C" fn write(
    eq: *mut fid_eq,
    event: u32,
    buf: *const c_void,
    len: usize,
    flags: u64,
) -> isize {
    guard(|| {
        // SAFETY: the call came through a queue's table.
        signed(unsafe { call_target::<EqObject>(eq) }.and_then(|object| {
            if len > MAX_BYTES || (buf.is_null() && len > 0) {
                return Err(Errno::EINVAL);
            }
            let data = if len == 0 {
                &[]
            } else {
                // SAFETY: the caller's event is readable for `len` bytes.
                unsafe { core::slice::from_raw_parts(buf.cast::<u8>(), len) }
            };
            object.eq.write(event, data, Flags::from_bits_retain(flags))
        }))
    })
}
