//! SETUP. What `FI_LOG_*` ask for.

use super::{Level, Subsys};
use crate::param::{known, lookup};

/// The settings of the log, read once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `FI_LOG_LEVEL`; `None` leaves errors only.
    pub level: Option<Level>,
    /// `FI_LOG_PROV`.
    pub providers: NameList,
    /// `FI_LOG_SUBSYS`.
    pub subsystems: NameList,
    /// `FI_LOG_LOCATION`.
    pub location: Option<String>,
    /// `FI_LOG_LOCATION_MODE`: permission bits of a log file.
    pub location_mode: u32,
    /// `FI_LOG_INTERVAL`.
    pub interval_ms: u64,
}

impl Config {
    /// Reads the environment and `libfabric.conf`.
    pub fn from_env() -> Self {
        Self {
            level: lookup("FI_LOG_LEVEL").map(|setting| parse_level(&setting.value)),
            providers: NameList::parse(known::LOG_PROV.text().as_deref()),
            subsystems: NameList::parse(known::LOG_SUBSYS.text().as_deref()),
            location: known::LOG_LOCATION.text(),
            location_mode: u32::try_from(known::LOG_LOCATION_MODE.size()).unwrap_or(0o600),
            interval_ms: known::LOG_INTERVAL.size() as u64,
        }
    }

    /// Whether `FI_LOG_PROV` lets a provider speak.
    pub fn allows_provider(&self, provider: &str) -> bool {
        self.providers.allows(provider)
    }

    /// Whether a message is wanted; `filtered` if its provider may not speak.
    ///
    /// Faults pass every filter: a filter narrows what was asked for, and nobody asked for them.
    pub fn allows(&self, level: Level, filtered: bool, subsys: Subsys) -> bool {
        level == Level::Error
            || (self.level.is_some_and(|most| level <= most)
                && !filtered
                && self.subsystems.allows(subsys.name()))
    }
}

fn level_named(text: &str) -> Option<Level> {
    [Level::Error, Level::Warn, Level::Trace, Level::Info, Level::Debug]
        .into_iter()
        .find(|level| level.name().eq_ignore_ascii_case(text.trim()))
}

/// Text that names no level is taken as a wish to see something: `warn`.
fn parse_level(text: &str) -> Level {
    level_named(text).unwrap_or(Level::Warn)
}

/// A comma list of names; a leading `^` turns it into the names that are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NameList {
    names: Option<Vec<String>>,
    negated: bool,
}

impl NameList {
    /// `None` and empty text let everything through.
    pub fn parse(text: Option<&str>) -> Self {
        let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else {
            return Self::default();
        };
        let (negated, list) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let names = list.split(',').map(|name| name.trim().to_ascii_lowercase());
        Self { names: Some(names.filter(|name| !name.is_empty()).collect()), negated }
    }

    /// Whether the list lets `name` through.
    pub fn allows(&self, name: &str) -> bool {
        match &self.names {
            None => true,
            Some(names) => names.iter().any(|n| n.eq_ignore_ascii_case(name)) != self.negated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_lists_and_filters() {
        assert_eq!(parse_level("INFO"), Level::Info);
        assert_eq!(parse_level(""), Level::Warn);
        assert_eq!(parse_level("verbose"), Level::Warn);
        let list = NameList::parse(Some("tcp, shm"));
        assert!(list.allows("SHM") && !list.allows("core"));
        let list = NameList::parse(Some("^tcp"));
        assert!(list.allows("shm") && !list.allows("tcp"));
        assert!(NameList::parse(Some("")).allows("x"));

        let config = Config {
            level: Some(Level::Info),
            subsystems: NameList::parse(Some("cq")),
            ..Config::default()
        };
        assert!(config.allows(Level::Info, false, Subsys::Cq));
        assert!(!config.allows(Level::Info, false, Subsys::Av));
        assert!(!config.allows(Level::Info, true, Subsys::Cq));
        assert!(!config.allows(Level::Debug, false, Subsys::Cq));
        assert!(config.allows(Level::Error, true, Subsys::Av));
        assert!(!Config::default().allows(Level::Warn, false, Subsys::Core));
    }
}
