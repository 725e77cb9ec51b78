//! HOT. Completion queues: `fi_ops_cq`.
//!
//! There is a table for each entry format, so that a read moves entries of a constant size.

use core::{
    ffi::{c_int, c_void},
    marker::PhantomData,
};
use std::sync::{Arc, Mutex, PoisonError};

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    attr::{CqFormat, Version, WaitObj},
    completion::{Cq, CqAttr, CqError, EntryBuf},
    domain::Domain,
    flags::Flags,
    log::Subsys,
};

use super::{
    error::{self, words},
    no_flags,
    payload::{CqObject, DomainObject},
    signed, table, tell_shortage, wait,
};
use crate::{
    abi::{
        Plain,
        attr::fi_cq_attr,
        constants::{FI_CLASS_CQ, FI_CQ_COND_THRESHOLD, fi_addr_t},
        event::fi_cq_err_entry,
        fid::{fi_ops, fid, fid_cq},
        ops::fi_ops_cq,
    },
    info::memory::prefix,
    object::{self, CObject, Shell, call_target, from_fid},
    panic::{guard, status},
};

impl<E: Endpoint> CObject for CqObject<E> {
    type Head = fid_cq;
    const CLASS: usize = FI_CLASS_CQ;

    fn domain(&self) -> Option<&Arc<Domain>> {
        Some(self.child.domain())
    }
}

/// An entry format as a type.
trait Format: 'static {
    const FORMAT: CqFormat;
}

macro_rules! formats {
    ($($name:ident = $format:ident),*) => {$(
        struct $name;
        impl Format for $name {
            const FORMAT: CqFormat = CqFormat::$format;
        }
    )*};
}

formats!(Context = Context, Msg = Msg, Data = Data, Tagged = Tagged);

/// The tables of a queue with entries in one format.
struct Tables<E, F>(PhantomData<(E, F)>);

impl<E: Endpoint, F: Format> Tables<E, F> {
    const FID: &fi_ops =
        &fi_ops { close: close::<E>, control: control::<E>, ..fi_ops::UNSUPPORTED };

    const OPS: &fi_ops_cq = &fi_ops_cq {
        read: read::<E, F>,
        readfrom: readfrom::<E, F>,
        readerr: readerr::<E>,
        sread: sread::<E, F>,
        sreadfrom: sreadfrom::<E, F>,
        signal: signal::<E>,
        strerror: words::<E>,
        ..fi_ops_cq::UNSUPPORTED
    };
}

/// Opens a queue of a domain. `EINVAL` for values outside the enumerations and for wait objects
/// that are retired.
///
/// # Safety
/// `attr` points to attributes or is null.
pub(super) unsafe fn open<E: Endpoint>(
    domain: &DomainObject<E>,
    attr: *mut fi_cq_attr,
    context: *mut c_void,
) -> Result<*mut fid_cq> {
    // SAFETY: the caller passes attributes, whose struct never grew.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
    no_flags(attr.flags & !Flags::AFFINITY.bits())?;
    if attr.wait_cond > FI_CQ_COND_THRESHOLD {
        return Err(Errno::EINVAL);
    }
    let cq = Cq::<E>::open(&CqAttr {
        size: attr.size,
        format: CqFormat::from_raw(attr.format).ok_or(Errno::EINVAL)?,
        wait_obj: WaitObj::from_raw(attr.wait_obj).ok_or(Errno::EINVAL)?,
    })
    .inspect_err(tell_shortage(domain.provider(), Subsys::Cq, "fi_cq_open"))?;
    let mut head = fid_cq::zeroed();
    let (fid_ops, ops) = match cq.attr().format {
        CqFormat::Unspec | CqFormat::Context => {
            (Tables::<E, Context>::FID, Tables::<E, Context>::OPS)
        }
        CqFormat::Msg => (Tables::<E, Msg>::FID, Tables::<E, Msg>::OPS),
        CqFormat::Data => (Tables::<E, Data>::FID, Tables::<E, Data>::OPS),
        CqFormat::Tagged => (Tables::<E, Tagged>::FID, Tables::<E, Tagged>::OPS),
    };
    (head.fid.ops, head.ops) = (table(fid_ops), table(ops));
    let object = CqObject {
        cq,
        child: domain.domain.child(),
        sizing: domain.sizing(),
        error_data: Mutex::default(),
    };
    Ok(object::open(Arc::new(object), context, head))
}

unsafe extern "C" fn close<E: Endpoint>(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<CqObject<E>>| {
        if shell.payload()?.cq.in_use() {
            fabric_core::warn!(
                "core",
                Subsys::Cq,
                "close: endpoints are bound to the queue, or threads wait in it"
            );
            return Err(Errno::EBUSY);
        }
        shell.retire().map(drop)
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}

unsafe extern "C" fn control<E: Endpoint>(
    fid: *mut fid,
    command: c_int,
    arg: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the caller passes an object.
        status(unsafe { from_fid::<CqObject<E>>(fid) }.and_then(|shell| {
            let cq = &shell.payload()?.cq;
            // SAFETY: the argument is the one that the command asks for.
            unsafe { wait::control(command, arg, cq.attr().wait_obj, || cq.wait_fd()) }
        }))
    })
}

