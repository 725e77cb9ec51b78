//! SETUP. The devices of this host, what they can do, and at which addresses they are.

use std::{fmt, net::Ipv4Addr, sync::Arc};

use fabric_core::{
    Errno, Result,
    attr::{EpType, Nic},
    discovery::Rejection,
    fork::ForkSafe,
    inet::SocketAddress,
    log::Subsys,
};

use crate::{
    NAME, nic,
    ports::{PortEntry, has_identifier, partition_of, partitions, place_of, ports},
    settings,
    sys::{
        CmEvents, CmId, Context, HostAddress, Missing, OwnContext, Pd, Tables,
        abi::{
            IBV_ATOMIC_NONE, IBV_LINK_LAYER_ETHERNET, IBV_QPT_RC, IBV_QPT_UD, ibv_device_attr,
            ibv_port_attr,
        },
        contexts, host_addresses, tables,
    },
};

/// Pieces of local memory in one request.
pub(crate) const PIECES: usize = fabric_core::mem::IOV_LIMIT;

/// A port of a device.
#[derive(Clone)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) port: u8,
    pub(crate) limits: Limits,
    /// The first half of the identifier that its fabric is named after.
    pub(crate) subnet: u64,
    /// Bytes that a datagram may carry in its request; `None` where there are no datagrams.
    pub(crate) datagram_inline: Option<u32>,
    /// What is told of the card, and of the port as it was when it was looked over.
    pub(crate) nic: Nic,
}

/// What a device can do, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) iwarp: bool,
    pub(crate) ethernet: bool,
    /// Fetching additions, and exchanges.
    pub(crate) atomics: bool,
    /// Bytes that a request may carry itself.
    pub(crate) inline: u32,
    /// Bytes of a message.
    pub(crate) message: u32,
    /// Requests of a queue.
    pub(crate) queue: u32,
    /// Pieces of a request.
    pub(crate) pieces: u32,
    /// Entries of a completion queue.
    pub(crate) cq: u32,
    /// Reads and atomic operations that a connection serves at a time.
    pub(crate) serves: u8,
    /// The same in flight.
    pub(crate) reads: u8,
    /// Receives of a shared queue.
    pub(crate) shared: u32,
    /// Pieces of one of those.
    pub(crate) shared_pieces: u32,
    pub(crate) qps: u32,
    pub(crate) cqs: u32,
    pub(crate) regions: u32,
    pub(crate) srqs: u32,
    /// What connections can have fetched on demand (`IBV_ODP_SUPPORT_*`).
    pub(crate) on_demand: u32,
    /// Multicast groups.
    pub(crate) groups: u32,
    pub(crate) mtu: u32,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {}", self.name, self.port)
    }
}

/// A device at one of its addresses.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) device: Arc<Device>,
    pub(crate) address: SocketAddress,
}

