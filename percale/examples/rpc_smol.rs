//! Remote procedure calls under smol; `FI_PROVIDER` chooses the way.

mod rpc;

use percale::{Any, Domain, Hints, reactor::AsyncIo};

fn domain() -> percale::Result<Domain> {
    let hints = Hints::rdm().messages().tagged().multi_receive().source();
    hints.open()?.builder::<Any>().reactor(AsyncIo).open()
}

fn main() -> percale::Result<()> {
    smol::block_on(async { rpc::demonstrate(domain()?).await })
}
