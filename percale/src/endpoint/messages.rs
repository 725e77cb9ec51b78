//! HOT. Messages, tagged and not.

use std::sync::Arc;

use fabric_core::{Errno, flags::Flags};

use super::{Endpoint, EndpointInner};
use crate::{
    address::Peer,
    buf::{Buf, BufMut},
    dispatch::Provider,
    op::{Op, Parked, Receiving, Request, Sending, Task},
};

/// Tags that a receive takes: all bits but the ignored ones have to be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagMatch {
    /// The tag.
    pub tag: u64,
    /// Bits that may differ.
    pub ignore: u64,
}

impl TagMatch {
    /// Every tag.
    pub const ANY: Self = Self { tag: 0, ignore: u64::MAX };

    /// Tags that differ in these bits at most.
    pub const fn ignoring(tag: u64, ignore: u64) -> Self {
        Self { tag, ignore }
    }
}

impl From<u64> for TagMatch {
    fn from(tag: u64) -> Self {
        Self { tag, ignore: 0 }
    }
}

impl<P: Provider> Endpoint<P> {
    /// Sends a message.
    pub fn send<B: Buf>(&self, peer: Peer, buffer: B) -> Op<P, Sending<B>> {
        self.to(peer).send(buffer)
    }

    /// Sends a tagged message.
    pub fn send_tagged<B: Buf>(&self, peer: Peer, tag: u64, buffer: B) -> Op<P, Sending<B>> {
        self.to(peer).tag(tag).send(buffer)
    }

    /// Receives an untagged message from anybody.
    pub fn recv<B: BufMut>(&self, buffer: B) -> Op<P, Receiving<B>> {
        self.receive(None, buffer, None)
    }

    /// Receives a tagged message from anybody.
    pub fn recv_tagged<B: BufMut>(
        &self,
        tag: impl Into<TagMatch>,
        buffer: B,
    ) -> Op<P, Receiving<B>> {
        self.receive(None, buffer, Some(tag.into()))
    }

    /// Receives an untagged message from one peer ([`Hints::directed`](crate::Hints::directed)).
    pub fn recv_from<B: BufMut>(&self, peer: Peer, buffer: B) -> Op<P, Receiving<B>> {
        self.receive(Some(peer), buffer, None)
    }

    /// Receives a tagged message from one peer ([`Hints::directed`](crate::Hints::directed)).
    pub fn recv_tagged_from<B: BufMut>(
        &self,
        peer: Peer,
        tag: impl Into<TagMatch>,
        buffer: B,
    ) -> Op<P, Receiving<B>> {
        self.receive(Some(peer), buffer, Some(tag.into()))
    }

    /// An operation towards a peer with more than the usual said about it.
    pub fn to(&self, peer: Peer) -> Outgoing<'_, P> {
        Outgoing::new(&self.inner, Target::Peer(peer))
    }

    fn receive<B: BufMut>(
        &self,
        peer: Option<Peer>,
        buffer: B,
        tag: Option<TagMatch>,
    ) -> Op<P, Receiving<B>> {
        let tag = tag.map(|tag| (tag.tag, tag.ignore));
        let peer = peer.map(|peer| self.inner.domain.peers().index(peer)).transpose();
        let mut buffer = Parked::new(buffer);
        let request = peer.map(|peer| Request::receive(peer, buffer.get_mut(), tag));
        self.inner.start(request, Receiving(buffer))
    }
}

/// What is said about an operation before it is started.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is sent before a buffer is given"]
pub struct Outgoing<'a, P: Provider> {
    pub(super) endpoint: &'a Arc<EndpointInner<P>>,
    target: Target,
    tag: Option<u64>,
    data: Option<u64>,
    flags: Flags,
}

/// Who an operation is towards.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// One of the peers of the domain.
    Peer(Peer),
    /// The only one there is.
    Connected,
}

impl<'a, P: Provider> Outgoing<'a, P> {
    pub(crate) const fn new(endpoint: &'a Arc<EndpointInner<P>>, target: Target) -> Self {
        Self { endpoint, target, tag: None, data: None, flags: Flags::empty() }
    }

    /// A tagged message, with this tag.
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = Some(tag);
        self
    }

    /// Data for the completion at the target: of a receive, or of a write that then shows there.
    pub fn data(mut self, data: u64) -> Self {
        self.data = Some(data);
        self
    }

    /// Done when the peer has it in its memory, and not when the buffer is free.
    pub fn delivered(mut self) -> Self {
        self.flags |= Flags::DELIVERY_COMPLETE;
        self
    }

    /// Begins when all earlier operations to this peer are done.
    pub fn fenced(mut self) -> Self {
        self.flags |= Flags::FENCE;
        self
    }

    /// Others to this peer follow at once, and may leave together with this one.
    pub fn more(mut self) -> Self {
        self.flags |= Flags::MORE;
        self
    }

    /// Sends a message.
    pub fn send<B: Buf>(self, buffer: B) -> Op<P, Sending<B>> {
        let mut buffer = Parked::new(buffer);
        let request = self.index().map(|peer| Request::send(peer, buffer.get_mut(), self.tag));
        self.start(request, Sending(buffer))
    }

    /// Starts an operation with everything that was said.
    pub(crate) fn start<T: Task>(&self, request: Result<Request, Errno>, task: T) -> Op<P, T> {
        let request = request.map(|request| request.flags(self.flags).data(self.data));
        self.endpoint.start(request, task)
    }

    /// What the provider calls the peer.
    pub(crate) fn index(&self) -> Result<u64, Errno> {
        match self.target {
            Target::Peer(peer) => self.endpoint.domain.peers().index(peer),
            Target::Connected => Ok(0),
        }
    }
}