fn positive(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn byte(value: i32) -> u8 {
    u8::try_from(value.clamp(0, 255)).unwrap_or(u8::MAX)
}

impl Limits {
    pub(crate) fn of(
        iwarp: bool,
        device: &ibv_device_attr,
        port: &ibv_port_attr,
        inline: u32,
    ) -> Self {
        Self {
            iwarp,
            ethernet: port.link_layer == IBV_LINK_LAYER_ETHERNET,
            atomics: device.atomic_cap != IBV_ATOMIC_NONE,
            inline,
            // Drivers that do not say leave it zero.
            message: if port.max_msg_sz == 0 { 1 << 30 } else { port.max_msg_sz.min(1 << 31) },
            queue: positive(device.max_qp_wr),
            pieces: positive(device.max_sge.min(device.max_sge_rd.max(1))).min(PIECES as u32),
            cq: positive(device.max_cqe),
            serves: byte(device.max_qp_rd_atom),
            reads: byte(device.max_qp_init_rd_atom),
            shared: positive(device.max_srq_wr),
            shared_pieces: positive(device.max_srq_sge).min(PIECES as u32),
            qps: positive(device.max_qp),
            cqs: positive(device.max_cq),
            regions: positive(device.max_mr),
            srqs: positive(device.max_srq),
            on_demand: 0,
            groups: positive(device.max_mcast_grp),
            // The codes 1 to 5 stand for 256 to 4096.
            mtu: 128 << port.active_mtu.clamp(1, 5),
        }
    }
}

/// Every place of every device that settings leave in use. At least one, or the reason.
///
/// Devices are told from the kernel's lists, and opened only to be looked over for the first time: a
/// process that forks after discovery has none open.
pub(crate) fn places() -> Result<Vec<Place>, Box<Rejection>> {
    let (ports, tables) = at_hand()?;
    let addresses = addresses()?;
    let mut why = Vec::new();
    let mut places = Vec::new();
    for host in &addresses {
        // Devices do not loop back at addresses that mean this host to everybody.
        if !host.address.is_loopback()
            && let Some(port) = port_of(tables, &ports, host)
        {
            places.extend(place(tables, port, host, &mut why));
        }
    }
    if places.is_empty() {
        return Err(nowhere(&ports, why));
    }
    Ok(places)
}

/// Every port that is up and that settings leave in use, whose device has datagrams. At least one, or the
/// reason.
pub(crate) fn datagram_ports() -> Result<Vec<Arc<Device>>, Box<Rejection>> {
    let (ports, tables) = at_hand()?;
    let addresses = addresses()?;
    let mut why = Vec::new();
    let mut devices = Vec::new();
    for port in &ports {
        let PortEntry { device: name, number, active, .. } = port;
        let known = devices.iter().any(|known: &Arc<Device>| known.name == *name);
        if known {
            // A domain is a device's, and datagrams leave by its first port.
            continue;
        }
        if !settings::devices().accepts(name) {
            why.push(format!("{name} is left out by FI_VERBS_DEVICE_NAME"));
        } else if !is_taken(port, &addresses) {
            why.push(format!("{name} port {number} is left out by FI_VERBS_IFACE"));
        } else if !active {
            why.push(format!("{name} port {number} is down"));
        } else if let Some(reason) = left_out(name, *number) {
            why.push(reason);
        } else {
            match device(tables, name, *number) {
                Ok(device) if device.datagram_inline.is_some() => devices.push(device),
                Ok(_) => why.push(format!("{name} has no queue pairs for datagrams")),
                Err(reason) => why.push(format!("{name} port {number}: {reason}")),
            }
        }
    }
    if devices.is_empty() { Err(nowhere(&ports, why)) } else { Ok(devices) }
}

/// Why settings leave a port out for datagrams, if they do.
fn left_out(name: &str, number: u8) -> Option<String> {
    let (index, chosen) = settings::gid();
    if chosen && !has_identifier(name, number, index) {
        return Some(format!(
            "{name} port {number} has no identifier {index} (left out by FI_VERBS_GID_IDX)"
        ));
    }
    outside(name, number)
}

/// Why a port is not in the partition that a setting names, if it is not.
fn outside(name: &str, number: u8) -> Option<String> {
    let wanted = settings::pkey()?;
    let keys = partitions(name, number);
    if place_of(wanted, &keys).is_some() {
        return None;
    }
    let keys = keys.iter().filter(|key| **key != 0).map(|key| format!("{key:#06x}"));
    let keys = keys.collect::<Vec<String>>().join(", ");
    Some(format!(
        "{name} port {number} is not in partition {wanted:#06x} but in {keys} (left out by \
         FI_VERBS_PKEY)"
    ))
}

/// Why an interface is not in that partition. Connections are in their interface's.
fn interface_outside(interface: &str) -> Option<String> {
    let (wanted, own) = (settings::pkey()?, partition_of(interface)?);
    (place_of(wanted, &[own]).is_none())
        .then(|| format!("{interface} is in partition {own:#06x} (left out by FI_VERBS_PKEY)"))
}

/// Whether a port is one of those that FI_VERBS_IFACE leaves in use, by the names of its interfaces and
/// by the addresses that they may have.
fn is_taken(port: &PortEntry, addresses: &[HostAddress]) -> bool {
    let filter = settings::interfaces();
    let by_name = |name: &String| filter.accepts(name, Ipv4Addr::UNSPECIFIED.into());
    let by_address = |host: &HostAddress| {
        port.is_on(&host.interface) && filter.accepts(&host.interface, host.address.ip())
    };
    filter.is_all() || port.interfaces.iter().any(by_name) || addresses.iter().any(by_address)
}

/// The ports that the kernel lists, and the libraries.
fn at_hand() -> Result<(Vec<PortEntry>, &'static Tables), Box<Rejection>> {
    let ports = ports();
    if ports.is_empty() {
        let fix = "load the driver of an RDMA adapter, or make a soft-RoCE device: \
                   rdma link add rxe0 type rxe netdev eth0";
        return Err(refuse("devices", "no RDMA device in /sys/class/infiniband".to_owned(), fix));
    }
    Ok((ports, tables().map_err(missing)?))
}

fn addresses() -> Result<Vec<HostAddress>, Box<Rejection>> {
    host_addresses().map_err(|errno| {
        let fix = "allow AF_NETLINK sockets to the process";
        Box::new(Rejection::blind(NAME, "devices", "no list of addresses", errno, fix))
    })
}

fn missing(missing: &Missing) -> Box<Rejection> {
    let fix = "install rdma-core (Debian: libibverbs1, librdmacm1 and ibverbs-providers)";
    refuse("libraries", missing.to_string(), fix)
}

fn refuse(attribute: &'static str, offered: String, fix: &str) -> Box<Rejection> {
    let rejection = Rejection::unavailable(NAME, attribute, offered, fix);
    Box::new(Rejection { ep_type: EpType::Unspec, ..rejection })
}

/// The port that an address is at. Drivers that do not tell the kernel's lists are asked by way of the
/// connection manager, which opens the device for good.
fn port_of<'a>(
    tables: &'static Tables,
    ports: &'a [PortEntry],
    host: &HostAddress,
) -> Option<&'a PortEntry> {
    let interface = host.interface.split(':').next().unwrap_or_default();
    if let Some(port) = ports.iter().find(|port| port.is_on(interface)) {
        return Some(port);
    }
    if ports.iter().all(|port| !port.interfaces.is_empty()) {
        return None;
    }
    let id = CmId::new(&CmEvents::new(tables).ok()?, 0).ok()?;
    id.bind(host.address).ok()?;
    let (context, number) = id.device()?;
    let name = context.name();
    ports.iter().find(|port| port.device == name && port.number == number)
}

