//! SETUP. The ports of RDMA devices as the kernel lists them, without a device being opened.

mod netlink;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Entries of a table of identifiers without an interface after which the rest is not looked at.
const GAP: usize = 16;

const CLASS: &str = "/sys/class/infiniband";

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortEntry {
    /// The device's name.
    pub(crate) device: String,
    /// The port's number.
    pub(crate) number: u8,
    /// Its link is up.
    pub(crate) active: bool,
    /// The network interfaces over it; none where its driver does not tell.
    pub(crate) interfaces: Vec<String>,
}

impl PortEntry {
    /// Whether an interface is one of the port's.
    pub(crate) fn is_on(&self, interface: &str) -> bool {
        self.interfaces.iter().any(|own| own == interface)
    }
}

/// All ports of all devices, in order of their names.
pub(crate) fn ports() -> Vec<PortEntry> {
    let mut ports = ports_in(Path::new("/sys/class"));
    if ports.iter().any(|port| port.interfaces.is_empty()) {
        // What the kernel does not tell here either, the device has to be asked for.
        add_links(&mut ports, &netlink::links().unwrap_or_default());
    }
    ports
}

/// Interfaces of ports that have none yet.
fn add_links(ports: &mut [PortEntry], links: &[netlink::Link]) {
    for port in ports.iter_mut().filter(|port| port.interfaces.is_empty()) {
        let own = links
            .iter()
            .filter(|link| link.device == port.device && link.port == u32::from(port.number));
        port.interfaces = own.map(|link| link.interface.clone()).collect();
    }
}

fn ports_in(class: &Path) -> Vec<PortEntry> {
    let mut ports = Vec::new();
    for folder in entries(&class.join("infiniband")) {
        for port in entries(&folder.join("ports")) {
            if let (Some(device), Some(Ok(number))) =
                (name(&folder), name(&port).map(|n| n.parse()))
            {
                let active = line(&port.join("state")).is_some_and(|state| state.starts_with("4:"));
                let mut interfaces = of_identifiers(&port);
                interfaces.extend(of_adapter(class, &device, number));
                interfaces.extend(of_hardware_address(class, &port));
                interfaces.sort();
                interfaces.dedup();
                ports.push(PortEntry { device, number, active, interfaces });
            }
        }
    }
    ports
}

/// The keys of a port's partitions, by their places; zero for a place without one.
pub(crate) fn partitions(device: &str, port: u8) -> Vec<u16> {
    partitions_in(&Path::new(CLASS).join(format!("{device}/ports/{port}/pkeys")))
}

fn partitions_in(folder: &Path) -> Vec<u16> {
    let keys = (0..).map_while(|at: u16| line(&folder.join(at.to_string())));
    keys.map(|key| hex(&key).unwrap_or(0)).collect()
}

/// The key of the partition that an interface is in; `None` for those of Ethernet.
pub(crate) fn partition_of(interface: &str) -> Option<u16> {
    hex(&line(&Path::new("/sys/class/net").join(interface).join("pkey"))?)
}

/// The place of a partition's key in a port's table. Keys of full and of limited members differ in one bit;
/// the one that is wanted comes first.
pub(crate) fn place_of(wanted: u16, keys: &[u16]) -> Option<u16> {
    let same = |key: &u16| (key ^ wanted) & 0x7fff == 0;
    let exact = keys.iter().position(|key| *key == wanted);
    exact.or_else(|| keys.iter().position(same)).and_then(|at| u16::try_from(at).ok())
}

