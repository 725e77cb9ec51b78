//! HOT. One buffer, many messages.
#![allow(unsafe_code, reason = "looks at messages where they have been placed")]

use core::{
    fmt,
    ops::Deref,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{sync::Arc, time::Instant};

use fabric_core::{Errno, completion::Entry, flags::Flags, options, slab::Handle};
use futures_core::Stream;

use super::{Endpoint, EndpointInner};
use crate::{
    address::Peer,
    buf::{BufMut, Piece},
    dispatch::{EndpointCalls, Provider},
    error::{Error, Result},
    memory::Memory,
    op::{Request, Source, tasks},
    queue::Outcome,
};

impl<P: Provider> Endpoint<P> {
    /// Receives untagged messages from anybody into a buffer of `len` bytes, one behind the other, until
    /// less than `reserve` bytes are free ([`Hints::multi_receive`](crate::Hints::multi_receive)).
    ///
    /// Post the next buffer before this one has ended, so that no message waits for one.
    ///
    /// ```
    /// # fn main() -> percale::Result<()> {
    /// let domain = percale::Fabric::loopback()?.domain()?;
    /// let (one, two) = (domain.endpoint()?, domain.endpoint()?);
    /// let mut messages = two.recv_many(1 << 20, 4096)?;
    /// let peer = domain.peer(&two.address()?)?;
    /// one.send(peer, "first").wait()?;
    /// one.send(peer, "second").wait()?;
    /// let first = messages.wait_next().expect("the buffer is large")?;
    /// let second = messages.wait_next().expect("the buffer is large")?;
    /// assert_eq!((&first[..], &second[..]), (&b"first"[..], &b"second"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn recv_many(&self, len: usize, reserve: usize) -> Result<Messages<P>> {
        let refused = |errno| Error::Refused { call: "receive many", errno };
        let memory = Arc::new(self.inner.domain.pool().memory(len).map_err(refused)?);
        let option = options::MIN_MULTI_RECV;
        self.inner.calls.set_option(option, &reserve.to_ne_bytes()).map_err(refused)?;
        let mut whole = Whole(memory.clone());
        let request = Request::receive(None, &mut whole, None).flags(Flags::MULTI_RECV);
        let key = self.inner.start_many(request).map_err(refused)?;
        Ok(Messages { endpoint: self.inner.clone(), key: Some(key), memory })
    }
}

/// All of the memory as a buffer.
struct Whole(Arc<Memory>);

// SAFETY: the memory stays as long as this or another owner of it, here the stream of messages, or the
// record of its operation.
unsafe impl BufMut for Whole {
    fn piece_mut(&mut self) -> Piece {
        let iov = self.0.iov();
        Piece::new(iov.base, iov.len).marked(self.0.mark())
    }

    unsafe fn filled(&mut self, _: usize) {}
}

/// Messages as they come into one buffer; a stream that ends with the buffer.
///
/// Dropping it takes no further messages; those that have come and were not taken are lost.
#[must_use = "dropping it takes no messages"]
pub struct Messages<P: Provider> {
    endpoint: Arc<EndpointInner<P>>,
    /// `None` once the buffer has ended.
    key: Option<Handle>,
    memory: Arc<Memory>,
}

impl<P: Provider> Messages<P> {
    /// The next message, as a future; `None` when the buffer has ended.
    pub async fn next(&mut self) -> Option<Result<Message>> {
        core::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Waits for the next message; `None` when the buffer has ended.
    pub fn wait_next(&mut self) -> Option<Result<Message>> {
        self.wait_until(None).flatten()
    }

    /// Waits for the next message, at most so long: `None` if there was none in that time.
    pub fn wait_next_timeout(&mut self, limit: Duration) -> Option<Option<Result<Message>>> {
        self.wait_until(Instant::now().checked_add(limit))
    }

    /// Takes no further messages. What has come can still be taken; then the stream ends.
    pub fn cancel(&self) {
        if let Some(key) = self.key {
            self.endpoint.queue.cancel(self.endpoint.poster(), key);
        }
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Option<Option<Result<Message>>> {
        let Some(key) = self.key else { return Some(None) };
        let queue = &self.endpoint.queue;
        let next = queue.wait(deadline, key.index(), || queue.take_next(key))?;
        Some(self.take(next))
    }

    fn take(&mut self, next: Option<Outcome>) -> Option<Result<Message>> {
        match next {
            Some(Outcome::Done(entry)) => Some(Ok(self.message(&entry))),
            Some(Outcome::Failed(error)) if error.err == Errno::ECANCELED => {
                // Nothing comes behind it but the end, with which the operation is forgotten.
                if let Some(key) = self.key.take() {
                    self.endpoint.queue.take_next(key);
                }
                None
            }
            Some(Outcome::Failed(error)) => Some(Err(Error::of_completion(*error))),
            None => {
                self.key = None;
                None
            }
        }
    }

    fn message(&self, entry: &Entry) -> Message {
        let source = Source(self.endpoint.domain.peers());
        // What a provider says is inside; if it were not, there would be nothing to look at.
        let at = entry.buf.wrapping_sub(self.memory.iov().base.addr()).min(self.memory.len());
        let len = entry.len.min(self.memory.len() - at);
        Message {
            memory: self.memory.clone(),
            at,
            len,
            peer: tasks::peer(source, entry),
            data: tasks::data(entry),
        }
    }
}

impl<P: Provider> Stream for Messages<P> {
    type Item = Result<Message>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(key) = self.key else { return Poll::Ready(None) };
        let queue = &self.endpoint.queue;
        let next = queue.poll(cx, key.index(), || queue.take_next(key));
        next.map(|next| self.take(next))
    }
}

/// What it owns moves with it, and what that points to does not.
impl<P: Provider> Unpin for Messages<P> {}

impl<P: Provider> Drop for Messages<P> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let kept = Box::new(self.memory.clone());
            self.endpoint.queue.abandon(self.endpoint.poster(), key, kept);
        }
    }
}

impl<P: Provider> fmt::Debug for Messages<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A message in the buffer that it came into, which stays as long as one of its messages.
#[derive(Clone)]
pub struct Message {
    memory: Arc<Memory>,
    at: usize,
    len: usize,
    peer: Option<Peer>,
    data: Option<u64>,
}

impl Message {
    /// The sender, as [`Received::peer`](crate::Received::peer).
    pub const fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// What the sender has sent along.
    pub const fn data(&self) -> Option<u64> {
        self.data
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: inside the memory, by `Messages::message`. The provider has placed a message there
        // and reported it; it places no other one in the same bytes of the buffer.
        unsafe { core::slice::from_raw_parts(self.memory.at(self.at), self.len) }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({})", self.escape_ascii())
    }
}
