//! SETUP. Listeners, and what comes to them.

use core::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{sync::Arc, time::Instant};

use fabric_core::{attr::Info, eq::RequestHandle};
use futures_core::Stream;

use super::{Connecting, Mailbox, open};
use crate::{
    address::Address,
    dispatch::{Any, EndpointCalls, Passive, Provider},
    domain::{Domain, DomainInner},
    error::{Error, Result},
    events::ConnectionEvent,
    shared_receive::{SharedReceive, SharedReceiveInner},
    trace::span,
};

impl<P: Provider> Domain<P> {
    /// Listens for connections, at the address that the fabric was asked for with
    /// ([`Hints::at`](crate::Hints::at)).
    pub fn listen(&self) -> Result<Listener<P>> {
        span!("listen");
        let domain = self.inner();
        let refused = |errno| Error::Refused { call: "listen", errno };
        let passive = Passive::open(domain.kind, &domain.info).map_err(refused)?;
        let mailbox = Mailbox::open(domain.events()?).map_err(refused)?;
        // From here on it is closed whatever happens.
        let listener = Listener { passive, mailbox, domain: domain.clone() };
        let listen = || {
            listener.passive.bind_eq(listener.mailbox.events.queue())?;
            listener.passive.listen(listener.mailbox.object.raw() as usize)
        };
        listen().map_err(refused)?;
        Ok(listener)
    }
}

/// Waits for peers to ask for connections; a stream of their requests without end.
///
/// ```
/// use percale::Hints;
///
/// # fn main() -> percale::Result<()> {
/// let fabric = Hints::msg().provider("tcp").at("127.0.0.1", None).open()?;
/// let domain = fabric.domain()?;
/// let mut listener = domain.listen()?;
///
/// let asking = domain.connect(&listener.address()?, b"may I?")?;
/// let incoming = listener.wait_incoming().expect("a request");
/// assert_eq!(incoming.data(), b"may I?");
/// let accepting = incoming.accept(b"you may")?;
/// let (client, server) = (asking.wait()?, accepting.wait()?);
/// assert_eq!(client.data(), b"you may");
///
/// let receive = server.recv(Vec::<u8>::with_capacity(10));
/// client.send("hello").wait()?;
/// assert_eq!(receive.wait()?.buffer, b"hello");
/// # Ok(())
/// # }
/// ```
pub struct Listener<P: Provider = Any> {
    passive: Passive,
    mailbox: Mailbox,
    domain: Arc<DomainInner<P>>,
}

impl<P: Provider> Listener<P> {
    /// Where peers reach it.
    pub fn address(&self) -> Result<Address> {
        let name = self.passive.name().map_err(Error::refused("ask for an address"))?;
        Ok(Address::from_bytes(name))
    }

    /// The next request, as a future. `None` would say that the listener has broken.
    pub async fn incoming(&mut self) -> Option<Incoming<P>> {
        core::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Waits for the next request.
    pub fn wait_incoming(&mut self) -> Option<Incoming<P>> {
        self.wait_until(None)
    }

    /// Waits for the next request, at most so long.
    pub fn wait_incoming_timeout(&mut self, limit: Duration) -> Option<Incoming<P>> {
        self.wait_until(Instant::now().checked_add(limit))
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Incoming<P>> {
        let event = self.mailbox.events.wait(deadline, self.mailbox.object)?;
        self.request(event)
    }

    fn request(&self, event: ConnectionEvent) -> Option<Incoming<P>> {
        match event {
            ConnectionEvent::Request { info, handle, data } => {
                let (passive, domain) = (self.passive.clone(), self.domain.clone());
                Some(Incoming { passive, domain, info, handle, data })
            }
            _ => None,
        }
    }
}

impl<P: Provider> Stream for Listener<P> {
    type Item = Incoming<P>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Incoming<P>>> {
        let event = self.mailbox.events.poll(cx, self.mailbox.object);
        event.map(|event| self.request(event))
    }
}

impl<P: Provider> Drop for Listener<P> {
    fn drop(&mut self) {
        self.passive.close();
    }
}

impl<P: Provider> fmt::Debug for Listener<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.passive).finish()
    }
}

/// A request for a connection. Dropping it refuses it.
#[must_use = "dropping a request refuses it"]
pub struct Incoming<P: Provider = Any> {
    passive: Passive,
    domain: Arc<DomainInner<P>>,
    info: Arc<Info>,
    handle: RequestHandle,
    data: Vec<u8>,
}

impl<P: Provider> Incoming<P> {
    /// What the peer has sent along.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Accepts. The peer gets `data` along, at most some 200 bytes, over verbs 50.
    pub fn accept(self, data: &[u8]) -> Result<Connecting<P>> {
        self.accept_with(None, data)
    }

    /// As [`Incoming::accept`], for a connection that receives from a context.
    pub fn accept_sharing(self, receive: &SharedReceive<P>, data: &[u8]) -> Result<Connecting<P>> {
        self.accept_with(Some(receive.inner()), data)
    }

    fn accept_with(
        self,
        shared: Option<&Arc<SharedReceiveInner<P>>>,
        data: &[u8],
    ) -> Result<Connecting<P>> {
        let inner = open(&self.domain, &self.info, Some(&self.handle), shared)?;
        inner.calls.accept(data).map_err(Error::refused("accept a connection"))?;
        Ok(Connecting { inner: Some(inner) })
    }

    /// Refuses. The peer gets `data` along, at most some 200 bytes, over verbs 50.
    pub fn reject(self, data: &[u8]) -> Result<()> {
        let refused = Error::refused("reject a connection");
        self.passive.reject(&self.handle, data).map_err(refused)
    }
}

impl<P: Provider> fmt::Debug for Incoming<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incoming({})", self.data.escape_ascii())
    }
}
