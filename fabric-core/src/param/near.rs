//! SETUP. Typing mistakes: `FI_*` variables that nobody reads and that nearly are one of ours.

use std::{fmt, sync::Once};

use super::{
    Where, conf, defined,
    known::{ELSEWHERE, refused},
    ports::TcpPorts,
};
use crate::log;

/// Mistakes of up to this many letters are recognised.
const DISTANCE: usize = 2;

/// A variable that is set and that nobody reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// As it is set.
    pub name: String,
    /// Where it is set.
    pub origin: Where,
    /// What was probably meant; `None`: it resembles nothing, and may be for somebody else.
    pub meant: Option<String>,
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is set ({}), but no such variable is read", self.name, self.origin)?;
        match &self.meant {
            Some(meant) => write!(f, "; did you mean {meant}?"),
            None => Ok(()),
        }
    }
}

/// Looks at the whole environment, and at the file.
pub fn suspects() -> Vec<Suspect> {
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let known: Vec<String> = defined().iter().map(|d| d.name.clone()).collect();
    let mut found = among(set, Where::Environment, &known);
    found.extend(among(conf::names().map(str::to_owned), Where::File, &known));
    found
}

/// Warns of each misspelt variable and of each value that is refused, once per process. What
/// resembles nothing may be for somebody else, and is told to those who want to know everything.
pub fn warn_of_mistakes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for fault in conf::faults() {
            log::of_settings(format_args!("{}: {fault}", Where::File));
        }
        for refused in refused() {
            log::of_settings(format_args!("{refused}"));
        }
        if let Some(fault) = TcpPorts::in_force().fault {
            log::of_settings(format_args!("{fault}"));
        }
        let (misspelt, others): (Vec<Suspect>, Vec<Suspect>) =
            suspects().into_iter().partition(|suspect| suspect.meant.is_some());
        for suspect in misspelt {
            log::of_settings(format_args!("{suspect}"));
        }
        let names: Vec<&str> = others.iter().map(|suspect| suspect.name.as_str()).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            crate::info!("core", log::Subsys::Core, "set, and read by nobody here: {names}");
        }
    });
}

/// The nearest of the words, if it is near enough to be meant.
pub fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (far, near) = words.map(|w| (distance(word, w), w)).min()?;
    (far <= DISTANCE && far < word.len()).then_some(near)
}

fn among(names: impl Iterator<Item = String>, origin: Where, known: &[String]) -> Vec<Suspect> {
    names
        .filter(|name| name.starts_with("FI_"))
        .filter(|name| !known.contains(name) && !ELSEWHERE.contains(&name.as_str()))
        .map(|name| {
            let meant = nearest(&name, known.iter().map(String::as_str)).map(str::to_owned);
            Suspect { name, origin, meant }
        })
        .collect()
}

/// Letters to insert, remove or replace to get from one text to the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > DISTANCE {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_typing_mistakes_and_nothing_else() {
        let known: Vec<String> = super::super::KNOWN.iter().map(|k| k.name.to_owned()).collect();
        let set = [
            "FI_PROVIDERS",
            "FI_LOG_LEVELL",
            "FI_SHM_TXSIZE",
            "FI_PROVIDER",
            "FI_PROVIDER_PATH",
            "FI_HMEM",
            "FI_MLX_TLS",
            "FI_TCP_INTERFACES",
            "FI_OFI_RXM_TX_SIZE",
            "FI_TCP_IFACE",
            "PATH",
        ];
        let found = among(set.iter().map(ToString::to_string), Where::Environment, &known);
        let found: Vec<_> = found.iter().map(|s| (s.name.as_str(), s.meant.as_deref())).collect();
        assert_eq!(
            found,
            [
                ("FI_PROVIDERS", Some("FI_PROVIDER")),
                ("FI_LOG_LEVELL", Some("FI_LOG_LEVEL")),
                ("FI_SHM_TXSIZE", Some("FI_SHM_TX_SIZE")),
                ("FI_MLX_TLS", None),
                ("FI_TCP_INTERFACES", None),
            ]
        );
        let suspect = Suspect { name: "FI_X".into(), origin: Where::Environment, meant: None };
        assert_eq!(suspect.to_string(), "FI_X is set (environment), but no such variable is read");
        assert_eq!(distance("kitten", "sitten"), 1);
        assert_eq!(distance("", "ab"), 2);
    }
}
