//! SETUP. The variables that this library honours, with type, default and meaning.

use std::fmt;

use super::{InterfaceFilter, Kind, Setting, Where, lookup, parse};

/// What a variable may say, beyond its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Any text.
    Any,
    /// One of these words, in any case.
    Word(&'static [&'static str]),
    /// A comma list of these words, in any case; a leading `^` turns it around.
    Words(&'static [&'static str]),
    /// 0/1, true/false, yes/no, on/off.
    Truth,
    /// A whole number within these bounds.
    Number(i64, i64),
    /// Permission bits.
    Permissions,
    /// Network interfaces, as [`InterfaceFilter`] reads them.
    Interfaces,
}

impl Rule {
    /// Whether a text is taken as it is.
    fn accepts(self, text: &str) -> bool {
        let one_of = |words: &[&str], text: &str| {
            words.iter().any(|word| word.eq_ignore_ascii_case(text.trim()))
        };
        match self {
            Self::Any => true,
            Self::Word(words) => one_of(words, text),
            Self::Words(words) => {
                let list = text.trim();
                let mut parts = list.strip_prefix('^').unwrap_or(list).split(',');
                parts.all(|part| part.trim().is_empty() || one_of(words, part))
            }
            Self::Truth => parse::truth(text).is_some(),
            Self::Number(least, most) => {
                parse::strict::<i64>(text).is_some_and(|n| (least..=most).contains(&n))
            }
            Self::Permissions => {
                parse::strict::<i64>(text).is_some_and(|n| (0..=0o777).contains(&n))
            }
            Self::Interfaces => InterfaceFilter::parse(text).is_some(),
        }
    }
}

/// What would be accepted.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("text"),
            Self::Word(words) => write!(f, "one of {}", words.join(", ")),
            Self::Words(words) => write!(f, "a comma list of {}", words.join(", ")),
            Self::Truth => f.write_str(Kind::Bool.accepts()),
            Self::Number(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Permissions => f.write_str("permission bits from 0 to 0777"),
            Self::Interfaces => {
                f.write_str("a comma list of interfaces, patterns, addresses and subnets")
            }
        }
    }
}

/// One variable of ours.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// "core", or the provider that reads it.
    pub provider: &'static str,
    /// The full name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// What it may say.
    pub rule: Rule,
    /// The default as text; `None` means that nothing is set.
    pub default: Option<&'static str>,
    /// What it does.
    pub help: &'static str,
}

/// A variable with a value that is not taken.
#[derive(Debug)]
pub struct Refused {
    /// The variable.
    pub known: &'static Known,
    /// What it says, and where.
    pub setting: Setting,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { value, origin } = &self.setting;
        let Known { name, rule, .. } = self.known;
        let used = self.known.fallback().unwrap_or("nothing");
        write!(f, "{name}={value:?} ({origin}) is not {rule}; using {used}")
    }
}

/// Every variable whose value is refused.
pub fn refused() -> Vec<Refused> {
    let refused = |known: &&'static Known| {
        let setting = lookup(known.name).filter(|setting| !known.accepts(&setting.value))?;
        Some(Refused { known, setting })
    };
    KNOWN.iter().filter_map(refused).collect()
}

impl Known {
    /// The value in force and where it comes from; a refused value gives way to the default.
    /// `None`: there is neither.
    pub fn setting(&self) -> Option<Setting> {
        let set = lookup(self.name);
        let value = match &set {
            Some(setting) if self.accepts(&setting.value) => return set,
            Some(_) => self.fallback(),
            None => self.default,
        };
        Some(Setting { value: value?.to_owned(), origin: Where::Default })
    }

