//! SETUP. Connection requests in the hands of C: what `fi_info.handle` points to.
//!
//! A handle lives from the read of its event until the request is answered: an endpoint is opened
//! with it, or it is rejected. Releasing the info does not release it, and neither does closing the
//! passive endpoint; at the latest it goes with the event queue that it was read from, and then the
//! peer is refused.
//!
//! Handles are found by address among those that live, so a pointer that is none is refused without
//! a look at what it points to.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, Weak},
};

use fabric_core::{
    Errno, Result,
    eq::{EventQueue, RequestHandle},
    fork::ForkSafe,
};

use crate::{
    abi::{
        Plain,
        constants::FI_CLASS_CONNREQ,
        ext::fid_connreq,
        fid::{fi_ops, fid},
        info::fi_info,
    },
    info,
    object::{self, CObject, Shell, from_fid},
};

/// A connection request behind a handle.
pub(super) struct RequestObject {
    request: RequestHandle,
    /// The passive endpoint that it came to, as events name it.
    pep: usize,
    /// The address of the queue that it was read from.
    eq: usize,
}

impl CObject for RequestObject {
    type Head = fid_connreq;
    const CLASS: usize = FI_CLASS_CONNREQ;
}

/// A passive endpoint whose address an active one can take over.
pub(super) trait Surrender: Send + Sync {
    /// What the endpoint is opened with; the same until [`Surrender::surrendered`].
    fn surrender(&self) -> Result<RequestHandle>;
    /// An endpoint has been opened with it.
    fn surrendered(&self);
}

/// What a handle stands for.
enum Meaning {
    Request(Arc<RequestObject>),
    Passive(Weak<dyn Surrender>),
}

/// An info that was shown to a reader who left its event in the queue. Whoever reads the event gets
/// the same one.
struct Peeked {
    object: Arc<RequestObject>,
    handle: usize,
    info: OwnedInfo,
}

#[derive(Default)]
struct Handles {
    /// By the address that C knows.
    meanings: BTreeMap<usize, Meaning>,
    peeked: Vec<Peeked>,
}

static HANDLES: ForkSafe<Handles> =
    ForkSafe::new(Handles { meanings: BTreeMap::new(), peeked: Vec::new() });

/// What an endpoint is to be opened with.
pub(super) struct Found {
    /// For the provider.
    pub(super) request: RequestHandle,
    handle: usize,
}

impl Found {
    /// The endpoint is open: the handle is used up.
    pub(super) fn consume(self) {
        let mut handles = lock();
        let meaning = match handles.meanings.get(&self.handle) {
            Some(Meaning::Passive(passive)) => Some(Meaning::Passive(passive.clone())),
            _ => handles.meanings.remove(&self.handle),
        };
        drop(handles);
        match meaning {
            Some(Meaning::Request(object)) => end(self.handle, object),
            Some(Meaning::Passive(passive)) => {
                if let Some(passive) = passive.upgrade() {
                    passive.surrendered();
                }
            }
            None => {}
        }
    }
}

/// What an info's handle stands for: a connection request or a passive endpoint. `EINVAL` if it is
/// neither, or no more.
pub(super) fn find(handle: *const fid) -> Result<Found> {
    let handle = handle.addr();
    let passive = match lock().meanings.get(&handle) {
        Some(Meaning::Request(object)) => {
            return Ok(Found { request: object.request.clone(), handle });
        }
        Some(Meaning::Passive(passive)) => passive.upgrade(),
        None => None,
    };
    // Without the lock: the provider is asked.
    let request = passive.ok_or(Errno::EINVAL)?.surrender()?;
    Ok(Found { request, handle })
}

/// The request behind a handle, if it came to this passive endpoint; `EINVAL` otherwise.
pub(super) fn find_request(handle: *const fid, pep: usize) -> Result<Found> {
    let handle = handle.addr();
    match lock().meanings.get(&handle) {
        Some(Meaning::Request(object)) if object.pep == pep => {
            Ok(Found { request: object.request.clone(), handle })
        }
        _ => Err(Errno::EINVAL),
    }
}

/// Makes a passive endpoint known by its address.
pub(super) fn add_passive(address: usize, passive: Weak<dyn Surrender>) {
    lock().meanings.insert(address, Meaning::Passive(passive));
}

