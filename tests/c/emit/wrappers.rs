//! SETUP: the wrapper check, a C program that calls every inline function of the headers.
//!
//! Each slot of each operation table records its name and arguments. Functions that hand their
//! arguments straight to a slot are called here with distinct values; those that do more are
//! called by `wrappers_special.h`, and a function that neither covers is an error.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::Interface;
use super::ctype::Type;

/// The whole program; `special` is the text of `wrappers_special.h`.
pub(crate) fn program(interface: &Interface, special: &str) -> String {
    let objects = Objects::find(interface);
    let mut c = interface.includes();
    c.push_str("#include \"recorder.h\"\n\n");
    tables(&mut c, interface, &objects);
    objects.define(&mut c);
    let mut calls = Vec::new();
    for row in interface.functions.iter().filter(|row| row[0] == "inline") {
        let [_, name, signature, _, dispatch, size_checked] = &row[..6] else {
            panic!("short row {row:?}");
        };
        let Type::Function(args, ret) = Type::parse(signature) else {
            panic!("{name} is no function");
        };
        match objects.slot(&args, dispatch) {
            Some((table, slot)) if !is_special(name, special) => {
                call(&mut c, name, &args, &ret, &table, &slot, size_checked == "yes");
                calls.push(format!("call_{name}"));
            }
            _ => assert!(
                special.contains(&format!("{name}(")),
                "{name} ({dispatch}) is called by nothing"
            ),
        }
    }
    c.push_str("#include \"wrappers_special.h\"\n\nint main(void)\n{\n\tset_up();\n");
    for call in calls {
        let _ = writeln!(c, "\t{call}();");
    }
    c.push_str("\tspecial_calls();\n\treturn failures != 0;\n}\n");
    c
}

/// Functions of the special file with slots that do not take their arguments one to one.
fn is_special(name: &str, special: &str) -> bool {
    name == "fi_profile_read_u64" && special.contains(name)
}

/// Object structures and the tables their fields point to.
struct Objects {
    /// tag of the object -> (field, tag of the table)
    fields: Vec<(String, Vec<(String, String)>)>,
    /// table and slot -> whether there is one
    slots: HashMap<(String, String), ()>,
}

impl Objects {
    fn find(interface: &Interface) -> Self {
        let mut fields: Vec<(String, Vec<(String, String)>)> = Vec::new();
        let mut slots = HashMap::new();
        for row in &interface.layout {
            let Some((tag, field)) = row[0].split_once('.') else {
                continue;
            };
            if row[4].starts_with("fn(") {
                slots.insert((tag.to_owned(), field.to_owned()), ());
            }
            let Some(table) = row[4].strip_prefix("*mut ") else {
                continue;
            };
            if !is_object(tag, &row[5]) || !(table.starts_with("fi_ops") || table.ends_with("_ops"))
            {
                continue;
            }
            if fields.last().is_none_or(|(last, _)| last != tag) {
                fields.push((tag.to_owned(), Vec::new()));
            }
            if let Some((_, list)) = fields.last_mut() {
                list.push((field.to_owned(), table.to_owned()));
            }
        }
        Self { fields, slots }
    }

