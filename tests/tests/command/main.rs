//! The `percale` command beside the library under test, with unmodified programs as its other end.

mod pingpong;
mod run;

use std::{path::PathBuf, process::Command, sync::OnceLock};

use percale_tests::library;

/// The command; `None` where only the library has been built.
fn percale() -> Option<Command> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let percale = library().with_file_name("percale");
        if !percale.exists() {
            eprintln!("{} is missing: nothing to run", percale.display());
        }
        percale.exists().then_some(percale)
    });
    let mut command = Command::new(found.as_ref()?);
    command.env_remove("FI_PROVIDER");
    command.env("PERCALE_LIBDIR", library().parent().expect("it is in a folder"));
    Some(command)
}

/// A port that nobody listens at now.
fn free_port() -> String {
    let any = std::net::TcpListener::bind("127.0.0.1:0").and_then(|any| any.local_addr());
    any.expect("a free port").port().to_string()
}
