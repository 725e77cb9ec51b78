use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;

/// An interface as most are.
pub(crate) fn interface(name: &str, index: u32, ip: &str, prefix: u8) -> Interface {
    let address = SocketAddress::from(SocketAddr::new(ip.parse().unwrap(), 0));
    let loopback = address.is_loopback();
    Interface {
        name: name.to_owned(),
        index,
        address: address.with_scope(if address.is_link_local() { index } else { 0 }),
        prefix,
        secondary: false,
        deprecated: false,
        unusable: false,
        up: true,
        running: true,
        kind: if loopback { Kind::Loopback } else { Kind::Device },
        default_route: false,
        mtu: 1500,
        speed: 0,
    }
}

/// A workstation: cable, wireless, containers, machines, VPN.
pub(crate) fn workstation() -> Vec<Interface> {
    let of = |kind| move |each: Interface| Interface { kind, ..each };
    vec![
        interface("lo", 1, "127.0.0.1", 8),
        interface("lo", 1, "::1", 128),
        interface("lo", 1, "10.77.0.1", 32).into_loopback(),
        of(Kind::Bridge)(interface("docker0", 2, "172.17.0.1", 16)),
        of(Kind::Bridge)(interface("virbr0", 3, "192.168.122.1", 24)).without_carrier(),
        interface("eth0", 4, "10.0.0.5", 24).with_speed(1000),
        interface("eth0", 4, "fe80::5", 64).with_speed(1000),
        interface("eth0", 4, "fd00::5", 64).with_speed(1000),
        Interface { default_route: true, ..interface("wlan0", 5, "10.1.0.5", 24) },
        of(Kind::Tunnel)(interface("tun0", 6, "10.8.0.5", 24)),
        of(Kind::Pair)(interface("veth9", 7, "fe80::9", 64)),
        Interface { up: false, ..interface("eth1", 8, "10.2.0.5", 24) },
        Interface { unusable: true, ..interface("eth0", 4, "fd00::6", 64) },
    ]
}

impl Interface {
    fn with_speed(self, speed: u32) -> Self {
        Self { speed, ..self }
    }

    fn without_carrier(self) -> Self {
        Self { running: false, ..self }
    }

    fn into_loopback(self) -> Self {
        Self { kind: Kind::Loopback, ..self }
    }
}

