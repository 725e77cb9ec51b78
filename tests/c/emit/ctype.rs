//! SETUP: the tables' type notation and how C spells it.

/// A type as the tables write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Type {
    /// A named type, in C spelling.
    Name(String),
    /// Pointer; the flag says that the pointee is const.
    Pointer(bool, Box<Self>),
    /// Pointer to function.
    Function(Vec<Self>, Box<Self>),
    /// Array of a known length.
    Array(Box<Self>, usize),
    /// The end of a variadic list.
    Variadic,
}

impl Type {
    /// Parses the whole of `text`; panics on anything the tables never say.
    pub(crate) fn parse(text: &str) -> Self {
        let (parsed, rest) = parse_prefix(text);
        assert!(rest.is_empty(), "{rest:?} left over in type {text:?}");
        parsed
    }

    /// C declaration of `name` with this type; an empty name gives the type itself.
    pub(crate) fn declare(&self, name: &str) -> String {
        match self {
            Self::Name(base) if name.is_empty() => base.clone(),
            Self::Name(base) => format!("{base} {name}"),
            Self::Pointer(true, to) if matches!(**to, Self::Name(_)) => {
                format!("const {}", to.declare(&format!("*{name}")))
            }
            Self::Pointer(is_const, to) => {
                to.declare(&format!("{}*{name}", if *is_const { "const " } else { "" }))
            }
            Self::Function(args, ret) => ret.declare(&format!("(*{name})({})", list(args))),
            Self::Array(of, len) => of.declare(&format!("({name})[{len}]")),
            Self::Variadic => "...".to_owned(),
        }
    }

    /// C prototype of a function of this type.
    pub(crate) fn prototype(&self, name: &str) -> String {
        let Self::Function(args, ret) = self else {
            panic!("{name} is no function");
        };
        ret.declare(&format!("{name}({})", list(args)))
    }

    /// Whether this is plain `void`.
    pub(crate) fn is_void(&self) -> bool {
        matches!(self, Self::Name(name) if name == "void")
    }

    /// The `X` of a pointer to `struct X`.
    pub(crate) fn pointee_struct(&self) -> Option<&str> {
        match self {
            Self::Pointer(_, to) => match &**to {
                Self::Name(name) => name.strip_prefix("struct "),
                _ => None,
            },
            _ => None,
        }
    }
}

fn list(args: &[Type]) -> String {
    if args.is_empty() {
        return "void".to_owned();
    }
    let args: Vec<String> = args.iter().map(|arg| arg.declare("")).collect();
    args.join(", ")
}

fn parse_prefix(text: &str) -> (Type, &str) {
    if let Some(rest) = text.strip_prefix("*mut ") {
        let (to, rest) = parse_prefix(rest);
        return (Type::Pointer(false, Box::new(to)), rest);
    }
    if let Some(rest) = text.strip_prefix("*const ") {
        let (to, rest) = parse_prefix(rest);
        return (Type::Pointer(true, Box::new(to)), rest);
    }
    if let Some(rest) = text.strip_prefix("fn(") {
        return parse_function(rest);
    }
    if let Some(rest) = text.strip_prefix("...") {
        return (Type::Variadic, rest);
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (of, rest) = parse_prefix(rest);
        let (len, rest) = rest
            .strip_prefix("; ")
            .and_then(|rest| rest.split_once(']'))
            .unwrap_or_else(|| panic!("bad array {text:?}"));
        let len = len.parse().unwrap_or_else(|_| panic!("bad array length in {text:?}"));
        return (Type::Array(Box::new(of), len), rest);
    }
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .unwrap_or(text.len());
    assert!(end > 0, "no type at {text:?}");
    (Type::Name(spelling(&text[..end])), &text[end..])
}

/// Parses what follows `fn(`.
fn parse_function(mut text: &str) -> (Type, &str) {
    let mut args = Vec::new();
    loop {
        if let Some(rest) = text.strip_prefix(')') {
            text = rest;
            break;
        }
        let (arg, rest) = parse_prefix(text);
        args.push(arg);
        text = rest.strip_prefix(", ").unwrap_or(rest);
    }
    let (ret, rest) = text
        .strip_prefix(" -> ")
        .map_or_else(|| (Type::Name("void".to_owned()), text), parse_prefix);
    (Type::Function(args, Box::new(ret)), rest)
}

fn spelling(name: &str) -> String {
    if let Some(tag) = name.strip_prefix("enum:") {
        return format!("enum {tag}");
    }
    let name = name.rsplit(':').next().unwrap_or(name);
    match name {
        "c_char" => "char",
        "usize" => "size_t",
        "isize" => "ssize_t",
        "i32" => "int",
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "void" | "bool" | "fi_addr_t" | "pthread_mutex_t" | "pthread_cond_t" => name,
        tag => return format!("struct {tag}"),
    }
    .to_owned()
}

#[test]
fn types_are_spelled_as_c_does() {
    let cases = [
        ("*const c_char", "const char *x"),
        ("*mut *mut fid", "struct fid **x"),
        ("u64:fi_addr_t", "fi_addr_t x"),
        ("[*mut void; 4]", "void *(x)[4]"),
        ("fn()", "void (*x)(void)"),
        (
            "fn(*mut fid, fn(i32) -> u64, ...) -> *mut void",
            "void *(*x)(struct fid *, uint64_t (*)(int), ...)",
        ),
    ];
    for (notation, c) in cases {
        assert_eq!(Type::parse(notation).declare("x"), c);
    }
}
