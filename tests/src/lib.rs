//! Shared helpers of the suites: finding libraries and running programs.

pub mod offers;
pub mod programs;
pub mod rig;

use std::{env, path::PathBuf};

/// The library under test: what `PERCALE_LIB` names, else the release build of this tree.
///
/// # Panics
/// If it does not exist.
pub fn library() -> PathBuf {
    let release = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release");
    let named = env::var_os("PERCALE_LIB").map(PathBuf::from);
    let built = ["libfabric.so.1", "libfabric.so"].map(|name| PathBuf::from(release).join(name));
    let candidates: Vec<PathBuf> = named.map_or_else(|| built.to_vec(), |named| vec![named]);
    match candidates.iter().find(|library| library.exists()) {
        Some(library) => library.canonicalize().expect("a path without loops"),
        None => panic!("none of {candidates:?} exists: build it first, or name it in PERCALE_LIB"),
    }
}

/// An upstream library to compare with: what `PERCALE_UPSTREAM_LIB` names, else that of the MPICH
/// wheel in `build/venv`, if there is one.
pub fn upstream() -> Option<PathBuf> {
    let wheel =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../build/venv/lib/mpich/libfabric.so.1").into();
    let named = env::var_os("PERCALE_UPSTREAM_LIB").map(PathBuf::from);
    named.or(Some(wheel)).filter(|library| library.exists())
}
