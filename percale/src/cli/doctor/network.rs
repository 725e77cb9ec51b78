//! Interfaces, in the order in which tcp uses them, and why.

use percale::param::{InterfaceFilter, known::TCP_IFACE};
use provider_tcp::interfaces::{Interface, Interfaces, Kind, rank, read};

use super::{Finding, State};

const CHECK: &str = "interfaces";

pub(super) fn check() -> Finding {
    let filter = TCP_IFACE.text().and_then(|text| InterfaceFilter::parse(&text));
    match read() {
        Ok(all) => judge(all, filter.unwrap_or_default()),
        Err(reason) => {
            let found = format!("the kernel does not list them: {reason}; no tcp without");
            Finding::new(CHECK, State::Problem, found)
                .fix("allow AF_NETLINK sockets to the process")
        }
    }
}

fn judge(mut all: Vec<Interface>, filter: InterfaceFilter) -> Finding {
    rank(&mut all);
    let chosen = Interfaces::new(all.clone(), filter);
    let used = |each: &&Interface| each.is_usable() && chosen.accepts(each);
    let outside = || all.iter().filter(used).filter(|each| !each.is_loopback());
    let mut place = 0;
    let mut details: Vec<String> = Vec::new();
    for each in &all {
        let taken = each.is_usable() && chosen.accepts(each);
        place += usize::from(taken);
        let number = if taken { format!("{place}.") } else { "-".to_owned() };
        let (ip, prefix) = (each.address.ip(), each.prefix);
        let why = if taken { merits(each) } else { obstacle(each) };
        details.push(format!("{number:<3} {} {ip}/{prefix}: {why}", each.name));
    }
    let names: Vec<String> = chosen.strangers().map(ToString::to_string).collect();
    let finding = if !names.is_empty() {
        let found = format!("FI_TCP_IFACE names what is not there: {}", names.join(", "));
        Finding::new(CHECK, State::Warning, found).fix("name interfaces of the list, or unset it")
    } else if outside().next().is_none() {
        let found = "none reaches other hosts; tcp is for this host alone";
        Finding::new(CHECK, State::Warning, found)
            .fix("give an interface an address (ip addr add), and switch it on (ip link set up)")
    } else if !outside().any(|each| each.address.ip().is_ipv4()) {
        let found = "no IPv4 address reaches other hosts; programs that ask for FI_SOCKADDR_IN find \
                     loopback only";
        Finding::new(CHECK, State::Warning, found)
            .fix("add an IPv4 address, or have programs ask for FI_SOCKADDR_IN6")
    } else {
        let first = outside().next().map_or("-", |each| each.name.as_str());
        let found = format!("programs that take the first offer of tcp use {first}");
        Finding::new(CHECK, State::Ok, found)
    };
    finding.details(details)
}

/// What its place in the order comes from, the most important first.
fn merits(each: &Interface) -> String {
    let mut words = Vec::new();
    if each.is_loopback() {
        words.push("this host only".to_owned());
    } else if each.address.is_link_local() {
        words.push("link-local".to_owned());
    }
    match each.kind {
        Kind::Device => words.push("device".to_owned()),
        Kind::Pair => words.push("pair, as in containers".to_owned()),
        Kind::Bridge => words.push("bridge".to_owned()),
        Kind::Tunnel => words.push("tunnel".to_owned()),
        Kind::Loopback => {}
    }
    if each.kind == Kind::Device && each.speed != 0 {
        words.push(format!("{} Mb/s", each.speed));
    }
    if each.default_route {
        words.push("default route".to_owned());
    }
    if each.deprecated {
        words.push("deprecated".to_owned());
    }
    if words.is_empty() { "loopback".to_owned() } else { words.join(", ") }
}

/// Why it is not used.
fn obstacle(each: &Interface) -> String {
    match each {
        Interface { up: false, .. } => "switched off",
        Interface { running: false, .. } => "no carrier",
        Interface { unusable: true, .. } => "the address is not ready (duplicate?)",
        _ => "left out by FI_TCP_IFACE",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn interface(name: &str, address: &str, kind: Kind) -> Interface {
        let address: SocketAddr = address.parse().unwrap();
        Interface {
            name: name.to_owned(),
            index: 1,
            address: address.into(),
            prefix: 24,
            secondary: false,
            deprecated: false,
            unusable: false,
            up: true,
            running: true,
            kind,
            default_route: false,
            mtu: 1500,
            speed: 0,
        }
    }

    #[test]
    fn the_order_is_told_with_its_reasons() {
        let lo = interface("lo", "127.0.0.1:0", Kind::Loopback);
        let eth = Interface {
            speed: 10_000,
            default_route: true,
            ..interface("eth0", "192.0.2.1:0", Kind::Device)
        };
        let off = Interface { up: false, ..interface("eth1", "192.0.2.9:0", Kind::Device) };
        let six = interface("eth2", "[2001:db8::1]:0", Kind::Device);

        let finding = judge(vec![lo.clone(), off.clone(), eth.clone()], InterfaceFilter::default());
        assert_eq!(finding.state, State::Ok);
        assert!(finding.found.ends_with("eth0"), "{finding:?}");
        assert!(
            finding.details[0].starts_with("1.  eth0 192.0.2.1/24: device, 10000 Mb/s, default")
        );
        assert!(finding.details.iter().any(|line| line.ends_with("switched off")));

        let only_six = judge(vec![lo.clone(), six], InterfaceFilter::default());
        assert!(only_six.found.starts_with("no IPv4"), "{only_six:?}");
        let alone = judge(vec![lo.clone(), off], InterfaceFilter::default());
        assert!(alone.found.starts_with("none reaches"), "{alone:?}");
        let filter = InterfaceFilter::parse("eth7").unwrap();
        assert!(judge(vec![lo, eth], filter).found.contains("eth7"));
    }
}
