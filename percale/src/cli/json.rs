//! Offers and variables for programs.

use percale::{Info, NoProvider, Rejection, attr::EpType, param::Where};
use serde::Serialize;
use serde_json::{Map, Value, to_value};

use super::{env, table};

#[derive(Serialize)]
struct Listing<'a> {
    offers: Vec<Value>,
    rejections: Vec<Reason<'a>>,
    /// Why nothing was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    variables: Option<Vec<Variable>>,
}

#[derive(Serialize)]
struct Reason<'a> {
    provider: &'a str,
    /// Empty where it did not come to offers.
    domains: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    attribute: &'a str,
    wanted: &'a str,
    offered: &'a str,
    fix: &'a str,
}

impl<'a> Reason<'a> {
    fn of(rejection: &'a Rejection) -> Self {
        let Rejection { provider, ep_type, domains, attribute, wanted, offered, fix, shortage: _ } =
            rejection;
        let endpoint =
            (*ep_type != EpType::Unspec).then(|| format!("{ep_type:?}").to_ascii_lowercase());
        Self { provider, domains, endpoint, attribute, wanted, offered, fix }
    }
}

#[derive(Serialize)]
struct Variable {
    name: &'static str,
    provider: &'static str,
    value: Option<String>,
    default: Option<&'static str>,
    origin: String,
    /// What is set and not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    accepts: String,
    help: &'static str,
}

/// Offers and rejections, and the variables where they are asked for, too. Attributes are nested as
/// in the C interface; bit sets are lists of names.
pub(super) fn listing(outcome: &Result<Vec<Info>, NoProvider>, env: bool) -> String {
    let report = percale::last_report();
    let error = outcome.as_ref().err().filter(|e| matches!(e, NoProvider::Version(_)));
    text(&Listing {
        offers: outcome.as_deref().unwrap_or_default().iter().map(nested).collect(),
        rejections: report.iter().map(Reason::of).collect(),
        error: error.map(ToString::to_string),
        variables: env.then(known),
    })
}

/// The known variables.
pub(super) fn variables() -> String {
    text(&known())
}

fn known() -> Vec<Variable> {
    let variable = |state: env::State| Variable {
        name: state.known.name,
        provider: state.known.provider,
        value: state.setting.as_ref().map(|s| s.value.clone()),
        default: state.known.default,
        origin: state.setting.map_or(Where::Default, |s| s.origin).to_string(),
        refused: state.refused,
        accepts: state.known.rule.to_string(),
        help: state.known.help,
    };
    env::states().into_iter().map(variable).collect()
}

fn nested(info: &Info) -> Value {
    let mut whole = Map::new();
    for (name, value) in table::attributes(info) {
        put(&mut whole, name, to_value(value).unwrap_or_default());
    }
    whole.into()
}

/// Puts a value where its name says, parts of which are parted by dots.
fn put(into: &mut Map<String, Value>, name: &str, value: Value) {
    match name.split_once('.') {
        None => {
            into.insert(name.to_owned(), value);
        }
        Some((part, rest)) => {
            let part = into.entry(part).or_insert_with(|| Map::new().into());
            if let Some(part) = part.as_object_mut() {
                put(part, rest, value);
            }
        }
    }
}

fn text(value: &impl Serialize) -> String {
    // Strings, maps and lists of them cannot fail to become JSON.
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_back() {
        let outcome = percale::discover(None);
        let value: Value = serde_json::from_str(&listing(&outcome, true)).unwrap();
        let offer = &value["offers"][0];
        assert_eq!(offer["fabric_attr"]["prov_name"], "shm");
        assert_eq!(offer["tx_attr"]["inject_size"], 4096);
        assert_eq!(offer["domain_attr"]["mr_mode"][0], "FI_MR_VIRT_ADDR");
        assert_eq!(offer["ep_attr"]["protocol"], "FI_PROTO_SHM");
        assert_eq!(offer["ep_attr"]["max_msg_size"], "18446744073709551615");
        let count = percale::param::KNOWN.len();
        assert_eq!(value["variables"].as_array().unwrap().len(), count);
        let value: Value = serde_json::from_str(&variables()).unwrap();
        assert_eq!(value.as_array().unwrap().len(), count);
    }
}
