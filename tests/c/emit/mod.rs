//! SETUP: writes C programs from the tables in `tests/abi`.
//!
//! The tables say what the published interface is; the programs make a compiler say whether a
//! set of headers agrees.

pub(crate) mod ctype;
pub(crate) mod layout;
pub(crate) mod wrappers;

use std::fs;
use std::path::Path;

/// Rows of a tab-separated table, each a list of columns, without the heading.
pub(crate) type Rows = Vec<Vec<String>>;

/// One release's interface.
#[derive(Debug)]
pub(crate) struct Interface {
    /// name, offset, size, align, kind, header
    pub(crate) layout: Rows,
    /// name, value, hex, origin, header
    pub(crate) constants: Rows,
    /// kind, name, signature, header, dispatch, size_checked
    pub(crate) functions: Rows,
}

impl Interface {
    /// Reads the tables with this suffix ("" or "-1.17"), leaving out what comes from headers that
    /// `dir`, an include directory, does not hold: distributions do not install all of them.
    pub(crate) fn load(abi: &Path, suffix: &str, dir: &Path) -> Self {
        let table = |what: &str, header_column: usize| -> Rows {
            let path = abi.join(format!("abi-{what}{suffix}.tsv"));
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
            text.lines()
                .skip(1)
                .map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>())
                .filter(|row| dir.join("rdma").join(&row[header_column]).exists())
                .collect()
        };
        Self {
            layout: table("layout", 5),
            constants: table("constants", 4),
            functions: table("functions", 3),
        }
    }

    /// `#include` lines for every header that has a row.
    pub(crate) fn includes(&self) -> String {
        let mut headers: Vec<&str> = self
            .layout
            .iter()
            .map(|row| &row[5])
            .chain(self.constants.iter().map(|row| &row[4]))
            .chain(self.functions.iter().map(|row| &row[3]))
            .map(String::as_str)
            .collect();
        headers.sort_unstable();
        headers.dedup();
        headers.iter().map(|header| format!("#include <rdma/{header}>\n")).collect()
    }
}
