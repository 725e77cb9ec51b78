//! The C headers agree with the published interface, in every compiler and as C++ too.
//!
//! Programs are written from the tables in `tests/abi`, compiled against Percale's headers and,
//! where libfabric-dev is installed, against the distribution's older ones, and run. The second
//! set of headers tests the programs: what they find in ours they must not find in those.

#[path = "../c/emit/mod.rs"]
mod emit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use emit::Interface;

/// Compilers and languages that applications use.
const COMPILERS: [(&str, &[&str]); 4] = [
    ("gcc", &["-std=c99"]),
    ("clang", &["-std=c99"]),
    ("g++", &["-x", "c++", "-std=c++11"]),
    ("clang++", &["-x", "c++", "-std=c++11"]),
];

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Programs that do what applications do.
const APPLICATIONS: [&str; 10] = [
    "rpc/server.c",
    "rpc/client.c",
    "consumers/intel_mpi.c",
    "consumers/mercury.c",
    "consumers/mpich.c",
    "consumers/nccl.c",
    "consumers/nixl.c",
    "consumers/open_mpi.c",
    "consumers/openshmem.c",
    "consumers/traps.c",
];

/// Every public header compiles as the only one a program includes, without a warning.
#[test]
fn each_header_stands_alone() {
    let include = own_include();
    let mut headers = Vec::new();
    collect_headers(&include.join("rdma"), &mut headers);
    assert!(headers.len() > 15, "only {} headers under {}", headers.len(), include.display());
    for header in headers {
        let name = header.strip_prefix(&include).expect("header under include").to_owned();
        let text = format!(
            "#include <{0}>\n#include <{0}>\n\nint main(void)\n{{\n\treturn 0;\n}}\n",
            name.display()
        );
        let stem = format!("alone_{}", name.display().to_string().replace(['/', '.'], "_"));
        let source = write_source(&stem, &text);
        for_each_compiler(|compiler, language| {
            compile(compiler, language, &include, &source, &["-fsyntax-only"]);
        });
    }
}

/// Structures, constants, slots and prototypes are those of the 2.6 tables.
#[test]
fn layout_is_that_of_the_interface() {
    let include = own_include();
    let program = emit::layout::program(&Interface::load(&abi_dir(), "", &include));
    run_everywhere("layout_check", &program, &include);
}

/// The same check accepts the distribution's headers, with the tables of their release.
#[test]
fn layout_check_accepts_the_distribution() {
    if let Some(include) = distribution_include() {
        let program = emit::layout::program(&Interface::load(&abi_dir(), "-1.17", &include));
        run_everywhere("layout_check_1_17", &program, &include);
    }
}

/// Every inline function calls the slot it should, with its arguments in order.
#[test]
fn wrappers_reach_their_slots() {
    let include = own_include();
    let interface = Interface::load(&abi_dir(), "", &include);
    run_everywhere("wrappers_check", &emit::wrappers::program(&interface, &special()), &include);
}

/// The same check accepts the distribution's headers.
#[test]
fn wrappers_check_accepts_the_distribution() {
    if let Some(include) = distribution_include() {
        let interface = Interface::load(&abi_dir(), "-1.17", &include);
        let program = emit::wrappers::program(&interface, &special());
        run_everywhere("wrappers_check_1_17", &program, &include);
    }
}

/// Function-like macros do what providers and applications use them for.
#[test]
fn macros_work() {
    let program = read(&c_dir().join("macros_check.c"));
    run_everywhere("macros_check", &program, &own_include());
    if let Some(include) = distribution_include() {
        run_everywhere("macros_check_1_17", &program, &include);
    }
}

/// The programs that need the library compile everywhere; `c_abi` runs them.
#[test]
fn library_programs_compile() {
    for include in [Some(own_include()), distribution_include()].into_iter().flatten() {
        for program in ["symbols_check.c", "old_abi_getinfo.c"] {
            for_each_compiler(|compiler, language| {
                let source = c_dir().join(program);
                compile(compiler, language, &include, &source, &["-fsyntax-only"]);
            });
        }
    }
}

/// Programs in today's C, as applications are, compile with the headers of both releases.
#[test]
fn applications_compile() {
    for include in [Some(own_include()), distribution_include()].into_iter().flatten() {
        for program in APPLICATIONS {
            for (compiler, _) in COMPILERS.into_iter().filter(|(name, _)| !name.ends_with("++")) {
                if compiler == "clang" && Command::new(compiler).arg("--version").output().is_err()
                {
                    continue;
                }
                let source = c_dir().join(program);
                // The macros of GNU C in the helpers are not pedantic.
                let more = ["-Wno-pedantic", "-fsyntax-only"];
                compile(compiler, &["-std=gnu11"], &include, &source, &more);
            }
        }
    }
}

