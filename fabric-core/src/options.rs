//! SETUP. `FI_OPT_ENDPOINT` options that every provider answers alike (`fi_endpoint(3)`).

use crate::{
    Errno, Result,
    attr::{EpType, Info},
    discovery::Names,
    flags::Flags,
    log::Subsys,
};

/// `FI_OPT_MIN_MULTI_RECV`.
pub const MIN_MULTI_RECV: i32 = 0;
/// `FI_OPT_CM_DATA_SIZE`, of connected and passive endpoints.
pub const CM_DATA_SIZE: i32 = 1;
const TX_SIZE: i32 = 6;
const RX_SIZE: i32 = 7;
const MAX_MSG_SIZE: i32 = 12;
const MAX_TAGGED_SIZE: i32 = 13;
const MAX_RMA_SIZE: i32 = 14;
const MAX_ATOMIC_SIZE: i32 = 15;
const INJECT_MSG_SIZE: i32 = 16;
const INJECT_TAGGED_SIZE: i32 = 17;
const INJECT_RMA_SIZE: i32 = 18;
const INJECT_ATOMIC_SIZE: i32 = 19;

/// The value for [`MIN_MULTI_RECV`], the one option that can be set. `ENOPROTOOPT` for others,
/// `EINVAL` for a value of another length.
pub fn min_multi_recv(name: i32, value: &[u8]) -> Result<usize> {
    if name != MIN_MULTI_RECV {
        return Err(Errno::ENOPROTOOPT);
    }
    value.try_into().map(usize::from_ne_bytes).map_err(|_| Errno::EINVAL)
}

/// Whether an endpoint of a kind, with its `name` for the log, can be what its info asks for; else
/// `EINVAL`. An info need not come from discovery.
pub fn check_type(provider: &str, info: &Info, offered: EpType, name: &str) -> Result<()> {
    let wanted = info.ep.as_ref().map_or(0, |ep| ep.ep_type);
    if EpType::from_raw(wanted).is_some_and(|found| found == EpType::Unspec || found == offered) {
        return Ok(());
    }
    crate::warn!(provider, Subsys::EpCtrl, "ep_attr.type: wanted {wanted}, offered {name}");
    Err(Errno::EINVAL)
}

/// Whether an endpoint can have the capabilities that its info asks for; `EINVAL`, with the others in
/// the log. An info need not come from discovery.
pub fn check_caps(provider: &str, wanted: Flags, offered: Flags) -> Result<()> {
    let beyond = wanted - offered;
    if beyond.is_empty() {
        return Ok(());
    }
    let beyond = Names("FI_", beyond);
    crate::warn!(provider, Subsys::EpCtrl, "caps: wanted {beyond}, which is not offered");
    Err(Errno::EINVAL)
}

/// Sizes of an endpoint, which are all limits that it enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Operations that may wait to be sent.
    pub tx: usize,
    /// Receives; a hint.
    pub rx: usize,
    /// Bytes of an inject of any kind.
    pub inject: usize,
    /// Bytes of a message, a read or a write.
    pub max_msg: usize,
    /// Bytes of an atomic operation; zero where there are none.
    pub atomic: usize,
}

impl Sizes {
    /// The sizes that an info asks for, or the given ones where it names none.
    pub fn of(info: &Info, default: Self) -> Self {
        let or = |size: Option<usize>, default: usize| size.filter(|s| *s != 0).unwrap_or(default);
        Self {
            tx: or(info.tx.as_ref().map(|tx| tx.size), default.tx),
            rx: or(info.rx.as_ref().map(|rx| rx.size), default.rx),
            inject: or(info.tx.as_ref().map(|tx| tx.inject_size), default.inject),
            max_msg: or(info.ep.as_ref().map(|ep| ep.max_msg_size), default.max_msg),
            atomic: default.atomic,
        }
    }

    /// The value of a size's option; others are `ENOPROTOOPT`.
    pub const fn option(&self, name: i32) -> Result<usize> {
        match name {
            TX_SIZE => Ok(self.tx),
            RX_SIZE => Ok(self.rx),
            MAX_MSG_SIZE | MAX_TAGGED_SIZE | MAX_RMA_SIZE => Ok(self.max_msg),
            MAX_ATOMIC_SIZE => Ok(self.atomic),
            INJECT_MSG_SIZE | INJECT_TAGGED_SIZE | INJECT_RMA_SIZE | INJECT_ATOMIC_SIZE => {
                Ok(self.inject)
            }
            _ => Err(Errno::ENOPROTOOPT),
        }
    }
}
