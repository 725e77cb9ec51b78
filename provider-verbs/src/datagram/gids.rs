//! SETUP. The global identifiers of a port: which of them is an endpoint's, and which goes with that of
//! a peer.

use std::{fmt, fs, net::Ipv6Addr};

use fabric_core::log::Subsys;

use crate::{NAME, settings, sys::Context};

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
    /// Somebody wants it to be that one.
    chosen: bool,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.routed { "" } else { " (RoCE v1)" };
        write!(f, "{} {}{kind}", self.index, Ipv6Addr::from(self.gid))
    }
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
        let (own, chosen) = settings::gid();
        let gids = Self { entries, own, chosen };
        gids.tell(device, port);
        gids
    }

    /// Has the log say which there are.
    fn tell(&self, device: &str, port: u8) {
        let list: Vec<String> = self.entries.iter().map(Entry::to_string).collect();
        fabric_core::info!(
            NAME,
            Subsys::EpCtrl,
            "{device} port {port} has the identifiers {}; endpoints are named by entry {} \
             (FI_VERBS_GID_IDX)",
            list.join(", "),
            self.own
        );
    }

    /// The identifier that endpoints are named by; zero if there is none.
    pub(crate) fn own(&self) -> [u8; 16] {
        self.entry(self.own).map_or([0; 16], |entry| entry.gid)
    }

    /// The entry to send to a peer with, of those of the same kind of network: the one that endpoints
    /// are named by if somebody has chosen it or routers know it, else one that routers know, else any.
    pub(crate) fn towards(&self, peer: &[u8; 16]) -> u8 {
        let same = |entry: &&Entry| Kind::of(&entry.gid) == Kind::of(peer);
        let own = self.entry(self.own).filter(same).filter(|own| self.chosen || own.routed);
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
    use super::*;

    fn gid(text: &str) -> [u8; 16] {
        text.parse::<Ipv6Addr>().unwrap().octets()
    }

    fn gids(own: u8, chosen: bool) -> Gids {
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
            chosen,
        }
    }

    #[test]
    fn the_network_of_the_peer_decides() {
        for (own, chosen, peer, index) in [
            (0, true, "fe80::2", 0),
            (0, false, "fe80::2", 1),
            (1, true, "fe80::2", 1),
            (0, true, "::ffff:10.0.0.2", 3),
            (2, true, "::ffff:10.0.0.2", 2),
            (2, false, "::ffff:10.0.0.2", 3),
            (0, true, "fd00::2", 4),
            (0, true, "ff12:401b:ffff::5", 0),
            (0, true, "ff0e::ffff:224.1.2.3", 3),
            (9, true, "fe80::2", 1),
        ] {
            let way = gids(own, chosen).towards(&gid(peer));
            assert_eq!(way, index, "{own} ({chosen}) to {peer}");
        }
        assert_eq!((gids(9, true).own(), gids(4, false).own()), ([0; 16], gid("fd00::1")));
        assert_eq!(gids(0, false).entries[0].to_string(), "0 fe80::1 (RoCE v1)");
    }
}
