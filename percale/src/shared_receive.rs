//! HOT. Receives that the connections of a domain share.

use core::{fmt, marker::PhantomData};
use std::sync::Arc;

use fabric_core::{Errno, slab::Handle};

use crate::{
    address::Address,
    buf::BufMut,
    connection::{Connecting, connect},
    dispatch::{Any, Provider, SharedReceiveCalls, Threads},
    domain::{Domain, DomainInner},
    endpoint::TagMatch,
    error::{Error, Result},
    op::{Op, Origin, Parked, Receiving, Request},
    queue::{Poster, Queue},
    registered::Known,
};

/// Receives of many connections: a message of any of them takes the first that it matches.
///
/// A server of many clients posts as many receives as it means to serve at a time, and not as many for
/// each of them. Over `tcp`, tagged messages over connections are received in this way only. The fabric
/// is asked for with [`Hints::shared_receive`](crate::Hints::shared_receive); then all its connections
/// receive from such a context, and which one a message has come by is for the message to say.
///
/// Receives are taken back, when they are dropped or cancelled, as long as there is a connection; without
/// one they last until the context goes. A device that has taken a receive over (`verbs`) keeps it.
///
/// ```
/// use percale::Hints;
///
/// # fn main() -> percale::Result<()> {
/// let hints = Hints::msg().tagged().shared_receive().provider("tcp").at("127.0.0.1", None);
/// let domain = hints.open()?.domain()?;
/// let mut listener = domain.listen()?;
/// let (theirs, ours) = (domain.shared_receive()?, domain.shared_receive()?);
///
/// let asking = domain.connect_sharing(&theirs, &listener.address()?, b"")?;
/// let incoming = listener.wait_incoming().expect("a request");
/// let accepting = incoming.accept_sharing(&ours, b"")?;
/// let (client, _server) = (asking.wait()?, accepting.wait()?);
///
/// let receive = ours.recv_tagged(7, Vec::<u8>::with_capacity(10));
/// client.send_tagged(7, "seven").wait()?;
/// assert_eq!(receive.wait()?.buffer, b"seven");
/// # Ok(())
/// # }
/// ```
pub struct SharedReceive<P: Provider = Any> {
    inner: Arc<SharedReceiveInner<P>>,
}

pub(crate) struct SharedReceiveInner<P: Provider> {
    /// No endpoint, and no other context, has it.
    name: u64,
    pub(crate) calls: P::SharedReceive,
    pub(crate) queue: Arc<Queue<P>>,
    pub(crate) domain: Arc<DomainInner<P>>,
    marker: PhantomData<<P::Threads as Threads>::Marker>,
}

impl<P: Provider> Domain<P> {
    /// A context that connections can receive from.
    pub fn shared_receive(&self) -> Result<SharedReceive<P>> {
        let domain = self.inner();
        let calls = P::open_shared_receive(domain.kind, &domain.core, &domain.info)
            .map_err(Error::refused("open a shared receive context"))?;
        let (name, queue) = (domain.name(), domain.queue.clone());
        let (domain, marker) = (domain.clone(), PhantomData);
        Ok(SharedReceive {
            inner: Arc::new(SharedReceiveInner { name, calls, queue, domain, marker }),
        })
    }

    /// As [`Domain::connect`], for a connection that receives from a context.
    pub fn connect_sharing(
        &self,
        receive: &SharedReceive<P>,
        address: &Address,
        data: &[u8],
    ) -> Result<Connecting<P>> {
        connect(self.inner(), Some(&receive.inner), address, data)
    }
}

impl<P: Provider> SharedReceive<P> {
    pub(crate) const fn inner(&self) -> &Arc<SharedReceiveInner<P>> {
        &self.inner
    }

    /// Receives an untagged message of any connection.
    pub fn recv<B: BufMut>(&self, buffer: B) -> Op<P, Receiving<B>> {
        self.receive(buffer, None)
    }

    /// Receives a tagged message of any connection.
    pub fn recv_tagged<B: BufMut>(
        &self,
        tag: impl Into<TagMatch>,
        buffer: B,
    ) -> Op<P, Receiving<B>> {
        self.receive(buffer, Some(tag.into()))
    }

    fn receive<B: BufMut>(&self, buffer: B, tag: Option<TagMatch>) -> Op<P, Receiving<B>> {
        let tag = tag.map(|tag| (tag.tag, tag.ignore));
        let mut buffer = Parked::new(buffer);
        let request = Request::receive(None, buffer.get_mut(), tag);
        let started = self.inner.start(request);
        Op::new(Origin::Shared(self.inner.clone()), started, Receiving(buffer))
    }
}

impl<P: Provider> SharedReceiveInner<P> {
    fn start(&self, mut request: Request) -> Result<(Handle, Option<Known>), Errno> {
        let known = Known::of(self.domain.pool(), &mut request, 0)?;
        let poster = Poster::Shared(&self.calls);
        let key = self.queue.start(self.name, poster, (request, None), false)?;
        Ok((key, known))
    }
}

impl<P: Provider> Drop for SharedReceiveInner<P> {
    fn drop(&mut self) {
        // Every connection that receives from it has gone.
        self.calls.close();
        self.queue.end_all(self.name);
    }
}

impl<P: Provider> fmt::Debug for SharedReceive<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<P: Provider> fmt::Debug for SharedReceiveInner<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReceive").field("name", &self.name).finish_non_exhaustive()
    }
}
