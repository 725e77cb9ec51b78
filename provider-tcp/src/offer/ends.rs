//! SETUP. From where and to where: the addresses that a request can mean.

use fabric_core::{
    discovery::{Rejection, Request},
    flags::Flags,
    log::Subsys,
};

use super::NAME;
use crate::{
    address::{SocketAddress, hinted, named},
    interfaces::{Interface, Interfaces, NoRoute, source_for},
};

/// Two ends of what an endpoint may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End<'a> {
    /// The own address; none where the kernel is to choose.
    pub(super) source: Option<SocketAddress>,
    /// The target's, if there is one.
    pub(super) dest: Option<SocketAddress>,
    /// The interface of the source, unless that is a wildcard.
    pub(super) interface: Option<&'a Interface>,
    /// Reaches nobody but this host.
    local_only: bool,
}

impl<'a> End<'a> {
    const fn at(interface: &'a Interface, port: u16) -> Self {
        Self {
            source: Some(interface.address.with_port(port)),
            dest: None,
            interface: Some(interface),
            local_only: false,
        }
    }

    /// Capabilities that an endpoint has not here.
    pub(super) const fn lacks(&self) -> Flags {
        if self.local_only { Flags::REMOTE_COMM } else { Flags::empty() }
    }
}

/// All ends that a request can mean, best first and at least one. Node and service count before
/// the addresses in the hints.
pub(super) fn of<'a>(
    interfaces: &'a Interfaces,
    request: &Request<'_>,
) -> Result<Vec<End<'a>>, Box<Rejection>> {
    let strangers: Vec<String> = interfaces.strangers().map(ToString::to_string).collect();
    if interfaces.listed().next().is_none() {
        let offered = interfaces.describe();
        return Err(if interfaces.are_all() {
            refuse("interfaces", "one that is up", offered, "bring an interface up")
        } else {
            let wanted = fabric_core::param::known::TCP_IFACE.text().unwrap_or_default();
            let fix = "name an interface that is up, a pattern or a subnet, or unset FI_TCP_IFACE";
            refuse("FI_TCP_IFACE", wanted, offered, fix)
        });
    }
    if !strangers.is_empty() {
        fabric_core::info!(
            NAME,
            Subsys::Core,
            "FI_TCP_IFACE: no interface is {}; there are {}",
            strangers.join(", "),
            interfaces.describe()
        );
    }

    let has_names = request.node.is_some() || request.service.is_some();
    let [dest, source] = hinted(NAME, request)?;

    if request.names_source() {
        if !has_names {
            let fix = "give a node or a service, or leave FI_SOURCE out";
            return Err(refuse("node", "FI_SOURCE without a name", "nothing", fix));
        }
        let ends = own(interfaces, &named(NAME, request)?, "node")?;
        return towards_each(ends, dest.as_slice());
    }
    let dests = if has_names { named(NAME, request)? } else { Vec::from_iter(dest) };
    match (source, dests.is_empty()) {
        (Some(source), _) => towards_each(own(interfaces, &[source], "src_addr")?, &dests),
        (None, true) => Ok(listing(interfaces, request)),
        (None, false) => towards(interfaces, &dests),
    }
}

/// Every address that can be used. Loopback reaches no other host, and says so, unless there is
/// nothing else for a program that wants to reach some: its peers are on this host then, or the
/// user has chosen loopback.
fn listing<'a>(interfaces: &'a Interfaces, request: &Request<'_>) -> Vec<End<'a>> {
    let remote = request.hints.is_some_and(|hints| hints.caps.contains(Flags::REMOTE_COMM));
    let only_loopback = interfaces.listed().all(Interface::is_loopback);
    let end = |interface: &'a Interface| {
        let local_only = interface.is_loopback() && !(remote && only_loopback);
        End { local_only, ..End::at(interface, 0) }
    };
    interfaces.listed().map(end).collect()
}

