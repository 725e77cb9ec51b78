//! SETUP. Where messages go, and how a line looks.

use std::{
    fmt::{self, Write as _},
    fs::{File, OpenOptions},
    os::{fd::AsFd, unix::fs::OpenOptionsExt},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::io::{FdFlags, fcntl_getfd};

use super::{Config, Level, Subsys};

/// One message. Its `Display` is the line, without the newline.
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Record<'a> {
    pub level: Level,
    pub provider: &'a str,
    pub subsys: Subsys,
    pub function: &'a str,
    pub line: u32,
    pub message: fmt::Arguments<'a>,
    /// `FI_LOG_PROV` leaves this provider out; a sink of the application may want it anyway.
    pub filtered: bool,
}

impl<'a> Record<'a> {
    /// A message that no filter has seen yet.
    pub const fn new(
        level: Level,
        provider: &'a str,
        subsys: Subsys,
        function: &'a str,
        line: u32,
        message: fmt::Arguments<'a>,
    ) -> Self {
        Self { level, provider, subsys, function, line, message, filtered: false }
    }
}

impl fmt::Display for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        // The process id is asked for each time: it changes in a forked child.
        write!(
            f,
            "libfabric:{}:{now}::{}:{}:{}():{}<{}> ",
            std::process::id(),
            self.provider,
            self.subsys.name(),
            self.function,
            self.line,
            self.level
        )?;
        OneLine(f).write_fmt(self.message)
    }
}

/// Escapes control characters: messages have names in them, which come from anywhere, and could
/// look like lines of their own.
struct OneLine<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut plain = 0;
        for (at, control) in text.char_indices().filter(|(_, c)| c.is_control()) {
            self.0.write_str(&text[plain..at])?;
            write!(self.0, "{}", control.escape_default())?;
            plain = at + control.len_utf8();
        }
        self.0.write_str(&text[plain..])
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Takes messages. Called from any thread; must not log itself.
pub trait Sink: Send + Sync {
    /// The level up to which this sink may want messages.
    fn most_talkative(&self) -> Level {
        Level::Debug
    }
    /// Whether a message would be taken; `filtered` as in [`Record`].
    fn enabled(&self, level: Level, provider: &str, subsys: Subsys, filtered: bool) -> bool {
        let _ = (provider, subsys, filtered);
        level <= self.most_talkative()
    }
    /// Takes one message.
    fn write(&self, record: &Record<'_>);
}

/// The default sink: standard error, or what `FI_LOG_LOCATION` names.
#[derive(Debug)]
pub struct Writer(Target);

#[derive(Debug)]
enum Target {
    Stderr,
    Stdout,
    File(File),
}

impl Writer {
    /// Opens the place that `config` names. A file is created, never overwritten; a directory
    /// gets `ofi_<pid>.log`. What cannot be opened falls back to standard error, and says so.
    pub fn open(config: &Config) -> Self {
        let place = match config.location.as_deref().map(str::trim) {
            None | Some("" | "stderr") => return Self(Target::Stderr),
            Some("stdout") => return Self(Target::Stdout),
            Some(place) => Path::new(place),
        };
        let path = if place.is_dir() {
            place.join(format!("ofi_{}.log", std::process::id()))
        } else {
            place.to_path_buf()
        };
        let file =
            OpenOptions::new().append(true).create_new(true).mode(config.location_mode).open(&path);
        match file {
            Ok(file) => Self(Target::File(file)),
            Err(e) => {
                let writer = Self(Target::Stderr);
                // In the call itself: older compilers keep the arguments no longer.
                writer.write(&Record::new(
                    Level::Warn,
                    "core",
                    Subsys::Core,
                    "open",
                    line!(),
                    format_args!(
                        "FI_LOG_LOCATION: {} cannot be created ({e}); logging to standard error",
                        path.display()
                    ),
                ));
                writer
            }
        }
    }
}

impl Sink for Writer {
    fn write(&self, record: &Record<'_>) {
        // One write a line, so that lines of several ranks do not mix. A log that cannot be
        // written has nowhere to complain.
        let line = format!("{record}\n");
        let _ = match &self.0 {
            Target::Stderr => write_standard(&std::io::stderr(), line.as_bytes()),
            Target::Stdout => write_standard(&std::io::stdout(), line.as_bytes()),
            Target::File(file) => write_all(file, line.as_bytes()),
        };
    }
}

/// To a standard stream, unless it has been closed and its number given to something else: to a
/// connection of ours, for one. Streams are there for the programs that this one starts, too, whereas
/// every descriptor of this library closes where another program begins.
fn write_standard(stream: &impl AsFd, bytes: &[u8]) -> rustix::io::Result<()> {
    if fcntl_getfd(stream)?.contains(FdFlags::CLOEXEC) {
        return Err(rustix::io::Errno::BADF);
    }
    write_all(stream, bytes)
}

/// Without the locks of the standard streams, which another thread may have when the process forks.
fn write_all(file: &impl AsFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(rustix::io::Errno::IO),
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(reason) => return Err(reason),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(writer: &Writer, text: &str) {
        writer.write(&Record::new(Level::Info, "shm", Subsys::Av, "f", 1, format_args!("{text}")));
    }

    #[test]
    fn standard_streams_are_what_other_programs_get_too() {
        let (stream, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(write_standard(&stream, b"a connection"), Err(rustix::io::Errno::BADF));
        rustix::io::fcntl_setfd(&stream, FdFlags::empty()).unwrap();
        assert_eq!(write_standard(&stream, b"standard error"), Ok(()));
        drop(stream);
        assert_eq!(std::io::read_to_string(&mut other).unwrap(), "standard error");
    }

    #[test]
    fn files_are_made_and_never_overwritten() {
        let dir = std::env::temp_dir().join(format!("percale-log-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let at = |path: &Path| Config {
            location: Some(path.to_str().unwrap().to_owned()),
            location_mode: 0o640,
            ..Config::default()
        };
        say(&Writer::open(&at(&dir)), "in a directory");
        let named = dir.join(format!("ofi_{}.log", std::process::id()));
        assert!(std::fs::read_to_string(named).unwrap().ends_with("<info> in a directory\n"));

        let file = dir.join("file");
        say(&Writer::open(&at(&file)), "first");
        let second = Writer::open(&at(&file));
        assert!(matches!(second.0, Target::Stderr));
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
