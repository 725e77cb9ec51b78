//! SETUP. What our own kind says behind the [record](super::record): tagged fields.
//!
//! Anybody may put anything there, so bytes that are no extension are not an error: they are a peer
//! that has none. The layout is fixed, little endian, and independent of the connection's order.

use bitflags::bitflags;

use super::Endian;

/// Most bytes of an extension as this version writes it.
pub const EXTENSION_LEN_MAX: usize = 64;

const MAGIC: [u8; 4] = *b"PCLE";
/// Raised when older peers must not read what follows; new fields alone do not raise it.
const VERSION: u8 = 1;

/// Types of fields. Unknown ones are skipped.
mod field {
    pub(super) const EPOCH: u8 = 1;
    pub(super) const FEATURES: u8 = 2;
    pub(super) const BOOT: u8 = 3;
    pub(super) const NAMESPACE: u8 = 4;
}

bitflags! {
    /// What a side can do beyond the common protocol; in force if both sides say so.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Features: u64 {
        /// Atomic operations, and error replies instead of a closed connection.
        const OPERATIONS = 1 << 0;
        /// Who asks for an announced message says whether a receive was there before it.
        const POSTED = 1 << 1;
        /// Others' features are kept, so that they can be named.
        const _ = !0;
    }
}

impl Features {
    /// What both sides can do, given what the peer said. Nothing across byte orders: operands are
    /// payload, which nobody converts.
    pub const fn in_force(self, peer: Option<&Extension>, endian: Endian) -> Self {
        match (peer, endian) {
            (Some(peer), Endian::Native) => self.intersection(peer.features),
            _ => Self::empty(),
        }
    }
}

/// An extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// A random number of the endpoint's life: another one is another endpoint.
    pub epoch: u64,
    /// What the side can do.
    pub features: Features,
    /// Identity of the running kernel, where it is known.
    pub boot: Option<[u8; 16]>,
    /// Identity of the network namespace, where it is known; means something within one `boot`.
    pub namespace: Option<u64>,
}

impl Extension {
    /// An extension that says no more than an endpoint's life.
    pub const fn new(epoch: u64) -> Self {
        Self { epoch, features: Features::empty(), boot: None, namespace: None }
    }

    /// Reads what follows a record; `None` for everything that is not an extension, whole and
    /// well-formed, of a version that this one understands.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&[VERSION])?;
        let (mut epoch, mut features, mut boot, mut namespace) = (None, None, None, None);
        while let [kind, len, tail @ ..] = rest {
            let value;
            (value, rest) = tail.split_at_checked(usize::from(*len))?;
            match *kind {
                field::EPOCH => set(&mut epoch, value)?,
                field::FEATURES => set(&mut features, value)?,
                field::BOOT => set(&mut boot, value)?,
                field::NAMESPACE => set(&mut namespace, value)?,
                _ => {}
            }
        }
        rest.is_empty().then_some(())?;
        Some(Self {
            epoch: u64::from_le_bytes(epoch?),
            features: Features::from_bits_retain(u64::from_le_bytes(features?)),
            boot,
            namespace: namespace.map(u64::from_le_bytes),
        })
    }

    /// Writes the extension and returns its length.
    pub fn write(&self, out: &mut [u8; EXTENSION_LEN_MAX]) -> usize {
        let mut writer = Writer { out, at: 0 };
        writer.bytes(&MAGIC);
        writer.bytes(&[VERSION]);
        writer.field(field::EPOCH, &self.epoch.to_le_bytes());
        writer.field(field::FEATURES, &self.features.bits().to_le_bytes());
        if let Some(boot) = &self.boot {
            writer.field(field::BOOT, boot);
        }
        if let Some(namespace) = self.namespace {
            writer.field(field::NAMESPACE, &namespace.to_le_bytes());
        }
        writer.at
    }
}

/// Keeps a field's value. `None` if it has another length than it should, or comes twice.
fn set<const N: usize>(place: &mut Option<[u8; N]>, value: &[u8]) -> Option<()> {
    let value = value.try_into().ok()?;
    place.replace(value).is_none().then_some(())
}

