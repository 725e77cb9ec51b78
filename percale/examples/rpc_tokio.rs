//! Remote procedure calls under tokio; `FI_PROVIDER` chooses the way.

mod rpc;

use percale::{Any, Domain, Hints, reactor::Tokio};

fn domain() -> percale::Result<Domain> {
    let hints = Hints::rdm().messages().tagged().multi_receive().source();
    hints.open()?.builder::<Any>().reactor(Tokio).open()
}

#[tokio::main]
async fn main() -> percale::Result<()> {
    rpc::demonstrate(domain()?).await
}
