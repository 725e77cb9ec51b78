//! HOT. Operations on borrowed memory, which end before the borrow does.
#![allow(
    unsafe_code,
    reason = "lends memory of the caller to operations for as long as a scope lasts"
)]

use core::{fmt, marker::PhantomData};
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fabric_core::{Errno, slab::Handle};

use crate::{
    address::Peer,
    buf::{Buf, BufMut, Piece},
    dispatch::Provider,
    endpoint::{Endpoint, TagMatch},
    error::{Error, Result},
    op::Request,
    queue::Outcome,
    registered::Known,
};

impl<P: Provider> Endpoint<P> {
    /// Runs operations on memory that is only borrowed.
    ///
    /// When `body` returns, or panics, what it has not waited for is taken back as far as possible, and
    /// the scope waits until the library has let go of all the memory: for a transfer that has begun,
    /// until its peer goes on or goes away.
    ///
    /// ```
    /// # fn main() -> percale::Result<()> {
    /// let domain = percale::Fabric::loopback()?.domain()?;
    /// let (one, two) = (domain.endpoint()?, domain.endpoint()?);
    /// let peer = domain.peer(&two.address()?)?;
    ///
    /// let (text, mut place) = (*b"on the stack", [0u8; 12]);
    /// let receiving = two.scope(|scope| {
    ///     let receive = scope.recv(&mut place);
    ///     one.send(peer, text.to_vec()).wait()?;
    ///     receive.wait()
    /// });
    /// assert_eq!(receiving?, 12);
    /// assert_eq!(place, text);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scope<'env, R>(
        &self,
        body: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env, P>) -> R,
    ) -> R {
        // Declared first, so that it goes last, whatever way `body` takes out.
        let lender = Lender { endpoint: self, started: Mutex::default() };
        body(&Scope { lender: &lender, scope: PhantomData, env: PhantomData })
    }
}

/// Operations on memory that outlives them.
pub struct Scope<'scope, 'env: 'scope, P: Provider> {
    lender: &'scope Lender<'scope, P>,
    /// Invariant, as with the scopes of threads.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Operations, and how a device knows their memory.
type Started = Vec<(Handle, Option<Known>)>;

/// Answers for the memory: it goes when no operation uses any.
struct Lender<'a, P: Provider> {
    endpoint: &'a Endpoint<P>,
    /// Operations that have not been waited for.
    started: Mutex<Started>,
}

impl<P: Provider> Lender<'_, P> {
    fn start(&self, request: Result<Request, Errno>) -> Result<Handle, Errno> {
        // Room for the note first: nothing may come between the start and the note.
        let mut started = self.started();
        started.reserve(1);
        let (key, known) = self.endpoint.inner.start_lent(request?)?;
        started.push((key, known));
        Ok(key)
    }

    fn wait(&self, key: Handle, deadline: Option<Instant>) -> Option<Outcome> {
        let queue = &self.endpoint.inner.queue;
        let outcome = queue.wait(deadline, key.index(), || queue.take(key))?;
        let mut started = self.started();
        let at = started.iter().position(|(other, _)| *other == key);
        let known = at.and_then(|at| started.swap_remove(at).1);
        drop(started);
        if let Some(known) = known {
            known.settle(&outcome);
        }
        Some(outcome)
    }

    // A panic cannot leave the list half changed, so a poisoned lock is as good as any.
    fn started(&self) -> MutexGuard<'_, Started> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Provider> Drop for Lender<'_, P> {
    fn drop(&mut self) {
        let inner = &self.endpoint.inner;
        let keys: Vec<Handle> = self.started().iter().map(|(key, _)| *key).collect();
        for key in &keys {
            inner.queue.cancel(inner.poster(), *key);
        }
        for key in keys {
            self.wait(key, None);
        }
    }
}

/// Memory of the caller.
struct Lent(Piece);

// SAFETY: a place in memory that is borrowed for the whole scope, which waits for the operation.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Buf for Lent {
    fn piece(&self) -> Piece {
        self.0
    }
}
// SAFETY: as above; made of exclusive borrows only where it is written.
unsafe impl BufMut for Lent {
    fn piece_mut(&mut self) -> Piece {
        self.0
    }
    unsafe fn filled(&mut self, _: usize) {}
}

impl<'scope, P: Provider> Scope<'scope, '_, P> {
    /// Sends a message.
    pub fn send(&'scope self, peer: Peer, bytes: &'scope [u8]) -> ScopedOp<'scope, P> {
        self.outgoing(peer, bytes, None)
    }

    /// Sends a tagged message.
    pub fn send_tagged(
        &'scope self,
        peer: Peer,
        tag: u64,
        bytes: &'scope [u8],
    ) -> ScopedOp<'scope, P> {
        self.outgoing(peer, bytes, Some(tag))
    }

    /// Receives an untagged message from anybody.
    pub fn recv(&'scope self, room: &'scope mut [u8]) -> ScopedOp<'scope, P> {
        self.incoming(room, None)
    }

    /// Receives a tagged message from anybody.
    pub fn recv_tagged(
        &'scope self,
        tag: impl Into<TagMatch>,
        room: &'scope mut [u8],
    ) -> ScopedOp<'scope, P> {
        self.incoming(room, Some(tag.into()))
    }

    fn outgoing(&'scope self, peer: Peer, bytes: &[u8], tag: Option<u64>) -> ScopedOp<'scope, P> {
        let index = self.lender.endpoint.inner.domain.peers().index(peer);
        self.start(index.map(|index| Request::send(index, &Lent(Piece::of(bytes)), tag)))
    }

    fn incoming(&'scope self, room: &mut [u8], tag: Option<TagMatch>) -> ScopedOp<'scope, P> {
        let mut room = Lent(Piece::new(room.as_mut_ptr(), room.len()));
        let tag = tag.map(|tag| (tag.tag, tag.ignore));
        self.start(Ok(Request::receive(None, &mut room, tag)))
    }

    fn start(&'scope self, request: Result<Request, Errno>) -> ScopedOp<'scope, P> {
        ScopedOp { lender: self.lender, key: self.lender.start(request) }
    }
}

impl<P: Provider> fmt::Debug for Scope<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("started", &self.lender.started).finish_non_exhaustive()
    }
}

/// An operation on borrowed memory.
#[must_use = "what is not waited for is taken back"]
pub struct ScopedOp<'scope, P: Provider> {
    lender: &'scope Lender<'scope, P>,
    key: Result<Handle, Errno>,
}

impl<P: Provider> ScopedOp<'_, P> {
    /// Waits; gives the bytes of a message that has been received.
    pub fn wait(self) -> Result<usize> {
        match self.wait_until(None) {
            Ok(done) => done,
            Err(_) => unreachable!("a wait without a deadline ends with the operation"),
        }
    }

    /// Waits at most so long. The operation comes back if it takes longer, and goes on.
    pub fn wait_timeout(self, limit: Duration) -> Result<Result<usize>, Self> {
        self.wait_until(Instant::now().checked_add(limit))
    }

    fn wait_until(self, deadline: Option<Instant>) -> Result<Result<usize>, Self> {
        let outcome = match self.key {
            Ok(key) => self.lender.wait(key, deadline),
            Err(errno) => Some(Outcome::of(errno)),
        };
        match outcome {
            Some(Outcome::Done(entry)) => Ok(Ok(entry.len)),
            Some(Outcome::Failed(error)) => Ok(Err(Error::of_completion(*error))),
            None => Err(self),
        }
    }
}

impl<P: Provider> fmt::Debug for ScopedOp<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedOp").field("key", &self.key).finish_non_exhaustive()
    }
}
