//! What was measured, as a table and as JSON.

use std::{fmt::Write, path::PathBuf};

use serde::Serialize;

use super::{
    super::{
        figures::{aligned, bytes, short},
        run::is_ours,
    },
    partner::{Pair, Program},
    words::{Kind, Order, PERCENTILES, Took},
};

/// Something that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) size: usize,
    pub(super) window: usize,
}

impl Case {
    pub(super) const fn order(self, count: usize) -> Order {
        Order { kind: self.kind, size: self.size, window: self.window, count }
    }

    /// What its lines stand under.
    pub(super) fn group(self) -> &'static str {
        match (self.kind, self.window) {
            (Kind::Latency, _) => "latency: half of a round trip",
            (Kind::Messages, _) => "bandwidth: windows of messages",
            (Kind::Write, 1) => "write: one at a time",
            (Kind::Write, _) => "write: windows",
            (Kind::Read, 1) => "read: one at a time",
            (Kind::Read, _) => "read: windows",
            (Kind::FetchAdd, 1) => "atomic: fetch and add, one at a time",
            (Kind::FetchAdd, _) => "atomic: fetch and add, windows",
            (Kind::Add, _) => "atomic: add, windows",
        }
    }

    /// Single operations have a time each, windows have a rate.
    pub(super) const fn is_latency(self) -> bool {
        matches!(self.kind, Kind::Latency)
            || self.window == 1 && !matches!(self.kind, Kind::Messages)
    }

    pub(super) fn title(self) -> String {
        format!("{} {}", self.group(), bytes(self.size))
    }
}

/// A library that takes part.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Side {
    pub(super) name: String,
    version: String,
    provider: String,
    /// Of the C program; this command has its own.
    #[serde(rename = "library", skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

impl Side {
    pub(super) fn of(program: &Program, pair: &Pair) -> Self {
        let path = match program {
            Program::Own => None,
            Program::Foreign { library, .. } => Some(library.clone()),
        };
        let (version, provider) = (pair.version.clone(), pair.provider.clone());
        let ours = path.as_ref().is_none_or(|path| is_ours(path));
        let name = if ours { "Percale".to_owned() } else { format!("libfabric {version}") };
        Self { name, version, provider, path }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Nanoseconds for each operation.
    nanos: f64,
    percentiles: [f64; 5],
}

/// Lines of one thing over sizes, one for each side.
pub(super) struct Curves {
    pub(super) group: &'static str,
    pub(super) unit: &'static str,
    /// Size in bytes, and the value there.
    pub(super) sides: Vec<Vec<(f64, f64)>>,
}

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) sides: Vec<Side>,
    floor: Option<f64>,
    processors: Option<[usize; 2]>,
    rounds: u32,
    /// For each case, and each side, what every round has shown.
    rows: Vec<(Case, Vec<Vec<Sample>>)>,
}

#[derive(Serialize)]
struct Document<'a> {
    sides: &'a [Side],
    processors: Option<[usize; 2]>,
    /// Nanoseconds that a cache line takes from one processor to the other.
    cache_line: Option<f64>,
    rounds: u32,
    figures: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    what: &'static str,
    size: usize,
    window: usize,
    /// One for each side.
    of: Vec<Figure>,
    /// Times of the first side through those of the second; the median over the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

/// Medians over the rounds.
#[derive(Serialize)]
struct Figure {
    operations_per_second: f64,
    bytes_per_second: f64,
    /// Of single operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    nanoseconds: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Results {
    pub(super) const fn new(
        sides: Vec<Side>,
        floor: Option<f64>,
        processors: Option<[usize; 2]>,
        rounds: u32,
    ) -> Self {
        Self { sides, floor, processors, rounds, rows: Vec::new() }
    }

    /// A round of one side.
    pub(super) fn add(&mut self, case: Case, side: usize, count: usize, took: Took) {
        if self.rows.last().is_none_or(|(last, _)| *last != case) {
            self.rows.push((case, vec![Vec::new(); self.sides.len()]));
        }
        // A round trip is two messages.
        let each = if case.kind == Kind::Latency { 2 } else { 1 };
        let operations = count * case.window * each;
        let nanos = took.seconds * 1e9 / operations as f64;
        let sample = Sample { nanos, percentiles: took.percentiles };
        if let Some((_, samples)) = self.rows.last_mut() {
            samples[side].push(sample);
        }
    }

