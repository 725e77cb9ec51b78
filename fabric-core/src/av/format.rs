//! SETUP. What an address vector must know about addresses.

use crate::{Result, discovery::format_name};

/// Bytes of an address that begins with this family; `None` for an unknown one.
pub type FamilyLen = fn(u16) -> Option<usize>;

/// An address format of a provider.
///
/// A *canonical* address is the one spelling of it: equal peers have equal canonical bytes, and
/// parsing them gives them back.
pub trait AddressFormat: Send + Sync {
    /// One of [`crate::attr::addr_format`].
    fn addr_format(&self) -> u32;

    /// Reads one address from the front of `bytes`: its canonical form, and the bytes that it took.
    /// Padding and unused bits are dropped. `EINVAL` for what is no address of this format.
    fn parse(&self, bytes: &[u8]) -> Result<(Box<[u8]>, usize)>;

    /// Why these bytes are no address, in words that say what would be one.
    fn fault(&self, bytes: &[u8]) -> String {
        let _ = bytes;
        format!("expected an address in the format {}", format_name(self.addr_format()))
    }

    /// The canonical address as text (`fi_av_straddr`).
    fn text(&self, canonical: &[u8]) -> String;

    /// Bytes of every address in a packed array; `None` where lengths differ.
    fn addr_len(&self) -> Option<usize>;

    /// How long an address is that begins with an address family, for formats whose packed arrays
    /// mix families; `None` for all others.
    fn family_len(&self) -> Option<FamilyLen> {
        None
    }

    /// The canonical address of a node and service, as far as the format can name any. Why it cannot
    /// is in the log.
    fn service_address(&self, node: Option<&str>, service: Option<&str>) -> Result<Box<[u8]>>;
}
