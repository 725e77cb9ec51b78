//! SETUP. What tcp offers to discovery.
//!
//! One offer for each kind of endpoint and each address that can be used: all addresses for the
//! first kind, best first, then all for the next. Processes of one job may run on this library and
//! on others that speak the same protocol, and programs copy what they ask for from the first
//! listing; so what is offered without being asked for is the same on all of them: capabilities,
//! orders, registration, formats, sizes. What only this library can do is in [`EXTENSIONS`] and
//! appears where hints ask for it, or `FI_TCP_EXTENSIONS` is set.

mod ends;
mod kinds;
mod rxm;

use fabric_core::{
    attr::{
        API_VERSION, DomainAttr, EpAttr, FabricAttr, Info, PROV_VERSION, Progress, ResourceMgmt,
        RxAttr, Threading, TxAttr,
    },
    discovery::{Rejection, Request},
    flags::{Flags, MrMode, Order},
    param::{InterfaceFilter, known},
    persist,
};

pub use kinds::Kind;
pub(crate) use kinds::shares_receives;
pub use rxm::{RXM_CAPS, RXM_NAME, rxm_offers};

use crate::{
    address::{Family, SocketAddress},
    interfaces::Interfaces,
};
use ends::End;

/// The provider's name.
pub const NAME: &str = "tcp";
/// Pieces of local or remote memory in one operation.
pub const IOV_LIMIT: usize = 4;

/// What an endpoint that receives for all of its peers can do: reliable datagrams, and connections
/// with a shared receive context.
pub const CAPS: Flags = kinds::RDM_TX.union(kinds::RDM_RX).union(DOMAIN_CAPS);
/// What an endpoint of one connection can do.
pub const MSG_CAPS: Flags = kinds::MSG_TX.union(kinds::MSG_RX).union(DOMAIN_CAPS);
/// What is there for those who ask, each bit at the sides that it belongs to.
pub const EXTENSIONS: Flags = TX_EXTENSIONS.union(RX_EXTENSIONS).union(DOMAIN_EXTENSIONS);
const TX_EXTENSIONS: Flags = Flags::FENCE.union(Flags::ATOMIC);
const RX_EXTENSIONS: Flags = Flags::ATOMIC;
const DOMAIN_EXTENSIONS: Flags = Flags::AV_USER_ID;
const DOMAIN_CAPS: Flags = Flags::LOCAL_COMM.union(Flags::REMOTE_COMM);

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

/// Those that an endpoint can have: connections carry the application's data from the first byte, so
/// that their ends do not recognize each other.
pub const fn extensions_of(rdm: bool) -> Flags {
    if rdm { EXTENSIONS } else { EXTENSIONS.difference(Flags::ATOMIC) }
}

/// The same of orders.
const ORDER_EXTENSIONS: Order = WAR;
/// Writes that wait for the reads before them.
pub const WAR: Order = Order::WAR.union(Order::RMA_WAR).union(Order::ATOMIC_WAR);

const TX_OP_FLAGS: Flags = Flags::COMPLETION
    .union(Flags::INJECT)
    .union(Flags::INJECT_COMPLETE)
    .union(Flags::TRANSMIT_COMPLETE)
    .union(Flags::DELIVERY_COMPLETE)
    .union(if persist::POSSIBLE { Flags::COMMIT_COMPLETE } else { Flags::empty() });

fn interfaces() -> fabric_core::Result<Interfaces> {
    let filter = known::TCP_IFACE.text().and_then(|text| InterfaceFilter::parse(&text));
    Interfaces::of_host(filter.unwrap_or_default())
}

/// How peers reach an endpoint that listens at `local`: of all addresses of the host, they are told
/// the best one.
pub fn reachable(local: SocketAddress) -> SocketAddress {
    if !local.is_wildcard() {
        return local;
    }
    let best = interfaces().ok().and_then(|interfaces| best_of(&interfaces, local.family()));
    best.map_or(local, |best| best.with_port(local.port()))
}

fn best_of(interfaces: &Interfaces, family: Family) -> Option<SocketAddress> {
    interfaces.listed().map(|each| each.address).find(|address| address.family() == family)
}

/// What this host offers for a request, best first.
pub fn offers(request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
    offers_on(&interfaces_for(NAME)?, request)
}

fn interfaces_for(provider: &str) -> Result<Interfaces, Box<Rejection>> {
    interfaces().map_err(|errno| {
        let fix = "allow AF_NETLINK sockets to the process";
        Box::new(Rejection::blind(provider, "interfaces", "no list of interfaces", errno, fix))
    })
}

/// The same on interfaces that are known.
pub fn offers_on(
    interfaces: &Interfaces,
    request: &Request<'_>,
) -> Result<Vec<Info>, Box<Rejection>> {
    let ends = ends::of(interfaces, request)?;
    let offers = |kind: Kind| ends.iter().map(move |end| offer(kind, end, request));
    Ok(Kind::of(request).flat_map(offers).collect())
}

