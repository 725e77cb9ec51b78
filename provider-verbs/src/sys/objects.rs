//! HOT. Protection domains, regions, completion queues and shared receive queues.

use core::ffi::c_int;
use std::{fmt, os::fd::BorrowedFd, sync::Arc};

use fabric_core::{Errno, Result, fork::NotInherited, op::IoVec};

use super::{Context, OwnContext, Pieces, RecvWork, abi::*, last, queue::recv_wr, returned};

macro_rules! opaque_debug {
    ($($name:ident),*) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.context).finish()
            }
        })*
    };
}
opaque_debug!(Pd, CompChannel);

/// A protection domain.
pub(crate) struct Pd {
    context: Context,
    raw: *mut ibv_pd,
    /// The device, where it is open for this domain alone; it is closed when the domain is gone.
    _own: Option<(NotInherited, OwnContext)>,
}

// SAFETY: calls on a domain may come from any thread; the library has locks of its own.
unsafe impl Send for Pd {}
// SAFETY: as above.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates one.
    pub(crate) fn new(context: Context) -> Result<Arc<Self>> {
        Self::allocate(context, None)
    }

    /// Allocates one on a device that is to be closed with it.
    pub(crate) fn on(own: OwnContext) -> Result<Arc<Self>> {
        let hidden = NotInherited::new(own.get().command_fd());
        Self::allocate(own.get(), Some((hidden, own)))
    }

    fn allocate(context: Context, own: Option<(NotInherited, OwnContext)>) -> Result<Arc<Self>> {
        // SAFETY: an open device.
        let raw = unsafe { (context.tables().ibv.ibv_alloc_pd)(context.raw()) };
        if raw.is_null() { Err(last()) } else { Ok(Arc::new(Self { context, raw, _own: own })) }
    }

    pub(crate) const fn context(&self) -> Context {
        self.context
    }

    pub(super) const fn raw(&self) -> *mut ibv_pd {
        self.raw
    }

    /// The largest inline data, at most `wanted`, that the device gives a queue pair of a kind
    /// (`IBV_QPT_*`) for one request of so many pieces.
    pub(crate) fn probe_inline(self: &Arc<Self>, kind: u32, wanted: u32, sge: u32) -> Result<u32> {
        let cq = Cq::new(self.context, 1, None)?;
        let ibv = &self.context.tables().ibv;
        let mut inline = wanted;
        loop {
            let mut attr = ibv_qp_init_attr::zeroed();
            (attr.send_cq, attr.recv_cq) = (cq.raw, cq.raw);
            attr.qp_type = kind;
            attr.cap = ibv_qp_cap {
                max_send_wr: 1,
                max_recv_wr: 1,
                max_send_sge: sge,
                max_recv_sge: sge,
                max_inline_data: inline,
            };
            // SAFETY: a live domain and queue; the attributes are ours.
            let qp = unsafe { (ibv.ibv_create_qp)(self.raw, &raw mut attr) };
            if !qp.is_null() {
                // SAFETY: the queue pair from above, which nobody else knows.
                returned(unsafe { (ibv.ibv_destroy_qp)(qp) })?;
                return Ok(attr.cap.max_inline_data.min(wanted));
            }
            if inline == 0 {
                return Err(last());
            }
            inline /= 2;
        }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: who has objects in the domain holds it, so there are none.
        let _ = unsafe { (self.context.tables().ibv.ibv_dealloc_pd)(self.raw) };
    }
}

/// Registered memory.
pub(crate) struct Mr {
    pd: Arc<Pd>,
    raw: *mut ibv_mr,
}

// SAFETY: a region's fields do not change, and its end may come from any thread.
unsafe impl Send for Mr {}
// SAFETY: as above.
unsafe impl Sync for Mr {}

