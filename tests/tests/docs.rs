//! The documents name what exists.

use std::{
    collections::BTreeSet, fs, net::TcpListener, path::Path, process::Command, thread,
    time::Duration,
};

use percale_tests::{
    programs::{Running, compile},
    rig::scratch,
};

/// Every test that `docs/src/faults.md` names is a test of this tree, or a case of the conformance
/// suite, which checks its own page.
#[test]
fn tests_that_the_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/src/faults.md")).expect("the page");
    let mut tests = BTreeSet::new();
    for place in
        ["fabric-core", "provider-shm", "provider-tcp", "provider-verbs", "ffi", "percale", "tests"]
    {
        collect(&root.join(place), &mut tests);
    }
    let suite = fs::read_to_string(root.join("docs/src/conformance.md")).expect("the page");
    for row in suite.lines() {
        tests.extend(
            row.strip_prefix("| `").and_then(|row| row.split('`').next()).map(str::to_owned),
        );
    }
    let rows = page.lines().filter_map(|line| line.strip_suffix('|')?.rsplit_once('|'));
    let mut named = 0;
    for (_, cell) in rows {
        for name in cell.split('`').skip(1).step_by(2) {
            assert!(tests.contains(name), "there is no test {name}");
            named += 1;
        }
    }
    assert!(named > 50, "only {named} tests are named");
}

/// The program in `README.md` is what it says: it compiles, and brings a text from one process to
/// another over each provider that it names.
#[test]
fn the_first_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("README.md")).expect("the page");
    let source = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    let (file, binary) = (scratch("hello.c"), scratch("hello"));
    fs::write(&file, source.expect("a program")).expect("a file in the target directory");
    compile(file.to_str().expect("a path of letters"), &binary);

    let free = TcpListener::bind("127.0.0.1:0").and_then(|any| any.local_addr());
    let port = free.expect("a free port").port().to_string();
    let name = format!("docs.{}", std::process::id());
    for (provider, place) in [("shm", [name.as_str(), "1"]), ("tcp", ["127.0.0.1", &port])] {
        let start = |arguments: &[&str]| {
            let mut command = Command::new(&binary);
            command.env("FI_PROVIDER", provider).args(place);
            Running::start(command, arguments, Duration::from_secs(30))
        };
        let waits = start(&[]);
        // Shared memory fails at once while nobody is there.
        thread::sleep(Duration::from_secs(1));
        assert_eq!(start(&["hello there"]).output(provider), "sent\n");
        assert_eq!(waits.output(provider), "hello there\n");
    }
}

/// Names of the functions behind `#[test]`.
fn collect(place: &Path, tests: &mut BTreeSet<String>) {
    for entry in fs::read_dir(place).expect("a directory of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
                    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
                    tests.insert(name[..end.unwrap_or(name.len())].to_owned());
                }
                is_test = line == "#[test]" || (is_test && line.starts_with("#["));
            }
        }
    }
}
