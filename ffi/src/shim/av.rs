//! SETUP. Address vectors: `fi_ops_av`.

use core::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, OnceLock};

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    attr::AvType,
    av::{Av, symmetric_names},
    domain::Domain,
    eq::{BoundEq, ControlEvent, ErrorEvent, Event},
    flags::Flags,
    log::Subsys,
    op::ADDR_UNSPEC,
};

use super::{
    addresses::Addresses,
    belonging,
    payload::{AvObject, DomainObject},
    table, tell_shortage,
};
use crate::{
    abi::{
        Plain,
        attr::fi_av_attr,
        constants::{FI_AV_TABLE, FI_CLASS_AV, fi_addr_t},
        fid::{fi_ops, fid, fid_av},
        ops::fi_ops_av,
    },
    object::{self, CObject, Shell, call_target, from_fid},
    panic::{guard, status},
    text,
};

impl CObject for AvObject {
    type Head = fid_av;
    const CLASS: usize = FI_CLASS_AV;

    fn domain(&self) -> Option<&Arc<Domain>> {
        Some(self.child.domain())
    }
}

const FID: &fi_ops = &fi_ops { close, bind, ..fi_ops::UNSUPPORTED };

/// Sets for collectives and authorisation keys are not supported.
const OPS: &fi_ops_av = &fi_ops_av {
    insert,
    insertsvc,
    insertsym,
    remove,
    lookup,
    straddr,
    set_user_id,
    ..fi_ops_av::UNSUPPORTED
};

