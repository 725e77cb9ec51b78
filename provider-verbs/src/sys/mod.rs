//! HOT. libibverbs and librdmacm from Rust: the one part of this crate with unsafe code.
//!
//! Objects of the libraries are owned by values here, and end with them in the order that the
//! libraries want: who needs another object holds it.

pub mod abi;
mod cm;
pub mod cm_abi;
mod context;
mod group;
mod ifaddrs;
#[cfg(test)]
pub(crate) mod mock;
mod objects;
mod packets;
mod queue;
mod table;
mod ud;
mod userfault;
mod words;

pub(crate) use cm::{CmEvent, CmEvents, CmId, ConnParam};
pub(crate) use context::{About, AsyncEvent, Context, OwnContext, contexts};
pub(crate) use group::{GroupWay, Membership};
pub(crate) use ifaddrs::{HostAddress, host_addresses};
pub(crate) use objects::{CompChannel, Cq, Mr, Pd, Srq};
pub(crate) use packets::Packets;
pub(crate) use queue::{PIECES, Pieces, QpCap, QpQueues, RecvWork, SendWork, What};
pub(crate) use table::{Missing, Tables, tables};
pub(crate) use ud::{AddressHandle, HEADER, UdQp, Way};
pub(crate) use userfault::{Gone, Userfault, refused};
pub(crate) use words::Words;

use fabric_core::{Errno, Result};

/// The calling thread's `errno`.
fn last() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::EOTHER, Errno::new)
}

/// The result of a function that returns the error, as those of libibverbs do. Some drivers return
/// it negative, or return -1 and set `errno`.
fn returned(value: i32) -> Result<()> {
    match value {
        0 => Ok(()),
        -1 => Err(last()),
        value => Err(Errno::new(value.saturating_abs())),
    }
}

/// The result of a function that returns -1 and sets `errno`, as those of librdmacm do.
fn set(value: i32) -> Result<()> {
    if value == 0 { Ok(()) } else { Err(last()) }
}
