//! PENDING. Connections: librdmacm's identifiers, each with at most one queue pair, and the events
//! that tell what becomes of them.

use core::ffi::{c_int, c_void};
use std::{fmt, os::fd::BorrowedFd, sync::Arc};

use fabric_core::{Errno, Result, fork::NotInherited, inet::SocketAddress};

use super::{
    Context, QpCap, QpQueues, RecvWork, SendWork, Tables,
    abi::ibv_qp,
    cm_abi::*,
    context::claim,
    group::GroupWay,
    ifaddrs::{address, storage},
    last,
    queue::Qp,
    set,
};

/// Where events of identifiers arrive.
pub(crate) struct CmEvents {
    tables: &'static Tables,
    raw: *mut rdma_event_channel,
    /// The kernel ends connections when nobody has their channel any more.
    _not_inherited: NotInherited,
}

// SAFETY: calls on a channel may come from any thread.
unsafe impl Send for CmEvents {}
// SAFETY: as above.
unsafe impl Sync for CmEvents {}

impl fmt::Debug for CmEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CmEvents")
    }
}

/// One event, which has been answered to the library.
#[derive(Debug)]
pub(crate) struct CmEvent {
    /// `RDMA_CM_EVENT_*`.
    pub(crate) kind: u32,
    /// Zero, a negative error number, or a number of the kind.
    pub(crate) status: i32,
    /// The word that the identifier was made with; of a request, that of the listener.
    pub(crate) word: u64,
    /// The identifier of a request.
    pub(crate) request: Option<CmId>,
    /// What the peer says.
    pub(crate) data: Vec<u8>,
    /// Of a request: reads and atomic operations that may be in flight to the peer, and those of the
    /// peer that are to be served.
    pub(crate) reads: (u8, u8),
    /// Of a group that has been joined: the way there.
    pub(crate) group: Option<GroupWay>,
}

impl CmEvents {
    /// Opens one that does not block.
    pub(crate) fn new(tables: &'static Tables) -> Result<Arc<Self>> {
        claim()?;
        // SAFETY: no arguments.
        let raw = unsafe { (tables.cm.rdma_create_event_channel)() };
        if raw.is_null() {
            return Err(last());
        }
        // SAFETY: open as long as the channel lives.
        let fd = unsafe { BorrowedFd::borrow_raw((*raw).fd) };
        let events = Arc::new(Self { tables, raw, _not_inherited: NotInherited::new(fd) });
        rustix::io::ioctl_fionbio(events.fd(), true)?;
        Ok(events)
    }

    /// The descriptor that is readable when there are events.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as the channel lives.
        unsafe { BorrowedFd::borrow_raw((*self.raw).fd) }
    }

    /// The next event. `EAGAIN` if there is none.
    pub(crate) fn next(self: &Arc<Self>) -> Result<CmEvent> {
        let mut raw: *mut rdma_cm_event = core::ptr::null_mut();
        // SAFETY: a live channel, and room for the answer.
        set(unsafe { (self.tables.cm.rdma_get_cm_event)(self.raw, &raw mut raw) })?;
        // SAFETY: an event is whole until it is answered.
        let event = unsafe { &*raw };
        let kind = event.event;
        let requested = kind == RDMA_CM_EVENT_CONNECT_REQUEST;
        // SAFETY: events name a live identifier; a request's listener lives, too.
        let word = unsafe { (*if requested { event.listen_id } else { event.id }).context };
        // SAFETY: the connection's arm of the union is integers and an address, whatever is there.
        let conn = unsafe { event.param.conn };
        let data = if carries_data(kind) {
            // SAFETY: these kinds of events have data of this length.
            unsafe { bytes(conn.private_data, conn.private_data_len) }
        } else {
            Vec::new()
        };
        let group = (kind == RDMA_CM_EVENT_MULTICAST_JOIN).then(|| {
            // SAFETY: this kind of event has the datagram's arm.
            GroupWay::of(unsafe { &event.param.ud })
        });
        let request = requested.then(|| CmId { events: self.clone(), raw: event.id, qp: None });
        let status = event.status;
        // SAFETY: the event from above, once.
        let _ = unsafe { (self.tables.cm.rdma_ack_cm_event)(raw) };
        let reads = (conn.initiator_depth, conn.responder_resources);
        Ok(CmEvent { kind, status, word: word.addr() as u64, request, data, reads, group })
    }
}

impl Drop for CmEvents {
    fn drop(&mut self) {
        // SAFETY: identifiers hold their channel, so it has none any more.
        unsafe { (self.tables.cm.rdma_destroy_event_channel)(self.raw) };
    }
}

const fn carries_data(kind: u32) -> bool {
    matches!(
        kind,
        RDMA_CM_EVENT_CONNECT_REQUEST | RDMA_CM_EVENT_ESTABLISHED | RDMA_CM_EVENT_REJECTED
    )
}

/// # Safety
/// `data` is null or readable for `len` bytes.
unsafe fn bytes(data: *const c_void, len: u8) -> Vec<u8> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(data.cast::<u8>(), usize::from(len)) }.to_vec()
}

