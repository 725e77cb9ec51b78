//! SETUP. `fi_log` and the object "logging", through which an application takes messages itself.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::{
    ffi::CString,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use fabric_core::{
    Errno, Result,
    log::{self, Config, Level, Record, Sink, Subsys, Writer},
};

use crate::{
    abi::{
        Plain,
        constants::{FI_CLASS_LOG, FI_LOG_PROV_FILTERED, fi_log_level, fi_log_subsys},
        ext::{fi_ops_log, fi_provider, fid_logging},
        fid::{fi_ops, fid},
    },
    object::{self, CObject, Shell, from_fid},
    panic::{guard, status},
    params::provider_name,
    text,
};

/// `fi_log_enabled`.
///
/// # Safety
/// `provider` is a provider or null.
pub(crate) unsafe fn enabled(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
) -> c_int {
    let Some((level, subsys)) = known(level, subsys) else { return 0 };
    // SAFETY: the caller's promise.
    log::enabled(&unsafe { speaker(provider) }, level, subsys).into()
}

/// `fi_log_ready`: whether a message that may repeat has been silent for the interval. `showtime`
/// is the caller's note of when it may speak next.
///
/// # Safety
/// `provider` is a provider or null, `showtime` has room for a number or is null.
pub(crate) unsafe fn ready(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    showtime: *mut u64,
) -> c_int {
    // SAFETY: the caller's promise.
    let enabled = unsafe { enabled(provider, level, subsys) };
    if enabled == 0 || showtime.is_null() {
        return enabled;
    }
    let imported = import().as_ref().map(|import| import.sink.clone());
    if let Some(imported) = imported
        && let Some(ready) = imported.ready
    {
        // SAFETY: the caller's promise.
        let flags = imported.flags(&unsafe { speaker(provider) });
        // SAFETY: the callback keeps the contract of `fi_ops_log`, with the caller's arguments.
        return unsafe { ready(provider, level, subsys, flags, showtime) };
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    // SAFETY: not null, so it is the caller's number.
    if now < unsafe { showtime.read() } {
        return 0;
    }
    // SAFETY: as above.
    unsafe { showtime.write(now.saturating_add(log::interval_ms())) };
    1
}

/// `fi_log`, with the message formatted.
///
/// # Safety
/// `provider` is a provider or null; texts are terminated or null.
pub(crate) unsafe fn log(
    provider: *const fi_provider,
    level: fi_log_level,
    subsys: fi_log_subsys,
    func: *const c_char,
    line: c_int,
    message: *const c_char,
) {
    let Some((level, subsys)) = known(level, subsys) else { return };
    // SAFETY: the caller's promise.
    let provider = unsafe { speaker(provider) };
    // SAFETY: the caller's promise. What cannot be read is left out.
    let func = unsafe { text::read(func) }.ok().flatten().unwrap_or_default();
    // SAFETY: as above.
    let message = unsafe { text::read(message) }.ok().flatten().unwrap_or_default();
    log::emit(&Record::new(
        level,
        &provider,
        subsys,
        &func,
        line.unsigned_abs(),
        format_args!("{}", message.trim_end_matches('\n')),
    ));
}

fn known(level: fi_log_level, subsys: fi_log_subsys) -> Option<(Level, Subsys)> {
    let level = Level::from_c(level.cast_signed())?;
    Some((level, Subsys::from_c(subsys.cast_signed())?))
}

/// # Safety
/// `provider` is a provider or null.
unsafe fn speaker(provider: *const fi_provider) -> String {
    // SAFETY: the caller's promise.
    unsafe { provider_name(provider) }.ok().flatten().unwrap_or_else(|| "core".to_owned())
}

/// The object "logging".
#[derive(Debug)]
struct LogObject;

impl CObject for LogObject {
    type Head = fid_logging;
    const CLASS: usize = FI_CLASS_LOG;
}

const OBJECT: &fi_ops = &fi_ops { close, bind, ..fi_ops::UNSUPPORTED };

/// What replaces the table of the application's object while it is in use.
const IMPORTED: &fi_ops = &fi_ops { close: give_back, ..fi_ops::UNSUPPORTED };

/// Opens the object. `EALREADY` while an application has taken the log over.
pub(crate) fn open(context: *mut c_void) -> Result<*mut fid> {
    if import().is_some() {
        return Err(Errno::EALREADY);
    }
    let mut head = fid_logging::zeroed();
    head.fid.ops = (&raw const *OBJECT).cast_mut();
    Ok(object::open(Arc::new(LogObject), context, head).cast())
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: the caller passes an object that nobody else closes now.
    unsafe { object::close(fid, |shell: &Shell<LogObject>| shell.retire().map(drop)) }
}

/// `fi_import_fid`: messages go to the application's object until that is closed.
///
/// `EINVAL` for flags, for an object of another class, and for a table that is too short.
unsafe extern "C" fn bind(fid: *mut fid, theirs: *mut fid, flags: u64) -> c_int {
    guard(|| {
        // SAFETY: the caller passes an object.
        status(unsafe { from_fid::<LogObject>(fid) }.and_then(|_| {
            if flags != 0 || theirs.is_null() || theirs == fid || !theirs.is_aligned() {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the caller passes an object, which starts with its class.
            if unsafe { (*theirs).fclass } != FI_CLASS_LOG {
                return Err(Errno::EINVAL);
            }
            // SAFETY: its class says that it is a `fid_logging`.
            let ops = unsafe { (*theirs.cast::<fid_logging>()).ops };
            // SAFETY: every table starts with its size.
            if ops.is_null() || unsafe { (*ops).size } < size_of::<fi_ops_log>() {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the table is long enough.
            take_over(theirs, unsafe { &*ops })?;
            // SAFETY: the object is the application's, which lends it.
            unsafe { (*theirs).ops = (&raw const *IMPORTED).cast_mut() };
            Ok(())
        }))
    })
}

fn take_over(theirs: *mut fid, ops: &fi_ops_log) -> Result<()> {
    let mut import = import();
    let config = Config::from_env();
    let sink = Arc::new(Callbacks {
        enabled: ops.enabled,
        ready: ops.ready,
        log: ops.log,
        own: Writer::open(&config),
        config,
    });
    log::replace(sink.clone())?;
    *import = Some(Import { object: theirs.addr(), sink });
    Ok(())
}

/// `fi_close` on the application's object: the log is the library's again.
unsafe extern "C" fn give_back(fid: *mut fid) -> c_int {
    guard(|| {
        let mut import = import();
        status(if import.as_ref().is_some_and(|import| import.object == fid.addr()) {
            *import = None;
            log::restore();
            Ok(())
        } else {
            Err(Errno::EINVAL)
        })
    })
}

struct Import {
    /// The application's object.
    object: usize,
    sink: Arc<Callbacks>,
}

/// The value is whole after every statement, so a panic elsewhere does not spoil it.
fn import() -> MutexGuard<'static, Option<Import>> {
    static IMPORT: Mutex<Option<Import>> = Mutex::new(None);
    IMPORT.lock().unwrap_or_else(PoisonError::into_inner)
}

type EnabledFn =
    unsafe extern "C" fn(*const fi_provider, fi_log_level, fi_log_subsys, u64) -> c_int;
type ReadyFn =
    unsafe extern "C" fn(*const fi_provider, fi_log_level, fi_log_subsys, u64, *mut u64) -> c_int;
type LogFn = unsafe extern "C" fn(
    *const fi_provider,
    fi_log_level,
    fi_log_subsys,
    *const c_char,
    c_int,
    *const c_char,
);

/// The callbacks of an application, which are called from any thread. Where one is missing the
/// library does what it does without them.
struct Callbacks {
    enabled: Option<EnabledFn>,
    ready: Option<ReadyFn>,
    log: Option<LogFn>,
    config: Config,
    own: Writer,
}

impl Callbacks {
    fn flags(&self, provider: &str) -> u64 {
        if self.config.allows_provider(provider) { 0 } else { FI_LOG_PROV_FILTERED }
    }
}

/// Calls `f` with a provider of this name.
fn with_provider<R>(name: &str, f: impl FnOnce(*const fi_provider) -> R) -> R {
    let name = terminated(name);
    let provider = fi_provider { name: name.as_ptr(), ..fi_provider::zeroed() };
    f(&raw const provider)
}

fn terminated(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

impl Sink for Callbacks {
    fn enabled(&self, level: Level, provider: &str, subsys: Subsys, filtered: bool) -> bool {
        let Some(enabled) = self.enabled else {
            return self.config.allows(level, filtered, subsys);
        };
        let flags = if filtered { FI_LOG_PROV_FILTERED } else { 0 };
        let (level, subsys) = (level.to_c().cast_unsigned(), subsys as fi_log_subsys);
        // SAFETY: the callback keeps the contract of `fi_ops_log`; the provider is whole.
        with_provider(provider, |provider| unsafe { enabled(provider, level, subsys, flags) }) != 0
    }

    fn write(&self, record: &Record<'_>) {
        let Some(log) = self.log else { return self.own.write(record) };
        let (level, subsys) = (record.level.to_c().cast_unsigned(), record.subsys as fi_log_subsys);
        let func = terminated(record.function);
        let message = terminated(&record.message.to_string());
        let line = c_int::try_from(record.line).unwrap_or(c_int::MAX);
        let (func, message): (&CStr, &CStr) = (&func, &message);
        // SAFETY: the callback keeps the contract of `fi_ops_log`; texts and provider are whole.
        with_provider(record.provider, |provider| unsafe {
            log(provider, level, subsys, func.as_ptr(), line, message.as_ptr());
        });
    }
}
