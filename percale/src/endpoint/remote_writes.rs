//! HOT. Writes of peers that say so.

use core::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::{sync::Arc, time::Instant};

use fabric_core::completion::Entry;
use futures_core::Stream;

use super::{Endpoint, EndpointInner};
use crate::{
    address::Peer,
    dispatch::Provider,
    op::{Source, tasks},
    queue::ARRIVALS,
};

impl<P: Provider> Endpoint<P> {
    /// Writes of peers that came with data ([`Outgoing::data`](crate::Outgoing::data)), as a stream
    /// without end.
    ///
    /// All endpoints of a queue have one such stream, and one task or thread at a time waits for it.
    pub fn remote_writes(&self) -> RemoteWrites<P> {
        RemoteWrites { endpoint: self.inner.clone() }
    }
}

/// A write of a peer, which is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteWrite {
    /// What came along.
    pub data: u64,
    /// Bytes written, where the provider tells.
    pub len: usize,
    /// The peer, as [`Received::peer`](crate::Received::peer).
    pub peer: Option<Peer>,
}

/// Writes of peers that came with data.
pub struct RemoteWrites<P: Provider> {
    endpoint: Arc<EndpointInner<P>>,
}

impl<P: Provider> RemoteWrites<P> {
    /// The next one, as a future.
    pub async fn next(&mut self) -> RemoteWrite {
        let queue = &self.endpoint.queue;
        let next = core::future::poll_fn(|cx| queue.poll(cx, ARRIVALS, || queue.take_arrival()));
        self.of(next.await)
    }

    /// Waits for the next one, at most so long; `None` if there was none in that time.
    pub fn wait_next(&mut self, limit: Duration) -> Option<RemoteWrite> {
        let queue = &self.endpoint.queue;
        let deadline = Instant::now().checked_add(limit);
        queue.wait(deadline, ARRIVALS, || queue.take_arrival()).map(|entry| self.of(entry))
    }

    fn of(&self, entry: Entry) -> RemoteWrite {
        let source = Source(self.endpoint.domain.peers());
        RemoteWrite { data: entry.data, len: entry.len, peer: tasks::peer(source, &entry) }
    }
}

impl<P: Provider> Stream for RemoteWrites<P> {
    type Item = RemoteWrite;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RemoteWrite>> {
        let queue = &self.endpoint.queue;
        queue.poll(cx, ARRIVALS, || queue.take_arrival()).map(|entry| Some(self.of(entry)))
    }
}

impl<P: Provider> fmt::Debug for RemoteWrites<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteWrites")
    }
}