impl Mr {
    /// Registers memory for `access` (`IBV_ACCESS_*`). The kernel refuses what is not mapped.
    ///
    /// The device may touch the memory as long as the region lives and then only as posted work and
    /// peers with the key ask it to: the application's promise (fi_mr(3)).
    pub(crate) fn new(pd: &Arc<Pd>, memory: IoVec, access: c_int) -> Result<Self> {
        let ibv = &pd.context.tables().ibv;
        // SAFETY: a live domain; the address is only a number to the library.
        let raw = unsafe { (ibv.ibv_reg_mr)(pd.raw, memory.base.cast(), memory.len, access) };
        if raw.is_null() { Err(last()) } else { Ok(Self { pd: pd.clone(), raw }) }
    }

    /// What work requests name it by.
    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: the region lives.
        unsafe { (*self.raw).lkey }
    }

    /// What peers name it by.
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: the region lives.
        unsafe { (*self.raw).rkey }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: the region from `new`, once.
        let _ = unsafe { (self.pd.context.tables().ibv.ibv_dereg_mr)(self.raw) };
    }
}

impl fmt::Debug for Mr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mr").field(&self.lkey()).finish()
    }
}

/// A descriptor that completions can be waited for on.
pub(crate) struct CompChannel {
    context: Context,
    raw: *mut ibv_comp_channel,
}

// SAFETY: calls on a channel may come from any thread.
unsafe impl Send for CompChannel {}
// SAFETY: as above.
unsafe impl Sync for CompChannel {}

impl CompChannel {
    /// Opens one that does not block.
    pub(crate) fn new(context: Context) -> Result<Arc<Self>> {
        // SAFETY: an open device.
        let raw = unsafe { (context.tables().ibv.ibv_create_comp_channel)(context.raw()) };
        if raw.is_null() {
            return Err(last());
        }
        let channel = Arc::new(Self { context, raw });
        rustix::io::ioctl_fionbio(channel.fd(), true)?;
        Ok(channel)
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as the channel lives.
        unsafe { BorrowedFd::borrow_raw((*self.raw).fd) }
    }

    /// Takes all events.
    pub(crate) fn drain(&self) {
        let ibv = &self.context.tables().ibv;
        loop {
            let mut cq: *mut ibv_cq = core::ptr::null_mut();
            let mut context = core::ptr::null_mut();
            // SAFETY: a live channel, and room for the answers.
            if unsafe { (ibv.ibv_get_cq_event)(self.raw, &raw mut cq, &raw mut context) } != 0 {
                return;
            }
            // SAFETY: an event's queue waits with its end until the event has been answered.
            unsafe { (ibv.ibv_ack_cq_events)(cq, 1) };
        }
    }
}

impl Drop for CompChannel {
    fn drop(&mut self) {
        // SAFETY: queues hold their channel, so it has none any more.
        let _ = unsafe { (self.context.tables().ibv.ibv_destroy_comp_channel)(self.raw) };
    }
}

/// A device's completion queue.
pub(crate) struct Cq {
    context: Context,
    raw: *mut ibv_cq,
    poll: PollCq,
    notify: ReqNotifyCq,
    _channel: Option<Arc<CompChannel>>,
}

// SAFETY: calls on a queue may come from any thread.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Sync for Cq {}

impl Cq {
    /// Opens one with at least so many entries.
    pub(crate) fn new(
        context: Context,
        entries: u32,
        channel: Option<&Arc<CompChannel>>,
    ) -> Result<Self> {
        let ibv = &context.tables().ibv;
        let entries = c_int::try_from(entries).map_err(|_| Errno::EINVAL)?;
        let raw_channel = channel.map_or(core::ptr::null_mut(), |channel| channel.raw);
        let null = core::ptr::null_mut();
        // SAFETY: an open device, and null or a live channel of it.
        let raw = unsafe { (ibv.ibv_create_cq)(context.raw(), entries, null, raw_channel, 0) };
        if raw.is_null() {
            return Err(last());
        }
        // SAFETY: the library fills a device's table before it hands out the device.
        let ops = unsafe { &(*(*raw).context).ops };
        let (Some(poll), Some(notify)) = (ops.poll_cq, ops.req_notify_cq) else {
            // SAFETY: the queue from above, which nobody else knows.
            let _ = unsafe { (ibv.ibv_destroy_cq)(raw) };
            return Err(Errno::EOPNOTSUPP);
        };
        Ok(Self { context, raw, poll, notify, _channel: channel.cloned() })
    }