    /// What there is to be drawn.
    pub(super) fn curves(&self) -> Vec<Curves> {
        let mut groups: Vec<Curves> = Vec::new();
        for (case, samples) in &self.rows {
            if groups.last().is_none_or(|curves| curves.group != case.group()) {
                let sides = vec![Vec::new(); self.sides.len()];
                groups.push(Curves { group: case.group(), unit: unit(*case), sides });
            }
            let Some(curves) = groups.last_mut() else { continue };
            for (curve, samples) in curves.sides.iter_mut().zip(samples) {
                curve.push((case.size as f64, median(samples, |sample| value(*case, sample))));
            }
        }
        groups
    }

    /// For people.
    pub(super) fn table(&self) -> String {
        let mut text = self.head();
        let mut group = "";
        let mut rows: Vec<Vec<String>> = Vec::new();
        for (case, samples) in &self.rows {
            if case.group() != group {
                text.push_str(&aligned(&rows));
                group = case.group();
                let _ = match self.sides.len() {
                    1 if !case.is_latency() => writeln!(text, "\n{group}"),
                    1 => writeln!(text, "\n{group}, {}", unit(*case)),
                    _ => writeln!(text, "\n{group}, {} (least..largest)", unit(*case)),
                };
                rows = vec![self.columns(*case)];
            }
            rows.push(self.cells(*case, samples));
        }
        text + &aligned(&rows)
    }

    fn head(&self) -> String {
        let mut text = String::new();
        for side in &self.sides {
            // Writing to a text cannot fail.
            let _ = write!(text, "{} {}, {}", side.name, side.version, side.provider);
            let path = side.path.as_ref().map(|path| format!(", {}", path.display()));
            let _ = writeln!(text, "{}", path.unwrap_or_default());
        }
        if let Some([client, server]) = self.processors {
            let _ = write!(text, "processors {client} and {server}");
            if let Some(floor) = self.floor {
                let _ = write!(text, ", a cache line takes {floor:.0} ns between them");
            }
            text.push('\n');
        } else {
            text.push_str("not kept on processors of their own: figures vary\n");
        }
        text
    }

    fn columns(&self, case: Case) -> Vec<String> {
        let mut row = vec!["SIZE".to_owned()];
        if self.sides.len() > 1 {
            row.extend(self.sides.iter().map(|side| side.name.clone()));
            row.push("TIMES' RATIO".to_owned());
        } else if case.is_latency() {
            row.extend(["MEDIAN", "90 %", "99 %", "99.9 %", "MOST"].map(str::to_owned));
        } else {
            row.extend(["WINDOW", "MILLION/S", "MB/S"].map(str::to_owned));
        }
        row
    }

    fn cells(&self, case: Case, samples: &[Vec<Sample>]) -> Vec<String> {
        let mut row = vec![bytes(case.size)];
        if self.sides.len() > 1 {
            for samples in samples {
                let mut values: Vec<f64> = samples.iter().map(|s| value(case, s)).collect();
                values.sort_by(f64::total_cmp);
                let (least, most) = (values.first(), values.last());
                let range = least.zip(most).map(|(a, b)| format!("{}..{}", short(*a), short(*b)));
                let middle = median(samples, |sample| value(case, sample));
                row.push(format!("{} ({})", short(middle), range.unwrap_or_default()));
            }
            row.push(ratio(case, samples).map_or_else(String::new, |ratio| format!("{ratio:.2}")));
        } else if case.is_latency() {
            let at = |i: usize| short(median(&samples[0], |s| s.percentiles[i] / 1e3));
            row.extend((0..PERCENTILES.len()).map(at));
        } else {
            let nanos = median(&samples[0], |sample| sample.nanos);
            row.push(case.window.to_string());
            row.push(short(1e3 / nanos));
            row.push(short(case.size as f64 * 1e3 / nanos));
        }
        row
    }

    pub(super) fn json(&self) -> String {
        let figure = |case: Case, samples: &Vec<Sample>| {
            let nanos = median(samples, |sample| sample.nanos);
            let percentile = |(i, name): (usize, &&str)| {
                ((*name).to_owned(), median(samples, |sample| sample.percentiles[i]).into())
            };
            Figure {
                operations_per_second: 1e9 / nanos,
                bytes_per_second: case.size as f64 * 1e9 / nanos,
                nanoseconds: case
                    .is_latency()
                    .then(|| PERCENTILES.iter().enumerate().map(percentile).collect()),
            }
        };
        let row = |(case, samples): &(Case, Vec<Vec<Sample>>)| Row {
            what: case.kind.name(),
            size: case.size,
            window: case.window,
            of: samples.iter().map(|samples| figure(*case, samples)).collect(),
            ratio: ratio(*case, samples),
        };
        let document = Document {
            sides: &self.sides,
            processors: self.processors,
            cache_line: self.floor,
            rounds: self.rounds,
            figures: self.rows.iter().map(row).collect(),
        };
        // Strings, numbers and lists of them cannot fail to become JSON.
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }
}

