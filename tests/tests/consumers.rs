//! Applications as the library sees them: what each of them asks of discovery, opens and posts, on
//! two endpoints over shared memory or TCP; and what they refuse to live with.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use percale_tests::programs::{Running, compile};

/// No program takes longer, on a busy machine either.
const DEADLINE: Duration = Duration::from_secs(70);

#[test]
fn intel_mpi() {
    run("intel_mpi");
}

#[test]
fn mercury() {
    run("mercury");
}

#[test]
fn mpich() {
    run("mpich");
}

#[test]
fn nccl() {
    run("nccl");
}

#[test]
fn nccl_over_tcp() {
    run_over("tcp", "nccl");
}

#[test]
fn nixl() {
    run("nixl");
}

#[test]
fn nixl_over_tcp() {
    run_over("tcp", "nixl");
}

#[test]
fn open_mpi() {
    run("open_mpi");
}

#[test]
fn openshmem() {
    run("openshmem");
}

/// What all of them lean on, first as it is, then with variables that other releases know.
#[test]
fn traps() {
    let program = compiled("traps");
    start(&program, &["all"], &[("FI_PROVIDER", "shm")]).finish_silently("traps");
    let variables = [
        ("FI_PROVIDER", "shm"),
        ("FI_UNIVERSE_SIZE", "2048"),
        ("FI_HMEM", "system"),
        ("FI_MR_CACHE_MAX_COUNT", "0"),
        ("FI_OFI_RXM_USE_SRX", "1"),
        ("FI_OFI_RXM_DEF_TCP_WAIT_OBJ", "pollfd"),
        ("FI_OFI_RXM_BUFFER_SIZE", "32768"),
        ("FI_VERBS_PREFER_XRC", "0"),
        ("FI_PROVIDER_PATH", "/nonexistent"),
        ("FI_SHM_RX_SIZE", "many"),
        ("FI_OF_NO_RELEASE", "\u{fffd}"),
        ("FI_", ""),
    ];
    start(&program, &["odd"], &variables).finish_silently("traps with odd variables");
}

/// `FI_PROVIDER` that is set and empty names no provider.
#[test]
fn an_empty_filter_matches_nothing() {
    let program = compiled_as("traps", "hidden");
    start(&program, &["hidden"], &[("FI_PROVIDER", "")]).finish_silently("traps hidden");
}

/// Nothing is printed, whatever is refused: programs probe.
fn run(name: &str) {
    run_over("shm", name);
}

fn run_over(provider: &str, name: &str) {
    let program = compiled_as(name, &format!("{name}-{provider}"));
    start(&program, &[], &[("FI_PROVIDER", provider)]).finish_silently(name);
}

fn start(program: &Path, args: &[&str], variables: &[(&str, &str)]) -> Running {
    let mut command = Command::new(program);
    command.env_remove("FI_LOG_LEVEL").envs(variables.iter().copied());
    Running::start(command, args, DEADLINE)
}

fn compiled(name: &str) -> PathBuf {
    compiled_as(name, name)
}

/// Tests run side by side: a program that one of them runs must not be written by another.
fn compiled_as(name: &str, binary: &str) -> PathBuf {
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("consumers-{binary}"));
    compile(&format!("consumers/{name}.c"), &binary);
    binary
}
