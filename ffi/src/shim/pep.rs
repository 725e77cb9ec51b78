//! SETUP. `struct fid_pep`: passive endpoints.

use core::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fabric_core::{
    Errno, Result,
    api::PassiveEndpoint,
    attr::Info,
    eq::{EventQueue, RequestHandle},
};

use super::{
    argument, belonging,
    cm::{self, Named},
    connreq::{self, Surrender},
    options,
    payload::{FabricObject, PepObject},
    table,
};
use crate::{
    abi::{
        Plain,
        constants::{FI_BACKLOG, FI_CLASS_PEP},
        fid::{fi_ops, fid, fid_pep},
        ops::{fi_ops_cm, fi_ops_ep},
    },
    object::{self, CObject, Shell, from_fid},
    panic::{guard, status},
};

impl<P: PassiveEndpoint> CObject for PepObject<P> {
    type Head = fid_pep;
    const CLASS: usize = FI_CLASS_PEP;
}

/// Opens a passive endpoint of type `P`.
pub fn open<P: PassiveEndpoint>(
    fabric: &Arc<FabricObject>,
    info: &Info,
    context: *mut c_void,
) -> Result<*mut fid_pep> {
    let object = Arc::new(PepObject {
        pep: P::open(info, context.addr())?,
        fabric: fabric.child(),
        eqs: Mutex::default(),
        surrendered: Mutex::default(),
    });
    let passive: Weak<dyn Surrender> = Arc::<PepObject<P>>::downgrade(&object);
    let opened = object::open(object, context, head::<P>());
    connreq::add_passive(opened.expose_provenance(), passive);
    Ok(opened)
}

fn head<P: PassiveEndpoint>() -> fid_pep {
    let ops = const {
        &fi_ops { close: close::<P>, bind: bind::<P>, control: control::<P>, ..fi_ops::UNSUPPORTED }
    };
    let ep_ops =
        const { &fi_ops_ep { getopt: getopt::<P>, setopt: setopt::<P>, ..fi_ops_ep::UNSUPPORTED } };
    let cm_ops = const {
        &fi_ops_cm {
            setname: cm::setname::<PepObject<P>>,
            getname: cm::getname::<PepObject<P>>,
            listen: listen::<P>,
            reject: reject::<P>,
            ..fi_ops_cm::UNSUPPORTED
        }
    };
    let fid = fid { ops: table(ops), ..fid::zeroed() };
    fid_pep { fid, ops: table(ep_ops), cm: table(cm_ops) }
}

impl<P: PassiveEndpoint> Named for PepObject<P> {
    fn name(&self) -> Result<Vec<u8>> {
        self.pep.name()
    }

    fn set_name(&self, name: &[u8]) -> Result<()> {
        self.pep.set_name(name)
    }
}

impl<P: PassiveEndpoint> Surrender for PepObject<P> {
    fn surrender(&self) -> Result<RequestHandle> {
        let mut surrendered = lock(&self.surrendered);
        match &*surrendered {
            Some(request) => Ok(request.clone()),
            None => Ok(surrendered.insert(self.pep.surrender()?).clone()),
        }
    }

    fn surrendered(&self) {
        let gone = lock(&self.surrendered).take();
        drop(gone);
    }
}

/// Runs `body` on the endpoint behind a `fid` that C passes.
///
/// # Safety
/// As for [`from_fid`].
unsafe fn on<P: PassiveEndpoint>(
    fid: *mut fid,
    body: impl FnOnce(&PepObject<P>) -> Result<()>,
) -> c_int {
    guard(|| {
        // SAFETY: the caller's promise.
        let shell = unsafe { from_fid::<PepObject<P>>(fid) };
        status(shell.and_then(|shell| body(shell.payload()?)))
    })
}

unsafe extern "C" fn close<P: PassiveEndpoint>(fid: *mut fid) -> c_int {
    let body = |shell: &Shell<PepObject<P>>| {
        let object = shell.retire()?;
        object.pep.close();
        let eqs: Vec<Arc<EventQueue>> = core::mem::take(&mut *lock(&object.eqs));
        eqs.iter().for_each(|eq| eq.forget(fid.addr()));
        connreq::remove_passive(fid.addr());
        Ok(())
    };
    // SAFETY: C passes null or an object that nobody else closes now.
    unsafe { object::close(fid, body) }
}

unsafe extern "C" fn bind<P: PassiveEndpoint>(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    let run = |object: &PepObject<P>| {
        // SAFETY: C passes null or an object that it does not close during the call.
        let eq = &unsafe { belonging::event_queue(&object.fabric.0, bound) }?.eq;
        if flags != 0 {
            return Err(Errno::EBADFLAGS);
        }
        object.pep.bind_eq(eq)?;
        lock(&object.eqs).push(eq.clone());
        Ok(())
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(fid, run) }
}

unsafe extern "C" fn control<P: PassiveEndpoint>(
    fid: *mut fid,
    command: c_int,
    arg: *mut c_void,
) -> c_int {
    let run = |object: &PepObject<P>| match command {
        FI_BACKLOG => {
            // SAFETY: C passes the argument of this command.
            let backlog = unsafe { argument::<c_int>(arg)?.read() };
            object.pep.set_backlog(usize::try_from(backlog).map_err(|_| Errno::EINVAL)?)
        }
        _ => Err(Errno::ENOSYS),
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(fid, run) }
}

unsafe extern "C" fn getopt<P: PassiveEndpoint>(
    fid: *mut fid,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut usize,
) -> c_int {
    // SAFETY: C passes a buffer of the length that it names.
    let run = |object: &PepObject<P>| unsafe {
        options::get(level, optval, optlen, || object.pep.option(optname))
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(fid, run) }
}

unsafe extern "C" fn setopt<P: PassiveEndpoint>(
    fid: *mut fid,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: usize,
) -> c_int {
    // SAFETY: C passes a value of this length.
    let run = |object: &PepObject<P>| unsafe {
        options::set(level, optval, optlen, |value| object.pep.set_option(optname, value))
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(fid, run) }
}

unsafe extern "C" fn listen<P: PassiveEndpoint>(pep: *mut fid_pep) -> c_int {
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(pep.cast(), |object: &PepObject<P>| object.pep.listen(pep.addr())) }
}

unsafe extern "C" fn reject<P: PassiveEndpoint>(
    pep: *mut fid_pep,
    handle: *mut fid,
    param: *const c_void,
    paramlen: usize,
) -> c_int {
    let run = |object: &PepObject<P>| {
        let found = connreq::find_request(handle, pep.addr())?;
        let limit = options::cm_data_size(|name| object.pep.option(name));
        let provider = object.fabric.0.attr.prov_name.as_deref().unwrap_or_default();
        // SAFETY: C passes data of this length.
        let data = unsafe { cm::user_data(provider, limit, param, paramlen) }?;
        object.pep.reject(&found.request, data)?;
        found.consume();
        Ok(())
    };
    // SAFETY: C passes null or an object that it does not close during the call.
    unsafe { on(pep.cast(), run) }
}

/// The guarded data are valid after every statement, so a panic elsewhere does not spoil them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
