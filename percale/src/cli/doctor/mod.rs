//! `percale doctor`: what breaks users in practice, looked at on this host, each with its fix.

mod copies;
mod host;
mod leftovers;
mod network;
mod rdma;
mod selftest;
mod settings;

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

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

    /// For people.
    fn text(&self, colours: bool) -> String {
        const INDENT: &str = "                          ";
        let (word, colour) = match self.state {
            State::Ok => ("ok", "32"),
            State::Note => ("note", "36"),
            State::Warning => ("warning", "33"),
            State::Problem => ("problem", "31"),
        };
        let word = format!("{word:<8}");
        let word = if colours { format!("\x1b[{colour}m{word}\x1b[0m") } else { word };
        let mut text = format!("{word} {:<16} {}\n", self.check, self.found);
        let fix = self.fix.as_ref().map(|fix| format!("fix: {fix}"));
        for line in self.details.iter().chain(&fix) {
            text.push_str(&format!("{INDENT}{line}\n"));
        }
        text
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    if let Some(witness) = args.read_from {
        return if witness.can_be_read() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    match examine(args) {
        Ok(worst) if worst < State::Problem => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("percale: cannot write: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Every check in its turn; each is told when it ends, since some take seconds. Returns the worst
/// state.
fn examine(args: &Args) -> io::Result<State> {
    let colours = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut worst = State::Ok;
    let mut kept = Vec::new();
    let mut tell = |finding: Finding| {
        worst = worst.max(finding.state);
        if args.quiet && finding.state == State::Ok {
            return Ok(());
        }
        if args.json {
            kept.push(finding);
            return Ok(());
        }
        print(&finding.text(colours))
    };
    host::check().into_iter().try_for_each(&mut tell)?;
    tell(copies::check())?;
    tell(network::check())?;
    rdma::check().into_iter().try_for_each(&mut tell)?;
    tell(leftovers::check())?;
    tell(settings::check())?;
    if !args.no_self_test {
        selftest::check().try_for_each(&mut tell)?;
    }
    if args.json {
        // Strings and lists of them cannot fail to become JSON.
        print(&(serde_json::to_string_pretty(&kept).unwrap_or_default() + "\n"))?;
    }
    Ok(worst)
}

/// A file of `/proc` or `/sys` without its last newline; `None` if there is none.
fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_told_with_its_fix() {
        let bad = Finding::new("files", State::Warning, "too few")
            .details(vec!["one by one".to_owned()])
            .fix("ulimit -n 4096");
        let findings = [Finding::new("kernel", State::Ok, "6.18"), bad];
        assert_eq!(findings[0].text(false), "ok       kernel           6.18\n");
        let text = findings[1].text(false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "warning  files            too few");
        assert_eq!(lines[1].trim(), "one by one");
        assert_eq!(lines[2].trim(), "fix: ulimit -n 4096");
        assert!(findings[0].text(true).starts_with("\x1b[32m"));
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
