//! What `percale run` tells: the settings before, and the libraries behind.

use std::{fmt::Write as _, fs, io::Write as _, process::ExitCode};

use serde::Serialize;

use super::{Args, Plan, quoted, watch::Seen};
use crate::cli::print;

/// Tells what is done and what was seen, to whom the command line says.
pub(super) struct Report<'a> {
    args: &'a Args,
    plan: &'a Plan,
}

#[derive(Serialize)]
struct Document<'a> {
    library: String,
    mpi: Vec<&'static str>,
    settings: Vec<Setting<'a>>,
    command: Vec<String>,
    /// Of the program, as shells tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<Process<'a>>>,
    /// Times that somebody has opened the library, whether or not that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    opened: Option<usize>,
}

#[derive(Serialize)]
struct Setting<'a> {
    name: &'a str,
    value: String,
    /// It was set before, and stays.
    kept: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    why: &'a str,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: u32,
    name: &'a str,
    library: String,
    ours: bool,
}

impl<'a> Report<'a> {
    pub(super) const fn new(args: &'a Args, plan: &'a Plan) -> Self {
        Self { args, plan }
    }

    /// The command as a shell takes it, on standard output.
    pub(super) fn dry_run(&self) -> ExitCode {
        let text = if self.args.json { self.json(None) } else { self.line() };
        match print(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("percale: cannot write: {error}");
                ExitCode::from(super::OWN_FAILURE)
            }
        }
    }

    /// What the program is started with.
    pub(super) fn announce(&self) {
        if self.args.quiet || self.args.json {
            return;
        }
        let mut text = format!("percale: libfabric is {}\n", self.plan.libfabric.file.display());
        for setting in &self.plan.settings {
            let mark = if setting.kept { " (as it was set)" } else { "" };
            let why = if setting.why.is_empty() || setting.kept {
                String::new()
            } else {
                format!("  # {}", setting.why)
            };
            let value = quoted(&setting.value);
            // Writing to a text cannot fail.
            let _ = writeln!(text, "percale: {}={value}{mark}{why}", setting.name);
        }
        if self.plan.command != self.args.command {
            let _ = writeln!(text, "percale: {}", self.command());
        }
        self.tell(&text, true);
    }

    /// What has been seen, when the program has ended.
    pub(super) fn conclude(&self, seen: &Seen, status: u8) {
        if self.args.json {
            return self.tell(&self.json(Some((seen, status))), true);
        }
        let text = self.sightings(seen);
        if !text.is_empty() {
            self.tell(&text, self.args.quiet);
        }
    }

    /// One line for each library.
    fn sightings(&self, seen: &Seen) -> String {
        let mut libraries: Vec<&std::path::Path> = Vec::new();
        for sighting in &seen.sightings {
            if !libraries.contains(&&*sighting.path) {
                libraries.push(&sighting.path);
            }
        }
        let mut text = String::new();
        for path in libraries {
            let ours = self.plan.libfabric.is(path);
            if ours && self.args.quiet {
                continue;
            }
            let on_it: Vec<String> = seen
                .sightings
                .iter()
                .filter(|sighting| sighting.path == path)
                .map(|sighting| format!("{} ({})", sighting.name, sighting.pid))
                .collect();
            let count = match on_it.len() {
                1 => "1 process".to_owned(),
                more => format!("{more} processes"),
            };
            let (word, where_) = if ours {
                ("", "on this library".to_owned())
            } else {
                ("warning: ", format!("on another library, {}", path.display()))
            };
            let _ = writeln!(text, "percale: {word}{count} {where_}: {}", on_it.join(", "));
            if !ours {
                let _ = writeln!(
                    text,
                    "percale: they look elsewhere first (RPATH); LD_PRELOAD={} comes before that",
                    quoted(self.plan.libfabric.file.as_os_str())
                );
            }
        }
        if seen.sightings.is_empty() && !self.args.quiet {
            text.push_str(match seen.opened {
                0 => {
                    "percale: no process of this host has opened a libfabric, as far as was seen\n"
                }
                _ => "percale: this library was opened by who ended before it could be looked at\n",
            });
        }
        text
    }

    fn command(&self) -> String {
        self.plan.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    fn line(&self) -> String {
        let mut line = String::new();
        for setting in &self.plan.settings {
            let _ = write!(line, "{}={} ", setting.name, quoted(&setting.value));
        }
        line + &self.command() + "\n"
    }

    fn json<'s>(&'s self, end: Option<(&'s Seen, u8)>) -> String {
        let plan = self.plan;
        let document = Document {
            library: plan.libfabric.file.display().to_string(),
            mpi: plan.mpis.iter().map(|mpi| mpi.title()).collect(),
            settings: plan
                .settings
                .iter()
                .map(|setting| Setting {
                    name: setting.name,
                    value: setting.value.to_string_lossy().into_owned(),
                    kept: setting.kept,
                    why: setting.why,
                })
                .collect(),
            command: plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            status: end.map(|(_, status)| status),
            opened: end.map(|(seen, _)| seen.opened),
            processes: end.map(|(seen, _)| {
                let process = |sighting: &'s super::watch::Sighting| Process {
                    pid: sighting.pid,
                    name: &sighting.name,
                    library: sighting.path.display().to_string(),
                    ours: plan.libfabric.is(&sighting.path),
                };
                seen.sightings.iter().map(process).collect()
            }),
        };
        // Strings and lists of them cannot fail to become JSON.
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }

    /// Writes a part of the report, the first one into an empty file.
    fn tell(&self, text: &str, first: bool) {
        let Some(path) = &self.args.report else {
            eprint!("{text}");
            return;
        };
        let file = fs::OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(first)
            .append(!first)
            .open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
            eprintln!("percale: {}: {error}", path.display());
            eprint!("{text}");
        }
    }
}
