//! SETUP. Connections: asking for one, and what it is good for.

mod listener;

use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{sync::Arc, time::Instant};

use fabric_core::{Errno, attr::Info, eq::RequestHandle};

pub use self::listener::{Incoming, Listener};
use crate::{
    address::Address,
    buf::{Buf, BufMut},
    dispatch::{Any, EndpointCalls, Provider},
    domain::{Domain, DomainInner},
    endpoint::{EndpointInner, Outgoing, Target, Way},
    error::{Error, Result},
    events::{ConnectionEvent, Events},
    op::{Op, Parked, Receiving, Request, Sending},
    shared_receive::SharedReceiveInner,
    trace::span,
};

impl<P: Provider> Domain<P> {
    /// Asks a listener for a connection ([`Hints::msg`](crate::Hints::msg)). It gets `data` along with
    /// the request, at most some 200 bytes, over verbs 50.
    pub fn connect(&self, address: &Address, data: &[u8]) -> Result<Connecting<P>> {
        connect(self.inner(), None, address, data)
    }
}

pub(crate) fn connect<P: Provider>(
    domain: &Arc<DomainInner<P>>,
    shared: Option<&Arc<SharedReceiveInner<P>>>,
    address: &Address,
    data: &[u8],
) -> Result<Connecting<P>> {
    span!("connect", peer = address.as_bytes().escape_ascii());
    let inner = open(domain, &domain.info, None, shared)?;
    let connect = inner.calls.connect(address.as_bytes(), data);
    connect.map_err(Error::refused("connect"))?;
    Ok(Connecting { inner: Some(inner) })
}

/// Opens a connected endpoint, for a request or to ask with.
fn open<P: Provider>(
    domain: &Arc<DomainInner<P>>,
    info: &Info,
    request: Option<&RequestHandle>,
    shared: Option<&Arc<SharedReceiveInner<P>>>,
) -> Result<Arc<EndpointInner<P>>> {
    let events = domain.events()?;
    let inner = EndpointInner::open(
        domain,
        domain.queue.clone(),
        info,
        request,
        Some(events.clone()),
        Way::Sharing(shared),
    )?;
    let bind = || {
        inner.calls.bind_eq(events.queue())?;
        P::bind_queue(&inner.calls, inner.queue.calls())
    };
    bind().map_err(Error::refused("open a connection"))?;
    Ok(inner)
}

/// A connection that is being made: a future of it, that threads can wait for.
#[must_use = "dropping it takes the request back"]
pub struct Connecting<P: Provider = Any> {
    /// `None` once it has been given.
    inner: Option<Arc<EndpointInner<P>>>,
}

impl<P: Provider> Connecting<P> {
    /// Waits for the connection.
    pub fn wait(self) -> Result<Connection<P>> {
        match self.wait_until(None) {
            Ok(done) => done,
            Err(_) => unreachable!("a wait without a deadline ends with the connection"),
        }
    }

    /// Waits at most so long; it comes back if it takes longer, and goes on.
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<Connection<P>>, Self> {
        self.wait_until(Instant::now().checked_add(limit))
    }

    fn wait_until(mut self, deadline: Option<Instant>) -> Result<Result<Connection<P>>, Self> {
        let event = match &self.inner {
            Some(inner) => inner.wait_event(deadline),
            None => return Err(self),
        };
        match event {
            Some(event) => Ok(self.finish(event)),
            None => Err(self),
        }
    }

    fn finish(&mut self, event: ConnectionEvent) -> Result<Connection<P>> {
        let inner = self.inner.take().expect("a connection is given once");
        match event {
            ConnectionEvent::Connected(data) => Ok(Connection { inner, data }),
            ConnectionEvent::Failed(error) => {
                Err(Error::Failed { errno: error.err, data: error.err_data[..].into() })
            }
            ConnectionEvent::Shutdown | ConnectionEvent::Request { .. } => {
                Err(Error::Failed { errno: Errno::ECONNRESET, data: Box::default() })
            }
        }
    }
}

impl<P: Provider> Future for Connecting<P> {
    type Output = Result<Connection<P>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = self.inner.as_ref().expect("polled after it was ready");
        inner.poll_event(cx).map(|event| self.finish(event))
    }
}

impl<P: Provider> fmt::Debug for Connecting<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connecting").field(&self.inner).finish()
    }
}

/// A connection with one peer. Dropping it, and its operations, ends it.
pub struct Connection<P: Provider = Any> {
    inner: Arc<EndpointInner<P>>,
    data: Vec<u8>,
}

impl<P: Provider> Connection<P> {
    /// What the listener has sent along when it accepted; nothing on its side.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The peer's address.
    pub fn peer(&self) -> Result<Address> {
        let name = self.inner.calls.peer_name().map_err(Error::refused("ask for a peer"))?;
        Ok(Address::from_bytes(name))
    }

    /// Sends a message.
    pub fn send<B: Buf>(&self, buffer: B) -> Op<P, Sending<B>> {
        self.to().send(buffer)
    }

    /// Sends a tagged message, which the peer receives from a
    /// [`SharedReceive`](crate::SharedReceive).
    pub fn send_tagged<B: Buf>(&self, tag: u64, buffer: B) -> Op<P, Sending<B>> {
        self.to().tag(tag).send(buffer)
    }

    /// Receives a message.
    pub fn recv<B: BufMut>(&self, buffer: B) -> Op<P, Receiving<B>> {
        let mut buffer = Parked::new(buffer);
        let request = Request::receive(None, buffer.get_mut(), None);
        self.inner.start(Ok(request), Receiving(buffer))
    }

    /// An operation with more than the usual said about it, or of another kind.
    pub fn to(&self) -> Outgoing<'_, P> {
        Outgoing::new(&self.inner, Target::Connected)
    }

    /// Ends the connection: the peer is told. Operations that are under way end.
    pub fn shutdown(&self) -> Result<()> {
        self.inner.calls.shutdown().map_err(Error::refused("shut down"))
    }

    /// Ready when the peer has ended the connection, or it has broken.
    pub async fn closed(&mut self) {
        core::future::poll_fn(|cx| self.inner.poll_event(cx)).await;
    }

    /// Waits for the end of the connection, at most so long; whether it has ended.
    pub fn wait_closed(&mut self, limit: Duration) -> bool {
        self.inner.wait_event(Instant::now().checked_add(limit)).is_some()
    }
}

impl<P: Provider> fmt::Debug for Connection<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.inner).finish()
    }
}

/// An endpoint's number in an event queue.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) events: Arc<Events>,
    pub(crate) object: fabric_core::slab::Handle,
}

impl Mailbox {
    pub(crate) fn open(events: Arc<Events>) -> Result<Self, Errno> {
        let object = events.enlist()?;
        Ok(Self { events, object })
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.events.strike(self.object);
    }
}