/// Opens a vector of a domain and writes the kind that it has to `attr`. `ENOSYS` for vectors that
/// processes share by name.
///
/// # Safety
/// `attr` points to attributes or is null.
pub(super) unsafe fn open<E: Endpoint>(
    domain: &DomainObject<E>,
    attr: *mut fi_av_attr,
    context: *mut c_void,
) -> Result<*mut fid_av> {
    // SAFETY: the caller passes attributes, whose struct never grew.
    let attr = unsafe { attr.as_mut() }.ok_or(Errno::EINVAL)?;
    let kind = AvType::from_raw(attr.r#type).ok_or(Errno::EINVAL)?;
    if !attr.name.is_null() {
        return Err(Errno::ENOSYS);
    }
    // Receive contexts are those of scalable endpoints, which there are none of.
    if !(0..=63).contains(&attr.rx_ctx_bits) {
        return Err(Errno::EINVAL);
    }
    let flags = Flags::from_bits_retain(attr.flags);
    if flags.contains(Flags::PEER) {
        return Err(Errno::EINVAL);
    }
    let av = Av::open(kind, attr.count, flags, domain.addresses).inspect_err(tell_shortage(
        domain.provider(),
        Subsys::Av,
        "fi_av_open",
    ))?;
    attr.r#type = FI_AV_TABLE;
    let mut head = fid_av::zeroed();
    head.fid.ops = table(FID);
    head.ops = table(OPS);
    let (child, fabric) = (domain.domain.child(), domain.fabric.0.clone());
    let object = AvObject { av, child, fabric, eq: OnceLock::new() };
    Ok(object::open(Arc::new(object), context, head))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<AvObject>| {
        let object = shell.payload()?;
        object.av.close().inspect_err(|_| {
            fabric_core::warn!("core", Subsys::Av, "close: endpoints are bound to the vector");
        })?;
        if let Some(eq) = object.eq.get() {
            eq.forget(shell.head().addr());
        }
        shell.retire().map(drop)
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}

/// Binds the event queue for insertions.
unsafe extern "C" fn bind(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    guard(|| {
        // SAFETY: the caller passes an object.
        status(unsafe { from_fid::<AvObject>(fid) }.and_then(|shell| {
            let object = shell.payload()?;
            // SAFETY: as above.
            let eq = unsafe { belonging::event_queue(&object.fabric, bound) }?;
            if flags != 0 {
                return Err(Errno::EBADFLAGS);
            }
            object.eq.set(eq.eq.bind()?).map_err(|_| Errno::EINVAL)
        }))
    })
}

/// One call of the insert family: where results go and how they are reported.
struct Insertion<'a> {
    av: &'a Av,
    /// Where a vector opened with `FI_EVENT` reports, and the address that C knows it by.
    events: Option<(&'a BoundEq, usize)>,
    /// Room for handles, or null. With `FI_AV_USER_ID` it brings the application's numbers.
    handles: *mut fi_addr_t,
    user_ids: bool,
    /// Room for an error number for each entry, or null.
    errors: *mut c_int,
    context: usize,
    inserted: usize,
    /// Why the entry tried last could not be inserted.
    failure: Option<Errno>,
}

impl<'a> Insertion<'a> {
    /// Checks what all calls of the family share. `EINVAL` for ids without an array, or in a vector
    /// whose ids are set apart, for an error array that is null or of no use because insertions
    /// are reported as events; `ENOEQ` while the queue for those is missing.
    ///
    /// # Safety
    /// `av` came through a vector's table; `handles` is null or, like `context` with
    /// `FI_SYNC_ERR`, an array with an element for each entry.
    unsafe fn new(
        av: *mut fid_av,
        handles: *mut fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        let object = unsafe { call_target::<'a, AvObject>(av) }?;
        let flags = Flags::from_bits_retain(flags);
        if !(Flags::MORE | Flags::SYNC_ERR | Flags::AV_USER_ID).contains(flags) {
            return Err(Errno::EBADFLAGS);
        }
        let user_ids = flags.contains(Flags::AV_USER_ID);
        if user_ids && (handles.is_null() || object.av.flags().contains(Flags::AV_USER_ID)) {
            return Err(Errno::EINVAL);
        }
        let events = if object.av.flags().contains(EVENT) {
            Some((object.eq.get().ok_or(Errno::ENOEQ)?, av.expose_provenance()))
        } else {
            None
        };
        let sync = flags.contains(Flags::SYNC_ERR);
        if sync && (context.is_null() || events.is_some()) {
            return Err(Errno::EINVAL);
        }
        Ok(Self {
            av: &object.av,
            events,
            handles,
            user_ids,
            errors: if sync { context.cast() } else { core::ptr::null_mut() },
            context: context.expose_provenance(),
            inserted: 0,
            failure: None,
        })
    }

    /// Inserts entry `index` and reports how that went.
    ///
    /// # Safety
    /// The arrays have an element for the entry.
    unsafe fn entry(&mut self, index: usize, insert: impl FnOnce(&Av, Option<u64>) -> Result<u64>) {
        // SAFETY: the caller's promise; the array is not null where it brings ids.
        let user_id = self.user_ids.then(|| unsafe { self.handles.add(index).read() });
        let result = insert(self.av, user_id);
        self.failure = result.err();
        self.inserted += usize::from(result.is_ok());
        if !self.handles.is_null() {
            // SAFETY: the caller's promise.
            unsafe { self.handles.add(index).write(result.unwrap_or(ADDR_UNSPEC)) };
        }
        if !self.errors.is_null() {
            // SAFETY: the caller's promise.
            unsafe { self.errors.add(index).write(self.failure.map_or(0, Errno::get)) };
        }
        if let (Some(err), Some((eq, object))) = (self.failure, self.events) {
            let data = index as u64;
            eq.push_error(ErrorEvent { data, ..ErrorEvent::new(object, self.context, err) });
        }
    }

    /// What the call returns: the number of insertions, or 0 after an event that tells it.
    fn finish(self) -> c_int {
        let Some((eq, object)) = self.events else {
            return c_int::try_from(self.inserted).unwrap_or(c_int::MAX);
        };
        let data = self.inserted as u64;
        eq.push(Event::AvComplete(ControlEvent { object, context: self.context, data }));
        0
    }
}

/// `FI_EVENT` shares its bit with `FI_COMPLETION`.
const EVENT: Flags = Flags::COMPLETION;

fn code(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|errno| -errno.get())
}

unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the call came through a vector's table; arrays have `count` elements.
        code(unsafe { Insertion::new(av, fi_addr, flags, context) }.and_then(|mut insertion| {
            if count > 0 && addr.is_null() || c_int::try_from(count).is_err() {
                return Err(Errno::EINVAL);
            }
            let mut addresses = Addresses::new(addr.cast(), insertion.av.format());
            for index in 0..count {
                // SAFETY: the caller's array has an address for each of `count` entries.
                let address = unsafe { addresses.next() };
                // SAFETY: as for `Insertion::new`.
                unsafe { insertion.entry(index, |av, id| av.insert(address?, id)) };
            }
            Ok(insertion.finish())
        }))
    })
}

/// A name that means nothing is the call's own failure, not that of an entry.
unsafe extern "C" fn insertsvc(
    av: *mut fid_av,
    node: *const c_char,
    service: *const c_char,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the call came through a vector's table; arrays have one element.
        code(unsafe { Insertion::new(av, fi_addr, flags, context) }.and_then(|mut insertion| {
            // SAFETY: the caller passes a terminated text or null.
            let node = unsafe { text::read(node) }?;
            // SAFETY: as above.
            let service = unsafe { text::read(service) }?;
            let (node, service) = (node.as_deref(), service.as_deref());
            // SAFETY: as for `Insertion::new`.
            unsafe { insertion.entry(0, |av, id| av.insert_service(node, service, id)) };
            match insertion.failure {
                Some(errno) if insertion.events.is_none() => Err(errno),
                _ => Ok(insertion.finish()),
            }
        }))
    })
}

