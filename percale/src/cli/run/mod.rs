//! `percale run`: a program on this library, and the proof of it.

mod library;
mod mpi;
mod report;
mod signals;
mod watch;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use percale::{SOURCES, discovery::ProviderFilter};
use rustix::process::{Pid, WaitOptions, set_child_subreaper, wait};

use self::{
    library::Library,
    mpi::{Choice, Mpi},
    report::Report,
    watch::Watch,
};

/// Starts a program, a launcher of MPI jobs too, on the library that belongs to this command.
///
/// The program's variables, and what a known MPI needs to send its traffic through libfabric, are
/// printed on standard error, and at the end which library each process has mapped.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  percale run -- fi_info
  percale run --provider shm -- mpiexec -n 4 ./program
  percale run --provider tcp --dry-run -- mpirun -n 4 --hostfile hosts ./program

The library is the libfabric.so.1 in PERCALE_LIBDIR, else the one beside this command or in the lib
folder beside that of this command. Settings that are in the environment already stay as they are.
Only processes of this host that the program has started are looked at.

Exit status: that of the program, 128 and its signal if one ended it; 125 without a library, 126 and
127 where the program cannot be started or does not exist.")]
pub(crate) struct Args {
    /// Provider that programs use (FI_PROVIDER): shm, tcp, "tcp;ofi_rxm", verbs
    #[arg(short, long, value_name = "NAME")]
    provider: Option<String>,
    /// MPI that gets its settings; auto asks a launcher for its version, and looks into a program
    #[arg(long, value_name = "NAME", default_value = "auto")]
    mpi: Choice,
    /// Print the command and its variables for a shell, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Report in JSON: on standard error when the program has ended, with --dry-run on standard output
    #[arg(long)]
    json: bool,
    /// Write the report to a file instead of standard error
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Say nothing, unless a process runs on another library
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A variable of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    name: &'static str,
    value: OsString,
    /// Empty where the name says it.
    why: &'static str,
    /// It was set before, perhaps to something else, and that holds.
    kept: bool,
}

impl Setting {
    /// Sets a variable, unless it is set.
    fn new(name: &'static str, value: impl Into<OsString>, why: &'static str) -> Self {
        match std::env::var_os(name) {
            Some(value) => Self { name, value, why, kept: true },
            None => Self { name, value: value.into(), why, kept: false },
        }
    }

    /// Sets a variable, whatever it was.
    fn forced(name: &'static str, value: impl Into<OsString>) -> Self {
        Self { name, value: value.into(), why: "", kept: false }
    }
}

/// What is to be started.
struct Plan {
    libfabric: Library,
    mpis: Vec<Mpi>,
    settings: Vec<Setting>,
    command: Vec<OsString>,
}

/// Of this command itself, as other programs that start programs have it.
const OWN_FAILURE: u8 = 125;
const NOT_STARTED: u8 = 126;
const NOT_FOUND: u8 = 127;

pub(crate) fn run(args: &Args) -> ExitCode {
    let library = match Library::find() {
        Ok(library) => library,
        Err(reason) => {
            eprintln!("percale: {reason}");
            return ExitCode::from(OWN_FAILURE);
        }
    };
    if let Some(refusal) = args.provider.as_deref().and_then(refusal) {
        eprintln!("percale: {refusal}");
        return ExitCode::from(OWN_FAILURE);
    }
    let plan = plan(args, library);
    let report = Report::new(args, &plan);
    if args.dry_run {
        return report.dry_run();
    }
    report.announce();
    match start(&plan, &report) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("percale: {}: {error}", plan.command[0].display());
            let found = error.kind() != std::io::ErrorKind::NotFound;
            ExitCode::from(if found { NOT_STARTED } else { NOT_FOUND })
        }
    }
}

/// Why a provider cannot be what was meant. One that this host does not have may be on others.
fn refusal(provider: &str) -> Option<String> {
    let mut known: Vec<&str> = SOURCES.iter().map(|source| source.name()).collect();
    // Layered ones come with those below them.
    known.dedup();
    let strangers = ProviderFilter::parse(provider).strangers(&known).join(", ");
    if strangers.is_empty() {
        return None;
    }
    Some(format!("--provider: there is no {strangers}; there are {}", known.join(", ")))
}

fn plan(args: &Args, library: Library) -> Plan {
    let mut command = args.command.clone();
    let mpis = args.mpi.of(&command[0]);
    let path = match std::env::var_os("LD_LIBRARY_PATH").filter(|path| !path.is_empty()) {
        Some(path) => {
            let folders =
                std::iter::once(library.folder.clone()).chain(std::env::split_paths(&path));
            std::env::join_paths(folders).unwrap_or_else(|_| library.folder.clone().into())
        }
        None => library.folder.clone().into(),
    };
    let mut settings = vec![Setting::forced("LD_LIBRARY_PATH", path)];
    let named = std::env::var("FI_PROVIDER").ok().filter(|name| !name.is_empty());
    if let Some(provider) = &args.provider {
        settings.push(Setting::forced("FI_PROVIDER", provider));
    }
    let provider = args.provider.clone().or(named);
    for mpi in &mpis {
        settings.extend(mpi.settings(provider.as_deref(), &library));
        mpi.complete(&mut command, &settings);
    }
    Plan { libfabric: library, mpis, settings, command }
}

/// The library that belongs to this command.
pub(crate) fn library() -> Result<PathBuf, String> {
    Library::find().map(|library| library.file)
}

/// Whether a file is a libfabric of ours.
pub(crate) fn is_ours(file: &Path) -> bool {
    library::is_ours(file)
}

/// Runs the program to its end.
fn start(plan: &Plan, report: &Report<'_>) -> std::io::Result<u8> {
    // Processes whose parents have ended stay below this one, and are found.
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
    let signals = signals::hold()?;
    let mut command = Command::new(&plan.command[0]);
    command.args(&plan.command[1..]);
    for setting in &plan.settings {
        command.env(setting.name, &setting.value);
    }
    signals.release_in(&mut command);
    let watch = Watch::open(&plan.libfabric)?;
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    signals.hand_to(pid);
    let (status, seen) = watch.until(|| end_of(pid))?;
    report.conclude(&seen, status);
    Ok(status)
}

/// Waits for a child, and for those that others have left to this process; its status as shells tell it.
fn end_of(child: Pid) -> std::io::Result<u8> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => {
                let code = status
                    .exit_status()
                    .or_else(|| status.terminating_signal().map(|signal| 128 + signal));
                if let Some(code) = code {
                    return Ok(code as u8);
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A word as a shell reads it.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_shells() {
        assert_eq!(quoted(OsStr::new("FI_PROVIDER=shm")), "FI_PROVIDER=shm");
        assert_eq!(quoted(OsStr::new("tcp;ofi_rxm")), "'tcp;ofi_rxm'");
        assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
        assert_eq!(quoted(OsStr::new("")), "''");
    }

    #[test]
    fn providers_that_do_not_exist_are_refused_and_others_not() {
        assert!(refusal("shn").is_some_and(|why| why.contains("shm")));
        for provider in ["shm", "tcp", "tcp;ofi_rxm", "verbs"] {
            assert_eq!(refusal(provider), None);
        }
    }
}
