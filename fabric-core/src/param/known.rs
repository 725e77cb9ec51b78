//! SETUP. The variables that this library honours, with type, default and meaning.

use super::{Kind, Setting, Where, lookup, parse};

/// One variable of ours.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// "core", or the provider that reads it.
    pub provider: &'static str,
    /// The full name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The default as text; `None` means that nothing is set.
    pub default: Option<&'static str>,
    /// What it does.
    pub help: &'static str,
}

impl Known {
    /// The value in force and where it comes from. `None`: not set, and no default.
    pub fn setting(&self) -> Option<Setting> {
        lookup(self.name).or_else(|| {
            let value = self.default?.to_owned();
            Some(Setting { value, origin: Where::Default })
        })
    }

    /// The value as text; never complains.
    pub fn text(&self) -> Option<String> {
        self.setting().map(|s| s.value)
    }

    /// The value as a truth value; junk is named in a warning and the default holds.
    pub fn truth(&self) -> bool {
        self.strict(parse::truth).unwrap_or(false)
    }

    /// The value as a size; junk is named in a warning and the default holds.
    pub fn size(&self) -> usize {
        self.strict(parse::strict).unwrap_or(0)
    }

    /// The value as a number; junk is named in a warning and the default holds.
    pub fn int(&self) -> i32 {
        self.strict(parse::strict).unwrap_or(0)
    }

    /// The value as a number by the rules of C, where junk is zero. Never complains: the log
    /// reads its own settings with it.
    pub fn lenient_int(&self) -> i32 {
        self.text().map_or(0, |text| parse::c_int(&text))
    }

    /// Whether a text would be taken as it is.
    pub fn accepts(&self, text: &str) -> bool {
        match self.kind {
            Kind::Text => true,
            Kind::Int => parse::strict::<i32>(text).is_some(),
            Kind::Size => parse::strict::<usize>(text).is_some(),
            Kind::Bool => parse::truth(text).is_some(),
        }
    }

    fn strict<T>(&self, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let default = || self.default.and_then(&parse);
        let Some(setting) = lookup(self.name) else { return default() };
        parse(&setting.value).or_else(|| {
            crate::warn!(
                self.provider,
                crate::log::Subsys::Core,
                "{}={:?} ({}) is not {}; using {}",
                self.name,
                setting.value,
                setting.origin,
                self.kind.accepts(),
                self.default.unwrap_or("nothing")
            );
            default()
        })
    }
}

macro_rules! known {
    ($($ident:ident = $provider:literal $name:literal $kind:ident $default:expr, $help:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "` of ", $provider, "; [`Known::help`] says what it does.")]
            pub static $ident: Known = Known {
                provider: $provider,
                name: $name,
                kind: Kind::$kind,
                default: $default,
                help: $help,
            };
        )*
        /// All of them, in the order of the listing.
        pub static KNOWN: &[&Known] = &[$(&$ident),*];
    };
}

known! {
    PREFER_SYSCONFIG = "core" "FI_PREFER_SYSCONFIG" Bool Some("0"),
        "let libfabric.conf win over the environment where both set a variable";
    PROVIDER = "core" "FI_PROVIDER" Text None,
        "comma list of the providers to offer, or of those to hide behind a leading ^";
    LOG_LEVEL = "core" "FI_LOG_LEVEL" Text None,
        "how much to log: warn, trace, info or debug; errors only when unset";
    LOG_PROV = "core" "FI_LOG_PROV" Text None,
        "comma list of the providers that may log, or of those that may not behind a leading ^";
    LOG_SUBSYS = "core" "FI_LOG_SUBSYS" Text None,
        "comma list of core fabric domain ep_ctrl ep_data av cq eq mr cntr, ^ leaves them out";
    LOG_LOCATION = "core" "FI_LOG_LOCATION" Text Some("stderr"),
        "where to log: stderr, stdout, a new file, or a directory for ofi_<pid>.log";
    LOG_LOCATION_MODE = "core" "FI_LOG_LOCATION_MODE" Int Some("0600"),
        "permission bits of the log file";
    LOG_INTERVAL = "core" "FI_LOG_INTERVAL" Int Some("2000"),
        "milliseconds in which a rate-limited message may repeat";
    SHM_TX_SIZE = "shm" "FI_SHM_TX_SIZE" Size Some("1024"),
        "transmit operations that may be outstanding";
    SHM_RX_SIZE = "shm" "FI_SHM_RX_SIZE" Size Some("1024"),
        "receives that may be posted";
    SHM_DISABLE_CMA = "shm" "FI_SHM_DISABLE_CMA" Bool Some("0"),
        "do not copy between processes through the kernel (process_vm_readv)";
}

/// Variables that other releases and providers read. They are no typing mistakes, so nothing is
/// said about them, and they change nothing here.
pub(super) static ELSEWHERE: &[&str] = &[
    "FI_AV_REMOVE_CLEANUP",
    "FI_DISENABLE_PROF",
    "FI_FORK_UNSAFE",
    "FI_HMEM",
    "FI_HMEM_DISABLE_P2P",
    "FI_HOOK",
    "FI_MR_CACHE_MAX_COUNT",
    "FI_MR_CACHE_MAX_SIZE",
    "FI_MR_CACHE_MONITOR",
    "FI_OFFLOAD_COLL_PROVIDER",
    "FI_PERF_CNTR",
    "FI_PROF_DATA_SIZE",
    "FI_PROVIDER_PATH",
    "FI_SHM_BUFFER_THRESHOLD",
    "FI_SHM_MAX_GDRCOPY_SIZE",
    "FI_SHM_USE_DSA_SAR",
    "FI_SHM_USE_XPMEM",
    "FI_UNIVERSE_SIZE",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        let names: std::collections::HashSet<_> = KNOWN.iter().map(|k| k.name).collect();
        assert_eq!(names.len(), KNOWN.len(), "a name twice");
        for known in KNOWN {
            assert!(known.name.starts_with("FI_"));
            assert!(known.default.is_none_or(|text| known.accepts(text)), "{}", known.name);
            assert!(!ELSEWHERE.contains(&known.name));
        }
        assert_eq!(LOG_INTERVAL.lenient_int(), 2000);
        assert_eq!(SHM_TX_SIZE.size(), 1024);
        assert!(!SHM_DISABLE_CMA.truth());
    }
}
