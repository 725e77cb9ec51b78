//! SETUP. Fabrics: what discovery has chosen.

use fabric_core::{Errno, attr::Info, discovery::NoProvider};

use crate::{
    dispatch::{Any, Kind, Local, Provider},
    domain::{Domain, DomainBuilder},
    error::{Error, Result},
    hints::Hints,
};

/// A fabric of one provider: what processes can reach each other in.
#[derive(Clone, Debug)]
pub struct Fabric {
    kind: Kind,
    info: Info,
}

impl Fabric {
    /// The fabric of an offer, as discovery has returned it.
    pub fn of_offer(info: Info) -> Result<Self> {
        Self::of_offers(vec![info])
    }

    /// The fabric of the first offer that this crate can open.
    pub(crate) fn of_offers(offers: Vec<Info>) -> Result<Self> {
        for info in offers {
            let name = info.fabric.as_ref().and_then(|fabric| fabric.prov_name.as_deref());
            if let Some(kind) = name.and_then(Kind::of) {
                return Ok(Self { kind, info });
            }
        }
        Err(NoProvider::Rejected(Vec::new()).into())
    }

    /// Shared memory with everything it can do, for the tests of programs: endpoints in one process
    /// talk to each other as they would between processes.
    pub fn loopback() -> Result<Self> {
        let hints = Hints::rdm().messages().tagged().rma().atomics().multi_receive();
        hints.source().directed().provider("shm").open()
    }

    /// The provider's name.
    pub const fn provider(&self) -> &'static str {
        self.kind.name()
    }

    /// What the provider promises: limits, capabilities, orders.
    pub const fn info(&self) -> &Info {
        &self.info
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Opens a domain whose objects any thread may use.
    pub fn domain(&self) -> Result<Domain> {
        self.builder::<Any>().open()
    }

    /// Opens a domain whose objects stay on this thread, and take no locks.
    ///
    /// ```compile_fail
    /// let domain = percale::Fabric::loopback()?.local_domain()?;
    /// std::thread::spawn(move || domain.endpoint());
    /// # Ok::<(), percale::Error>(())
    /// ```
    pub fn local_domain(&self) -> Result<Domain<Any<Local>>> {
        self.builder::<Any<Local>>().open()
    }

    /// Opens a domain of a provider that the program knows, or with a reactor.
    ///
    /// ```
    /// use percale::{Fabric, Shm};
    ///
    /// let domain = Fabric::loopback()?.builder::<Shm>().open()?;
    /// # Ok::<(), percale::Error>(())
    /// ```
    pub fn builder<P: Provider>(&self) -> DomainBuilder<P> {
        DomainBuilder::new(self.clone())
    }

    /// Whether the provider's objects can be of these types.
    pub(crate) fn check<P: Provider>(&self) -> Result<()> {
        if P::supports(self.kind) {
            return Ok(());
        }
        Err(Error::Refused { call: "open a domain of another provider", errno: Errno::EINVAL })
    }
}
