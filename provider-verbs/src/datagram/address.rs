//! SETUP. Addresses of datagram endpoints (`FI_ADDR_IB_UD`), and the format of their address vectors.

use std::{fmt, net::Ipv6Addr};

use fabric_core::{Errno, Result, attr::addr_format, av::AddressFormat};

/// Bytes of an address.
pub(crate) const LEN: usize = 32;
/// Bytes of it that mean something; the others are padding.
const USED: usize = 27;
/// Numbers of queue pairs have 24 bits.
const NUMBERS: u32 = 1 << 24;

/// Where a queue pair is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DatagramAddress {
    /// The port's global identifier, in network order; zero where there is none.
    pub gid: [u8; 16],
    /// The queue pair.
    pub number: u32,
    /// The port in its InfiniBand subnet; zero on Ethernet.
    pub lid: u16,
    /// The partition.
    pub pkey: u16,
    /// The service that name servers know it under.
    pub service: u16,
    /// The service level.
    pub level: u8,
}

impl DatagramAddress {
    /// Reads one from the front of `bytes`; `None` if they are too few.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<LEN>()?;
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Some(Self {
            gid: *bytes.first_chunk()?,
            number: u32::from_ne_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]),
            lid: half(20),
            pkey: half(22),
            service: half(24),
            level: bytes[26],
        })
    }

    /// The bytes of C's struct.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let parts: [&[u8]; 6] = [
            &self.gid,
            &self.number.to_ne_bytes(),
            &self.lid.to_ne_bytes(),
            &self.pkey.to_ne_bytes(),
            &self.service.to_ne_bytes(),
            &[self.level],
        ];
        bytes[..USED].copy_from_slice(&parts.concat());
        bytes
    }

    /// Whether datagrams can be sent there. The first two numbers are the subnet's management.
    const fn is_target(&self) -> bool {
        1 < self.number && self.number < NUMBERS
    }
}

/// The URI that address vectors print.
impl fmt::Display for DatagramAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gid, number, lid, pkey, level, .. } = *self;
        let gid = Ipv6Addr::from(gid);
        write!(f, "fi_addr_ib_ud://{gid}:{number:x}/{lid:x}/{pkey:x}/{level:x}")
    }
}

/// The format of address vectors of datagram endpoints.
#[derive(Clone, Copy, Debug)]
pub struct DatagramAddresses;

impl AddressFormat for DatagramAddresses {
    fn addr_format(&self) -> u32 {
        addr_format::IB_UD
    }

    fn parse(&self, bytes: &[u8]) -> Result<(Box<[u8]>, usize)> {
        let address = DatagramAddress::read(bytes).ok_or(Errno::EINVAL)?;
        if address.is_target() {
            Ok((Box::new(address.to_bytes()), LEN))
        } else {
            Err(Errno::EINVAL)
        }
    }

    fn fault(&self, bytes: &[u8]) -> String {
        match DatagramAddress::read(bytes) {
            Some(address) => {
                format!("its queue pair is {:#x}, which takes no messages", address.number)
            }
            None => {
                format!("it has {} bytes; expected {LEN}, as fi_getname gives them", bytes.len())
            }
        }
    }

    fn text(&self, canonical: &[u8]) -> String {
        DatagramAddress::read(canonical).unwrap_or_default().to_string()
    }

    fn addr_len(&self) -> Option<usize> {
        Some(LEN)
    }

    /// `ENOSYS`: only peers know their queue pairs.
    fn service_address(&self, _: Option<&str>, _: Option<&str>) -> Result<Box<[u8]>> {
        Err(Errno::ENOSYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> DatagramAddress {
        DatagramAddress {
            gid: "fe80::1".parse::<Ipv6Addr>().unwrap().octets(),
            number: 0x11,
            lid: 2,
            pkey: 0xffff,
            service: 7,
            level: 3,
        }
    }

    #[test]
    fn there_and_back() {
        let bytes = address().to_bytes();
        assert_eq!(DatagramAddress::read(&bytes), Some(address()));
        assert_eq!(DatagramAddress::read(&bytes[..31]), None);
        assert_eq!(address().to_string(), "fi_addr_ib_ud://fe80::1:11/2/ffff/3");
        assert_eq!(DatagramAddress::default().to_string(), "fi_addr_ib_ud://:::0/0/0/0");
    }

    #[test]
    fn one_spelling() {
        let mut bytes = address().to_bytes().to_vec();
        bytes[LEN - 1] = 9;
        bytes.extend([1; 40]);
        let (canonical, taken) = DatagramAddresses.parse(&bytes).unwrap();
        assert_eq!((&*canonical, taken), (&address().to_bytes()[..], LEN));
    }

    #[test]
    fn what_is_no_target() {
        for number in [0, 1, NUMBERS, u32::MAX] {
            let bytes = DatagramAddress { number, ..address() }.to_bytes();
            assert_eq!(DatagramAddresses.parse(&bytes).unwrap_err(), Errno::EINVAL);
            assert!(DatagramAddresses.fault(&bytes).contains("queue pair"));
        }
        assert!(DatagramAddresses.fault(&[0; 3]).contains("has 3 bytes"));
    }
}
