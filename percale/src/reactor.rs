//! PENDING. What futures wait with: the reactor of whatever runtime the program has.
//!
//! This crate starts no thread. A queue has one descriptor that becomes readable when there is
//! something to do, and a [`Reactor`] tells when that is. `Tokio` and `AsyncIo` (for smol and others)
//! come with the features `tokio` and `async-io`; for another runtime the two traits are a few lines.
//!
//! A queue without a reactor works under any executor, too: its futures ask to be polled again at once
//! and never sleep. That has the lowest latency, and keeps a processor busy.

#[cfg(feature = "async-io")]
mod async_io;
#[cfg(feature = "tokio")]
mod tokio;

use std::{
    fmt, io,
    os::fd::OwnedFd,
    task::{Context, Poll},
};

#[cfg(feature = "async-io")]
pub use self::async_io::AsyncIo;
#[cfg(feature = "tokio")]
pub use self::tokio::Tokio;

/// The reactor of a runtime.
pub trait Reactor: fmt::Debug + Send + Sync + 'static {
    /// Watches a descriptor for reading, until the answer is dropped.
    fn register(&self, descriptor: OwnedFd) -> io::Result<Box<dyn Readiness>>;
}

/// A descriptor in the care of a reactor.
pub trait Readiness: fmt::Debug + Send + Sync {
    /// `Ready` if the descriptor has become readable since the last `Ready`, or may have; else the
    /// context's waker is woken when it does. One waker is enough: it is always the same.
    ///
    /// # Errors
    /// Those of the reactor, as when its runtime has been shut down.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}