fn offer(kind: Kind, end: &End<'_>, request: &Request<'_>) -> Info {
    let (extensions, more_order) = extensions(request);
    let extensions = extensions & extensions_of(matches!(kind, Kind::Rdm));
    let order = ORDER | more_order;
    let (tx_caps, rx_caps) = kind.caps();
    let (domain, fabric) = end.interface.map_or_else(
        || (NAME.to_owned(), NAME.to_owned()),
        |interface| (interface.name.clone(), interface.subnet()),
    );
    let family = end.source.or(end.dest).map_or(Family::Ipv4, |address| address.family());
    let bytes =
        |address: Option<SocketAddress>| address.map(SocketAddress::to_bytes).unwrap_or_default();
    let hints = request.hints;
    let progress = asked_progress(request);
    let limit = kind.domain_limit();
    Info {
        caps: (tx_caps | rx_caps | DOMAIN_CAPS | extensions) - end.lacks(),
        addr_format: family.addr_format(),
        src_addr: bytes(end.source),
        dest_addr: bytes(end.dest),
        tx: Some(TxAttr {
            caps: tx_caps | (extensions & TX_EXTENSIONS),
            op_flags: TX_OP_FLAGS,
            msg_order: order,
            inject_size: known::TCP_MAX_INJECT.size(),
            size: at_hand(
                known::TCP_TX_SIZE.size(),
                hints.and_then(|h| h.tx.as_ref()).map_or(0, |tx| tx.size),
                kind.tx_most(),
            ),
            iov_limit: IOV_LIMIT,
            rma_iov_limit: IOV_LIMIT,
            ..TxAttr::default()
        }),
        rx: Some(RxAttr {
            caps: rx_caps | (extensions & RX_EXTENSIONS),
            op_flags: Flags::COMPLETION | (rx_caps & Flags::MULTI_RECV),
            msg_order: order,
            size: at_hand(
                kind.rx_usual(request),
                hints.and_then(|h| h.rx.as_ref()).map_or(0, |rx| rx.size),
                kind.rx_most(),
            ),
            iov_limit: IOV_LIMIT,
            ..RxAttr::default()
        }),
        ep: Some(EpAttr {
            ep_type: kind.ep_type() as u32,
            protocol: kind.protocol(),
            protocol_version: kind.protocol_version(),
            max_msg_size: usize::MAX,
            max_order_raw_size: usize::MAX,
            max_order_war_size: if more_order.intersects(WAR) { usize::MAX } else { 0 },
            max_order_waw_size: usize::MAX,
            mem_tag_format: kind.tag_format(),
            tx_ctx_cnt: 1,
            rx_ctx_cnt: kind.rx_contexts(),
            ..EpAttr::default()
        }),
        domain: Some(DomainAttr {
            name: Some(domain),
            threading: Threading::Safe as u32,
            progress: progress as u32,
            control_progress: progress as u32,
            resource_mgmt: ResourceMgmt::Enabled as u32,
            mr_mode: MrMode::empty(),
            mr_key_size: 8,
            cq_data_size: 8,
            cq_cnt: 256,
            ep_cnt: limit,
            tx_ctx_cnt: limit,
            rx_ctx_cnt: limit,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            max_ep_srx_ctx: kind.shared_contexts(),
            mr_iov_limit: 1,
            caps: DOMAIN_CAPS | (extensions & DOMAIN_EXTENSIONS),
            max_cntr_value: u64::MAX,
            max_err_cntr_value: u64::MAX,
            ..DomainAttr::default()
        }),
        fabric: Some(FabricAttr {
            name: Some(fabric),
            prov_name: Some(NAME.to_owned()),
            prov_version: PROV_VERSION,
            api_version: API_VERSION,
        }),
        ..Info::default()
    }
}

/// Capabilities and orders beyond the common ones.
fn extensions(request: &Request<'_>) -> (Flags, Order) {
    if known::TCP_EXTENSIONS.truth() {
        return (EXTENSIONS, ORDER_EXTENSIONS);
    }
    let Some(hints) = request.hints else { return (Flags::empty(), Order::empty()) };
    let (mut caps, mut order) = (hints.caps, Order::empty());
    if let Some(tx) = &hints.tx {
        caps |= tx.caps;
        order |= tx.msg_order;
    }
    if let Some(rx) = &hints.rx {
        caps |= rx.caps;
        order |= rx.msg_order;
    }
    caps |= hints.domain.as_ref().map_or(Flags::empty(), |domain| domain.caps);
    if hints.ep.as_ref().is_some_and(|ep| ep.max_order_war_size != 0) {
        order |= Order::WAR;
    }
    if !caps.contains(Flags::ATOMIC) {
        // MPICH asks for orders of atomic operations without asking for any, and has to choose as it
        // would on other libraries.
        order -= Order::ATOMIC_WAR;
    }
    (caps & EXTENSIONS, order & ORDER_EXTENSIONS)
}

/// The size to offer: the usual one, more up to `most` to who asks.
fn at_hand(usual: usize, wanted: usize, most: usize) -> usize {
    usual.max(wanted.min(most))
}

/// Automatic progress costs a thread, so it is offered to those who ask for it.
fn asked_progress(request: &Request<'_>) -> Progress {
    let asked = request.hints.and_then(|hints| hints.domain.as_ref()).map_or(0, |d| d.progress);
    if asked == Progress::Auto as u32 { Progress::Auto } else { Progress::Manual }
}

#[cfg(test)]
mod tests;