    /// What holds instead of a value that is refused: the default, but whoever sets a level wants to
    /// see something.
    fn fallback(&self) -> Option<&'static str> {
        if std::ptr::eq(self, &raw const LOG_LEVEL) { Some("warn") } else { self.default }
    }

    /// The value as text.
    pub fn text(&self) -> Option<String> {
        self.setting().map(|s| s.value)
    }

    /// The value as a truth value.
    pub fn truth(&self) -> bool {
        self.parsed(parse::truth).unwrap_or(false)
    }

    /// Whether somebody has set it, to what it may say.
    pub fn is_set(&self) -> bool {
        self.setting().is_some_and(|setting| setting.origin != Where::Default)
    }

    /// The value as a size.
    pub fn size(&self) -> usize {
        self.parsed(parse::strict).unwrap_or(0)
    }

    /// Whether a text would be taken as it is.
    pub fn accepts(&self, text: &str) -> bool {
        self.rule.accepts(text)
    }

    fn parsed<T>(&self, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        parse(&self.setting()?.value)
    }
}

macro_rules! known {
    ($($ident:ident = $provider:literal $name:literal $kind:ident $rule:expr, $default:expr,
        $help:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "` of ", $provider, "; [`Known::help`] says what it does.")]
            pub static $ident: Known = Known {
                provider: $provider,
                name: $name,
                kind: Kind::$kind,
                rule: $rule,
                default: $default,
                help: $help,
            };
        )*
        /// All of them, in the order of the listing.
        pub static KNOWN: &[&Known] = &[$(&$ident),*];
    };
}

const LEVELS: &[&str] = &["error", "warn", "trace", "info", "debug"];
const SUBSYSTEMS: &[&str] =
    &["core", "fabric", "domain", "ep_ctrl", "ep_data", "av", "cq", "eq", "mr", "cntr"];
/// More than this many operations of an endpoint is a mistake, not a wish.
const MOST_OPERATIONS: i64 = 1 << 20;
const PORT: Rule = Rule::Number(0, u16::MAX as i64);
const TCP_OPERATIONS: i64 = 1 << 16;
const TCP_INJECT: i64 = 64 << 10;
const TCP_BUFFER: i64 = 16 << 20;
const VERBS_OPERATIONS: i64 = 1 << 16;
const VERBS_INLINE: i64 = 4096;
const RXM_PACKET: i64 = 16 << 20;
const RXM_SEGMENTED: i64 = 1 << 30;
const RXM_TX: i64 = 16384;
const RXM_RX: i64 = 65536;
const MR_CACHE_COUNT: i64 = 1 << 20;
const TCP_SECONDS: i64 = 24 * 60 * 60;

