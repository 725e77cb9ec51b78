//! PENDING. Multicast groups of an endpoint (`fi_join`): joined by the connection manager, whose events
//! the reader of the event queue takes in.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    os::fd::RawFd,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use fabric_core::{
    Errno, Result,
    eq::{ControlEvent, Drive, ErrorEvent, Event, EventQueue},
    flags::Flags,
    inet::SocketAddress,
    log::Subsys,
    wait::WaitSet,
};

use super::{address::DatagramAddress, watch::Watch};
use crate::{
    NAME,
    sys::{
        AddressHandle, CmEvent, CmEvents, GroupWay, Membership, Pd, Tables, UdQp,
        cm_abi::{RDMA_CM_EVENT_MULTICAST_ERROR, RDMA_CM_EVENT_MULTICAST_JOIN},
    },
};

/// The queue pair that stands for all members of a group.
pub(crate) const EVERYBODY: u32 = 0xff_ffff;

/// The kernel's own number for what is not supported, which it should not tell programs.
const ENOTSUPP: Errno = Errno::new(524);

/// The group at an address, as sockets name it: the identifier is that of an IPv6 group, or of an IPv4
/// group among those of IPv6. `EINVAL` for what is no group.
pub(crate) fn group_at(address: &DatagramAddress) -> Result<SocketAddress> {
    let ip = Ipv6Addr::from(address.gid);
    let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
    if ip.is_multicast() { Ok(SocketAddr::new(ip, 0).into()) } else { Err(Errno::EINVAL) }
}

/// The address of a group for those who join it or send there.
pub(crate) fn address_of(group: IpAddr) -> DatagramAddress {
    let gid = match group {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    DatagramAddress { gid: gid.octets(), number: EVERYBODY, ..DatagramAddress::default() }
}

/// Where messages to a group go.
#[derive(Clone, Debug)]
pub(super) struct GroupTarget {
    pub(super) way: Arc<AddressHandle>,
    pub(super) number: u32,
}

/// What a sender knows of the groups, so that it takes no lock.
#[derive(Debug, Default)]
pub(super) struct GroupTargets {
    targets: Vec<Option<GroupTarget>>,
    /// As of this generation.
    of: u64,
}

impl GroupTargets {
    /// Where messages to a group go. `EINVAL` unless it has been joined for sending.
    #[inline]
    pub(super) fn get(&mut self, groups: Option<&Groups>, number: u64) -> Result<&GroupTarget> {
        let groups = groups.ok_or(Errno::EOPNOTSUPP)?;
        let generation = groups.generation();
        if generation != self.of {
            (self.targets, self.of) = (groups.targets(), generation);
        }
        let at = usize::try_from(number).map_err(|_| Errno::EINVAL)?;
        self.targets.get(at).and_then(Option::as_ref).ok_or(Errno::EINVAL)
    }
}

/// The groups of an endpoint.
pub(crate) struct Groups {
    state: Mutex<State>,
    /// Moves with every change of what can be sent to.
    generation: AtomicU64,
    events: Arc<CmEvents>,
    /// What an event queue has one driven object for, so that the device is looked after here, too.
    watch: Arc<Watch>,
    sleep: WaitSet,
}

struct State {
    groups: Vec<Option<Group>>,
    closed: bool,
    port: u8,
    /// `None` once closed.
    qp: Option<Arc<UdQp>>,
    pd: Arc<Pd>,
}

/// One group.
struct Group {
    flags: Flags,
    address: SocketAddress,
    eq: Option<Arc<EventQueue>>,
    object: usize,
    context: usize,
    /// What can be sent to, once it has been joined.
    target: Option<GroupTarget>,
    /// What the queue pair receives from.
    attached: Option<GroupWay>,
    membership: Option<Membership>,
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = &self.lock().groups;
        f.debug_list().entries(groups.iter().flatten().map(|group| group.address)).finish()
    }
}

impl Groups {
    /// None so far, for a queue pair at a port of its device.
    pub(crate) fn new(
        tables: &'static Tables,
        pd: &Arc<Pd>,
        qp: &Arc<UdQp>,
        port: u8,
        watch: Arc<Watch>,
    ) -> Result<Arc<Self>> {
        let events = CmEvents::new(tables)?;
        let sleep = WaitSet::new()?;
        sleep.add(events.fd(), 0)?;
        sleep.add(watch.fd(), 1)?;
        let (qp, pd) = (Some(qp.clone()), pd.clone());
        Ok(Arc::new(Self {
            state: Mutex::new(State { groups: Vec::new(), closed: false, port, qp, pd }),
            generation: AtomicU64::new(0),
            events,
            watch,
            sleep,
        }))
    }