fn hex(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// Whether a port's table of global identifiers has something at a place, as far as the kernel says.
pub(crate) fn has_identifier(device: &str, port: u8, index: u8) -> bool {
    let path = Path::new(CLASS).join(format!("{device}/ports/{port}/gids/{index}"));
    line(&path).is_some_and(|gid| gid.bytes().any(|digit| digit != b'0' && digit != b':'))
}

/// The interfaces of the addresses that the port's global identifiers are made of.
fn of_identifiers(port: &Path) -> Vec<String> {
    let folder = port.join("gid_attrs/ndevs");
    let mut found = Vec::new();
    let mut gap = 0;
    for index in 0.. {
        match line(&folder.join(index.to_string())) {
            Some(interface) => {
                gap = 0;
                found.push(interface);
            }
            None if gap == GAP => break,
            None => gap += 1,
        }
    }
    found
}

/// The interfaces of the same adapter, where they name the device: InfiniBand's, and iWARP's.
fn of_adapter(class: &Path, device: &str, number: u8) -> Vec<String> {
    let mut found = Vec::new();
    for folder in entries(&class.join("net")) {
        if !folder.join("device/infiniband").join(device).exists() {
            continue;
        }
        // Counts from zero; adapters of one port leave it out.
        let port = line(&folder.join("dev_port")).and_then(|text| text.parse::<u8>().ok());
        if port.unwrap_or(0).checked_add(1) == Some(number) {
            found.extend(name(&folder));
        }
    }
    found
}

/// The interface whose hardware address an iWARP port's identifier begins with; the rest of that is zero.
fn of_hardware_address(class: &Path, port: &Path) -> Option<String> {
    let gid = line(&port.join("gids/0"))?.replace(':', "");
    let (address, rest) = gid.split_at_checked(12)?;
    if rest.bytes().any(|digit| digit != b'0') || address.bytes().all(|digit| digit == b'0') {
        return None;
    }
    let same = |folder: &PathBuf| {
        line(&folder.join("address")).is_some_and(|own| own.replace(':', "") == address)
    };
    name(entries(&class.join("net")).iter().find(|folder| same(folder))?)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(read) = folder.read_dir() else { return Vec::new() };
    let mut paths: Vec<PathBuf> = read.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is gone with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let id = std::process::id();
            let root = std::env::temp_dir().join(format!("percale-ports-{name}-{id}"));
            for (file, text) in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn keys_of_partitions() {
        for (wanted, keys, place) in [
            (0xffff, &[0xffff_u16, 0x8001][..], Some(0)),
            (0x8001, &[0xffff, 0x0001, 0x8001], Some(2)),
            (0x0001, &[0xffff, 0, 0x8001], Some(2)),
            (0x8002, &[0xffff, 0x8001], None),
            (0xffff, &[], None),
        ] {
            assert_eq!(place_of(wanted, keys), place, "{wanted:x} in {keys:x?}");
        }
        assert_eq!((hex("0x8001"), hex("ffff"), hex("")), (Some(0x8001), Some(0xffff), None));
    }

    #[test]
    fn interfaces_of_roce_infiniband_and_iwarp() {
        let root = Folder::new(
            "kinds",
            &[
                ("infiniband/rxe0/ports/1/state", "4: ACTIVE\n"),
                ("infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "eth1\n"),
                ("infiniband/rxe0/ports/1/gid_attrs/ndevs/1", "eth1\n"),
                ("infiniband/rxe0/ports/1/gid_attrs/ndevs/9", "eth1.7\n"),
                ("infiniband/mlx4_0/ports/1/state", "1: DOWN\n"),
                ("infiniband/mlx4_0/ports/2/state", "4: ACTIVE\n"),
                ("infiniband/siw0/ports/1/state", "4: ACTIVE\n"),
                ("infiniband/siw0/ports/1/gids/0", "de12:b0e4:c7a1:0000:0000:0000:0000:0000\n"),
                ("infiniband/siw1/ports/1/state", "4: ACTIVE\n"),
                ("infiniband/siw1/ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n"),
                ("net/ib0/device/infiniband/mlx4_0/node_type", ""),
                ("net/ib0/dev_port", "0\n"),
                ("net/ib1/device/infiniband/mlx4_0/node_type", ""),
                ("net/ib1/dev_port", "1\n"),
                ("net/eth1/dev_port", "0\n"),
                ("net/eth1/address", "00:00:00:00:00:00\n"),
                ("net/eth2/address", "de:12:b0:e4:c7:a1\n"),
            ],
        );
        let found: Vec<String> = ports_in(&root.0)
            .iter()
            .map(|port| {
                let PortEntry { device, number, active, interfaces } = port;
                format!("{device} {number} {active} {}", interfaces.join("+"))
            })
            .collect();
        assert_eq!(
            found,
            [
                "mlx4_0 1 false ib0",
                "mlx4_0 2 true ib1",
                "rxe0 1 true eth1+eth1.7",
                "siw0 1 true eth2",
                "siw1 1 true "
            ]
        );
    }

    #[test]
    fn interfaces_that_only_netlink_names() {
        let port = |device: &str, interfaces: &[&str]| PortEntry {
            device: device.to_owned(),
            number: 1,
            active: true,
            interfaces: interfaces.iter().map(|&name| name.to_owned()).collect(),
        };
        let link = |device: &str, port, interface: &str| netlink::Link {
            device: device.to_owned(),
            port,
            interface: interface.to_owned(),
        };
        let mut ports = [port("rxe0", &["eth1"]), port("siw0", &[])];
        let links = [link("rxe0", 1, "eth9"), link("siw0", 2, "eth8"), link("siw0", 1, "eth7")];
        add_links(&mut ports, &links);
        assert_eq!(ports, [port("rxe0", &["eth1"]), port("siw0", &["eth7"])]);
    }

    #[test]
    fn no_devices_at_all() {
        assert_eq!(ports_in(Path::new("/nonexistent")), []);
    }
}
