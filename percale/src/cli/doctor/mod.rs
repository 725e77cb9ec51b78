//! `percale doctor`: what breaks users in practice, looked at on this host, each with its fix.

mod copies;
mod host;
mod leftovers;
mod network;
mod rdma;
mod selftest;
mod settings;

use std::{fmt::Write, io::IsTerminal, process::ExitCode};

use serde::Serialize;

use self::copies::Witness;
use super::print;

/// Checks this host and this environment, and lets each provider that can be used exchange messages.
#[derive(clap::Args)]
#[command(after_help = "\
States:
  ok        as it should be
  note      worth knowing; nothing has to be done
  warning   works, but slower, or not in every case
  problem   something does not work

Nothing is changed on the host. Exit status: 0 without a problem, 1 with one, 2 for a wrong command line.")]
pub(crate) struct Args {
    /// Print JSON: a list of checks with state, what was found, and the fix
    #[arg(long)]
    json: bool,
    /// Leave out what is ok
    #[arg(short, long)]
    quiet: bool,
    /// Do not open endpoints
    #[arg(long)]
    no_self_test: bool,
    /// Tell by the exit status whether a word of another process can be read
    #[arg(long, hide = true, value_name = "PID:ADDRESS:VALUE", value_parser = Witness::parse)]
    read_from: Option<Witness>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    Note,
    Warning,
    Problem,
}

/// What a check has found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    check: &'static str,
    state: State,
    found: String,
    /// One by one, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn new(check: &'static str, state: State, found: impl Into<String>) -> Self {
        Self { check, state, found: found.into(), details: Vec::new(), fix: None }
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    fn details(mut self, details: Vec<String>) -> Self {
        self.details = details;
        self
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    if let Some(witness) = args.read_from {
        return if witness.can_be_read() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let mut findings = host::check();
    findings.push(copies::check());
    findings.push(network::check());
    findings.extend(rdma::check());
    findings.push(leftovers::check());
    findings.push(settings::check());
    if !args.no_self_test {
        findings.extend(selftest::check());
    }
    let worst = findings.iter().map(|finding| finding.state).max();
    if args.quiet {
        findings.retain(|finding| finding.state != State::Ok);
    }
    let text = if args.json {
        // Strings and lists of them cannot fail to become JSON.
        serde_json::to_string_pretty(&findings).unwrap_or_default() + "\n"
    } else {
        let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        report(&findings, colours)
    };
    match print(&text) {
        Ok(()) if worst < Some(State::Problem) => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("percale: cannot write: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The findings for people, in the order of the checks.
fn report(findings: &[Finding], colours: bool) -> String {
    const INDENT: &str = "                          ";
    let mut text = String::new();
    for finding in findings {
        let (word, colour) = match finding.state {
            State::Ok => ("ok", "32"),
            State::Note => ("note", "36"),
            State::Warning => ("warning", "33"),
            State::Problem => ("problem", "31"),
        };
        let word = format!("{word:<8}");
        let word = if colours { format!("\x1b[{colour}m{word}\x1b[0m") } else { word };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{word} {:<16} {}", finding.check, finding.found);
        for detail in &finding.details {
            let _ = writeln!(text, "{INDENT}{detail}");
        }
        if let Some(fix) = &finding.fix {
            let _ = writeln!(text, "{INDENT}fix: {fix}");
        }
    }
    text
}

/// A file of `/proc` or `/sys` without its last newline; `None` if there is none.
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_each_finding_with_its_fix() {
        let bad = Finding::new("files", State::Warning, "too few")
            .details(vec!["one by one".to_owned()])
            .fix("ulimit -n 4096");
        let findings = [Finding::new("kernel", State::Ok, "6.18"), bad];
        let text = report(&findings, false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ok       kernel           6.18");
        assert_eq!(lines[1], "warning  files            too few");
        assert_eq!(lines[2].trim(), "one by one");
        assert_eq!(lines[3].trim(), "fix: ulimit -n 4096");
        assert!(report(&findings, true).starts_with("\x1b[32m"));
        let value = serde_json::to_value(&findings).unwrap();
        assert_eq!(value[1]["state"], "warning");
        assert!(value[0].get("fix").is_none());
    }

    #[test]
    fn states_get_worse() {
        assert!(State::Ok < State::Note && State::Note < State::Warning);
        assert!(State::Warning < State::Problem);
    }
}
