//! The programs of the tutorials: taken out of the text, built as it says, and run as it says.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use percale_tests::{
    programs::{Running, compile},
    rig::scratch,
};

const LIMIT: Duration = Duration::from_secs(60);

/// The files of a page: `<!-- file: NAME -->` stands before each.
fn files(page: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src").join(page);
    let text = fs::read_to_string(path).expect("the page");
    let parts = text.split("<!-- file: ").skip(1);
    parts
        .map(|part| {
            let (name, rest) = part.split_once(" -->\n```").expect("a fence behind the name");
            let (_, code) = rest.split_once('\n').expect("code");
            let (code, _) = code.split_once("\n```\n").expect("the end of the code");
            (name.to_owned(), format!("{code}\n"))
        })
        .collect()
}

/// A directory with the page's files.
fn directory(page: &str, place: PathBuf) -> PathBuf {
    fs::create_dir_all(&place).expect("a directory in the target directory");
    for (name, code) in files(page) {
        fs::write(place.join(name), code).expect("a file in the target directory");
    }
    place
}

/// Runs a server, and a client once that is ready; what they print behind that.
fn run(program: &Path, provider: &str, server: &[&str], client: &[&str]) -> (String, String) {
    let name = program.file_name().expect("a program").to_string_lossy().into_owned();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|any| any.local_addr());
    let port = free.expect("a free port").port().to_string();
    let own = format!("tutorial.{name}.{}", std::process::id());
    let place = if provider == "shm" { [own.as_str(), "1"] } else { ["127.0.0.1", &port] };
    let start = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.env("FI_PROVIDER", provider).env("FI_LOG_LEVEL", "warn").args(place);
        Running::start(command, arguments, LIMIT)
    };
    let mut serves = start(server);
    assert_eq!(serves.read(6), "ready\n");
    let asks = start(client).output(&name);
    (serves.output(&name), asks)
}

/// What the programs say, in whatever language they are.
fn try_all(place: &Path, providers: &[&str]) {
    for provider in providers {
        let said = run(&place.join("exchange"), provider, &[], &["ask"]);
        assert_eq!(said, (String::new(), "hello yourself\n".to_owned()), "{provider}");
        let said = run(&place.join("remote"), provider, &[], &["I was here"]);
        assert_eq!(said, ("I was here\n".to_owned(), "nothing yet\n".to_owned()), "{provider}");
    }
}

#[test]
fn programs_in_c() {
    let place = directory("tutorial-c.md", scratch("tutorial-c"));
    for name in ["exchange", "remote"] {
        let source = place.join(format!("{name}.c"));
        compile(source.to_str().expect("a path of letters"), &place.join(name));
    }
    try_all(&place, &["shm", "tcp", "tcp;ofi_rxm"]);
}

#[test]
fn programs_in_rust() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the tree");
    let place = scratch("tutorial-rust");
    directory("tutorial-rust.md", place.join("src/bin"));
    let manifest = format!(
        r#"[package]
name = "tutorial"
version = "0.0.0"
edition = "2024"

[dependencies]
percale = {{ path = {:?}, features = ["tokio"] }}
tokio = {{ version = "1.44", default-features = false, features = ["macros", "rt", "time"] }}

[profile.dev]
debug = false

[workspace]
"#,
        root.join("percale")
    );
    fs::write(place.join("Cargo.toml"), manifest).expect("a file in the target directory");
    // The versions of the workspace: they are there already.
    fs::copy(root.join("Cargo.lock"), place.join("Cargo.lock")).expect("versions");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--offline", "--quiet"]).current_dir(&place);
    build.env("CARGO_TARGET_DIR", place.join("target")).env("RUSTFLAGS", "-D warnings");
    assert!(build.status().expect("run cargo").success(), "the tutorial does not compile");
    let programs = place.join("target/debug");
    let providers = ["shm", "tcp", "tcp;ofi_rxm"];
    try_all(&programs, &providers);
    for provider in providers {
        let said = run(&programs.join("upper"), provider, &["3"], &[]);
        assert_eq!(said, (String::new(), "ONE\nTWO\nTHREE\n".to_owned()), "{provider}");
    }
}
