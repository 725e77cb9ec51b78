//! `percale bench`: what two processes reach between them, and how that compares.

mod partner;
mod plot;
mod processors;
mod results;
mod words;
mod worker;

use std::{
    io::{IsTerminal, stdin, stdout},
    net::SocketAddr,
    path::PathBuf,
    process::{ExitCode, exit},
    sync::mpsc::{Receiver, channel},
    thread,
};

use indicatif::{ProgressBar, ProgressStyle};

use self::{
    partner::{GRACE, Pair, Place, Program, Trouble, serve},
    results::{Case, Results, Side},
    words::{Kind, MEMORY, Order, lines},
};
use super::{figures, print};

/// Measures latency, bandwidth and rates of messages, reads, writes and atomic operations.
///
/// The two ends are two processes of this host, or this one and `percale bench --listen` on another.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  percale bench --provider shm
  percale bench latency write --sizes 8,4K,1M --json
  percale bench --vs /usr/lib/x86_64-linux-gnu/libfabric.so.1 --svg compared.svg
  percale bench --listen                    on one host, and on another
  percale bench --to first.host --provider tcp

What is measured:
  latency     half of a round trip of messages
  bandwidth   windows of messages, each answered by one; their rate, too
  write       writes to the other's memory, which end when they are there: one at a time, windows
  read        the same of reads
  atomic      additions to words of the other's memory: that fetch one at a time, and windows

Exit status: 0, 1 if something failed, 2 for a wrong command line.")]
pub(crate) struct Args {
    /// What to measure; all that the provider can do when not given
    #[arg(value_name = "WHAT")]
    measures: Vec<Measure>,
    /// Provider: shm, tcp, "tcp;ofi_rxm"; shm when not given, and tcp towards another host
    #[arg(short, long, value_name = "NAME")]
    provider: Option<String>,
    /// Bytes of messages and transfers
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size,
          default_value = "8,64,512,4K,32K,256K,1M")]
    sizes: Vec<usize>,
    /// Seconds for each figure
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.2")]
    time: f64,
    /// Times that each figure is measured; its median counts [default: 1, with --vs 5]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: Option<u32>,
    /// Another libfabric to compare with: the same C program runs on both, in turns
    #[arg(long, value_name = "LIBRARY", conflicts_with = "to")]
    vs: Option<PathBuf>,
    /// Measure towards `percale bench --listen` on this host
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "listen")]
    to: Option<String>,
    /// Wait for clients of other hosts, at all addresses when none is given
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1)]
    listen: Option<Option<SocketAddr>>,
    /// End after the first client
    #[arg(long, requires = "listen")]
    once: bool,
    /// Processors of client and server, `none` for any; two that do not share a core when not given
    #[arg(long, value_name = "LIST", value_parser = processor_list)]
    processors: Option<Processors>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Draw the figures into a file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Be an end of a measurement that standard input orders
    #[arg(long, value_name = "ROLE", hide = true, value_parser = ["client", "server"])]
    worker: Option<String>,
    /// The worker's address
    #[arg(long, value_name = "ADDRESS", hide = true)]
    node: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Measure {
    Latency,
    Bandwidth,
    Write,
    Read,
    Atomic,
}

/// Processors by number; empty for any.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Processors(Vec<usize>);

/// Where servers wait when no port is named.
const PORT: u16 = 47593;
/// Operations that are outstanding at once where rates are measured.
const WINDOW: usize = 64;
/// A run of so many seconds is long enough to say how long another one takes.
const TRIAL: f64 = 0.005;
/// The first runs may have met somebody else on their processors.
const TRIALS: u32 = 3;
/// The bytes of an atomic operation.
const WORD: usize = 8;

pub(crate) fn run(args: &Args) -> ExitCode {
    let processors = match &args.processors {
        None => processors::pair(),
        Some(Processors(list)) => list.first().map(|one| [*one, *list.last().unwrap_or(one)]),
    };
    let done = match (&args.worker, args.listen) {
        (Some(role), _) => work(args, role),
        (None, Some(at)) => serve(at, processors.map(|[_, server]| server), args.once),
        (None, None) => conduct(args, processors),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("percale: {trouble}");
            ExitCode::FAILURE
        }
    }
}

fn work(args: &Args, role: &str) -> Result<(), Trouble> {
    let setup = worker::Setup {
        provider: args.provider.clone(),
        node: args.node.clone(),
        processor: args.processors.as_ref().and_then(|Processors(list)| list.first().copied()),
        is_server: role == "server",
    };
    Ok(worker::work(&setup, orders().into_iter(), stdout())?)
}

/// The lines of standard input. Their end is that of this process, also while it waits for messages of
/// a peer that is there no more.
fn orders() -> Receiver<String> {
    let (told, orders) = channel();
    thread::spawn(move || {
        for line in lines(stdin().lock()).map_while(Result::ok) {
            if told.send(line).is_err() {
                return;
            }
        }
        drop(told);
        thread::sleep(GRACE / 2);
        exit(1);
    });
    orders
}

