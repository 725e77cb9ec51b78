//! SETUP. Which address is used first.
//!
//! Programs take the first offer, so it must be one that other hosts reach. In this order:
//!
//! 1. global addresses, then link-local ones, loopback last;
//! 2. devices and whatever carries the default route, then pairs, bridges, tunnels;
//! 3. faster devices, as far as they tell their speed;
//! 4. the default route's interface;
//! 5. addresses that are not deprecated;
//! 6. the kernel's order of interfaces, IPv4 before IPv6, primary before secondary addresses, and
//!    the kernel's order of these.
//!
//! A bridge counts as a device where it carries the default route: the host's own address is there
//! then. Its speed is nobody's, and is not looked at.

use core::cmp::Reverse;

use super::{Interface, Kind};
use crate::address::Family;

/// Best first.
pub fn rank(interfaces: &mut [Interface]) {
    interfaces.sort_by_cached_key(|each| {
        let reach = match each {
            each if each.is_loopback() => 2,
            each if each.address.is_link_local() => 1,
            _ => 0,
        };
        let kind = if each.default_route { Kind::Device } else { each.kind };
        let speed = if each.kind == Kind::Device { each.speed } else { 0 };
        (
            (reach, kind, Reverse(speed), !each.default_route, each.deprecated),
            (each.index, each.address.family() == Family::Ipv6, each.secondary),
        )
    });
}