/// What a connection is asked for, or accepted, with.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnParam {
    /// For the peer.
    pub(crate) data: Vec<u8>,
    /// Reads and atomic operations of the peer that are served at a time.
    pub(crate) serves: u8,
    /// Reads and atomic operations in flight at a time.
    pub(crate) reads: u8,
    /// How often an unanswered request is repeated.
    pub(crate) retries: u8,
    /// The same where the peer has no receive; 7 is without end.
    pub(crate) rnr_retries: u8,
}

impl ConnParam {
    /// Valid as long as `self` is.
    fn raw(&self) -> Result<rdma_conn_param> {
        let mut param = rdma_conn_param::zeroed();
        if !self.data.is_empty() {
            param.private_data = self.data.as_ptr().cast();
        }
        param.private_data_len = u8::try_from(self.data.len()).map_err(|_| Errno::EINVAL)?;
        param.responder_resources = self.serves;
        param.initiator_depth = self.reads;
        param.flow_control = 1;
        param.retry_count = self.retries;
        param.rnr_retry_count = self.rnr_retries;
        Ok(param)
    }
}

/// An identifier: a listener, or one end of a connection.
pub(crate) struct CmId {
    events: Arc<CmEvents>,
    raw: *mut rdma_cm_id,
    qp: Option<Qp>,
}

// SAFETY: calls on an identifier may come from any thread; `&mut` and the engine's lock keep those
// that change it apart.
unsafe impl Send for CmId {}
// SAFETY: as above.
unsafe impl Sync for CmId {}

impl fmt::Debug for CmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CmId").field("qp", &self.qp.as_ref().map(Qp::number)).finish()
    }
}

impl CmId {
    /// Makes one. Events name `word`.
    pub(crate) fn new(events: &Arc<CmEvents>, word: u64) -> Result<Self> {
        Self::of_space(events, word, RDMA_PS_TCP)
    }

    /// The same for what is no connection (`RDMA_PS_*`).
    pub(super) fn of_space(events: &Arc<CmEvents>, word: u64, space: u32) -> Result<Self> {
        let mut raw: *mut rdma_cm_id = core::ptr::null_mut();
        let word = core::ptr::without_provenance_mut(word as usize);
        let create = events.tables.cm.rdma_create_id;
        // SAFETY: a live channel, and room for the answer.
        set(unsafe { create(events.raw, &raw mut raw, word, space) })?;
        Ok(Self { events: events.clone(), raw, qp: None })
    }

