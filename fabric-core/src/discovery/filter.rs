//! SETUP. Choosing providers by name: `FI_PROVIDER`, and `prov_name` in hints.

use std::fmt;

use crate::param::known;

/// `FI_PROVIDER`: the providers to show (`tcp,shm`), or those to hide (`^verbs`). Names ignore
/// case. An entry shows its provider and all layers over it; an entry with layers (`tcp;ofi_rxm`)
/// shows just these. A hidden entry hides every offer that it is a layer of. An empty list shows
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderFilter(Option<List>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    hide: bool,
    names: Vec<String>,
}

impl ProviderFilter {
    /// Shows everything.
    pub const fn all() -> Self {
        Self(None)
    }

    /// The filter that the variable asks for.
    pub fn from_env() -> Self {
        known::PROVIDER.text().map_or_else(Self::all, |text| Self::parse(&text))
    }

    /// Parses the variable's text.
    pub fn parse(text: &str) -> Self {
        let (hide, list) = text.trim().strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let names = list.split(',').map(|name| name.trim().to_ascii_lowercase());
        Self(Some(List { hide, names: names.filter(|name| !name.is_empty()).collect() }))
    }

    /// Whether the provider `core` can have an offer that is shown; one that cannot need not
    /// even be asked.
    pub fn may_offer(&self, core: &str) -> bool {
        match &self.0 {
            None => true,
            Some(List { hide: true, names }) => !names.iter().any(|n| n.eq_ignore_ascii_case(core)),
            Some(List { hide: false, names }) => {
                names.iter().any(|n| n.split(';').any(|part| part.eq_ignore_ascii_case(core)))
            }
        }
    }

    /// Whether an offer with this full name is shown.
    pub fn shows(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        match &self.0 {
            None => true,
            Some(List { hide: true, names }) => {
                !names.iter().any(|n| *n == name || name.split(';').any(|part| part == n))
            }
            Some(List { hide: false, names }) => names.iter().any(|n| {
                name.strip_prefix(n.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(';'))
            }),
        }
    }

    /// Whether it is a list without a name, which shows nothing.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(|list| !list.hide && list.names.is_empty())
    }

    /// Whether it is a list of what is hidden.
    pub fn hides(&self) -> bool {
        self.0.as_ref().is_some_and(|list| list.hide)
    }

    /// Whether it is a list of what is shown, and has this provider in it.
    pub fn names(&self, core: &str) -> bool {
        !self.hides() && self.0.is_some() && self.may_offer(core)
    }

    /// The first entry of a list of what is shown that is a layer alone, which shows nothing.
    pub fn bare_layer(&self) -> Option<&str> {
        let list = self.0.as_ref().filter(|list| !list.hide)?;
        list.names.iter().map(String::as_str).find(|name| name.split(';').all(is_layer))
    }

    /// Entries that name no provider.
    pub fn strangers(&self, cores: &[&str]) -> Vec<&str> {
        self.0.as_ref().map_or_else(Vec::new, |list| strangers(&list.names, cores))
    }
}

impl fmt::Display for ProviderFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("all"),
            Some(List { hide, names }) => {
                write!(f, "\"{}{}\"", if *hide { "^" } else { "" }, names.join(","))
            }
        }
    }
}

/// `hints->fabric_attr->prov_name`: layers joined with `;` in any order, `^name` leaves one out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameWish {
    with: Vec<String>,
    without: Vec<String>,
}

impl NameWish {
    /// Parses the hint.
    pub fn parse(text: &str) -> Self {
        let mut wish = Self::default();
        for part in text.split(';').map(str::trim) {
            match part.strip_prefix('^') {
                Some("") => {}
                None if part.is_empty() => {}
                Some(name) => wish.without.push(name.to_ascii_lowercase()),
                None => wish.with.push(part.to_ascii_lowercase()),
            }
        }
        wish
    }

    /// Wanted parts that name no provider.
    pub fn strangers(&self, cores: &[&str]) -> Vec<&str> {
        strangers(&self.with, cores)
    }

