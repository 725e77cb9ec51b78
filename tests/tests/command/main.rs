//! The `percale` command beside the library under test, with unmodified programs as its other end.

mod bench;
mod pingpong;
mod run;

use std::{
    ffi::OsStr,
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

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
    Some(prepared(Command::new(found.as_ref()?)))
}

/// The command, held to a deadline.
fn percale_in_time() -> Option<Command> {
    Some(in_time(percale()?.get_program()))
}

/// A program that ends within what it may take on a busy host, without standard input.
fn in_time(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.arg("120").arg(program).stdin(Stdio::null());
    prepared(command)
}

fn prepared(mut command: Command) -> Command {
    command.env_remove("FI_PROVIDER");
    command.env("PERCALE_LIBDIR", library().parent().expect("it is in a folder"));
    command
}

/// Everything that a program has printed.
fn said(output: &Output) -> String {
    text(&[&*output.stdout, &output.stderr].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A port that nobody listens at now.
fn free_port() -> String {
    let any = std::net::TcpListener::bind("127.0.0.1:0").and_then(|any| any.local_addr());
    any.expect("a free port").port().to_string()
}

/// A connection would be taken for the client's, so it is looked up.
fn until_listening(port: &str) {
    let number: u16 = port.parse().expect("a number");
    let place = format!(":{number:04X}");
    let listens = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next().is_some_and(|own| own.ends_with(&place)) && words.nth(1) == Some("0A")
    };
    let late = Instant::now() + Duration::from_secs(60);
    while Instant::now() < late {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
        if tables.iter().flatten().any(|table| table.lines().any(listens)) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("nobody listens at {port}");
}
