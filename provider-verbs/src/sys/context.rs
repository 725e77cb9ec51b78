//! SETUP. Open devices.

use core::ffi::{CStr, c_int};
use std::{
    fmt,
    os::fd::BorrowedFd,
    sync::{Mutex, PoisonError},
};

use fabric_core::{Errno, Result};

use super::{Tables, abi::*, last, returned};

/// A device that is open for as long as the process lives.
///
/// librdmacm opens every device for itself and wants all objects of its connections to be of that
/// opening; so that is the one that is used for everything.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    tables: &'static Tables,
    raw: *mut ibv_context,
}

// SAFETY: the libraries' calls on a context may come from any thread (ibv_open_device(3)).
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.raw, other.raw)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.name()).finish()
    }
}

/// The devices of this host. `ENODEV` if there are none.
pub(crate) fn contexts(tables: &'static Tables) -> Result<Vec<Context>> {
    static LOCK: Mutex<()> = Mutex::new(());
    let _one_at_a_time = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let mut count: c_int = 0;
    // SAFETY: `count` is ours to be written.
    let list = unsafe { (tables.cm.rdma_get_devices)(&raw mut count) };
    if list.is_null() {
        return Err(last());
    }
    let count = usize::try_from(count).unwrap_or(0);
    // The list is never given back: with it, the devices would be closed.
    // SAFETY: the library has written as many pointers as it says.
    let raw = (0..count).map(|at| unsafe { *list.add(at) }).filter(|raw| !raw.is_null());
    let contexts: Vec<Context> = raw.map(|raw| Context { tables, raw }).collect();
    if contexts.is_empty() { Err(Errno::ENODEV) } else { Ok(contexts) }
}

impl Context {
    /// One that librdmacm has named.
    ///
    /// # Safety
    /// `raw` is a device that librdmacm has opened, and that it does not close.
    pub(super) unsafe fn from_raw(tables: &'static Tables, raw: *mut ibv_context) -> Self {
        Self { tables, raw }
    }

    pub(super) const fn raw(&self) -> *mut ibv_context {
        self.raw
    }

    pub(crate) const fn tables(&self) -> &'static Tables {
        self.tables
    }

    fn device(&self) -> &ibv_device {
        // SAFETY: contexts and their devices stay, and these fields do not change.
        unsafe { &*(*self.raw).device }
    }

    /// The kernel's name of the device.
    pub(crate) fn name(&self) -> String {
        let name = &self.device().name;
        // SAFETY: the bytes of an array, as bytes.
        let bytes = unsafe { core::slice::from_raw_parts(name.as_ptr().cast::<u8>(), name.len()) };
        let name = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Whether connections are those of iWARP.
    pub(crate) fn is_iwarp(&self) -> bool {
        self.device().transport_type == IBV_TRANSPORT_IWARP
    }

    /// What the device can do.
    pub(crate) fn attr(&self) -> Result<ibv_device_attr> {
        let mut attr = ibv_device_attr::zeroed();
        // SAFETY: an open device and room for the answer.
        returned(unsafe { (self.tables.ibv.ibv_query_device)(self.raw, &raw mut attr) })?;
        Ok(attr)
    }

    /// What one of its ports is like. The last field stays zero: it came later, and is told by
    /// another function.
    pub(crate) fn port(&self, port: u8) -> Result<ibv_port_attr> {
        let mut attr = ibv_port_attr::zeroed();
        // SAFETY: an open device and room for the answer.
        returned(unsafe { (self.tables.ibv.ibv_query_port)(self.raw, port, &raw mut attr) })?;
        Ok(attr)
    }

    /// An entry of a port's table of global identifiers.
    pub(crate) fn gid(&self, port: u8, index: u8) -> Result<[u8; 16]> {
        let mut gid = ibv_gid([0; 16]);
        let index = c_int::from(index);
        // SAFETY: an open device and room for the answer.
        returned(unsafe { (self.tables.ibv.ibv_query_gid)(self.raw, port, index, &raw mut gid) })?;
        Ok(gid.0)
    }

    /// The descriptor that asynchronous events come on.
    pub(crate) fn async_fd(&self) -> BorrowedFd<'static> {
        // SAFETY: the device stays open.
        unsafe { BorrowedFd::borrow_raw((*self.raw).async_fd) }
    }

    /// The next asynchronous event's number, and the port that it is about if it is about one. Where
    /// the descriptor does not block, `EAGAIN` if there is none.
    pub(crate) fn next_async_event(&self) -> Result<(u32, u32)> {
        let mut event = ibv_async_event::zeroed();
        // SAFETY: an open device and room for the answer.
        if unsafe { (self.tables.ibv.ibv_get_async_event)(self.raw, &raw mut event) } != 0 {
            return Err(last());
        }
        // SAFETY: an event that has just been taken, and is answered once.
        unsafe { (self.tables.ibv.ibv_ack_async_event)(&raw mut event) };
        // The port lies in the first word of what else would be an object's address.
        Ok((event.event_type, event.element.addr() as u32))
    }
}
