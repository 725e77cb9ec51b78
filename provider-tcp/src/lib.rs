//! SETUP. Percale over TCP sockets. This release finds nothing here and says so.

pub mod frame;

use fabric_core::{
    attr::Info,
    discovery::{Rejection, Request, Source},
};

/// The tcp provider's side of discovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpSource;

impl Source for TcpSource {
    fn name(&self) -> &str {
        "tcp"
    }

    fn included(&self) -> bool {
        false
    }

    fn offers(&self, _: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
        Err(Box::new(Rejection::unavailable(
            self.name(),
            "provider",
            "nothing",
            "this release of Percale does not include the tcp provider yet",
        )))
    }
}
