//! SETUP. Addresses of nodes and services.
//!
//! Numbers are read here; names of nodes are the system's to resolve, in the order in which it
//! prefers them, and may take as long as it takes.

use std::{
    fs,
    net::{IpAddr, Ipv6Addr, SocketAddrV6, ToSocketAddrs},
};

use crate::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use super::{Family, IPV4_SCHEME, IPV6_SCHEME, SocketAddress};

/// Addresses of one name beyond these are left out.
const MOST: usize = 16;

/// What is to be resolved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// A host's name, its address (`fe80::1%eth0` with a scope), or a whole address as address
    /// vectors print it; `None` is this host.
    pub node: Option<&'a str>,
    /// A port or the name of one; `None` is any.
    pub service: Option<&'a str>,
    /// The only family of interest.
    pub family: Option<Family>,
    /// To listen there: no node stands for all of the host's addresses, and not for loopback.
    pub passive: bool,
    /// The node is no name (`FI_NUMERICHOST`).
    pub numeric: bool,
}

/// Why there is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// Neither a port nor a known service.
    #[error("service {0:?} is neither a port nor in /etc/services")]
    Service(String),
    /// Names no host.
    #[error("node {node:?}: {why}")]
    Node {
        /// As it was given.
        node: String,
        /// What is the matter with it.
        why: String,
    },
}

impl Unresolved {
    /// What calls that can only return a number return.
    pub const fn errno(&self) -> Errno {
        match self {
            Self::Service(_) => Errno::EINVAL,
            Self::Node { .. } => Errno::EADDRNOTAVAIL,
        }
    }
}

/// All addresses that the names stand for, the preferred one first, none twice, and at least one.
pub fn resolve(names: &Names<'_>) -> Result<Vec<SocketAddress>, Unresolved> {
    let (node, own_port) = names.node.map_or((None, None), |node| {
        let (node, port) = split_uri(node);
        (Some(node), port)
    });
    let port = match (names.service, own_port) {
        (Some(service), _) => port(service)?,
        (None, Some(service)) => port(service)?,
        (None, None) => 0,
    };
    let Some(node) = node else { return Ok(this_host(names, port)) };
    let unknown = |why: &str| Unresolved::Node { node: node.to_owned(), why: why.to_owned() };

    let mut found = match numeric(node) {
        Some(found) => vec![found.map_err(unknown)?.with_port(port)],
        None if names.numeric => return Err(unknown("not an address, and FI_NUMERICHOST is set")),
        None => {
            let all = (node, port).to_socket_addrs().map_err(|e| unknown(&e.to_string()))?;
            all.map(SocketAddress::from).collect()
        }
    };
    found.retain(|address| names.family.is_none_or(|family| family == address.family()));
    let mut seen = Vec::new();
    found.retain(|address| {
        !seen.contains(address) && seen.len() < MOST && {
            seen.push(*address);
            true
        }
    });
    if found.is_empty() { Err(unknown("no address of the family asked for")) } else { Ok(found) }
}

/// IPv4 comes first, as it does among the wildcards that others listen on.
fn this_host(names: &Names<'_>, port: u16) -> Vec<SocketAddress> {
    let families = [Family::Ipv4, Family::Ipv6];
    let wanted = families.into_iter().filter(|each| names.family.is_none_or(|only| only == *each));
    let address = |family: Family| {
        if names.passive { family.wildcard(port) } else { family.loopback(port) }
    };
    wanted.map(address).collect()
}

/// Node and port of an address as address vectors print it; other text is the node.
fn split_uri(text: &str) -> (&str, Option<&str>) {
    let Some(rest) = [IPV4_SCHEME, IPV6_SCHEME].iter().find_map(|s| text.strip_prefix(s)) else {
        return (text, None);
    };
    let (node, port) = match rest.rsplit_once(':') {
        // The colons of an IPv6 address are within brackets.
        Some((node, port)) if !port.contains(']') => (node, Some(port)),
        _ => (rest, None),
    };
    (node.strip_prefix('[').and_then(|node| node.strip_suffix(']')).unwrap_or(node), port)
}

/// `None` if it is no address but perhaps a name.
fn numeric(node: &str) -> Option<Result<SocketAddress, &'static str>> {
    if let Some((ip, scope)) = node.split_once('%') {
        let ip: Ipv6Addr = ip.parse().ok()?;
        let scope = scope_index(scope).ok_or("there is no such interface");
        return Some(scope.map(|scope| SocketAddress(SocketAddrV6::new(ip, 0, 0, scope).into())));
    }
    let ip: IpAddr = node.parse().ok()?;
    // An IPv4 address in IPv6's clothes, as sockets of both families tell them, is one of IPv4.
    Some(Ok(SocketAddress((ip.to_canonical(), 0).into())))
}