    /// Tags of the tables in use, each once.
    fn tables(&self) -> Vec<&str> {
        let mut tables: Vec<&str> = self
            .fields
            .iter()
            .flat_map(|(_, list)| list)
            .map(|(_, table)| table.as_str())
            .collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// One object of each kind, its fields pointing to the recording tables.
    fn define(&self, c: &mut String) {
        for (tag, _) in self.fields.iter().filter(|(tag, _)| tag != "fid") {
            let _ = writeln!(c, "static struct {tag} o_{tag};");
        }
        c.push_str("static struct fid_mc o_fid_mc;\nstatic struct fid_mr o_fid_mr;\n\n");
        c.push_str("static void set_up(void)\n{\n");
        for (tag, list) in self.fields.iter().filter(|(tag, _)| tag != "fid") {
            let _ = writeln!(c, "\to_{tag}.fid.ops = &t_fi_ops;");
            for (field, table) in list {
                let _ = writeln!(c, "\to_{tag}.{field} = &t_{table};");
            }
        }
        c.push_str("\to_fid_mc.fid.ops = &t_fi_ops;\n\to_fid_mr.fid.ops = &t_fi_ops;\n}\n\n");
    }

    /// Table and slot that `dispatch` names, if it is of the form object.field.slot.
    fn slot(&self, args: &[Type], dispatch: &str) -> Option<(String, String)> {
        let (root, path) = dispatch.split_once('.')?;
        let path = path.strip_prefix("fid.").unwrap_or(path);
        let (field, slot) = path.split_once('.')?;
        let tag = args.first()?.pointee_struct()?;
        let table = if root == "fid" || dispatch.contains(".fid.") {
            "fi_ops"
        } else {
            let tag = if tag == "fid" { "fid_ep" } else { tag };
            let (_, list) = self.fields.iter().find(|(name, _)| name == tag)?;
            &list.iter().find(|(name, _)| name == field)?.1
        };
        let key = (table.to_owned(), slot.to_owned());
        self.slots.contains_key(&key).then_some(key)
    }
}

/// Objects that inline functions are called on: those of peers and of the library are not.
fn is_object(tag: &str, header: &str) -> bool {
    (tag == "fid" || tag.starts_with("fid_"))
        && !header.ends_with("_peer.h")
        && header != "fi_ext.h"
}

fn tables(c: &mut String, interface: &Interface, objects: &Objects) {
    for table in objects.tables() {
        let prefix = format!("{table}.");
        let slots: Vec<(&str, &str)> = interface
            .layout
            .iter()
            .filter_map(|row| Some((row[0].strip_prefix(&prefix)?, row[4].as_str())))
            .filter(|(slot, _)| *slot != "size")
            .collect();
        for (slot, kind) in &slots {
            stub(c, table, slot, &Type::parse(kind));
        }
        let _ = writeln!(c, "static struct {table} t_{table} = {{\n\tsizeof(struct {table}),");
        for (slot, _) in &slots {
            let _ = writeln!(c, "\ts_{table}_{slot},");
        }
        c.push_str("};\n\n");
    }
}

fn stub(c: &mut String, table: &str, slot: &str, kind: &Type) {
    let Type::Function(args, ret) = kind else {
        panic!("{table}.{slot} is no function");
    };
    let params: Vec<String> =
        args.iter().enumerate().map(|(i, arg)| arg.declare(&format!("a{i}"))).collect();
    let head = ret.declare(&format!("s_{table}_{slot}({})", params.join(", ")));
    let _ = writeln!(c, "static {head}\n{{\n\tenter(\"{table}.{slot}\");");
    for i in 0..args.len() {
        let _ = writeln!(c, "\targument((uintptr_t) a{i});");
    }
    if !ret.is_void() {
        let _ = writeln!(c, "\treturn {};", result(ret));
    }
    c.push_str("}\n\n");
}

/// What the stub of a slot returns: a value that needs the full width of the type.
fn result(ret: &Type) -> String {
    match ret {
        Type::Pointer(..) => format!("({}) scratch[15]", ret.declare("")),
        Type::Name(name) if name == "int" => "RETURNED_INT".to_owned(),
        _ => format!("({}) RETURNED_WIDE", ret.declare("")),
    }
}

fn call(
    c: &mut String,
    name: &str,
    args: &[Type],
    ret: &Type,
    table: &str,
    slot: &str,
    size_checked: bool,
) {
    let _ = writeln!(c, "static void call_{name}(void)\n{{");
    for (i, arg) in args.iter().enumerate() {
        let value = value(i, arg);
        let _ = writeln!(c, "\t{} = ({}) {value};", arg.declare(&format!("a{i}")), arg.declare(""));
    }
    let list: Vec<String> = (0..args.len()).map(|i| format!("a{i}")).collect();
    let list = list.join(", ");
    let _ = writeln!(c, "\n\tbegin(\"{name}\");");
    if ret.is_void() {
        let _ = writeln!(c, "\t{name}({list});");
    } else {
        let _ = writeln!(
            c,
            "\texpect_result((uintptr_t) {name}({list}), (uintptr_t) {});",
            result(ret)
        );
    }
    let _ = writeln!(c, "\texpect_slot(\"{table}.{slot}\", {});", args.len());
    for i in 0..args.len() {
        let _ = writeln!(c, "\texpect_argument({i}, (uintptr_t) a{i});");
    }
    if size_checked {
        refused(c, name, &list, table, slot, ret);
    }
    c.push_str("}\n\n");
}

/// A table too short for the slot, or with the slot empty, must not be called.
fn refused(c: &mut String, name: &str, list: &str, table: &str, slot: &str, ret: &Type) {
    let expect = format!(
        "\texpect_result((uintptr_t) {name}({list}), (uintptr_t) ({}) -FI_ENOSYS);\n\texpect_nothing();\n",
        ret.declare("")
    );
    let _ = write!(
        c,
        "\n\tbegin(\"{name}, short table\");\n\tt_{table}.size = offsetof(struct {table}, {slot});\n\
         {expect}\tt_{table}.size = sizeof(struct {table});\n\n\
         \tbegin(\"{name}, empty slot\");\n\tt_{table}.{slot} = NULL;\n\
         {expect}\tt_{table}.{slot} = s_{table}_{slot};\n"
    );
}

/// Distinct values by position: the object itself first, then addresses in the scratch space, and
/// numbers small enough for every integer type.
fn value(position: usize, arg: &Type) -> String {
    match arg {
        Type::Pointer(..) if position == 0 => match arg.pointee_struct() {
            Some("fid") => "&o_fid_ep".to_owned(),
            Some(tag) => format!("&o_{tag}"),
            None => "scratch[0]".to_owned(),
        },
        Type::Pointer(..) => format!("scratch[{position}]"),
        Type::Function(..) => format!("(uintptr_t) {}", 0x1000 + position * 16),
        _ => format!("{}", 3 + position * 7),
    }
}