fn order(all: Vec<Interface>, filter: &str) -> String {
    let filter = InterfaceFilter::parse(filter).unwrap();
    let interfaces = Interfaces::new(all, filter);
    let one = |each: &Interface| format!("{} {}", each.name, each.address.ip());
    interfaces.listed().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_best_comes_first_and_what_is_unusable_not_at_all() {
    assert_eq!(
        order(workstation(), ""),
        "eth0 10.0.0.5, eth0 fd00::5, wlan0 10.1.0.5, docker0 172.17.0.1, tun0 10.8.0.5, \
         eth0 fe80::5, veth9 fe80::9, lo 127.0.0.1, lo ::1"
    );
}

#[test]
fn a_bridge_is_a_device_where_the_default_route_leads_through_it() {
    let bridge = |default_route| Interface {
        kind: Kind::Bridge,
        default_route,
        ..interface("br0", 2, "10.0.0.1", 24).with_speed(100_000)
    };
    let device = interface("eth1", 3, "10.1.0.1", 24);
    assert_eq!(order(vec![bridge(true), device.clone()], ""), "br0 10.0.0.1, eth1 10.1.0.1");
    assert_eq!(order(vec![bridge(false), device], ""), "eth1 10.1.0.1, br0 10.0.0.1");
}

#[test]
fn faster_devices_come_first_and_bridges_lie_about_their_speed() {
    let all = vec![
        Interface { kind: Kind::Bridge, ..interface("br0", 2, "10.9.0.1", 24).with_speed(400_000) },
        Interface { default_route: true, ..interface("eth0", 3, "10.0.0.1", 24).with_speed(1000) },
        interface("ib0", 4, "10.1.0.1", 24).with_speed(100_000),
        interface("eth1", 5, "10.2.0.1", 24).with_speed(1000),
    ];
    assert_eq!(order(all, ""), "ib0 10.1.0.1, eth0 10.0.0.1, eth1 10.2.0.1, br0 10.9.0.1");
}

#[test]
fn addresses_of_one_interface() {
    let all = vec![
        interface("eth0", 2, "fd00::1", 64),
        Interface { secondary: true, ..interface("eth0", 2, "10.0.0.1", 24) },
        interface("eth0", 2, "10.0.0.2", 24),
        Interface { deprecated: true, ..interface("eth0", 2, "10.0.1.1", 24) },
        interface("eth0", 2, "169.254.0.1", 16),
    ];
    assert_eq!(
        order(all, ""),
        "eth0 10.0.0.2, eth0 10.0.0.1, eth0 fd00::1, eth0 10.0.1.1, eth0 169.254.0.1"
    );
}

#[test]
fn the_filter_chooses() {
    for (filter, expected) in [
        ("lo", "lo 127.0.0.1, lo ::1"),
        ("wlan0,docker*", "wlan0 10.1.0.5, docker0 172.17.0.1"),
        ("10.0.0.0/8,^tun*", "eth0 10.0.0.5, wlan0 10.1.0.5, lo 10.77.0.1"),
        ("^eth0,wlan0,tun0,10.0.0.0/8,172.16.0.0/12,fe80::/10", "lo 127.0.0.1, lo ::1"),
        ("10.77.0.0/16,eth0,^fe80::/10,^fd00::/8", "eth0 10.0.0.5, lo 10.77.0.1"),
        ("eth1", ""),
        ("nothing*", ""),
    ] {
        assert_eq!(order(workstation(), filter), expected, "{filter}");
    }
}

#[test]
fn strangers_of_the_filter_are_named() {
    let filter = InterfaceFilter::parse("eth0,eth1,bogus*,10.99.0.0/16").unwrap();
    let interfaces = Interfaces::new(workstation(), filter);
    let strangers: Vec<String> = interfaces.strangers().map(Pattern::to_string).collect();
    assert_eq!(strangers, ["bogus*", "10.99.0.0/16"]);
    let all = interfaces.describe();
    assert!(all.contains("eth0 10.0.0.5,") && all.contains("eth1 10.2.0.5 (down)"), "{all}");
    assert!(all.contains("virbr0 192.168.122.1 (no carrier)"), "{all}");
    assert!(all.contains("eth0 fd00::6 (address not ready)"), "{all}");
}

#[test]
fn subnets_have_the_names_of_fabrics() {
    for (ip, prefix, expected) in [
        ("10.1.2.3", 24, "10.1.2.0/24"),
        ("10.1.2.3", 32, "10.1.2.3/32"),
        ("10.1.2.3", 0, "0.0.0.0/0"),
        ("fd00::1:2", 64, "fd00::/64"),
        ("fd00::1:2", 0, "::/0"),
        ("fd00::1:2", 255, "fd00::1:2/128"),
        ("127.0.0.1", 8, "127.0.0.1/32"),
        ("::1", 128, "::1/128"),
    ] {
        assert_eq!(interface("x", 1, ip, prefix).subnet(), expected);
    }
}

#[test]
fn names_of_subnets_are_told_from_others() {
    for name in ["10.0.0.0/24", "198.18.0.0/30", "127.0.0.1/32", "fe80::/64", "::1/128"] {
        assert!(is_subnet(name), "{name}");
    }
    for name in ["", "/", "eth0", "10.0.0.0", "10.0.0/24", "10.0.0.0/33", "fe80::/129", "::1/-1"] {
        assert!(!is_subnet(name), "{name}");
    }
}

#[test]
fn owners_of_addresses() {
    let interfaces = Interfaces::new(workstation(), InterfaceFilter::all());
    let owner = |text: &str| {
        let address = SocketAddress::from(text.parse::<SocketAddr>().unwrap());
        interfaces.owner(address).map(|each| each.name.as_str())
    };
    assert_eq!(owner("10.0.0.5:80"), Some("eth0"));
    assert_eq!(owner("10.0.0.6:80"), None);
    assert_eq!(owner("127.0.0.2:80"), Some("lo"));
    assert_eq!(owner("10.77.0.1:80"), Some("lo"));
    assert_eq!(owner("10.2.0.5:80"), Some("eth1"), "down, but its own");
    assert_eq!(owner("[fe80::5]:1"), Some("eth0"));
    assert_eq!(owner("[fe80::5%4]:1"), Some("eth0"));
    assert_eq!(owner("[fe80::5%5]:1"), None);
}

proptest! {
    /// Whatever the kernel says of its interfaces, ranking loses none and is stable.
    #[test]
    fn ranking_keeps_all(facts in proptest::collection::vec((0_u8..5, 0_u32..9, 0_u8..32, any::<[u8; 4]>()), 0..20)) {
        let kinds = [Kind::Device, Kind::Pair, Kind::Bridge, Kind::Tunnel, Kind::Loopback];
        let mut all: Vec<Interface> = facts
            .iter()
            .map(|(kind, speed, bits, ip)| Interface {
                kind: kinds[usize::from(*kind)],
                default_route: bits & 1 != 0,
                running: bits & 2 != 0,
                deprecated: bits & 4 != 0,
                ..interface("x", speed + 1, &IpAddr::from(*ip).to_string(), *bits).with_speed(*speed)
            })
            .collect();
        let count = all.len();
        rank(&mut all);
        let once = all.clone();
        rank(&mut all);
        prop_assert_eq!(&once, &all);
        prop_assert_eq!(all.len(), count);
        let first_loopback = all.iter().position(Interface::is_loopback).unwrap_or(count);
        prop_assert!(all[first_loopback..].iter().all(Interface::is_loopback));
        for each in &all {
            let _ = each.subnet();
        }
    }
}
