//! The two ends' messages: reliable datagrams or a connection, tagged or not.

use std::time::Duration;

use percale::{
    Address, Any, Connection, Domain, Endpoint, Errno, Error, Fabric, Failure, Hints, Info,
    NoProvider, Op, Peer, Received,
    attr::{EpAttr, EpType, FabricAttr},
    op::{Receiving, Sending, Task},
};

use super::control::Name;

/// What an operation may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// That of every tagged message.
const TAG: u64 = 1234;

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Wish<'a> {
    pub(super) provider: Option<&'a str>,
    pub(super) domain: Option<&'a str>,
    pub(super) kind: Kind,
    pub(super) is_tagged: bool,
    /// The address to be reached at, where that is not left to the provider.
    pub(super) node: Option<String>,
}

/// Types of endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Kind {
    Rdm,
    Msg,
    Dgram,
}

/// Endpoints that have an address and no peer yet.
pub(super) struct Opened {
    domain: Domain,
    kind: Kind,
    is_tagged: bool,
    pub(super) provider: &'static str,
    pub(super) format: u32,
}

/// One end of the way for messages.
pub(super) struct Link {
    way: Way,
    is_tagged: bool,
}

enum Way {
    Datagrams(Endpoint, Peer),
    Connection(Connection),
}

type Send = Op<Any, Sending<Vec<u8>>>;
type Receive = Op<Any, Receiving<Vec<u8>>>;

impl Opened {
    pub(super) fn open(wish: &Wish<'_>) -> Result<Self, Error> {
        let info = offer(wish)?;
        let format = info.addr_format;
        let fabric = Fabric::of_offer(info)?;
        let (kind, is_tagged) = (wish.kind, wish.is_tagged);
        Ok(Self { domain: fabric.domain()?, kind, is_tagged, provider: fabric.provider(), format })
    }

    /// Tells where this end is, hears where the other one is, in the order of `exchange`, and is
    /// connected. Of connections only the server has a place, and the client says nothing.
    pub(super) fn link(
        &self,
        is_server: bool,
        mut exchange: impl FnMut(Option<Name>) -> std::io::Result<Option<Name>>,
    ) -> Result<Link, Trouble> {
        let name = |address: Address| {
            Some(Name { format: self.format, bytes: address.as_bytes().to_vec() })
        };
        let way = match self.kind {
            Kind::Rdm | Kind::Dgram => {
                let endpoint = self.domain.endpoint()?;
                let other = self.understood(exchange(name(endpoint.address()?))?)?;
                Way::Datagrams(endpoint, self.domain.peer(&other)?)
            }
            Kind::Msg if is_server => {
                let mut listener = self.domain.listen()?;
                exchange(name(listener.address()?))?;
                let incoming = listener.wait_incoming_timeout(PATIENCE).ok_or(Trouble::Silence)?;
                Way::Connection(connected(incoming.accept(&[])?)?)
            }
            Kind::Msg => {
                let other = self.understood(exchange(None)?)?;
                Way::Connection(connected(self.domain.connect(&other, &[])?)?)
            }
        };
        Ok(Link { way, is_tagged: self.is_tagged })
    }

    fn understood(&self, name: Option<Name>) -> Result<Address, Trouble> {
        let name = name.ok_or(Trouble::Silence)?;
        if name.format != self.format {
            return Err(Trouble::Format(self.provider));
        }
        Ok(Address::from_bytes(name.bytes))
    }
}

fn connected(connecting: percale::Connecting) -> Result<Connection, Trouble> {
    Ok(connecting.wait_timeout(PATIENCE).map_err(|_| Trouble::Silence)??)
}

impl Link {
    /// Begins to receive a message.
    pub(super) fn receive(&self, room: Vec<u8>) -> Receive {
        match (&self.way, self.is_tagged) {
            (Way::Datagrams(endpoint, _), true) => endpoint.recv_tagged(TAG, room),
            (Way::Datagrams(endpoint, _), false) => endpoint.recv(room),
            (Way::Connection(connection), _) => connection.recv(room),
        }
    }

