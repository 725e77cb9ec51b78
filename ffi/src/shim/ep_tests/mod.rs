//! An endpoint that only writes down what it is asked to do, behind the real tables.

mod atomics;
mod messages;
mod objects;
mod one_sided;

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use core::ffi::c_void;

use fabric_core::{
    Errno, Result,
    api::{Endpoint, NoSharedReceive},
    attr::{DomainAttr, FabricAttr, Info, Version},
    av::Av,
    completion::{Counter, Cq},
    domain::Domain,
    engine::Stats,
    eq::{EventQueue, RequestHandle},
    flags::Flags,
    lock::SafeLock,
    op::{AtomicOp, IoVec, RecvOp, RmaOp, SendOp, TxMeta},
};

use provider_shm::ShmAddresses;

use super::{
    ep,
    payload::{DomainObject, FabricObject},
};
use crate::{
    abi::{Plain, fid::fid_ep, info::fi_info},
    provider::find,
};

/// Defaults of the mock's endpoints.
const TX_FLAGS: Flags = Flags::COMPLETION.union(Flags::DELIVERY_COMPLETE);
const RX_FLAGS: Flags = Flags::COMPLETION.union(Flags::MULTI_RECV);
const ATOMIC_LIMIT: usize = 100;
const NAME: &[u8] = b"mock://name\0";

const DEST: u64 = 7;
const CONTEXT: usize = 0x70;

#[derive(Debug, Default)]
struct Mock {
    calls: Mutex<Vec<String>>,
    refuse: Mutex<Option<Errno>>,
}

impl Mock {
    /// What was asked for since the last look.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().expect("calls"))
    }

    fn note(&self, call: &dyn Debug) -> Result<()> {
        self.calls.lock().expect("calls").push(format!("{call:?}"));
        self.refuse.lock().expect("refusal").map_or(Ok(()), Err)
    }
}

impl Endpoint for Mock {
    type Lock = SafeLock;
    type SharedReceive = NoSharedReceive;

    fn open(
        _: &Arc<Domain>,
        info: &Info,
        _: Option<&RequestHandle>,
        context: usize,
    ) -> Result<Arc<Self>> {
        assert_eq!(context, CONTEXT);
        if info.caps.contains(Flags::MULTICAST) {
            Err(Errno::EOPNOTSUPP)
        } else {
            Ok(Arc::default())
        }
    }
    fn bind_av(self: &Arc<Self>, _: &Arc<Av>) -> Result<()> {
        self.note(&"av")
    }
    fn bind_cq(self: &Arc<Self>, _: &Arc<Cq<Self>>, flags: Flags) -> Result<()> {
        self.note(&("cq", flags))
    }
    fn bind_counter(self: &Arc<Self>, _: &Arc<Counter<Self>>, flags: Flags) -> Result<()> {
        self.note(&("counter", flags))
    }
    fn bind_eq(self: &Arc<Self>, _: &Arc<EventQueue>) -> Result<()> {
        self.note(&"eq")
    }
    fn enable(self: &Arc<Self>) -> Result<()> {
        self.note(&"enable")
    }
    fn close(self: &Arc<Self>) {
        assert_eq!(self.note(&"close"), Ok(()));
    }
    fn name(&self) -> Result<Vec<u8>> {
        Ok(NAME.to_vec())
    }
    fn set_name(&self, name: &[u8]) -> Result<()> {
        self.note(&("name", name))
    }
    fn option(&self, name: i32) -> Result<Vec<u8>> {
        if name == 0 { Ok(4096usize.to_ne_bytes().to_vec()) } else { Err(Errno::ENOPROTOOPT) }
    }
    fn set_option(&self, name: i32, value: &[u8]) -> Result<()> {
        self.note(&("option", name, value))
    }
    fn tx_op_flags(&self) -> Flags {
        TX_FLAGS
    }
    fn rx_op_flags(&self) -> Flags {
        RX_FLAGS
    }
    fn atomic_limit(&self) -> usize {
        ATOMIC_LIMIT
    }
    unsafe fn send(&self, op: &SendOp<'_>) -> Result<()> {
        self.note(op)
    }
    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()> {
        self.note(op)
    }
    unsafe fn rma(&self, op: &RmaOp<'_>) -> Result<()> {
        self.note(op)
    }
    unsafe fn atomic(&self, op: &AtomicOp<'_>) -> Result<()> {
        self.note(op)
    }
    fn cancel(&self, context: usize) -> Result<()> {
        self.note(&("cancel", context))
    }
    fn progress(&self) {}
    fn wait_fd(&self) -> Result<i32> {
        Err(Errno::ENODATA)
    }
    fn stats(&self) -> Stats {
        Stats::default()
    }
    fn arm(&self) -> Result<bool> {
        Ok(true)
    }
}

