//! Connections behind the real tables, between endpoints of a provider within the process.

mod lifetime;
mod mock;
mod parameters;
mod requests;
mod shared;

use std::sync::Arc;

use core::ffi::{c_int, c_void};

use fabric_core::{
    Errno,
    attr::{DomainAttr, FabricAttr, Info, Version, addr_format},
    domain::Domain,
};

use provider_shm::ShmAddresses;

use self::mock::{Listener, Peer};
use super::{
    ep, eq, fabric,
    payload::{DomainObject, FabricObject},
    pep,
};
use crate::{
    abi::{
        Plain,
        attr::fi_eq_attr,
        constants::*,
        event::{fi_eq_cm_entry, fi_eq_err_entry},
        fid::{fid, fid_ep, fid_eq, fid_fabric, fid_pep},
        info::fi_info,
    },
    info,
    object::from_fid,
    provider::{Objects, find},
};

const NULL: *mut c_void = core::ptr::null_mut();
const NONE: u64 = 0;
const EINVAL: c_int = -Errno::EINVAL.get();
const EAGAIN: c_int = -Errno::EAGAIN.get();

/// What `fi_close` does.
fn close<T>(object: *mut T) -> c_int {
    let fid = object.cast::<fid>();
    // SAFETY: objects of these tests start with a `fid` and stay readable after close.
    unsafe { ((*(*fid).ops).close)(fid) }
}

fn bind<T, B>(object: *mut T, bound: *mut B, flags: u64) -> c_int {
    let fid = object.cast::<fid>();
    // SAFETY: as for `close`.
    unsafe { ((*(*fid).ops).bind)(fid, bound.cast(), flags) }
}

fn control<T, A>(object: *mut T, command: c_int, arg: *mut A) -> c_int {
    let fid = object.cast::<fid>();
    // SAFETY: as for `close`; the argument is the command's, or null.
    unsafe { ((*(*fid).ops).control)(fid, command, arg.cast()) }
}

const fn context(n: usize) -> *mut c_void {
    core::ptr::without_provenance_mut(n)
}

/// A fabric with passive endpoints, and a domain in it.
struct World {
    fabric: *mut fid_fabric,
    domain: Option<Arc<DomainObject<Peer>>>,
}

impl World {
    fn new() -> Self {
        Self::of(Version::new(2, 6))
    }

    fn of(api_version: Version) -> Self {
        let shm = find("shm").and_then(|provider| provider.objects).expect("a provider");
        let objects = Objects { open_passive: Some(pep::open::<Listener>), ..shm };
        let name = Some("memory".to_owned());
        let attr = FabricAttr { prov_name: name.clone(), name, api_version, ..Default::default() };
        let fabric = fabric::open(attr, objects, NULL).expect("fabric");
        let info = Info { domain: Some(DomainAttr::default()), ..Info::default() };
        let core = Domain::open(&info).expect("domain");
        let shared = Self { fabric, domain: None }.object();
        let domain = DomainObject::new(core, shared.child(), &ShmAddresses);
        Self { fabric, domain: Some(Arc::new(domain)) }
    }

    fn object(&self) -> Arc<FabricObject> {
        // SAFETY: the fabric is open.
        let shell = unsafe { from_fid::<FabricObject>(self.fabric.cast()) };
        shell.and_then(|shell| shell.share()).expect("open")
    }

    fn domain(&self) -> &Arc<DomainObject<Peer>> {
        self.domain.as_ref().expect("open")
    }

    fn eq(&self, wait_obj: u32) -> *mut fid_eq {
        let mut attr = fi_eq_attr { wait_obj, ..fi_eq_attr::zeroed() };
        // SAFETY: whole attributes.
        unsafe { eq::open(&self.object(), &raw mut attr, NULL) }.expect("event queue")
    }

    fn pep(&self, name: &str) -> *mut fid_pep {
        let (mut pep, info) = (core::ptr::null_mut(), Owned::new(name));
        // SAFETY: the fabric is open, the info whole.
        let code = unsafe {
            ((*(*self.fabric).ops).passive_ep)(self.fabric, info.0, &raw mut pep, context(0xbe))
        };
        assert_eq!(code, 0);
        pep
    }

    /// A listener that reports to `eq`.
    fn listener(&self, name: &str, eq: *mut fid_eq) -> *mut fid_pep {
        let pep = self.pep(name);
        assert_eq!((bind(pep, eq, NONE), listen(pep)), (0, 0));
        pep
    }

    fn try_ep(&self, info: *mut fi_info) -> Result<*mut fid_ep, Errno> {
        // SAFETY: a complete info of full size.
        unsafe { ep::open(self.domain(), info, 0, context(0xac)) }
    }

    /// An active endpoint that reports to `eq`.
    fn ep(&self, name: &str, eq: *mut fid_eq) -> *mut fid_ep {
        let ep = self.try_ep(Owned::new(name).0).expect("endpoint");
        assert_eq!(bind(ep, eq, NONE), 0);
        ep
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(domain) = self.domain.take() {
            drop(domain);
            if !std::thread::panicking() {
                assert_eq!(close(self.fabric), 0);
            }
        }
    }
}