/// Describes the application's room and passes it to `read`.
///
/// # Safety
/// The call came through a queue's table of format `F`, with room for `count` entries and, unless
/// `src` is null, as many sources.
#[inline(always)]
unsafe fn read_with<E: Endpoint, F: Format>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    src: *mut fi_addr_t,
    read: impl FnOnce(&Cq<E>, &mut EntryBuf) -> Result<usize>,
) -> isize {
    // SAFETY: the caller's promise.
    guard(|| match unsafe { call_target::<CqObject<E>>(cq) } {
        Err(errno) => errno.to_c(),
        Ok(_) if buf.is_null() && count > 0 => Errno::EINVAL.to_c(),
        Ok(object) => {
            // SAFETY: the caller's promise; without room nothing is written.
            let mut out = unsafe { EntryBuf::new(buf.cast(), F::FORMAT, count, src) };
            signed(read(&object.cq, &mut out))
        }
    })
}

unsafe extern "C" fn read<E: Endpoint, F: Format>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
) -> isize {
    let src = core::ptr::null_mut();
    // SAFETY: the caller passes the table's own queue and room for `count` entries.
    unsafe { read_with::<E, F>(cq, buf, count, src, |cq, out| cq.read(out)) }
}

unsafe extern "C" fn readfrom<E: Endpoint, F: Format>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    src_addr: *mut fi_addr_t,
) -> isize {
    // SAFETY: as for `read`, with room for `count` sources or null.
    unsafe { read_with::<E, F>(cq, buf, count, src_addr, |cq, out| cq.read(out)) }
}

/// The condition is a hint, which the first entry satisfies.
unsafe extern "C" fn sread<E: Endpoint, F: Format>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    let src = core::ptr::null_mut();
    // SAFETY: as for `read`.
    unsafe { read_with::<E, F>(cq, buf, count, src, |cq, out| cq.sread(out, timeout)) }
}

unsafe extern "C" fn sreadfrom<E: Endpoint, F: Format>(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    src_addr: *mut fi_addr_t,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: as for `readfrom`.
    unsafe { read_with::<E, F>(cq, buf, count, src_addr, |cq, out| cq.sread(out, timeout)) }
}

/// Takes the error at the head. Its data go to the application's buffer if it has one
/// (`err_data_size` not zero); else it gets a buffer of the library, valid until the next error is
/// read.
unsafe extern "C" fn readerr<E: Endpoint>(
    cq: *mut fid_cq,
    buf: *mut fi_cq_err_entry,
    flags: u64,
) -> isize {
    // SAFETY: the call came through a queue's table.
    guard(|| match unsafe { call_target::<CqObject<E>>(cq) } {
        Err(errno) => errno.to_c(),
        Ok(_) if buf.is_null() => Errno::EINVAL.to_c(),
        Ok(_) if flags != 0 => Errno::EBADFLAGS.to_c(),
        Ok(object) => match object.cq.read_error() {
            Err(errno) => errno.to_c(),
            Ok(error) => {
                let mut kept = object.error_data.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the caller's entry has the size of its version.
                unsafe { write_error(error, object.sizing, buf, &mut kept) };
                1
            }
        },
    })
}

/// # Safety
/// `out` is an entry of the size of `sizing`, whose `err_data` is writable for `err_data_size`
/// bytes if the size is not zero.
#[cold]
pub(super) unsafe fn write_error(
    error: CqError,
    sizing: Version,
    out: *mut fi_cq_err_entry,
    kept: &mut Box<[u8]>,
) {
    let size = fi_cq_err_entry::size_for(sizing);
    // SAFETY: the caller's promise.
    let before = unsafe { prefix(out, size) }.unwrap_or_else(fi_cq_err_entry::zeroed);
    let mut entry = fi_cq_err_entry {
        op_context: core::ptr::with_exposed_provenance_mut(error.entry.context),
        flags: error.entry.flags,
        len: error.entry.len,
        buf: core::ptr::with_exposed_provenance_mut(error.entry.buf),
        data: error.entry.data,
        tag: error.entry.tag,
        olen: error.olen,
        err: error.err.get(),
        prov_errno: error.prov_errno,
        err_data: core::ptr::null_mut(),
        err_data_size: 0,
        src_addr: error.entry.src,
    };
    *kept = error.err_data;
    // SAFETY: the caller's promise; older callers have no size, which then is zero.
    (entry.err_data, entry.err_data_size) =
        unsafe { error::give_data(kept, before.err_data, before.err_data_size) };
    // SAFETY: the caller's entry has `size` bytes, and no more than that are written.
    unsafe { core::ptr::copy_nonoverlapping((&raw const entry).cast::<u8>(), out.cast(), size) };
}

unsafe extern "C" fn signal<E: Endpoint>(cq: *mut fid_cq) -> c_int {
    guard(|| {
        // SAFETY: the call came through a queue's table.
        status(unsafe { call_target::<CqObject<E>>(cq) }.map(|object| object.cq.signal()))
    })
}
