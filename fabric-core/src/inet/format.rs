//! SETUP. The formats of address vectors.

use crate::{
    Errno, Result,
    attr::addr_format,
    av::{AddressFormat, FamilyLen},
    log::Subsys,
};

use super::{Family, Names, SocketAddress, resolve};

/// Socket addresses of one family, or of both (`FI_SOCKADDR`).
#[derive(Debug)]
pub struct SocketAddresses(Option<Family>);

static IPV4: SocketAddresses = SocketAddresses(Some(Family::Ipv4));
static IPV6: SocketAddresses = SocketAddresses(Some(Family::Ipv6));
/// Of either family.
pub static EITHER: SocketAddresses = SocketAddresses(None);

/// The format by its number; without one (`FI_FORMAT_UNSPEC`) it is of either family. `None` for
/// what are no socket addresses of ours.
pub fn addresses(format: u32) -> Option<&'static SocketAddresses> {
    match format {
        addr_format::SOCKADDR_IN => Some(&IPV4),
        addr_format::SOCKADDR_IN6 => Some(&IPV6),
        addr_format::UNSPEC | addr_format::SOCKADDR | addr_format::SOCKADDR_IP => Some(&EITHER),
        _ => None,
    }
}

impl AddressFormat for SocketAddresses {
    fn addr_format(&self) -> u32 {
        self.0.map_or(addr_format::SOCKADDR, Family::addr_format)
    }

    fn parse(&self, bytes: &[u8]) -> Result<(Box<[u8]>, usize)> {
        let address = SocketAddress::parse(bytes)?;
        if self.0.is_some_and(|family| family != address.family()) {
            return Err(Errno::EINVAL);
        }
        Ok((address.canonical().to_bytes().into(), address.family().address_len()))
    }

    fn fault(&self, bytes: &[u8]) -> String {
        let sizes = match self.0 {
            Some(Family::Ipv4) => "a struct sockaddr_in",
            Some(Family::Ipv6) => "a struct sockaddr_in6",
            None => "a struct sockaddr_in or sockaddr_in6",
        };
        let family = bytes.first_chunk().map_or(0, |family| u16::from_ne_bytes(*family));
        format!("its family is {family}; expected {sizes} (fi_av_insertsvc takes names)")
    }

    fn text(&self, canonical: &[u8]) -> String {
        SocketAddress::parse(canonical).map(|address| address.to_string()).unwrap_or_default()
    }

    fn addr_len(&self) -> Option<usize> {
        self.0.map(Family::address_len)
    }

    fn family_len(&self) -> Option<FamilyLen> {
        self.0.is_none().then_some(|family| Family::from_raw(family).map(Family::address_len))
    }

    /// The first address that the names stand for. `EINVAL` without a node or a service and for an
    /// unknown service, `EADDRNOTAVAIL` for a node without an address of the format.
    fn service_address(&self, node: Option<&str>, service: Option<&str>) -> Result<Box<[u8]>> {
        if node.is_none() && service.is_none() {
            return Err(Errno::EINVAL);
        }
        let names = Names { node, service, family: self.0, ..Names::default() };
        let found = resolve(&names).map_err(|unresolved| {
            crate::warn_few!("core", Subsys::Av, "{unresolved}");
            unresolved.errno()
        })?;
        let first = found.first().ok_or(Errno::EADDRNOTAVAIL)?;
        Ok(first.canonical().to_bytes().into())
    }
}
