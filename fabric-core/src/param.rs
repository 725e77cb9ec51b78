//! SETUP. Configuration variables: `FI_*` in the environment, or lines of `libfabric.conf`.
//!
//! Two kinds of readers share one lookup. Providers of others define variables and read them by
//! the rules of `fi_param_get` ([`define`], [`get`]), where junk is a number too. The library's
//! own variables are [`known`], strict and with a default: a value that is refused is named in a
//! warning, once, and the default holds.

mod conf;
mod interfaces;
pub mod known;
mod near;
mod parse;
mod ports;

use std::{
    collections::HashSet,
    ffi::{CStr, CString},
    sync::MutexGuard,
};

pub use conf::{Setting, Where, faults, lookup};
pub use interfaces::{InterfaceFilter, Pattern, same_subnet};
pub use known::{KNOWN, Known, Refused, refused};
pub use near::{Suspect, nearest, suspects, warn_of_mistakes};
pub use ports::TcpPorts;

use crate::{Errno, Result, fork::ForkSafe};

/// The type of a variable: `enum fi_param_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// Text.
    Text = 0,
    /// A C `int`.
    Int = 1,
    /// 0/1, true/false, yes/no, on/off.
    Bool = 2,
    /// A C `size_t`.
    Size = 3,
}

impl Kind {
    /// Parses the value of the C enum.
    pub const fn from_c(raw: u32) -> Option<Self> {
        match raw {
            0 => Some(Self::Text),
            1 => Some(Self::Int),
            2 => Some(Self::Bool),
            3 => Some(Self::Size),
            _ => None,
        }
    }

    /// What a value of this type looks like.
    pub const fn accepts(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int => "a whole number",
            Self::Bool => "0 or 1, true or false, yes or no, on or off",
            Self::Size => "a whole number, not negative",
        }
    }
}

/// A value by the rules of `fi_param_get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Lives as long as the process.
    Text(&'static CStr),
    /// An `int`.
    Int(i32),
    /// A truth value.
    Bool(bool),
    /// A `size_t`.
    Size(usize),
}

/// A defined variable, as `fi_getparams` reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The full name, `FI_...`.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// What it does, behind the provider's name.
    pub help: String,
    /// The value in the environment; a value in the file is not reported.
    pub value: Option<String>,
}

struct Defined {
    name: String,
    kind: Kind,
    help: String,
}

static DEFINED: ForkSafe<Vec<Defined>> = ForkSafe::new(Vec::new());

fn defined() -> MutexGuard<'static, Vec<Defined>> {
    let mut guard = DEFINED.lock();
    if guard.is_empty() {
        guard.extend(KNOWN.iter().map(|known| Defined {
            name: known.name.to_owned(),
            kind: known.kind,
            help: match known.default {
                Some(default) => {
                    format!("{}: {} (default: {default})", known.provider, known.help)
                }
                None => format!("{}: {}", known.provider, known.help),
            },
        }));
    }
    guard
}

/// `FI_<NAME>` for the core (`None` or "core"), `FI_<PROVIDER>_<NAME>` for a provider.
pub fn full_name(provider: Option<&str>, name: &str) -> String {
    match provider.filter(|p| !p.eq_ignore_ascii_case("core")) {
        None => format!("FI_{name}"),
        Some(provider) => format!("FI_{provider}_{name}"),
    }
    .to_ascii_uppercase()
}

/// Adds a variable (`fi_param_define`). Defining it again is harmless, the first one stays.
/// A name with `=` or NUL, or an empty one, is `EINVAL`.
pub fn define(provider: Option<&str>, name: &str, kind: Kind, help: &str) -> Result<()> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Errno::EINVAL);
    }
    let full = full_name(provider, name);
    let mut all = defined();
    if all.iter().all(|d| d.name != full) {
        let help = format!("{}: {help}", provider.unwrap_or("core"));
        all.push(Defined { name: full, kind, help });
    }
    Ok(())
}

/// Reads a defined variable (`fi_param_get`): `ENOENT` if it was never defined, `ENODATA` if it
/// has no value, `EINVAL` for a truth value that is none.
pub fn get(provider: Option<&str>, name: &str) -> Result<Value> {
    let full = full_name(provider, name);
    let kind = defined().iter().find(|d| d.name == full).map(|d| d.kind).ok_or(Errno::ENOENT)?;
    let text = lookup(&full).ok_or(Errno::ENODATA)?.value;
    Ok(match kind {
        Kind::Text => Value::Text(intern(text)?),
        Kind::Int => Value::Int(parse::c_int(&text)),
        Kind::Size => Value::Size(parse::c_size(&text)),
        Kind::Bool => Value::Bool(parse::truth(&text).ok_or(Errno::EINVAL)?),
    })
}

/// Every defined variable (`fi_getparams`).
pub fn list() -> Vec<Listed> {
    let listed = |d: &Defined| Listed {
        name: d.name.clone(),
        kind: d.kind,
        help: d.help.clone(),
        value: conf::environment(&d.name),
    };
    defined().iter().map(listed).collect()
}

/// Keeps text for the life of the process, once for each distinct value.
fn intern(text: String) -> Result<&'static CStr> {
    static TEXTS: ForkSafe<Option<HashSet<&'static CStr>>> = ForkSafe::new(None);
    let text = CString::new(text).map_err(|_| Errno::EINVAL)?;
    let mut texts = TEXTS.lock();
    let texts = texts.get_or_insert_with(HashSet::new);
    if let Some(kept) = texts.get(text.as_c_str()) {
        return Ok(kept);
    }
    let kept: &'static CStr = Box::leak(text.into_boxed_c_str());
    texts.insert(kept);
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(full_name(None, "log_level"), "FI_LOG_LEVEL");
        assert_eq!(full_name(Some("core"), "hook"), "FI_HOOK");
        assert_eq!(full_name(Some("ofi_rxm"), "sar_limit"), "FI_OFI_RXM_SAR_LIMIT");
    }

    #[test]
    fn define_get_list() {
        assert_eq!(get(None, "percale_test_never"), Err(Errno::ENOENT));
        define(Some("ptest"), "depth", Kind::Size, "how deep").unwrap();
        define(Some("ptest"), "depth", Kind::Int, "again").unwrap();
        assert_eq!(get(Some("ptest"), "depth"), Err(Errno::ENODATA));
        assert_eq!(define(None, "", Kind::Int, ""), Err(Errno::EINVAL));
        assert_eq!(define(None, "a=b", Kind::Int, ""), Err(Errno::EINVAL));
        let all = list();
        let depth = all.iter().find(|l| l.name == "FI_PTEST_DEPTH").unwrap();
        assert_eq!((depth.kind, depth.help.as_str()), (Kind::Size, "ptest: how deep"));
        assert!(all.iter().any(|l| l.name == "FI_PROVIDER" && l.help.starts_with("core: ")));
    }

    #[test]
    fn texts_are_kept_once() {
        let a = intern("same".into()).unwrap();
        let b = intern("same".into()).unwrap();
        assert!(std::ptr::eq(a, b));
        assert_eq!(intern("nul\0".into()), Err(Errno::EINVAL));
    }
}
