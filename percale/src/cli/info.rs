//! `percale info`.

use std::process::ExitCode;

use percale::{
    NoProvider, Rejection, SOURCES,
    discovery::{ProviderFilter, Request, getinfo},
};

use super::{env, json, print, table, wish::Wish};

/// Lists the offers that satisfy the wishes; without a wish, all of them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  percale info                              what there is
  percale info --caps tagged,rma --why      what fits, and why the rest does not
  percale info --provider tcp --ep-type rdm
  percale info --env                        the variables that are honoured

Exit status: 0 if something fits, 1 if nothing does, 2 for a wrong command line.")]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Wish,
    /// Print the reason for each offer that does not fit, nearest miss first
    #[arg(long)]
    why: bool,
    /// Print each known variable with its value, where that comes from, and its meaning
    #[arg(long, conflicts_with_all = ["why", "verbose"])]
    env: bool,
    /// Print JSON, with every attribute
    #[arg(long)]
    json: bool,
    /// Print every attribute
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    if args.env {
        let text = if args.json { json::variables() } else { env::table() };
        return written(print(&text), ExitCode::SUCCESS);
    }
    let hints = args.wish.hints();
    let request =
        Request { version: args.wish.version, hints: hints.as_ref(), ..Request::default() };
    let outcome = getinfo(&SOURCES, &request, &ProviderFilter::from_env());
    let report = percale::last_report();
    let status = if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };

    if args.json {
        let infos = outcome.as_deref().unwrap_or_default();
        return written(print(&json::offers(infos, &report)), status);
    }
    let mut text = match &outcome {
        Ok(infos) if args.verbose => table::verbose(infos),
        Ok(infos) => table::brief(infos),
        Err(NoProvider::Version(_)) => String::new(),
        Err(NoProvider::Rejected(_)) if args.why => String::new(),
        Err(NoProvider::Rejected(_)) => {
            eprintln!("percale: nothing fits; --why tells the reasons");
            String::new()
        }
    };
    if let Err(error @ NoProvider::Version(_)) = &outcome {
        eprintln!("percale: {error}");
    }
    if args.why {
        text.push_str(&reasons(&report, outcome.is_ok()));
    }
    written(print(&text), status)
}

fn reasons(report: &[Rejection], found: bool) -> String {
    let mut text = String::new();
    if found && !report.is_empty() {
        text.push_str("\nNot offered:\n");
    } else if !found {
        text.push_str("Nothing fits:\n");
    }
    for r in report {
        text.push_str(&format!(
            "  {}: {}\n      wanted   {}\n      offered  {}\n      fix      {}\n",
            r.provider, r.attribute, r.wanted, r.offered, r.fix
        ));
    }
    text
}

fn written(result: std::io::Result<()>, status: ExitCode) -> ExitCode {
    match result {
        Ok(()) => status,
        Err(e) => {
            eprintln!("percale: cannot write: {e}");
            ExitCode::FAILURE
        }
    }
}
