//! The variables, for people.

use percale::{
    SOURCES,
    discovery::ProviderFilter,
    param::{KNOWN, Known, Setting, TcpPorts, Where, faults, known, lookup, suspects},
};

use super::table::columns;

/// A variable as it stands.
pub(super) struct State {
    pub(super) known: &'static Known,
    /// The value in force.
    pub(super) setting: Option<Setting>,
    /// What is set and not taken, or names nothing that exists.
    pub(super) refused: Option<String>,
}

/// All of them, in the order of the listing.
pub(super) fn states() -> Vec<State> {
    let state = |known: &&'static Known| {
        let set = lookup(known.name);
        let refused = set.and_then(|set| {
            if known.accepts(&set.value) {
                strangers(known, &set.value)
            } else {
                Some(format!("{:?} ({}) is not {}", set.value, set.origin, known.rule))
            }
        });
        State { known, setting: known.setting(), refused }
    };
    let mut states: Vec<State> = KNOWN.iter().map(state).collect();
    if let Some(fault) = TcpPorts::in_force().fault {
        for state in &mut states {
            if [&known::TCP_PORT_LOW, &known::TCP_PORT_HIGH].contains(&state.known) {
                let value = state.known.default.unwrap_or_default().to_owned();
                state.setting = Some(Setting { value, origin: Where::Default });
                state.refused.get_or_insert_with(|| fault.clone());
            }
        }
    }
    states
}

/// Names of providers that do not exist, where the variable is a list of providers.
fn strangers(known: &Known, value: &str) -> Option<String> {
    let mut cores: Vec<&str> = SOURCES.iter().map(|source| source.name()).collect();
    match known.name {
        "FI_PROVIDER" => {}
        // The library itself speaks as one, too.
        "FI_LOG_PROV" => cores.push("core"),
        _ => return None,
    }
    let filter = ProviderFilter::parse(value);
    let names = filter.strangers(&cores);
    (!names.is_empty()).then(|| format!("there is no provider {}", names.join(", ")))
}

/// Every known variable: name, value, origin, meaning; then what is wrong with them.
pub(super) fn table() -> String {
    let mut rows = vec![["VARIABLE", "VALUE", "FROM", "MEANING"].map(str::to_owned).to_vec()];
    let mut wrong = String::new();
    for State { known, setting, refused } in states() {
        let origin = setting.as_ref().map_or(Where::Default, |s| s.origin).to_string();
        let value = match setting {
            None => "-".to_owned(),
            Some(setting) if setting.value.is_empty() => r#""""#.to_owned(),
            Some(setting) => setting.value,
        };
        rows.push(vec![known.name.to_owned(), value, origin, known.help.to_owned()]);
        if let Some(refused) = refused {
            wrong.push_str(&format!("{}: {refused}\n", known.name));
        }
    }
    for suspect in suspects() {
        wrong.push_str(&format!("{suspect}\n"));
    }
    for fault in faults() {
        wrong.push_str(&format!("{}: {fault}\n", Where::File));
    }
    let blank = if wrong.is_empty() { "" } else { "\n" };
    columns(&rows) + blank + &wrong
}
