//! HOT. Queue pairs for datagrams, and the ways to peers.

use core::ffi::c_int;
use std::{fmt, sync::Arc};

use fabric_core::{Errno, Result};

use super::{
    Context, Cq, Pd, QpCap, RecvWork, SendWork,
    abi::*,
    last,
    queue::{recv_wr, send_wr},
    returned,
};

/// The key of the queue pairs that take datagrams of this provider's, wherever it runs.
pub(crate) const QKEY: u32 = 0x1111_1111;
/// Bytes in front of a message in a receive: the global route header, or room for it.
pub(crate) const HEADER: usize = 40;
/// Routers on the way, at most.
const HOPS: u8 = 64;

/// Where a datagram goes, as the network has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The peer's port, if it is named by its global identifier.
    pub(crate) gid: Option<[u8; 16]>,
    /// The entry of the own table that goes with it.
    pub(crate) own: u8,
    /// The peer's port as InfiniBand's subnet names it.
    pub(crate) lid: u16,
    /// The service level.
    pub(crate) level: u8,
    /// The own port.
    pub(crate) port: u8,
}

/// A way that the device knows.
pub(crate) struct AddressHandle {
    raw: *mut ibv_ah,
    /// Outlives it.
    pd: Arc<Pd>,
}

// SAFETY: calls on a handle may come from any thread.
unsafe impl Send for AddressHandle {}
// SAFETY: as above.
unsafe impl Sync for AddressHandle {}

impl AddressHandle {
    /// Tells the device of a way. Where there is none, the error is the kernel's.
    pub(crate) fn new(pd: &Arc<Pd>, way: &Way) -> Result<Self> {
        let mut attr = ibv_ah_attr::zeroed();
        (attr.dlid, attr.sl, attr.port_num) = (way.lid, way.level, way.port);
        if let Some(gid) = way.gid {
            attr.is_global = 1;
            attr.grh.dgid = ibv_gid(gid);
            (attr.grh.sgid_index, attr.grh.hop_limit) = (way.own, HOPS);
        }
        Self::raw(pd, attr)
    }

    pub(super) fn raw(pd: &Arc<Pd>, mut attr: ibv_ah_attr) -> Result<Self> {
        let ibv = &pd.context().tables().ibv;
        // SAFETY: a live domain; the attributes are ours.
        let raw = unsafe { (ibv.ibv_create_ah)(pd.raw(), &raw mut attr) };
        if raw.is_null() { Err(last()) } else { Ok(Self { raw, pd: pd.clone() }) }
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: the handle from `new`, once; requests hold what they name until they have ended.
        let _ = unsafe { (self.pd.context().tables().ibv.ibv_destroy_ah)(self.raw) };
    }
}

impl fmt::Debug for AddressHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AddressHandle").field(&self.raw).finish()
    }
}

/// A queue pair for datagrams.
pub(crate) struct UdQp {
    raw: *mut ibv_qp,
    post_send: PostSend,
    post_recv: PostRecv,
    port: u8,
    /// The place of its partition's key.
    partition: u16,
    /// Where both sides complete; outlives it, and ends before the domain.
    cq: Cq,
    pd: Arc<Pd>,
}

// SAFETY: calls on a queue pair may come from any thread.
unsafe impl Send for UdQp {}
// SAFETY: as above.
unsafe impl Sync for UdQp {}

