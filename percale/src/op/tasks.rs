//! HOT. What operations own, and how they give it back.
#![allow(unsafe_code, reason = "tells buffers how much of them has been written")]

use fabric_core::{
    Errno,
    completion::{CqError, Entry},
    flags::Flags,
    op::ADDR_UNSPEC,
};

use super::{Parked, Source, Task};
use crate::{
    address::Peer,
    buf::{Buf, BufMut},
    error::{Error, Failure},
};

/// A send or a write: gives its buffer back.
#[derive(Debug)]
pub struct Sending<B>(pub(crate) Parked<B>);

impl<B: Buf> Task for Sending<B> {
    type Output = Result<B, Failure<B>>;

    fn finish(self, _: Source<'_>, outcome: Result<Entry, CqError>) -> Self::Output {
        let buffer = self.0.into_inner();
        match outcome {
            Ok(_) => Ok(buffer),
            Err(error) => Err(Failure { error: Error::of_completion(error), buffer }),
        }
    }
}

/// A message that has come.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Received<B> {
    /// The buffer, with the message at its start.
    pub buffer: B,
    /// Bytes of the message.
    pub len: usize,
    /// The sender, where the endpoint has the capability ([`Hints::source`](crate::Hints::source))
    /// and the domain knows it.
    pub peer: Option<Peer>,
    /// The tag, of a tagged message.
    pub tag: u64,
    /// What the sender has sent along.
    pub data: Option<u64>,
}

/// A receive.
#[derive(Debug)]
pub struct Receiving<B>(pub(crate) Parked<B>);

impl<B: BufMut> Task for Receiving<B> {
    type Output = Result<Received<B>, Failure<B>>;

    fn finish(self, source: Source<'_>, outcome: Result<Entry, CqError>) -> Self::Output {
        let mut buffer = self.0.into_inner();
        match outcome {
            Ok(entry) => {
                let len = entry.len.min(buffer.piece_mut().len());
                // SAFETY: the provider has placed a message of this length in the room.
                unsafe { buffer.filled(len) };
                Ok(Received {
                    buffer,
                    len,
                    peer: peer(source, &entry),
                    tag: entry.tag,
                    data: data(&entry),
                })
            }
            Err(error) => {
                if error.err == Errno::ETRUNC {
                    let len = error.entry.len.min(buffer.piece_mut().len());
                    // SAFETY: this much of the message has been placed, the rest did not fit.
                    unsafe { buffer.filled(len) };
                }
                Err(Failure { error: Error::of_completion(error), buffer })
            }
        }
    }
}

/// The sender of a message, if it is known.
pub(crate) fn peer(source: Source<'_>, entry: &Entry) -> Option<Peer> {
    (entry.src != ADDR_UNSPEC).then(|| source.0.peer(entry.src))
}

/// What has been sent along.
pub(crate) fn data(entry: &Entry) -> Option<u64> {
    (entry.flags & Flags::REMOTE_CQ_DATA.bits() != 0).then_some(entry.data)
}

/// A read: gives the buffer back with what was read.
#[derive(Debug)]
pub struct Reading<B> {
    pub(crate) buffer: Parked<B>,
    /// Bytes that are read.
    pub(crate) len: usize,
}

impl<B: BufMut> Task for Reading<B> {
    type Output = Result<B, Failure<B>>;

    fn finish(self, _: Source<'_>, outcome: Result<Entry, CqError>) -> Self::Output {
        let mut buffer = self.buffer.into_inner();
        match outcome {
            Ok(_) => {
                // SAFETY: a read that succeeds has brought all bytes that it asked for.
                unsafe { buffer.filled(self.len) };
                Ok(buffer)
            }
            Err(error) => Err(Failure { error: Error::of_completion(error), buffer }),
        }
    }
}

/// An atomic operation: its operands, and the old values.
#[derive(Debug)]
pub struct Fetching<T> {
    pub(crate) operands: Parked<(Vec<T>, Vec<T>)>,
    pub(crate) result: Parked<Box<[T]>>,
}

impl<T: bytemuck::Pod + Send> Task for Fetching<T> {
    type Output = crate::error::Result<Vec<T>>;

    fn finish(self, _: Source<'_>, outcome: Result<Entry, CqError>) -> Self::Output {
        drop(self.operands.into_inner());
        let result = self.result.into_inner();
        outcome.map(|_| result.into_vec()).map_err(Error::of_completion)
    }
}
