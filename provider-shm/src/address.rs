//! SETUP. Addresses: `fi_shm://NAME` as text with a final NUL, which names an abstract AF_UNIX
//! socket of the same user.

use std::fmt;

use fabric_core::{Errno, Result, attr::addr_format, av::AddressFormat, log::Subsys};
use rustix::{
    net::SocketAddrUnix,
    process::getuid,
    rand::{GetRandomFlags, getrandom},
};

use crate::offer::NAME;

/// In front of every name.
pub const SCHEME: &str = "fi_shm://";

/// In front of user and name in the abstract namespace.
pub(crate) const NAMESPACE: &str = "percale/";

/// Schemes that begin like this stand before addresses of sockets and devices.
const FOREIGN: [&[u8]; 2] = [b"fi_sockaddr", b"fi_addr_"];

/// What an address may be, in words.
pub const EXPECTED: &str = "fi_shm://NAME or NAME, with 1 to 80 bytes of text without a /";

/// Longest name in bytes, so that the socket's address has room for it.
pub const NAME_MAX: usize = 80;

/// Bytes of the longest address, final NUL included.
pub const ADDRESS_MAX: usize = SCHEME.len() + NAME_MAX + 1;

/// A name that an endpoint can have: 1 to [`NAME_MAX`] bytes of UTF-8 text that can be shown in one
/// line, without `/`, and with a letter or digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a>(&'a str);

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAName {
    /// There is nothing in it that could tell one endpoint from another.
    Empty,
    /// It has this many bytes.
    Long(usize),
    /// This character of it is not allowed.
    Char(char),
    /// This byte of it is no text.
    Byte(u8),
    /// Its scheme is that of other providers' addresses.
    Foreign,
}

impl<'a> Name<'a> {
    /// Reads a name up to a NUL, with or without a scheme in front. Any scheme will do, as the
    /// interface's manual has it, but those of socket and device addresses.
    pub fn parse(text: &'a [u8]) -> Result<Self, NotAName> {
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        let scheme = text.windows(3).position(|three| three == b"://").map(|at| &text[..at]);
        let name = match scheme {
            Some(scheme) if FOREIGN.iter().any(|foreign| scheme.starts_with(foreign)) => {
                return Err(NotAName::Foreign);
            }
            Some(scheme) if is_scheme(scheme) => &text[scheme.len() + 3..],
            _ => text,
        };
        if let Some(chunk) = name.utf8_chunks().next()
            && let Some(byte) = chunk.invalid().first()
        {
            return Err(NotAName::Byte(*byte));
        }
        let name = std::str::from_utf8(name).map_err(|_| NotAName::Empty)?;
        if let Some(char) = name.chars().find(|char| !is_plain(*char)) {
            return Err(NotAName::Char(char));
        }
        if !name.contains(char::is_alphanumeric) {
            return Err(NotAName::Empty);
        }
        if name.len() > NAME_MAX {
            return Err(NotAName::Long(name.len()));
        }
        Ok(Self(name))
    }

    /// The canonical address: scheme, name, NUL.
    pub fn address(self) -> Box<[u8]> {
        [SCHEME.as_bytes(), self.0.as_bytes(), b"\0"].concat().into()
    }

    /// The name alone.
    pub const fn get(self) -> &'a str {
        self.0
    }
}

/// Names stand in lines, for people to read; with a slash they would be paths, or mistyped schemes.
fn is_plain(char: char) -> bool {
    char == ' ' || !(char == '/' || char.is_control() || char.is_whitespace())
}

fn is_scheme(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || b"_+.-".contains(b))
}

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no letter or digit in it"),
            Self::Long(len) => write!(f, "{len} bytes, where {NAME_MAX} are the most"),
            Self::Char(char) => write!(f, "'{}' is not allowed", char.escape_debug()),
            Self::Byte(byte) => write!(f, "'{}' is not UTF-8", byte.escape_ascii()),
            Self::Foreign => f.write_str("an address of another provider"),
        }
    }
}

impl From<NotAName> for Errno {
    fn from(_: NotAName) -> Self {
        Self::EINVAL
    }
}

