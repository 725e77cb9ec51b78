//! What `tcp` and `tcp;ofi_rxm` offer, beside what an upstream library offers for the same request on the
//! same host. Processes of one job may run on either and have to choose alike, so every field is
//! compared, and each difference that is allowed stands here with its reason.
//!
//! Upstream is what `PERCALE_UPSTREAM_LIB` names, else the library inside the MPICH wheel of
//! `build/venv`; without one nothing is compared.

mod cases;
mod crowd;
mod layered;

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use cases::{ALLOWED, Allowed, CASES, Case, MORE};
use percale_tests::{
    library,
    programs::{Running, compile},
    rig::scratch,
    upstream,
};

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn tcp_offers_what_upstream_offers() {
    Comparison { provider: "tcp", cases: CASES, allowed: &[ALLOWED], more: MORE }.run();
}

#[test]
fn tcp_ofi_rxm_offers_what_upstream_offers() {
    let (cases, more) = (layered::CASES, layered::MORE);
    let allowed = &[ALLOWED, layered::ALLOWED];
    Comparison { provider: layered::NAME, cases, allowed, more }.run();
}

/// Requests, and how the answers to them may differ.
struct Comparison {
    provider: &'static str,
    cases: &'static [Case],
    allowed: &'static [&'static [Allowed]],
    /// Cases in which we offer more.
    more: &'static [(&'static str, &'static str)],
}

impl Comparison {
    fn run(&self) {
        let Some(upstream) = upstream() else {
            eprintln!("there is no upstream library: nothing to compare with");
            return;
        };
        let ours = library();
        let program = scratch(&format!("fields-{}", self.provider));
        compile("fields.c", &program);
        let ask = |library, arguments| ask(&program, library, self.provider, arguments);
        if ask(&ours, &["version=2.5"]).is_empty() {
            eprintln!("this build offers no {}: nothing to compare", self.provider);
            return;
        }
        let mut wrong = String::new();
        for (name, arguments) in self.cases {
            let theirs = ask(&upstream, arguments);
            let mut own = ask(&ours, arguments);
            for (key, offer) in &theirs {
                match own.remove(key) {
                    None if layered::is_left_out(self.provider, name, offer) => {}
                    None => wrong += &format!("{name}: {key:?} is missing\n"),
                    Some(mine) => self.compare(name, key, offer, &mine, &mut wrong),
                }
            }
            if !self.more.iter().any(|(case, _)| case == name) {
                for key in own.keys() {
                    wrong += &format!("{name}: {key:?} is not upstream's\n");
                }
            }
        }
        assert!(wrong.is_empty(), "\n{wrong}");
    }

    fn compare(&self, name: &str, key: &Key, theirs: &Fields, mine: &Fields, wrong: &mut String) {
        let all = self.allowed.iter().copied().flatten();
        for (field, value) in theirs {
            let own = mine.get(field).map_or("nothing", String::as_str);
            let mut same = all.clone().filter(|(allowed, ..)| allowed == field);
            if own != value && !same.any(|(_, _, holds)| holds(name, theirs, mine)) {
                *wrong += &format!("{name}: {key:?}: {field} is {own}, upstream {value}\n");
            }
        }
    }
}

/// What tells offers of one answer apart: type, receive contexts, tags, interface, addresses.
type Key = [String; 6];
type Fields = BTreeMap<String, String>;

fn number(offer: &Fields, field: &str) -> u64 {
    let text = offer[field].trim_start_matches("0x");
    u64::from_str_radix(text, 16).expect("a number")
}

/// The offers of a provider, without layers above it; none for a call that fails.
fn ask(
    program: &Path,
    library: &Path,
    provider: &str,
    arguments: &[&str],
) -> BTreeMap<Key, Fields> {
    let mut command = Command::new(program);
    without_settings(&mut command).env("FI_PROVIDER", provider).arg(library);
    let answer = Running::start(command, arguments, DEADLINE).output("fields");
    let mut offers = BTreeMap::new();
    for fields in offers_in(&answer, provider) {
        let twin = offers.insert(key(&fields), fields);
        // Layers offer once more for each kind of endpoint beneath them.
        assert!(twin.is_none() || provider.contains(';'), "an offer twice: {twin:?}");
    }
    offers
}

/// Settings of the user are not those of the test.
fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FI_")) {
        command.env_remove(name);
    }
    command
}

fn offers_in(answer: &str, provider: &str) -> Vec<Fields> {
    let fields = |text: &str| -> Fields {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let all = answer.split("info ").skip(1).map(fields);
    all.filter(|fields| fields["fabric.prov_name"] == provider).collect()
}

fn key(fields: &Fields) -> Key {
    ["ep.type", "ep.rx_ctx_cnt", "ep.mem_tag_format", "domain.name", "src_addr", "dest_addr"]
        .map(|name| fields[name].clone())
}