/// Fills the room from its front. All fields together fit it, which a test holds.
struct Writer<'a> {
    out: &'a mut [u8; EXTENSION_LEN_MAX],
    at: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        self.out[self.at..end].copy_from_slice(bytes);
        self.at = end;
    }

    fn field<const N: usize>(&mut self, kind: u8, value: &[u8; N]) {
        self.bytes(&[kind, const { N as u8 }]);
        self.bytes(value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FULL: Extension = Extension {
        epoch: 0x1122_3344_5566_7788,
        features: Features::OPERATIONS,
        boot: Some(*b"0123456789abcdef"),
        namespace: Some(4_026_531_840),
    };

    fn bytes(extension: &Extension) -> Vec<u8> {
        let mut room = [0xee; EXTENSION_LEN_MAX];
        let len = extension.write(&mut room);
        room[..len].to_vec()
    }

    #[test]
    fn layout() {
        let expected = [
            &b"PCLE\x01"[..],
            b"\x01\x08\x88\x77\x66\x55\x44\x33\x22\x11",
            b"\x02\x08\x01\0\0\0\0\0\0\0",
            b"\x03\x100123456789abcdef",
            b"\x04\x08\0\0\0\xf0\0\0\0\0",
        ];
        assert_eq!(bytes(&FULL), expected.concat());
    }

    #[test]
    fn in_force_is_what_both_say() {
        let ours = Features::OPERATIONS;
        let [native, swapped] = [Endian::Native, Endian::Swapped];
        let more = Extension { features: Features::from_bits_retain(!0), ..FULL };
        assert_eq!(ours.in_force(Some(&more), native), ours);
        assert_eq!(ours.in_force(Some(&more), swapped), Features::empty());
        assert_eq!(ours.in_force(Some(&Extension::new(1)), native), Features::empty());
        assert_eq!(ours.in_force(None, native), Features::empty());
        assert_eq!(Features::empty().in_force(Some(&FULL), native), Features::empty());
        let newer = ours | Features::POSTED;
        assert_eq!(newer.in_force(Some(&FULL), native), ours);
    }

    #[test]
    fn later_fields_are_skipped() {
        let mut long = bytes(&FULL);
        long.extend([9, 3, 1, 2, 3, 200, 0]);
        assert_eq!(Extension::parse(&long), Some(FULL));
        let unknown = Extension { features: Features::from_bits_retain(!0), ..FULL };
        assert_eq!(Extension::parse(&bytes(&unknown)), Some(unknown));
    }

    #[test]
    fn anything_else_is_no_extension() {
        let good = bytes(&FULL);
        for len in (0..good.len()).filter(|len| ![25, 43].contains(len)) {
            assert_eq!(Extension::parse(&good[..len]), None, "{len} bytes");
        }
        for at in 0..5 {
            let mut other = good.clone();
            other[at] ^= 1;
            assert_eq!(Extension::parse(&other), None, "byte {at}");
        }
        for tail in [&b"\x09"[..], b"\x09\x01", b"\x09\xff123", b"\x01\x08........"] {
            assert_eq!(Extension::parse(&[&good, tail].concat()), None, "tail {tail:?}");
        }
        let mut short = good.clone();
        short[6] = 7;
        assert_eq!(Extension::parse(&short), None);
        assert_eq!(Extension::parse(b"PCLE\x01\x02\x08........"), None, "no epoch");
        assert_eq!(Extension::parse(b"PCLE\x01\x01\x08........"), None, "no features");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(epoch: u64, features: u64, boot: Option<[u8; 16]>,
                                   namespace: Option<u64>) {
            let features = Features::from_bits_retain(features);
            let extension = Extension { epoch, features, boot, namespace };
            prop_assert_eq!(Extension::parse(&bytes(&extension)), Some(extension));
        }

        #[test]
        fn no_bytes_do_harm(bytes: Vec<u8>) {
            let _ = Extension::parse(&[b"PCLE\x01", &bytes[..]].concat());
        }
    }
}
