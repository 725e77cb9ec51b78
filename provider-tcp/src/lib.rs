//! SETUP. Percale over TCP sockets. This release finds nothing here and says so.

pub mod address;
pub mod frame;
pub mod interfaces;
pub mod offer;

use fabric_core::{
    attr::Info,
    discovery::{Rejection, Request, Source},
};

/// Whether endpoints can be opened; what cannot be opened is not offered.
const INCLUDED: bool = false;

/// The tcp provider's side of discovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpSource;

impl Source for TcpSource {
    fn name(&self) -> &str {
        offer::NAME
    }

    fn included(&self) -> bool {
        INCLUDED
    }

    fn offers(&self, request: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
        if self.included() {
            return offer::offers(request);
        }
        Err(Box::new(Rejection::unavailable(
            self.name(),
            "provider",
            "nothing",
            "this release of Percale does not include the tcp provider yet",
        )))
    }
}
