//! HOT. What operations are posted to.

use crate::{
    dispatch::{EndpointCalls, Provider, SharedReceiveCalls},
    op::Request,
};
use fabric_core::Result;

/// An endpoint, or a receive context that endpoints share.
pub(crate) enum Poster<'a, P: Provider> {
    Endpoint(&'a P::Endpoint),
    Shared(&'a P::SharedReceive),
}

impl<P: Provider> Clone for Poster<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Provider> Copy for Poster<'_, P> {}

impl<P: Provider> Poster<'_, P> {
    /// Hands an operation to the provider.
    ///
    /// # Safety
    /// As for [`Request::post`].
    #[inline]
    #[allow(unsafe_code, reason = "passes a call on whose promise is the caller's")]
    pub(super) unsafe fn post(self, request: &Request, context: usize) -> Result<()> {
        match self {
            // SAFETY: the caller's promise.
            Self::Endpoint(endpoint) => unsafe { request.post(endpoint, context) },
            // SAFETY: the caller's promise.
            Self::Shared(receive) => unsafe { request.post_shared(receive, context) },
        }
    }

    /// Takes an operation back, if it is still waiting.
    pub(super) fn cancel(self, context: usize) {
        match self {
            Self::Endpoint(endpoint) => endpoint.cancel(context),
            Self::Shared(receive) => receive.cancel(context),
        }
    }

    /// The same for later.
    pub(super) fn keep(self) -> Kept<P> {
        match self {
            Self::Endpoint(endpoint) => Kept::Endpoint(endpoint.clone()),
            Self::Shared(receive) => Kept::Shared(receive.clone()),
        }
    }
}

/// A [`Poster`] that owns what it names.
pub(super) enum Kept<P: Provider> {
    Endpoint(P::Endpoint),
    Shared(P::SharedReceive),
}

impl<P: Provider> Clone for Kept<P> {
    fn clone(&self) -> Self {
        self.poster().keep()
    }
}

impl<P: Provider> Kept<P> {
    pub(super) fn poster(&self) -> Poster<'_, P> {
        match self {
            Self::Endpoint(endpoint) => Poster::Endpoint(endpoint),
            Self::Shared(receive) => Poster::Shared(receive),
        }
    }
}
