//! HOT. The two halves of the transport: the rings that we fill, and the rings that we empty.

mod incoming;
mod outgoing;

pub use incoming::ShmRx;
pub(crate) use incoming::{Incoming, RxPeer};
pub use outgoing::ShmTx;
pub(crate) use outgoing::TxPeer;

/// The last packet in a ring that has been replaced: go on in the next one.
const MOVED: u8 = u8::MAX;
