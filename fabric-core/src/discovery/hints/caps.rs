//! SETUP. Capabilities: what may be asked for, and what is given without being asked.

use super::check::Check;
use crate::{attr::Info, flags::Flags};

/// Given only when asked for.
const PRIMARY: Flags = Flags::MSG
    .union(Flags::RMA)
    .union(Flags::TAGGED)
    .union(Flags::ATOMIC)
    .union(Flags::MULTICAST)
    .union(Flags::COLLECTIVE)
    .union(Flags::NAMED_RX_CTX)
    .union(Flags::DIRECTED_RECV)
    .union(Flags::TAGGED_DIRECTED_RECV)
    .union(Flags::HMEM)
    .union(Flags::AV_USER_ID)
    .union(Flags::PEER)
    .union(MESSAGE_WAYS)
    .union(MEMORY_WAYS);

/// Given freely, for they cost nothing until they are used; the source of each message does, so
/// that one is given only when asked for.
const FREE: Flags = Flags::MULTI_RECV
    .union(Flags::TRIGGER)
    .union(Flags::RMA_PMEM)
    .union(Flags::RMA_EVENT)
    .union(Flags::SOURCE_ERR)
    .union(Flags::FENCE)
    .union(Flags::SHARED_AV)
    .union(Flags::LOCAL_COMM)
    .union(Flags::REMOTE_COMM);

const MESSAGE_WAYS: Flags = Flags::SEND.union(Flags::RECV);
const MEMORY_WAYS: Flags = Flags::READ.union(Flags::WRITE).union(TARGET);
pub(super) const TARGET: Flags = Flags::REMOTE_READ.union(Flags::REMOTE_WRITE);

/// Bits of neither side.
const DOMAIN_ONLY: Flags = Flags::LOCAL_COMM
    .union(Flags::REMOTE_COMM)
    .union(Flags::SHARED_AV)
    .union(Flags::AV_USER_ID)
    .union(Flags::PEER);
const RX_ONLY: Flags = Flags::RECV
    .union(TARGET)
    .union(Flags::MULTI_RECV)
    .union(Flags::TAGGED_MULTI_RECV)
    .union(Flags::DIRECTED_RECV)
    .union(Flags::TAGGED_DIRECTED_RECV)
    .union(Flags::EXACT_DIRECTED_RECV)
    .union(Flags::SOURCE)
    .union(Flags::SOURCE_ERR)
    .union(Flags::RMA_EVENT);
const TX_ONLY: Flags =
    Flags::SEND.union(Flags::READ).union(Flags::WRITE).union(Flags::FENCE).union(Flags::TRIGGER);

pub(super) fn check(info: &Info, hints: &Info, check: &mut Check) {
    check.subset("caps", "FI_", hints.caps, info.caps);
}

/// What is given for a wish that the offer covers: all of it, plus what is free.
pub(super) fn granted(wish: Flags, offered: Flags) -> Flags {
    if wish.is_empty() {
        return offered;
    }
    let mut caps = (wish & offered & !FREE) | (offered & FREE);
    let kinds = wish & PRIMARY;
    if kinds.intersects(Flags::MSG | Flags::TAGGED) && !kinds.intersects(MESSAGE_WAYS) {
        caps |= offered & MESSAGE_WAYS;
    }
    if kinds.intersects(Flags::RMA | Flags::ATOMIC) && !kinds.intersects(MEMORY_WAYS) {
        caps |= offered & MEMORY_WAYS;
    }
    caps
}

/// The wish of the transmit side, without the bits that cannot belong to it: programs copy the
/// capabilities of the whole.
pub(super) fn tx_wish(wish: Flags) -> Flags {
    wish & !(RX_ONLY | DOMAIN_ONLY)
}

/// The same for the receive side.
pub(super) fn rx_wish(wish: Flags) -> Flags {
    wish & !(TX_ONLY | DOMAIN_ONLY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_added_only_where_none_is_named() {
        let all = PRIMARY | FREE | Flags::SOURCE;
        let got = granted(Flags::TAGGED, all);
        assert_eq!(got, Flags::TAGGED | MESSAGE_WAYS | FREE);
        let got = granted(Flags::MSG | Flags::SEND | Flags::RMA, all);
        assert_eq!(got, Flags::MSG | Flags::SEND | Flags::RMA | MEMORY_WAYS | FREE);
        assert_eq!(granted(Flags::empty(), all), all);
        assert!(granted(Flags::MSG | Flags::SOURCE, all).contains(Flags::SOURCE));
    }
}
