//! SETUP. Addresses of providers that run over IP: IPv4 and IPv6 socket addresses, as bytes of C, as
//! text, and from names.

mod format;
mod peer;
mod resolve;
mod route;
mod wish;

use core::{cmp::Ordering, fmt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::{Errno, Result, attr::addr_format};

pub use format::{EITHER, SocketAddresses, addresses};
pub use resolve::{Names, Unresolved, resolve};
pub use route::{NoRoute, source_for};
pub use wish::{hinted, local, named};

/// Bytes of `struct sockaddr_in`.
pub const IPV4_LEN: usize = 16;
/// Bytes of `struct sockaddr_in6`.
pub const IPV6_LEN: usize = 28;

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// A socket address of a known family.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SocketAddress(SocketAddr);

/// The families that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `AF_INET`.
    Ipv4,
    /// `AF_INET6`.
    Ipv6,
}

impl Family {
    /// The family by its number.
    pub const fn from_raw(family: u16) -> Option<Self> {
        match family {
            AF_INET => Some(Self::Ipv4),
            AF_INET6 => Some(Self::Ipv6),
            _ => None,
        }
    }

    /// Bytes of an address.
    pub const fn address_len(self) -> usize {
        match self {
            Self::Ipv4 => IPV4_LEN,
            Self::Ipv6 => IPV6_LEN,
        }
    }

    /// The address format of this family alone.
    pub const fn addr_format(self) -> u32 {
        match self {
            Self::Ipv4 => addr_format::SOCKADDR_IN,
            Self::Ipv6 => addr_format::SOCKADDR_IN6,
        }
    }

    /// The family that an address format is limited to, if it is.
    pub const fn of_format(format: u32) -> Option<Self> {
        match format {
            addr_format::SOCKADDR_IN => Some(Self::Ipv4),
            addr_format::SOCKADDR_IN6 => Some(Self::Ipv6),
            _ => None,
        }
    }

    /// The address that stands for all of the host's, with a port.
    pub const fn wildcard(self, port: u16) -> SocketAddress {
        let ip = match self {
            Self::Ipv4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::Ipv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        SocketAddress(SocketAddr::new(ip, port))
    }

    /// The address of the host for itself, with a port.
    pub const fn loopback(self, port: u16) -> SocketAddress {
        let ip = match self {
            Self::Ipv4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::Ipv6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        SocketAddress(SocketAddr::new(ip, port))
    }
}

impl SocketAddress {
    /// Reads an address from the front of `bytes`. `EINVAL` for another family, and for fewer bytes
    /// than its family has.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let family = array(bytes, 0).map(u16::from_ne_bytes).and_then(Family::from_raw);
        Self::read(family.ok_or(Errno::EINVAL)?, bytes).ok_or(Errno::EINVAL)
    }

    /// `None` if there are too few bytes.
    fn read(family: Family, bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..family.address_len())?;
        let port = u16::from_be_bytes(array(bytes, 2)?);
        Some(Self(match family {
            Family::Ipv4 => SocketAddr::V4(SocketAddrV4::new(array::<4>(bytes, 4)?.into(), port)),
            Family::Ipv6 => SocketAddr::V6(SocketAddrV6::new(
                array::<16>(bytes, 8)?.into(),
                port,
                // Kept as it lies in memory, like the standard library does.
                u32::from_ne_bytes(array(bytes, 4)?),
                u32::from_ne_bytes(array(bytes, 24)?),
            )),
        }))
    }

    /// The bytes of `struct sockaddr_in` or `sockaddr_in6`, padding zeroed.
    pub fn to_bytes(self) -> Vec<u8> {
        let port = self.port().to_be_bytes();
        match self.0 {
            SocketAddr::V4(v4) => {
                [&AF_INET.to_ne_bytes()[..], &port, &v4.ip().octets(), &[0; 8]].concat()
            }
            SocketAddr::V6(v6) => [
                &AF_INET6.to_ne_bytes()[..],
                &port,
                &v6.flowinfo().to_ne_bytes(),
                &v6.ip().octets(),
                &v6.scope_id().to_ne_bytes(),
            ]
            .concat(),
        }
    }

    /// The one spelling of this peer: without flow information, and with a scope only where the
    /// address means nothing without.
    pub fn canonical(self) -> Self {
        match self.0 {
            SocketAddr::V4(_) => self,
            SocketAddr::V6(v6) => {
                let scope = if self.is_link_local() { v6.scope_id() } else { 0 };
                Self(SocketAddrV6::new(*v6.ip(), v6.port(), 0, scope).into())
            }
        }
    }

    /// Which of two endpoints keeps the connection that it asked for when both ask at once: the
    /// bytes of the IP address decide, then those of the port. Scopes do not take part.
    pub fn contest(self, other: Self) -> Ordering {
        let ip = match (self.ip(), other.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => a.octets().cmp(&b.octets()),
            (IpAddr::V6(a), IpAddr::V6(b)) => a.octets().cmp(&b.octets()),
            (a, b) => a.cmp(&b),
        };
        ip.then(self.port().cmp(&other.port()))
    }

    /// As the standard library has it.
    pub const fn get(self) -> SocketAddr {
        self.0
    }

    /// The family.
    pub const fn family(self) -> Family {
        if self.0.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 }
    }

    /// The IP address.
    pub const fn ip(self) -> IpAddr {
        self.0.ip()
    }

    /// The port, 0 for any.
    pub const fn port(self) -> u16 {
        self.0.port()
    }

    /// The same host at another port.
    pub const fn with_port(mut self, port: u16) -> Self {
        self.0.set_port(port);
        self
    }

    /// The index of the interface that a link-local address belongs to; 0 without one.
    pub const fn scope(self) -> u32 {
        match self.0 {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(v6) => v6.scope_id(),
        }
    }

    /// The same address at another interface. IPv4 knows no scopes.
    #[must_use]
    pub const fn with_scope(mut self, scope: u32) -> Self {
        if let SocketAddr::V6(v6) = &mut self.0 {
            v6.set_scope_id(scope);
        }
        self
    }

    /// Whether it stands for all addresses of the host.
    pub const fn is_wildcard(self) -> bool {
        self.0.ip().is_unspecified()
    }

    /// Whether it stays within the host.
    pub const fn is_loopback(self) -> bool {
        self.0.ip().is_loopback()
    }

    /// Whether it means something on one link only.
    pub const fn is_link_local(self) -> bool {
        match self.0.ip() {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.is_unicast_link_local(),
        }
    }
}

impl From<SocketAddr> for SocketAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address)
    }
}

/// The URI that address vectors print.
impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SocketAddr::V4(v4) => write!(f, "{IPV4_SCHEME}{v4}"),
            SocketAddr::V6(v6) => write!(f, "{IPV6_SCHEME}[{}]:{}", v6.ip(), v6.port()),
        }
    }
}

impl fmt::Debug for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

const IPV4_SCHEME: &str = "fi_sockaddr_in://";
const IPV6_SCHEME: &str = "fi_sockaddr_in6://";

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests;
