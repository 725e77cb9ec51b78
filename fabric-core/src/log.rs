//! SETUP. Logging: one line a fault, silent unless asked, never on standard output by itself.
//!
//! Levels run `error < warn < trace < info < debug` and include those before them. `error` is on
//! by default and rate-limited per call site; the others appear with `FI_LOG_LEVEL`, narrowed by
//! `FI_LOG_PROV` and `FI_LOG_SUBSYS`, and go where `FI_LOG_LOCATION` says.
//!
//! A disabled message costs one relaxed load. The atomics here are independent settings and
//! tallies, not a lock-free protocol: nothing is published through them, so they are the plain
//! ones of the standard library.

mod config;
mod sink;
mod site;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
};

pub use config::{Config, NameList};
pub use sink::{Record, Sink, Writer};
pub use site::{Held, Site};

use crate::{Errno, Result, fork::ForkSafe};

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// A fault: an operation or an object is lost. On by default.
    Error = 0,
    /// Something that was asked for is not done (`FI_LOG_WARN`).
    Warn = 1,
    /// A step of a protocol (`FI_LOG_TRACE`).
    Trace = 2,
    /// What was chosen (`FI_LOG_INFO`).
    Info = 3,
    /// Everything (`FI_LOG_DEBUG`).
    Debug = 4,
}

impl Level {
    /// Parses `enum fi_log_level`.
    pub const fn from_c(raw: i32) -> Option<Self> {
        match raw {
            0 => Some(Self::Warn),
            1 => Some(Self::Trace),
            2 => Some(Self::Info),
            3 => Some(Self::Debug),
            _ => None,
        }
    }

    /// The value of `enum fi_log_level`; an error is a warning there.
    pub const fn to_c(self) -> i32 {
        match self {
            Self::Error | Self::Warn => 0,
            Self::Trace => 1,
            Self::Info => 2,
            Self::Debug => 3,
        }
    }

    /// The name as it stands in a line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Trace => "trace",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// The part of the library that speaks: `enum fi_log_subsys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Subsys {
    Core = 0,
    Fabric = 1,
    Domain = 2,
    EpCtrl = 3,
    EpData = 4,
    Av = 5,
    Cq = 6,
    Eq = 7,
    Mr = 8,
    Cntr = 9,
}

impl Subsys {
    /// All of them, in the order of the C enum.
    pub const ALL: [Self; 10] = [
        Self::Core,
        Self::Fabric,
        Self::Domain,
        Self::EpCtrl,
        Self::EpData,
        Self::Av,
        Self::Cq,
        Self::Eq,
        Self::Mr,
        Self::Cntr,
    ];

    /// Parses `enum fi_log_subsys`.
    pub fn from_c(raw: i32) -> Option<Self> {
        usize::try_from(raw).ok().and_then(|i| Self::ALL.get(i)).copied()
    }

    /// The name as `FI_LOG_SUBSYS` and the lines spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Fabric => "fabric",
            Self::Domain => "domain",
            Self::EpCtrl => "ep_ctrl",
            Self::EpData => "ep_data",
            Self::Av => "av",
            Self::Cq => "cq",
            Self::Eq => "eq",
            Self::Mr => "mr",
            Self::Cntr => "cntr",
        }
    }
}

/// Not configured yet: the first message reads the environment.
const UNSET: u8 = u8::MAX;
/// The most talkative level that anything listens to; a level above it is dropped unseen.
static THRESHOLD: AtomicU8 = AtomicU8::new(UNSET);
static STATE: ForkSafe<Option<State>> = ForkSafe::new(None);

#[derive(Clone)]
struct State {
    config: Arc<Config>,
    /// Where lines go by the configuration.
    own: Arc<dyn Sink>,
    /// The application's sink, while it is installed.
    replaced: Option<Arc<dyn Sink>>,
}

impl State {
    fn from_env() -> Self {
        let config = Config::from_env();
        let own = Arc::new(Writer::open(&config));
        Self { config: Arc::new(config), own, replaced: None }
    }

    fn threshold(&self) -> u8 {
        match &self.replaced {
            Some(sink) => sink.most_talkative() as u8,
            None => self.config.level.unwrap_or(Level::Error) as u8,
        }
    }
}

/// Whether anything listens to `level`. The cheap test of the macros: it may say yes for a
/// provider that is filtered out later, never no for a message that is wanted.
#[inline]
pub fn wanted(level: Level) -> bool {
    level as u8 <= THRESHOLD.load(Relaxed)
}

/// Whether a message would appear (`fi_log_enabled`).
pub fn enabled(provider: &str, level: Level, subsys: Subsys) -> bool {
    if !wanted(level) {
        return false;
    }
    let state = state();
    let filtered = !state.config.allows_provider(provider);
    match &state.replaced {
        Some(sink) => sink.enabled(level, provider, subsys, filtered),
        None => state.config.allows(level, filtered, subsys),
    }
}

