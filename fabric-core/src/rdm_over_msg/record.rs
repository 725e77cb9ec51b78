//! SETUP. What two endpoints tell each other in the private data of a connection request and of the
//! answers to it.
//!
//! All integers are in the host's byte order: a host of the other order is turned away, so that no
//! packet ever has to be turned around.
//!
//! The private data of some transports is small, and other libraries take no more of it than their
//! own records. So endpoints of our own kind know each other by bytes that are padding there, and
//! tell in them what they can do beyond the protocol.

use core::fmt;

/// Bytes of a request.
pub const REQUEST_LEN: usize = 24;
/// Bytes of an acceptance.
pub const ACCEPTANCE_LEN: usize = 16;
/// Bytes of a refusal.
pub const REFUSAL_LEN: usize = 2;

const VERSION: u8 = 1;
const ENDIAN: u8 = if cfg!(target_endian = "little") { 2 } else { 1 };
const CONTROL_VERSION: u8 = 4;
const OPERATION_VERSION: u8 = 3;

/// Older acceptances end here, and say nothing about credits.
const ACCEPTANCE_LEN_MIN: usize = 12;

/// What an endpoint of our own kind can do beyond the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The transport may use extensions of its own: both ends are of our kind.
    pub transport: bool,
}

/// Marks features in a request (upper half of a byte) and in an acceptance.
const MARK: u8 = 0xa0;
const MARKS: [u8; 2] = *b"Pc";
const TRANSPORT: u8 = 1;

impl Features {
    const fn bits(self) -> u8 {
        if self.transport { TRANSPORT } else { 0 }
    }

    const fn of(bits: u8) -> Self {
        Self { transport: bits & TRANSPORT != 0 }
    }

    /// What both ends can do.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { transport: self.transport && other.transport }
    }
}

/// How an endpoint is known to a peer: a part that tells the endpoint from a later one at the same
/// address, and the number that the peer is to write into each packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId {
    /// Of the endpoint. Other libraries put a process number here.
    pub owner: u32,
    /// Of the connection within the endpoint.
    pub index: u32,
}

impl ConnectionId {
    const fn word(self) -> u64 {
        ((self.owner as u64) << 32) | self.index as u64
    }

    const fn of(word: u64) -> Self {
        Self { owner: (word >> 32) as u32, index: word as u32 }
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}/{}", self.owner, self.index)
    }
}

/// Whether sends wait for credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// The peer is too old to say so.
    Unsaid,
    /// They do, if both want it.
    On,
    /// The transport sees to it.
    Off,
}

impl FlowControl {
    const fn byte(self) -> u8 {
        match self {
            Self::Unsaid => 0,
            Self::On => 1,
            Self::Off => 2,
        }
    }

    /// What is no known word is none.
    const fn of(byte: u8) -> Self {
        match byte {
            1 => Self::On,
            2 => Self::Off,
            _ => Self::Unsaid,
        }
    }
}

/// What a connector says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it listens itself, at the address that it connects from.
    pub port: u16,
    /// Its wish.
    pub flow_control: FlowControl,
    /// Bytes of a message that its receive buffers take.
    pub eager_limit: u32,
    /// Receives that it keeps posted.
    pub receives: u32,
    /// How it wants to be known.
    pub id: ConnectionId,
    /// What it can do; other libraries can do nothing more.
    pub features: Features,
}

/// Why a request cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It ends early.
    #[error("a request of {0} bytes, and not {REQUEST_LEN}")]
    Short(usize),
    /// The peer speaks another version.
    #[error(
        "versions {0}, {1}, {2} of the protocol, and not {VERSION}, {CONTROL_VERSION}, {OPERATION_VERSION}"
    )]
    Versions(u8, u8, u8),
    /// The peer's host has another byte order.
    #[error("another byte order ({0})")]
    Endian(u8),
    /// The peer's buffers have another size than ours.
    #[error("an eager limit of {theirs} bytes, and not {ours} (FI_OFI_RXM_BUFFER_SIZE)")]
    EagerLimit {
        /// The peer's.
        theirs: u32,
        /// Our own.
        ours: u32,
    },
}

