//! C programs over tcp, on the loopback interface.

use std::{path::Path, process::Command, time::Duration};

use percale_tests::{
    programs::{Running, compile},
    rig::Program,
};

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

/// What a peer that stops and ends has not taken.
#[test]
fn undelivered() {
    run("undelivered", &[]);
}

/// Small messages that are posted in a row leave without another call, but for announced company.
#[test]
fn messages_leave_with_others() {
    setting(&[], &["posted", "100", "100"]);
    setting(&[("FI_TCP_COALESCE", "0")], &["posted", "100", "100"]);
    setting(&[], &["announced", "0", "0"]);
    setting(&[("FI_TCP_STAGING_SBUF_SIZE", "4096")], &["announced", "60", "99"]);
}

#[test]
fn bytes_are_read_ahead() {
    setting(&[], &["ahead", "100", "100"]);
    setting(&[("FI_TCP_PREFETCH_RBUF_SIZE", "0")], &["ahead", "1", "50"]);
}

#[test]
fn sockets_without_delay() {
    setting(&[], &["nodelay", "1"]);
    setting(&[("FI_TCP_NODELAY", "0")], &["nodelay", "0"]);
}

#[test]
fn ports_of_a_range() {
    let range = [("FI_TCP_PORT_LOW_RANGE", "21000"), ("FI_TCP_PORT_HIGH_RANGE", "21007")];
    setting(&range, &["ports", "21000", "21007"]);
}

#[test]
fn ports_that_are_not_this_users() {
    let range = [("FI_TCP_PORT_LOW_RANGE", "20"), ("FI_TCP_PORT_HIGH_RANGE", "24")];
    setting(&range, &["denied"]);
}

#[test]
fn sizes_of_queues_and_injected_messages() {
    setting(&[], &["sizes", "256", "256", "128"]);
    let sizes = [("FI_TCP_TX_SIZE", "32"), ("FI_TCP_RX_SIZE", "64"), ("FI_TCP_MAX_INJECT", "4000")];
    setting(&sizes, &["sizes", "32", "64", "4000"]);
}

/// What a setting does, seen from outside.
fn setting(variables: &[(&'static str, &'static str)], args: &[&str]) {
    let program = Program::new("settings").with("PERCALE_PROVIDER", "tcp");
    variables.iter().fold(program, |program, (name, value)| program.with(name, value)).run(args);
}

/// Nothing is printed, whatever is refused.
fn run(name: &str, variables: &[(&str, &str)]) {
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tcp-{name}"));
    compile(&format!("tcp/{name}.c"), &binary);
    let mut command = Command::new(binary);
    command.env_remove("FI_LOG_LEVEL").env("FI_PROVIDER", "tcp").envs(variables.iter().copied());
    Running::start(command, &[], DEADLINE).finish_silently(name);
}
