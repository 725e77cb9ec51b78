//! SETUP. Where values come from: the environment and `libfabric.conf`.

use std::{collections::HashMap, fmt, path::Path, sync::OnceLock};

use super::parse;

/// The file of the system's administrator.
const CONF: &str = "/etc/libfabric.conf";
/// Longest file that is read; anything larger is no list of settings.
const CONF_LIMIT: u64 = 1 << 20;

/// A value and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The text as it stands there.
    pub value: String,
    /// Its origin.
    pub origin: Where,
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// Nobody set it.
    Default,
    /// The environment.
    Environment,
    /// `libfabric.conf`.
    File,
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "default",
            Self::Environment => "environment",
            Self::File => CONF,
        })
    }
}

/// Finds a variable by its full name: the environment first, then the file, or the other way
/// round with `FI_PREFER_SYSCONFIG`.
pub fn lookup(full_name: &str) -> Option<Setting> {
    lookup_in(full_name, file(), environment)
}

/// A value of the environment; one that is not UTF-8 is read with replacement characters.
pub(super) fn environment(full_name: &str) -> Option<String> {
    std::env::var_os(full_name).map(|value| value.to_string_lossy().into_owned())
}

fn lookup_in(
    full_name: &str,
    file: &HashMap<String, String>,
    environment: impl Fn(&str) -> Option<String>,
) -> Option<Setting> {
    let of_env = || Some(Setting { value: environment(full_name)?, origin: Where::Environment });
    let of_file = || Some(Setting { value: file.get(full_name)?.clone(), origin: Where::File });
    let prefer_file =
        environment("FI_PREFER_SYSCONFIG").and_then(|v| parse::truth(&v)).unwrap_or(false);
    if prefer_file { of_file().or_else(of_env) } else { of_env().or_else(of_file) }
}

/// The file's settings, read once per process. A missing or unreadable file has none.
fn file() -> &'static HashMap<String, String> {
    static FILE: OnceLock<HashMap<String, String>> = OnceLock::new();
    FILE.get_or_init(|| {
        let path = Path::new(CONF);
        let small = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() <= CONF_LIMIT);
        let text = if small { std::fs::read(path).unwrap_or_default() } else { Vec::new() };
        parse_file(&String::from_utf8_lossy(&text))
    })
}

/// Lines `FULL_NAME=value`; other lines are passed over, the last one of a name holds.
fn parse_file(text: &str) -> HashMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .filter(|(name, _)| name.starts_with("FI_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_the_two_places() {
        let file = parse_file("FI_A=file\n# FI_C=1\nnonsense\nFI_B = b \nFI_A=last\n");
        assert_eq!(file.len(), 2);
        let found = |prefer: &'static str, name: &str| {
            let env = |n: &str| match n {
                "FI_A" => Some("env".to_owned()),
                "FI_PREFER_SYSCONFIG" => Some(prefer.to_owned()),
                _ => None,
            };
            lookup_in(name, &file, env).map(|s| (s.value, s.origin))
        };
        assert_eq!(found("0", "FI_A"), Some(("env".into(), Where::Environment)));
        assert_eq!(found("yes", "FI_A"), Some(("last".into(), Where::File)));
        assert_eq!(found("0", "FI_B"), Some(("b".into(), Where::File)));
        assert_eq!(found("0", "FI_C"), None);
    }
}