    /// Begins to send one.
    pub(super) fn send(&self, message: Vec<u8>) -> Send {
        match (&self.way, self.is_tagged) {
            (Way::Datagrams(endpoint, peer), true) => endpoint.send_tagged(*peer, TAG, message),
            (Way::Datagrams(endpoint, peer), false) => endpoint.send(*peer, message),
            (Way::Connection(connection), _) => connection.send(message),
        }
    }

    /// The last message, which is there when this returns.
    pub(super) fn send_last(&self, message: Vec<u8>) -> Send {
        let to = match &self.way {
            Way::Datagrams(endpoint, peer) => endpoint.to(*peer),
            Way::Connection(connection) => connection.to(),
        };
        let to = if self.is_tagged { to.tag(TAG) } else { to };
        to.delivered().send(message)
    }
}

/// Waits for an operation, not for ever.
pub(super) fn sent(send: Send) -> Result<Vec<u8>, Trouble> {
    ended(send)?.map_err(Trouble::of)
}

/// Waits for a message, not for ever.
pub(super) fn received(receive: Receive) -> Result<Received<Vec<u8>>, Trouble> {
    ended(receive)?.map_err(Trouble::of)
}

fn ended<T: Task>(operation: Op<Any, T>) -> Result<T::Output, Trouble> {
    operation.wait_timeout(PATIENCE).map_err(|_| Trouble::Silence)
}

/// Why two ends do not come together, or apart.
#[derive(Debug)]
pub(super) enum Trouble {
    Fabric(Error),
    Control(std::io::Error),
    /// The other end's addresses are not of this provider's kind.
    Format(&'static str),
    /// Nothing has come in time.
    Silence,
    /// A message was not what it should be.
    Content(String),
}

impl Trouble {
    fn of(failure: Failure<Vec<u8>>) -> Self {
        Self::Fabric(failure.error)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Fabric(error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Control(error)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fabric(error) => error.fmt(f),
            Self::Control(error) => write!(f, "control connection: {error}"),
            Self::Format(provider) => {
                write!(f, "the other end has another provider than {provider}")
            }
            Self::Silence => write!(f, "nothing has come for {} s", PATIENCE.as_secs()),
            Self::Content(what) => f.write_str(what),
        }
    }
}

/// The first offer of the provider itself: its name takes its layers, too.
fn offer(wish: &Wish<'_>) -> Result<Info, Error> {
    let mut hints = match wish.kind {
        Kind::Rdm => Hints::rdm(),
        Kind::Msg => Hints::msg(),
        Kind::Dgram => return Err(no_datagrams(wish)),
    };
    hints = if wish.is_tagged { hints.tagged() } else { hints.messages() };
    if let Some(provider) = wish.provider {
        hints = hints.provider(provider);
    }
    if let Some(domain) = wish.domain {
        hints = hints.domain_name(domain);
    }
    if let Some(node) = &wish.node {
        hints = hints.at(node, None);
    }
    let offers = hints.offers()?;
    let named = |info: &&Info| {
        info.fabric.as_ref().and_then(|fabric| fabric.prov_name.as_deref()) == wish.provider
    };
    let best = offers.iter().find(named).or_else(|| offers.first()).cloned();
    best.ok_or_else(|| NoProvider::Rejected(Vec::new()).into())
}

/// Why there are none, each provider's reason.
fn no_datagrams(wish: &Wish<'_>) -> Error {
    let hints = Info {
        ep: Some(EpAttr { ep_type: EpType::Dgram as u32, ..EpAttr::default() }),
        fabric: Some(FabricAttr {
            prov_name: wish.provider.map(str::to_owned),
            ..FabricAttr::default()
        }),
        ..Info::default()
    };
    match percale::discover(Some(&hints)) {
        Err(reasons) => reasons.into(),
        Ok(_) => Error::Refused { call: "open an endpoint of datagrams", errno: Errno::ENOSYS },
    }
}