impl Request {
    /// Reads a request to an endpoint with this eager limit.
    pub fn parse(data: &[u8], eager_limit: u32) -> Result<Self, RequestError> {
        let Some(data) = data.first_chunk::<REQUEST_LEN>() else {
            return Err(RequestError::Short(data.len()));
        };
        let [version, endian, control, operation, p0, p1, flow_control, features, ..] = *data;
        if version != VERSION || control != CONTROL_VERSION || operation != OPERATION_VERSION {
            return Err(RequestError::Versions(version, control, operation));
        }
        if endian != ENDIAN {
            return Err(RequestError::Endian(endian));
        }
        let theirs = word32(data, 8);
        if theirs != eager_limit {
            return Err(RequestError::EagerLimit { theirs, ours: eager_limit });
        }
        Ok(Self {
            port: u16::from_ne_bytes([p0, p1]),
            flow_control: FlowControl::of(flow_control),
            eager_limit,
            receives: word32(data, 12),
            id: ConnectionId::of(word64(data, 16)),
            features: Features::of(if features & 0xf0 == MARK { features } else { 0 }),
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; REQUEST_LEN] {
        let mut out = [0; REQUEST_LEN];
        out[..4].copy_from_slice(&[VERSION, ENDIAN, CONTROL_VERSION, OPERATION_VERSION]);
        out[4..6].copy_from_slice(&self.port.to_ne_bytes());
        out[6] = self.flow_control.byte();
        out[7] = match self.features.bits() {
            0 => 0,
            bits => MARK | bits,
        };
        out[8..12].copy_from_slice(&self.eager_limit.to_ne_bytes());
        out[12..16].copy_from_slice(&self.receives.to_ne_bytes());
        out[16..].copy_from_slice(&self.id.word().to_ne_bytes());
        out
    }
}

/// What an acceptor answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// How it wants to be known.
    pub id: ConnectionId,
    /// Receives that it keeps posted.
    pub receives: u32,
    /// Its wish.
    pub flow_control: FlowControl,
    /// What it can do; other libraries can do nothing more.
    pub features: Features,
}

impl Acceptance {
    /// Reads an acceptance; `None` if it ends early.
    pub fn parse(data: &[u8]) -> Option<Self> {
        let fixed = data.first_chunk::<ACCEPTANCE_LEN_MIN>()?;
        Some(Self {
            id: ConnectionId::of(word64(fixed, 0)),
            receives: word32(fixed, 8),
            flow_control: FlowControl::of(data.get(12).copied().unwrap_or(0)),
            features: match data.get(13..16) {
                Some([a, b, features]) if [*a, *b] == MARKS => Features::of(*features),
                _ => Features::default(),
            },
        })
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; ACCEPTANCE_LEN] {
        let mut out = [0; ACCEPTANCE_LEN];
        out[..8].copy_from_slice(&self.id.word().to_ne_bytes());
        out[8..12].copy_from_slice(&self.receives.to_ne_bytes());
        out[12] = self.flow_control.byte();
        if self.features.bits() != 0 {
            out[13..15].copy_from_slice(&MARKS);
            out[15] = self.features.bits();
        }
        out
    }
}

/// Why an acceptor does not want a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not say.
    Unsaid,
    /// It will not, now or later.
    Refused,
    /// There is one already, or it asks for one itself.
    Known,
}

impl Refusal {
    /// Reads a refusal. What is none says nothing.
    pub const fn parse(data: &[u8]) -> Self {
        match data {
            [VERSION, 1, ..] => Self::Refused,
            [VERSION, 2, ..] => Self::Known,
            _ => Self::Unsaid,
        }
    }

    /// Its bytes.
    pub const fn bytes(self) -> [u8; REFUSAL_LEN] {
        let reason = match self {
            Self::Unsaid => 0,
            Self::Refused => 1,
            Self::Known => 2,
        };
        [VERSION, reason]
    }
}

fn word32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

fn word64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u32 = 16384;

    fn request() -> Request {
        Request {
            port: 0xb2bb,
            flow_control: FlowControl::Off,
            eager_limit: LIMIT,
            receives: 4096,
            id: ConnectionId { owner: 0x45d5, index: 0 },
            features: Features { transport: true },
        }
    }

    #[test]
    fn a_request_comes_back() {
        let bytes = request().bytes();
        assert_eq!(Request::parse(&bytes, LIMIT), Ok(request()));
        let longer = [&bytes[..], &[1; 31]].concat();
        assert_eq!(Request::parse(&longer, LIMIT), Ok(request()));
    }

    #[test]
    fn padding_of_others_is_no_feature() {
        let others = Request { features: Features::default(), ..request() };
        let mut bytes = others.bytes();
        assert_eq!(bytes[7], 0);
        for padding in [0, 1, 0x51, 0xb1, 0xff] {
            bytes[7] = padding;
            assert_eq!(Request::parse(&bytes, LIMIT), Ok(others));
        }
        let id = ConnectionId { owner: 7, index: 9 };
        let features = Features::default();
        let answer = Acceptance { id, receives: 1, flow_control: FlowControl::Off, features };
        let mut bytes = answer.bytes();
        assert_eq!(bytes[13..], [0; 3]);
        bytes[15] = 1;
        assert_eq!(Acceptance::parse(&bytes), Some(answer));
    }

    #[test]
    fn what_cannot_be_served() {
        let with = |at: usize, byte: u8| {
            let mut bytes = request().bytes();
            bytes[at] = byte;
            Request::parse(&bytes, LIMIT).unwrap_err()
        };
        for len in 0..REQUEST_LEN {
            let short = Request::parse(&request().bytes()[..len], LIMIT);
            assert_eq!(short, Err(RequestError::Short(len)));
        }
        assert_eq!(with(0, 2), RequestError::Versions(2, 4, 3));
        assert_eq!(with(2, 3), RequestError::Versions(1, 3, 3));
        assert_eq!(with(3, 9), RequestError::Versions(1, 4, 9));
        assert_eq!(with(1, 3 - ENDIAN), RequestError::Endian(3 - ENDIAN));
        assert_eq!(with(1, 0), RequestError::Endian(0));
        let other = Request::parse(&request().bytes(), 8192);
        assert_eq!(other, Err(RequestError::EagerLimit { theirs: LIMIT, ours: 8192 }));
    }

    #[test]
    fn acceptances_of_all_ages() {
        let id = ConnectionId { owner: 7, index: 9 };
        let features = Features { transport: true };
        let answer = Acceptance { id, receives: 128, flow_control: FlowControl::On, features };
        let bytes = answer.bytes();
        assert_eq!(Acceptance::parse(&bytes), Some(answer));
        let features = Features::default();
        let old = Acceptance { flow_control: FlowControl::Unsaid, features, ..answer };
        assert_eq!(Acceptance::parse(&bytes[..12]), Some(old));
        assert_eq!(Acceptance::parse(&bytes[..11]), None);
    }

    #[test]
    fn refusals() {
        for refusal in [Refusal::Unsaid, Refusal::Refused, Refusal::Known] {
            assert_eq!(Refusal::parse(&refusal.bytes()), refusal);
        }
        for bytes in [&[][..], &[1], &[2, 1], &[1, 3], &[1, 0xff]] {
            assert_eq!(Refusal::parse(bytes), Refusal::Unsaid);
        }
    }
}
