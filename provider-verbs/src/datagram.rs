//! HOT. Unreliable datagrams (`FI_EP_DGRAM`): endpoints with a queue pair for them each.

mod address;
mod engine;
mod gids;
mod groups;
mod header;
mod peers;
mod watch;

use std::{
    fmt,
    os::fd::RawFd,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use fabric_core::{
    Errno, Result,
    api::{Endpoint, NoSharedReceive},
    attr::{EpType, Info},
    av::Av,
    bindings::Bindings,
    closing::{self, Patience},
    completion::{CompletionQueue, Counter, Cq, EntryBuf},
    domain::Domain,
    engine::Stats,
    eq::{Drive, EventQueue, RequestHandle},
    flags::{Flags, Mode},
    fork::Owner,
    lock::{Access, Guarded, Lock},
    log::Subsys,
    mem::Buffers,
    op::{AtomicOp, Descs, RecvOp, RmaOp, SendOp},
    options::{self, Sizes},
};

use crate::{
    NAME,
    device::Device,
    mr,
    offer::DATAGRAM_CAPS,
    sys::{OwnContext, Pd, tables},
};
pub(crate) use address::LEN as ADDRESS_LEN;
pub use address::{DatagramAddress, DatagramAddresses};
use engine::{Bounds, Datagrams};
pub(crate) use groups::address_of;
use groups::{Groups, group_at};
use watch::Watch;

/// How long closing waits for what the application believes sent, which depends on no peer.
const OWED: Patience = Patience { whole: Duration::from_secs(1), stalled: Duration::from_secs(1) };
/// What tells the domains of datagrams from those of connections, behind a device's name.
const SUFFIX: &str = "-dgram";
/// Sizes of an endpoint whose info names none.
const SIZE: usize = 384;

/// The name of a device's domain of datagrams.
pub(crate) fn domain_name(device: &str) -> String {
    format!("{device}{SUFFIX}")
}

/// Opens a domain of datagrams: the device that its name says, for it alone. It needs no address.
pub fn open_datagram_domain(info: &Info) -> Result<Arc<Domain>> {
    let name = info.domain.as_ref().and_then(|domain| domain.name.as_deref());
    let name = name.and_then(device_of).ok_or(Errno::EINVAL)?;
    let device = Device::for_datagrams(name)?;
    let context = OwnContext::open(tables().map_err(|_| Errno::ENODEV)?, &device.name)?;
    let pd = Pd::on(context)?;
    let registrar = mr::Device { pd: pd.clone(), atomics: false, iwarp: false, on_demand: false };
    let domain = Domain::open_on(info, Arc::new(registrar))?;
    let watch = Watch::new(device.clone(), pd.context())?;
    domain.common(|| Ok(Arc::new(Opened { device, watch, pd })))?;
    Ok(domain)
}

/// The device whose domain of datagrams has a name, in any case.
fn device_of(domain: &str) -> Option<&str> {
    let at = domain.len().checked_sub(SUFFIX.len())?;
    let (name, suffix) = (domain.get(..at)?, domain.get(at..)?);
    suffix.eq_ignore_ascii_case(SUFFIX).then_some(name)
}

/// What the endpoints of a domain share.
#[derive(Debug)]
struct Opened {
    device: Arc<Device>,
    watch: Arc<Watch>,
    pd: Arc<Pd>,
}

/// An endpoint of datagrams.
pub struct VerbsDatagramEndpoint<L: Lock> {
    engine: L::Cell<Datagrams<L>>,
    bindings: Bindings<Self>,
    tx_flags: Flags,
    rx_flags: Flags,
    caps: Flags,
    sizes: Sizes,
    wait_fd: RawFd,
    watch: Arc<Watch>,
    /// The process that has opened it.
    owner: Owner,
}

impl<L: Lock> fmt::Debug for VerbsDatagramEndpoint<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsDatagramEndpoint").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl<L: Lock> VerbsDatagramEndpoint<L> {
    #[inline]
    fn engine(&self) -> Access<'_, L, Datagrams<L>> {
        self.engine.lock()
    }

    fn groups(&self) -> Result<Arc<Groups>> {
        self.engine().groups().cloned().ok_or(Errno::EOPNOTSUPP)
    }
}

