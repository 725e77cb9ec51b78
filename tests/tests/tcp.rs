//! C programs over tcp, on the loopback interface.

use std::{path::Path, process::Command, time::Duration};

use percale_tests::programs::{Running, compile};

/// No program takes longer, on a busy machine either.
const DEADLINE: Duration = Duration::from_secs(70);

/// Atomic operations, refusals and commits between two endpoints of this library.
#[test]
fn extensions() {
    run("extensions", &[]);
}

/// Connected endpoints that receive from one context.
#[test]
fn shared_receive() {
    run("shared_receive", &[]);
}

/// Nothing is printed, whatever is refused.
fn run(name: &str, variables: &[(&str, &str)]) {
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tcp-{name}"));
    compile(&format!("tcp/{name}.c"), &binary);
    let mut command = Command::new(binary);
    command.env_remove("FI_LOG_LEVEL").env("FI_PROVIDER", "tcp").envs(variables.iter().copied());
    Running::start(command, &[], DEADLINE).finish_silently(name);
}
