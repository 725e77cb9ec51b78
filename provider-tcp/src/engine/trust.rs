//! HOT. Which large tagged messages are announced first.
//!
//! An announced message costs a round trip, which is as long as some hundred kilobytes take. It buys
//! that bytes nobody has asked for stay at the sender. A peer of our own kind says with its answer
//! whether a receive was there already; where it was, it will be again, and the next messages go
//! unannounced until so many bytes have. Bytes that a peer has to keep after all are bounded by that.

use super::transmit::{TxKind, TxOp};

/// Tagged messages above this size are announced, in general.
const EAGER: usize = 64 << 10;
/// Those above this one always: their bytes take far longer than the round trip.
const LARGE: usize = 1 << 20;
/// Bytes that leave unannounced behind a message whose receive was there.
const ALLOWED: usize = 4 << 20;

/// Bytes of large messages that may leave unannounced.
#[derive(Debug, Default)]
pub(crate) struct Trust(usize);

impl Trust {
    /// Whether an operation may be a message that is announced.
    #[inline]
    pub(super) fn concerns(op: &TxOp) -> bool {
        matches!(op.kind, TxKind::Send { tagged: true, .. }) && op.payload.buffers().len() > EAGER
    }

    /// Whether a message of this length may leave unannounced.
    #[inline]
    pub(super) const fn covers(&self, len: usize) -> bool {
        len <= LARGE && len <= self.0
    }

    /// It does.
    #[inline]
    pub(super) const fn spend(&mut self, len: usize) {
        self.0 = self.0.saturating_sub(len);
    }

    /// The peer has asked for an announced message, for which a receive was there already, or not.
    #[inline]
    pub(super) const fn learn(&mut self, posted: bool) {
        self.0 = if posted { ALLOWED } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_that_was_there_pays_for_so_many_bytes() {
        let mut trust = Trust::default();
        assert!(!trust.covers(EAGER + 1));
        trust.learn(true);
        assert!(!trust.covers(LARGE + 1));
        let unannounced = std::iter::from_fn(|| trust.covers(LARGE).then(|| trust.spend(LARGE)));
        assert_eq!(unannounced.count(), ALLOWED / LARGE);
        trust.learn(true);
        trust.learn(false);
        assert!(!trust.covers(EAGER + 1));
    }
}
