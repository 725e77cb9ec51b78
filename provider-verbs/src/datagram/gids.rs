//! SETUP. The global identifiers of a port: which of them is an endpoint's, and which goes with that of
//! a peer.

use std::fs;

use fabric_core::param::known;

use crate::sys::Context;

/// Empty entries in a row after which the rest of a table is not looked at.
const GAP: usize = 16;
/// Entries that can be named.
const ENTRIES: u8 = u8::MAX;

/// What networks an identifier belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `fe80::/10`: the link alone.
    Link,
    /// An IPv4 address.
    Ipv4,
    /// Everything else.
    Global,
}

/// An entry of a port's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    index: u8,
    gid: [u8; 16],
    /// Packets with it are UDP's, which routers know; on InfiniBand, there are no others.
    routed: bool,
}

/// The table of a port.
#[derive(Clone, Debug)]
pub(crate) struct Gids {
    entries: Vec<Entry>,
    /// The entry that endpoints are named by.
    own: u8,
}

impl Kind {
    fn of(gid: &[u8; 16]) -> Self {
        match gid {
            [0xfe, second, ..] if second & 0xc0 == 0x80 => Self::Link,
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => Self::Ipv4,
            // A group of IPv4's.
            [0xff, _, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => Self::Ipv4,
            [0xff, second, ..] if second & 0xf == 2 => Self::Link,
            _ => Self::Global,
        }
    }
}

impl Gids {
    /// Reads it from an open device.
    pub(crate) fn of(context: Context, port: u8, device: &str) -> Self {
        let mut entries = Vec::new();
        let mut gap = 0;
        for index in 0..ENTRIES {
            let gid = context.gid(port, index).unwrap_or_default();
            gap = if gid == [0; 16] { gap + 1 } else { 0 };
            if gap == 0 {
                entries.push(Entry { index, gid, routed: is_routed(device, port, index) });
            } else if gap > GAP {
                break;
            }
        }
        Self { entries, own: known::VERBS_GID_IDX.size() as u8 }
    }

    /// The identifier that endpoints are named by; zero if there is none.
    pub(crate) fn own(&self) -> [u8; 16] {
        self.entry(self.own).map_or([0; 16], |entry| entry.gid)
    }

    /// The entry to send to a peer with. Of entries of the same kind of network the one that endpoints
    /// are named by is the first choice, and one that routers know the second.
    pub(crate) fn towards(&self, peer: &[u8; 16]) -> u8 {
        let same = |entry: &&Entry| Kind::of(&entry.gid) == Kind::of(peer);
        let own = self.entry(self.own).filter(same);
        let routed = || self.entries.iter().filter(same).find(|entry| entry.routed);
        let any = || self.entries.iter().find(same);
        own.or_else(routed).or_else(any).map_or(self.own, |entry| entry.index)
    }

    fn entry(&self, index: u8) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.index == index)
    }
}

fn is_routed(device: &str, port: u8, index: u8) -> bool {
    let path = format!("/sys/class/infiniband/{device}/ports/{port}/gid_attrs/types/{index}");
    fs::read_to_string(path).map_or(true, |kind| kind.trim() != "IB/RoCE v1")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn gid(text: &str) -> [u8; 16] {
        text.parse::<Ipv6Addr>().unwrap().octets()
    }

    fn gids(own: u8) -> Gids {
        let entry = |index, text, routed| Entry { index, gid: gid(text), routed };
        Gids {
            entries: vec![
                entry(0, "fe80::1", false),
                entry(1, "fe80::1", true),
                entry(2, "::ffff:10.0.0.1", false),
                entry(3, "::ffff:10.0.0.1", true),
                entry(4, "fd00::1", true),
            ],
            own,
        }
    }

    #[test]
    fn the_network_of_the_peer_decides() {
        for (own, peer, index) in [
            (0, "fe80::2", 0),
            (1, "fe80::2", 1),
            (0, "::ffff:10.0.0.2", 3),
            (2, "::ffff:10.0.0.2", 2),
            (0, "fd00::2", 4),
            (0, "ff12:401b:ffff::5", 0),
            (0, "ff0e::ffff:224.1.2.3", 3),
            (9, "fe80::2", 1),
        ] {
            assert_eq!(gids(own).towards(&gid(peer)), index, "{own} to {peer}");
        }
        assert_eq!((gids(9).own(), gids(4).own()), ([0; 16], gid("fd00::1")));
    }
}