    /// Whether it asks for the provider `core` by name.
    pub fn names(&self, core: &str) -> bool {
        self.with.iter().any(|name| name.eq_ignore_ascii_case(core))
    }

    /// Whether the provider `core` can have an offer that is meant.
    pub fn may_take(&self, core: &str) -> bool {
        let is_core = |name: &String| name.eq_ignore_ascii_case(core);
        self.with.iter().all(|name| is_layer(name) || is_core(name))
            && !self.without.iter().any(is_core)
    }

    /// Whether an offer with this full name is meant: all wanted parts are among its layers, no
    /// unwanted one is. So `tcp` also takes `tcp;ofi_rxm`, and `ofi_rxm` takes it over any core.
    pub fn takes(&self, name: &str) -> bool {
        let parts = || name.split(';');
        let has = |wanted: &String| parts().any(|part| part.eq_ignore_ascii_case(wanted));
        self.with.iter().all(has) && !self.without.iter().any(has)
    }
}

fn strangers<'a>(names: &'a [String], cores: &[&str]) -> Vec<&'a str> {
    let known = |part: &str| is_layer(part) || cores.contains(&part);
    names.iter().map(String::as_str).filter(|name| !name.split(';').all(known)).collect()
}

/// Names of layers over other providers; they are no providers of their own here.
fn is_layer(name: &str) -> bool {
    name.starts_with("ofi_") || name == "lnx"
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERS: [&str; 4] = ["tcp;ofi_rxm", "shm", "tcp", "verbs;ofi_rxm"];

    #[test]
    fn the_variable() {
        for (text, shown) in [
            ("tcp", vec!["tcp;ofi_rxm", "tcp"]),
            ("TCP, shm", vec!["tcp;ofi_rxm", "shm", "tcp"]),
            ("tcp;ofi_rxm", vec!["tcp;ofi_rxm"]),
            ("ofi_rxm", vec![]),
            ("tc", vec![]),
            ("", vec![]),
            (",", vec![]),
            ("^tcp", vec!["shm", "verbs;ofi_rxm"]),
            ("^ofi_rxm", vec!["shm", "tcp"]),
            ("^tcp;ofi_rxm", vec!["shm", "tcp", "verbs;ofi_rxm"]),
            ("^tcp,verbs", vec!["shm"]),
            ("^", OFFERS.to_vec()),
        ] {
            let filter = ProviderFilter::parse(text);
            let got: Vec<_> = OFFERS.into_iter().filter(|name| filter.shows(name)).collect();
            assert_eq!(got, shown, "FI_PROVIDER={text:?}");
            for name in got {
                assert!(filter.may_offer(name.split(';').next().unwrap()), "{text:?} {name}");
            }
        }
        assert!(!ProviderFilter::parse("shm").may_offer("tcp"));
        assert!(!ProviderFilter::parse("^tcp").may_offer("tcp"));
        assert!(ProviderFilter::parse("^tcp;ofi_rxm").may_offer("tcp"));
    }

    #[test]
    fn the_hint() {
        for (text, taken) in [
            ("tcp", vec!["tcp;ofi_rxm", "tcp"]),
            ("Tcp;^ofi_rxm", vec!["tcp"]),
            ("ofi_rxm", vec!["tcp;ofi_rxm", "verbs;ofi_rxm"]),
            ("ofi_rxm;tcp", vec!["tcp;ofi_rxm"]),
            ("tcp;ofi_rxd", vec![]),
            ("^shm", vec!["tcp;ofi_rxm", "tcp", "verbs;ofi_rxm"]),
            ("", OFFERS.to_vec()),
            ("sh", vec![]),
        ] {
            let wish = NameWish::parse(text);
            let got: Vec<_> = OFFERS.into_iter().filter(|name| wish.takes(name)).collect();
            for name in &got {
                assert!(wish.may_take(name.split(';').next().unwrap()), "{text:?} {name}");
            }
            assert_eq!(got, taken, "prov_name={text:?}");
        }
    }
}