impl UdQp {
    /// Makes one that completes in `cq`, at a port of the device, in the partition whose key is at a
    /// place of the port's table. It takes no work yet.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        cq: Cq,
        (port, partition): (u8, u16),
        cap: &QpCap,
    ) -> Result<Self> {
        let mut attr = ibv_qp_init_attr::zeroed();
        (attr.send_cq, attr.recv_cq) = (cq.raw(), cq.raw());
        attr.qp_type = IBV_QPT_UD;
        attr.cap = cap.raw();
        let ibv = &pd.context().tables().ibv;
        // SAFETY: a live domain and queue of one device; the attributes are ours.
        let raw = unsafe { (ibv.ibv_create_qp)(pd.raw(), &raw mut attr) };
        if raw.is_null() {
            return Err(last());
        }
        // SAFETY: the library fills a device's table before it hands out the device.
        let ops = unsafe { &(*(*raw).context).ops };
        let (Some(post_send), Some(post_recv)) = (ops.post_send, ops.post_recv) else {
            // SAFETY: the queue pair from above, which nobody else knows.
            let _ = unsafe { (ibv.ibv_destroy_qp)(raw) };
            return Err(Errno::EOPNOTSUPP);
        };
        Ok(Self { raw, post_send, post_recv, port, partition, cq, pd: pd.clone() })
    }

    pub(super) const fn raw(&self) -> *mut ibv_qp {
        self.raw
    }

    pub(super) const fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Where it completes.
    pub(crate) const fn cq(&self) -> &Cq {
        &self.cq
    }

    /// The number that peers name it by.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: the queue pair lives.
        unsafe { (*self.raw).qp_num }
    }

    /// Forgets all work, of which nothing completes any more.
    pub(crate) fn reset(&self) -> Result<()> {
        self.modify(IBV_QPS_RESET, |_| 0)
    }

    /// From the beginning, or after [`UdQp::reset`], to where it sends and receives.
    pub(crate) fn start(&self) -> Result<()> {
        self.modify(IBV_QPS_INIT, |attr| {
            (attr.port_num, attr.qkey, attr.pkey_index) = (self.port, QKEY, self.partition);
            IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY
        })?;
        self.modify(IBV_QPS_RTR, |_| 0)?;
        self.modify(IBV_QPS_RTS, |_| IBV_QP_SQ_PSN)
    }

    /// `with` fills in what goes along, and says what that is.
    fn modify(&self, state: u32, with: impl FnOnce(&mut ibv_qp_attr) -> c_int) -> Result<()> {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = state;
        let mask = IBV_QP_STATE | with(&mut attr);
        let ibv = &self.pd.context().tables().ibv;
        // SAFETY: a live queue pair; the attributes are ours.
        returned(unsafe { (ibv.ibv_modify_qp)(self.raw, &raw mut attr, mask) })
    }

    /// Posts a message to queue pair `number` on a way. `ENOMEM`: the queue is full.
    ///
    /// The device uses the memory until the request has completed or the queue pair ends; whoever
    /// posts has the application's promise for that (fi_msg(3)), and holds the way meanwhile.
    #[inline]
    pub(crate) fn post_send(
        &self,
        work: &SendWork,
        way: &AddressHandle,
        number: u32,
    ) -> Result<()> {
        let mut pieces = work.pieces;
        let mut wr = send_wr(work, &mut pieces);
        let ud = ibv_wr_ud { ah: way.raw, remote_qpn: number, remote_qkey: QKEY };
        wr.wr = ibv_wr_target { ud };
        let mut bad = core::ptr::null_mut();
        // SAFETY: a live queue pair and way; the request and its list are whole during the call.
        returned(unsafe { (self.post_send)(self.raw, &raw mut wr, &raw mut bad) })
    }

    /// Posts a receive, as [`UdQp::post_send`].
    #[inline]
    pub(crate) fn post_recv(&self, work: &RecvWork) -> Result<()> {
        let mut pieces = work.pieces;
        let mut wr = recv_wr(work.id, &mut pieces);
        let mut bad = core::ptr::null_mut();
        // SAFETY: a live queue pair; the request and its list are whole during the call.
        returned(unsafe { (self.post_recv)(self.raw, &raw mut wr, &raw mut bad) })
    }
}

impl Drop for UdQp {
    fn drop(&mut self) {
        // SAFETY: the queue pair from `new`, once; its queue ends after it.
        let _ = unsafe { (self.pd.context().tables().ibv.ibv_destroy_qp)(self.raw) };
    }
}

impl fmt::Debug for UdQp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UdQp").field(&self.number()).finish()
    }
}

impl Context {
    /// An entry of a port's table of partition keys.
    pub(crate) fn pkey(&self, port: u8, index: u16) -> Result<u16> {
        let mut pkey = 0u16;
        let query = self.tables().ibv.ibv_query_pkey;
        // SAFETY: an open device and room for the answer.
        returned(unsafe { query(self.raw(), port, c_int::from(index), &raw mut pkey) })?;
        Ok(u16::from_be(pkey))
    }
}
