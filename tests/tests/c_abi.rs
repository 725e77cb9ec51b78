//! `libfabric.so.1` serves programs of every release: symbols, and structures of their size.
//!
//! The library is `target/release/libfabric.so.1`, or what `PERCALE_LIB` names; it has to be built
//! before these tests run.

use std::env;
use std::path::Path;
use std::process::Command;

/// Every symbol is there at every version that programs are linked to.
#[test]
fn every_symbol_version_is_there() {
    run("symbols_check");
}

/// Programs compiled with older headers are read and written within their structures.
#[test]
fn older_programs_keep_their_structures() {
    run("old_abi_getinfo");
}

/// Builds the program, with the headers of this tree, and runs it on the library.
fn run(program: &str) {
    let library = percale_tests::library();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(program);
    let compiled = Command::new("gcc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(root.join("../ffi/include"))
        .arg(root.join("c").join(program).with_extension("c"))
        .arg("-o")
        .arg(&binary)
        .arg("-ldl")
        .status()
        .expect("run gcc");
    assert!(compiled.success(), "gcc refused {program}.c");

    let output = Command::new(&binary).arg(&library).output().expect("run the compiled program");
    assert!(
        output.status.success(),
        "{program} failed on {}:\n{}{}",
        library.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
