//! Offers to match against.

use crate::{
    attr::*,
    discovery::{Rejection, Request, Source},
    flags::{Flags, Mode, MrMode, Order},
};

/// A source with a fixed list of offers.
pub(super) struct Fixed {
    name: &'static str,
    offers: Vec<Info>,
}

impl Fixed {
    pub(super) fn one(name: &'static str, offer: Info) -> Self {
        Self { name, offers: vec![offer] }
    }
    pub(super) fn many(name: &'static str, offers: Vec<Info>) -> Self {
        Self { name, offers }
    }
    pub(super) fn none(name: &'static str) -> Self {
        Self { name, offers: vec![] }
    }
}

impl Source for Fixed {
    fn name(&self) -> &str {
        self.name
    }
    fn offers(&self, _: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
        if self.offers.is_empty() {
            let rejection = Rejection::unavailable(self.name, "device", "no device", "add one");
            return Err(Box::new(rejection));
        }
        Ok(self.offers.clone())
    }
}

/// A shared memory offer whose one-sided operations use virtual addresses.
pub(super) fn shm() -> Info {
    let both = Flags::MSG | Flags::RMA | Flags::TAGGED | Flags::ATOMIC;
    let tx = both | Flags::READ | Flags::WRITE | Flags::SEND;
    let rx = both
        | Flags::RECV
        | Flags::REMOTE_READ
        | Flags::REMOTE_WRITE
        | Flags::MULTI_RECV
        | Flags::RMA_EVENT
        | Flags::SOURCE
        | Flags::DIRECTED_RECV;
    let domain = Flags::LOCAL_COMM | Flags::AV_USER_ID;
    let order = Order::from_bits_retain(0xff_0000_01ff);
    Info {
        caps: tx | rx | domain,
        addr_format: addr_format::STR,
        tx: Some(TxAttr {
            caps: tx,
            op_flags: Flags::COMPLETION
                | Flags::INJECT_COMPLETE
                | Flags::TRANSMIT_COMPLETE
                | Flags::DELIVERY_COMPLETE,
            msg_order: order,
            inject_size: 4096,
            size: 1024,
            iov_limit: 4,
            rma_iov_limit: 4,
            ..TxAttr::default()
        }),
        rx: Some(RxAttr {
            caps: rx,
            op_flags: Flags::COMPLETION | Flags::MULTI_RECV,
            msg_order: order,
            size: 1024,
            iov_limit: 4,
            ..RxAttr::default()
        }),
        ep: Some(EpAttr {
            ep_type: EpType::Rdm as u32,
            protocol: protocol::SHM,
            protocol_version: 1,
            max_msg_size: usize::MAX,
            mem_tag_format: 0xaaaa_aaaa_aaaa_aaaa,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        }),
        domain: Some(DomainAttr {
            name: Some("shm".into()),
            threading: Threading::Safe as u32,
            progress: Progress::Manual as u32,
            resource_mgmt: ResourceMgmt::Enabled as u32,
            mr_mode: MrMode::VIRT_ADDR,
            mr_key_size: 8,
            cq_data_size: 8,
            cq_cnt: 1024,
            ep_cnt: 256,
            tx_ctx_cnt: 1024,
            rx_ctx_cnt: 1024,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            mr_iov_limit: 4,
            caps: domain,
            ..DomainAttr::default()
        }),
        fabric: Some(FabricAttr {
            name: Some("shm".into()),
            prov_name: Some("shm".into()),
            prov_version: PROV_VERSION,
            api_version: API_VERSION,
        }),
        ..Info::default()
    }
}

/// The same with the duties of an RDMA device.
pub(super) fn needy() -> Info {
    let mut info = shm();
    info.mode = Mode::CONTEXT;
    info.domain.as_mut().unwrap().mr_mode =
        MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY;
    info.fabric.as_mut().unwrap().prov_name = Some("far".into());
    info
}

/// Hints as `fi_allocinfo` gives them: every attribute there, all zero.
pub(super) fn hints() -> Info {
    Info {
        tx: Some(TxAttr::default()),
        rx: Some(RxAttr::default()),
        ep: Some(EpAttr::default()),
        domain: Some(DomainAttr { mr_mode: MrMode::VIRT_ADDR, ..DomainAttr::default() }),
        fabric: Some(FabricAttr::default()),
        ..Info::default()
    }
}
