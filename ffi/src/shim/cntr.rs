//! HOT. Counters: `fi_ops_cntr`.

use core::{
    ffi::{c_int, c_void},
    marker::PhantomData,
};
use std::sync::Arc;

use fabric_core::{
    Errno, Result,
    api::Endpoint,
    attr::{CntrEvents, WaitObj},
    completion::{Counter, CounterAttr},
    domain::Domain,
    log::Subsys,
};

use super::{
    no_flags,
    payload::{CntrObject, DomainObject},
    table, tell_shortage, wait,
};
use crate::{
    abi::{
        Plain,
        attr::fi_cntr_attr,
        constants::FI_CLASS_CNTR,
        fid::{fi_ops, fid, fid_cntr},
        ops::fi_ops_cntr,
    },
    object::{self, CObject, Shell, call_target, from_fid},
    panic::{guard, status},
};

impl<E: Endpoint> CObject for CntrObject<E> {
    type Head = fid_cntr;
    const CLASS: usize = FI_CLASS_CNTR;

    fn domain(&self) -> Option<&Arc<Domain>> {
        Some(self.child.domain())
    }
}

/// The tables of a counter.
struct Tables<E>(PhantomData<E>);

impl<E: Endpoint> Tables<E> {
    const FID: &fi_ops =
        &fi_ops { close: close::<E>, control: control::<E>, ..fi_ops::UNSUPPORTED };

    const OPS: &fi_ops_cntr = &fi_ops_cntr {
        read: read::<E>,
        readerr: readerr::<E>,
        add: add::<E>,
        set: set::<E>,
        wait: wait_for::<E>,
        adderr: adderr::<E>,
        seterr: seterr::<E>,
        ..fi_ops_cntr::UNSUPPORTED
    };
}

/// Opens a counter of a domain. `EINVAL` for values outside the enumerations and for wait objects
/// that are retired.
///
/// # Safety
/// `attr` points to attributes or is null.
pub(super) unsafe fn open<E: Endpoint>(
    domain: &DomainObject<E>,
    attr: *mut fi_cntr_attr,
    context: *mut c_void,
) -> Result<*mut fid_cntr> {
    // SAFETY: the caller passes attributes, whose struct never grew.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
    no_flags(attr.flags)?;
    let counter = Counter::<E>::open(&CounterAttr {
        events: CntrEvents::from_raw(attr.events).ok_or(Errno::EINVAL)?,
        wait_obj: WaitObj::from_raw(attr.wait_obj).ok_or(Errno::EINVAL)?,
    })
    .inspect_err(tell_shortage(domain.provider(), Subsys::Cntr, "fi_cntr_open"))?;
    let mut head = fid_cntr::zeroed();
    head.fid.ops = table(Tables::<E>::FID);
    head.ops = table(Tables::<E>::OPS);
    let object = CntrObject { counter, child: domain.domain.child() };
    Ok(object::open(Arc::new(object), context, head))
}

unsafe extern "C" fn close<E: Endpoint>(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<CntrObject<E>>| {
        if shell.payload()?.counter.in_use() {
            fabric_core::warn!(
                "core",
                Subsys::Cntr,
                "close: endpoints or memory regions are bound to the counter, or threads wait for it"
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
        status(unsafe { from_fid::<CntrObject<E>>(fid) }.and_then(|shell| {
            let counter = &shell.payload()?.counter;
            // SAFETY: the argument is the one that the command asks for.
            unsafe { wait::control(command, arg, counter.attr().wait_obj, || counter.wait_fd()) }
        }))
    })
}

/// Runs `f` on the counter.
///
/// # Safety
/// The call came through a counter's table.
#[inline(always)]
unsafe fn with<E: Endpoint>(
    cntr: *mut fid_cntr,
    f: impl FnOnce(&Counter<E>) -> Result<()>,
) -> c_int {
    // SAFETY: the caller's promise.
    guard(|| status(unsafe { call_target::<CntrObject<E>>(cntr) }.and_then(|o| f(&o.counter))))
}

unsafe extern "C" fn read<E: Endpoint>(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the call came through a counter's table.
    guard(|| unsafe { call_target::<CntrObject<E>>(cntr) }.map_or(0, |o| o.counter.read()))
}

unsafe extern "C" fn readerr<E: Endpoint>(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: the call came through a counter's table.
    guard(|| unsafe { call_target::<CntrObject<E>>(cntr) }.map_or(0, |o| o.counter.read_error()))
}

macro_rules! changes {
    ($($slot:ident => $method:ident),*) => {$(
        unsafe extern "C" fn $slot<E: Endpoint>(cntr: *mut fid_cntr, value: u64) -> c_int {
            // SAFETY: the call came through a counter's table.
            unsafe {
                with::<E>(cntr, |counter| {
                    counter.$method(value);
                    Ok(())
                })
            }
        }
    )*};
}

changes!(add => add, set => set, adderr => add_error, seterr => set_error);

/// `ENOSYS` for a counter without a wait object.
unsafe extern "C" fn wait_for<E: Endpoint>(
    cntr: *mut fid_cntr,
    threshold: u64,
    timeout: c_int,
) -> c_int {
    // SAFETY: the call came through a counter's table.
    unsafe {
        with::<E>(cntr, |counter| match counter.attr().wait_obj {
            WaitObj::None => Err(Errno::ENOSYS),
            _ => counter.wait(threshold, timeout),
        })
    }
}
