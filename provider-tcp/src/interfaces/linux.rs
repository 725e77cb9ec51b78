//! SETUP. What Linux knows of its interfaces.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
};

use fabric_core::Result;

use super::{
    Interface, Kind,
    netlink::{Address, Link, List, collect},
};
use crate::address::SocketAddress;

const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;
const IFF_RUNNING: u32 = 0x40;

const IFA_F_SECONDARY: u32 = 1;
const IFA_F_DADFAILED: u32 = 8;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;
const IFA_F_OPTIMISTIC: u32 = 4;

/// Lines of a table of routes that are looked at; default routes are among the first.
const ROUTES: usize = 4096;

/// Every address of every interface of this network namespace, in the kernel's order.
pub fn read() -> Result<Vec<Interface>> {
    let links = collect(List::Links, |message| message.link())?;
    let addresses = collect(List::Addresses, |message| message.address())?;
    let defaults = default_routes(&table("/proc/net/route"), &table("/proc/net/ipv6_route"));
    let speeds: Vec<u32> = links.iter().map(|link| speed(link).unwrap_or(0)).collect();
    let interface = |address: Address| {
        let at = links.iter().position(|link| link.index == address.index)?;
        let link = links.get(at)?;
        let default = defaults.contains(&link.name);
        Some(describe(link, address, default, speeds.get(at).copied().unwrap_or(0)))
    };
    Ok(addresses.into_iter().filter_map(interface).collect())
}

/// The beginning of a table; empty where the kernel has none.
fn table(path: &str) -> Vec<String> {
    let lines = File::open(path).map(|file| BufReader::new(file).lines());
    lines.into_iter().flatten().map_while(Result::ok).take(ROUTES).collect()
}

fn describe(link: &Link, address: Address, default_route: bool, speed: u32) -> Interface {
    let is = |flag| address.flags & flag != 0;
    let bare = SocketAddress::from(core::net::SocketAddr::new(address.ip, 0));
    let scope = if bare.is_link_local() { link.index } else { 0 };
    Interface {
        name: address.label.clone().unwrap_or_else(|| link.name.clone()),
        index: link.index,
        address: bare.with_scope(scope),
        prefix: address.prefix,
        // Among IPv6 addresses the flag marks the temporary ones.
        secondary: is(IFA_F_SECONDARY),
        deprecated: is(IFA_F_DEPRECATED),
        unusable: is(IFA_F_DADFAILED) || (is(IFA_F_TENTATIVE) && !is(IFA_F_OPTIMISTIC)),
        up: link.flags & IFF_UP != 0,
        running: link.flags & IFF_RUNNING != 0,
        kind: if link.flags & IFF_LOOPBACK != 0 { Kind::Loopback } else { kind(&link.kind) },
        default_route,
        mtu: link.mtu,
        speed,
    }
}

/// By what drivers call their links; physical devices call themselves nothing.
fn kind(kind: &str) -> Kind {
    match kind {
        "veth" | "netkit" => Kind::Pair,
        "bridge" | "openvswitch" => Kind::Bridge,
        "tun" | "wireguard" | "ppp" | "vxlan" | "geneve" | "sit" | "vti" | "vti6" | "xfrm"
        | "dummy" | "ifb" | "nlmon" | "vrf" => Kind::Tunnel,
        kind if kind.contains("gre") || kind.contains("ipip") || kind.contains("ip6tnl") => {
            Kind::Tunnel
        }
        _ => Kind::Device,
    }
}

/// Megabits a second, if it is a device and tells. What is mounted at `/sys` may show another namespace's
/// devices of the same names, so index and hardware address have to agree.
fn speed(link: &Link) -> Option<u32> {
    if kind(&link.kind) != Kind::Device || link.flags & IFF_LOOPBACK != 0 {
        return None;
    }
    // A name with a slash cannot be; it would lead elsewhere.
    let place = Path::new("/sys/class/net").join(Path::new(&link.name).file_name()?);
    let text = |file: &str| fs::read_to_string(place.join(file)).ok();
    let hardware: Vec<String> = link.hardware.iter().map(|byte| format!("{byte:02x}")).collect();
    let same = text("ifindex")?.trim().parse() == Ok(link.index)
        && text("address")?.trim() == hardware.join(":");
    if !same {
        return None;
    }
    text("speed")?.trim().parse().ok()
}

/// Names of the interfaces that lead everywhere in IPv4 or IPv6.
fn default_routes(v4: &[String], v6: &[String]) -> HashSet<String> {
    /// Routes that refuse are routes of the table, too.
    const REJECT: u32 = 0x200;
    let zero = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit == b'0');
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let v4 = v4.iter().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (name, flags) = (*fields.first()?, hex(fields.get(3)?)?);
        let default = zero(fields.get(1)?) && zero(fields.get(7)?);
        (default && flags & REJECT == 0).then(|| name.to_owned())
    });
    let v6 = v6.iter().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (name, flags) = (*fields.get(9)?, hex(fields.get(8)?)?);
        let default = zero(fields.first()?) && zero(fields.get(1)?) && name != "lo";
        (default && flags & REJECT == 0).then(|| name.to_owned())
    });
    v4.chain(v6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes_of_both_families() {
        let v4 = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                  *\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0\n";
        let zeroes = "0".repeat(32);
        let v6 = format!(
            "{zeroes} 00 {zeroes} 00 {zeroes} 00000400 1 0 00000003 wlan0\n\
             {zeroes} 00 {zeroes} 00 {zeroes} ffffffff 1 0 00200200 lo\n\
             fd{0} 40 {zeroes} 00 {zeroes} 00000100 1 0 00000001 eth1\n",
            "0".repeat(30)
        );
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let found = default_routes(&lines(v4), &lines(&v6));
        assert_eq!(found, ["eth0".to_owned(), "wlan0".to_owned()].into());
        assert!(default_routes(&lines("h\n\n"), &lines("\nx")).is_empty());
        assert!(table("/nonexistent").is_empty() && !table("/proc/net/route").is_empty());
    }

    #[test]
    fn kinds_by_their_drivers() {
        for (name, expected) in [
            ("", Kind::Device),
            ("vlan", Kind::Device),
            ("bond", Kind::Device),
            ("macvlan", Kind::Device),
            ("veth", Kind::Pair),
            ("bridge", Kind::Bridge),
            ("wireguard", Kind::Tunnel),
            ("ip6gretap", Kind::Tunnel),
            ("dummy", Kind::Tunnel),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn addresses_carry_the_facts_of_their_link() {
        let link =
            Link { index: 3, name: "eth0".into(), flags: 0x41, mtu: 9000, ..Link::default() };
        let address = Address {
            index: 3,
            ip: "fe80::1".parse().unwrap(),
            prefix: 64,
            flags: IFA_F_TENTATIVE,
            label: None,
        };
        let got = describe(&link, address.clone(), true, 100);
        assert_eq!((got.address.scope(), got.mtu, got.speed), (3, 9000, 100));
        assert!(got.up && got.running && !got.is_usable());
        let got = describe(&link, Address { flags: 0, ..address }, true, 100);
        assert!(got.is_usable() && got.name == "eth0" && got.kind == Kind::Device);
    }

    #[test]
    fn this_host_can_be_read() {
        let all = read().unwrap();
        assert!(all.iter().all(|each| each.index != 0 && !each.name.is_empty()), "{all:?}");
    }
}
