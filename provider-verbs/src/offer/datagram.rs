//! SETUP. What verbs offers for datagrams: one offer for each port that is up, whether it has an IP
//! address or not.

use std::{net::IpAddr, sync::Arc};

use fabric_core::{
    attr::{DomainAttr, EpAttr, EpType, Info, RxAttr, TxAttr, addr_format, protocol},
    discovery::{Rejection, Request},
    flags::{Flags, Mode, Order},
    param::known,
};

use super::{DOMAIN, TX_OP_FLAGS, offered_size};
use crate::{
    NAME,
    datagram::{ADDRESS_LEN, DatagramAddress, address_of, domain_name},
    device::{Device, PIECES},
    sys::HEADER,
};

const TX: Flags = Flags::MSG.union(Flags::SEND);
const RX: Flags = Flags::MSG.union(Flags::RECV);
/// For programs that ask for it.
const EXTENSIONS: Flags = Flags::SOURCE.union(GROUPS);
const GROUPS: Flags = Flags::MULTICAST;

/// What a datagram endpoint can do.
pub(crate) const DATAGRAM_CAPS: Flags = TX.union(RX).union(DOMAIN).union(EXTENSIONS);

/// What other libraries ask of all programs.
const MODE: Mode = Mode::MSG_PREFIX.union(Mode::RX_CQ_DATA);

/// What the ports of this host offer for a request.
pub(super) fn datagram_offers(request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
    let devices = crate::device::datagram_ports()?;
    let own = own_address(request)?;
    let group = group(request);
    Ok(devices.iter().map(|device| offer(device, own, group, request)).collect())
}

/// Whether a request that leaves the type of endpoint open names addresses that are none of datagrams.
pub(super) fn means_others(request: &Request<'_>) -> bool {
    let of_hints = request.hints.is_some_and(|hints| {
        hints.addr_format != addr_format::IB_UD
            && !(hints.src_addr.is_empty() && hints.dest_addr.is_empty())
    });
    of_hints || request.node.is_some() || request.service.is_some()
}

/// The own address, of which a request can name the service.
fn own_address(request: &Request<'_>) -> Result<DatagramAddress, Box<Rejection>> {
    let hinted = request.hints.map_or(&[][..], |hints| &hints.src_addr);
    let mut own = match hinted {
        [] => DatagramAddress::default(),
        bytes => DatagramAddress::read(bytes).ok_or_else(|| {
            let wanted = format!("{} bytes", bytes.len());
            let fix = "give an address of FI_ADDR_IB_UD, whole, or none";
            Rejection::of(NAME, "src_addr", wanted, format!("{ADDRESS_LEN} bytes"), fix)
        })?,
    };
    if let (true, Some(service)) = (request.names_source(), request.service) {
        own.service = service.parse().map_err(|_| {
            let fix = "give a number below 65536";
            Rejection::of(NAME, "service", format!("{service:?}"), "numbers of services", fix)
        })?;
    }
    Ok(own)
}

/// The multicast group that a request names as its destination.
fn group(request: &Request<'_>) -> Option<DatagramAddress> {
    let node = request.node.filter(|_| !request.names_source())?;
    let ip = node.parse::<IpAddr>().ok()?;
    ip.is_multicast().then(|| address_of(ip))
}

pub(super) fn offer(
    device: &Arc<Device>,
    own: DatagramAddress,
    group: Option<DatagramAddress>,
    request: &Request<'_>,
) -> Info {
    let limits = &device.limits;
    let hints = request.hints;
    let of = |pick: fn(&Info) -> Flags| hints.map_or(Flags::empty(), pick);
    let asked = of(|hints| hints.caps | hints.rx.as_ref().map_or(Flags::empty(), |rx| rx.caps));
    let asked = if limits.groups == 0 { asked - GROUPS } else { asked };
    let tx_caps = TX | (asked & GROUPS);
    let rx_caps = RX | (asked & EXTENSIONS);
    // Programs that leave no room for the header get it out of their way.
    let mode = hints.map_or(MODE, |hints| {
        let of_rx = hints.rx.as_ref().map_or(Mode::empty(), |rx| rx.mode);
        MODE & (hints.mode | of_rx)
    });
    let prefixed = mode.contains(Mode::MSG_PREFIX);
    let pieces = (limits.pieces as usize).min(PIECES);
    let message = limits.mtu as usize;
    let inject = device.datagram_inline.map_or(0, |inline| inline as usize).min(message);
    let tx_size = hints.and_then(|hints| hints.tx.as_ref()).map_or(0, |tx| tx.size);
    let rx_size = hints.and_then(|hints| hints.rx.as_ref()).map_or(0, |rx| rx.size);
    Info {
        caps: tx_caps | rx_caps | DOMAIN,
        mode,
        addr_format: addr_format::IB_UD,
        src_addr: own.to_bytes().to_vec(),
        dest_addr: group.map(|group| group.to_bytes().to_vec()).unwrap_or_default(),
        tx: Some(TxAttr {
            caps: tx_caps,
            op_flags: TX_OP_FLAGS | (tx_caps & GROUPS),
            msg_order: Order::SAS,
            inject_size: inject,
            size: offered_size(known::VERBS_TX_SIZE.size(), tx_size, limits),
            iov_limit: pieces,
            ..TxAttr::default()
        }),
        rx: Some(RxAttr {
            caps: rx_caps,
            mode,
            op_flags: Flags::COMPLETION,
            msg_order: Order::SAS,
            size: offered_size(known::VERBS_RX_SIZE.size(), rx_size, limits),
            // The room for the header is a piece of its own.
            iov_limit: if prefixed { pieces } else { pieces.saturating_sub(1) },
            ..RxAttr::default()
        }),
        ep: Some(EpAttr {
            ep_type: EpType::Dgram as u32,
            protocol: protocol::IB_UD,
            protocol_version: 1,
            max_msg_size: message,
            msg_prefix_size: if prefixed { HEADER } else { 0 },
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        }),
        domain: Some(DomainAttr {
            name: Some(domain_name(&device.name)),
            // The device's shared receive queues are for connections.
            max_ep_srx_ctx: 0,
            caps: DOMAIN,
            ..super::domain(&device.name, limits, true)
        }),
        fabric: Some(super::fabric(device)),
        nic: Some(device.nic.clone()),
    }
}

// As fi_getinfo(3) promises of prefixes.
const _: () = assert!(HEADER.is_multiple_of(8));
