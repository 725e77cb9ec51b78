//! SETUP. The way to a destination, as the kernel would take it.

use core::net::SocketAddr;

use crate::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getsockname, socket_with};

use super::{Family, SocketAddress};

/// Why there is no way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// The kernel knows none.
    #[error("no route to {} ({})", .0.ip(), .1)]
    Unknown(SocketAddress, Errno),
    /// The address means something on one link only, and does not say on which.
    #[error("{} is link-local: add its interface, as in {}%eth0", .0.ip(), .0.ip())]
    NoScope(SocketAddress),
}

/// The address of this host, with port 0, that packets to a destination come from. Nothing is sent:
/// a datagram socket that is connected has looked up its route, and that is all.
pub fn source_for(destination: SocketAddress) -> Result<SocketAddress, NoRoute> {
    let v6 = destination.family() == Family::Ipv6;
    if v6 && destination.is_link_local() && destination.scope() == 0 {
        return Err(NoRoute::NoScope(destination));
    }
    let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let ask = || -> rustix::io::Result<SocketAddr> {
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        // Port 0 is refused by some kernels; which one it is makes no difference.
        connect(&socket, &destination.with_port(destination.port().max(1)).get())?;
        SocketAddr::try_from(getsockname(&socket)?)
    };
    ask()
        .map(|own| SocketAddress::from(own).with_port(0))
        .map_err(|e| NoRoute::Unknown(destination, e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_from_loopback() {
        for family in [Family::Ipv4, Family::Ipv6] {
            // A host may be without IPv6.
            if let Ok(source) = source_for(family.loopback(80)) {
                assert_eq!(source, family.loopback(0));
            }
        }
    }

    #[test]
    fn link_local_needs_a_scope() {
        let address = SocketAddress::from("[fe80::1]:7".parse::<SocketAddr>().unwrap());
        let error = source_for(address).unwrap_err();
        assert_eq!(
            error.to_string(),
            "fe80::1 is link-local: add its interface, as in fe80::1%eth0"
        );
        assert!(matches!(source_for(address.with_scope(0x7fff_fff0)), Err(NoRoute::Unknown(..))));
    }
}