/// What an endpoint of a device keeps to. Beyond the device's limits is `EINVAL`.
fn bounds(info: &Info, device: &Device) -> Result<(Bounds, Sizes)> {
    let inline = device.datagram_inline.ok_or(Errno::EOPNOTSUPP)? as usize;
    let limits = &device.limits;
    let (message, queue) = (limits.mtu as usize, limits.queue as usize);
    // One send of the device's is kept back.
    let (tx, cq) = (queue.saturating_sub(1), (limits.cq as usize).saturating_sub(1));
    let most = Sizes { tx, rx: queue, inject: inline, max_msg: message, atomic: 0 };
    let usual = Sizes { tx: SIZE.min(tx), rx: SIZE.min(queue), ..most };
    let sizes = Sizes::of(info, usual);
    device.offers(&[
        ("tx_attr.size", sizes.tx, most.tx),
        ("rx_attr.size", sizes.rx, most.rx),
        ("tx_attr.size and rx_attr.size", sizes.tx.saturating_add(sizes.rx), cq),
        ("tx_attr.inject_size", sizes.inject, most.inject),
        ("ep_attr.max_msg_size", sizes.max_msg, most.max_msg),
    ])?;
    let of_rx = info.rx.as_ref().map_or(Mode::empty(), |rx| rx.mode);
    let bounds = Bounds {
        sends: sizes.tx,
        receives: sizes.rx,
        pieces: limits.pieces,
        inline: sizes.inject,
        message: sizes.max_msg,
        prefixed: (info.mode | of_rx).contains(Mode::MSG_PREFIX),
        sources: info.caps.contains(Flags::SOURCE),
        groups: info.caps.contains(Flags::MULTICAST),
    };
    Ok((bounds, sizes))
}

/// Whether this kind of endpoint can be what `info` asks for, which need not come from discovery.
fn check(info: &Info) -> Result<()> {
    options::check_type(NAME, info, EpType::Dgram, "FI_EP_DGRAM")?;
    options::check_caps(NAME, info.caps, DATAGRAM_CAPS)
}

impl<L: Lock> Endpoint for VerbsDatagramEndpoint<L> {
    type Lock = L;
    type SharedReceive = NoSharedReceive;

    const AUTONOMOUS: bool = true;
    const GROUPS: bool = true;

    fn open(
        domain: &Arc<Domain>,
        info: &Info,
        request: Option<&RequestHandle>,
        _context: usize,
    ) -> Result<Arc<Self>> {
        if request.is_some() {
            return Err(Errno::EINVAL);
        }
        check(info)?;
        let opened: Arc<Opened> = domain.common(|| Err(Errno::EINVAL))?;
        let (bounds, sizes) = bounds(info, &opened.device)?;
        let Opened { device, watch, pd } = &*opened;
        let mut engine = Datagrams::new(device.clone(), pd.clone(), watch.clone(), bounds)?;
        if let Some(own) = DatagramAddress::read(&info.src_addr) {
            engine.set_service(own.service);
        }
        let (tx, rx) = (info.tx.as_ref(), info.rx.as_ref());
        Ok(Arc::new(Self {
            wait_fd: engine.wait_fd(),
            watch: watch.clone(),
            engine: Guarded::new(engine),
            bindings: Bindings::new(domain),
            tx_flags: tx.map_or(Flags::empty(), |tx| tx.op_flags),
            rx_flags: rx.map_or(Flags::empty(), |rx| rx.op_flags),
            caps: info.caps,
            sizes,
            owner: Owner::here(),
        }))
    }

    fn introduce(&self, object: usize) {
        self.engine().place.introduce(object);
    }

    fn bind_av(self: &Arc<Self>, av: &Arc<Av>) -> Result<()> {
        self.bindings.bind_av(av)
    }

    fn bind_cq(self: &Arc<Self>, cq: &Arc<Cq<Self>>, flags: Flags) -> Result<()> {
        self.bindings.bind_cq(self, cq, flags)
    }

    fn bind_counter(self: &Arc<Self>, counter: &Arc<Counter<Self>>, flags: Flags) -> Result<()> {
        let count = |value: &_, flags| self.engine().report.bind_counter(value, flags);
        self.bindings.bind_counter(self, counter, flags, count)
    }

    fn bind_eq(self: &Arc<Self>, eq: &Arc<EventQueue>) -> Result<()> {
        match self.engine().groups() {
            Some(groups) => {
                let joining: Weak<dyn Drive> = Arc::<Groups>::downgrade(groups);
                self.bindings.bind_driving_eq(eq, joining)
            }
            None => {
                let watch: Weak<dyn Drive> = Arc::<Watch>::downgrade(&self.watch);
                self.bindings.bind_driving_eq(eq, watch)
            }
        }
    }

    fn enable(self: &Arc<Self>) -> Result<()> {
        let counts = |direction| self.engine().report.counts(direction);
        let eq = self.bindings.eq().ok();
        self.bindings.enable(self, self.caps, true, counts, |start| {
            let mut engine = self.engine();
            let av = start.av.cloned();
            start.apply(&mut engine.report);
            engine.place.set_eq(eq);
            engine.enable(av)
        })
    }

    fn close(self: &Arc<Self>) {
        if self.owner.abandons(self) || !self.bindings.stop(self) {
            return;
        }
        let mut engine = self.engine();
        engine.post_end();
        let begin = Instant::now();
        closing::settle(engine.owes(), begin, OWED, || {
            engine.progress();
            engine.owes()
        });
        engine.close();
        drop(engine);
        self.bindings.release();
    }

