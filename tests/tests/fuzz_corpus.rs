//! The corpus of the fuzz targets, as plain tests: what a parser once failed on stays repaired.

#[path = "../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "public for the fuzz targets, which are another package")]
mod targets;

use std::{fs, path::Path};

fn run(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut count = 0;
    for entry in fs::read_dir(&folder).expect("a folder for each target") {
        let path = entry.expect("a file").path();
        let input = fs::read(&path).expect("an input");
        println!("{}", path.display());
        // Cut short, too: a stream may end anywhere.
        for len in 0..=input.len() {
            target(&input[..len]);
        }
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
}

#[test]
fn connection_messages() {
    run("cm", targets::cm);
}

#[test]
fn endpoint_records() {
    run("record", targets::record);
}

#[test]
fn message_headers() {
    run("head", targets::head);
}

#[test]
fn packets() {
    run("packet", targets::packet);
}

#[test]
fn private_data() {
    run("private_data", targets::private_data);
}