/// `old_abi_getinfo.c` gives each symbol version the structure sizes of the table.
#[test]
fn older_programs_have_the_sizes_of_their_time() {
    const STRUCTS: [&str; 8] = [
        "fi_info",
        "fi_tx_attr",
        "fi_rx_attr",
        "fi_ep_attr",
        "fi_domain_attr",
        "fi_fabric_attr",
        "fi_cq_err_entry",
        "fi_mr_attr",
    ];
    let table = read(&abi_dir().join("abi-compat-layout.tsv"));
    let program = read(&c_dir().join("old_abi_getinfo.c"));
    let mut compared = 0;
    for line in program.lines().filter(|line| line.starts_with("\t{ \"FABRIC_")) {
        let node = line.split('"').nth(1).and_then(|node| node.strip_prefix("FABRIC_"));
        let node = node.expect("a version in quotes");
        let (_, sizes) = line.split_once("), ").expect("sizes after the interface version");
        let sizes = sizes.trim_end_matches(" },").split(',').map(str::trim);
        for (tag, size) in STRUCTS.into_iter().zip(sizes) {
            let is_row = |row: &str| {
                let columns: Vec<&str> = row.split('\t').collect();
                columns[..3] == [node, tag, "0"] && columns[4] == "struct"
            };
            // The table ends at 1.9, the last version whose structures are final.
            if let Some(row) = table.lines().find(|row| is_row(row)) {
                assert_eq!(row.split('\t').nth(3), Some(size), "{tag} at {node}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 7 * STRUCTS.len());
}

/// Compiles `program` with every compiler and runs each result, which prints what differs.
fn run_everywhere(stem: &str, program: &str, include: &Path) {
    let source = write_source(stem, program);
    for_each_compiler(|compiler, language| {
        let binary = source.with_extension(compiler);
        // Deprecated functions are part of the interface.
        let target = binary.to_str().expect("path in UTF-8");
        compile(
            compiler,
            language,
            include,
            &source,
            &["-Wno-deprecated-declarations", "-o", target],
        );
        let output = Command::new(&binary).output().expect("run the compiled program");
        assert!(output.status.success(), "{compiler}: {stem} failed\n{}", text_of(&output));
    });
}

fn for_each_compiler(mut visit: impl FnMut(&str, &[&str])) {
    for (compiler, language) in COMPILERS {
        if Command::new(compiler).arg("--version").output().is_ok() {
            visit(compiler, language);
        } else {
            assert!(compiler.starts_with("clang"), "{compiler} is not installed");
            eprintln!("skipped {compiler}: not installed");
        }
    }
}

fn compile(compiler: &str, language: &[&str], include: &Path, source: &Path, more: &[&str]) {
    let output = Command::new(compiler)
        .args(language)
        .args(WARNINGS)
        .arg("-I")
        .arg(include)
        .arg("-I")
        .arg(c_dir())
        .args(more)
        .arg(source)
        .output()
        .expect("run the compiler");
    assert!(
        output.status.success(),
        "{compiler} refused {}\n{}",
        source.display(),
        text_of(&output)
    );
}

fn write_source(stem: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}.c"));
    fs::write(&path, text).expect("write the program");
    path
}

fn collect_headers(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("read the include directory") {
        let path = entry.expect("read the include directory").path();
        if path.is_dir() {
            collect_headers(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "h") {
            into.push(path);
        }
    }
}

fn text_of(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}

fn special() -> String {
    read(&c_dir().join("wrappers_special.h"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

fn abi_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("abi")
}

fn c_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c")
}

fn own_include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../ffi/include")
}

/// `/usr/include`, if it holds the release that the second set of tables describes.
fn distribution_include() -> Option<PathBuf> {
    let include = PathBuf::from("/usr/include");
    let text = fs::read_to_string(include.join("rdma/fabric.h")).unwrap_or_default();
    let defines = |name: &str, value: &str| {
        text.lines().any(|line| line.split_whitespace().eq(["#define", name, value]))
    };
    if defines("FI_MAJOR_VERSION", "1") && defines("FI_MINOR_VERSION", "17") {
        return Some(include);
    }
    eprintln!("skipped: {} does not hold the headers of 1.17", include.display());
    None
}
