//! SETUP. What shared memory offers to discovery.
//!
//! There are two flavours of one-sided operations, and which one is offered decides `mr_mode`:
//!
//! * **direct** (`FI_MR_VIRT_ADDR`): targets are addressed by virtual address, so that a transfer
//!   may be one copy by the kernel without the target's help. Such copies overtake each other:
//!   only sends are ordered, and no data order is promised.
//! * **ordered** (`mr_mode` 0): targets are addressed by offset in the region, and every order is
//!   kept.
//!
//! Programs that take virtual addresses on and ask for no order beyond that of sends get direct;
//! so does who gives no hints. Everyone else gets ordered. The legacy `FI_MR_BASIC` means virtual
//! addresses whatever the order. Keys are the application's except under `FI_MR_BASIC`. The
//! domain does what the returned `mr_mode` says.

use fabric_core::{
    attr::{
        API_VERSION, DomainAttr, EpAttr, EpType, FabricAttr, Info, PROV_VERSION, Progress,
        ResourceMgmt, RxAttr, Threading, TxAttr, addr_format, protocol,
    },
    discovery::{Rejection, Request, Source},
    flags::{Flags, MrMode, Order},
    param::known,
};

use crate::address::{EXPECTED, service_address};

/// The provider's name.
pub const NAME: &str = "shm";
/// Largest payload of an inject call, in bytes.
pub const INJECT_SIZE: usize = 4096;
/// Pieces of local or remote memory in one operation.
pub const IOV_LIMIT: usize = 4;
/// Operations that an endpoint keeps at most for those who ask; they cost memory when used only.
pub const SIZE_MAX: usize = 65536;

/// Both sides.
const KINDS: Flags = Flags::MSG.union(Flags::RMA).union(Flags::TAGGED).union(Flags::ATOMIC);
const TX_CAPS: Flags =
    KINDS.union(Flags::READ).union(Flags::WRITE).union(Flags::SEND).union(Flags::FENCE);
const RX_CAPS: Flags = KINDS
    .union(Flags::RECV)
    .union(Flags::REMOTE_READ)
    .union(Flags::REMOTE_WRITE)
    .union(Flags::MULTI_RECV)
    .union(Flags::RMA_EVENT)
    .union(Flags::SOURCE)
    .union(Flags::DIRECTED_RECV);
const DOMAIN_CAPS: Flags = Flags::LOCAL_COMM.union(Flags::AV_USER_ID);
/// What an endpoint can do.
pub const CAPS: Flags = TX_CAPS.union(RX_CAPS).union(DOMAIN_CAPS);

/// FI_INJECT is not among them: as a default it would limit every send to [`INJECT_SIZE`].
const TX_OP_FLAGS: Flags = Flags::COMPLETION
    .union(Flags::INJECT_COMPLETE)
    .union(Flags::TRANSMIT_COMPLETE)
    .union(Flags::DELIVERY_COMPLETE);
const RX_OP_FLAGS: Flags = Flags::COMPLETION.union(Flags::MULTI_RECV);

const EVERY_ORDER: Order = Order::RAR
    .union(Order::RAW)
    .union(Order::RAS)
    .union(Order::WAR)
    .union(Order::WAW)
    .union(Order::WAS)
    .union(Order::SAR)
    .union(Order::SAW)
    .union(Order::SAS)
    .union(Order::RMA_RAR)
    .union(Order::RMA_RAW)
    .union(Order::RMA_WAR)
    .union(Order::RMA_WAW)
    .union(Order::ATOMIC_RAR)
    .union(Order::ATOMIC_RAW)
    .union(Order::ATOMIC_WAR)
    .union(Order::ATOMIC_WAW);

/// Shared memory's side of discovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShmSource;

impl Source for ShmSource {
    fn name(&self) -> &str {
        NAME
    }

    fn offers(&self, request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
        let mut info = offer(Flavour::of(request), progress(request));
        let hints = request.hints;
        if let (Some(tx), Some(wish)) = (&mut info.tx, hints.and_then(|hints| hints.tx.as_ref())) {
            tx.size = at_hand(tx.size, wish.size);
        }
        if let (Some(rx), Some(wish)) = (&mut info.rx, hints.and_then(|hints| hints.rx.as_ref())) {
            rx.size = at_hand(rx.size, wish.size);
        }
        match name(request)? {
            Some(name) if request.names_source() => info.src_addr = name,
            Some(name) => info.dest_addr = name,
            None => {}
        }
        Ok(vec![info])
    }
}

/// The size to offer: the usual one, more up to [`SIZE_MAX`] to who asks. Servers do.
fn at_hand(usual: usize, wanted: usize) -> usize {
    usual.max(wanted.min(SIZE_MAX))
}

/// How one-sided operations work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flavour {
    virtual_addresses: bool,
    ordered: bool,
}