/// The C program, beside this command or where it has been installed to.
pub(super) fn client() -> Result<PathBuf, String> {
    const NAME: &str = "percale-bench";
    let own = std::env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|error| format!("this command does not find itself: {error}"))?;
    let folder = own.parent().map(PathBuf::from).unwrap_or_default();
    let candidates =
        [folder.join("libexec").join(NAME), folder.join("../libexec/percale").join(NAME)];
    let found = candidates.iter().find(|path| path.is_file());
    found.cloned().ok_or_else(|| {
        format!(
            "{NAME} is missing, which measures other libraries (looked for {} and {}): `make build` \
             makes it, `make install` installs it",
            candidates[0].display(),
            candidates[1].display()
        )
    })
}

/// What the values of a case are.
const fn unit(case: Case) -> &'static str {
    match case.kind {
        _ if case.is_latency() => "microseconds",
        Kind::FetchAdd | Kind::Add => "million a second",
        _ => "MB/s",
    }
}

/// What stands for a sample in tables that compare, and in drawings: its value in that unit.
fn value(case: Case, sample: &Sample) -> f64 {
    match case.kind {
        _ if case.is_latency() => sample.percentiles[0] / 1e3,
        Kind::FetchAdd | Kind::Add => 1e3 / sample.nanos,
        _ => case.size as f64 * 1e3 / sample.nanos,
    }
}

/// The first side's times through the second one's, round by round, since a host changes its speed.
fn ratio(case: Case, samples: &[Vec<Sample>]) -> Option<f64> {
    let [ours, other] = samples else { return None };
    let time = |s: &Sample| if case.is_latency() { s.percentiles[0] } else { s.nanos };
    let mut ratios: Vec<f64> = ours.iter().zip(other).map(|(a, b)| time(a) / time(b)).collect();
    ratios.sort_by(f64::total_cmp);
    middle(&ratios)
}

fn median(samples: &[Sample], value: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    middle(&values).unwrap_or(0.0)
}

/// Of sorted numbers.
fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(sides: usize) -> Results {
        let side = |i| Side {
            name: format!("side {i}"),
            version: "1".to_owned(),
            provider: "shm".to_owned(),
            path: None,
        };
        let mut results = Results::new((0..sides).map(side).collect(), None, None, 2);
        let latency = Case { kind: Kind::Latency, size: 8, window: 1 };
        let bandwidth = Case { kind: Kind::Messages, size: 4096, window: 64 };
        for side in 0..sides {
            for _ in 0..2 {
                let percentiles = [1000.0 * (side + 1) as f64, 2e3, 3e3, 4e3, 5e3];
                results.add(latency, side, 10, Took { seconds: 2e-5, percentiles });
            }
        }
        for side in 0..sides {
            results.add(bandwidth, side, 1, Took { seconds: 64e-6, percentiles: [0.0; 5] });
        }
        results
    }

    #[test]
    fn tables() {
        let text = results(1).table();
        assert!(text.contains("latency: half of a round trip, microseconds\n"), "{text}");
        assert!(text.contains("   8 B    1.00  2.00  3.00    4.00  5.00\n"), "{text}");
        assert!(text.contains("  4 KiB      64       1.00  4096\n"), "{text}");
        let text = results(2).table();
        assert!(text.contains("1.00 (1.00..1.00)  2.00 (2.00..2.00)          0.50\n"), "{text}");
    }

    #[test]
    fn documents() {
        let value: serde_json::Value = serde_json::from_str(&results(2).json()).unwrap();
        let rows = value["figures"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0]["of"][0]["nanoseconds"]["p999"], 4000.0);
        assert_eq!(rows[0]["of"][0]["operations_per_second"], 1e6);
        assert_eq!(rows[0]["ratio"], 0.5);
        assert!(rows[1]["of"][1].get("nanoseconds").is_none());
    }

    #[test]
    fn middles() {
        assert_eq!(middle(&[1.0, 2.0]), Some(1.5));
        assert_eq!(middle(&[]), None);
    }
}
