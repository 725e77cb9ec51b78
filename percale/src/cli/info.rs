//! `percale info`.

use std::process::ExitCode;

use percale::{
    Info, NoProvider, Rejection, SOURCES,
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
  percale info --limits                     sizes of messages and queues, numbers of objects
  percale info --env                        the variables that are honoured

Exit status: 0 if something fits, 1 if nothing does, 2 for a wrong command line.")]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Wish,
    /// Print the reason for each offer that does not fit, nearest miss first
    #[arg(long)]
    why: bool,
    /// Print each known variable with its value, where that comes from, and its meaning; the offers
    /// only where --why, --verbose or a wish asks for them
    #[arg(long)]
    env: bool,
    /// Print JSON: offers with every attribute, and the reasons for the others
    #[arg(long)]
    json: bool,
    /// Print what each offer is limited to: sizes of messages and queues, numbers of objects
    #[arg(long)]
    limits: bool,
    /// Print every attribute
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let offers_too = args.why || args.verbose || args.limits || !args.wish.is_empty();
    if args.env && !offers_too {
        let text = if args.json { json::variables() } else { env::table() };
        return written(print(&text), ExitCode::SUCCESS);
    }
    // Sizes are those that a program's hints bring, whether or not anything is wished for here.
    let hints = (args.limits || !args.wish.is_empty()).then(|| args.wish.hints());
    let request =
        Request { version: args.wish.version, hints: hints.as_ref(), ..Request::default() };
    let outcome = getinfo(&SOURCES, &request, &ProviderFilter::from_env());
    let status = if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let text = if args.json { json::listing(&outcome, args.env) } else { listing(args, &outcome) };
    written(print(&text), status)
}

/// What was found and asked for, for people; a failure without a wish for reasons is told apart.
fn listing(args: &Args, outcome: &Result<Vec<Info>, NoProvider>) -> String {
    let mut text = String::new();
    if args.env {
        text.push_str(&env::table());
        text.push('\n');
    }
    match outcome {
        Ok(infos) if args.verbose => text.push_str(&table::verbose(infos)),
        Ok(infos) if args.limits => text.push_str(&table::limits(infos)),
        Ok(infos) => text.push_str(&table::brief(infos)),
        Err(error @ NoProvider::Version(_)) => eprintln!("percale: {error}"),
        Err(NoProvider::Rejected(_)) if args.why => {}
        Err(NoProvider::Rejected(_)) => eprintln!("percale: nothing fits; --why tells the reasons"),
    }
    if args.why {
        text.push_str(&reasons(&percale::last_report(), outcome.is_ok()));
    }
    text
}

fn reasons(report: &[Rejection], found: bool) -> String {
    let mut text = String::new();
    if !report.is_empty() {
        text.push_str(if found { "\nNot offered:\n" } else { "Nothing fits:\n" });
    }
    for r in report {
        text.push_str(&format!(
            "  {}: {}\n      wanted   {}\n      offered  {}\n      fix      {}\n",
            r.subject(),
            r.attribute,
            r.wanted,
            r.offered,
            r.fix
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