    fn reserve_group(&self, address: &[u8], flags: Flags) -> Result<u64> {
        self.bindings.eq()?;
        let address = DatagramAddress::read(address).ok_or(Errno::EINVAL)?;
        let group = group_at(&address).inspect_err(|_| {
            fabric_core::warn!(NAME, Subsys::EpCtrl, "join: {address} is no multicast group");
        })?;
        let ways = Flags::SEND | Flags::RECV;
        let wanted = if flags.is_empty() { self.caps & ways } else { flags };
        if !(self.caps & ways).contains(wanted) {
            return Err(Errno::EINVAL);
        }
        self.groups()?.reserve(group, wanted)
    }

    fn join(&self, group: u64, object: usize, context: usize) -> Result<()> {
        let groups = self.groups()?;
        let like = groups.address(group)?;
        let device = self.bindings.domain().common::<Opened>(|| Err(Errno::EINVAL))?.device.clone();
        let from = device.address(&like).ok_or_else(|| {
            let name = &device.name;
            fabric_core::warn!(
                NAME,
                Subsys::EpCtrl,
                "join: groups are joined by the connection manager, which needs an IP address of {name}"
            );
            Errno::EADDRNOTAVAIL
        })?;
        groups.join(group, from, self.bindings.eq()?, object, context)
    }

    fn leave(&self, group: u64) {
        if let Ok(groups) = self.groups() {
            groups.leave(group);
        }
    }

    fn name(&self) -> Result<Vec<u8>> {
        Ok(self.engine().address().to_bytes().to_vec())
    }

    /// Of an address, an endpoint can choose its service: the device gives it the others.
    fn set_name(&self, name: &[u8]) -> Result<()> {
        let _open = self.bindings.not_enabled()?;
        let wanted = DatagramAddress::read(name).ok_or(Errno::EINVAL)?;
        let mut engine = self.engine();
        let own = DatagramAddress { service: wanted.service, ..engine.address() };
        if wanted != own && wanted.number != 0 {
            return Err(Errno::EADDRNOTAVAIL);
        }
        engine.set_service(wanted.service);
        Ok(())
    }

    fn option(&self, name: i32) -> Result<Vec<u8>> {
        Ok(self.sizes.option(name)?.to_ne_bytes().to_vec())
    }

    fn set_option(&self, _: i32, _: &[u8]) -> Result<()> {
        Err(Errno::ENOPROTOOPT)
    }

    fn tx_op_flags(&self) -> Flags {
        self.tx_flags
    }

    fn rx_op_flags(&self) -> Flags {
        self.rx_flags
    }

    fn atomic_limit(&self) -> usize {
        0
    }

    unsafe fn send(&self, op: &SendOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        unsafe { self.send_registered(op, Descs::NONE) }
    }

    unsafe fn recv(&self, op: &RecvOp<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        unsafe { self.recv_registered(op, Descs::NONE) }
    }

    unsafe fn rma(&self, _: &RmaOp<'_>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    #[inline]
    unsafe fn send_registered(&self, op: &SendOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        self.engine().post_send(op, &buffers, descs)
    }

    #[inline]
    unsafe fn recv_registered(&self, op: &RecvOp<'_>, descs: Descs<'_>) -> Result<()> {
        // SAFETY: this function's own contract.
        let buffers = unsafe { Buffers::new(op.iov) }?;
        self.engine().post_recv(op, &buffers, descs)
    }

    unsafe fn atomic(&self, _: &AtomicOp<'_>) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The device has all receives, and gives none back.
    fn cancel(&self, _: usize) -> Result<()> {
        if self.engine().enabled { Ok(()) } else { Err(Errno::EOPBADSTATE) }
    }

    #[inline]
    fn progress(&self) {
        self.engine().progress();
    }

    #[inline]
    fn poll(&self) -> bool {
        self.engine.pass(
            || false,
            |engine| {
                engine.progress();
                true
            },
        )
    }

    #[inline]
    fn poll_into(&self, queue: &CompletionQueue<L>, out: &mut EntryBuf) -> bool {
        let enough = || !queue.seems_empty();
        self.engine.pass(enough, |engine| {
            engine.report.divert(queue, out);
            engine.progress();
            engine.report.restore(out);
            true
        })
    }

    fn wait_fd(&self) -> Result<i32> {
        Ok(self.wait_fd)
    }

    fn arm(&self) -> Result<bool> {
        let mut engine = self.engine();
        Ok(!engine.enabled || engine.arm())
    }

    fn stats(&self) -> Stats {
        self.engine().stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_domains() {
        assert_eq!(domain_name("mlx5_0"), "mlx5_0-dgram");
        assert_eq!(device_of("MLX5_0-DGRAM"), Some("MLX5_0"));
        assert_eq!((device_of("mlx5_0"), device_of("dgram")), (None, None));
    }
}