    pub(super) fn tables(&self) -> &'static Tables {
        self.events.tables
    }

    pub(super) const fn raw(&self) -> *mut rdma_cm_id {
        self.raw
    }

    /// Has the identifier's events come to another channel, with another word.
    pub(crate) fn migrate(&mut self, events: &Arc<CmEvents>, word: u64) -> Result<()> {
        // SAFETY: both live.
        set(unsafe { (self.tables().cm.rdma_migrate_id)(self.raw, events.raw) })?;
        self.events = events.clone();
        // SAFETY: the word is the caller's own to change; whoever takes events in has our lock.
        unsafe { (*self.raw).context = core::ptr::without_provenance_mut(word as usize) };
        Ok(())
    }

    /// The device that it is bound to, and the port.
    pub(crate) fn device(&self) -> Option<(Context, u8)> {
        // SAFETY: the identifier lives.
        let id = unsafe { &*self.raw };
        if id.verbs.is_null() {
            return None;
        }
        // SAFETY: librdmacm has opened it, and keeps it (see `contexts`).
        Some((unsafe { Context::from_raw(self.tables(), id.verbs) }, id.port_num))
    }

    /// The local address.
    pub(crate) fn local(&self) -> Option<SocketAddress> {
        // SAFETY: the identifier lives, and the storage has room for an address of any family.
        unsafe { address((&raw const (*self.raw).route.addr.src_storage).cast()) }
    }

    /// The peer's address.
    pub(crate) fn peer(&self) -> Option<SocketAddress> {
        // SAFETY: as above.
        unsafe { address((&raw const (*self.raw).route.addr.dst_storage).cast()) }
    }

    /// Takes a local address, and with it a device unless it is a wildcard.
    pub(crate) fn bind(&self, to: SocketAddress) -> Result<()> {
        let mut storage = storage(to);
        // SAFETY: a live identifier and an address.
        set(unsafe { (self.tables().cm.rdma_bind_addr)(self.raw, (&raw mut storage).cast()) })
    }

    /// Finds out over which device the peer is reached. An event follows.
    pub(crate) fn resolve_address(
        &self,
        from: Option<SocketAddress>,
        to: SocketAddress,
        timeout_ms: i32,
    ) -> Result<()> {
        let mut from = from.map(storage);
        let from: *mut libc::sockaddr =
            from.as_mut().map_or(core::ptr::null_mut(), |from| (&raw mut *from).cast());
        let mut to = storage(to);
        let resolve = self.tables().cm.rdma_resolve_addr;
        // SAFETY: a live identifier, null or an address, and an address.
        set(unsafe { resolve(self.raw, from, (&raw mut to).cast(), timeout_ms as c_int) })
    }

    /// Finds out the way there. An event follows.
    pub(crate) fn resolve_route(&self, timeout_ms: i32) -> Result<()> {
        // SAFETY: a live identifier.
        set(unsafe { (self.tables().cm.rdma_resolve_route)(self.raw, timeout_ms as c_int) })
    }

    /// Makes the queue pair, whose receives can be posted from now on. `EDOMAIN` if the identifier
    /// is bound to another device than the queues are of.
    pub(crate) fn create_qp(&mut self, queues: &QpQueues, cap: &QpCap) -> Result<()> {
        if self.device().is_none_or(|(context, _)| context != queues.pd.context()) {
            return Err(Errno::EDOMAIN);
        }
        if self.qp.is_some() {
            return Err(Errno::EOPBADSTATE);
        }
        let mut attr = queues.init_attr(cap);
        let create = self.tables().cm.rdma_create_qp;
        // SAFETY: a live identifier and domain of one device; the queues in the attributes live.
        set(unsafe { create(self.raw, queues.pd.raw(), &raw mut attr) })?;
        // SAFETY: the library has put it there.
        let raw: *mut ibv_qp = unsafe { (*self.raw).qp };
        // SAFETY: it lives until `drop` ends it, and holds `queues` until then.
        match unsafe { Qp::new(raw, queues.clone()) } {
            Ok(qp) => {
                self.qp = Some(qp);
                Ok(())
            }
            Err(reason) => {
                // SAFETY: a live identifier with a queue pair.
                unsafe { (self.tables().cm.rdma_destroy_qp)(self.raw) };
                Err(reason)
            }
        }
    }

    /// The queue pair's number.
    pub(crate) fn qp_number(&self) -> Option<u32> {
        self.qp.as_ref().map(Qp::number)
    }

    /// How long a peer waits that has found no receive here, as the code of that time.
    pub(crate) fn set_min_rnr_timer(&self, code: u8) -> Result<()> {
        self.qp.as_ref().ok_or(Errno::ENOTCONN)?.set_min_rnr_timer(code)
    }

    /// Posts a request. `ENOMEM`: the queue is full.
    ///
    /// The device uses the memory until the request has completed or the identifier ends; whoever
    /// posts has the application's promise for that (fi_msg(3)).
    #[inline]
    pub(crate) fn post_send(&self, work: &SendWork) -> Result<()> {
        self.qp.as_ref().ok_or(Errno::ENOTCONN)?.post_send(work)
    }

    /// Posts several at once; how many the device took, and why no more.
    pub(crate) fn post_sends(&self, work: &[SendWork]) -> (usize, Result<()>) {
        match &self.qp {
            Some(qp) if !work.is_empty() => qp.post_sends(work),
            Some(_) => (0, Ok(())),
            None => (0, Err(Errno::ENOTCONN)),
        }
    }

    /// Posts a receive, as [`CmId::post_send`].
    #[inline]
    pub(crate) fn post_recv(&self, work: &RecvWork) -> Result<()> {
        self.qp.as_ref().ok_or(Errno::ENOTCONN)?.post_recv(work)
    }

    /// Waits for requests, of which so many may be unread.
    pub(crate) fn listen(&self, backlog: i32) -> Result<()> {
        // SAFETY: a live identifier.
        set(unsafe { (self.tables().cm.rdma_listen)(self.raw, backlog as c_int) })
    }

    /// Asks for a connection. An event follows.
    pub(crate) fn connect(&self, param: &ConnParam) -> Result<()> {
        let mut raw = param.raw()?;
        // SAFETY: a live identifier; the parameters are whole during the call.
        set(unsafe { (self.tables().cm.rdma_connect)(self.raw, &raw mut raw) })
    }

    /// Accepts the request that it has come with. An event follows.
    pub(crate) fn accept(&self, param: &ConnParam) -> Result<()> {
        let mut raw = param.raw()?;
        // SAFETY: a live identifier; the parameters are whole during the call.
        set(unsafe { (self.tables().cm.rdma_accept)(self.raw, &raw mut raw) })
    }

    /// Refuses the request that it has come with.
    pub(crate) fn reject(&self, data: &[u8]) -> Result<()> {
        let len = u8::try_from(data.len()).map_err(|_| Errno::EINVAL)?;
        let data = if data.is_empty() { core::ptr::null() } else { data.as_ptr().cast() };
        // SAFETY: a live identifier, and null or data of this length.
        set(unsafe { (self.tables().cm.rdma_reject)(self.raw, data, len) })
    }

    /// Ends the connection: what is posted completes as flushed, and the peer is told.
    pub(crate) fn disconnect(&self) -> Result<()> {
        // SAFETY: a live identifier.
        set(unsafe { (self.tables().cm.rdma_disconnect)(self.raw) })
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        let cm = &self.tables().cm;
        if self.qp.take().is_some() {
            // SAFETY: a live identifier with a queue pair.
            unsafe { (cm.rdma_destroy_qp)(self.raw) };
        }
        // SAFETY: the identifier, once; all of its events have been answered, and it has no queue pair.
        let _ = unsafe { (cm.rdma_destroy_id)(self.raw) };
    }
}
