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
fn variables_that_resemble_none() {
    let Some((text, status)) = report(&[], &[("FI_TCP_INTERFACES", "eth0")]) else { return };
    assert_eq!(status, 0, "{text}");
    let settings = about(&text, "settings");
    assert!(
        settings.starts_with("note") && settings.contains("FI_TCP_INTERFACES is set"),
        "{text}"
    );
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

/// Who may lock as much as it likes is told so, whatever the limit is.
#[test]
fn memory_that_may_not_be_locked() {
    let without = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"];
    let low = words(&[&without[..], &["prlimit", "--memlock=65536:65536"]].concat());
    let tried = Command::new(&low[0]).args(&low[1..]).arg("true").status();
    if !tried.is_ok_and(|status| status.success()) {
        eprintln!("setpriv cannot drop a capability here");
        return;
    }
    let Some((text, _)) = report(&low, &[]) else { return };
    let found = about(&text, "locked memory");
    assert!(found.contains("64 KiB") && found.contains("ulimit -l"), "{text}");
}

/// A device of the kernel's, as it shows it, and no library that speaks to it.
#[test]
fn devices_without_a_library() {
    let script = "port=/sys/class/infiniband/rxe0/ports/1
        mount -t tmpfs none /sys/class && mkdir -p $port && echo '4: ACTIVE' >$port/state || exit 9
        for library in $(ldconfig -p | sed -n 's/.*libibverbs.so.1 .*=> //p'); do
            mount --bind /dev/null \"$(readlink -f \"$library\")\"
        done
        exec \"$@\"";
    let Some(alone) = unshare(&["--mount", "--net", "sh", "-c", script, "sh"]) else { return };
    let Some((text, status)) = report(&alone, &[]) else { return };
    assert!(about(&text, "RDMA libraries").contains("not found: libibverbs.so.1"), "{text}");
    assert_eq!(status, 1, "{text}");
}

#[test]
fn a_host_without_ipv4() {
    let script =
        "ip link set lo up && ip link add d0 type dummy || ip link add d0 type veth peer d1
        ip link set d0 up; ip link set d1 up 2>/dev/null
        ip -6 addr add 2001:db8::1/64 dev d0 nodad && exec \"$@\"";
    let Some(alone) = unshare(&["--mount", "--net", "sh", "-c", script, "sh"]) else { return };
    let Some((text, _)) = report(&alone, &[]) else { return };
    assert!(about(&text, "interfaces").contains("no IPv4 address reaches other hosts"), "{text}");
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
