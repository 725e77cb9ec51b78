//! SETUP. Why a call or an operation failed.

use core::fmt;

use fabric_core::{Errno, completion::CqError, discovery::NoProvider};

/// Result of this crate's calls.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a call or an operation failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No provider does what was asked for; each says why not.
    #[error(transparent)]
    NoProvider(#[from] NoProvider),
    /// A call was refused, and nothing has happened.
    #[error("{call}: {errno}")]
    Refused {
        /// What was called.
        call: &'static str,
        /// The reason.
        errno: Errno,
    },
    /// An operation has been started, and has failed.
    #[error("{errno}")]
    Failed {
        /// The reason.
        errno: Errno,
        /// Particulars, such as the peer's reasons to refuse a connection.
        data: Box<[u8]>,
    },
    /// A message was longer than the memory for it; what fits has been received.
    #[error("the message has {missing} bytes more than the {len} that fit")]
    Truncated {
        /// Bytes received.
        len: usize,
        /// Bytes lost.
        missing: usize,
    },
    /// The operation was taken back, or its endpoint closed, before it was done.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    /// The error number of the C interface.
    pub fn errno(&self) -> Errno {
        match self {
            Self::NoProvider(error) => error.errno(),
            Self::Refused { errno, .. } | Self::Failed { errno, .. } => *errno,
            Self::Truncated { .. } => Errno::ETRUNC,
            Self::Cancelled => Errno::ECANCELED,
        }
    }

    /// Makes an error of a refused call.
    pub(crate) fn refused(call: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Refused { call, errno }
    }

    /// An operation that ended without success.
    pub(crate) fn of_completion(error: CqError) -> Self {
        match error.err {
            Errno::ECANCELED => Self::Cancelled,
            Errno::ETRUNC => Self::Truncated { len: error.entry.len, missing: error.olen },
            errno => Self::Failed { errno, data: error.err_data },
        }
    }
}

/// A failed operation, and what it was given.
#[derive(Clone)]
pub struct Failure<B> {
    /// The reason.
    pub error: Error,
    /// The operation's buffer, or buffers.
    pub buffer: B,
}

impl<B> fmt::Debug for Failure<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Failure").field(&self.error).finish()
    }
}

impl<B> fmt::Display for Failure<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> core::error::Error for Failure<B> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl<B> From<Failure<B>> for Error {
    fn from(failure: Failure<B>) -> Self {
        failure.error
    }
}
