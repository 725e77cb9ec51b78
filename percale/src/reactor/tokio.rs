//! PENDING. tokio's reactor.

use std::{
    io,
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
};

use tokio::io::{Interest, unix::AsyncFd};

use super::{Reactor, Readiness};

/// tokio's reactor. Objects that wait with it are opened inside of a runtime, and used in that one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tokio;

impl Reactor for Tokio {
    fn register(&self, descriptor: OwnedFd) -> io::Result<Box<dyn Readiness>> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(io::Error::other("there is no tokio runtime here"));
        }
        #[allow(
            deprecated,
            reason = "an owned descriptor keeps what the newer call wants promised; older versions \
                      of tokio do not have that call"
        )]
        Ok(Box::new(Watched(AsyncFd::with_interest(descriptor, Interest::READABLE)?)))
    }
}

#[derive(Debug)]
struct Watched(AsyncFd<OwnedFd>);

impl Readiness for Watched {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_read_ready(cx))?.clear_ready();
        Poll::Ready(Ok(()))
    }
}