    /// A number for a group that is to be joined for sending, receiving or both.
    pub(crate) fn reserve(&self, address: SocketAddress, flags: Flags) -> Result<u64> {
        let mut state = self.lock();
        if state.closed {
            return Err(Errno::EOPBADSTATE);
        }
        let free = state.groups.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            state.groups.push(None);
            state.groups.len() - 1
        });
        state.groups[at] = Some(Group {
            flags,
            address,
            eq: None,
            object: 0,
            context: 0,
            target: None,
            attached: None,
            membership: None,
        });
        Ok(at as u64)
    }

    /// The group with a number.
    pub(crate) fn address(&self, number: u64) -> Result<SocketAddress> {
        self.lock().group(number).map(|group| group.address).ok_or(Errno::EINVAL)
    }

    /// Joins it at the port's address `from`. The outcome is an event on `eq` about `object`.
    pub(crate) fn join(
        &self,
        number: u64,
        from: SocketAddress,
        eq: Arc<EventQueue>,
        object: usize,
        context: usize,
    ) -> Result<()> {
        let mut state = self.lock();
        let port = (state.pd.context(), state.port);
        let group = state.group(number).ok_or(Errno::EINVAL)?;
        (group.eq, group.object, group.context) = (Some(eq), object, context);
        let joined = Membership::new(&self.events, number, port, from, group.address);
        group.membership = Some(joined.map_err(|reason| refused(group.address, from, reason))?);
        Ok(())
    }

    /// Leaves a group, and drops what the event queue has about it.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.lock();
        let Some(group) = state.place(number).and_then(Option::take) else { return };
        self.end(&mut state, group);
    }

    /// Leaves all groups, for good.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for group in std::mem::take(&mut state.groups).into_iter().flatten() {
            self.end(&mut state, group);
        }
        state.qp = None;
    }

    fn end(&self, state: &mut State, group: Group) {
        if let (Some(way), Some(qp)) = (&group.attached, &state.qp) {
            // Nothing is to be done about one that is gone.
            let _ = qp.detach(way);
        }
        if let Some(eq) = &group.eq {
            eq.forget(group.object);
        }
        self.changed();
    }

    /// Release: pairs with the Acquire in `generation`.
    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Changes whenever [`Groups::targets`] does.
    #[inline]
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Where messages to each group go, by their numbers.
    fn targets(&self) -> Vec<Option<GroupTarget>> {
        let target = |group: &Option<Group>| group.as_ref().and_then(|group| group.target.clone());
        self.lock().groups.iter().map(target).collect()
    }

    // A panic cannot leave the groups half changed, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_in(&self, event: &CmEvent) {
        let mut state = self.lock();
        let (pd, port, qp) = (state.pd.clone(), state.port, state.qp.clone());
        let (Some(qp), Some(group)) = (qp, state.group(event.word)) else { return };
        let outcome = match (event.kind, &event.group) {
            (RDMA_CM_EVENT_MULTICAST_JOIN, Some(way)) if event.status == 0 => {
                group.begin(way, &pd, port, &qp)
            }
            (RDMA_CM_EVENT_MULTICAST_JOIN | RDMA_CM_EVENT_MULTICAST_ERROR, _) => {
                Err(Errno::new(event.status.saturating_abs().max(1)))
            }
            _ => return,
        };
        let Some(eq) = group.eq.clone() else { return };
        let (object, context) = (group.object, group.context);
        if let Err(err) = outcome {
            let address = group.address.ip();
            fabric_core::warn!(NAME, Subsys::EpCtrl, "group {address} is not joined: {err}");
            group.target = None;
            let prov_errno = event.status;
            let error =
                ErrorEvent { object, context, data: 0, err, prov_errno, err_data: [].into() };
            eq.push_error(error);
        } else {
            eq.push(Event::JoinComplete(ControlEvent { object, context, data: 0 }));
        }
        self.changed();
    }
}

/// What is told of a group that cannot be joined.
fn refused(group: SocketAddress, from: SocketAddress, reason: Errno) -> Errno {
    let (ip, at) = (group.ip(), from.ip());
    if reason != ENOTSUPP {
        fabric_core::warn!(NAME, Subsys::EpCtrl, "join {ip} at {at}: {reason}");
        return reason;
    }
    fabric_core::warn!(
        NAME,
        Subsys::EpCtrl,
        "join {ip} at {at}: the kernel does not join such groups here; over RoCE v2 it joins those of \
         IPv4 only"
    );
    Errno::EOPNOTSUPP
}

impl State {
    fn place(&mut self, number: u64) -> Option<&mut Option<Group>> {
        self.groups.get_mut(usize::try_from(number).ok()?)
    }

    fn group(&mut self, number: u64) -> Option<&mut Group> {
        self.place(number)?.as_mut()
    }
}

impl Group {
    /// Begins to send and receive, as it was asked to.
    fn begin(&mut self, way: &GroupWay, pd: &Arc<Pd>, port: u8, qp: &UdQp) -> Result<()> {
        if self.flags.contains(Flags::RECV) {
            qp.attach(way)?;
            self.attached = Some(*way);
        }
        if self.flags.contains(Flags::SEND) {
            let handle = Arc::new(way.handle(pd, port)?);
            self.target = Some(GroupTarget { way: handle, number: way.number });
        }
        Ok(())
    }
}

impl Drive for Groups {
    fn drive(&self) {
        self.watch.look();
        while let Ok(event) = self.events.next() {
            self.take_in(&event);
        }
    }

    fn arm(&self) -> Result<bool> {
        self.watch.arm()
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Ok(self.sleep.raw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_by_address() {
        for (text, is) in
            [("224.1.2.3", true), ("ff0e::7", true), ("10.0.0.1", false), ("::1", false)]
        {
            let ip: IpAddr = text.parse().unwrap();
            let address = address_of(ip);
            let told = group_at(&address);
            assert_eq!(told.map(|group| group.ip()), if is { Ok(ip) } else { Err(Errno::EINVAL) });
            assert_eq!(address.number, EVERYBODY);
        }
    }
}