    pub(super) const fn raw(&self) -> *mut ibv_cq {
        self.raw
    }

    /// Takes completions, as many as there are and fit. An error is the queue's own: it has
    /// overrun, or the device is gone.
    #[inline]
    pub(crate) fn poll(&self, out: &mut [ibv_wc]) -> Result<usize> {
        // SAFETY: a live queue, and room for as many entries as is said.
        let count = unsafe { (self.poll)(self.raw, out.len() as c_int, out.as_mut_ptr()) };
        match usize::try_from(count) {
            Ok(count) => Ok(count.min(out.len())),
            Err(_) => Err(Errno::EOVERRUN),
        }
    }

    /// The next completion is an event on the channel.
    pub(crate) fn arm(&self) -> Result<()> {
        // SAFETY: a live queue.
        returned(unsafe { (self.notify)(self.raw, 0) })
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: queue pairs hold what they complete in, so nothing does here any more.
        let _ = unsafe { (self.context.tables().ibv.ibv_destroy_cq)(self.raw) };
    }
}

impl fmt::Debug for Cq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cq").field(&self.context).finish()
    }
}

/// A receive queue that queue pairs share.
pub(crate) struct Srq {
    pd: Arc<Pd>,
    raw: *mut ibv_srq,
    post: PostSrqRecv,
}

// SAFETY: calls on a queue may come from any thread.
unsafe impl Send for Srq {}
// SAFETY: as above.
unsafe impl Sync for Srq {}

impl Srq {
    /// Opens one for so many receives of so many pieces.
    pub(crate) fn new(pd: &Arc<Pd>, receives: u32, pieces: u32) -> Result<Arc<Self>> {
        let ibv = &pd.context.tables().ibv;
        let mut attr = ibv_srq_init_attr::zeroed();
        attr.attr = ibv_srq_attr { max_wr: receives, max_sge: pieces, srq_limit: 0 };
        // SAFETY: a live domain; the attributes are ours.
        let raw = unsafe { (ibv.ibv_create_srq)(pd.raw, &raw mut attr) };
        if raw.is_null() {
            return Err(last());
        }
        // SAFETY: the library fills a device's table before it hands out the device.
        let Some(post) = (unsafe { (*(*raw).context).ops.post_srq_recv }) else {
            // SAFETY: the queue from above, which nobody else knows.
            let _ = unsafe { (ibv.ibv_destroy_srq)(raw) };
            return Err(Errno::EOPNOTSUPP);
        };
        Ok(Arc::new(Self { pd: pd.clone(), raw, post }))
    }

    pub(super) const fn raw(&self) -> *mut ibv_srq {
        self.raw
    }

    /// Posts a receive. `ENOMEM`: the queue is full.
    ///
    /// The device writes to the memory until the receive completes or the queue ends; whoever
    /// posts has the application's promise for that (fi_msg(3)).
    pub(crate) fn post(&self, work: &RecvWork) -> Result<()> {
        let mut pieces: Pieces = work.pieces;
        let mut wr = recv_wr(work.id, &mut pieces);
        let mut bad = core::ptr::null_mut();
        // SAFETY: a live queue; the request and its list are whole during the call.
        returned(unsafe { (self.post)(self.raw, &raw mut wr, &raw mut bad) })
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        // SAFETY: queue pairs hold what they receive from, so there are none any more.
        let _ = unsafe { (self.pd.context.tables().ibv.ibv_destroy_srq)(self.raw) };
    }
}

impl fmt::Debug for Srq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Srq").field(&self.pd).finish()
    }
}
