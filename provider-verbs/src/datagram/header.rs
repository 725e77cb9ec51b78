//! HOT. The global route header in front of a received message, and who has sent it.

use super::address::DatagramAddress;
use crate::sys::{
    HEADER,
    abi::{IBV_WC_GRH, ibv_wc},
};

/// Where IPv4's header begins: the longer one of IPv6 has the whole room.
const IPV4: usize = HEADER - 20;

/// A sender, as far as a message names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A global identifier and a queue pair.
    Global([u8; 16], u32),
    /// A port of the subnet, and a queue pair.
    Subnet(u16, u32),
}

impl Source {
    /// The sender at an address.
    pub(super) fn of(address: &DatagramAddress) -> Self {
        if address.gid == [0; 16] {
            Self::Subnet(address.lid, address.number)
        } else {
            Self::Global(address.gid, address.number)
        }
    }

    /// Who has sent what a completion tells of; `header` is what stands in front of the message.
    pub(super) fn told(completion: &ibv_wc, header: &[u8; HEADER]) -> Self {
        if completion.wc_flags & IBV_WC_GRH == 0 {
            Self::Subnet(completion.slid, completion.src_qp)
        } else {
            Self::Global(sender(header), completion.src_qp)
        }
    }
}

/// The sender's identifier. RoCE over IPv4 leaves that header at the end of the room, and its address
/// stands for the identifier.
fn sender(header: &[u8; HEADER]) -> [u8; 16] {
    let ipv4 = &header[IPV4..];
    let mut gid = [0; 16];
    // What stands before it can be anything, and drivers that are software may leave the sum out.
    let other = header[0] >> 4 == 6 && checksum(ipv4) != 0xffff;
    if ipv4[0] == 0x45 && !other {
        gid[10..12].fill(0xff);
        gid[12..].copy_from_slice(&ipv4[12..16]);
    } else {
        gid.copy_from_slice(&header[8..24]);
    }
    gid
}

/// The sum over a header of IPv4's, all ones if it is one.
fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_grh(number: u32) -> ibv_wc {
        let mut wc = ibv_wc::zeroed();
        (wc.wc_flags, wc.src_qp, wc.slid) = (IBV_WC_GRH, number, 9);
        wc
    }

    #[test]
    fn senders_over_ipv6_and_infiniband() {
        let mut header = [0; HEADER];
        header[0] = 0x60;
        header[8..24].copy_from_slice(&[7; 16]);
        assert_eq!(Source::told(&with_grh(5), &header), Source::Global([7; 16], 5));
        let mut wc = with_grh(5);
        wc.wc_flags = 0;
        assert_eq!(Source::told(&wc, &header), Source::Subnet(9, 5));
        let address = DatagramAddress { lid: 9, number: 5, ..DatagramAddress::default() };
        assert_eq!(Source::of(&address), Source::Subnet(9, 5));
    }

    #[test]
    fn senders_over_ipv4() {
        // From 10.99.0.1 to 10.99.0.2.
        let mut header = [0; HEADER];
        header[IPV4..].copy_from_slice(&[
            0x45, 0, 0, 0x50, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 10, 99, 0, 1, 10, 99, 0, 2,
        ]);
        let sum = !checksum(&header[IPV4..]);
        header[IPV4 + 10..IPV4 + 12].copy_from_slice(&sum.to_be_bytes());
        let gid = "::ffff:10.99.0.1".parse::<std::net::Ipv6Addr>().unwrap().octets();
        assert_eq!(Source::told(&with_grh(5), &header), Source::Global(gid, 5));
        header[0] = 0x6f;
        assert_eq!(sender(&header), gid, "whatever stands before it");
        header[IPV4 + 10] ^= 1;
        assert_ne!(sender(&header), gid, "no header of IPv4's");
        header[0] = 0;
        assert_eq!(sender(&header), gid, "without a sum");
    }
}