/// Addresses to use as one's own. A wildcard stands for all, and who listens on all is reached over
/// all; the interfaces follow it, for programs that name a domain. Where the user has chosen
/// interfaces, the wildcard would not respect that.
fn own<'a>(
    interfaces: &'a Interfaces,
    addresses: &[SocketAddress],
    attribute: &'static str,
) -> Result<Vec<End<'a>>, Box<Rejection>> {
    let mut ends = Vec::new();
    let wildcards = addresses.iter().filter(|address| address.is_wildcard());
    if interfaces.are_all() {
        let all = |source: &SocketAddress| End {
            source: Some(*source),
            dest: None,
            interface: None,
            local_only: false,
        };
        ends.extend(wildcards.clone().map(all));
    }
    for interface in interfaces.listed() {
        let same = |wildcard: &&SocketAddress| wildcard.family() == interface.address.family();
        ends.extend(wildcards.clone().find(same).map(|own| End::at(interface, own.port())));
    }
    for source in addresses.iter().filter(|address| !address.is_wildcard()) {
        let owner = interfaces.owner(*source).filter(|each| each.is_usable());
        if let Some(interface) = owner.filter(|each| interfaces.accepts(each)) {
            let scope = interface.address.scope();
            let source = Some(source.with_scope(scope));
            ends.push(End { source, ..End::at(interface, 0) });
        }
    }
    if ends.is_empty() {
        let wanted: Vec<String> = addresses.iter().map(|a| a.ip().to_string()).collect();
        let fix = "name an address of this host that is in use and that FI_TCP_IFACE takes";
        return Err(refuse(attribute, wanted.join(", "), interfaces.describe(), fix));
    }
    Ok(ends)
}

/// From addresses that were chosen to each destination of their family, if there are any.
fn towards_each<'a>(
    ends: Vec<End<'a>>,
    dests: &[SocketAddress],
) -> Result<Vec<End<'a>>, Box<Rejection>> {
    if dests.is_empty() {
        return Ok(ends);
    }
    let same = |end: &&End<'a>, dest: &SocketAddress| {
        end.source.is_some_and(|source| source.family() == dest.family())
    };
    let pairs = dests.iter().flat_map(|dest| {
        let fitting = ends.iter().filter(move |end| same(end, dest));
        fitting.map(|end| End { dest: Some(*dest), ..end.clone() })
    });
    let pairs: Vec<End<'a>> = pairs.collect();
    if pairs.is_empty() {
        let fix = "name a source and a destination of one family";
        let ips = |all: Vec<String>| all.join(", ");
        let wanted = ips(dests.iter().map(|dest| dest.ip().to_string()).collect());
        let own = ends.iter().filter_map(|end| end.source);
        let offered = ips(own.map(|source| source.ip().to_string()).collect());
        return Err(refuse("dest_addr", wanted, offered, fix));
    }
    Ok(pairs)
}

/// To destinations: over the interface of the route first, then over others, for programs that
/// name a domain.
fn towards<'a>(
    interfaces: &'a Interfaces,
    dests: &[SocketAddress],
) -> Result<Vec<End<'a>>, Box<Rejection>> {
    let mut first = Vec::new();
    let mut others = Vec::new();
    let mut misses = Vec::new();
    for dest in dests {
        let source = match source_for(*dest) {
            Ok(source) => source,
            Err(miss) => {
                misses.push(miss);
                continue;
            }
        };
        let routed = interfaces.owner(source).filter(|each| interfaces.accepts(each));
        if let Some(interface) = routed {
            let (source, dest) = (Some(source), Some(*dest));
            first.push(End { source, dest, ..End::at(interface, 0) });
        }
        let reaches = |each: &&Interface| {
            each.address.family() == dest.family()
                && each.address != source
                && !each.is_loopback()
                && !dest.is_loopback()
                && !each.address.is_link_local()
                && !dest.is_link_local()
        };
        let end = |each| End { dest: Some(*dest), ..End::at(each, 0) };
        others.extend(interfaces.listed().filter(reaches).map(end));
    }
    first.append(&mut others);
    if first.is_empty() {
        return Err(unreachable(interfaces, dests, &misses));
    }
    Ok(first)
}

fn unreachable(
    interfaces: &Interfaces,
    dests: &[SocketAddress],
    misses: &[NoRoute],
) -> Box<Rejection> {
    let wanted: Vec<String> = dests.iter().map(|dest| dest.ip().to_string()).collect();
    let fix = match misses.first() {
        Some(miss) => miss.to_string(),
        None => "the route's interface is left out by FI_TCP_IFACE".to_owned(),
    };
    refuse("dest_addr", wanted.join(", "), interfaces.describe(), fix)
}

fn refuse(
    attribute: &'static str,
    wanted: impl Into<String>,
    offered: impl Into<String>,
    fix: impl Into<String>,
) -> Box<Rejection> {
    Rejection::of(NAME, attribute, wanted, offered, fix)
}
