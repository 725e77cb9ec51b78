//! SETUP. Multicast groups: joined with the connection manager, which knows the way to them then.

use std::sync::Arc;

use fabric_core::{Errno, Result, inet::SocketAddress};

use super::{
    AddressHandle, CmEvents, CmId, Context, Pd, UdQp, abi::*, cm_abi::*, ifaddrs, returned, set,
};

/// The way to a group that has been joined.
#[derive(Clone, Copy)]
pub(crate) struct GroupWay {
    attr: ibv_ah_attr,
    /// The queue pair that stands for all of the group's.
    pub(crate) number: u32,
}

impl GroupWay {
    pub(super) const fn of(param: &rdma_ud_param) -> Self {
        Self { attr: param.ah_attr, number: param.qp_num }
    }

    /// Tells the device of it, from one of its ports.
    pub(crate) fn handle(&self, pd: &Arc<Pd>, port: u8) -> Result<AddressHandle> {
        AddressHandle::raw(pd, ibv_ah_attr { port_num: port, ..self.attr })
    }
}

impl std::fmt::Debug for GroupWay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("GroupWay").field(&self.attr.grh.dgid.0).finish()
    }
}

/// A port's membership of a group, left when this goes.
#[derive(Debug)]
pub(crate) struct Membership {
    id: CmId,
    group: SocketAddress,
}

impl Membership {
    /// Joins the group at the device's port that has the address `from`. An event that names `word`
    /// follows. `EADDRNOTAVAIL` if another port has that address.
    pub(crate) fn new(
        events: &Arc<CmEvents>,
        word: u64,
        port: (Context, u8),
        from: SocketAddress,
        group: SocketAddress,
    ) -> Result<Self> {
        let id = CmId::of_space(events, word, RDMA_PS_UDP)?;
        id.bind(from)?;
        // Openings of one device differ.
        let same =
            |(context, number): (Context, u8)| context.name() == port.0.name() && number == port.1;
        if !id.device().is_some_and(same) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let mut storage = ifaddrs::storage(group);
        let join = id.tables().cm.rdma_join_multicast;
        // SAFETY: a live identifier and an address; the context is only handed back.
        set(unsafe { join(id.raw(), (&raw mut storage).cast(), core::ptr::null_mut()) })?;
        Ok(Self { id, group })
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut storage = ifaddrs::storage(self.group);
        let leave = self.id.tables().cm.rdma_leave_multicast;
        // SAFETY: a live identifier, and the address that it has joined.
        let _ = unsafe { leave(self.id.raw(), (&raw mut storage).cast()) };
    }
}

impl UdQp {
    /// Has the queue pair take what is sent to a group.
    pub(crate) fn attach(&self, way: &GroupWay) -> Result<()> {
        let (gid, lid) = (way.attr.grh.dgid, way.attr.dlid);
        let attach = self.pd().context().tables().ibv.ibv_attach_mcast;
        // SAFETY: a live queue pair, and an identifier.
        returned(unsafe { attach(self.raw(), &raw const gid, lid) })
    }

    /// Ends that.
    pub(crate) fn detach(&self, way: &GroupWay) -> Result<()> {
        let (gid, lid) = (way.attr.grh.dgid, way.attr.dlid);
        let detach = self.pd().context().tables().ibv.ibv_detach_mcast;
        // SAFETY: as above.
        returned(unsafe { detach(self.raw(), &raw const gid, lid) })
    }
}