/// The canonical form of an address: see [`Name`]. `EINVAL` for what is none.
pub fn canonical(text: &[u8]) -> Result<Box<[u8]>> {
    Ok(Name::parse(text)?.address())
}

/// The canonical address that node and service stand for.
pub fn service_address(node: Option<&str>, service: Option<&str>) -> Result<Box<[u8]>, NotAName> {
    let name = match (node, service) {
        (Some(node), Some(service)) if !node.contains("://") => format!("{node}:{service}"),
        // A node with a scheme is a whole address.
        (Some(node), _) => node.to_owned(),
        (None, service) => service.unwrap_or_default().to_owned(),
    };
    Name::parse(name.as_bytes()).map(Name::address)
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
    let path =
        [NAMESPACE.as_bytes(), getuid().as_raw().to_string().as_bytes(), b"/", name].concat();
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

    fn fault(&self, bytes: &[u8]) -> String {
        let why = Name::parse(bytes).err().map_or_else(String::new, |why| why.to_string());
        format!("{why}; expected {EXPECTED}")
    }

    fn text(&self, canonical: &[u8]) -> String {
        String::from_utf8_lossy(canonical).trim_end_matches('\0').to_owned()
    }

    fn addr_len(&self) -> Option<usize> {
        None
    }

    fn service_address(&self, node: Option<&str>, service: Option<&str>) -> Result<Box<[u8]>> {
        Ok(service_address(node, service).inspect_err(|why| {
            let (node, service) = (node.unwrap_or_default(), service.unwrap_or_default());
            fabric_core::warn_few!(
                NAME,
                Subsys::Av,
                "node {node:?}, service {service:?}: {why}; expected {EXPECTED}"
            );
        })?)
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
        assert_eq!(&*canonical(b"fi_ns://a.b:1").unwrap(), expected);
        assert_eq!(&*canonical(b"fi_prefix1://a.b:1").unwrap(), expected);
    }

    #[test]
    fn names_are_any_text() {
        for name in ["a b", "node[0]", "[::1]:5", "fe80::1%eth0", "a,b+c=d#1", "h\u{e4}", "~(x)"] {
            let address = canonical(name.as_bytes()).unwrap();
            assert_eq!(*address, *format!("{SCHEME}{name}\0").as_bytes());
            assert_eq!(canonical(&address), Ok(address.clone()));
            assert!(socket_address(&address).is_ok());
        }
        assert_eq!(*service_address(Some("a b"), Some("1")).unwrap(), *b"fi_shm://a b:1\0");
    }

    #[test]
    fn refuses_names_that_are_no_names() {
        let long = [b'x'; NAME_MAX + 1];
        for (bad, why) in [
            (b"".as_slice(), NotAName::Empty),
            (b"fi_shm://", NotAName::Empty),
            (b"\0a", NotAName::Empty),
            (b":", NotAName::Empty),
            (b"...", NotAName::Empty),
            (b"a/b", NotAName::Char('/')),
            (b"://a", NotAName::Char('/')),
            (b"a\nb", NotAName::Char('\n')),
            ("a\u{2028}b".as_bytes(), NotAName::Char('\u{2028}')),
            (b"a\xff\xfe", NotAName::Byte(0xff)),
            (b"a\xc3", NotAName::Byte(0xc3)),
            (b"\x02\0\x13\x88\x7f\0\0\x01", NotAName::Char('\u{2}')),
            (b"fi_sockaddr_in://127.0.0.1:5000", NotAName::Foreign),
            (b"fi_addr_efa://[::]:1:2", NotAName::Foreign),
            (&long, NotAName::Long(NAME_MAX + 1)),
        ] {
            assert_eq!(Name::parse(bad), Err(why), "{bad:?}");
            assert_eq!(canonical(bad), Err(Errno::EINVAL));
        }
        assert_eq!(NotAName::Char('\t').to_string(), r"'\t' is not allowed");
        assert_eq!(NotAName::Byte(0xff).to_string(), r"'\xff' is not UTF-8");
    }

    #[test]
    fn unique_addresses_differ() {
        assert_ne!(unique().unwrap(), unique().unwrap());
        assert!(socket_address(&unique().unwrap()).is_ok());
    }
}
