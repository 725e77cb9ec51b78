//! The book holds together: its pages are listed, its links lead somewhere, and what it says of
//! settings, errors and offers is what the code has.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use fabric_core::{
    Errno,
    attr::{EpAttr, EpType, Info, SHARED_CONTEXT},
    discovery::{Request, Source},
    flags::Flags,
    param::{KNOWN, Kind, known::Rule},
};
use percale_tests::offers::{self, Offer};
use provider_shm::ShmSource;
use provider_tcp::{RxmSource, TcpSource};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The pages of the book, by name.
fn pages() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root().join("docs/src"))
        .expect("the pages")
        .map(|entry| entry.expect("a page").file_name().into_string().expect("a name"))
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.sort();
    names
}

/// A page without its code.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            // Between backticks nothing is a link.
            out.extend(line.split('`').step_by(2));
            out.push('\n');
        }
    }
    out
}

/// Where links of a page lead: path and anchor.
fn links(text: &str) -> Vec<(String, Option<String>)> {
    let targets = prose(text);
    let targets = targets.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets
        .filter(|(target, _)| !target.contains("://"))
        .map(|(target, _)| match target.split_once('#') {
            Some((path, anchor)) => (path.to_owned(), Some(anchor.to_owned())),
            None => (target.to_owned(), None),
        })
        .collect()
}

/// The anchors of a page, as mdBook and GitHub make them of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut seen = HashMap::new();
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            })
            .collect();
        let again: &mut usize = seen.entry(slug.clone()).or_default();
        anchors.insert(if *again == 0 { slug } else { format!("{slug}-{again}") });
        *again += 1;
    }
    anchors
}

#[test]
fn every_page_is_listed_once() {
    let listed: Vec<String> =
        links(&read("docs/src/SUMMARY.md")).into_iter().map(|(path, _)| path).collect();
    for page in pages().iter().filter(|page| *page != "SUMMARY.md") {
        let times = listed.iter().filter(|path| *path == page).count();
        assert_eq!(times, 1, "{page} in the summary");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let book = Path::new("docs/src");
    let mut documents: Vec<PathBuf> = pages().iter().map(|page| book.join(page)).collect();
    documents.extend(["README.md".into(), "CHANGELOG.md".into()]);
    let mut followed = 0;
    for document in &documents {
        for (path, anchor) in links(&read(document)) {
            let target = match path.as_str() {
                "" => document.clone(),
                path => document.parent().expect("a directory").join(path),
            };
            let name = format!("{}: {path}", document.display());
            assert!(root().join(&target).exists(), "{name}: there is no such file");
            // What is outside of the book does not come along with it.
            assert!(
                !document.starts_with(book) || target.parent() == Some(book),
                "{name}: outside"
            );
            if let Some(anchor) = anchor {
                assert!(
                    anchors(&read(&target)).contains(&anchor),
                    "{name}#{anchor}: no such heading"
                );
            }
            followed += 1;
        }
    }
    assert!(followed > 60, "only {followed} links");
}

/// The table of the settings: each variable with its type, bounds and default.
#[test]
fn the_settings_are_those_of_the_code() {
    let page = read("docs/src/configuration.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `FI_"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .filter(|cells: &Vec<&str>| cells.len() == 4)
        .collect();
    let mut named: HashMap<&str, &Vec<&str>> =
        rows.iter().map(|cells| (cells[0].trim_matches('`'), cells)).collect();
    assert_eq!(named.len(), rows.len(), "a variable twice");
    for known in KNOWN {
        let name = known.name;
        let cells = named.remove(name).unwrap_or_else(|| panic!("{name} is missing"));
        if let Some(default) = known.default {
            assert_eq!(cells[2].trim_matches('`'), default, "default of {name}");
        }
        let kind = cells[1];
        let fits = match (known.kind, known.rule) {
            (_, Rule::Interfaces) => kind == "interfaces",
            (Kind::Bool, _) => kind == "truth",
            (Kind::Text, _) => kind == "text",
            (_, Rule::Number(least, most)) if most < i64::from(i32::MAX) => {
                kind.ends_with(&format!(", {least} to {most}"))
            }
            _ => ["number", "size", "seconds"].iter().any(|word| kind.starts_with(word)),
        };
        assert!(fits, "type of {name}: {kind}");
    }
    assert!(named.is_empty(), "no such variables: {named:?}");
}

/// Errors that the code knows by name, and those that it returns.
#[test]
fn every_error_is_explained() {
    let page = read("docs/src/troubleshooting.md");
    let mut explained = BTreeSet::new();
    for part in page.split("`FI_E").skip(1) {
        let Some((name, rest)) = part.split_once('`') else { continue };
        if let Some(number) = rest.strip_prefix(" (").and_then(|rest| rest.split(')').next()) {
            let number: i32 = number.parse().unwrap_or_else(|_| panic!("FI_E{name}: {number}"));
            assert_eq!(Errno::new(number).name(), Some(&*format!("E{name}")), "{number}");
            explained.insert(format!("E{name}"));
        }
    }
    let mut returned = BTreeSet::new();
    for place in ["fabric-core", "provider-shm", "provider-tcp", "provider-verbs", "ffi", "percale"]
    {
        collect(&root().join(place).join("src"), &mut returned);
    }
    let missing: Vec<_> = returned.difference(&explained).collect();
    assert!(missing.is_empty(), "nothing says what these mean: {missing:?}");
}

/// Names behind `Errno::` in code that is no test.
fn collect(place: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(place).expect("sources").flatten() {
        let path = entry.path();
        let name = entry.file_name().into_string().expect("a name");
        if name.contains("test") || name.contains("mock") {
            continue;
        }
        if path.is_dir() {
            collect(&path, names);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for part in code.split("Errno::E").skip(1) {
                let end = part.find(|c: char| !c.is_ascii_uppercase()).unwrap_or(part.len());
                names.insert(format!("E{}", &part[..end]));
            }
        }
    }
}

/// The tables of the provider pages. That of verbs is checked where there is a device to ask.
#[test]
fn offers_are_those_of_the_code() {
    let here = |source: &dyn Source, ep_type: EpType| {
        let node = (source.name() != "shm").then_some("127.0.0.1");
        let hints = |caps: Flags, contexts: usize| Info {
            caps,
            ep: Some(EpAttr { ep_type: ep_type as u32, rx_ctx_cnt: contexts, ..EpAttr::default() }),
            ..Info::default()
        };
        let first = |hints: &Info| {
            let request = Request {
                node,
                flags: if node.is_some() { Flags::SOURCE } else { Flags::empty() },
                hints: Some(hints),
                ..Request::default()
            };
            let offers = source.offers(&request).expect("an offer on any host");
            let same =
                |info: &Info| info.ep.as_ref().is_some_and(|ep| ep.ep_type == ep_type as u32);
            offers.into_iter().find(same).expect("an offer of this type")
        };
        let contexts = if ep_type == EpType::Msg { SHARED_CONTEXT } else { 0 };
        Offer {
            plain: first(&hints(Flags::empty(), 0)),
            asked: first(&hints(Flags::all(), contexts)),
        }
    };
    offers::check("shm.md", &[here(&ShmSource, EpType::Rdm)]);
    offers::check(
        "tcp.md",
        &[
            here(&TcpSource, EpType::Rdm),
            here(&TcpSource, EpType::Msg),
            here(&RxmSource, EpType::Rdm),
        ],
    );
}
