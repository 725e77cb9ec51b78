//! Pairs of C programs over shared memory, compiled with this tree's headers and linked with the
//! library under test.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

/// Reads and writes.
#[test]
fn one_sided() {
    run("shm_rma");
}

/// Atomic operations.
#[test]
fn atomics() {
    run("shm_atomic");
}

/// Sleeping and being woken.
#[test]
fn waiting() {
    run("shm_wait");
}

/// Builds the program and runs it. Programs end by themselves, by an alarm at the latest.
fn run(program: &str) {
    let libraries = libraries(program);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program);
    let compiled = Command::new("gcc")
        .args(["-std=c99", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(root.join("../ffi/include"))
        .arg(root.join("c").join(program).with_extension("c"))
        .arg("-o")
        .arg(&binary)
        .arg(libraries.join("libfabric.so.1"))
        .arg("-lpthread")
        .status()
        .expect("run gcc");
    assert!(compiled.success(), "gcc refused {program}.c");

    let output = Command::new(&binary)
        .env("LD_LIBRARY_PATH", &libraries)
        .output()
        .expect("run the compiled program");
    assert!(
        output.status.success(),
        "{program}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A directory in which the loader finds the library under test by its soname.
fn libraries(program: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{program}.lib"));
    fs::create_dir_all(&directory).expect("a directory");
    let link = directory.join("libfabric.so.1");
    // What an earlier run left may point elsewhere.
    let _ = fs::remove_file(&link);
    symlink(percale_tests::library(), link).expect("a link to the library");
    directory
}
