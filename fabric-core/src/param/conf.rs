//! SETUP. Where values come from: the environment and `libfabric.conf`.

use std::{collections::HashMap, fmt, path::Path, sync::OnceLock};

use super::parse;

/// The file of the system's administrator.
const CONF: &str = "/etc/libfabric.conf";
/// Longest file that is read; anything larger is no list of settings.
const CONF_LIMIT: u64 = 1 << 20;

/// Wrong lines that are told.
const FAULTS: usize = 5;

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

/// What is wrong with the file: why it cannot be read, or which lines are no settings.
pub fn faults() -> &'static [String] {
    &contents().faults
}

/// The names that the file sets.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    file().keys().map(String::as_str)
}

fn file() -> &'static HashMap<String, String> {
    &contents().settings
}

/// What the file says. A missing one says nothing.
#[derive(Debug, Default)]
struct Contents {
    settings: HashMap<String, String>,
    faults: Vec<String>,
}

/// Read once per process.
fn contents() -> &'static Contents {
    static CONTENTS: OnceLock<Contents> = OnceLock::new();
    CONTENTS.get_or_init(|| match read(Path::new(CONF)) {
        Ok(text) => Contents::parse(&text),
        Err(fault) => Contents { faults: vec![fault], ..Contents::default() },
    })
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("it cannot be read: {error}");
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        found => found.map_err(unreadable)?,
    };
    if !metadata.is_file() {
        return Err("it is no regular file, and is not read".to_owned());
    }
    if metadata.len() > CONF_LIMIT {
        let len = metadata.len();
        return Err(format!("it has {len} bytes, and is not read: {CONF_LIMIT} are the most"));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Contents {
    /// Lines `FULL_NAME=value`; the last one of a name holds. Empty ones and those that begin with
    /// `#` are comments, others faults.
    fn parse(text: &str) -> Self {
        let mut all = Self::default();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            let setting = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
            match setting {
                _ if line.is_empty() || line.starts_with('#') => {}
                Some((name, value)) if name.starts_with("FI_") => {
                    all.settings.insert(name.to_owned(), value.to_owned());
                }
                _ if all.faults.len() == FAULTS => {}
                _ => {
                    let shown: String = line.chars().take(40).collect();
                    let at = at + 1;
                    all.faults
                        .push(format!("line {at} is no FI_NAME=value, and ignored: {shown:?}"));
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_the_two_places() {
        let contents =
            Contents::parse("FI_A=file\n# FI_C=1\nnonsense\nFI_B = b \nFI_A=last\n\nD=1\n");
        let file = contents.settings;
        assert_eq!(file.len(), 2);
        let faults = contents.faults;
        assert_eq!(faults.len(), 2);
        assert_eq!(faults[0], "line 3 is no FI_NAME=value, and ignored: \"nonsense\"");
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

    #[test]
    fn a_file_that_cannot_be_read_is_a_fault() {
        assert_eq!(read(Path::new("/nonexistent/libfabric.conf")), Ok(String::new()));
        assert!(read(Path::new("/")).unwrap_err().contains("no regular file"));
        assert!(read(Path::new("/dev/null/x")).unwrap_err().contains("cannot be read"));
        assert_eq!(Contents::parse(&"x\n".repeat(100)).faults.len(), FAULTS);
    }
}
