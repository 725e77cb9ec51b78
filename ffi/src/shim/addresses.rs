//! SETUP. The address arrays of applications.
//!
//! Addresses of one length are packed. So are those of differing lengths: socket addresses of two
//! families each have the length of their family, and texts follow each other's terminator without
//! padding, so that one address is simply its text: this is what shared memory takes everywhere,
//! and not an array of pointers.

use core::ffi::c_char;

use fabric_core::{
    Errno, Result,
    attr::addr_format,
    av::{AddressFormat, FamilyLen},
    log::Subsys,
};

/// Longest text that is taken for an address, terminator included.
const MAX_TEXT: usize = 256;

/// Bytes of `struct sockaddr_ib`.
const SOCKADDR_IB_LEN: usize = 48;

/// Walks an array of addresses.
pub(super) struct Addresses {
    next: *const u8,
    len: Length,
    /// A text without an end, or an unknown family: where the next one starts is not known.
    lost: bool,
}

/// How long an address is.
enum Length {
    Fixed(usize),
    /// As the family says that it begins with.
    ByFamily(FamilyLen),
    /// Up to a terminator, that included.
    Text,
}

impl Addresses {
    /// The array at `first`, in this format.
    pub(super) fn new(first: *const u8, format: &dyn AddressFormat) -> Self {
        let len = match (format.addr_len(), format.family_len()) {
            (Some(len), _) => Length::Fixed(len),
            (None, Some(len)) => Length::ByFamily(len),
            (None, None) => Length::Text,
        };
        Self { next: first, len, lost: false }
    }

    /// The next address, a text with its terminator. `EINVAL` for a text that does not end and for
    /// an unknown family, and for all behind them.
    ///
    /// # Safety
    /// There is another address: readable for the length that the format or its family has, or up to
    /// its terminator. It stays as it is while the result is in use.
    pub(super) unsafe fn next<'a>(&mut self) -> Result<&'a [u8]> {
        if self.lost {
            return Err(Errno::EINVAL);
        }
        let len = match self.len {
            Length::Fixed(len) => len,
            Length::ByFamily(len) => {
                // SAFETY: the caller's promise; every address begins with its family.
                let family = unsafe { self.next.cast::<u16>().read_unaligned() };
                let Some(len) = len(family) else {
                    self.lost = true;
                    fabric_core::warn_few!(
                        "core",
                        Subsys::Av,
                        "an address of the unknown family {family}; it and all behind it are refused"
                    );
                    return Err(Errno::EINVAL);
                };
                len
            }
            Length::Text => {
                // SAFETY: the caller's promise; no byte behind the terminator is read.
                let text = unsafe { libc::strnlen(self.next.cast::<c_char>(), MAX_TEXT) };
                if text == MAX_TEXT {
                    self.lost = true;
                    fabric_core::warn_few!(
                        "core",
                        Subsys::Av,
                        "an address of {MAX_TEXT} or more bytes without a final NUL; it and all \
                         behind it are refused"
                    );
                    return Err(Errno::EINVAL);
                }
                text + 1
            }
        };
        // SAFETY: the caller's promise, or `strnlen` has seen these bytes.
        let address = unsafe { core::slice::from_raw_parts(self.next, len) };
        // SAFETY: the end of what has just been read.
        self.next = unsafe { self.next.add(len) };
        Ok(address)
    }
}

