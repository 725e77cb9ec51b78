//! SETUP. Why an offer does not fit, in words that name the attribute and the way out.

use std::fmt;

use bitflags::Flags as Bits;

use super::{FILTER, NAME_HINT, ProviderFilter};
use crate::{
    Errno,
    attr::{EpType, addr_format},
    param::nearest,
    shortage,
};

/// One reason why one offer was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {attribute}: wanted {wanted}, offered {offered}; {fix}", self.subject())]
pub struct Rejection {
    /// The provider's name, with layers.
    pub provider: String,
    /// The endpoint type of the offer, if it came to that.
    pub ep_type: EpType,
    /// The domains of the offers that this is the reason for, in the order of the listing: their
    /// interfaces or devices. Empty for providers with one domain, and if it did not come to offers.
    pub domains: Vec<String>,
    /// The attribute in question, as the C interface spells it: `domain_attr.mr_mode`.
    pub attribute: &'static str,
    /// What the hints ask for.
    pub wanted: String,
    /// What the provider has.
    pub offered: String,
    /// What to change.
    pub fix: String,
    /// The provider could not look, for want of descriptors or memory: the error that it met.
    pub shortage: Option<Errno>,
}

impl Rejection {
    /// A provider that cannot be used at all; `attribute` says what is missing.
    pub fn unavailable(
        provider: &str,
        attribute: &'static str,
        offered: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            provider: provider.to_owned(),
            ep_type: EpType::Unspec,
            domains: Vec::new(),
            attribute,
            wanted: provider.to_owned(),
            offered: offered.into(),
            fix: fix.into(),
            shortage: None,
        }
    }

    /// A provider that cannot find out what it has: `what` it has not got, why, and what may be
    /// forbidden where nothing is short.
    pub fn blind(
        provider: &str,
        attribute: &'static str,
        what: &str,
        reason: Errno,
        fix: &str,
    ) -> Self {
        let shortage = shortage::limit(reason).map(|_| reason);
        let fix =
            if shortage.is_some() { "raise the limit, or close what is not needed" } else { fix };
        let offered = format!("{what}: {}", shortage::explained(reason));
        Self { shortage, ..Self::unavailable(provider, attribute, offered, fix) }
    }

    /// An attribute that a provider cannot give as it is wanted.
    pub fn of(
        provider: &str,
        attribute: &'static str,
        wanted: impl Into<String>,
        offered: impl Into<String>,
        fix: impl Into<String>,
    ) -> Box<Self> {
        let wanted = wanted.into();
        Box::new(Self { wanted, ..Self::unavailable(provider, attribute, offered, fix) })
    }

    pub(super) fn hidden(provider: &str, filter: &ProviderFilter) -> Self {
        let fix = if filter.is_empty() {
            "FI_PROVIDER is set and empty, which hides everything; unset it"
        } else if filter.hides() {
            "FI_PROVIDER begins with ^ and hides what it names; take the name off it, or unset it"
        } else {
            "name the provider in FI_PROVIDER, or unset it"
        };
        Self { wanted: filter.to_string(), ..Self::unavailable(provider, FILTER, provider, fix) }
    }

    /// A name, in `attribute`, that no provider has.
    pub(super) fn no_such(attribute: &'static str, name: &str, cores: &[&str]) -> Self {
        let offered = cores.join(", ");
        let fix = match nearest(name, cores.iter().copied()) {
            Some(near) => format!("there is no such provider; did you mean {near}?"),
            None => "there is no such provider; name one of those offered".to_owned(),
        };
        Self { wanted: name.to_owned(), ..Self::unavailable(SELECTION, attribute, offered, fix) }
    }

    /// A layer in the variable, without what it is over.
    pub(super) fn bare_layer(layer: &str, names: &[&str]) -> Self {
        let over: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| name.split(';').skip(1).any(|part| part.eq_ignore_ascii_case(layer)))
            .collect();
        let fix = match over.last() {
            Some(name) => format!("it is a layer: name what it is over, too, as in '{name}'"),
            None => "there is no such layer; name one of the providers".to_owned(),
        };
        let offered = over.join(", ");
        Self { wanted: layer.to_owned(), ..Self::unavailable(SELECTION, FILTER, offered, fix) }
    }

    pub(super) fn failed(provider: &str) -> Self {
        Self::unavailable(
            provider,
            "provider",
            "a fault inside the provider",
            "see the log; the other providers are not affected",
        )
    }

    /// Whom it is about: the provider and, as far as it came to offers, their type and domains.
    pub fn subject(&self) -> String {
        let ep_type = match self.ep_type {
            EpType::Unspec => None,
            other => Some(type_name(other as u32)),
        };
        let domains = (!self.domains.is_empty()).then(|| self.domains.join(", "));
        match (ep_type, domains) {
            (None, None) => self.provider.clone(),
            (Some(one), None) | (None, Some(one)) => format!("{} ({one})", self.provider),
            (Some(ep_type), Some(on)) => format!("{} ({ep_type} on {on})", self.provider),
        }
    }

    /// Whether the other one is the same but for the domains.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let domains = Vec::new;
        Self { domains: domains(), ..self.clone() } == Self { domains: domains(), ..other.clone() }
    }

    /// The same reason holds for these, too.
    pub(super) fn add_domains(&mut self, domains: Vec<String>) {
        for domain in domains {
            if !self.domains.contains(&domain) {
                self.domains.push(domain);
            }
        }
    }

    /// How far away the offer is, by this reason alone.
    pub(super) fn distance(&self) -> Distance {
        match self.attribute {
            FILTER | NAME_HINT if self.provider == SELECTION => Distance::Mistake,
            FILTER | NAME_HINT => Distance::Name,
            _ if self.ep_type == EpType::Unspec => Distance::Away,
            _ => Distance::Hints,
        }
    }
}

