//! SETUP. Open devices.

use core::ffi::{CStr, c_int};
use std::{
    fmt,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    sync::{Mutex, Once, OnceLock, PoisonError},
};

use fabric_core::{
    Errno, Result,
    fork::{NotInherited, Owner},
    log::Subsys,
};

use super::{Tables, abi::*, last, returned};

/// An open device.
///
/// librdmacm opens every device for itself and wants all objects of its connections to be of that
/// opening; so that is the one that domains use ([`contexts`]), and it stays open for as long as the
/// process lives. Looking at a device is another matter ([`OwnContext`]): a device that was open when
/// the process forked is of no use to the child, and discovery often comes before a fork.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    tables: &'static Tables,
    raw: *mut ibv_context,
}

/// An asynchronous event, which has been answered to the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AsyncEvent {
    /// `IBV_EVENT_*`.
    pub(crate) number: u32,
    /// What it is about.
    pub(crate) about: About,
}

/// The subject of an asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// A port, by its number.
    Port(u8),
    /// A queue pair, by its number.
    QueuePair(u32),
    /// The device, or another kind of object.
    Other,
}

/// A device that is open as long as this lives, and so do the objects on it.
#[derive(Debug)]
pub(crate) struct OwnContext(Context);

impl OwnContext {
    /// Opens the device of this name. `ENODEV` if there is none.
    pub(crate) fn open(tables: &'static Tables, name: &str) -> Result<Self> {
        prepare_for_forks(tables);
        let ibv = &tables.ibv;
        let mut count: c_int = 0;
        // SAFETY: `count` is ours to be written.
        let list = unsafe { (ibv.ibv_get_device_list)(&raw mut count) };
        if list.is_null() {
            return Err(last());
        }
        let mut opened = Err(Errno::ENODEV);
        for at in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the library has written as many pointers as it says, to live devices.
            let device = unsafe { *list.add(at) };
            // SAFETY: as above.
            if device_name(unsafe { &*device }) == name {
                // SAFETY: as above.
                let raw = unsafe { (ibv.ibv_open_device)(device) };
                opened = if raw.is_null() { Err(last()) } else { Ok(raw) };
                break;
            }
        }
        // SAFETY: the list from above, once; open devices outlive it.
        unsafe { (ibv.ibv_free_device_list)(list) };
        opened.map(|raw| Self(Context { tables, raw }))
    }

    pub(crate) const fn get(&self) -> Context {
        self.0
    }
}

impl Drop for OwnContext {
    fn drop(&mut self) {
        // SAFETY: the device from `open`, once; its objects end before.
        let _ = unsafe { (self.0.tables.ibv.ibv_close_device)(self.0.raw) };
    }
}

/// A device's kernel name.
fn device_name(device: &ibv_device) -> String {
    let name = &device.name;
    // SAFETY: the bytes of an array, as bytes.
    let bytes = unsafe { core::slice::from_raw_parts(name.as_ptr().cast::<u8>(), name.len()) };
    let name = CStr::from_bytes_until_nul(bytes).unwrap_or_default();
    name.to_string_lossy().into_owned()
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

/// The devices as librdmacm has opened them. `ENODEV` if there are none, `EOPNOTSUPP` as [`claim`].
pub(crate) fn contexts(tables: &'static Tables) -> Result<Vec<Context>> {
    /// Descriptors of devices that children do not keep.
    static KEPT: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());
    claim()?;
    prepare_for_forks(tables);
    // One at a time.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
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
    for context in &contexts {
        let fd = context.command_fd();
        if !kept.contains(&fd.as_raw_fd()) {
            kept.push(fd.as_raw_fd());
            // The device stays open, and the kernel keeps memory and queues for as long as anybody has
            // it.
            std::mem::forget(NotInherited::new(fd));
        }
    }
    if contexts.is_empty() { Err(Errno::ENODEV) } else { Ok(contexts) }
}

/// Has the library keep registered pages out of children where the kernel would share them: a page that
/// its owner writes to after a fork would then be another one than the device's. Since Linux 5.12
/// children get copies of such pages, and need not be kept from them.
fn prepare_for_forks(tables: &Tables) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        if !copies_at_forks(&release) {
            // SAFETY: no arguments; nothing has been registered by this library.
            if let Err(reason) = returned(unsafe { (tables.ibv.ibv_fork_init)() }) {
                fabric_core::warn!(
                    crate::NAME,
                    Subsys::Core,
                    "ibv_fork_init: {reason}; after a fork, what devices write may be lost"
                );
            }
        }
    });
}

