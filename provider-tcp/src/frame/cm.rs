//! SETUP. Connection messages: 32 bytes, then up to 256 bytes of user data.
//!
//! The connector sends a request, the acceptor a response or a reject. Peers read header and user
//! data without waiting for the rest of either, so a [`CmMessage`] must leave in one send call.

use std::fmt;

use super::Endian;

/// Bytes in front of the user data.
pub const CM_HEADER_LEN: usize = 32;
/// Most bytes of user data.
pub const CM_DATA_MAX: usize = 256;

const VERSION: u8 = 3;
/// What a sender writes as a word of its own byte order.
const PROBE: u64 = 1;

/// What a connection message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CmKind {
    /// The connector would like to talk.
    Request = 0,
    /// The acceptor agrees.
    Response = 1,
    /// The acceptor does not, and closes.
    Reject = 6,
}

/// Why a connection message was refused. The connection it came on has no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CmError {
    /// Another protocol, or none.
    #[error("connection message: version {found}, accepted is {VERSION}")]
    Version {
        /// What was there.
        found: u8,
    },
    /// No kind of connection message.
    #[error("connection message: kind {found}, accepted are 0 (request), 1 (response), 6 (reject)")]
    Kind {
        /// What was there.
        found: u8,
    },
    /// More user data than there can be.
    #[error("connection message: {found} bytes of user data, accepted are 0 to {CM_DATA_MAX}")]
    Length {
        /// What was there, or was to be sent.
        found: usize,
    },
    /// Neither byte order.
    #[error("connection message: probe {found:#018x}, accepted is 1 in either byte order")]
    Probe {
        /// What was there, as a word of this host.
        found: u64,
    },
}

/// A checked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmHeader {
    /// What the message says.
    pub kind: CmKind,
    /// Bytes of user data that follow, up to [`CM_DATA_MAX`].
    pub len: usize,
    /// The peer's byte order; a reject tells nothing about it and has [`Endian::Native`] here.
    pub endian: Endian,
}

impl CmHeader {
    /// Checks what has come of a header: whoever says something else need not say much of it.
    pub fn check_front(bytes: &[u8]) -> Result<(), CmError> {
        let mut head = [0; CM_HEADER_LEN];
        CmMessage::write_head(&mut head, CmKind::Request, 0);
        let have = bytes.len().min(CM_HEADER_LEN);
        // A length is two bytes, and the probe is one word.
        let have = match have {
            3 => 2,
            25..CM_HEADER_LEN => 24,
            have => have,
        };
        head[..have].copy_from_slice(&bytes[..have]);
        Self::parse(&head).map(|_| ())
    }

    /// Checks a header. Fields that no peer uses are not looked at.
    pub fn parse(bytes: &[u8; CM_HEADER_LEN]) -> Result<Self, CmError> {
        let [version, kind, len_high, len_low, .., p0, p1, p2, p3, p4, p5, p6, p7] = *bytes;
        if version != VERSION {
            return Err(CmError::Version { found: version });
        }
        let kind = match kind {
            0 => CmKind::Request,
            1 => CmKind::Response,
            6 => CmKind::Reject,
            found => return Err(CmError::Kind { found }),
        };
        let len = usize::from(u16::from_be_bytes([len_high, len_low]));
        if len > CM_DATA_MAX {
            return Err(CmError::Length { found: len });
        }
        let probe = u64::from_ne_bytes([p0, p1, p2, p3, p4, p5, p6, p7]);
        let endian = if kind == CmKind::Reject || probe == PROBE {
            Endian::Native
        } else if probe == PROBE.swap_bytes() {
            Endian::Swapped
        } else {
            return Err(CmError::Probe { found: probe });
        };
        Ok(Self { kind, len, endian })
    }
}

/// A connection message, ready to be sent in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmMessage {
    bytes: [u8; CM_HEADER_LEN + CM_DATA_MAX],
    len: usize,
}

impl CmMessage {
    /// A message of this host; [`CmError::Length`] for more than [`CM_DATA_MAX`] bytes.
    pub fn new(kind: CmKind, data: &[u8]) -> Result<Self, CmError> {
        let mut bytes = [0; CM_HEADER_LEN + CM_DATA_MAX];
        let len = CM_HEADER_LEN + data.len();
        let (Some(place), Ok(data_len)) =
            (bytes.get_mut(CM_HEADER_LEN..len), u16::try_from(data.len()))
        else {
            return Err(CmError::Length { found: data.len() });
        };
        place.copy_from_slice(data);
        Self::write_head(&mut bytes, kind, data_len);
        Ok(Self { bytes, len })
    }

