//! What is made from the command line's own description: man pages, and what shells complete.

use std::{fs, io, path::PathBuf, process::ExitCode};

use clap::Command;
use clap_complete::Shell;

use super::print;

/// Prints what a shell needs to complete this command.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  percale completions bash > ~/.local/share/bash-completion/completions/percale
  percale completions fish > ~/.config/fish/completions/percale.fish

`make install` installs them for bash, zsh and fish.")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// Writes man pages and completions into a folder, as `share` of a prefix has them.
#[derive(clap::Args)]
pub(crate) struct Pages {
    /// The folder
    folder: PathBuf,
}

const NAME: &str = "percale";
/// Where shells look for what they complete, below `share`.
const PLACES: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/percale"),
    (Shell::Zsh, "zsh/site-functions/_percale"),
    (Shell::Fish, "fish/vendor_completions.d/percale.fish"),
];

pub(crate) fn completions(command: Command, args: &Completions) -> ExitCode {
    let text = String::from_utf8(completed(command, args.shell)).map_err(io::Error::other);
    ended(text.and_then(|text| print(&text)))
}

pub(crate) fn pages(command: Command, args: &Pages) -> ExitCode {
    ended(write(command, &args.folder).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", args.folder.display()))
    }))
}

fn write(command: Command, folder: &std::path::Path) -> io::Result<()> {
    let man = folder.join("man/man1");
    fs::create_dir_all(&man)?;
    clap_mangen::generate_to(command.clone().disable_help_subcommand(true), &man)?;
    for (shell, place) in PLACES {
        let path = folder.join(place);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, completed(command.clone(), shell))?;
    }
    Ok(())
}

fn completed(mut command: Command, shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, NAME, &mut text);
    text
}

fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("percale: {error}");
            ExitCode::FAILURE
        }
    }
}