/// Whether a kernel of this release copies pages that a device has.
fn copies_at_forks(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= (5, 12),
        _ => false,
    }
}

/// To be called before librdmacm is used: what it has opened belongs to the process that it was opened
/// in. `EOPNOTSUPP` in a child of that, which the kernel would refuse every call.
pub(super) fn claim() -> Result<()> {
    static OWNER: OnceLock<Owner> = OnceLock::new();
    let owner = OWNER.get_or_init(Owner::here);
    if owner.is_here() {
        return Ok(());
    }
    fabric_core::warn!(
        crate::NAME,
        Subsys::Core,
        "RDMA devices were opened by process {}, of which this is a fork: open the fabric after the \
         fork, or call exec",
        owner.pid()
    );
    Err(Errno::EOPNOTSUPP)
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
        device_name(self.device())
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

    /// What the device can have fetched on demand over reliable connections (`IBV_ODP_SUPPORT_*`); zero
    /// where it has nothing fetched, and where the library or the driver is too old to say.
    pub(crate) fn on_demand(&self) -> u32 {
        let Some(query) = self.query_device_ex() else { return 0 };
        let mut attr = ibv_device_attr_ex::zeroed();
        let room = size_of::<ibv_device_attr_ex>();
        // SAFETY: an open device and as much room for the answer as is said.
        let told = unsafe { query(self.raw, core::ptr::null(), &raw mut attr, room) };
        match attr.odp_caps {
            caps if told == 0 && caps.general_caps & IBV_ODP_SUPPORT != 0 => {
                caps.per_transport_caps[0]
            }
            _ => 0,
        }
    }

    fn query_device_ex(&self) -> Option<QueryDeviceEx> {
        // SAFETY: an open device.
        if unsafe { (*self.raw).abi_compat }.addr() != usize::MAX {
            return None;
        }
        let before = core::mem::offset_of!(verbs_context, context);
        let whole: *const verbs_context = self.raw.wrapping_byte_sub(before).cast();
        // SAFETY: all ones mean that this stands before the context, as far as `sz` says.
        let size = unsafe { (&raw const (*whole).sz).read() };
        let needed =
            size_of::<verbs_context>() - core::mem::offset_of!(verbs_context, query_device_ex);
        if size < needed {
            return None;
        }
        // SAFETY: the driver has the field, and fills it before it hands out the device.
        unsafe { (&raw const (*whole).query_device_ex).read() }
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

    /// The descriptor by which the kernel knows the opening.
    pub(crate) fn command_fd(&self) -> BorrowedFd<'static> {
        // SAFETY: the device stays open.
        unsafe { BorrowedFd::borrow_raw((*self.raw).cmd_fd) }
    }

    /// The descriptor that asynchronous events come on.
    pub(crate) fn async_fd(&self) -> BorrowedFd<'static> {
        // SAFETY: the device stays open.
        unsafe { BorrowedFd::borrow_raw((*self.raw).async_fd) }
    }

    /// The next asynchronous event. Where the descriptor does not block, `EAGAIN` if there is none.
    pub(crate) fn next_async_event(&self) -> Result<AsyncEvent> {
        let mut event = ibv_async_event::zeroed();
        // SAFETY: an open device and room for the answer.
        if unsafe { (self.tables.ibv.ibv_get_async_event)(self.raw, &raw mut event) } != 0 {
            return Err(last());
        }
        let about = match event.event_type {
            IBV_EVENT_QP_FATAL..=IBV_EVENT_PATH_MIG_ERR | IBV_EVENT_QP_LAST_WQE_REACHED => {
                let qp: *const ibv_qp = event.element.cast();
                // SAFETY: these events name a queue pair, whose end waits for the answer below.
                About::QueuePair(unsafe { (*qp).qp_num })
            }
            // The port lies in the first word of what else would be an object's address.
            IBV_EVENT_PORT_ACTIVE..=IBV_EVENT_SM_CHANGE => {
                About::Port(event.element.addr() as u32 as u8)
            }
            _ => About::Other,
        };
        // SAFETY: an event that has just been taken, and is answered once.
        unsafe { (self.tables.ibv.ibv_ack_async_event)(&raw mut event) };
        Ok(AsyncEvent { number: event.event_type, about })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_copy_pages_of_devices() {
        for (release, copies) in [
            ("6.1.0-57-amd64", true),
            ("5.12.0", true),
            ("5.11.22", false),
            ("4.18.0-553.el8.x86_64", false),
            ("10.0", true),
            ("unknown", false),
        ] {
            assert_eq!(copies_at_forks(release), copies, "{release}");
        }
    }
}