/// The interface's index by its number or name.
fn scope_index(scope: &str) -> Option<u32> {
    if let Ok(index) = scope.parse() {
        return Some(index);
    }
    let (family, kind) = (AddressFamily::INET6, SocketType::DGRAM);
    let any = socket_with(family, kind, SocketFlags::CLOEXEC, None).ok()?;
    netdevice::name_to_index(&any, scope).ok()
}

fn port(service: &str) -> Result<u16, Unresolved> {
    let unknown = || Unresolved::Service(service.to_owned());
    if let Ok(port) = service.parse() {
        return Ok(port);
    }
    let table = fs::read_to_string("/etc/services").map_err(|_| unknown())?;
    named_port(&table, service).ok_or_else(unknown)
}

/// A TCP service's port, by its name or alias.
fn named_port(table: &str, service: &str) -> Option<u16> {
    table.lines().find_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?.parse().ok()?;
        (name == service || words.any(|alias| alias == service)).then_some(port)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask(node: Option<&str>, service: Option<&str>) -> Result<Vec<String>, Unresolved> {
        let names = Names { node, service, numeric: true, ..Names::default() };
        Ok(resolve(&names)?.iter().map(|address| format!("{address:?}")).collect())
    }

    #[test]
    fn numbers() {
        let one = |text: &str| Ok(vec![text.to_owned()]);
        assert_eq!(ask(Some("1.2.3.4"), Some("567")), one("1.2.3.4:567"));
        assert_eq!(ask(Some("::1"), None), one("[::1]:0"));
        assert_eq!(ask(Some("::ffff:1.2.3.4"), None), one("1.2.3.4:0"));
        assert_eq!(ask(Some("fe80::1%7"), Some("9")), one("[fe80::1%7]:9"));
        let lo = scope_index("lo").unwrap();
        assert_eq!(ask(Some("fe80::1%lo"), Some("9")), one(&format!("[fe80::1%{lo}]:9")));
        assert_eq!(ask(Some("fi_sockaddr_in://1.2.3.4:5"), None), one("1.2.3.4:5"));
        assert_eq!(ask(Some("fi_sockaddr_in6://[::2]:5"), Some("6")), one("[::2]:6"));
        for node in ["host", "fi_sockaddr_in6://::2", "fe80::1%no such", "1.2.3", "", "1.2.3.4%lo"]
        {
            assert_eq!(ask(Some(node), None).unwrap_err().errno(), Errno::EADDRNOTAVAIL, "{node}");
        }
        for service in ["65536", "-1", "no such service", ""] {
            let error = ask(Some("::1"), Some(service)).unwrap_err();
            assert_eq!(error.errno(), Errno::EINVAL, "{service}");
        }
    }

    #[test]
    fn this_host_is_loopback_or_everything() {
        let own = |passive, family| {
            let names = Names { service: Some("7"), passive, family, ..Names::default() };
            let found = resolve(&names).unwrap();
            found.iter().map(|address| format!("{address:?}")).collect::<Vec<_>>()
        };
        assert_eq!(own(false, None), ["127.0.0.1:7", "[::1]:7"]);
        assert_eq!(own(true, None), ["0.0.0.0:7", "[::]:7"]);
        assert_eq!(own(true, Some(Family::Ipv6)), ["[::]:7"]);
    }

    #[test]
    fn names_are_resolved_and_limited_to_a_family() {
        let names =
            Names { node: Some("localhost"), family: Some(Family::Ipv4), ..Names::default() };
        assert!(resolve(&names).unwrap()[0].is_loopback());
        let names = Names { node: Some("127.0.0.1"), family: Some(Family::Ipv6), ..names };
        assert_eq!(resolve(&names).unwrap_err().errno(), Errno::EADDRNOTAVAIL);
    }

    #[test]
    fn services_by_name() {
        let table = "# comment\nhttp 80/tcp www # web\nhttp 81/udp\nsmtp\t25/tcp mail\nbad x/tcp\n";
        assert_eq!(named_port(table, "http"), Some(80));
        assert_eq!(named_port(table, "mail"), Some(25));
        assert_eq!(named_port(table, "comment"), None);
        assert_eq!(named_port(table, "bad"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(node in ".{0,40}", service in "[0-9a-z%:]{0,8}") {
            let names = Names {
                node: Some(&node),
                service: Some(&service),
                numeric: true,
                ..Names::default()
            };
            prop_assert!(resolve(&names).is_ok_and(|found| found.len() == 1) || resolve(&names).is_err());
        }
    }
}
