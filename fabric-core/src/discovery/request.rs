//! SETUP. What an application asks discovery for.

use crate::{
    attr::{API_VERSION, Info, Version},
    flags::Flags,
};

/// The arguments of `fi_getinfo`.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The interface version whose rules hold; 0.0 and 1.0 upwards.
    pub version: Version,
    /// A host or an address: the target's, or one's own with [`Flags::SOURCE`].
    pub node: Option<&'a str>,
    /// A port or a service name, for the same side.
    pub service: Option<&'a str>,
    /// SOURCE, NUMERICHOST, RESCAN, PROV_ATTR_ONLY; other bits are ignored.
    pub flags: Flags,
    /// What the offers have to satisfy; `None` takes all.
    pub hints: Option<&'a Info>,
}

/// The flags that mean something here. Others are used between the layers of other libraries;
/// an application's are passed over.
pub(super) const KNOWN_FLAGS: Flags =
    Flags::SOURCE.union(Flags::NUMERICHOST).union(Flags::RESCAN).union(Flags::PROV_ATTR_ONLY);

impl Default for Request<'_> {
    fn default() -> Self {
        Self { version: API_VERSION, node: None, service: None, flags: Flags::empty(), hints: None }
    }
}

impl Request<'_> {
    /// Whether node and service name the local side.
    pub const fn names_source(&self) -> bool {
        self.flags.contains(Flags::SOURCE)
    }

    /// Whether the rules of an interface version, or newer ones, hold.
    pub fn at_least(&self, major: u16, minor: u16) -> bool {
        self.version >= Version::new(major, minor)
    }
}
