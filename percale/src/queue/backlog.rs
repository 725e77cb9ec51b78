//! PENDING. Operations that a provider has no room for yet: `EAGAIN` is not the program's to handle.
#![allow(unsafe_code, reason = "hands memory of operations to providers")]

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use fabric_core::{Errno, Result, slab::Handle};

use super::{
    lock,
    poster::{Kept, Poster},
};
use crate::{dispatch::Provider, op::Request};

/// An operation that is to be handed to a provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) owner: u64,
    pub(crate) key: Handle,
    pub(crate) request: Request,
    /// Not before this time.
    pub(crate) due: Option<Instant>,
}

/// Operations in the order in which they were started. Those of one endpoint keep it.
pub(super) struct Backlog<P: Provider> {
    /// Operations in `waiting`, so that an empty backlog takes no lock.
    ///
    /// Relaxed: changed under the lock. Who has started an operation sees its own; another's that is
    /// missed belongs to nobody's order.
    len: AtomicUsize,
    waiting: Mutex<VecDeque<(Kept<P>, Waiting)>>,
}

impl<P: Provider> Backlog<P> {
    pub(super) fn new() -> Self {
        Self { len: AtomicUsize::new(0), waiting: Mutex::default() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// Hands an operation over, or keeps it while the provider has no room. Receives are never kept
    /// behind sends.
    #[inline]
    pub(super) fn post(&self, poster: Poster<'_, P>, operation: Waiting) -> Result<()> {
        if self.is_empty() && operation.due.is_none() {
            match hand_over(poster, &operation) {
                Err(Errno::EAGAIN) => {}
                done => return done,
            }
        }
        let mut waiting = lock(&self.waiting);
        let receive = operation.request.is_receive();
        let overtakes = |other: &Waiting| {
            other.owner == operation.owner && other.request.is_receive() == receive
        };
        if operation.due.is_none() && !waiting.iter().any(|(_, other)| overtakes(other)) {
            match hand_over(poster, &operation) {
                Err(Errno::EAGAIN) => {}
                done => return done,
            }
        }
        waiting.push_back((poster.keep(), operation));
        self.len.store(waiting.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Hands over what there is room for now; `refused` hears of what will never be. Whether any was.
    pub(super) fn flush(&self, mut refused: impl FnMut(Handle, Errno)) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut failed = Vec::new();
        let mut blocked: Vec<(u64, bool)> = Vec::new();
        let mut waiting = lock(&self.waiting);
        let before = waiting.len();
        waiting.retain(|(kept, operation)| {
            let class = (operation.owner, operation.request.is_receive());
            if blocked.contains(&class) {
                return true;
            }
            if operation.due.is_some_and(|due| due > Instant::now()) {
                blocked.push(class);
                return true;
            }
            match hand_over(kept.poster(), operation) {
                Ok(()) => false,
                Err(Errno::EAGAIN) => {
                    blocked.push(class);
                    true
                }
                Err(errno) => {
                    failed.push((operation.key, errno));
                    false
                }
            }
        });
        let handed = before != waiting.len();
        self.len.store(waiting.len(), Ordering::Relaxed);
        drop(waiting);
        for (key, errno) in failed {
            refused(key, errno);
        }
        handed
    }

    /// Takes an operation back; `true` if it was here.
    pub(super) fn remove(&self, key: Handle) -> bool {
        self.remove_if(|operation| operation.key == key)
    }

    /// Takes an endpoint's operations back.
    pub(super) fn remove_all(&self, owner: u64) {
        self.remove_if(|operation| operation.owner == owner);
    }

    fn remove_if(&self, which: impl Fn(&Waiting) -> bool) -> bool {
        if self.is_empty() {
            return false;
        }
        let mut gone = Vec::new();
        let mut waiting = lock(&self.waiting);
        waiting.retain(|(kept, operation)| {
            let stays = !which(operation);
            if !stays {
                gone.push(kept.clone());
            }
            stays
        });
        self.len.store(waiting.len(), Ordering::Relaxed);
        drop(waiting);
        !gone.is_empty()
    }
}

#[inline]
fn hand_over<P: Provider>(poster: Poster<'_, P>, operation: &Waiting) -> Result<()> {
    // SAFETY: the operation's record has been made and has not ended. Its memory belongs to an `Op`,
    // or to the record if that has been dropped, and neither lets go of it before the record ends:
    // by the completion, by the end of its endpoint, or by `remove` before it comes here.
    unsafe { poster.post(&operation.request, operation.key.raw() as usize) }
}