/// A port at one of its addresses, if it is to be used. `why`: what is the matter with those that
/// cannot be.
fn place(
    tables: &'static Tables,
    port: &PortEntry,
    host: &HostAddress,
    why: &mut Vec<String>,
) -> Option<Place> {
    let HostAddress { interface, address, up } = host;
    let PortEntry { device: name, number, .. } = port;
    let mut skip = |reason: String| {
        fabric_core::info!(NAME, Subsys::Core, "{reason}");
        if !why.contains(&reason) {
            why.push(reason);
        }
    };
    if !settings::devices().accepts(name) {
        skip(format!("{name} is left out by FI_VERBS_DEVICE_NAME"));
    } else if !settings::interfaces().accepts(interface, address.ip()) {
        skip(format!("{interface} of {name} is left out by FI_VERBS_IFACE"));
    } else if !up {
        skip(format!("{interface} of {name} is down"));
    } else if !port.active {
        skip(format!("{name} port {number} is down"));
    } else if let Some(reason) = outside(name, *number).or_else(|| interface_outside(interface)) {
        skip(reason);
    } else {
        match device(tables, name, *number) {
            Ok(device) => return Some(Place { device, address: *address }),
            Err(reason) => skip(format!("{name} port {number}: {reason}")),
        }
    }
    None
}

/// No device can be used: why, for each.
fn nowhere(ports: &[PortEntry], mut why: Vec<String>) -> Box<Rejection> {
    for PortEntry { device, number, active, .. } in ports {
        if !why.iter().any(|reason| reason.contains(device)) {
            let state = if *active { "has no address" } else { "is down" };
            why.push(format!("{device} port {number} {state}"));
        }
    }
    let left_out = why.iter().any(|reason| reason.contains("left out"));
    let fix = if left_out {
        "name a device or interface that is in use, or unset the variable"
    } else {
        "give the device's network interface an address, and see that its link is up and that \
         /dev/infiniband can be opened"
    };
    refuse("devices", why.join(", "), fix)
}

/// What is known of a port. Looking a device over means to open it and make objects on it, so that is
/// done once.
fn device(tables: &'static Tables, name: &str, port: u8) -> Result<Arc<Device>, String> {
    static KNOWN: ForkSafe<Vec<Arc<Device>>> = ForkSafe::new(Vec::new());
    let same = |known: &&Arc<Device>| known.name == name && known.port == port;
    if let Some(known) = KNOWN.lock().iter().find(same) {
        return Ok(known.clone());
    }
    let told = |what: &'static str| move |errno: Errno| format!("{what}: {errno}");
    let own = OwnContext::open(tables, name).map_err(told("it cannot be opened"))?;
    let context = own.get();
    let of_port = context.port(port).map_err(told("no port attributes"))?;
    let of_device = context.attr().map_err(told("no device attributes"))?;
    let inline = probe_inline(context, IBV_QPT_RC, &of_device).map_err(told("no queue pair"))?;
    let index = fabric_core::param::known::VERBS_GID_IDX.size() as u8;
    let gid = context.gid(port, index).or_else(|_| context.gid(port, 0)).unwrap_or([0; 16]);
    let subnet = gid.first_chunk::<8>().map_or(0, |half| u64::from_be_bytes(*half));
    let limits = Limits::of(context.is_iwarp(), &of_device, &of_port, inline);
    let limits = Limits { on_demand: context.on_demand(), ..limits };
    let datagram_inline = probe_inline(context, IBV_QPT_UD, &of_device).ok();
    let nic = nic::nic(name, &of_device, &of_port);
    let device = Device { name: name.to_owned(), port, limits, subnet, datagram_inline, nic };
    let mut known = KNOWN.lock();
    if let Some(known) = known.iter().find(same) {
        // Somebody else has looked at the same time.
        return Ok(known.clone());
    }
    let device = Arc::new(device);
    known.push(device.clone());
    Ok(device)
}

