//! SETUP. What `verbs;ofi_rxm` offers: reliable datagrams over connections, at the addresses of verbs.

use fabric_core::{
    attr::{
        DomainAttr, EpAttr, EpType, FabricAttr, Info, Progress, ResourceMgmt, RxAttr, TxAttr,
        protocol,
    },
    discovery::{Rejection, Request},
    flags::{Flags, Mode, MrMode, Order},
    param::known,
};

use super::{MR_MODE, ends, offer};

/// The name with its layer.
pub(crate) const RDM_NAME: &str = "verbs;ofi_rxm";

const BOTH: Flags = Flags::MSG.union(Flags::RMA).union(Flags::TAGGED);
const TX: Flags = BOTH.union(Flags::READ).union(Flags::WRITE).union(Flags::SEND);
const RX: Flags = BOTH
    .union(Flags::RECV)
    .union(Flags::REMOTE_READ)
    .union(Flags::REMOTE_WRITE)
    .union(Flags::MULTI_RECV)
    .union(Flags::SOURCE);
/// For programs that ask for it.
const TX_ON_REQUEST: Flags = Flags::ATOMIC;
const RX_ON_REQUEST: Flags = Flags::ATOMIC.union(Flags::DIRECTED_RECV);
const DOMAIN: Flags = super::DOMAIN.union(Flags::AV_USER_ID);

/// What such an endpoint can do.
pub(crate) const RDM_CAPS: Flags =
    TX.union(RX).union(TX_ON_REQUEST).union(RX_ON_REQUEST).union(DOMAIN);

/// Atomic operations are messages, which the peer's progress applies; reads and writes are the device's
/// own. Between the two kinds there is no order of these.
const NOT_WITH_ATOMICS: Order = Order::RAR.union(Order::RAW).union(Order::WAW);

/// Bytes of an inject that are offered to all; packets take more.
const INJECT: usize = 192;
/// Operations that an endpoint keeps at most for those who ask.
const TX_MOST: usize = 16384;
const RX_MOST: usize = 65536;
/// Objects of a domain.
const ENDPOINTS: usize = 32768;
const QUEUES: usize = 65536;

/// What this host offers for a request, best first. Devices without shared receive queues are left
/// out.
pub(crate) fn rdm_offers(request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
    let named = |rejection: Box<Rejection>| {
        Box::new(Rejection { provider: RDM_NAME.to_owned(), ..*rejection })
    };
    let places = crate::device::places().map_err(named)?;
    let ends = ends::of(&places, request).map_err(named)?;
    let shares = |end: &&ends::End<'_>| end.device.limits.srqs != 0;
    let infos: Vec<Info> =
        ends.iter().filter(shares).map(|end| layered(offer(end, request), request)).collect();
    if infos.is_empty() {
        let fix = "use FI_EP_MSG, or another device";
        let what = "no device with shared receive queues";
        return Err(Box::new(Rejection::unavailable(RDM_NAME, "devices", what, fix)));
    }
    Ok(infos)
}

/// The offer of verbs, for what is above it.
pub(super) fn layered(info: Info, request: &Request<'_>) -> Info {
    let hints = request.hints;
    let asked = hints.map_or(Flags::empty(), |hints| {
        let tx = hints.tx.as_ref().map_or(Flags::empty(), |tx| tx.caps);
        hints.caps | tx | hints.rx.as_ref().map_or(Flags::empty(), |rx| rx.caps)
    });
    let (tx_caps, rx_caps) = (TX | (asked & TX_ON_REQUEST), RX | (asked & RX_ON_REQUEST));
    let lost = if asked.contains(Flags::ATOMIC) { NOT_WITH_ATOMICS } else { Order::empty() };
    let tx_hint = |pick: fn(&TxAttr) -> usize| hints.and_then(|h| h.tx.as_ref()).map_or(0, pick);
    let rx_size = hints.and_then(|hints| hints.rx.as_ref()).map_or(0, |rx| rx.size);
    let at_hand = |usual: usize, wanted: usize, most: usize| usual.max(wanted.min(most));
    let inject_most = known::RXM_BUFFER_SIZE.size();
    // Automatic progress costs a thread, so it is offered to those who ask for it.
    let wanted = hints.and_then(|hints| hints.domain.as_ref()).map_or(0, |domain| domain.progress);
    let progress =
        if wanted == Progress::Auto as u32 { Progress::Auto } else { Progress::Manual } as u32;
    Info {
        caps: tx_caps | rx_caps | DOMAIN,
        mode: Mode::empty(),
        tx: info.tx.map(|tx| TxAttr {
            caps: tx_caps,
            msg_order: tx.msg_order - lost,
            op_flags: super::TX_OP_FLAGS | Flags::DELIVERY_COMPLETE,
            inject_size: at_hand(INJECT, tx_hint(|tx| tx.inject_size), inject_most),
            size: at_hand(known::RXM_TX_SIZE.size(), tx_hint(|tx| tx.size), TX_MOST),
            ..tx
        }),
        rx: info.rx.map(|rx| RxAttr {
            caps: rx_caps,
            mode: Mode::empty(),
            msg_order: rx.msg_order - lost,
            op_flags: Flags::COMPLETION | Flags::MULTI_RECV,
            size: at_hand(known::RXM_RX_SIZE.size(), rx_size, RX_MOST),
            ..rx
        }),
        ep: info.ep.map(|ep| EpAttr {
            ep_type: EpType::Rdm as u32,
            protocol: protocol::RXM,
            mem_tag_format: 0xaaaa_aaaa_aaaa_aaaa,
            ..ep
        }),
        domain: info.domain.map(|domain| DomainAttr {
            progress,
            control_progress: progress,
            // Local memory is copied, or registered for each operation.
            mr_mode: MR_MODE - MrMode::LOCAL,
            cq_data_size: size_of::<u32>(),
            // Receives of the devices' are posted anew before their messages are looked at.
            resource_mgmt: ResourceMgmt::Enabled as u32,
            cq_cnt: QUEUES,
            ep_cnt: ENDPOINTS,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            max_ep_srx_ctx: 0,
            mr_cnt: 0,
            max_err_data: 0,
            caps: DOMAIN,
            ..domain
        }),
        fabric: info
            .fabric
            .map(|fabric| FabricAttr { prov_name: Some(RDM_NAME.to_owned()), ..fabric }),
        ..info
    }
}
