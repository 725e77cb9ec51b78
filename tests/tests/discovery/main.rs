//! What the tcp provider offers, beside what an upstream library offers for the same request on the
//! same host. Processes of one job may run on either and have to choose alike, so every field is
//! compared, and each difference that is allowed stands here with its reason.
//!
//! Upstream is what `PERCALE_UPSTREAM_LIB` names, else the library inside the MPICH wheel of
//! `build/venv`; without one nothing is compared.

mod cases;
mod crowd;

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use cases::{ALLOWED, CASES, MORE};
use percale_tests::{
    library,
    programs::{Running, compile},
    rig::scratch,
    upstream,
};

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn tcp_offers_what_upstream_offers() {
    let Some(upstream) = upstream() else {
        eprintln!("there is no upstream library: nothing to compare with");
        return;
    };
    let ours = library();
    let program = scratch("fields");
    compile("fields.c", &program);
    if ask(&program, &ours, &["version=2.5"]).is_empty() {
        eprintln!("this build offers no tcp: nothing to compare");
        return;
    }
    let mut wrong = String::new();
    for (name, arguments) in CASES {
        let theirs = ask(&program, &upstream, arguments);
        let mut own = ask(&program, &ours, arguments);
        for (key, offer) in &theirs {
            match own.remove(key) {
                None => wrong += &format!("{name}: {key:?} is missing\n"),
                Some(mine) => compare(name, key, offer, &mine, &mut wrong),
            }
        }
        if !MORE.iter().any(|(case, _)| case == name) {
            for key in own.keys() {
                wrong += &format!("{name}: {key:?} is not upstream's\n");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// What tells offers of one answer apart: type, receive contexts, tags, interface, addresses.
type Key = [String; 6];
type Fields = BTreeMap<String, String>;

fn compare(name: &str, key: &Key, theirs: &Fields, mine: &Fields, wrong: &mut String) {
    for (field, value) in theirs {
        let own = mine.get(field).map_or("nothing", String::as_str);
        let allowed =
            ALLOWED.iter().any(|(allowed, _, holds)| allowed == field && holds(name, theirs, mine));
        if own != value && !allowed {
            *wrong += &format!("{name}: {key:?}: {field} is {own}, upstream {value}\n");
        }
    }
}

fn number(offer: &Fields, field: &str) -> u64 {
    let text = offer[field].trim_start_matches("0x");
    u64::from_str_radix(text, 16).expect("a number")
}

/// The offers of tcp itself, without layers above it; none for a call that fails.
fn ask(program: &Path, library: &Path, arguments: &[&str]) -> BTreeMap<Key, Fields> {
    let mut command = Command::new(program);
    without_settings(&mut command).arg(library);
    let answer = Running::start(command, arguments, DEADLINE).output("fields");
    let mut offers = BTreeMap::new();
    for fields in offers_in(&answer) {
        let twin = offers.insert(key(&fields), fields);
        assert!(twin.is_none(), "an offer twice: {twin:?}");
    }
    offers
}

/// Settings of the user are not those of the test.
fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FI_")) {
        command.env_remove(name);
    }
    command.env("FI_PROVIDER", "tcp")
}

fn offers_in(answer: &str) -> Vec<Fields> {
    let fields = |text: &str| -> Fields {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let all = answer.split("info ").skip(1).map(fields);
    all.filter(|fields| fields["fabric.prov_name"] == "tcp").collect()
}

fn key(fields: &Fields) -> Key {
    ["ep.type", "ep.rx_ctx_cnt", "ep.mem_tag_format", "domain.name", "src_addr", "dest_addr"]
        .map(|name| fields[name].clone())
}
