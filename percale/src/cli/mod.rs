//! The subcommands.

pub(crate) mod bench;
pub(crate) mod doctor;
pub(crate) mod info;
pub(crate) mod manual;
pub(crate) mod pingpong;
pub(crate) mod run;

mod env;
mod figures;
mod json;
mod table;
mod wish;

use std::io::{ErrorKind, Write};

/// Writes a finished text to standard output. A reader that went away is no error.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
