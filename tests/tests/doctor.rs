//! `percale doctor` on hosts that make it hard: it names the cause. The command is the one beside the
//! library under test.

use std::{path::PathBuf, process::Command};

use percale_tests::{
    library,
    programs::compile,
    rig::{scratch, unshare},
};

/// The report and the exit status, of a command that runs the doctor; `None` without the command.
fn report(before: &[String], variables: &[(&str, &str)]) -> Option<(String, i32)> {
    let percale: PathBuf = library().with_file_name("percale");
    if !percale.exists() {
        eprintln!("{} is missing: nothing to run", percale.display());
        return None;
    }
    let words = [before, &[percale.to_str()?.to_owned(), "doctor".to_owned()]].concat();
    let output = Command::new(&words[0])
        .args(&words[1..])
        .env_remove("FI_PROVIDER")
        .envs(variables.iter().copied())
        .output()
        .expect("run the command");
    let text = String::from_utf8(output.stdout).expect("text");
    Some((text, output.status.code().expect("an end of its own")))
}

/// What stands behind a check's state, in one line, with its details.
fn about(text: &str, check: &str) -> String {
    let mut lines =
        text.lines().skip_while(|line| line.get(9..).is_none_or(|l| !l.starts_with(check)));
    let first = lines.next().unwrap_or_else(|| panic!("nothing about {check}:\n{text}"));
    let rest = lines.take_while(|line| line.starts_with(' '));
    [first].into_iter().chain(rest).collect::<Vec<_>>().join("\n")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_host_without_troubles() {
    let Some((text, status)) = report(&[], &[]) else { return };
    assert_eq!(status, 0, "{text}");
    for provider in ["shm", "tcp", "tcp;ofi_rxm"] {
        assert!(text.contains(&format!("self-test        {provider} over ")), "{text}");
    }
}

#[test]
fn settings_that_are_mistakes() {
    let Some((text, status)) = report(&[], &[("FI_PROVIDR", "shm")]) else { return };
    assert_eq!(status, 0, "{text}");
    assert!(about(&text, "settings").contains("did you mean FI_PROVIDER?"), "{text}");
    let Some((text, status)) = report(&[], &[("FI_PROVIDER", "shn")]) else { return };
    assert_eq!(status, 1, "{text}");
    assert!(about(&text, "self-test").contains("did you mean shm?"), "{text}");
}

#[test]
fn copies_that_a_filter_denies() {
    let denied = scratch("doctor-denied");
    compile("doctor/denied.c", &denied);
    let Some((text, status)) = report(&[denied.to_str().expect("letters").to_owned()], &[]) else {
        return;
    };
    assert_eq!(status, 0, "it works without: {text}");
    assert!(about(&text, "direct copies").starts_with("warning"), "{text}");
    assert!(about(&text, "direct copies").contains("seccomp"), "{text}");
}

#[test]
fn limits_that_are_low() {
    let low = words(&["prlimit", "--nofile=200:200", "--fsize=8192"]);
    let Some((text, _)) = report(&low, &[]) else { return };
    assert!(about(&text, "open files").starts_with("warning"), "{text}");
    assert!(about(&text, "file size").contains("small rings"), "{text}");
}

#[test]
fn hosts_of_their_own() {
    let script = "mount -t tmpfs -o size=1m none /dev/shm && head -c 1040000 /dev/zero >/dev/shm/x
        exec \"$@\"";
    let Some(alone) = unshare(&["--mount", "--net", "sh", "-c", script, "sh"]) else { return };
    let Some((text, _)) = report(&alone, &[]) else { return };
    assert!(about(&text, "/dev/shm").contains("full"), "{text}");
    assert!(about(&text, "interfaces").contains("none reaches other hosts"), "{text}");
}
