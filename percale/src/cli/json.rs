//! Offers and variables for programs.

use percale::{
    Info, Rejection,
    param::{KNOWN, Where},
};
use serde::Serialize;
use serde_json::{Map, Value, to_value};

use super::{env, table};

#[derive(Serialize)]
struct Listing<'a> {
    offers: Vec<Value>,
    rejections: Vec<Reason<'a>>,
}

#[derive(Serialize)]
struct Reason<'a> {
    provider: &'a str,
    attribute: &'a str,
    wanted: &'a str,
    offered: &'a str,
    fix: &'a str,
}

impl<'a> Reason<'a> {
    fn of(rejection: &'a Rejection) -> Self {
        let Rejection { provider, attribute, wanted, offered, fix, .. } = rejection;
        Self { provider, attribute, wanted, offered, fix }
    }
}

#[derive(Serialize)]
struct Variable {
    name: &'static str,
    provider: &'static str,
    value: Option<String>,
    default: Option<&'static str>,
    origin: String,
    help: &'static str,
}

/// Offers and rejections. Attributes are nested as in the C interface; bit sets are lists of names.
pub(super) fn offers(infos: &[Info], report: &[Rejection]) -> String {
    let rejections = report.iter().map(Reason::of).collect();
    text(&Listing { offers: infos.iter().map(nested).collect(), rejections })
}

/// The known variables.
pub(super) fn variables() -> String {
    let variable = |known: &&'static percale::param::Known| {
        let setting = known.setting();
        let origin = setting.as_ref().map_or(Where::Default, |s| s.origin);
        Variable {
            name: known.name,
            provider: known.provider,
            value: setting.is_some().then(|| env::value(known).0),
            default: known.default,
            origin: origin.to_string(),
            help: known.help,
        }
    };
    text(&KNOWN.iter().map(variable).collect::<Vec<_>>())
}

fn nested(info: &Info) -> Value {
    let mut whole = Map::new();
    for (name, value) in table::attributes(info) {
        let value = to_value(value).unwrap_or_default();
        match name.split_once('.') {
            None => {
                whole.insert(name.to_owned(), value);
            }
            Some((part, field)) => {
                let part = whole.entry(part).or_insert_with(|| Map::new().into());
                if let Some(part) = part.as_object_mut() {
                    part.insert(field.to_owned(), value);
                }
            }
        }
    }
    whole.into()
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
        let infos = percale::discover(None).unwrap();
        let value: Value = serde_json::from_str(&offers(&infos, &percale::last_report())).unwrap();
        let offer = &value["offers"][0];
        assert_eq!(offer["fabric_attr"]["prov_name"], "shm");
        assert_eq!(offer["tx_attr"]["inject_size"], 4096);
        assert_eq!(offer["domain_attr"]["mr_mode"][0], "FI_MR_VIRT_ADDR");
        assert!(value["rejections"].as_array().unwrap().iter().any(|r| r["provider"] == "tcp"));
        let value: Value = serde_json::from_str(&variables()).unwrap();
        assert_eq!(value.as_array().unwrap().len(), KNOWN.len());
    }
}
