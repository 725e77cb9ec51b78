//! Percale over TCP sockets: connected endpoints and reliable datagrams, on upstream's wire.

pub mod endpoint;
mod engine;
pub mod frame;
pub mod interfaces;
mod net;
pub mod offer;
pub mod passive;
mod port;
mod settings;
pub mod shared;
pub mod streams;
mod words;

/// Addresses are those of every provider over IP.
pub use fabric_core::inet as address;

pub use endpoint::TcpEndpoint;
pub use passive::TcpPassive;
pub use shared::TcpSharedReceive;
pub use streams::TcpRxmEndpoint;

use fabric_core::{
    attr::Info,
    discovery::{Rejection, Request, Source},
    flags::Flags,
};

/// The tcp provider's side of discovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpSource;

impl Source for TcpSource {
    fn name(&self) -> &str {
        offer::NAME
    }

    fn gained_by_sharing(&self) -> Flags {
        offer::CAPS.difference(offer::MSG_CAPS)
    }

    /// Endpoints that are bound to all addresses have a fabric that is no subnet. Subnets come and go
    /// with the state of their interfaces, also between discovery and the opening of a fabric.
    fn has_fabric(&self, name: &str) -> bool {
        name.eq_ignore_ascii_case(offer::NAME) || interfaces::is_subnet(name)
    }

    fn offers(&self, request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
        offer::offers(request)
    }
}

/// The side of discovery of `tcp;ofi_rxm`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RxmSource;

impl Source for RxmSource {
    fn name(&self) -> &str {
        offer::RXM_NAME
    }

    fn has_fabric(&self, name: &str) -> bool {
        TcpSource.has_fabric(name)
    }

    fn offers(&self, request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
        offer::rxm_offers(request)
    }
}
