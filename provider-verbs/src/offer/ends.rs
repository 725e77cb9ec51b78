//! SETUP. From where and to where: the places that a request can mean.

use fabric_core::{
    discovery::{Rejection, Request},
    inet::{SocketAddress, hinted, named, source_for},
};

use crate::{
    NAME,
    device::{Device, Place},
};

/// Two ends of what an endpoint may do.
#[derive(Clone, Debug)]
pub(super) struct End<'a> {
    pub(super) device: &'a Device,
    /// The own address.
    pub(super) source: Option<SocketAddress>,
    /// The target's, if there is one.
    pub(super) dest: Option<SocketAddress>,
}

impl<'a> End<'a> {
    fn at(place: &'a Place, port: u16) -> Self {
        let source = Some(place.address.with_port(port));
        Self { device: &place.device, source, dest: None }
    }
}

/// All ends that a request can mean, best first and at least one. Node and service count before the
/// addresses in the hints.
pub(super) fn of<'a>(
    places: &'a [Place],
    request: &Request<'_>,
) -> Result<Vec<End<'a>>, Box<Rejection>> {
    let has_names = request.node.is_some() || request.service.is_some();
    let [dest, source] = hinted(NAME, request)?;

    if request.names_source() && has_names {
        let ends = own(places, &named(NAME, request)?, "node")?;
        return towards_each(ends, dest.as_slice());
    }
    let dests = if has_names { named(NAME, request)? } else { Vec::from_iter(dest) };
    match (source, dests.is_empty()) {
        (Some(source), _) => towards_each(own(places, &[source], "src_addr")?, &dests),
        (None, true) => Ok(places.iter().map(|place| End::at(place, 0)).collect()),
        (None, false) => towards(places, &dests),
    }
}

/// Addresses to use as one's own. A wildcard is kept, for whoever listens is reached over all devices
/// then; requests tell the device that they came over.
fn own<'a>(
    places: &'a [Place],
    addresses: &[SocketAddress],
    attribute: &'static str,
) -> Result<Vec<End<'a>>, Box<Rejection>> {
    let mut ends: Vec<End<'a>> = Vec::new();
    for address in addresses {
        if address.is_wildcard() {
            for place in places.iter().filter(|place| place.address.family() == address.family()) {
                let known = |end: &End<'_>| {
                    end.source == Some(*address) && core::ptr::eq(end.device, &*place.device)
                };
                if !ends.iter().any(known) {
                    ends.push(End { source: Some(*address), ..End::at(place, 0) });
                }
            }
            continue;
        }
        let here = |place: &&Place| place.address.ip() == address.ip();
        ends.extend(places.iter().find(here).map(|place| End::at(place, address.port())));
    }
    if ends.is_empty() {
        let wanted = list(addresses.iter());
        let fix = "name an address of an RDMA device of this host";
        return Err(refuse(attribute, wanted, describe(places), fix));
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
        let sources: Vec<SocketAddress> = ends.iter().filter_map(|end| end.source).collect();
        return Err(refuse("dest_addr", list(dests.iter()), list(sources.iter()), fix));
    }
    Ok(pairs)
}

/// To destinations: over the device of the route first, then over others of the family, for programs
/// that name a domain.
fn towards<'a>(
    places: &'a [Place],
    dests: &[SocketAddress],
) -> Result<Vec<End<'a>>, Box<Rejection>> {
    let mut first = Vec::new();
    let mut others = Vec::new();
    let mut misses = Vec::new();
    for dest in dests {
        let source = match source_for(*dest) {
            Ok(source) => source,
            Err(miss) => {
                misses.push(miss.to_string());
                continue;
            }
        };
        let routed = places.iter().find(|place| place.address.ip() == source.ip());
        match routed {
            Some(place) => first.push(End { dest: Some(*dest), ..End::at(place, 0) }),
            None => misses.push(format!(
                "packets to {} leave from {}, which is no address of an RDMA device",
                dest.ip(),
                source.ip()
            )),
        }
        let reaches = |place: &&Place| {
            let address = place.address;
            address.family() == dest.family()
                && address.ip() != source.ip()
                && address.is_link_local() == dest.is_link_local()
        };
        let end = |place| End { dest: Some(*dest), ..End::at(place, 0) };
        // Without a way of their own the others are no answer.
        if routed.is_some() {
            others.extend(places.iter().filter(reaches).map(end));
        }
    }
    first.append(&mut others);
    if first.is_empty() {
        return Err(refuse("dest_addr", list(dests.iter()), describe(places), misses.join("; ")));
    }
    Ok(first)
}

fn list<'a>(addresses: impl Iterator<Item = &'a SocketAddress>) -> String {
    addresses.map(|address| address.ip().to_string()).collect::<Vec<String>>().join(", ")
}

fn describe(places: &[Place]) -> String {
    let each = |place: &Place| format!("{} {}", place.device.name, place.address.ip());
    places.iter().map(each).collect::<Vec<String>>().join(", ")
}

fn refuse(
    attribute: &'static str,
    wanted: impl Into<String>,
    offered: impl Into<String>,
    fix: impl Into<String>,
) -> Box<Rejection> {
    Rejection::of(NAME, attribute, wanted, offered, fix)
}