unsafe extern "C" fn insertsym(
    av: *mut fid_av,
    node: *const c_char,
    nodecnt: usize,
    service: *const c_char,
    svccnt: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the call came through a vector's table; arrays have an element for each pair.
        code(unsafe { Insertion::new(av, fi_addr, flags, context) }.and_then(|mut insertion| {
            // SAFETY: the caller passes a terminated text or null.
            let node = unsafe { text::read(node) }?.ok_or(Errno::EINVAL)?;
            // SAFETY: as above.
            let service = unsafe { text::read(service) }?.ok_or(Errno::EINVAL)?;
            if nodecnt.checked_mul(svccnt).and_then(|n| c_int::try_from(n).ok()).is_none() {
                return Err(Errno::EINVAL);
            }
            let names = symmetric_names(&node, nodecnt, &service, svccnt)?;
            for (index, (node, service)) in names.enumerate() {
                let insert = |av: &Av, id| av.insert_service(Some(&node), Some(&service), id);
                // SAFETY: as for `Insertion::new`.
                unsafe { insertion.entry(index, insert) };
                // A format that knows no names knows none of these.
                if index == 0 && insertion.failure == Some(Errno::ENOSYS) {
                    return Err(Errno::ENOSYS);
                }
            }
            Ok(insertion.finish())
        }))
    })
}

/// Removes all that can be removed; the first failure is the answer.
unsafe extern "C" fn remove(
    av: *mut fid_av,
    fi_addr: *mut fi_addr_t,
    count: usize,
    flags: u64,
) -> c_int {
    guard(|| {
        // SAFETY: the call came through a vector's table.
        status(unsafe { call_target::<AvObject>(av) }.and_then(|object| {
            if flags != 0 {
                return Err(Errno::EBADFLAGS);
            }
            if fi_addr.is_null() && count > 0 {
                return Err(Errno::EINVAL);
            }
            let mut answer = Ok(());
            for index in 0..count {
                // SAFETY: the caller passes `count` handles.
                let removed = object.av.remove(unsafe { fi_addr.add(index).read() });
                answer = answer.and(removed);
            }
            answer
        }))
    })
}

/// Cuts the address where the room ends; the length is that of the whole.
unsafe extern "C" fn lookup(
    av: *mut fid_av,
    fi_addr: fi_addr_t,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: the call came through a vector's table.
        status(unsafe { call_target::<AvObject>(av) }.and_then(|object| {
            let address = object.av.lookup(fi_addr)?;
            if addrlen.is_null() {
                return Err(Errno::EINVAL);
            }
            // SAFETY: not null, so it is the caller's length.
            let room = unsafe { addrlen.replace(address.len()) };
            let count = if addr.is_null() { 0 } else { room.min(address.len()) };
            // SAFETY: `count` is within the address and within the caller's room.
            unsafe { core::ptr::copy_nonoverlapping(address.as_ptr(), addr.cast::<u8>(), count) };
            Ok(())
        }))
    })
}

/// Cuts the text where the room ends; the length is that of the whole with its terminator. What is
/// no address has an empty text.
unsafe extern "C" fn straddr(
    av: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    guard(|| {
        // SAFETY: the call came through a vector's table.
        let Ok(object) = (unsafe { call_target::<AvObject>(av) }) else {
            return core::ptr::null();
        };
        if addr.is_null() || len.is_null() {
            return core::ptr::null();
        }
        // SAFETY: the caller passes one address of the vector's format.
        let address = unsafe { Addresses::new(addr.cast(), object.av.format()).next() };
        let text = address.and_then(|address| object.av.straddr(address)).unwrap_or_default();
        // SAFETY: not null, so it is the caller's length.
        let room = unsafe { len.replace(text.len() + 1) };
        if !buf.is_null() {
            // SAFETY: the caller's buffer has this room.
            unsafe { text::write(&text, buf, room) };
        }
        buf.cast_const()
    })
}

unsafe extern "C" fn set_user_id(
    av: *mut fid_av,
    fi_addr: fi_addr_t,
    user_id: fi_addr_t,
    flags: u64,
) -> c_int {
    guard(|| {
        // SAFETY: the call came through a vector's table.
        status(unsafe { call_target::<AvObject>(av) }.and_then(|object| {
            if flags != 0 {
                return Err(Errno::EBADFLAGS);
            }
            object.av.set_user_id(fi_addr, user_id)
        }))
    })
}
