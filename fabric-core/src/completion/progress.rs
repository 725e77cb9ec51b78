//! HOT. The endpoints that a queue or counter must move forward when it is read.

use std::{fmt, sync::Arc};

use super::{CompletionQueue, EntryBuf};
use crate::{
    Result,
    api::Endpoint,
    lock::{Guarded, Lock},
};

/// Endpoints bound to one queue or counter.
pub struct ProgressSet<E: Endpoint>(<E::Lock as Lock>::Cell<Vec<Arc<E>>>);

impl<E: Endpoint> fmt::Debug for ProgressSet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSet")
    }
}

impl<E: Endpoint> Default for ProgressSet<E> {
    fn default() -> Self {
        Self(Guarded::new(Vec::new()))
    }
}

impl<E: Endpoint> ProgressSet<E> {
    /// Adds an endpoint once.
    pub fn add(&self, endpoint: &Arc<E>) {
        let mut set = self.0.lock();
        if !set.iter().any(|e| Arc::ptr_eq(e, endpoint)) {
            set.push(endpoint.clone());
        }
    }

    /// Removes an endpoint.
    pub fn remove(&self, endpoint: &Arc<E>) {
        self.0.lock().retain(|e| !Arc::ptr_eq(e, endpoint));
    }

    /// Whether any endpoint is bound.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Moves all of them forward.
    #[inline]
    pub fn progress(&self) {
        for endpoint in self.0.lock().iter() {
            endpoint.progress();
        }
    }

    /// Moves all of them forward; what completes for `queue` may go straight to `out`.
    #[inline]
    pub fn progress_into(&self, queue: &CompletionQueue<E::Lock>, out: &mut EntryBuf) {
        for endpoint in self.0.lock().iter() {
            endpoint.progress_into(queue, out);
        }
    }

    /// Arms all of them; `false` as soon as one has something to do.
    pub fn arm(&self) -> Result<bool> {
        for endpoint in self.0.lock().iter() {
            if !endpoint.arm()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
