//! SETUP. What verbs offers to discovery: one offer for each device at each of its addresses, with the
//! limits of the device.
//!
//! Processes of one job may run on this library and on others that speak the same protocol, and
//! programs copy what they ask for from the first listing; so what is offered without being asked for
//! is the same on all of them: capabilities, orders, registration, formats, sizes.

mod datagram;
mod ends;
mod rdm;
#[cfg(test)]
mod tests;

use fabric_core::{
    attr::{
        API_VERSION, DomainAttr, EpAttr, EpType, FabricAttr, Info, PROV_VERSION, Progress,
        ResourceMgmt, RxAttr, Threading, TxAttr, protocol,
    },
    discovery::{Rejection, Request},
    flags::{Flags, Mode, MrMode, Order},
    inet::{Family, SocketAddress},
    param::known,
};

use crate::{
    NAME,
    device::{Device, Limits, PIECES},
};
pub(crate) use datagram::DATAGRAM_CAPS;
use ends::End;
pub(crate) use rdm::{RDM_CAPS, RDM_NAME, rdm_offers};

const SIDES: Flags = Flags::MSG.union(Flags::RMA);
const TX: Flags = SIDES.union(Flags::READ).union(Flags::WRITE).union(Flags::SEND);
const RX: Flags = SIDES.union(Flags::RECV).union(Flags::REMOTE_READ).union(Flags::REMOTE_WRITE);
const DOMAIN: Flags = Flags::LOCAL_COMM.union(Flags::REMOTE_COMM);
/// For programs that ask for it.
const EXTENSIONS: Flags = Flags::FENCE;

/// What a connected endpoint on some device can do.
pub(crate) const MSG_CAPS: Flags =
    TX.union(RX).union(DOMAIN).union(Flags::ATOMIC).union(EXTENSIONS);

/// The queue pair keeps order. Reads may still be served when later writes arrive, and do not hold
/// these up.
const ORDER: Order = Order::RAR
    .union(Order::RAW)
    .union(Order::RAS)
    .union(Order::WAW)
    .union(Order::WAS)
    .union(Order::SAW)
    .union(Order::SAS)
    .union(Order::RMA_RAR)
    .union(Order::RMA_RAW)
    .union(Order::RMA_WAW)
    .union(Order::ATOMIC_RAR)
    .union(Order::ATOMIC_RAW)
    .union(Order::ATOMIC_WAW);

const TX_OP_FLAGS: Flags = Flags::COMPLETION
    .union(Flags::INJECT)
    .union(Flags::INJECT_COMPLETE)
    .union(Flags::TRANSMIT_COMPLETE);

/// Contexts of a domain that belong to no queue of the device.
const CONTEXTS: usize = 1024;
/// What a connection request's answer may say.
const ERR_DATA: usize = 255;

/// Registration: everything that the device touches, in pages that exist, under its keys.
pub(crate) const MR_MODE: MrMode =
    MrMode::LOCAL.union(MrMode::VIRT_ADDR).union(MrMode::ALLOCATED).union(MrMode::PROV_KEY);

/// What this host offers for a request, best first: connections, and datagrams behind them. Ports without
/// an address have datagrams alone, which is news to those who ask for connections.
pub(crate) fn offers(request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
    let wanted = request.hints.and_then(|hints| hints.ep.as_ref()).map_or(0, |ep| ep.ep_type);
    match EpType::from_raw(wanted) {
        Some(EpType::Dgram) => datagram::datagram_offers(request),
        Some(EpType::Unspec) if !datagram::means_others(request) => {
            let connections = connected_offers(request);
            let datagrams = datagram::datagram_offers(request).unwrap_or_default();
            match connections {
                Ok(offers) => Ok([offers, datagrams].concat()),
                Err(_) if !datagrams.is_empty() => Ok(datagrams),
                rejected => rejected,
            }
        }
        _ => connected_offers(request),
    }
}

fn connected_offers(request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
    let places = crate::device::places()?;
    let ends = ends::of(&places, request)?;
    Ok(ends.iter().map(|end| offer(end, request)).collect())
}