impl Flavour {
    fn of(request: &Request<'_>) -> Self {
        let Some(hints) = request.hints else {
            return Self { virtual_addresses: true, ordered: false };
        };
        let mr_mode = hints.domain.as_ref().map_or(MrMode::empty(), |d| d.mr_mode);
        let basic = mr_mode == MrMode::BASIC || (mr_mode.is_empty() && !request.at_least(1, 5));
        let ordered = wants_order(hints);
        let direct = mr_mode.contains(MrMode::VIRT_ADDR) && !ordered;
        let virtual_addresses = basic || direct;
        Self { virtual_addresses, ordered: ordered || !virtual_addresses }
    }
}

/// Whether the hints need an order that direct copies do not keep.
fn wants_order(hints: &Info) -> bool {
    let messages = hints.tx.as_ref().is_some_and(|tx| !Order::SAS.contains(tx.msg_order));
    let data = hints.ep.as_ref().is_some_and(|ep| {
        ep.max_order_raw_size > 0 || ep.max_order_war_size > 0 || ep.max_order_waw_size > 0
    });
    messages || data
}

/// Automatic progress costs a thread, so it is offered to those who ask for it.
fn progress(request: &Request<'_>) -> Progress {
    let asked = request.hints.and_then(|h| h.domain.as_ref()).map_or(0, |d| d.progress);
    if asked == Progress::Auto as u32 { Progress::Auto } else { Progress::Manual }
}

/// The name that node and service stand for, NUL-terminated; `None` if there is neither.
fn name(request: &Request<'_>) -> Result<Option<Vec<u8>>, Box<Rejection>> {
    let (node, service) = (request.node, request.service);
    if node.is_none() && service.is_none() {
        if request.names_source() {
            let fix = "give a node or a service, or leave FI_SOURCE out";
            return Err(refuse("", "FI_SOURCE without a name", fix));
        }
        return Ok(None);
    }
    match service_address(node, service) {
        Ok(address) => Ok(Some(address.into_vec())),
        Err(why) => {
            let given = [node, service].into_iter().flatten().collect::<Vec<_>>().join(":");
            let fix = format!("{why}; use another node or service");
            Err(refuse(&given, EXPECTED, &fix))
        }
    }
}

fn refuse(wanted: &str, offered: &str, fix: &str) -> Box<Rejection> {
    Box::new(Rejection {
        wanted: format!("{wanted:?}"),
        ep_type: EpType::Rdm,
        ..Rejection::unavailable(NAME, "node", offered, fix)
    })
}

fn offer(flavour: Flavour, progress: Progress) -> Info {
    let tx_order = if flavour.ordered { EVERY_ORDER } else { Order::SAS };
    let data_order = if flavour.ordered { usize::MAX } else { 0 };
    let mr_mode = if flavour.virtual_addresses { MrMode::VIRT_ADDR } else { MrMode::empty() };
    Info {
        caps: CAPS,
        addr_format: addr_format::STR,
        tx: Some(TxAttr {
            caps: TX_CAPS,
            op_flags: TX_OP_FLAGS,
            msg_order: tx_order,
            inject_size: INJECT_SIZE,
            size: known::SHM_TX_SIZE.size(),
            iov_limit: IOV_LIMIT,
            rma_iov_limit: IOV_LIMIT,
            ..TxAttr::default()
        }),
        rx: Some(RxAttr {
            caps: RX_CAPS,
            op_flags: RX_OP_FLAGS,
            msg_order: EVERY_ORDER,
            size: known::SHM_RX_SIZE.size(),
            iov_limit: IOV_LIMIT,
            ..RxAttr::default()
        }),
        ep: Some(EpAttr {
            ep_type: EpType::Rdm as u32,
            protocol: protocol::SHM,
            protocol_version: 1,
            max_msg_size: usize::MAX,
            max_order_raw_size: data_order,
            max_order_war_size: data_order,
            max_order_waw_size: data_order,
            // Every tag bit is usable: alternating bits, the field's way to say so.
            mem_tag_format: 0xaaaa_aaaa_aaaa_aaaa,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        }),
        domain: Some(DomainAttr {
            name: Some(NAME.to_owned()),
            threading: Threading::Safe as u32,
            progress: progress as u32,
            control_progress: progress as u32,
            resource_mgmt: ResourceMgmt::Enabled as u32,
            mr_mode,
            mr_key_size: 8,
            cq_data_size: 8,
            cq_cnt: 1024,
            ep_cnt: 256,
            tx_ctx_cnt: 1024,
            rx_ctx_cnt: 1024,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            mr_iov_limit: IOV_LIMIT,
            caps: DOMAIN_CAPS,
            max_cntr_value: u64::MAX,
            max_err_cntr_value: u64::MAX,
            ..DomainAttr::default()
        }),
        fabric: Some(FabricAttr {
            name: Some(NAME.to_owned()),
            prov_name: Some(NAME.to_owned()),
            prov_version: PROV_VERSION,
            api_version: API_VERSION,
        }),
        ..Info::default()
    }
}

#[cfg(test)]
mod tests;
