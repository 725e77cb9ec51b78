//! Messages and memory between processes: over shared memory, TCP and RDMA verbs, behind one API.
//!
//! Discovery answers which providers can do what a program needs, or why none can:
//!
//! ```
//! use percale::{Info, flags::Flags};
//!
//! let wish = Info { caps: Flags::TAGGED | Flags::RMA, ..Info::default() };
//! match percale::discover(Some(&wish)) {
//!     Ok(infos) => println!("{} offers", infos.len()),
//!     Err(reasons) => eprintln!("{reasons}"),
//! }
//! ```

#![deny(unsafe_code)]

mod address;
pub mod buf;
mod connection;
mod counter;
#[doc(hidden)]
pub mod dispatch;
mod domain;
mod endpoint;
mod error;
mod events;
mod fabric;
mod faults;
mod hints;
mod memory;
pub mod op;
mod queue;
pub mod reactor;
mod region;
mod registered;
mod scope;
mod shared_receive;
mod stats;
mod trace;
mod waiting;

pub use address::{Address, Peer};
pub use buf::{Buf, BufMut};
pub use connection::{Connecting, Connection, Incoming, Listener};
pub use counter::{Counter, Reached};
pub use dispatch::{Any, Local, Shared, Shm, Tcp, TcpRxm, Verbs, VerbsRxm};
pub use domain::{Domain, DomainBuilder};
pub use endpoint::{
    Change, Element, Endpoint, EndpointBuilder, Message, Messages, Outgoing, RemoteWrite,
    RemoteWrites, TagMatch,
};
pub use error::{Error, Failure, Result};
pub use fabric::Fabric;
use fabric_core::discovery::{ProviderFilter, Request, Source, getinfo};
pub use fabric_core::{
    Errno,
    attr::{self, Info},
    discovery::{self, NoProvider, Rejection, last_report},
    engine::Stats,
    flags, param,
};
pub use faults::Faults;
pub use hints::Hints;
pub use op::{Op, Received};
use provider_shm::ShmSource;
use provider_tcp::{RxmSource, TcpSource};
use provider_verbs::{VerbsRxmSource, VerbsSource};
pub use region::{Access, Part, Region, Remote, View};
pub use registered::Buffer;
pub use scope::{Scope, ScopedOp};
pub use shared_receive::SharedReceive;
pub use stats::prometheus_text;

/// The providers that are built in, in the order in which their offers are listed.
pub const SOURCES: [&dyn Source; 5] =
    [&VerbsSource, &VerbsRxmSource, &ShmSource, &TcpSource, &RxmSource];

/// Finds the offers that satisfy `hints`, best first; `None` lists all. `FI_PROVIDER` applies.
///
/// In a hint zero and `None` mean "any", except in `mode` and `mr_mode`: these are the duties that
/// the program takes on, see [`all_duties`].
///
/// # Errors
/// [`NoProvider`] holds the reason of each provider, nearest miss first:
///
/// ```
/// use percale::{Info, flags::Flags};
///
/// let wish = Info { caps: Flags::MSG | Flags::MULTICAST, ..Info::default() };
/// let error = percale::discover(Some(&wish)).unwrap_err();
/// assert!(error.rejections().iter().any(|r| r.attribute == "caps"));
/// ```
pub fn discover(hints: Option<&Info>) -> Result<Vec<Info>, NoProvider> {
    let request = Request { hints, ..Request::default() };
    getinfo(&SOURCES, &request, &ProviderFilter::from_env())
}

/// Makes `hints` take on every duty that interface `version` knows, so that none of them is a reason
/// for a rejection. The answer then tells those that are left.
pub fn all_duties(hints: &mut Info, version: attr::Version) {
    use flags::{Mode, MrMode};
    hints.mode = Mode::all();
    // Before 1.5 there were two kinds of registration; basic takes on more.
    hints.domain.get_or_insert_default().mr_mode = if version < attr::Version::new(1, 5) {
        MrMode::BASIC
    } else {
        MrMode::all().difference(MrMode::BASIC | MrMode::SCALABLE)
    };
}
