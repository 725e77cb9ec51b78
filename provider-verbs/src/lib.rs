//! Percale over RDMA verbs: InfiniBand, RoCE and iWARP.
//!
//! Nothing is linked: libibverbs and librdmacm are opened when they are first needed, and a host without
//! them, or without a device, has a reason for discovery to tell.

mod cache;
mod clock;
mod datagram;
mod device;
mod endpoint;
mod engine;
mod events;
pub mod links;
mod mr;
mod nic;
mod offer;
mod passive;
mod ports;
mod settings;
mod shared;
pub mod sys;

pub use datagram::{
    DatagramAddress, DatagramAddresses, VerbsDatagramEndpoint, open_datagram_domain,
};
pub use endpoint::{VerbsEndpoint, open_domain};
pub use links::VerbsRxmEndpoint;
pub use passive::VerbsPassive;
pub use shared::VerbsSharedReceive;

use fabric_core::{
    attr::Info,
    discovery::{Rejection, Request, Source},
};

/// The provider's name.
pub const NAME: &str = "verbs";
/// The name of its reliable datagrams.
pub const RXM_NAME: &str = offer::RDM_NAME;

/// The verbs provider's side of discovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerbsSource;

impl Source for VerbsSource {
    fn name(&self) -> &str {
        NAME
    }

    fn touches_devices(&self) -> bool {
        true
    }

    /// Ports come up and go down, also between discovery and the opening of a fabric.
    fn has_fabric(&self, name: &str) -> bool {
        name.starts_with("IB-0x") || name == "Ethernet-iWARP"
    }

    fn offers(&self, request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
        offer::offers(request)
    }
}

/// The side of discovery of `verbs;ofi_rxm`.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerbsRxmSource;

impl Source for VerbsRxmSource {
    fn name(&self) -> &str {
        RXM_NAME
    }

    fn touches_devices(&self) -> bool {
        true
    }

    fn has_fabric(&self, name: &str) -> bool {
        VerbsSource.has_fabric(name)
    }

    fn offers(&self, request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
        offer::rdm_offers(request)
    }
}
