//! SETUP. The host's interfaces: which addresses can be used, and which are used first.
//!
//! Each address of an interface is a candidate of its own. Left out is what no peer can be reached
//! from: interfaces that are down or have no carrier, and addresses that cannot be bound. The order
//! is that of [`rank`]; `FI_TCP_IFACE` chooses among them.

mod linux;
mod netlink;
mod rank;

use std::net::IpAddr;

use fabric_core::{
    Result,
    param::{InterfaceFilter, Pattern, same_subnet},
};

pub use fabric_core::inet::{NoRoute, source_for};
pub use linux::read;
pub use rank::rank;

use crate::address::{Family, SocketAddress};

/// What an interface is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A device, or several as one (VLAN, bond, and what virtual machines see as a device).
    #[default]
    Device,
    /// One end of a pair, as in containers; the other end is a device's, or a bridge's.
    Pair,
    /// Joins interfaces of this host: containers and virtual machines, rarely a cluster.
    Bridge,
    /// Wraps packets or leads nowhere: VPN, overlay, dummy.
    Tunnel,
    /// The host itself.
    Loopback,
}

/// One address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name, or the label of an additional address (`eth0:1`).
    pub name: String,
    /// The interface's index.
    pub index: u32,
    /// The address, with port 0; a link-local one with its scope.
    pub address: SocketAddress,
    /// Bits of the address that the subnet shares.
    pub prefix: u8,
    /// Not the first address of its subnet.
    pub secondary: bool,
    /// To be used for what began with it only.
    pub deprecated: bool,
    /// Not (yet) to be used: the kernel is still looking for duplicates, or has found one.
    pub unusable: bool,
    /// Switched on.
    pub up: bool,
    /// Has carrier, as far as one is needed.
    pub running: bool,
    /// What it is made of.
    pub kind: Kind,
    /// Leads to everywhere (default route).
    pub default_route: bool,
    /// Largest packet.
    pub mtu: u32,
    /// Megabits a second; 0 where the device does not tell.
    pub speed: u32,
}

impl Interface {
    /// Whether peers can be reached from this address now.
    pub const fn is_usable(&self) -> bool {
        self.up && self.running && !self.unusable
    }

    /// Whether the address stays within the host. What else the loopback interface has is the
    /// host's to the outside.
    pub const fn is_loopback(&self) -> bool {
        self.address.is_loopback()
    }

    /// The name of the subnet, as the fabric attributes carry it: `10.0.0.0/24`. Loopback reaches
    /// nobody else, so its subnet is the address.
    pub fn subnet(&self) -> String {
        let (prefix, whole) = match self.address.family() {
            Family::Ipv4 => (self.prefix.min(32), 32),
            Family::Ipv6 => (self.prefix.min(128), 128),
        };
        let prefix = if self.is_loopback() { whole } else { prefix };
        let unshared = u32::from(whole - prefix);
        let first = match self.address.ip() {
            IpAddr::V4(ip) => {
                IpAddr::V4((ip.to_bits() & u32::MAX.checked_shl(unshared).unwrap_or(0)).into())
            }
            IpAddr::V6(ip) => {
                IpAddr::V6((ip.to_bits() & u128::MAX.checked_shl(unshared).unwrap_or(0)).into())
            }
        };
        format!("{first}/{prefix}")
    }

    /// Whether an address is of this host by way of this one: it is the same one, or both are
    /// loopback's.
    pub fn owns(&self, address: SocketAddress) -> bool {
        let (own, other) = (self.address.ip(), address.ip());
        let same_scope = !address.is_link_local() || [0, self.index].contains(&address.scope());
        (own == other && same_scope)
            || (self.is_loopback() && self.is_usable() && same_subnet(own, other, self.prefix))
    }
}

/// Whether a name is that of a subnet, which some host may have: as [`Interface::subnet`] makes them.
pub fn is_subnet(name: &str) -> bool {
    let Some((first, prefix)) = name.split_once('/') else { return false };
    let whole = match first.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    prefix.parse::<u8>().is_ok_and(|prefix| prefix <= whole)
}

/// The interfaces of this host, best first, and which of them are to be used.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    all: Vec<Interface>,
    filter: InterfaceFilter,
}

impl Interfaces {
    /// Asks the kernel.
    pub fn of_host(filter: InterfaceFilter) -> Result<Self> {
        Ok(Self::new(read()?, filter))
    }

    /// Puts them in order.
    pub fn new(mut all: Vec<Interface>, filter: InterfaceFilter) -> Self {
        rank(&mut all);
        Self { all, filter }
    }

    /// Those to use, best first.
    pub fn usable(&self) -> impl Iterator<Item = &Interface> {
        self.all.iter().filter(|each| each.is_usable() && self.accepts(each))
    }

    /// Those to list: of the loopback interface, the one address of each family that every host has,
    /// and what the filter names by address.
    pub fn listed(&self) -> impl Iterator<Item = &Interface> {
        let ordinary = |each: &&Interface| {
            let address = each.address;
            let by_address = |pattern: &Pattern| {
                matches!(pattern, Pattern::Subnet(..)) && pattern.fits(&each.name, address.ip())
            };
            each.kind != Kind::Loopback
                || address == address.family().loopback(0)
                || self.filter.taken().iter().any(by_address)
        };
        self.usable().filter(ordinary)
    }

    /// Whether the program may choose addresses that are of no interface in particular.
    pub fn are_all(&self) -> bool {
        self.filter.is_all()
    }

    /// The one that an address of this host belongs to, used or not.
    pub fn owner(&self, address: SocketAddress) -> Option<&Interface> {
        let exact =
            self.all.iter().find(|each| each.address.ip() == address.ip() && each.owns(address));
        exact.or_else(|| self.all.iter().find(|each| each.owns(address)))
    }

    /// Whether `FI_TCP_IFACE` takes this one.
    pub fn accepts(&self, each: &Interface) -> bool {
        self.filter.accepts(&each.name, each.address.ip())
    }

    /// The parts of the filter that take none of the interfaces there are.
    pub fn strangers(&self) -> impl Iterator<Item = &Pattern> {
        let fits = |pattern: &Pattern| {
            self.all.iter().any(|each| pattern.fits(&each.name, each.address.ip()))
        };
        self.filter.taken().iter().filter(move |pattern| !fits(pattern))
    }

    /// All of them for a report: names and addresses, and what is the matter with those that
    /// cannot be used.
    pub fn describe(&self) -> String {
        let describe = |each: &Interface| {
            let state = match each {
                Interface { up: false, .. } => " (down)",
                each if !each.is_usable() && !each.unusable => " (no carrier)",
                Interface { unusable: true, .. } => " (address not ready)",
                _ => "",
            };
            format!("{} {}{state}", each.name, each.address.ip())
        };
        let all: Vec<String> = self.all.iter().map(describe).collect();
        if all.is_empty() { "no interface with an address".to_owned() } else { all.join(", ") }
    }
}

#[cfg(test)]
pub(crate) mod tests;
