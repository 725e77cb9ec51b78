//! SETUP. Collects what does not fit.

use std::fmt::Display;

use bitflags::Flags as Bits;

use super::super::{Names, Rejection};
use crate::attr::{EpType, Info};

/// The misses of one offer.
pub(super) struct Check {
    provider: String,
    ep_type: EpType,
    domains: Vec<String>,
    misses: Vec<Rejection>,
}

impl Check {
    pub(super) fn of(info: &Info) -> Self {
        let provider = info.fabric.as_ref().and_then(|f| f.prov_name.clone()).unwrap_or_default();
        let ep_type = info.ep.as_ref().and_then(|ep| EpType::from_raw(ep.ep_type));
        let domain = info.domain.as_ref().and_then(|domain| domain.name.clone());
        // A domain of the provider's own name tells nothing.
        let domains = domain.filter(|name| !provider.split(';').any(|part| part == name));
        Self {
            provider,
            ep_type: ep_type.unwrap_or_default(),
            domains: domains.into_iter().collect(),
            misses: Vec::new(),
        }
    }

    pub(super) fn provider(&self) -> &str {
        &self.provider
    }

    pub(super) fn verdict(self) -> Result<(), Vec<Rejection>> {
        if self.misses.is_empty() { Ok(()) } else { Err(self.misses) }
    }

    pub(super) fn refuse(
        &mut self,
        attribute: &'static str,
        wanted: impl Display,
        offered: impl Display,
        fix: impl Into<String>,
    ) {
        self.misses.push(Rejection {
            provider: self.provider.clone(),
            ep_type: self.ep_type,
            domains: self.domains.clone(),
            attribute,
            wanted: wanted.to_string(),
            offered: offered.to_string(),
            fix: fix.into(),
            shortage: None,
        });
    }

    /// A number that must not exceed the offer's.
    pub(super) fn at_most<N: Copy + Into<u128>>(
        &mut self,
        attribute: &'static str,
        wanted: N,
        offered: N,
    ) {
        let (wanted, offered) = (wanted.into(), offered.into());
        if wanted > offered {
            self.refuse(attribute, wanted, offered, "ask for no more than is offered, or for 0");
        }
    }

    /// As [`Check::at_most`] for sizes and counts.
    pub(super) fn limit(&mut self, attribute: &'static str, wanted: usize, offered: usize) {
        self.at_most(attribute, wanted as u64, offered as u64);
    }

    /// A number that must be the offer's, or 0.
    pub(super) fn same(&mut self, attribute: &'static str, wanted: u32, offered: u32) {
        if wanted != 0 && wanted != offered {
            self.refuse(attribute, wanted, offered, "use the offered value, or 0");
        }
    }

    /// A deprecated field that must be 0.
    pub(super) fn retired(&mut self, attribute: &'static str, wanted: u64) {
        if wanted != 0 {
            self.refuse(attribute, format_args!("{wanted:#x}"), 0, "set the deprecated field to 0");
        }
    }

    /// Bits that must be among the offer's.
    pub(super) fn subset<B>(
        &mut self,
        attribute: &'static str,
        prefix: &'static str,
        wanted: B,
        offered: B,
    ) where
        B: Bits<Bits: Into<u64> + Copy> + Copy,
    {
        if !offered.contains(wanted) {
            let extra = Names(prefix, wanted.difference(offered));
            self.refuse(
                attribute,
                Names(prefix, wanted),
                Names(prefix, offered),
                format!("do without {extra}"),
            );
        }
    }

    /// A name that must be the offer's, ignoring case.
    pub(super) fn name(
        &mut self,
        attribute: &'static str,
        wanted: Option<&str>,
        offered: Option<&str>,
    ) {
        let Some(wanted) = wanted else { return };
        let offered = offered.unwrap_or_default();
        if !wanted.eq_ignore_ascii_case(offered) {
            self.refuse(attribute, wanted, offered, "use the offered name, or leave it out");
        }
    }
}