/// Writes one message, if it is wanted. The macros call this.
pub fn emit(record: &Record<'_>) {
    let state = state();
    let filtered = !state.config.allows_provider(record.provider);
    match &state.replaced {
        Some(sink) if sink.enabled(record.level, record.provider, record.subsys, filtered) => {
            sink.write(&Record { filtered, ..*record });
        }
        None if state.config.allows(record.level, filtered, record.subsys) => {
            state.own.write(&Record { filtered, ..*record });
        }
        _ => {}
    }
}

/// Warns of the settings themselves. No filter of theirs holds this back: it may be the mistake.
pub(crate) fn of_settings(message: fmt::Arguments<'_>) {
    // This may be the first message: the level is known once the state is.
    let state = state();
    if !wanted(Level::Warn) {
        return;
    }
    let record = Record::new(Level::Warn, "core", Subsys::Core, "settings", line!(), message);
    state.replaced.as_ref().unwrap_or(&state.own).write(&record);
}

/// Whether messages go where the configuration says, and warnings are wanted but nothing beyond them.
pub(crate) fn is_own_and_warns_only() -> bool {
    let state = state();
    let level = state.config.level.unwrap_or(Level::Error);
    state.replaced.is_none() && level >= Level::Warn && level < Level::Info
}

/// Milliseconds between two emissions of one rate-limited message (`FI_LOG_INTERVAL`).
pub fn interval_ms() -> u64 {
    state().config.interval_ms
}

/// Hands all messages to `sink` until [`restore`]; a second one is `EALREADY`.
pub fn replace(sink: Arc<dyn Sink>) -> Result<()> {
    let mut guard = STATE.lock();
    let state = guard.get_or_insert_with(State::from_env);
    if state.replaced.is_some() {
        return Err(Errno::EALREADY);
    }
    state.replaced = Some(sink);
    THRESHOLD.store(state.threshold(), Relaxed);
    Ok(())
}

/// Ends [`replace`]: messages go where the configuration says again.
pub fn restore() {
    let mut guard = STATE.lock();
    let state = guard.get_or_insert_with(State::from_env);
    state.replaced = None;
    THRESHOLD.store(state.threshold(), Relaxed);
}

fn state() -> State {
    let mut guard = STATE.lock();
    let state = guard.get_or_insert_with(State::from_env);
    THRESHOLD.store(state.threshold(), Relaxed);
    state.clone()
}

/// The last segment of the path of a marker function declared inside the caller.
#[doc(hidden)]
pub fn function_of<T>(_: T) -> &'static str {
    let path = std::any::type_name::<T>();
    path.rsplit("::").find(|s| *s != "marker" && *s != "{{closure}}").unwrap_or(path)
}

/// Logs at a level: `log_at!(Level::Info, "shm", Subsys::Domain, "opened {name}")`.
#[macro_export]
macro_rules! log_at {
    ($level:expr, $provider:expr, $subsys:expr, $($arg:tt)+) => {
        if $crate::log::wanted($level) {
            fn marker() {}
            $crate::log::emit(&$crate::log::Record::new(
                $level,
                $provider,
                $subsys,
                $crate::log::function_of(marker),
                line!(),
                format_args!($($arg)+),
            ));
        }
    };
}

/// Logs at a level, a few times per interval and call site; what was held back is counted in the
/// next line.
#[doc(hidden)]
#[macro_export]
macro_rules! log_few {
    ($level:expr, $provider:expr, $subsys:expr, $($arg:tt)+) => {
        if $crate::log::wanted($level) {
            static SITE: $crate::log::Site = $crate::log::Site::new();
            if let Some(held) = SITE.admit() {
                $crate::log_at!(
                    $level, $provider, $subsys, "{}{}", format_args!($($arg)+), held
                );
            }
        }
    };
}

/// Logs a fault, a few times per interval and call site; what was held back is counted in the
/// next line.
#[macro_export]
macro_rules! error {
    ($provider:expr, $subsys:expr, $($arg:tt)+) => {
        $crate::log_few!($crate::log::Level::Error, $provider, $subsys, $($arg)+)
    };
}

/// Logs at level `warn`.
#[macro_export]
macro_rules! warn {
    ($provider:expr, $subsys:expr, $($arg:tt)+) => {
        $crate::log_at!($crate::log::Level::Warn, $provider, $subsys, $($arg)+)
    };
}

/// Logs at level `warn`, a few times per interval and call site, as [`error!`](crate::error) does.
#[macro_export]
macro_rules! warn_few {
    ($provider:expr, $subsys:expr, $($arg:tt)+) => {
        $crate::log_few!($crate::log::Level::Warn, $provider, $subsys, $($arg)+)
    };
}

/// Logs at level `info`.
#[macro_export]
macro_rules! info {
    ($provider:expr, $subsys:expr, $($arg:tt)+) => {
        $crate::log_at!($crate::log::Level::Info, $provider, $subsys, $($arg)+)
    };
}

/// Logs at level `debug`.
#[macro_export]
macro_rules! debug {
    ($provider:expr, $subsys:expr, $($arg:tt)+) => {
        $crate::log_at!($crate::log::Level::Debug, $provider, $subsys, $($arg)+)
    };
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
