//! SETUP. Addresses: `fi_shm://NAME` as text with a final NUL, which names an abstract AF_UNIX
//! socket of the same user.

use fabric_core::{Errno, Result, attr::addr_format, av::AddressFormat};
use rustix::{
    net::SocketAddrUnix,
    process::getuid,
    rand::{GetRandomFlags, getrandom},
};

/// In front of every name.
pub const SCHEME: &str = "fi_shm://";

/// In front of names made of a node and a service; means the same here.
const SERVICE_SCHEME: &str = "fi_ns://";

/// Longest name, so that the socket's address has room for it.
pub const NAME_MAX: usize = 80;

/// Bytes of the longest address, final NUL included.
pub const ADDRESS_MAX: usize = SCHEME.len() + NAME_MAX + 1;

/// The canonical form: scheme, name, NUL. `EINVAL` for an empty or too long name or one with
/// characters outside `[A-Za-z0-9._:-]`.
pub fn canonical(text: &[u8]) -> Result<Box<[u8]>> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = [SCHEME, SERVICE_SCHEME]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme.as_bytes()))
        .unwrap_or(text);
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"._:-".contains(b);
    if name.is_empty() || name.len() > NAME_MAX || !name.iter().all(plain) {
        return Err(Errno::EINVAL);
    }
    Ok([SCHEME.as_bytes(), name, b"\0"].concat().into())
}

/// A canonical address that nobody else has.
pub fn unique() -> Result<Box<[u8]>> {
    let mut random = [0u8; 16];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let name: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    canonical(name.as_bytes())
}

/// The socket address behind a canonical address, for endpoints of this user.
///
/// Names are apart by user, so that two users' jobs cannot take each other's.
pub fn socket_address(canonical: &[u8]) -> Result<SocketAddrUnix> {
    let name = canonical
        .strip_prefix(SCHEME.as_bytes())
        .and_then(|name| name.strip_suffix(b"\0"))
        .ok_or(Errno::EINVAL)?;
    let path = [b"percale/", getuid().as_raw().to_string().as_bytes(), b"/", name].concat();
    Ok(SocketAddrUnix::new_abstract_name(&path)?)
}

/// The format of shm's address vectors.
#[derive(Debug)]
pub struct ShmAddresses;

impl AddressFormat for ShmAddresses {
    fn addr_format(&self) -> u32 {
        addr_format::STR
    }

    fn parse(&self, bytes: &[u8]) -> Result<(Box<[u8]>, usize)> {
        let end = bytes.iter().position(|byte| *byte == 0).map_or(bytes.len(), |nul| nul + 1);
        Ok((canonical(bytes)?, end))
    }

    fn text(&self, canonical: &[u8]) -> String {
        String::from_utf8_lossy(canonical).trim_end_matches('\0').to_owned()
    }

    fn addr_len(&self) -> Option<usize> {
        None
    }

    fn service_address(&self, node: Option<&str>, service: Option<&str>) -> Result<Box<[u8]>> {
        match (node, service) {
            (Some(node), Some(service)) if !node.contains("://") => {
                canonical(format!("{node}:{service}").as_bytes())
            }
            // A node with a scheme is a whole address.
            (Some(node), _) => canonical(node.as_bytes()),
            (None, Some(service)) => canonical(service.as_bytes()),
            (None, None) => Err(Errno::EINVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form_ignores_scheme_and_padding() {
        let expected = b"fi_shm://a.b:1\0".as_slice();
        assert_eq!(&*canonical(b"fi_shm://a.b:1").unwrap(), expected);
        assert_eq!(&*canonical(b"a.b:1\0\0garbage").unwrap(), expected);
    }

    #[test]
    fn refuses_names_that_are_no_names() {
        for bad in [b"".as_slice(), b"fi_shm://", b"a/b", b"\0a", &[b'x'; NAME_MAX + 1]] {
            assert_eq!(canonical(bad), Err(Errno::EINVAL), "{bad:?}");
        }
    }

    #[test]
    fn unique_addresses_differ() {
        assert_ne!(unique().unwrap(), unique().unwrap());
        assert!(socket_address(&unique().unwrap()).is_ok());
    }
}
