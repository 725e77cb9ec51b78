//! SETUP. What has happened, for people and for collectors.

use core::fmt::Write;

use fabric_core::engine::Stats;

/// One counter: its name, what it counts, and where it is.
type Metric = (&'static str, &'static str, fn(&Stats) -> u64);

const METRICS: [Metric; 8] = [
    ("eager", "Messages sent in one packet.", |s| s.eager),
    ("rendezvous", "Messages whose bytes stayed with the sender at first.", |s| s.rendezvous),
    ("copies", "Transfers copied directly from a peer's memory.", |s| s.copies),
    ("segments", "Segments of large transfers sent.", |s| s.segments),
    ("received", "Messages received.", |s| s.received),
    ("unexpected", "Messages that came before their receive.", |s| s.unexpected),
    ("queued", "Operations that had to wait for room or order.", |s| s.queued),
    ("served", "One-sided and atomic operations served for peers.", |s| s.served),
];

/// Counts of endpoints, each with a name for it, in the text form of Prometheus.
///
/// ```
/// # fn main() -> percale::Result<()> {
/// let domain = percale::Fabric::loopback()?.domain()?;
/// let endpoint = domain.endpoint()?;
/// let text = percale::prometheus_text([("control", endpoint.stats())]);
/// assert!(text.contains("percale_received_total{endpoint=\"control\"} 0\n"));
/// # Ok(())
/// # }
/// ```
pub fn prometheus_text<'a>(endpoints: impl IntoIterator<Item = (&'a str, Stats)>) -> String {
    let endpoints: Vec<(String, Stats)> =
        endpoints.into_iter().map(|(name, stats)| (escape(name), stats)).collect();
    let mut text = String::new();
    for (metric, help, value) in METRICS {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP percale_{metric}_total {help}");
        let _ = writeln!(text, "# TYPE percale_{metric}_total counter");
        for (name, stats) in &endpoints {
            let value = value(stats);
            let _ = writeln!(text, "percale_{metric}_total{{endpoint=\"{name}\"}} {value}");
        }
    }
    text
}

/// A value as it stands between quotes.
fn escape(name: &str) -> String {
    name.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_metrics_grouped() {
        let stats = Stats { received: 3, ..Stats::default() };
        let text = prometheus_text([("a\"b\\c\n", stats), ("d", Stats::default())]);
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("percale_received_total")).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[2], r#"percale_received_total{endpoint="a\"b\\c\n"} 3"#);
        assert_eq!(text.lines().count(), METRICS.len() * 4);
    }
}