/// An info of C, released at the end.
struct Owned(*mut fi_info);

impl Owned {
    fn new(name: &str) -> Self {
        let info = Info {
            addr_format: addr_format::STR,
            src_addr: text(name),
            fabric: Some(FabricAttr { name: Some("memory".to_owned()), ..Default::default() }),
            ..Info::default()
        };
        Self(info::write_list([&info]).expect("memory"))
    }

    /// The handle in it.
    fn handle(&self) -> *mut fid {
        // SAFETY: a whole info.
        unsafe { (*self.0).handle }
    }

    fn with_handle<T>(self, handle: *mut T) -> Self {
        // SAFETY: a whole info.
        unsafe { (*self.0).handle = handle.cast() };
        self
    }

    fn addresses(&self) -> (&[u8], &[u8]) {
        // SAFETY: a whole info with both addresses.
        unsafe {
            let raw = &*self.0;
            (
                core::slice::from_raw_parts(raw.src_addr.cast(), raw.src_addrlen),
                core::slice::from_raw_parts(raw.dest_addr.cast(), raw.dest_addrlen),
            )
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: complete, and not used any more.
        unsafe { info::free(self.0) };
    }
}

/// An address as C passes it.
fn text(name: &str) -> Vec<u8> {
    let mut name = name.as_bytes().to_vec();
    name.push(0);
    name
}

fn listen(pep: *mut fid_pep) -> c_int {
    // SAFETY: tables of open and closed objects are complete.
    unsafe { ((*(*pep).cm).listen)(pep) }
}

fn connect(ep: *mut fid_ep, to: &str, data: &[u8]) -> c_int {
    let to = text(to);
    // SAFETY: as above; address and data are whole.
    unsafe { ((*(*ep).cm).connect)(ep, to.as_ptr().cast(), data.as_ptr().cast(), data.len()) }
}

fn accept(ep: *mut fid_ep, data: &[u8]) -> c_int {
    // SAFETY: as above; the data is whole.
    unsafe { ((*(*ep).cm).accept)(ep, data.as_ptr().cast(), data.len()) }
}

fn reject(pep: *mut fid_pep, handle: *mut fid, data: &[u8]) -> c_int {
    // SAFETY: as above; handles are looked up by address.
    unsafe { ((*(*pep).cm).reject)(pep, handle, data.as_ptr().cast(), data.len()) }
}

fn shutdown(ep: *mut fid_ep, flags: u64) -> c_int {
    // SAFETY: as above.
    unsafe { ((*(*ep).cm).shutdown)(ep, flags) }
}

/// The class of an object, open or closed.
fn class<T>(object: *mut T) -> usize {
    // SAFETY: as above.
    unsafe { (*object.cast::<fid>()).fclass }
}

/// Room for an entry and data.
#[repr(align(8))]
struct Room([u8; 512]);

impl Room {
    const fn new() -> Self {
        Self([0xee; 512])
    }

    fn entry(&self) -> fi_eq_cm_entry {
        // SAFETY: long enough and aligned.
        unsafe { self.0.as_ptr().cast::<fi_eq_cm_entry>().read() }
    }
}

/// Reads into `room` as far as `len`: the event's number, and the length or error.
fn read_into(eq: *mut fid_eq, room: &mut Room, len: usize, flags: u64) -> (u32, c_int) {
    let mut event = u32::MAX;
    let buf = room.0.as_mut_ptr().cast();
    // SAFETY: the queue is open, `len` is within the room.
    let code = unsafe { ((*(*eq).ops).read)(eq, &raw mut event, buf, len, flags) };
    (event, code as c_int)
}

/// A connection event: its object, info and data.
struct Found {
    object: *mut fid,
    info: Owned,
    data: Vec<u8>,
}

/// Reads the next event, which is `expected`.
#[track_caller]
fn read(eq: *mut fid_eq, expected: u32) -> Found {
    let mut room = Room::new();
    let (event, len) = read_into(eq, &mut room, 512, NONE);
    assert!(len >= 16, "{len}");
    assert_eq!(event, expected);
    let entry = room.entry();
    let data = room.0[16..len as usize].to_vec();
    Found { object: entry.fid, info: Owned(entry.info), data }
}

#[track_caller]
fn nothing(eq: *mut fid_eq) {
    assert_eq!(read_into(eq, &mut Room::new(), 512, NONE), (u32::MAX, EAGAIN));
}

/// Takes the error at the head of a queue: its object, number and data.
#[track_caller]
fn error(eq: *mut fid_eq) -> (*mut fid, c_int, Vec<u8>) {
    let mut entry = fi_eq_err_entry::zeroed();
    // SAFETY: the queue is open, the entry whole.
    let code = unsafe { ((*(*eq).ops).readerr)(eq, &raw mut entry, NONE) };
    assert_eq!(code, size_of::<fi_eq_err_entry>() as isize);
    let data = if entry.err_data_size == 0 {
        Vec::new()
    } else {
        // SAFETY: the library's own buffer.
        unsafe { core::slice::from_raw_parts(entry.err_data.cast::<u8>(), entry.err_data_size) }
            .to_vec()
    };
    (entry.fid, entry.err, data)
}
