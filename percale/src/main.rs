//! The `percale` command.

mod cli;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Look into Percale: what it offers on this host, and why.
#[derive(Parser)]
#[command(name = "percale", version, about, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List what the providers offer, or why they do not
    Info(cli::info::Args),
    /// Check this host for what keeps programs from working, and exchange messages
    Doctor(cli::doctor::Args),
    /// Measure what two processes reach between them, and compare libraries
    Bench(cli::bench::Args),
    /// Send messages to and fro between two hosts, either of which may run fi_pingpong
    Pingpong(cli::pingpong::Args),
    /// Start a program or an MPI job on this library, and tell which library each process loads
    Run(cli::run::Args),
    /// Print what a shell needs to complete this command
    Completions(cli::manual::Completions),
    #[command(hide = true)]
    Pages(cli::manual::Pages),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Info(args) => cli::info::run(&args),
        Command::Doctor(args) => cli::doctor::run(&args),
        Command::Bench(args) => cli::bench::run(&args),
        Command::Pingpong(args) => cli::pingpong::run(&args),
        Command::Run(args) => cli::run::run(&args),
        Command::Completions(args) => cli::manual::completions(Args::command(), &args),
        Command::Pages(args) => cli::manual::pages(Args::command(), &args),
    }
}
