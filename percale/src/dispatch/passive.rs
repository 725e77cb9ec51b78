//! SETUP. Endpoints that listen, of the providers that have connections.

use std::sync::Arc;

use fabric_core::{
    Errno, Result,
    api::PassiveEndpoint,
    attr::Info,
    eq::{EventQueue, RequestHandle},
};
use provider_tcp::TcpPassive;
use provider_verbs::VerbsPassive;

use super::Kind;

/// A passive endpoint of the provider that was chosen.
#[derive(Clone, Debug)]
pub(crate) enum Passive {
    Tcp(Arc<TcpPassive>),
    Verbs(Arc<VerbsPassive>),
}

macro_rules! forward {
    ($self:ident, $passive:ident => $call:expr) => {
        match $self {
            Self::Tcp($passive) => $call,
            Self::Verbs($passive) => $call,
        }
    };
}

impl Passive {
    /// Opens one at the offer's address; `ENOSYS` for providers without connections.
    pub(crate) fn open(kind: Kind, info: &Info) -> Result<Self> {
        match kind {
            Kind::Tcp => TcpPassive::open(info, 0).map(Self::Tcp),
            Kind::Verbs => VerbsPassive::open(info, 0).map(Self::Verbs),
            Kind::Shm | Kind::TcpRxm | Kind::VerbsRxm => Err(Errno::ENOSYS),
        }
    }

    pub(crate) fn bind_eq(&self, eq: &Arc<EventQueue>) -> Result<()> {
        forward!(self, passive => passive.bind_eq(eq))
    }

    pub(crate) fn listen(&self, object: usize) -> Result<()> {
        forward!(self, passive => passive.listen(object))
    }

    pub(crate) fn reject(&self, request: &RequestHandle, data: &[u8]) -> Result<()> {
        forward!(self, passive => passive.reject(request, data))
    }

    pub(crate) fn close(&self) {
        forward!(self, passive => passive.close());
    }

    pub(crate) fn name(&self) -> Result<Vec<u8>> {
        forward!(self, passive => passive.name())
    }
}
