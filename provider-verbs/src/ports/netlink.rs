//! SETUP. The network interfaces of RDMA devices, as the kernel tells over netlink (`rdma link`): of
//! soft-iWARP, which no list of files names.

use fabric_core::{Errno, Result};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    sockopt,
};

/// `RDMA_NLDEV_CMD_GET` and `RDMA_NLDEV_CMD_PORT_GET` of `RDMA_NL_NLDEV`.
const DEVICES: u16 = 5 << 10 | 1;
const PORTS: u16 = 5 << 10 | 5;
const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const NDEV_NAME: u16 = 51;

const REQUEST: u16 = 1;
/// Root and match: all there are.
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;
/// What the kernel sends at a time at most.
const ROOM: usize = 32 << 10;
/// No kernel takes longer than this to answer what it knows.
const PATIENCE: core::time::Duration = core::time::Duration::from_secs(1);

/// A port, and the interface that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) device: String,
    pub(super) port: u32,
    pub(super) interface: String,
}

/// All ports that the kernel knows an interface of.
pub(super) fn links() -> Result<Vec<Link>> {
    let mut links = Vec::new();
    for device in ask(DEVICES, &[])? {
        let (Some(index), Some(name)) = (device.word(DEV_INDEX), device.text(DEV_NAME)) else {
            continue;
        };
        let ports = ask(PORTS, &attribute(DEV_INDEX, &index.to_ne_bytes()))?;
        links.extend(ports.iter().filter_map(|port| {
            let (port, interface) = (port.word(PORT_INDEX)?, port.text(NDEV_NAME)?);
            Some(Link { device: name.clone(), port, interface })
        }));
    }
    Ok(links)
}

/// What the kernel has of a kind.
fn ask(kind: u16, attributes: &[u8]) -> Result<Vec<Attributes>> {
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let socket = socket_with(family, SocketType::RAW, flags, Some(netlink::RDMA))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    send(&socket, &request(kind, attributes), SendFlags::empty())?;
    let (mut found, mut room) = (Vec::new(), vec![0u8; ROOM]);
    loop {
        let (len, _) = recv(&socket, &mut room[..], RecvFlags::empty())?;
        if len == 0 || take(&room[..len.min(ROOM)], &mut found)? {
            return Ok(found);
        }
    }
}

fn request(kind: u16, attributes: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(HEADER + attributes.len());
    all.extend((HEADER + attributes.len()).to_ne_bytes().first_chunk::<4>().unwrap_or(&[0; 4]));
    all.extend(kind.to_ne_bytes());
    all.extend((REQUEST | DUMP).to_ne_bytes());
    all.extend([0; 8]);
    all.extend(attributes);
    all
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    all.extend((4 + value.len() as u16).to_ne_bytes());
    all.extend(kind.to_ne_bytes());
    all.extend(value);
    all
}

/// Takes the messages of an answer in; whether it was the last one.
fn take(mut bytes: &[u8], found: &mut Vec<Attributes>) -> Result<bool> {
    while let Some((len, kind)) = header(bytes) {
        let message = bytes.get(HEADER..len).ok_or(Errno::EPROTO)?;
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let number = message.first_chunk::<4>().map_or(0, |n| i32::from_ne_bytes(*n));
                return if number == 0 {
                    Ok(true)
                } else {
                    Err(Errno::new(number.saturating_abs()))
                };
            }
            _ => found.push(Attributes(message.to_vec())),
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let len = u32::from_ne_bytes(*bytes.first_chunk::<4>()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..6)?.first_chunk::<2>()?);
    (len >= HEADER).then_some((len, kind))
}

/// What a message says.
struct Attributes(Vec<u8>);

impl Attributes {
    fn get(&self, wanted: u16) -> Option<&[u8]> {
        let mut bytes = &self.0[..];
        loop {
            let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk::<2>()?));
            let kind = u16::from_ne_bytes(*bytes.get(2..4)?.first_chunk::<2>()?);
            let value = bytes.get(4..len)?;
            if kind == wanted {
                return Some(value);
            }
            bytes = bytes.get(len.next_multiple_of(4)..)?;
        }
    }

    fn word(&self, kind: u16) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.get(kind)?.first_chunk::<4>()?))
    }

    fn text(&self, kind: u16) -> Option<String> {
        let text = core::str::from_utf8(self.get(kind)?).ok()?;
        Some(text.trim_end_matches('\0').to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut all = request(kind, body);
        all.resize(all.len().next_multiple_of(4), 0);
        all
    }

    fn padded(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut all = attribute(kind, value);
        all.resize(all.len().next_multiple_of(4), 0);
        all
    }

    #[test]
    fn answers_of_the_kernel() {
        let port = [
            padded(DEV_INDEX, &0u32.to_ne_bytes()),
            padded(DEV_NAME, b"siw0\0"),
            padded(PORT_INDEX, &1u32.to_ne_bytes()),
            padded(50, &7u32.to_ne_bytes()),
            padded(NDEV_NAME, b"eth1\0"),
        ]
        .concat();
        let answer = [message(PORTS, &port), message(DONE, &[0; 4])].concat();
        let mut found = Vec::new();
        assert!(take(&answer, &mut found).unwrap());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].word(PORT_INDEX), Some(1));
        assert_eq!(found[0].text(NDEV_NAME).as_deref(), Some("eth1"));
        assert_eq!((found[0].word(9), found[0].text(9)), (None, None));
        assert!(!take(&message(PORTS, &port), &mut found).unwrap(), "more follows");
        let refused = message(ERROR, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(take(&refused, &mut found).unwrap_err(), Errno::EPERM);
    }

    /// Whatever comes, it ends.
    #[test]
    fn nonsense() {
        for bytes in [&[][..], &[0; 3], &[0; 64], &[255; 64], &[17, 0, 0, 0, 9, 0]] {
            let _ = take(bytes, &mut Vec::new());
            let attributes = Attributes(bytes.to_vec());
            assert_eq!(attributes.word(7), None);
        }
    }

    #[test]
    fn of_this_host() {
        // Without the kernel's module there is no such protocol.
        println!("{:?}", links());
    }
}
