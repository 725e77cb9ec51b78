//! PENDING. The reactor of `async-io`, which smol and async-std use, and any executor can.

use std::{
    io,
    os::fd::OwnedFd,
    task::{Context, Poll},
};

use async_io::Async;

use super::{Reactor, Readiness};

/// The reactor of `async-io`: that of smol, and of no runtime in particular.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncIo;

impl Reactor for AsyncIo {
    fn register(&self, descriptor: OwnedFd) -> io::Result<Box<dyn Readiness>> {
        Ok(Box::new(Watched(Async::new_nonblocking(descriptor)?)))
    }
}

#[derive(Debug)]
struct Watched(Async<OwnedFd>);

impl Readiness for Watched {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_readable(cx)
    }
}
