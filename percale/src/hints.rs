//! SETUP. What a program needs of a fabric.

use fabric_core::{
    attr::{DomainAttr, EpAttr, EpType, FabricAttr, Info, Progress, SHARED_CONTEXT, Threading},
    discovery::{NoProvider, ProviderFilter, Request, getinfo},
    flags::{Flags, MrMode, Order},
};

use crate::{SOURCES, error::Result, fabric::Fabric, trace::span};

/// What a program needs of a fabric; discovery finds who has it.
///
/// Start with the kind of endpoint, [`Hints::rdm`] for datagrams that arrive or [`Hints::msg`] for
/// connections, and add capabilities. Without one it is untagged messages.
///
/// ```
/// use percale::Hints;
///
/// let fabric = Hints::rdm().tagged().rma().provider("shm").open()?;
/// assert_eq!(fabric.provider(), "shm");
///
/// let error = Hints::rdm().provider("carrier-pigeon").open().unwrap_err();
/// assert!(error.to_string().contains("carrier-pigeon"));
/// # Ok::<(), percale::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Hints {
    info: Info,
    node: Option<String>,
    service: Option<String>,
    source: bool,
}

/// What this crate does for every provider: it allocates what it registers, registers what operations
/// use where a device has to know that, and tells peers addresses and keys as the provider has them.
const DUTIES: MrMode =
    MrMode::LOCAL.union(MrMode::VIRT_ADDR).union(MrMode::ALLOCATED).union(MrMode::PROV_KEY);

impl Hints {
    fn of(ep_type: EpType) -> Self {
        let info = Info {
            ep: Some(EpAttr { ep_type: ep_type as u32, ..EpAttr::default() }),
            domain: Some(DomainAttr {
                mr_mode: DUTIES,
                threading: Threading::Safe as u32,
                ..DomainAttr::default()
            }),
            ..Info::default()
        };
        Self { info, node: None, service: None, source: false }
    }

    /// Reliable datagrams: one endpoint talks to any number of peers.
    pub fn rdm() -> Self {
        Self::of(EpType::Rdm)
    }

    /// Connections: an endpoint has one peer.
    pub fn msg() -> Self {
        Self::of(EpType::Msg)
    }

    /// Any capabilities, as the C interface names them.
    pub fn caps(mut self, caps: Flags) -> Self {
        self.info.caps |= caps;
        self
    }

    /// Messages that are received in the order in which they are sent.
    pub fn messages(self) -> Self {
        self.caps(Flags::MSG)
    }

    /// Messages with a tag that receives choose by.
    pub fn tagged(self) -> Self {
        self.caps(Flags::TAGGED)
    }

    /// Reads and writes of peers' memory, and of ours by peers.
    pub fn rma(self) -> Self {
        self.caps(Flags::RMA)
    }

    /// Atomic operations on peers' memory, and on ours by peers.
    pub fn atomics(self) -> Self {
        self.caps(Flags::ATOMIC)
    }

    /// Buffers that receive many messages.
    pub fn multi_receive(self) -> Self {
        self.caps(Flags::MSG | Flags::MULTI_RECV)
    }

    /// Receives tell who has sent.
    pub fn source(self) -> Self {
        self.caps(Flags::SOURCE)
    }

    /// Receives may name who has to send.
    pub fn directed(self) -> Self {
        self.caps(Flags::DIRECTED_RECV)
    }

    /// Connections that receive from a [`SharedReceive`](crate::SharedReceive).
    pub fn shared_receive(mut self) -> Self {
        self.info.ep.get_or_insert_default().rx_ctx_cnt = SHARED_CONTEXT;
        self
    }

    /// Keeps an order between operations; sends keep theirs without being asked.
    pub fn order(mut self, order: Order) -> Self {
        self.info.tx.get_or_insert_default().msg_order |= order;
        self.info.rx.get_or_insert_default().msg_order |= order;
        self
    }

    /// Only this provider: `shm`, `tcp`, `tcp;ofi_rxm`, `verbs`, `verbs;ofi_rxm`.
    pub fn provider(mut self, name: &str) -> Self {
        self.fabric_attr().prov_name = Some(name.to_owned());
        self
    }

    /// Only the fabric of this name, which tcp has one of for each network.
    pub fn fabric_name(mut self, name: &str) -> Self {
        self.fabric_attr().name = Some(name.to_owned());
        self
    }

    /// Only the domain of this name, which is an interface for tcp.
    pub fn domain_name(mut self, name: &str) -> Self {
        self.info.domain.get_or_insert_default().name = Some(name.to_owned());
        self
    }

    /// Endpoints are at this host or address of ours, and at this port or service if there is one.
    pub fn at(mut self, node: &str, service: Option<&str>) -> Self {
        self.node = Some(node.to_owned());
        self.service = service.map(str::to_owned);
        self.source = true;
        self
    }

    /// Endpoints can reach this host or address.
    pub fn towards(mut self, node: &str, service: Option<&str>) -> Self {
        self.node = Some(node.to_owned());
        self.service = service.map(str::to_owned);
        self.source = false;
        self
    }

    /// Operations move forward while the program does something else: each endpoint gets a thread.
    pub fn automatic_progress(mut self) -> Self {
        self.info.domain.get_or_insert_default().progress = Progress::Auto as u32;
        self
    }

    /// Operations that an endpoint has room for before they wait in this library.
    pub fn depth(mut self, operations: usize) -> Self {
        self.info.tx.get_or_insert_default().size = operations;
        self.info.rx.get_or_insert_default().size = operations;
        self
    }

    /// The offers that fit, best first. `FI_PROVIDER` applies.
    pub fn offers(&self) -> Result<Vec<Info>, NoProvider> {
        span!("discover", caps = format_args!("{:?}", self.info.caps));
        let mut hints = self.info.clone();
        if !hints.caps.intersects(Flags::MSG | Flags::TAGGED | Flags::RMA | Flags::ATOMIC) {
            hints.caps |= Flags::MSG;
        }
        let request = Request {
            node: self.node.as_deref(),
            service: self.service.as_deref(),
            flags: if self.source { Flags::SOURCE } else { Flags::empty() },
            hints: Some(&hints),
            ..Request::default()
        };
        getinfo(&SOURCES, &request, &ProviderFilter::from_env())
    }

    /// Opens the fabric of the best offer.
    ///
    /// # Errors
    /// [`Error::NoProvider`](crate::Error::NoProvider) with everybody's reasons.
    pub fn open(&self) -> Result<Fabric> {
        Fabric::of_offers(self.offers()?)
    }

    fn fabric_attr(&mut self) -> &mut FabricAttr {
        self.info.fabric.get_or_insert_default()
    }
}