/// Whose name reasons bear that are no provider's.
const SELECTION: &str = "core";

/// How far away an offer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Distance {
    /// A wrong name alone is in the way.
    Mistake,
    /// Other hints bring it.
    Hints,
    /// Another name may.
    Name,
    /// Another machine or release.
    Away,
    /// A name is in the way, and more.
    Beyond,
}

/// The C name of an endpoint type, or its number.
pub(super) fn type_name(raw: u32) -> String {
    match EpType::from_raw(raw) {
        Some(EpType::Unspec) => "FI_EP_UNSPEC".to_owned(),
        Some(EpType::Msg) => "FI_EP_MSG".to_owned(),
        Some(EpType::Dgram) => "FI_EP_DGRAM".to_owned(),
        Some(EpType::Rdm) => "FI_EP_RDM".to_owned(),
        None => format!("type {raw}"),
    }
}

/// The C name of an address format, or its number.
pub fn format_name(format: u32) -> String {
    match format {
        addr_format::UNSPEC => "FI_FORMAT_UNSPEC".to_owned(),
        addr_format::SOCKADDR => "FI_SOCKADDR".to_owned(),
        addr_format::SOCKADDR_IN => "FI_SOCKADDR_IN".to_owned(),
        addr_format::SOCKADDR_IN6 => "FI_SOCKADDR_IN6".to_owned(),
        addr_format::SOCKADDR_IB => "FI_SOCKADDR_IB".to_owned(),
        addr_format::SOCKADDR_IP => "FI_SOCKADDR_IP".to_owned(),
        addr_format::STR => "FI_ADDR_STR".to_owned(),
        addr_format::IB_UD => "FI_ADDR_IB_UD".to_owned(),
        other => format!("format {other}"),
    }
}

/// The reasons as indented lines, for the text of an error.
pub(super) fn list(rejections: &[Rejection]) -> String {
    rejections.iter().map(|rejection| format!("\n  {rejection}")).collect()
}

/// Prints a set of bits with the C names: `FI_MR_LOCAL | FI_MR_VIRT_ADDR`; bits without a name
/// come as a number, the empty set as `0`.
#[derive(Clone, Copy, Debug)]
pub struct Names<B>(
    /// What stands before each name, `FI_` or `FI_MR_`.
    pub &'static str,
    /// The set.
    pub B,
);

impl<B: Bits<Bits: Into<u64> + Copy>> fmt::Display for Names<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = self.1.iter_names();
        let mut separator = "";
        for (name, _) in named.by_ref() {
            write!(f, "{separator}{}{name}", self.0)?;
            separator = " | ";
        }
        match named.remaining().bits().into() {
            0 if separator.is_empty() => f.write_str("0"),
            0 => Ok(()),
            rest => write!(f, "{separator}{rest:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Flags, MrMode};

    #[test]
    fn names_of_bits() {
        let mr = MrMode::LOCAL | MrMode::VIRT_ADDR;
        assert_eq!(Names("FI_MR_", mr).to_string(), "FI_MR_LOCAL | FI_MR_VIRT_ADDR");
        assert_eq!(Names("FI_", Flags::empty()).to_string(), "0");
        let odd = Flags::DIRECTED_RECV | Flags::from_bits_retain(1 << 60);
        assert_eq!(Names("FI_", odd).to_string(), "FI_DIRECTED_RECV | 0x1000000000000000");
    }

    #[test]
    fn one_line_says_it_all() {
        let rejection = Rejection {
            provider: "verbs".into(),
            ep_type: EpType::Msg,
            domains: vec!["mlx5_0".into(), "mlx5_1".into()],
            attribute: "domain_attr.mr_mode",
            wanted: "0".into(),
            offered: "FI_MR_LOCAL".into(),
            fix: "add FI_MR_LOCAL to hints->domain_attr->mr_mode".into(),
            shortage: None,
        };
        assert_eq!(
            rejection.to_string(),
            "verbs (FI_EP_MSG on mlx5_0, mlx5_1): domain_attr.mr_mode: wanted 0, offered FI_MR_LOCAL; \
             add FI_MR_LOCAL to hints->domain_attr->mr_mode"
        );
    }
}
