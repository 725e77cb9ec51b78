//! The variables, for people.

use percale::param::{KNOWN, Known, Where, suspects};

use super::table::columns;

/// Every known variable: name, value, origin, meaning; then what looks like a typing mistake.
pub(super) fn table() -> String {
    let mut rows = vec![["VARIABLE", "VALUE", "FROM", "MEANING"].map(str::to_owned).to_vec()];
    for known in KNOWN {
        let (value, origin) = value(known);
        rows.push(vec![known.name.to_owned(), value, origin, known.help.to_owned()]);
    }
    let mut text = columns(&rows);
    for suspect in suspects() {
        text.push_str(&format!(
            "\n{} is set but not read; did you mean {}?\n",
            suspect.name, suspect.meant
        ));
    }
    text
}

/// The value in force and its origin. A value that is refused is shown as such.
pub(super) fn value(known: &Known) -> (String, String) {
    match known.setting() {
        None => ("-".to_owned(), Where::Default.to_string()),
        Some(setting) if known.accepts(&setting.value) => {
            (setting.value, setting.origin.to_string())
        }
        Some(setting) => {
            let refused = format!("{} (refused: not {})", setting.value, known.kind.accepts());
            (refused, setting.origin.to_string())
        }
    }
}