known! {
    PREFER_SYSCONFIG = "core" "FI_PREFER_SYSCONFIG" Bool Rule::Truth, Some("0"),
        "let libfabric.conf win over the environment where both set a variable";
    PROVIDER = "core" "FI_PROVIDER" Text Rule::Any, None,
        "comma list of the providers to offer, or of those to hide behind a leading ^";
    LOG_LEVEL = "core" "FI_LOG_LEVEL" Text Rule::Word(LEVELS), None,
        "how much to log: error (the default), warn, trace, info or debug";
    LOG_PROV = "core" "FI_LOG_PROV" Text Rule::Any, None,
        "comma list of the providers that may log, or of those that may not behind a leading ^";
    LOG_SUBSYS = "core" "FI_LOG_SUBSYS" Text Rule::Words(SUBSYSTEMS), None,
        "comma list of core fabric domain ep_ctrl ep_data av cq eq mr cntr, ^ leaves them out";
    LOG_LOCATION = "core" "FI_LOG_LOCATION" Text Rule::Any, Some("stderr"),
        "where to log: stderr, stdout, a new file, or a directory for ofi_<pid>.log";
    LOG_LOCATION_MODE = "core" "FI_LOG_LOCATION_MODE" Int Rule::Permissions, Some("0600"),
        "permission bits of the log file";
    LOG_INTERVAL = "core" "FI_LOG_INTERVAL" Int Rule::Number(0, i32::MAX as i64), Some("2000"),
        "milliseconds in which a rate-limited message may repeat";
    SHM_TX_SIZE = "shm" "FI_SHM_TX_SIZE" Size Rule::Number(1, MOST_OPERATIONS), Some("1024"),
        "transmit operations that may be outstanding";
    SHM_RX_SIZE = "shm" "FI_SHM_RX_SIZE" Size Rule::Number(1, MOST_OPERATIONS), Some("1024"),
        "receives that may be posted, as discovery announces it";
    SHM_DISABLE_CMA = "shm" "FI_SHM_DISABLE_CMA" Bool Rule::Truth, Some("0"),
        "do not copy between processes through the kernel (process_vm_readv)";
    TCP_IFACE = "tcp" "FI_TCP_IFACE" Text Rule::Interfaces, None,
        "interfaces to use: comma list of names, patterns and subnets; a leading ^ leaves them out";
    TCP_PORT_LOW = "tcp" "FI_TCP_PORT_LOW_RANGE" Int PORT, Some("0"),
        "first port to listen on where the program names none";
    TCP_PORT_HIGH = "tcp" "FI_TCP_PORT_HIGH_RANGE" Int PORT, Some("0"),
        "last port to listen on where the program names none; 0 leaves it to the kernel";
    TCP_TX_SIZE = "tcp" "FI_TCP_TX_SIZE" Size Rule::Number(1, TCP_OPERATIONS), Some("256"),
        "transmit operations that may be outstanding; hints may ask for more";
    TCP_RX_SIZE = "tcp" "FI_TCP_RX_SIZE" Size Rule::Number(1, TCP_OPERATIONS), Some("256"),
        "receives that may be posted; hints may ask for more";
    TCP_MAX_INJECT = "tcp" "FI_TCP_MAX_INJECT" Size Rule::Number(0, TCP_INJECT), Some("128"),
        "largest payload of an inject call, in bytes";
    TCP_NODELAY = "tcp" "FI_TCP_NODELAY" Bool Rule::Truth, Some("1"),
        "send small segments at once (TCP_NODELAY)";
    TCP_COALESCE = "tcp" "FI_TCP_COALESCE" Bool Rule::Truth, Some("1"),
        "the kernel may gather small messages that a program posts in a row";
    TCP_STAGING = "tcp" "FI_TCP_STAGING_SBUF_SIZE" Int Rule::Number(0, TCP_BUFFER), Some("16384"),
        "bytes that small messages are gathered in before they are sent; 0 is FI_TCP_COALESCE=0";
    TCP_PREFETCH = "tcp" "FI_TCP_PREFETCH_RBUF_SIZE" Int Rule::Number(0, TCP_BUFFER), Some("16384"),
        "bytes read ahead from a connection";
    TCP_CONNECT_TIMEOUT = "tcp" "FI_TCP_CONNECT_TIMEOUT" Int Rule::Number(1, TCP_SECONDS), Some("10"),
        "seconds that a connection may take to come up";
    TCP_PEER_TIMEOUT = "tcp" "FI_TCP_PEER_TIMEOUT" Int Rule::Number(0, TCP_SECONDS), Some("30"),
        "seconds without a sign of life of a peer's host after which the peer is dead; 0: never";
    TCP_EXTENSIONS = "tcp" "FI_TCP_EXTENSIONS" Bool Rule::Truth, Some("0"),
        "offer what only this library can do to programs that do not ask for it, too";
    VERBS_IFACE = "verbs" "FI_VERBS_IFACE" Text Rule::Interfaces, None,
        "interfaces to use: comma list of names, patterns and subnets; a leading ^ leaves them out";
    VERBS_DEVICE_NAME = "verbs" "FI_VERBS_DEVICE_NAME" Text Rule::Any, None,
        "comma list of the devices to use, or of what their names begin with; a leading ^ leaves them out";
    VERBS_GID_IDX = "verbs" "FI_VERBS_GID_IDX" Int Rule::Number(0, 255), Some("0"),
        "entry of the device's table of global identifiers that fabrics and datagram endpoints are named after";
    VERBS_PKEY = "verbs" "FI_VERBS_PKEY" Int Rule::Number(1, u16::MAX as i64), None,
        "partition to use, by its key: devices and interfaces that are not in it are left out";
    VERBS_TX_SIZE = "verbs" "FI_VERBS_TX_SIZE" Size Rule::Number(1, VERBS_OPERATIONS), Some("384"),
        "transmit operations that may be outstanding; hints may ask for more";
    VERBS_RX_SIZE = "verbs" "FI_VERBS_RX_SIZE" Size Rule::Number(1, VERBS_OPERATIONS), Some("384"),
        "receives that may be posted; hints may ask for more";
    VERBS_INLINE_SIZE = "verbs" "FI_VERBS_INLINE_SIZE" Size Rule::Number(0, VERBS_INLINE), Some("256"),
        "largest payload of an inject call, in bytes, where the device carries as much; 0: as much as it does";
    VERBS_MIN_RNR_TIMER = "verbs" "FI_VERBS_MIN_RNR_TIMER" Int Rule::Number(0, 31), Some("12"),
        "how long peers wait that have found no receive, as the code of that time";
    VERBS_CONNECT_TIMEOUT = "verbs" "FI_VERBS_CONNECT_TIMEOUT" Int Rule::Number(1, TCP_SECONDS), Some("30"),
        "seconds that a connection may take to come up";
    VERBS_USE_ODP = "verbs" "FI_VERBS_USE_ODP" Bool Rule::Truth, Some("0"),
        "register memory without pinning it, where the device can have its pages fetched on demand";
    MR_CACHE_MONITOR = "verbs" "FI_MR_CACHE_MONITOR" Text Rule::Any, None,
        "disabled: registrations of local memory end with their operation; anything else: they are kept where the kernel tells of memory that goes (userfaultfd)";
    MR_CACHE_MAX_COUNT = "verbs" "FI_MR_CACHE_MAX_COUNT" Size Rule::Number(0, MR_CACHE_COUNT), Some("1024"),
        "registrations that an endpoint keeps; 0: none";
    MR_CACHE_MAX_SIZE = "verbs" "FI_MR_CACHE_MAX_SIZE" Size Rule::Number(0, i64::MAX), Some("1073741824"),
        "bytes of registrations that an endpoint keeps; 0: none";
    RXM_BUFFER_SIZE = "ofi_rxm" "FI_OFI_RXM_BUFFER_SIZE" Size Rule::Number(256, RXM_PACKET), Some("16384"),
        "largest message of one packet; the same for all endpoints that talk to each other";
    RXM_SAR_LIMIT = "ofi_rxm" "FI_OFI_RXM_SAR_LIMIT" Size Rule::Number(0, RXM_SEGMENTED), Some("131072"),
        "largest message that is sent in packets; larger ones are read by their receivers";
    RXM_TX_SIZE = "ofi_rxm" "FI_OFI_RXM_TX_SIZE" Size Rule::Number(1, RXM_TX), Some("2048"),
        "transmit operations that may be outstanding; hints may ask for more";
    RXM_RX_SIZE = "ofi_rxm" "FI_OFI_RXM_RX_SIZE" Size Rule::Number(1, RXM_RX), Some("2048"),
        "receives that may be posted; hints may ask for more";
    RXM_USE_RNDV_WRITE = "ofi_rxm" "FI_OFI_RXM_USE_RNDV_WRITE" Bool Rule::Truth, Some("0"),
        "have senders write large messages, where receivers would read them; the same on all sides";
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
    "FI_OFFLOAD_COLL_PROVIDER",
    "FI_OFI_RXM_CM_PROGRESS_INTERVAL",
    "FI_OFI_RXM_COMP_PER_PROGRESS",
    "FI_OFI_RXM_CQ_EQ_FAIRNESS",
    "FI_OFI_RXM_DATA_AUTO_PROGRESS",
    "FI_OFI_RXM_DEF_TCP_WAIT_OBJ",
    "FI_OFI_RXM_DEF_WAIT_OBJ",
    "FI_OFI_RXM_DETECT_HMEM_IFACE",
    "FI_OFI_RXM_ENABLE_DIRECT_SEND",
    "FI_OFI_RXM_ENABLE_PASSTHRU",
    "FI_OFI_RXM_MSG_RX_SIZE",
    "FI_OFI_RXM_MSG_TX_SIZE",
    "FI_OFI_RXM_RESCAN",
    "FI_OFI_RXM_USE_SRX",
    "FI_PERF_CNTR",
    "FI_PROF_DATA_SIZE",
    "FI_PROVIDER_PATH",
    "FI_SHM_BUFFER_THRESHOLD",
    "FI_SHM_MAX_GDRCOPY_SIZE",
    "FI_SHM_USE_DSA_SAR",
    "FI_SHM_USE_XPMEM",
    "FI_TCP_DISABLE_AUTO_PROGRESS",
    "FI_TCP_FIREWALL_ADDR",
    "FI_TCP_IO_URING",
    "FI_TCP_MAX_RX_SIZE",
    "FI_TCP_MAX_SAVED",
    "FI_TCP_MAX_SAVED_SIZE",
    "FI_TCP_PROV_NAME",
    "FI_TCP_TRACE_MSG",
    "FI_TCP_ZEROCOPY_SIZE",
    "FI_UNIVERSE_SIZE",
    "FI_VERBS_AFFINITY_DEVICE",
    "FI_VERBS_CQREAD_BUNCH_SIZE",
    "FI_VERBS_DGRAM_NAME_SERVER_PORT",
    "FI_VERBS_DGRAM_USE_NAME_SERVER",
    "FI_VERBS_NIC_AFFINITY_CONFIG",
    "FI_VERBS_NIC_AFFINITY_POLICY",
    "FI_VERBS_PREFER_XRC",
    "FI_VERBS_RX_IOV_LIMIT",
    "FI_VERBS_TX_IOV_LIMIT",
    "FI_VERBS_USE_DMABUF",
    "FI_VERBS_XRCD_FILENAME",
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
        assert_eq!(LOG_INTERVAL.size(), 2000);
        assert_eq!(SHM_TX_SIZE.size(), 1024);
        assert!(!SHM_DISABLE_CMA.truth());
    }

    #[test]
    fn rules() {
        for (known, good, bad) in [
            (&SHM_TX_SIZE, &["1", "0x10", "1048576"][..], &["0", "-1", "2k", "1048577", ""][..]),
            (&LOG_LEVEL, &["warn", " Debug", "error"], &["loud", "", "3"]),
            (&LOG_SUBSYS, &["cq,EQ", "^mr", "", "ep_data,"], &["bogus", "cq,bogus", "^bogus"]),
            (&LOG_LOCATION_MODE, &["0600", "0", "0777"], &["999", "01000", "rw", "-1"]),
            (&LOG_INTERVAL, &["0", "2147483647"], &["x", "2147483648", "99999999999999999999999"]),
            (&PREFER_SYSCONFIG, &["on", "No"], &["perhaps"]),
            (&PROVIDER, &["", "anything"], &[]),
            (&TCP_IFACE, &["", "eth*,10.0.0.0/8", "^lo"], &["10.0.0.0/33", "eth 0", "eth0,/"]),
            (&TCP_PORT_HIGH, &["0", "65535"], &["65536", "-1", "http"]),
        ] {
            for text in good {
                assert!(known.accepts(text), "{}={text:?}", known.name);
            }
            for text in bad {
                assert!(!known.accepts(text), "{}={text:?}", known.name);
            }
        }
        let setting = Setting { value: "0".into(), origin: Where::Environment };
        assert_eq!(
            Refused { known: &SHM_TX_SIZE, setting }.to_string(),
            "FI_SHM_TX_SIZE=\"0\" (environment) is not a whole number from 1 to 1048576; using 1024"
        );
        let setting = Setting { value: "loud".into(), origin: Where::File };
        let refused = Refused { known: &LOG_LEVEL, setting }.to_string();
        assert!(refused.ends_with("; using warn"), "{refused}");
    }
}