/// The one address at `addr`, whose length its format tells.
///
/// `EINVAL` for null, for a text without end, and where the length cannot be told.
///
/// # Safety
/// `addr` is null or an address of this format, which stays as it is while the result is in use.
pub(super) unsafe fn one<'a>(
    addr: *const u8,
    addr_format: u32,
    own: &dyn AddressFormat,
) -> Result<&'a [u8]> {
    if addr.is_null() {
        return Err(Errno::EINVAL);
    }
    let len = match addr_format {
        addr_format::SOCKADDR_IN => size_of::<libc::sockaddr_in>(),
        addr_format::SOCKADDR_IN6 => size_of::<libc::sockaddr_in6>(),
        addr_format::SOCKADDR_IB => SOCKADDR_IB_LEN,
        addr_format::SOCKADDR => {
            // SAFETY: every socket address starts with its family.
            match i32::from(unsafe { addr.cast::<libc::sa_family_t>().read_unaligned() }) {
                libc::AF_INET => size_of::<libc::sockaddr_in>(),
                libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
                libc::AF_IB => SOCKADDR_IB_LEN,
                _ => return Err(Errno::EINVAL),
            }
        }
        addr_format::STR => {
            // SAFETY: the caller's promise; no byte behind the terminator is read.
            let text = unsafe { libc::strnlen(addr.cast::<c_char>(), MAX_TEXT) };
            if text == MAX_TEXT {
                return Err(Errno::EINVAL);
            }
            text + 1
        }
        format if format == addr_format::UNSPEC || format == own.addr_format() => {
            own.addr_len().ok_or(Errno::EINVAL)?
        }
        _ => return Err(Errno::EINVAL),
    };
    // SAFETY: the caller's promise, or `strnlen` has seen these bytes.
    Ok(unsafe { core::slice::from_raw_parts(addr, len) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::constants::FI_SOCKADDR;
    use provider_shm::ShmAddresses;

    #[test]
    fn texts_follow_each_other() {
        let array: &[u8] = b"fi_shm://1\0two\0\0";
        let mut addresses = Addresses::new(array.as_ptr(), &ShmAddresses);
        // SAFETY: there are three texts, the last one empty.
        let mut next = || unsafe { addresses.next() };
        assert_eq!(next(), Ok(b"fi_shm://1\0".as_slice()));
        assert_eq!(next(), Ok(b"two\0".as_slice()));
        assert_eq!(next(), Ok(b"\0".as_slice()));
    }

    #[test]
    fn socket_addresses_have_the_length_of_their_family() {
        let format = provider_tcp::address::addresses(FI_SOCKADDR).unwrap();
        let mut array = [[2, 0, 0, 7, 1, 2, 3, 4].as_slice(), &[0; 8], &[10, 0], &[1; 26]].concat();
        array.extend([2, 0, 0, 8, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 99, 0]);
        let mut addresses = Addresses::new(array.as_ptr(), format);
        // SAFETY: there are three addresses, and the family of a fourth that is refused for it.
        let mut next = || unsafe { addresses.next() };
        assert_eq!(next(), Ok(&array[..16]));
        assert_eq!(next(), Ok(&array[16..44]));
        assert_eq!(next(), Ok(&array[44..60]));
        assert_eq!(next(), Err(Errno::EINVAL));
        assert_eq!(next(), Err(Errno::EINVAL));
    }

    #[test]
    fn a_text_without_end_ends_the_array() {
        let long = [b'x'; MAX_TEXT];
        let mut addresses = Addresses::new(long.as_ptr(), &ShmAddresses);
        // SAFETY: the array has all bytes that may be read.
        assert_eq!(unsafe { addresses.next() }, Err(Errno::EINVAL));
        // SAFETY: as above.
        assert_eq!(unsafe { addresses.next() }, Err(Errno::EINVAL));
    }

    #[test]
    fn the_length_of_one_address_is_its_formats() {
        let one = |addr: &[u8], format| {
            // SAFETY: every address here is as long as its format may say.
            unsafe { one(addr.as_ptr(), format, &ShmAddresses) }.map(<[u8]>::len)
        };
        let mut socket = [0u8; 64];
        for (family, len) in [(libc::AF_INET, 16), (libc::AF_INET6, 28), (libc::AF_IB, 48)] {
            socket[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
            assert_eq!(one(&socket, addr_format::SOCKADDR), Ok(len));
            assert_eq!(one(&socket, addr_format::SOCKADDR_IN), Ok(16), "no more is read");
        }
        assert_eq!(one(&socket, addr_format::SOCKADDR_IN6), Ok(28));
        assert_eq!(one(&socket, addr_format::SOCKADDR_IB), Ok(48));
        assert_eq!(one(&[0; 64], addr_format::SOCKADDR), Err(Errno::EINVAL));
        assert_eq!(one(b"host\0more\0", addr_format::STR), Ok(5));
        assert_eq!(one(&[b'x'; MAX_TEXT], addr_format::STR), Err(Errno::EINVAL));
        // The lengths of its own texts differ.
        assert_eq!(one(&socket, addr_format::UNSPEC), Err(Errno::EINVAL));
        assert_eq!(one(&socket, 77), Err(Errno::EINVAL));
        // SAFETY: null is refused.
        let null = unsafe { super::one(core::ptr::null(), addr_format::STR, &ShmAddresses) };
        assert_eq!(null, Err(Errno::EINVAL));
    }
}
