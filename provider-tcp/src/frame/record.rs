//! SETUP. The record of a reliable datagram endpoint: the first 8 bytes of its user data.
//!
//! Behind it, peers of our own kind put an [extension](super::extension); others ignore that.

use core::{fmt, num::NonZeroU32};

use super::{
    Endian,
    cm::CM_DATA_MAX,
    extension::{EXTENSION_LEN_MAX, Extension},
};

/// Bytes of a record.
pub const RECORD_LEN: usize = 8;

/// The protocol version that brings rendezvous.
const VERSION: u8 = 1;
/// Says that the version in an answer is an answer, not an echo by a peer that knows no versions.
const ANSWERED: u8 = 0x80;

/// The version to answer to a request that asks for `asked`.
///
/// Zero without rendezvous: for peers that do not ask for it, and for those of the other byte
/// order, some of which confuse the two within one transfer.
pub const fn answer_version(asked: u8, endian: Endian) -> u8 {
    match endian {
        Endian::Native if asked >= VERSION => ANSWERED | VERSION,
        _ => 0,
    }
}

/// Whether an answer's version allows rendezvous messages, in both directions.
pub const fn rendezvous_allowed(answer: u8, endian: Endian) -> bool {
    matches!(endian, Endian::Native) && answer == ANSWERED | VERSION
}

/// Why user data is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("endpoint record: {found} bytes of user data, accepted are {RECORD_LEN} to {CM_DATA_MAX}")]
pub struct RecordError {
    /// Bytes that were there.
    pub found: usize,
}

/// The providers of reliable datagrams over TCP. Their messages cannot be told from each other later,
/// so that it takes the hand-shake to keep them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// `tcp`.
    Tcp,
    /// `tcp;ofi_rxm`.
    OfiRxm,
}

/// Bytes of a request of `tcp;ofi_rxm`, and its versions of the protocol and of flow control.
const OFI_RXM_REQUEST: usize = 24;
const OFI_RXM_VERSIONS: [u8; 2] = [4, 3];

/// How a request of the other provider is refused: a refusal of `tcp;ofi_rxm`, and behind it who says
/// so. Endpoints of `tcp` look at no refusal.
const ELSE: [u8; 2] = [1, 1];
const MARK: [u8; 2] = *b"Pc";

impl Speaker {
    /// Whose request this is, if it shows: a record alone or with an extension, or the like of
    /// `tcp;ofi_rxm`.
    pub fn of_request(data: &[u8]) -> Option<Self> {
        let record = data.split_first_chunk::<RECORD_LEN>();
        if record.is_some_and(|(_, rest)| rest.is_empty() || Extension::parse(rest).is_some()) {
            return Some(Self::Tcp);
        }
        let layered = data.len() == OFI_RXM_REQUEST && data[2..4] == OFI_RXM_VERSIONS;
        layered.then_some(Self::OfiRxm)
    }

    /// What an endpoint of this provider says to one of the other.
    pub const fn refusal(self) -> [u8; 5] {
        let speaker = match self {
            Self::Tcp => 1,
            Self::OfiRxm => 2,
        };
        [ELSE[0], ELSE[1], MARK[0], MARK[1], speaker]
    }

    /// Who has refused a request of `asker`, if it is another than that.
    pub fn of_refusal(data: &[u8], asker: Self) -> Option<Self> {
        let told = [Self::Tcp, Self::OfiRxm].into_iter().find(|told| told.refusal() == *data);
        // Nobody else refuses in two bytes, of which the second is a reason.
        let short = || matches!(data, [1, 0..=2]).then_some(Self::OfiRxm);
        told.or_else(short).filter(|told| *told != asker)
    }

    /// What is to be done where an endpoint of this provider has met one of `other`.
    pub const fn advice(self, other: Self) -> Advice {
        Advice { own: self, other }
    }
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::OfiRxm => "tcp;ofi_rxm",
        })
    }
}

/// Two endpoints of different providers, in words.
#[derive(Clone, Copy, Debug)]
pub struct Advice {
    own: Speaker,
    other: Speaker,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, other } = self;
        write!(
            f,
            "its provider is {other}, and this one {own}: choose one for both sides \
             (FI_PROVIDER='tcp;ofi_rxm', or FI_PROVIDER=^ofi_rxm for tcp alone)"
        )
    }
}

/// What an endpoint says about itself, and about its peer in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// In a request, the highest version known; in an answer, [`answer_version`].
    pub version: u8,
    /// [`Record::FIREWALL`]; others may stand in what a peer sends.
    pub features: u8,
    /// The port on which the connector listens, also in the answer to it.
    pub port: u16,
    /// Tells an endpoint from a later one at the same address. Peers may send zero.
    pub nonce: u32,
}

impl Record {
    /// Feature: the connector cannot be connected to.
    pub const FIREWALL: u8 = 0x01;
    const FEATURES: u8 = Self::FIREWALL;

    /// What a connector sends that listens on `port`.
    pub const fn request(port: u16, nonce: NonZeroU32) -> Self {
        Self { version: VERSION, features: 0, port, nonce: nonce.get() }
    }

    /// The answer to this request by an endpoint with this nonce.
    ///
    /// A refusal has no record of its own: it returns the request's.
    pub const fn answer(self, nonce: NonZeroU32, endian: Endian) -> Self {
        Self {
            version: answer_version(self.version, endian),
            features: self.features & Self::FEATURES,
            port: self.port,
            nonce: nonce.get(),
        }
    }

    /// Reads the record in front of any other bytes.
    pub fn parse(data: &[u8]) -> Result<Self, RecordError> {
        let Some(&[version, features, p0, p1, n0, n1, n2, n3]) = data.first_chunk::<RECORD_LEN>()
        else {
            return Err(RecordError { found: data.len() });
        };
        Ok(Self {
            version,
            features,
            port: u16::from_be_bytes([p0, p1]),
            nonce: u32::from_be_bytes([n0, n1, n2, n3]),
        })
    }

