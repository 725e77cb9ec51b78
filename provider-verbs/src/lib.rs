//! SETUP. Percale over RDMA verbs. This release finds nothing here and says so.

use fabric_core::{
    attr::Info,
    discovery::{Rejection, Request, Source},
};

/// The verbs provider's side of discovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerbsSource;

impl Source for VerbsSource {
    fn name(&self) -> &str {
        "verbs"
    }

    fn included(&self) -> bool {
        false
    }

    fn offers(&self, _: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
        Err(Box::new(Rejection::unavailable(
            self.name(),
            "provider",
            "nothing",
            "this release of Percale does not include the verbs provider yet",
        )))
    }
}
