//! SETUP. The kernel's lists of links and addresses (`rtnetlink(7)`).
//!
//! The lists tell more than `getifaddrs`: what a link is made of, and whether an address can be
//! bound yet. Messages are read as bytes, with every length checked; what a newer kernel adds is
//! passed over.

use core::net::IpAddr;

use fabric_core::{Errno, Result};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// A list of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Links,
    Addresses,
}

/// One message of a list: what stands in front of its attributes, and these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    head: &'a [u8],
    attributes: &'a [u8],
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    /// `IFF_*`.
    pub(super) flags: u32,
    pub(super) mtu: u32,
    /// As drivers call themselves: `bridge`, `veth`; empty for devices.
    pub(super) kind: String,
    /// The hardware address.
    pub(super) hardware: Vec<u8>,
}

/// An address of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) index: u32,
    pub(super) ip: IpAddr,
    pub(super) prefix: u8,
    /// `IFA_F_*`.
    pub(super) flags: u32,
    /// The name that IPv4 addresses may have of their own.
    pub(super) label: Option<String>,
}

const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
/// A request for a whole list.
const NLM_F_REQUEST_DUMP: u16 = 0x301;
/// The list changed while it was being written.
const NLM_F_DUMP_INTR: u16 = 0x10;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_FLAGS: u16 = 8;

/// The kernel writes no longer pieces of a list, so none is cut.
const PIECE: usize = 64 << 10;
/// Lists that change all the time are taken as they are in the end.
const TRIES: usize = 4;

impl List {
    const fn request(self) -> u16 {
        match self {
            Self::Links => RTM_GETLINK,
            Self::Addresses => RTM_GETADDR,
        }
    }

    const fn reply(self) -> u16 {
        match self {
            Self::Links => RTM_NEWLINK,
            Self::Addresses => RTM_NEWADDR,
        }
    }

    /// Bytes in front of the attributes: `struct ifinfomsg` or `struct ifaddrmsg`.
    const fn head(self) -> usize {
        match self {
            Self::Links => 16,
            Self::Addresses => 8,
        }
    }

