//! HOT. How the bytes of large payloads are read.
//!
//! A busy stream is read without asking first, which gets small messages soonest. Of a large payload
//! it makes small pieces: whoever reads a socket keeps the kernel from adding to it, and owes the
//! sender an acknowledgement for each piece. So the bytes of a large payload are waited for. Where
//! large payloads come one behind the other, or much of one is to come, nothing is lost by waiting for
//! many of them (`SO_RCVLOWAT`, socket(7)); the kernel tells of fewer when it has room for no more.
//!
//! What comes behind a large payload may be another one: its header is read with little beyond it, so
//! that the payload need not be copied to its place.

use super::conn::{Conn, Phase, Rx};
use crate::net::Stream;

/// Bytes to come of one payload from which on they are waited for.
const LARGE: usize = 64 << 10;
/// From which on they are waited for in batches, in a stream or not.
const LONG: usize = 1 << 20;
/// Bytes of a batch in a stream: half of what the reader copies while as many arrive.
const BATCH: usize = 512 << 10;
/// The same of a payload that comes alone. More gather no faster where segments are large, and whoever
/// waits for the payload waits for the last batch to be copied, too.
const BATCH_ALONE: usize = 192 << 10;

/// Whether a payload is large.
#[inline]
pub(super) const fn is_large(len: usize) -> bool {
    len >= LARGE
}

/// How the bytes of one stream arrive.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The net tells of bytes from so many on.
    mark: usize,
    /// A large payload has ended, and nothing of ours has left since: what comes is a stream of them.
    streams: bool,
    /// A large payload has ended, and nothing has come since.
    behind_large: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { mark: 1, streams: false, behind_large: false }
    }
}

impl Pace {
    /// The last bytes of a large payload have come.
    #[inline]
    pub(super) const fn ends(&mut self) {
        self.streams = true;
        self.behind_large = true;
    }

    /// Bytes have come that do not belong to the place of a large payload.
    #[inline]
    pub(super) const fn goes_on(&mut self) {
        self.behind_large = false;
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
        matches!(self.phase, Phase::Payload { left, .. } if is_large(left))
    }

    /// The header that comes next may be that of a large payload.
    #[inline]
    pub(super) const fn expects_large(&self) -> bool {
        self.pace.behind_large
    }

    /// As many bytes as the net should wait for.
    #[inline]
    fn wanted(&self) -> usize {
        match self.phase {
            Phase::Payload { left, .. } if is_large(left) && self.pace.streams => left.min(BATCH),
            Phase::Payload { left, .. } if left >= LONG => left.min(BATCH_ALONE),
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

#[cfg(test)]
mod tests {
    use super::{super::conn::Sink, *};

    fn rx(left: usize) -> Rx {
        let phase = Phase::Payload { sink: Sink::Drop { ack: false }, got: 0, left };
        Rx { carry: Vec::new(), phase, pace: Pace::default() }
    }

    #[test]
    fn batches_of_a_stream_are_larger_than_those_of_one_payload() {
        let mut one = rx(4 * LONG);
        assert_eq!(one.wanted(), BATCH_ALONE);
        one.pace.ends();
        assert_eq!(one.wanted(), BATCH);
        one.pace.turns_round();
        assert_eq!(one.wanted(), BATCH_ALONE);
        assert_eq!(rx(LONG - 1).wanted(), 1);
    }

    /// Never more than will come.
    #[test]
    fn the_end_of_a_payload_is_not_waited_beyond() {
        let mut rx = rx(BATCH - 1);
        rx.pace.ends();
        assert_eq!(rx.wanted(), BATCH - 1);
        rx.phase = Phase::Payload { sink: Sink::Drop { ack: false }, got: 0, left: LARGE - 1 };
        assert_eq!(rx.wanted(), 1);
    }
}
