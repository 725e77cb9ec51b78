//! The structs and numbers of libibverbs and librdmacm that provider-verbs is written with are those
//! of the headers: a C program is written from them, compiled and run.
//!
//! Needs gcc and the headers (Debian: libibverbs-dev, librdmacm-dev), and fails without them.

#[path = "../oracle/src/declared.rs"]
mod declared;

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use declared::{numbers, structs};

/// What the headers say, in the words of [`own`].
fn program() -> String {
    let mut text = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n\
         #include <rdma/rdma_cma.h>\n\n\
         #define SIZE(s) printf(#s \" %zu\\n\", sizeof(struct s))\n\
         #define FIELD(s, f) printf(#s \".\" #f \" %zu %zu\\n\", offsetof(struct s, f), \
         sizeof(((struct s *)0)->f))\n\
         #define NUMBER(n) printf(#n \" %lld\\n\", (long long)(n))\n\nint main(void)\n{\n",
    );
    for each in structs() {
        writeln!(text, "\tSIZE({});", each.name).unwrap();
        for (field, ..) in each.fields() {
            writeln!(text, "\tFIELD({}, {field});", each.name).unwrap();
        }
    }
    for (name, _) in numbers() {
        writeln!(text, "\tNUMBER({name});").unwrap();
    }
    text + "\treturn 0;\n}\n"
}

/// What the Rust side says.
fn own() -> String {
    let mut text = String::new();
    for each in structs() {
        writeln!(text, "{} {}", each.name, each.size).unwrap();
        for (field, offset, size) in each.fields() {
            writeln!(text, "{}.{field} {offset} {size}", each.name).unwrap();
        }
    }
    for (name, value) in numbers() {
        writeln!(text, "{name} {value}").unwrap();
    }
    text
}

fn compile(source: &Path, binary: &Path) {
    let compiled = Command::new("gcc")
        .args(["-std=gnu99", "-Wall", "-Werror"])
        .arg(source)
        .arg("-o")
        .arg(binary)
        .output()
        .expect("run gcc");
    let complaints = String::from_utf8_lossy(&compiled.stderr);
    assert!(
        compiled.status.success(),
        "gcc refuses it; are libibverbs-dev and librdmacm-dev installed?\n{complaints}"
    );
}

#[test]
fn layouts_and_numbers_are_those_of_the_headers() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("verbs_layout.c"), folder.join("verbs_layout"));
    fs::write(&source, program()).expect("write the program");
    compile(&source, &binary);
    let said = Command::new(&binary).output().expect("run the program");
    let said = String::from_utf8(said.stdout).expect("text");
    let own = own();
    let differing: Vec<(&str, &str)> =
        own.lines().zip(said.lines()).filter(|(own, said)| own != said).collect();
    assert!(differing.is_empty(), "(here, in the headers): {differing:#?}");
    assert_eq!(own.lines().count(), said.lines().count());
    assert!(own.lines().count() > 250, "{}", own.lines().count());
}

/// Nothing is declared that is not compared.
#[test]
fn all_that_is_declared_is_compared() {
    let sys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../provider-verbs/src/sys");
    let mut declared = Vec::new();
    for file in ["abi.rs", "cm_abi.rs"] {
        let text = fs::read_to_string(sys.join(file)).expect("read the declarations");
        let mut in_macro = false;
        for line in text.lines() {
            in_macro |= line.starts_with("c_struct!");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["pub", "struct", name, "{"] if in_macro => {
                    declared.push(name.to_owned());
                    in_macro = false;
                }
                ["pub", "const", name, ..] if line.starts_with("pub const ") => {
                    declared.push(name.trim_end_matches(':').to_owned());
                }
                _ => {}
            }
        }
    }
    let structs = structs().into_iter().map(|each| each.name.to_owned());
    let mut compared: Vec<_> =
        structs.chain(numbers().iter().map(|(n, _)| (*n).to_owned())).collect();
    declared.sort_unstable();
    compared.sort_unstable();
    assert_eq!(declared, compared);
}