    /// Fills a header of zeroes in.
    fn write_head(bytes: &mut [u8], kind: CmKind, data_len: u16) {
        bytes[0] = VERSION;
        bytes[1] = kind as u8;
        bytes[2..4].copy_from_slice(&data_len.to_be_bytes());
        if kind != CmKind::Reject {
            bytes[24..32].copy_from_slice(&PROBE.to_ne_bytes());
        }
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The first bytes of what is no connection message, as text or as numbers.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = &self.0[..self.0.len().min(CM_HEADER_LEN)];
        let plain = |byte: &u8| byte.is_ascii_graphic() || b" \t\r\n".contains(byte);
        if bytes.iter().all(plain) {
            return write!(f, "\"{}\"", bytes.escape_ascii());
        }
        let mut separator = "[";
        for byte in bytes {
            write!(f, "{separator}{byte:02x}")?;
            separator = " ";
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: CmKind, data: &[u8]) -> [u8; CM_HEADER_LEN] {
        let message = CmMessage::new(kind, data).expect("fits");
        *message.bytes().first_chunk().expect("a header")
    }

    #[test]
    fn what_is_written_is_read() {
        for kind in [CmKind::Request, CmKind::Response, CmKind::Reject] {
            for len in [0, 1, 8, 255, 256] {
                let data: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let message = CmMessage::new(kind, &data).expect("fits");
                assert_eq!(message.bytes().len(), CM_HEADER_LEN + len);
                assert_eq!(&message.bytes()[CM_HEADER_LEN..], data);
                let parsed = CmHeader::parse(&header(kind, &data));
                assert_eq!(parsed, Ok(CmHeader { kind, len, endian: Endian::Native }));
            }
        }
        assert_eq!(CmMessage::new(CmKind::Request, &[0; 257]), Err(CmError::Length { found: 257 }));
        let huge = vec![0; 1 << 17];
        assert_eq!(
            CmMessage::new(CmKind::Request, &huge),
            Err(CmError::Length { found: huge.len() })
        );
    }

    #[test]
    fn the_probe_tells_the_byte_order() {
        for kind in [CmKind::Request, CmKind::Response] {
            let mut bytes = header(kind, b"");
            bytes[24..].reverse();
            assert_eq!(CmHeader::parse(&bytes).map(|head| head.endian), Ok(Endian::Swapped));
            for probe in [0, 2, u64::MAX, 1 << 32] {
                bytes[24..].copy_from_slice(&probe.to_ne_bytes());
                assert_eq!(CmHeader::parse(&bytes), Err(CmError::Probe { found: probe }));
            }
        }
        let mut reject = header(CmKind::Reject, b"");
        assert_eq!(reject[24..], [0; 8]);
        reject[24..].fill(0xa5);
        assert_eq!(CmHeader::parse(&reject).map(|head| head.endian), Ok(Endian::Native));
    }

    #[test]
    fn strangers_are_shown() {
        assert_eq!(Shown(b"SSH-2.0-x\r\n").to_string(), r#""SSH-2.0-x\r\n""#);
        assert_eq!(Shown(&[3, 0, b'a']).to_string(), "[03 00 61]");
        assert_eq!(Shown(&[b'a'; 1000]).to_string().len(), 34);
        assert_eq!(Shown(&[]).to_string(), r#""""#);
    }

    #[test]
    fn a_front_is_refused_as_soon_as_it_shows() {
        for kind in [CmKind::Request, CmKind::Response, CmKind::Reject] {
            for swapped in [false, true] {
                let mut good = header(kind, &[0; 256]);
                if swapped {
                    good[24..].reverse();
                }
                for len in 0..=CM_HEADER_LEN {
                    assert_eq!(CmHeader::check_front(&good[..len]), Ok(()), "{kind:?} {len}");
                }
            }
        }
        assert_eq!(CmHeader::check_front(b"S"), Err(CmError::Version { found: b'S' }));
        assert_eq!(CmHeader::check_front(&[3, 2]), Err(CmError::Kind { found: 2 }));
        assert_eq!(CmHeader::check_front(&[3, 0, 9]), Ok(()));
        assert_eq!(CmHeader::check_front(&[3, 0, 9, 0]), Err(CmError::Length { found: 9 << 8 }));
    }

    #[test]
    fn only_what_no_peer_uses_may_differ() {
        let good = header(CmKind::Request, b"12345678");
        for at in 0..CM_HEADER_LEN {
            let mut bytes = good;
            bytes[at] ^= 0x40;
            let unused = (4..24).contains(&at);
            assert_eq!(CmHeader::parse(&bytes).is_ok(), unused || at == 3, "byte {at}");
        }
        let mut bytes = good;
        bytes[2..4].copy_from_slice(&[1, 1]);
        let error = CmHeader::parse(&bytes).expect_err("257 bytes");
        assert_eq!(
            error.to_string(),
            "connection message: 257 bytes of user data, accepted are 0 to 256"
        );
    }
}