    /// Its bytes.
    pub const fn bytes(self) -> [u8; RECORD_LEN] {
        let [p0, p1] = self.port.to_be_bytes();
        let [n0, n1, n2, n3] = self.nonce.to_be_bytes();
        [self.version, self.features, p0, p1, n0, n1, n2, n3]
    }
}

/// User data of a reliable datagram endpoint: a record, and what our own kind adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The part that every peer understands.
    pub record: Record,
    /// The part that others neither send nor look at.
    pub extension: Option<Extension>,
}

impl Greeting {
    /// Reads user data. Whatever is no extension counts as none.
    pub fn parse(data: &[u8]) -> Result<Self, RecordError> {
        let record = Record::parse(data)?;
        Ok(Self { record, extension: Extension::parse(&data[RECORD_LEN..]) })
    }

    /// The bytes to give to [`CmMessage::new`](super::cm::CmMessage::new).
    pub fn user_data(&self) -> UserData {
        let mut data = UserData { bytes: [0; USER_DATA_MAX], len: RECORD_LEN };
        let (record, rest) = data.bytes.split_at_mut(RECORD_LEN);
        record.copy_from_slice(&self.record.bytes());
        if let (Some(extension), Some(place)) = (&self.extension, rest.first_chunk_mut()) {
            data.len += extension.write(place);
        }
        data
    }
}

const USER_DATA_MAX: usize = RECORD_LEN + EXTENSION_LEN_MAX;
const _: () = assert!(USER_DATA_MAX <= CM_DATA_MAX);

/// A greeting's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserData {
    bytes: [u8; USER_DATA_MAX],
    len: usize,
}

impl UserData {
    /// All of them.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: NonZeroU32 = NonZeroU32::new(0x0102_0304).expect("not zero");

    #[test]
    fn bytes_are_in_network_order() {
        let record = Record::request(0x8697, NONCE);
        assert_eq!(record.bytes(), [1, 0, 0x86, 0x97, 1, 2, 3, 4]);
        let long = [&record.bytes()[..], &[0xff; 248]].concat();
        for len in 0..=long.len() {
            let parsed = Record::parse(&long[..len]);
            let expected = if len < 8 { Err(RecordError { found: len }) } else { Ok(record) };
            assert_eq!(parsed, expected);
        }
    }

    #[test]
    fn versions_and_features_are_answered() {
        for (asked, answered) in [(0, 0x00), (1, 0x81), (9, 0x81), (0x80, 0x81), (0xff, 0x81)] {
            let record = Record { version: asked, ..Record::request(7, NONCE) };
            let nonce = NonZeroU32::MAX;
            let answer = record.answer(nonce, Endian::Native);
            assert_eq!(answer.bytes(), [answered, 0, 0, 7, 0xff, 0xff, 0xff, 0xff]);
            assert_eq!(rendezvous_allowed(answer.version, Endian::Native), answered != 0);
            assert_eq!(record.answer(nonce, Endian::Swapped).version, 0);
        }
        let record = Record { features: 0xff, ..Record::request(7, NONCE) };
        assert_eq!(record.answer(NONCE, Endian::Native).features, 0x01);
    }

    #[test]
    fn only_an_answered_version_allows_rendezvous() {
        for answer in 0..=u8::MAX {
            assert_eq!(rendezvous_allowed(answer, Endian::Native), answer == 0x81);
            assert!(!rendezvous_allowed(answer, Endian::Swapped));
        }
    }

    #[test]
    fn the_other_provider_is_known_by_its_shape() {
        let record = Record::request(1027, NONCE);
        let layered = [1, 2, 4, 3, 9, 9, 2, 0, 0, 64, 0, 0, 0, 16, 0, 0, 1, 0, 0, 0, 7, 7, 0, 0];
        assert_eq!(Speaker::of_request(&layered), Some(Speaker::OfiRxm));
        assert_eq!(Speaker::of_request(&record.bytes()), Some(Speaker::Tcp));
        for boot in [None, Some([7; 16])] {
            let extension = Some(Extension { boot, ..Extension::new(5) });
            let data = Greeting { record, extension }.user_data();
            assert_eq!(Speaker::of_request(data.as_slice()), Some(Speaker::Tcp));
        }
        for len in (0..24).filter(|len| *len != RECORD_LEN) {
            assert_eq!(Speaker::of_request(&layered[..len]), None, "{len}");
        }
        let refused = |data: &[u8]| {
            [Speaker::Tcp, Speaker::OfiRxm].map(|asker| Speaker::of_refusal(data, asker))
        };
        assert_eq!(refused(&Speaker::Tcp.refusal()), [None, Some(Speaker::Tcp)]);
        assert_eq!(refused(&Speaker::OfiRxm.refusal()), [Some(Speaker::OfiRxm), None]);
        assert_eq!(refused(&[1, 2]), [Some(Speaker::OfiRxm), None]);
        for data in [&[][..], &[1], &[1, 3], &[1, 1, b'P', b'c', 3], &record.bytes()] {
            assert_eq!(refused(data), [None, None], "{data:?}");
        }
    }

    #[test]
    fn greetings_with_and_without_extension() {
        let record = Record::request(4711, NONCE);
        let plain = Greeting { record, extension: None };
        assert_eq!(plain.user_data().as_slice(), record.bytes());
        let extension = Extension { boot: Some([7; 16]), ..Extension::new(5) };
        let ours = Greeting { record, extension: Some(extension) };
        for greeting in [plain, ours] {
            assert_eq!(Greeting::parse(greeting.user_data().as_slice()), Ok(greeting));
        }
    }
}
