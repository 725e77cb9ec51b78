//! SETUP: the layout check, a C program that compares headers with the tables.
//!
//! Sizes, offsets and values are compared when it runs. Types of fields and prototypes of functions
//! are compared by the compiler: the program assigns and declares again with the table's type.

use std::fmt::Write as _;

use super::Interface;
use super::ctype::Type;

const HEAD: &str = r#"#include <stdio.h>
#include <string.h>

static int failures;

static void check(const char *what, unsigned long long is, unsigned long long should)
{
	if (is != should) {
		printf("%s: 0x%llx, should be 0x%llx\n", what, is, should);
		failures++;
	}
}

static void check_text(const char *what, const char *is, const char *should)
{
	if (strcmp(is, should)) {
		printf("%s: \"%s\", should be \"%s\"\n", what, is, should);
		failures++;
	}
}

"#;

/// The whole program.
pub(crate) fn program(interface: &Interface) -> String {
    let mut c = interface.includes();
    c.push_str(HEAD);
    prototypes(&mut c, interface);
    structs(&mut c, interface);
    constants(&mut c, interface);
    c.push_str(
        "int main(void)\n{\n\tcheck_structs();\n\tcheck_constants();\n\treturn failures != 0;\n}\n",
    );
    c
}

fn prototypes(c: &mut String, interface: &Interface) {
    c.push_str("#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for row in &interface.functions {
        let linkage = if row[0] == "inline" { "static inline " } else { "" };
        let _ = writeln!(c, "{linkage}{};", Type::parse(&row[2]).prototype(&row[1]));
    }
    c.push_str("#ifdef __cplusplus\n}\n#endif\n\n");
}

fn structs(c: &mut String, interface: &Interface) {
    c.push_str("static void check_structs(void)\n{\n");
    for row in &interface.layout {
        let [name, offset, size, align, kind] = &row[..5] else {
            panic!("short row {row:?}");
        };
        if let Some((tag, path)) = name.split_once('.') {
            field(c, tag, path, offset, size, kind);
            continue;
        }
        let named = match kind.split(' ').next() {
            Some("struct") => format!("struct {name}"),
            Some("enum") => format!("enum {name}"),
            Some("typedef") => name.clone(),
            _ => panic!("unknown kind in {row:?}"),
        };
        let _ = writeln!(c, "\tcheck(\"sizeof {name}\", sizeof({named}), {size});");
        let _ = writeln!(c, "\tcheck(\"alignof {name}\", __alignof__({named}), {align});");
    }
    c.push_str("}\n\n");
}

fn field(c: &mut String, tag: &str, path: &str, offset: &str, size: &str, kind: &str) {
    let _ = writeln!(
        c,
        "\tcheck(\"offsetof {tag}.{path}\", offsetof(struct {tag}, {path}), {offset});"
    );
    if kind.ends_with("0+]") {
        return;
    }
    let _ = writeln!(
        c,
        "\tcheck(\"sizeof {tag}.{path}\", sizeof(((struct {tag} *) 0)->{path}), {size});"
    );
    if kind != "union" {
        let pointer = Type::parse(kind).declare("*p");
        let _ = writeln!(c, "\t{{ static struct {tag} s; {pointer} = &s.{path}; (void) p; }}");
    }
}

fn constants(c: &mut String, interface: &Interface) {
    c.push_str("static void check_constants(void)\n{\n");
    for row in &interface.constants {
        let [name, value, _, origin] = &row[..4] else {
            panic!("short row {row:?}");
        };
        if origin == "define str" {
            let _ = writeln!(c, "\tcheck_text(\"{name}\", {name}, \"{value}\");");
            continue;
        }
        let literal = if value.starts_with('-') {
            format!("(unsigned long long) {value}LL")
        } else {
            format!("{value}ULL")
        };
        let size = if origin == "define u64" { 8 } else { 4 };
        let _ = writeln!(c, "\tcheck(\"{name}\", (unsigned long long) ({name}), {literal});");
        let _ = writeln!(c, "\tcheck(\"sizeof {name}\", sizeof({name}), {size});");
    }
    c.push_str("}\n\n");
}
