//! SETUP. Choosing network interfaces: the language of `FI_TCP_IFACE`.
//!
//! A comma list. Each part is an interface's name, which may hold `*` (any letters) and `?` (one
//! letter), or an address, or a subnet such as `10.0.0.0/8`. A part behind `^` is left out; `^` in
//! front of the whole list leaves all of its parts out. An interface is taken if some part takes
//! it, or no part takes any, and no part leaves it out. An empty list takes everything.

use std::{fmt, net::IpAddr};

/// The longest name of an interface, in bytes, as the kernel has it.
const NAME_MAX: usize = 15;

/// The interfaces to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFilter {
    taken: Vec<Pattern>,
    left_out: Vec<Pattern>,
}

/// One part of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A name, with or without wildcards.
    Name(String),
    /// An address, or the first bits of one.
    Subnet(IpAddr, u8),
}

impl InterfaceFilter {
    /// Takes everything.
    pub const fn all() -> Self {
        Self { taken: Vec::new(), left_out: Vec::new() }
    }

    /// Parses a list; `None` if a part can be neither a name nor a subnet.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (turned, list) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let mut filter = Self::all();
        for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (out, part) = part.strip_prefix('^').map_or((turned, part), |rest| (true, rest));
            let side = if out { &mut filter.left_out } else { &mut filter.taken };
            side.push(Pattern::parse(part.trim())?);
        }
        Some(filter)
    }

    /// Whether an address of an interface may be used.
    pub fn accepts(&self, name: &str, address: IpAddr) -> bool {
        let any = |side: &[Pattern]| side.iter().any(|pattern| pattern.fits(name, address));
        (self.taken.is_empty() || any(&self.taken)) && !any(&self.left_out)
    }

    /// Whether nothing is left out.
    pub fn is_all(&self) -> bool {
        self.taken.is_empty() && self.left_out.is_empty()
    }

    /// The parts that should take something.
    pub fn taken(&self) -> &[Pattern] {
        &self.taken
    }
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Subnet(address, width(address)));
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address = address.parse::<IpAddr>().ok()?;
            let plain = !bits.is_empty() && bits.bytes().all(|digit| digit.is_ascii_digit());
            let bits = bits.parse::<u8>().ok().filter(|bits| plain && *bits <= width(address))?;
            return Some(Self::Subnet(address, bits));
        }
        // A run of stars is as good as one, so that the longest useful pattern is short.
        let letters = text.bytes().filter(|letter| *letter != b'*').count();
        let printable = text.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '^');
        (!text.is_empty() && letters <= NAME_MAX && text.len() <= 4 * NAME_MAX && printable)
            .then(|| Self::Name(text.to_owned()))
    }

    /// Whether an address of an interface is meant. A label (`eth0:1`) is meant by the name of its
    /// interface, too.
    pub fn fits(&self, name: &str, address: IpAddr) -> bool {
        match self {
            Self::Name(pattern) => {
                let base = name.split(':').next().unwrap_or(name);
                glob(pattern.as_bytes(), name.as_bytes())
                    || glob(pattern.as_bytes(), base.as_bytes())
            }
            Self::Subnet(subnet, bits) => same_subnet(*subnet, address, *bits),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Subnet(address, bits) if *bits == width(*address) => address.fmt(f),
            Self::Subnet(address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

/// Whether two addresses of one family agree in their first bits.
pub fn same_subnet(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    let bits = u32::from(bits);
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let other = a.to_bits() ^ b.to_bits();
            other.checked_shr(32_u32.saturating_sub(bits)).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let other = a.to_bits() ^ b.to_bits();
            other.checked_shr(128_u32.saturating_sub(bits)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Matches with `*` and `?`, in time that is the product of both lengths at most: only the last
/// star is ever tried again.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(letter) if *letter == b'?' || *letter == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn takes(list: &str, name: &str, address: &str) -> bool {
        let filter = InterfaceFilter::parse(list).unwrap_or_else(|| panic!("{list:?}"));
        filter.accepts(name, address.parse().unwrap())
    }

    #[test]
    fn names_globs_subnets_and_exclusions() {
        for (list, taken, left) in [
            ("", &["eth0", "lo"][..], &[][..]),
            ("eth0", &["eth0", "eth0:1"], &["eth01", "eth", "lo"]),
            ("eth*", &["eth0", "eth10", "eth"], &["veth0"]),
            ("eth?", &["eth0"], &["eth", "eth10"]),
            ("*0*", &["eth0", "e0p1"], &["lo"]),
            ("eth0, ib0 ,", &["eth0", "ib0"], &["ib1"]),
            ("^docker0,virbr*", &["eth0"], &["docker0", "virbr0"]),
            ("eth*,^eth1", &["eth0"], &["eth1", "lo"]),
            ("^eth1,^lo", &["eth0"], &["eth1", "lo"]),
            ("10.0.0.0/8", &["eth0"], &[]),
            ("10.1.2.3", &["eth0"], &[]),
            ("0.0.0.0/0", &["eth0"], &[]),
            ("^10.1.0.0/16", &[], &["eth0"]),
            ("10.1.2.4,192.168.0.0/16,fd00::/8,::/0", &[], &["eth0"]),
        ] {
            for name in taken {
                assert!(takes(list, name, "10.1.2.3"), "{list:?} {name}");
            }
            for name in left {
                assert!(!takes(list, name, "10.1.2.3"), "{list:?} {name}");
            }
        }
        assert!(takes("fd00::/8", "eth0", "fdff::1") && !takes("fd00::/8", "eth0", "fe80::1"));
        assert!(takes("::/0", "eth0", "fe80::1") && !takes("0.0.0.0/0", "eth0", "fe80::1"));
    }

    #[test]
    fn what_can_be_no_interface_is_refused() {
        for list in [
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0/8",
            "fd00::/129",
            "eth0/24",
            "et h0",
            "a-name-of-16-byte",
            "^^^eth0",
            "eth0,^",
            "eth0\u{7}",
        ] {
            assert_eq!(InterfaceFilter::parse(list), None, "{list:?}");
        }
        assert!(InterfaceFilter::parse("^").unwrap().is_all());
    }

    #[test]
    fn patterns_print_as_they_are_read() {
        let text = "eth*,10.0.0.0/8,10.1.2.3,fd00::1";
        let filter = InterfaceFilter::parse(text).unwrap();
        let parts: Vec<String> = filter.taken().iter().map(Pattern::to_string).collect();
        assert_eq!(parts.join(","), text);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(list in ".{0,40}", name in ".{0,20}", bits: u32) {
            if let Some(filter) = InterfaceFilter::parse(&list) {
                filter.accepts(&name, IpAddr::V4(bits.into()));
            }
        }

        #[test]
        fn a_glob_agrees_with_its_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            fn slow(p: &[u8], t: &[u8]) -> bool {
                match p.split_first() {
                    None => t.is_empty(),
                    Some((b'*', rest)) => (0..=t.len()).any(|skip| slow(rest, &t[skip..])),
                    Some((b'?', rest)) => !t.is_empty() && slow(rest, &t[1..]),
                    Some((letter, rest)) => t.first() == Some(letter) && slow(rest, &t[1..]),
                }
            }
            prop_assert_eq!(
                glob(pattern.as_bytes(), text.as_bytes()),
                slow(pattern.as_bytes(), text.as_bytes())
            );
        }

        #[test]
        fn an_address_is_in_each_of_its_subnets(bits: u128, prefix in 0_u8..=128) {
            let address = IpAddr::V6(bits.into());
            prop_assert!(same_subnet(address, address, prefix));
            let flipped = IpAddr::V6((bits ^ (1 << 127)).into());
            prop_assert_eq!(same_subnet(address, flipped, prefix), prefix == 0);
        }
    }
}