/// An open endpoint as C sees it, and what is behind it.
struct Opened {
    ep: *mut fid_ep,
    mock: Arc<Mock>,
    domain: Arc<DomainObject<Mock>>,
}

impl Opened {
    fn new() -> Self {
        let domain = domain();
        let mut info = fi_info::zeroed();
        // SAFETY: the info is complete, of full size.
        let ep = unsafe { ep::open(&domain, &raw mut info, 0, context()) }.expect("endpoint");
        // SAFETY: `ep` is open and of this type.
        let shell = unsafe { crate::object::from_fid::<super::payload::EpObject<Mock>>(ep.cast()) };
        let mock = shell.and_then(|shell| shell.payload()).expect("open").ep.clone();
        Self { ep, mock, domain }
    }

    /// Checks that the call was accepted and did exactly `expected`.
    #[track_caller]
    fn did(&self, result: impl Into<i64>, expected: &dyn Debug) {
        assert_eq!(result.into(), 0);
        assert_eq!(self.mock.take(), [format!("{expected:?}")]);
    }

    /// Checks that the call was refused and did nothing.
    #[track_caller]
    fn refused(&self, result: impl Into<i64>, errno: Errno) {
        assert_eq!(result.into(), -i64::from(errno.get()));
        assert_eq!(self.mock.take(), Vec::<String>::new());
    }

    /// Closes it, as `fi_close` does.
    fn close(&self) -> i32 {
        // SAFETY: tables of open and closed objects are complete.
        unsafe { ((*(*self.ep).fid.ops).close)(self.ep.cast()) }
    }
}

fn domain() -> Arc<DomainObject<Mock>> {
    let info = Info { domain: Some(DomainAttr::default()), ..Info::default() };
    let domain = Domain::open(&info).expect("domain");
    Arc::new(DomainObject::new(domain, fabric().child(), &ShmAddresses))
}

/// A fabric of a provider whose own objects are not used.
fn fabric() -> Arc<FabricObject> {
    let objects = find("shm").and_then(|provider| provider.objects).expect("a provider");
    Arc::new(FabricObject::new(FabricAttr::default(), Version::new(2, 6), objects))
}

/// The context of every call here.
const fn context() -> *mut c_void {
    core::ptr::without_provenance_mut(CONTEXT)
}

/// A buffer that is never touched.
const fn buffer(at: usize) -> *mut c_void {
    core::ptr::without_provenance_mut(at)
}

const fn piece(at: usize, len: usize) -> IoVec {
    IoVec { base: core::ptr::without_provenance_mut(at), len }
}

/// A transmit to [`DEST`] with [`CONTEXT`].
const fn meta(flags: Flags) -> TxMeta {
    TxMeta { dest: DEST, context: CONTEXT, flags, data: 0, silent: false }
}

/// The same, carrying `data` to the target.
const fn meta_data(flags: Flags, data: u64) -> TxMeta {
    TxMeta { data, ..meta(flags.union(Flags::REMOTE_CQ_DATA)) }
}

/// A transmit of the inject family.
const fn silent() -> TxMeta {
    TxMeta { context: 0, silent: true, ..meta(TX_FLAGS) }
}

/// The same, carrying `data` to the target.
const fn silent_data(data: u64) -> TxMeta {
    TxMeta { data, flags: TX_FLAGS.union(Flags::REMOTE_CQ_DATA), ..silent() }
}

/// The result of a data call, for [`Opened::did`].
fn code(result: isize) -> i64 {
    result as i64
}