fn conduct(args: &Args, processors: Option<[usize; 2]>) -> Result<(), Trouble> {
    let host = args.to.as_deref().map(with_port);
    let default = if host.is_some() { "tcp" } else { "shm" };
    let named = std::env::var("FI_PROVIDER").is_ok_and(|list| !list.is_empty());
    let provider = args.provider.as_deref().or_else(|| (!named).then_some(default));
    let place = Place { provider, processors, host: host.as_deref() };
    let programs = programs(args)?;
    let mut pairs = Vec::new();
    for program in &programs {
        pairs.push(Pair::start(program, &place)?);
    }
    let cases = cases(args, pairs.iter().all(|p| p.remote), pairs.iter().all(|p| p.atomics));
    let rounds = args.rounds.unwrap_or(if pairs.len() > 1 { 5 } else { 1 });
    let floor = processors.filter(|_| host.is_none()).map(processors::cache_line);
    let sides =
        programs.iter().zip(&pairs).map(|(program, pair)| Side::of(program, pair)).collect();
    let mut results = Results::new(sides, floor, processors, rounds);

    let bar = progress(cases.len() as u64 * u64::from(rounds), args.json);
    for case in cases {
        bar.set_message(case.title());
        let counts = pairs
            .iter_mut()
            .map(|pair| long_enough(pair, case, args.time))
            .collect::<Result<Vec<usize>, Trouble>>()?;
        for round in 0..rounds {
            // Every other round turns the order round: nobody always runs first.
            let mut order: Vec<usize> = (0..pairs.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for side in order {
                let took = pairs[side].run(case.order(counts[side]))?;
                results.add(case, side, counts[side], took);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print(&if args.json { results.json() } else { results.table() })?;
    if let Some(path) = &args.svg {
        plot::draw(&results, path).map_err(|why| Trouble(format!("{}: {why}", path.display())))?;
    }
    Ok(())
}

/// Who measures on which library: this command, or the C program on ours and on the other one.
fn programs(args: &Args) -> Result<Vec<Program>, Trouble> {
    let Some(other) = &args.vs else { return Ok(vec![Program::Own]) };
    let ours = super::run::library().map_err(Trouble)?;
    let program = results::client().map_err(Trouble)?;
    let of = |library: &std::path::Path| Program::Foreign {
        program: program.clone(),
        library: library.to_owned(),
    };
    Ok(vec![of(&ours), of(other)])
}

/// What is measured, in the order of the listing.
fn cases(args: &Args, remote: bool, atomics: bool) -> Vec<Case> {
    let wanted = |measure| args.measures.is_empty() || args.measures.contains(&measure);
    let window = |size: usize| (MEMORY / 2 / size.max(1)).clamp(1, WINDOW);
    let mut cases = Vec::new();
    let mut each = |kind, single: bool, sizes: &[usize]| {
        let case = |size: &usize| {
            let window = if single { 1 } else { window(*size) };
            Case { kind, size: *size, window }
        };
        cases.extend(sizes.iter().map(case));
    };
    if wanted(Measure::Latency) {
        each(Kind::Latency, true, &args.sizes);
    }
    if wanted(Measure::Bandwidth) {
        each(Kind::Messages, false, &args.sizes);
    }
    for (measure, kind) in [(Measure::Write, Kind::Write), (Measure::Read, Kind::Read)] {
        if wanted(measure) && remote {
            each(kind, true, &args.sizes);
            each(kind, false, &args.sizes);
        }
    }
    if wanted(Measure::Atomic) && atomics {
        each(Kind::FetchAdd, true, &[WORD]);
        each(Kind::FetchAdd, false, &[WORD]);
        each(Kind::Add, false, &[WORD]);
    }
    cases
}

/// How many windows take so many seconds. What was done to find out has warmed up everything.
fn long_enough(pair: &mut Pair, case: Case, seconds: f64) -> Result<usize, Trouble> {
    let (mut count, mut fastest) = (1, f64::INFINITY);
    for trial in 1.. {
        let took = pair.run(case.order(count))?.seconds;
        fastest = took.max(1e-9).min(fastest * count as f64) / count as f64;
        if trial >= TRIALS && took >= TRIAL.min(seconds) || count >= Order::MOST {
            break;
        }
        count *= 4;
    }
    Ok(((seconds / fastest) as usize).clamp(1, Order::MOST))
}

/// A bar on a terminal, and nothing elsewhere.
fn progress(steps: u64, json: bool) -> ProgressBar {
    if json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

fn size(text: &str) -> Result<usize, String> {
    figures::size(text, 1..=MEMORY / 2)
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.001..=30.0).contains(seconds));
    seconds.ok_or_else(|| "between 0.001 and 30 seconds".to_owned())
}

fn processor_list(text: &str) -> Result<Processors, String> {
    if text == "none" {
        return Ok(Processors(Vec::new()));
    }
    let list: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
    match list {
        Ok(list) if list.len() <= 2 => Ok(Processors(list)),
        _ => Err("two numbers, as in 0,1".to_owned()),
    }
}

fn with_port(host: &str) -> String {
    let bare = host.parse::<std::net::Ipv6Addr>().is_ok();
    if bare {
        format!("[{host}]:{PORT}")
    } else if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        host.to_owned()
    } else {
        format!("{host}:{PORT}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_options() {
        assert_eq!(size("4K"), Ok(4096));
        assert!(seconds("0").is_err() && seconds("nan").is_err());
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert_eq!(processor_list("none"), Ok(Processors(Vec::new())));
        assert_eq!(processor_list("0,3"), Ok(Processors(vec![0, 3])));
        assert!(processor_list("0,1,2").is_err() && processor_list("a").is_err());
        assert_eq!(with_port("host"), "host:47593");
        assert_eq!(with_port("host:1"), "host:1");
        assert_eq!(with_port("::1"), "[::1]:47593");
    }
}
