//! SETUP. What an event queue carries.

use core::any::Any;
use std::sync::Arc;

use crate::{Errno, attr::Info};

/// The end of an operation on an object (`fi_eq_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlEvent {
    /// The object, by the address that the C interface knows it by.
    pub object: usize,
    /// Context of the operation.
    pub context: usize,
    /// Result of the operation, for instance the number of addresses inserted.
    pub data: u64,
}

/// A connection request as it waits for an answer; the provider knows its real type.
pub type RequestHandle = Arc<dyn Any + Send + Sync>;

/// One event.
#[derive(Clone, Debug)]
pub enum Event {
    /// `FI_NOTIFY`: something happened to an object.
    Notify(ControlEvent),
    /// `FI_CONNREQ`: a peer asks a passive endpoint for a connection.
    ConnectionRequest {
        /// The passive endpoint.
        object: usize,
        /// What an endpoint for this connection is opened with.
        info: Arc<Info>,
        /// Names the request when it is accepted or rejected. Dropping the last one rejects.
        handle: RequestHandle,
        /// The peer's private data.
        data: Vec<u8>,
    },
    /// `FI_CONNECTED`: a connection is up.
    Connected {
        /// The endpoint.
        object: usize,
        /// The peer's private data; the active side only.
        data: Vec<u8>,
    },
    /// `FI_SHUTDOWN`: the peer has ended the connection.
    Shutdown {
        /// The endpoint.
        object: usize,
    },
    /// `FI_MR_COMPLETE`: a registration is done.
    MrComplete(ControlEvent),
    /// `FI_AV_COMPLETE`: addresses are inserted.
    AvComplete(ControlEvent),
    /// `FI_JOIN_COMPLETE`: a group is joined.
    JoinComplete(ControlEvent),
    /// Written by the application, opaque.
    Raw {
        /// The application's event number; may be that of another variant.
        event: u32,
        /// The application's bytes.
        data: Vec<u8>,
    },
}

impl Event {
    /// The number that the C interface reports.
    pub const fn number(&self) -> u32 {
        match self {
            Self::Notify(_) => 0,
            Self::ConnectionRequest { .. } => 1,
            Self::Connected { .. } => 2,
            Self::Shutdown { .. } => 3,
            Self::MrComplete(_) => 4,
            Self::AvComplete(_) => 5,
            Self::JoinComplete(_) => 6,
            Self::Raw { event, .. } => *event,
        }
    }

    /// The object that the event is about; none for the application's own.
    pub const fn object(&self) -> Option<usize> {
        match self {
            Self::Notify(event)
            | Self::MrComplete(event)
            | Self::AvComplete(event)
            | Self::JoinComplete(event) => Some(event.object),
            Self::ConnectionRequest { object, .. }
            | Self::Connected { object, .. }
            | Self::Shutdown { object } => Some(*object),
            Self::Raw { .. } => None,
        }
    }
}

/// The failure of an operation on an object (`fi_eq_err_entry`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorEvent {
    /// The object, by the address that the C interface knows it by.
    pub object: usize,
    /// Context of the operation.
    pub context: usize,
    /// Which part of the operation, for instance the index of an address.
    pub data: u64,
    /// What happened.
    pub err: Errno,
    /// The provider's own number for it.
    pub prov_errno: i32,
    /// More about it, for instance a peer's reasons to refuse. Shared, so that a reader may keep
    /// it for an application until the next read.
    pub err_data: Arc<[u8]>,
}

impl ErrorEvent {
    /// An error of an object without further particulars.
    pub fn new(object: usize, context: usize, err: Errno) -> Self {
        let err_data = Arc::default();
        Self { object, context, data: 0, err, prov_errno: err.get(), err_data }
    }
}
