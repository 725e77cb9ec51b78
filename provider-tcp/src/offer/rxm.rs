//! SETUP. What `tcp;ofi_rxm` offers: reliable datagrams over connections, at the addresses of tcp.
//! Programs choose it by name, and mix it with other libraries' of that name, so here, too, only
//! what those offer is offered without being asked for.

use fabric_core::{
    attr::{EpAttr, FabricAttr, Info, RxAttr, TxAttr, protocol},
    discovery::{Rejection, Request},
    flags::{Flags, Order},
    param::known,
};

use super::{Kind, WAR, at_hand, ends, interfaces_for, kinds, offer};

/// The name with its layer.
pub const RXM_NAME: &str = "tcp;ofi_rxm";

/// What such an endpoint can do.
pub const RXM_CAPS: Flags = TX.union(RX).union(DOMAIN).union(ON_REQUEST);
/// What is there for those who ask.
const ON_REQUEST: Flags =
    Flags::ATOMIC.union(Flags::DIRECTED_RECV).union(Flags::RMA_EVENT).union(Flags::FENCE);
/// Of the transmit side, and of the receive side.
const TX_ON_REQUEST: Flags = Flags::ATOMIC.union(Flags::FENCE);
const RX_ON_REQUEST: Flags = Flags::ATOMIC.union(Flags::DIRECTED_RECV).union(Flags::RMA_EVENT);
const TX: Flags = kinds::RDM_TX.difference(Flags::RMA_PMEM);
const RX: Flags = kinds::RDM_RX
    .difference(Flags::RMA_PMEM)
    .difference(Flags::RMA_EVENT)
    .difference(Flags::DIRECTED_RECV);
const DOMAIN: Flags = super::DOMAIN_CAPS.union(Flags::AV_USER_ID);

/// Atomic operations are messages, and take another way than reads and writes: of the orders between
/// the two kinds these are left.
const ATOMIC_ORDER: Order = Order::RAS
    .union(Order::WAS)
    .union(Order::SAS)
    .union(Order::RMA_RAR)
    .union(Order::RMA_RAW)
    .union(Order::RMA_WAW)
    .union(Order::ATOMIC_RAR)
    .union(Order::ATOMIC_RAW)
    .union(Order::ATOMIC_WAW);

/// Bytes of an inject that are offered to all; packets take more.
const INJECT: usize = 64;
/// Operations that an endpoint keeps at most for those who ask.
const TX_MOST: usize = 16384;
const RX_MOST: usize = 65536;
/// Objects of a domain.
const ENDPOINTS: usize = 32768;
const QUEUES: usize = 65536;

/// What this host offers for a request, best first.
pub fn rxm_offers(request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
    let interfaces = interfaces_for(RXM_NAME)?;
    let ends = ends::of(&interfaces, request)?;
    Ok(ends.iter().map(|end| layered(offer(Kind::Rdm, end, request), request)).collect())
}

/// The offer of tcp, for what is above it.
fn layered(info: Info, request: &Request<'_>) -> Info {
    let wanted = wanted(request);
    let lacks = super::DOMAIN_CAPS - info.caps;
    let war = super::extensions(request).1 - Order::ATOMIC_WAR;
    let (order, raw) = if wanted.contains(Flags::ATOMIC) {
        (ATOMIC_ORDER, 0)
    } else {
        (super::ORDER | war, usize::MAX)
    };
    let hints = request.hints;
    let (tx_caps, rx_caps) = (TX | (wanted & TX_ON_REQUEST), RX | (wanted & RX_ON_REQUEST));
    let tx_hint =
        |pick: fn(&TxAttr) -> usize| hints.and_then(|hints| hints.tx.as_ref()).map_or(0, pick);
    let rx_size = hints.and_then(|hints| hints.rx.as_ref()).map_or(0, |rx| rx.size);
    let inject_most = known::RXM_BUFFER_SIZE.size();
    Info {
        caps: (tx_caps | rx_caps | DOMAIN) - lacks,
        tx: info.tx.map(|tx| TxAttr {
            caps: tx_caps,
            op_flags: super::TX_OP_FLAGS - Flags::COMMIT_COMPLETE,
            msg_order: order,
            inject_size: at_hand(INJECT, tx_hint(|tx| tx.inject_size), inject_most),
            size: at_hand(known::RXM_TX_SIZE.size(), tx_hint(|tx| tx.size), TX_MOST),
            ..tx
        }),
        rx: info.rx.map(|rx| RxAttr {
            caps: rx_caps,
            msg_order: order,
            size: at_hand(known::RXM_RX_SIZE.size(), rx_size, RX_MOST),
            ..rx
        }),
        ep: info.ep.map(|ep| EpAttr {
            protocol: protocol::RXM,
            protocol_version: 1,
            max_order_raw_size: raw,
            max_order_war_size: if order.intersects(WAR) { raw } else { 0 },
            max_order_waw_size: raw,
            ..ep
        }),
        domain: info.domain.map(|domain| fabric_core::attr::DomainAttr {
            cq_cnt: QUEUES,
            ep_cnt: ENDPOINTS,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            max_ep_srx_ctx: 0,
            caps: DOMAIN - lacks,
            ..domain
        }),
        fabric: info
            .fabric
            .map(|fabric| FabricAttr { prov_name: Some(RXM_NAME.to_owned()), ..fabric }),
        ..info
    }
}

/// Capabilities that are there for those who ask, and are asked for.
fn wanted(request: &Request<'_>) -> Flags {
    if known::TCP_EXTENSIONS.truth() {
        return ON_REQUEST;
    }
    let Some(hints) = request.hints else { return Flags::empty() };
    let mut caps = hints.caps;
    caps |= hints.tx.as_ref().map_or(Flags::empty(), |tx| tx.caps);
    caps |= hints.rx.as_ref().map_or(Flags::empty(), |rx| rx.caps);
    caps & ON_REQUEST
}
