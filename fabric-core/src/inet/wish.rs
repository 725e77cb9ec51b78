//! SETUP. The addresses that requests and infos ask for, or why there is none.

use super::{Family, Names, SocketAddress, Unresolved, resolve};
use crate::{
    Result,
    attr::Info,
    discovery::{Rejection, Request},
    flags::Flags,
};

/// What node and service of a request to `provider` stand for, in the families that the hints take.
pub fn named(provider: &str, request: &Request<'_>) -> Result<Vec<SocketAddress>, Box<Rejection>> {
    let names = Names {
        node: request.node,
        service: request.service,
        family: request.hints.and_then(|hints| Family::of_format(hints.addr_format)),
        passive: request.names_source(),
        numeric: request.flags.contains(Flags::NUMERICHOST),
    };
    resolve(&names).map_err(|unresolved| {
        let (attribute, wanted, fix) = match &unresolved {
            Unresolved::Service(service) => ("service", service, "give a port number"),
            Unresolved::Node { node, .. } if node.contains(':') || node.contains(['[', ']']) => {
                let fix = "give address and port apart, as node and service, and without brackets";
                ("node", node, fix)
            }
            Unresolved::Node { node, .. } => ("node", node, "give an address, or a known name"),
        };
        let wanted = format!("{wanted:?}");
        Rejection::of(provider, attribute, wanted, unresolved.to_string(), fix)
    })
}

/// The target's and the own address in the hints of a request to `provider`.
pub fn hinted(
    provider: &str,
    request: &Request<'_>,
) -> Result<[Option<SocketAddress>; 2], Box<Rejection>> {
    let Some(hints) = request.hints else { return Ok([None, None]) };
    let address = |bytes: &[u8], attribute| {
        optional(bytes).map_err(|_| {
            let wanted = format!("{} bytes", bytes.len());
            let fix = "give a struct sockaddr_in or sockaddr_in6, whole";
            Rejection::of(provider, attribute, wanted, "IPv4 and IPv6 socket addresses", fix)
        })
    };
    Ok([address(&hints.dest_addr, "dest_addr")?, address(&hints.src_addr, "src_addr")?])
}

/// The address that an info gives to what is opened with it.
pub fn local(info: &Info) -> Result<Option<SocketAddress>> {
    optional(&info.src_addr)
}

/// No bytes are no address.
fn optional(bytes: &[u8]) -> Result<Option<SocketAddress>> {
    if bytes.is_empty() { Ok(None) } else { SocketAddress::parse(bytes).map(Some) }
}