fn probe_inline(context: Context, kind: u32, attr: &ibv_device_attr) -> Result<u32> {
    let pd = Pd::new(context)?;
    let pieces = positive(attr.max_sge).clamp(1, PIECES as u32);
    pd.probe_inline(kind, settings::inline(), pieces)
}

impl Limits {
    /// Whether memory can be registered for these kinds of access without being pinned.
    pub(crate) const fn fetches(&self, kinds: u32) -> bool {
        self.on_demand & kinds == kinds
    }
}

impl Device {
    /// The name of the fabric that it is on.
    pub(crate) fn fabric(&self) -> String {
        if self.limits.iwarp {
            "Ethernet-iWARP".to_owned()
        } else {
            format!("IB-{:#x}", self.subnet)
        }
    }

    /// Whether an endpoint can keep to what its info asks for: attributes, what is wanted of each, and
    /// how much there can be. `EINVAL` for the first that is beyond, with a line in the log.
    pub(crate) fn offers(&self, wishes: &[(&str, usize, usize)]) -> Result<()> {
        let Some((attribute, wanted, offered)) =
            wishes.iter().find(|(_, wanted, offered)| wanted > offered)
        else {
            return Ok(());
        };
        fabric_core::warn!(
            NAME,
            Subsys::EpCtrl,
            "{attribute}: wanted {wanted}, {} offers {offered}",
            self.name
        );
        Err(Errno::EINVAL)
    }

    /// Opens it, for good.
    pub(crate) fn open(&self) -> Result<Context> {
        let contexts = contexts(tables().map_err(|_| Errno::ENODEV)?)?;
        contexts.into_iter().find(|context| context.name() == self.name).ok_or(Errno::ENODEV)
    }

    /// An address that the connection manager knows the port by, of the family of `like` if there is one.
    pub(crate) fn address(&self, like: &SocketAddress) -> Option<SocketAddress> {
        let ports = ports();
        let port =
            ports.iter().find(|port| port.device == self.name && port.number == self.port)?;
        let here = |host: &&HostAddress| {
            host.up && port.is_on(&host.interface) && !host.address.is_loopback()
        };
        let hosts = host_addresses().ok()?;
        let same = hosts.iter().filter(here).find(|host| host.address.family() == like.family());
        same.or_else(|| hosts.iter().find(here)).map(|host| host.address)
    }

    /// The device of a name, for datagrams.
    pub(crate) fn for_datagrams(name: &str) -> Result<Arc<Self>> {
        let mut devices = datagram_ports().map_err(|_| Errno::ENODEV)?.into_iter();
        devices.find(|device| device.name.eq_ignore_ascii_case(name)).ok_or(Errno::ENODEV)
    }

    /// The device of a name.
    pub(crate) fn named(name: &str) -> Result<Arc<Self>> {
        let places = places().map_err(|_| Errno::ENODEV)?;
        let mut devices = places.into_iter().map(|place| place.device);
        devices.find(|device| device.name.eq_ignore_ascii_case(name)).ok_or(Errno::ENODEV)
    }
}

#[cfg(test)]
impl Device {
    /// One with these limits, for tests.
    pub(crate) fn mock(limits: Limits) -> Self {
        let (name, nic) = ("mock0".to_owned(), Nic::default());
        Self { name, port: 1, limits, subnet: 0, datagram_inline: Some(limits.inline), nic }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_devices_says_so() {
        if !ports().is_empty() {
            return;
        }
        let error = places().unwrap_err().to_string();
        assert!(error.contains("no RDMA device") && error.contains("rdma link add"), "{error}");
    }

    #[test]
    fn libraries_that_are_missing_are_named() {
        let missing = Missing::Library { soname: "libibverbs.so.1", reason: "gone".to_owned() };
        let error = super::missing(&missing).to_string();
        assert!(error.contains("libibverbs.so.1: gone; install rdma-core"), "{error}");
    }

    #[test]
    fn limits_are_those_of_the_device() {
        let mut device = ibv_device_attr::zeroed();
        let mut port = ibv_port_attr::zeroed();
        (device.max_sge, device.max_sge_rd, device.max_qp_rd_atom) = (32, 32, 1000);
        (port.active_mtu, port.max_msg_sz) = (3, 0);
        let limits = Limits::of(false, &device, &port, 60);
        assert_eq!((limits.pieces, limits.serves, limits.inline), (4, 255, 60));
        assert_eq!((limits.mtu, limits.message, limits.atomics), (1024, 1 << 30, false));
    }
}