/// A passive endpoint has been closed: of its requests, those go that nobody has read.
pub(super) fn remove_passive(address: usize) {
    let mut handles = lock();
    let known = handles.meanings.remove(&address);
    let unread = handles.take_peeked(|object| object.pep == address);
    drop(handles);
    release(|handle, _| unread.iter().any(|peeked| peeked.handle == handle));
    drop((known, unread));
}

/// An event queue has been closed: the requests read from it go.
pub(super) fn remove_eq(eq: &Arc<EventQueue>) {
    let eq = Arc::as_ptr(eq).addr();
    let unread = lock().take_peeked(|object| object.eq == eq);
    release(|_, object| object.eq == eq);
    drop(unread);
}

/// The info of a request for C, with a handle to it. `make` makes the info unless it has been shown
/// before; with `keep`, it is only shown now.
///
/// # Safety
/// `make` returns an info that nothing else refers to.
pub(super) unsafe fn hand_out(
    request: &RequestHandle,
    pep: usize,
    eq: &Arc<EventQueue>,
    keep: bool,
    make: impl FnOnce() -> Result<*mut fi_info>,
) -> Result<*mut fi_info> {
    let mut handles = lock();
    let known = |peeked: &Peeked| Arc::ptr_eq(&peeked.object.request, request);
    if let Some(at) = handles.peeked.iter().position(known) {
        return Ok(if keep {
            handles.peeked[at].info.0
        } else {
            handles.peeked.swap_remove(at).info.into_raw()
        });
    }
    drop(handles);
    let info = make()?;
    let eq = Arc::as_ptr(eq).addr();
    let object = Arc::new(RequestObject { request: request.clone(), pep, eq });
    let mut head = fid_connreq::zeroed();
    head.fid.ops = fi_ops::unsupported();
    let handle = object::open(object.clone(), core::ptr::null_mut(), head);
    // SAFETY: the caller's promise.
    unsafe { (*info).handle = handle.cast() };
    let handle = handle.expose_provenance();
    let mut handles = lock();
    handles.meanings.insert(handle, Meaning::Request(object.clone()));
    if keep {
        handles.peeked.push(Peeked { object, handle, info: OwnedInfo(info) });
    }
    Ok(info)
}

/// Takes handles back from C.
fn release(mut which: impl FnMut(usize, &RequestObject) -> bool) {
    let mut gone = Vec::new();
    lock().meanings.retain(|&handle, meaning| match meaning {
        Meaning::Request(object) if which(handle, object) => {
            gone.push((handle, object.clone()));
            false
        }
        _ => true,
    });
    gone.into_iter().for_each(|(handle, object)| end(handle, object));
}

/// Closes a handle that is not known any more. A request that nobody else holds ends, and its peer
/// is refused; the provider may queue an event then, so no lock is held.
fn end(handle: usize, object: Arc<RequestObject>) {
    let handle: *mut fid = core::ptr::with_exposed_provenance_mut(handle);
    // SAFETY: the handle is a shell of this type, which only this function closes.
    let closed = unsafe { from_fid::<RequestObject>(handle) }.and_then(Shell::retire);
    drop((closed, object));
}

impl Handles {
    /// The infos of events that leave their queue unread.
    fn take_peeked(&mut self, which: impl Fn(&RequestObject) -> bool) -> Vec<Peeked> {
        let (gone, kept) =
            core::mem::take(&mut self.peeked).into_iter().partition(|peeked| which(&peeked.object));
        self.peeked = kept;
        gone
    }
}

/// An info that is not the application's yet.
struct OwnedInfo(*mut fi_info);

// SAFETY: the info is only passed on, or released.
unsafe impl Send for OwnedInfo {}

impl OwnedInfo {
    fn into_raw(self) -> *mut fi_info {
        core::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for OwnedInfo {
    fn drop(&mut self) {
        // SAFETY: complete, from this library, and nobody else's to release.
        unsafe { info::free(self.0) };
    }
}

/// Of this process: a child can answer none of its parent's requests.
fn lock() -> MutexGuard<'static, Handles> {
    HANDLES.lock_own()
}