    /// Asks the kernel of this network namespace; `each` gets every message.
    pub(super) fn read(self, mut each: impl FnMut(Message<'_>)) -> Result<()> {
        let flags = SocketFlags::CLOEXEC;
        let family = AddressFamily::NETLINK;
        // Routing is the first of the families of netlink, number 0.
        let socket = socket_with(family, SocketType::RAW, flags, None)?;
        // A socket that is bound to nobody in particular reaches the kernel.
        send(&socket, &self.ask(), SendFlags::empty())?;
        let mut piece = vec![0; PIECE];
        loop {
            let (len, whole) = recv(&socket, &mut piece[..], RecvFlags::TRUNC)?;
            if whole > len || len == 0 {
                return Err(Errno::EIO);
            }
            match self.messages(&piece[..len], &mut each)? {
                Progress::More => {}
                Progress::Done => return Ok(()),
            }
        }
    }

    fn ask(self) -> Vec<u8> {
        let len = HEADER + self.head();
        let mut request = Vec::with_capacity(len);
        request.extend_from_slice(&u32::try_from(len).unwrap_or(0).to_ne_bytes());
        request.extend_from_slice(&self.request().to_ne_bytes());
        request.extend_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
        // Sequence and port, then every family and nothing in particular: zeroes.
        request.resize(len, 0);
        request
    }

    /// Walks the messages of one piece. `EIO` for bytes that are no messages, the kernel's own
    /// number for its refusal, `EINTR` for a list that has changed.
    fn messages(self, piece: &[u8], each: &mut impl FnMut(Message<'_>)) -> Result<Progress> {
        let mut rest = piece;
        while !rest.is_empty() {
            let len = u32_at(rest, 0).ok_or(Errno::EIO)? as usize;
            let (kind, flags) = u16_at(rest, 4).zip(u16_at(rest, 6)).ok_or(Errno::EIO)?;
            let body = rest.get(HEADER..len).ok_or(Errno::EIO)?;
            if flags & NLM_F_DUMP_INTR != 0 {
                return Err(Errno::EINTR);
            }
            match kind {
                NLMSG_DONE => return Ok(Progress::Done),
                NLMSG_ERROR => {
                    let code = u32_at(body, 0).map_or(0, u32::cast_signed);
                    return Err(Errno::new(code.checked_neg().filter(|n| *n > 0).unwrap_or(5)));
                }
                kind if kind == self.reply() => {
                    let (head, attributes) =
                        body.split_at_checked(self.head()).ok_or(Errno::EIO)?;
                    each(Message { head, attributes });
                }
                _ => {}
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(Progress::More)
    }
}

enum Progress {
    More,
    Done,
}

impl Message<'_> {
    fn attribute(&self, kind: u16) -> Option<&[u8]> {
        find(self.attributes, kind)
    }

    pub(super) fn link(&self) -> Option<Link> {
        let kind = self.attribute(IFLA_LINKINFO).and_then(|info| find(info, IFLA_INFO_KIND));
        Some(Link {
            index: u32_at(self.head, 4)?,
            flags: u32_at(self.head, 8)?,
            name: text(self.attribute(IFLA_IFNAME)?)?,
            mtu: self.attribute(IFLA_MTU).and_then(|bytes| u32_at(bytes, 0)).unwrap_or(0),
            kind: kind.and_then(text).unwrap_or_default(),
            hardware: self.attribute(IFLA_ADDRESS).unwrap_or_default().to_vec(),
        })
    }

    /// `None` for families that are neither IPv4 nor IPv6.
    pub(super) fn address(&self) -> Option<Address> {
        // On a link between two hosts the other attribute is the peer's.
        let ip = self.attribute(IFA_LOCAL).or_else(|| self.attribute(IFA_ADDRESS))?;
        let ip = match *self.head.first()? {
            2 => IpAddr::from(<[u8; 4]>::try_from(ip).ok()?),
            10 => IpAddr::from(<[u8; 16]>::try_from(ip).ok()?),
            _ => return None,
        };
        let flags = self.attribute(IFA_FLAGS).and_then(|bytes| u32_at(bytes, 0));
        Some(Address {
            index: u32_at(self.head, 4)?,
            ip,
            prefix: *self.head.get(1)?,
            flags: flags.unwrap_or(u32::from(*self.head.get(2)?)),
            label: self.attribute(IFA_LABEL).and_then(text),
        })
    }
}

/// Collects a list, again if it changed meanwhile.
pub(super) fn collect<T>(list: List, one: impl Fn(Message<'_>) -> Option<T>) -> Result<Vec<T>> {
    let mut last = Errno::EINTR;
    for _ in 0..TRIES {
        let mut found = Vec::new();
        match list.read(|message| found.extend(one(message))) {
            Ok(()) => return Ok(found),
            Err(error) if error == Errno::EINTR => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// The first attribute of a kind among those laid end to end.
fn find(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    /// Two bits of the kind are flags.
    const KIND: u16 = 0x3fff;
    let mut rest = attributes;
    loop {
        let len = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & KIND;
        let value = rest.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8(bytes[..end].to_vec()).ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let len = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(HEADER + body.len()).unwrap();
        let head = [&len.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8]];
        [&head.concat()[..], body].concat()
    }

    fn all<T>(list: List, piece: &[u8], one: impl Fn(Message<'_>) -> Option<T>) -> Result<Vec<T>> {
        let mut found = Vec::new();
        list.messages(piece, &mut |message| found.extend(one(message)))?;
        Ok(found)
    }

    #[test]
    fn a_link() {
        let mut head = [0; 16];
        head[4] = 7;
        head[8..12].copy_from_slice(&0x1043_u32.to_ne_bytes());
        let body = [
            &head[..],
            &attribute(IFLA_IFNAME, b"br0\0"),
            &attribute(0x8000 | 99, b"new"),
            &attribute(IFLA_MTU, &1500_u32.to_ne_bytes()),
            &attribute(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]),
            &attribute(0x8000 | IFLA_LINKINFO, &attribute(IFLA_INFO_KIND, b"bridge\0")),
        ];
        let piece = [message(RTM_NEWLINK, 2, &body.concat()), message(NLMSG_DONE, 2, &[0; 4])];
        let links = all(List::Links, &piece.concat(), |m| m.link()).unwrap();
        let expected = Link {
            index: 7,
            name: "br0".into(),
            flags: 0x1043,
            mtu: 1500,
            kind: "bridge".into(),
            hardware: vec![2, 0, 0, 0, 0, 1],
        };
        assert_eq!(links, [expected]);
    }

    #[test]
    fn addresses() {
        let v4 = [
            &[2, 24, 0x80, 0, 7, 0, 0, 0][..],
            &attribute(IFA_ADDRESS, &[10, 0, 0, 2]),
            &attribute(IFA_LOCAL, &[10, 0, 0, 1]),
            &attribute(IFA_LABEL, b"br0:1\0"),
        ];
        let v6 = [
            &[10, 64, 0x80, 0, 7, 0, 0, 0][..],
            &attribute(IFA_ADDRESS, &[0xfe; 16]),
            &attribute(IFA_FLAGS, &0x240_u32.to_ne_bytes()),
        ];
        let other = [&[7, 0, 0, 0, 7, 0, 0, 0][..], &attribute(IFA_ADDRESS, &[1])];
        let piece = [v4.concat(), v6.concat(), other.concat()].map(|m| message(RTM_NEWADDR, 2, &m));
        let found = all(List::Addresses, &piece.concat(), |m| m.address()).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].ip, found[0].prefix), ([10, 0, 0, 1].into(), 24));
        assert_eq!((found[0].flags, found[0].label.as_deref()), (0x80, Some("br0:1")));
        assert_eq!((found[1].flags, found[1].label.as_deref()), (0x240, None));
    }

    #[test]
    fn refusals_and_changes() {
        let none = |_: Message<'_>| None::<()>;
        let error = message(NLMSG_ERROR, 0, &(-1_i32).to_ne_bytes());
        assert_eq!(all(List::Links, &error, none), Err(Errno::EPERM));
        let changed = message(RTM_NEWLINK, NLM_F_DUMP_INTR, &[0; 16]);
        assert_eq!(all(List::Links, &changed, none), Err(Errno::EINTR));
        assert_eq!(all(List::Links, &message(RTM_NEWLINK, 0, &[0; 8]), none), Err(Errno::EIO));
        assert_eq!(all(List::Links, &[0; 16], none), Err(Errno::EIO));
    }

    #[test]
    fn this_host_has_loopback() {
        let links = collect(List::Links, |message| message.link()).unwrap();
        assert!(links.iter().any(|link| link.name == "lo" && link.index != 0), "{links:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            body in proptest::collection::vec(any::<u8>(), 0..80),
            kind in 0_u16..30,
            cut in 0_usize..100,
        ) {
            let piece = message(kind, 0, &body);
            for list in [List::Links, List::Addresses] {
                let piece = &piece[..cut.min(piece.len())];
                let _ = all(list, piece, |m| m.link());
                let _ = all(list, piece, |m| m.address());
            }
        }
    }
}
