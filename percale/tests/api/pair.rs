//! Pairs of endpoints in one process.

use percale::{Domain, Endpoint, Fabric, Hints, Peer, dispatch::Provider};

/// Where tcp endpoints are.
pub(crate) const HERE: &str = "127.0.0.1";

/// The fabrics of reliable datagrams that every host has.
pub(crate) fn fabrics() -> Vec<Fabric> {
    let wish = |hints: Hints| {
        hints.messages().tagged().rma().atomics().source().directed().multi_receive()
    };
    let shm = wish(Hints::rdm().provider("shm"));
    let tcp = wish(Hints::rdm().provider("tcp").at(HERE, None));
    let rxm = wish(Hints::rdm().provider("tcp;ofi_rxm").at(HERE, None));
    [shm, tcp, rxm].map(|hints| hints.open().expect("an offer")).to_vec()
}

/// Two endpoints and their names for each other.
pub(crate) struct Pair<P: Provider> {
    pub(crate) domain: Domain<P>,
    pub(crate) one: Endpoint<P>,
    pub(crate) two: Endpoint<P>,
    pub(crate) first: Peer,
    pub(crate) second: Peer,
}

impl<P: Provider> Pair<P> {
    pub(crate) fn new(domain: Domain<P>) -> percale::Result<Self> {
        let (one, two) = (domain.endpoint()?, domain.endpoint()?);
        let first = domain.peer(&one.address()?)?;
        let second = domain.peer(&two.address()?)?;
        Ok(Self { domain, one, two, first, second })
    }
}
