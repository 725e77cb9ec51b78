//! The examples as their users start them: `FI_PROVIDER` alone chooses the way.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const PROVIDERS: [&str; 3] = ["shm", "tcp", "tcp;ofi_rxm"];
const LIMIT: Duration = Duration::from_secs(60);

/// An example's program. `cargo test` has built it, unless it was asked for these tests alone.
fn program(name: &str) -> PathBuf {
    let tests = env::current_exe().expect("the path of the tests");
    let profile = tests.ancestors().nth(2).expect("a directory of the profile");
    let program = profile.join("examples").join(name);
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--offline", "--quiet", "--all-features", "--example", name]);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().expect("run cargo").success(), "{name} does not compile");
    }
    program
}

/// A started example; it does not outlive this.
struct Running {
    name: String,
    child: Child,
    late: Instant,
}

impl Running {
    fn start(name: &str, provider: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program(name));
        command.args(arguments).env("FI_PROVIDER", provider).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).spawn().expect("start an example");
        Self { name: format!("{name} over {provider}"), child, late: Instant::now() + LIMIT }
    }

    /// The next lines of its output.
    fn lines<const N: usize>(&mut self) -> [String; N] {
        let mut out = BufReader::with_capacity(1, self.child.stdout.as_mut().expect("a pipe"));
        core::array::from_fn(|_| {
            let mut line = String::new();
            out.read_line(&mut line).expect("a line");
            line.trim_end().to_owned()
        })
    }

    /// Waits for its good end; the rest of its output.
    fn output(mut self) -> String {
        while self.child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < self.late, "{} takes too long", self.name);
            thread::sleep(Duration::from_millis(10));
        }
        let status = self.child.wait().expect("a child");
        assert!(status.success(), "{}: {status}", self.name);
        let mut said = String::new();
        self.child.stdout.take().expect("a pipe").read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn threads_that_wait() {
    for provider in PROVIDERS {
        let mut server = Running::start("hello", provider, &[]);
        let [chosen, address] = server.lines();
        assert_eq!(chosen, format!("provider {provider}"));
        let address = address.strip_prefix("address ").expect("an address");
        let said = Running::start("hello", provider, &[address]).output();
        assert_eq!(said, format!("provider {provider}\nanswer hello yourself\n"));
        assert_eq!(server.output(), "");
    }
}

#[test]
fn a_store_that_clients_read_by_themselves() {
    for provider in PROVIDERS {
        let said = Running::start("kv", provider, &[]).output();
        assert_eq!(said, format!("102 reads over {provider}, none torn\n"));
    }
}

#[test]
fn calls_under_tokio_and_smol() {
    for provider in PROVIDERS {
        for name in ["rpc_tokio", "rpc_smol"] {
            let said = Running::start(name, provider, &[]).output();
            assert_eq!(said, format!("200 calls over {provider}\n"));
        }
    }
}

#[test]
fn connections_and_what_goes_over_them() {
    let said = Running::start("connection", "tcp", &[]).output();
    assert_eq!(said, "5 sizes over tcp\n");
}