fn offer(end: &End<'_>, request: &Request<'_>) -> Info {
    let Device { limits, name, .. } = end.device;
    let asked = request.hints.map_or(Flags::empty(), |hints| {
        hints.caps | hints.tx.as_ref().map_or(Flags::empty(), |tx| tx.caps)
    });
    let atomic = if limits.atomics { Flags::ATOMIC } else { Flags::empty() };
    let tx_caps = TX | atomic | (asked & EXTENSIONS);
    let rx_caps = RX | atomic;
    let family = end.source.or(end.dest).map_or(Family::Ipv4, SocketAddress::family);
    let bytes =
        |address: Option<SocketAddress>| address.map(SocketAddress::to_bytes).unwrap_or_default();
    let hints = request.hints;
    // Data along with a write takes a receive of the peer's. Programs that do not expect that get
    // none.
    let with_data = !limits.iwarp && hints.is_none_or(expects_data);
    let mode = if with_data { Mode::RX_CQ_DATA } else { Mode::empty() };
    let message = limits.message as usize;
    Info {
        caps: tx_caps | rx_caps | DOMAIN,
        mode,
        addr_format: family.addr_format(),
        src_addr: bytes(end.source),
        dest_addr: bytes(end.dest),
        tx: Some(TxAttr {
            caps: tx_caps,
            op_flags: TX_OP_FLAGS,
            msg_order: ORDER,
            inject_size: limits.inline as usize,
            size: offered_size(
                known::VERBS_TX_SIZE.size(),
                hints.and_then(|hints| hints.tx.as_ref()).map_or(0, |tx| tx.size),
                limits,
            ),
            iov_limit: (limits.pieces as usize).min(PIECES),
            rma_iov_limit: 1,
            ..TxAttr::default()
        }),
        rx: Some(RxAttr {
            caps: rx_caps,
            mode,
            op_flags: Flags::COMPLETION,
            msg_order: ORDER,
            size: offered_size(
                known::VERBS_RX_SIZE.size(),
                hints.and_then(|hints| hints.rx.as_ref()).map_or(0, |rx| rx.size),
                limits,
            ),
            iov_limit: (limits.pieces as usize).min(PIECES),
            ..RxAttr::default()
        }),
        ep: Some(EpAttr {
            ep_type: EpType::Msg as u32,
            protocol: if limits.iwarp { protocol::IWARP } else { protocol::RDMA_CM_IB_RC },
            protocol_version: 1,
            max_msg_size: message,
            max_order_raw_size: message,
            max_order_waw_size: message,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        }),
        domain: Some(domain(name, limits, with_data)),
        fabric: Some(fabric(end.device)),
        nic: Some(end.device.nic.clone()),
    }
}

/// Operations that an endpoint keeps: what a program wants of what the device has, at least the usual.
fn offered_size(usual: usize, wanted: usize, limits: &Limits) -> usize {
    let most = limits.queue as usize;
    usual.max(wanted.min(most)).min(most)
}

fn fabric(device: &Device) -> FabricAttr {
    FabricAttr {
        name: Some(device.fabric()),
        prov_name: Some(NAME.to_owned()),
        prov_version: PROV_VERSION,
        api_version: API_VERSION,
    }
}

/// Whether a program takes it that data costs a receive.
fn expects_data(hints: &Info) -> bool {
    let of_rx = hints.rx.as_ref().map_or(Mode::empty(), |rx| rx.mode);
    (hints.mode | of_rx).contains(Mode::RX_CQ_DATA)
}

fn domain(name: &str, limits: &Limits, with_data: bool) -> DomainAttr {
    DomainAttr {
        name: Some(name.to_owned()),
        threading: Threading::Safe as u32,
        progress: Progress::Auto as u32,
        control_progress: Progress::Auto as u32,
        // A message that finds no receive is the end of a connection of iWARP's.
        resource_mgmt: if limits.iwarp { ResourceMgmt::Disabled } else { ResourceMgmt::Enabled }
            as u32,
        mr_mode: MR_MODE,
        mr_key_size: size_of::<u32>(),
        cq_data_size: if with_data { size_of::<u32>() } else { 0 },
        cq_cnt: limits.cqs as usize,
        ep_cnt: limits.qps as usize,
        tx_ctx_cnt: CONTEXTS,
        rx_ctx_cnt: CONTEXTS,
        max_ep_tx_ctx: CONTEXTS,
        max_ep_rx_ctx: CONTEXTS,
        max_ep_srx_ctx: limits.srqs as usize,
        mr_iov_limit: 1,
        mr_cnt: limits.regions as usize,
        max_err_data: ERR_DATA,
        caps: DOMAIN,
        max_cntr_value: u64::MAX,
        max_err_cntr_value: u64::MAX,
        ..DomainAttr::default()
    }
}
