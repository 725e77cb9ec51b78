//! HOT. How the bytes of large payloads are read.
//!
//! A busy stream is read without asking first, which gets small messages soonest. Of a large payload
//! it makes small pieces: whoever reads a socket keeps the kernel from adding to it, and owes the
//! sender an acknowledgement for each piece. So the bytes of a large payload are waited for. Where
//! large payloads come one behind the other, or much of one is to come, nothing is lost by waiting for
//! many of them (`SO_RCVLOWAT`, socket(7)); the kernel tells of fewer when it has room for no more.

use super::conn::{Conn, Phase, Rx};
use crate::net::Stream;

/// Bytes to come of one payload from which on they are waited for.
const LARGE: usize = 64 << 10;
/// From which on they are waited for in batches, in a stream or not.
const LONG: usize = 1 << 20;
/// Bytes of a batch: half of what the reader copies while as many arrive.
const BATCH: usize = 512 << 10;

/// How the bytes of one stream arrive.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The net tells of bytes from so many on.
    mark: usize,
    /// A large payload has ended, and nothing of ours has left since: what comes is a stream of them.
    streams: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { mark: 1, streams: false }
    }
}

impl Pace {
    /// The last bytes of a large payload have come.
    #[inline]
    pub(super) const fn ends(&mut self) {
        self.streams = true;
    }

    /// An operation leaves in the other direction.
    #[inline]
    pub(super) const fn turns_round(&mut self) {
        self.streams = false;
    }
}

impl Rx {
    /// Its stream is to be asked before it is read.
    #[inline]
    pub(super) fn is_in_bulk(&self) -> bool {
        matches!(self.phase, Phase::Payload { left, .. } if left >= LARGE)
    }

    /// As many bytes as the net should wait for.
    #[inline]
    fn wanted(&self) -> usize {
        match self.phase {
            Phase::Payload { left, .. } if left >= LONG || (left >= LARGE && self.pace.streams) => {
                left.min(BATCH)
            }
            _ => 1,
        }
    }
}

impl<S: Stream> Conn<S> {
    /// Behind a read: how the next one is prepared.
    #[inline]
    pub(super) fn set_pace(&mut self) {
        let wanted = self.rx.wanted();
        if self.rx.pace.mark != wanted {
            self.rx.pace.mark = wanted;
            self.stream.wait_for(wanted);
        }
    }
}
