//! SETUP. The kinds of endpoints, and in what they differ.

use fabric_core::{
    attr::{EpType, Info, SHARED_CONTEXT, protocol},
    discovery::Request,
    flags::Flags,
    param::known,
    persist,
};

/// A kind of endpoint, in the order of the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reliable datagrams to any number of peers.
    Rdm,
    /// One connection.
    Msg,
    /// One connection that receives from a context shared with others, and with tags therefore.
    SharedMsg,
}

const BOTH: Flags = Flags::MSG.union(Flags::RMA).union(PMEM);
/// Not on processors whose caches cannot be written back.
const PMEM: Flags = if persist::POSSIBLE { Flags::RMA_PMEM } else { Flags::empty() };
const TX: Flags = BOTH.union(Flags::READ).union(Flags::WRITE).union(Flags::SEND);
const RX: Flags = BOTH
    .union(Flags::RECV)
    .union(Flags::REMOTE_READ)
    .union(Flags::REMOTE_WRITE)
    .union(Flags::RMA_EVENT);

pub(super) const MSG_TX: Flags = TX;
pub(super) const MSG_RX: Flags = RX;
pub(super) const RDM_TX: Flags = TX.union(Flags::TAGGED);
pub(super) const RDM_RX: Flags = RX
    .union(Flags::TAGGED)
    .union(Flags::MULTI_RECV)
    .union(Flags::SOURCE)
    .union(Flags::DIRECTED_RECV);

impl Kind {
    const ALL: [Self; 3] = [Self::Rdm, Self::Msg, Self::SharedMsg];

    /// Those that a request can be after. A shared context is another way of receiving, so its
    /// kind is for programs that ask for one, and for those that ask for nothing.
    pub(super) fn of(request: &Request<'_>) -> impl Iterator<Item = Self> {
        let fits = request.hints.is_none() || wants_shared(request);
        Self::ALL.into_iter().filter(move |kind| fits || *kind != Self::SharedMsg)
    }

    /// The endpoint type.
    pub const fn ep_type(self) -> EpType {
        match self {
            Self::Rdm => EpType::Rdm,
            Self::Msg | Self::SharedMsg => EpType::Msg,
        }
    }

    /// One of [`protocol`].
    pub const fn protocol(self) -> u32 {
        match self {
            Self::Rdm => protocol::XNET,
            Self::Msg | Self::SharedMsg => protocol::SOCK_TCP,
        }
    }

    pub(super) const fn protocol_version(self) -> u32 {
        match self {
            Self::Rdm => 1,
            Self::Msg | Self::SharedMsg => 0,
        }
    }

    /// Of the transmit and of the receive side.
    pub(super) const fn caps(self) -> (Flags, Flags) {
        match self {
            Self::Rdm | Self::SharedMsg => (RDM_TX, RDM_RX),
            Self::Msg => (MSG_TX, MSG_RX),
        }
    }

    /// Every bit of a tag is usable: alternating bits, the field's way to say so.
    pub(super) const fn tag_format(self) -> u64 {
        match self {
            Self::Rdm | Self::SharedMsg => 0xaaaa_aaaa_aaaa_aaaa,
            Self::Msg => 0,
        }
    }

    /// Operations that an endpoint keeps at most for those who ask.
    pub(super) const fn tx_most(self) -> usize {
        match self {
            Self::Rdm => 65536,
            Self::Msg | Self::SharedMsg => 1024,
        }
    }

    pub(super) const fn rx_most(self) -> usize {
        match self {
            Self::Rdm | Self::SharedMsg => 65536,
            Self::Msg => 1024,
        }
    }

    /// Programs without hints are told the most, and so are those whose receives are posted to a
    /// context of another size.
    pub(super) fn rx_usual(self, request: &Request<'_>) -> usize {
        if request.hints.is_none() || wants_shared(request) {
            self.rx_most()
        } else {
            known::TCP_RX_SIZE.size().min(self.rx_most())
        }
    }

    pub(super) const fn rx_contexts(self) -> usize {
        match self {
            Self::Rdm | Self::Msg => 1,
            Self::SharedMsg => SHARED_CONTEXT,
        }
    }

    /// Endpoints and contexts of a domain.
    pub(super) const fn domain_limit(self) -> usize {
        match self {
            Self::Rdm => 256,
            Self::Msg | Self::SharedMsg => 8192,
        }
    }

    pub(super) const fn shared_contexts(self) -> usize {
        match self {
            Self::Rdm => 0,
            Self::Msg | Self::SharedMsg => 8192,
        }
    }
}

fn wants_shared(request: &Request<'_>) -> bool {
    request.hints.is_some_and(shares_receives)
}

/// Whether endpoints of this info, or those that hints are after, receive from a shared context.
pub(crate) fn shares_receives(info: &Info) -> bool {
    info.ep.as_ref().is_some_and(|ep| ep.rx_ctx_cnt == SHARED_CONTEXT)
}
