//! What workers and their conductor say to each other: one line each, words with values.
//!
//! | who | line | |
//! |---|---|---|
//! | worker | `ready address=HEX remote=HEX atomics=0\|1 version=TEXT` | it has opened an endpoint; `remote` only with memory for peers |
//! | conductor | `peer address=HEX remote=HEX` | where the other one is |
//! | worker | `met` | it can be sent to |
//! | conductor | `run KIND SIZE WINDOW COUNT` | the same to both; the server first |
//! | worker | `done seconds=F p50=NS p90=NS p99=NS p999=NS max=NS` | what the client has measured; the server's figures are nothing |
//! | worker | `failed TEXT` | and ends |
//!
//! The end of its input ends a worker. The C program that measures other libraries speaks the same.

use std::{
    collections::HashMap,
    fmt,
    io::{self, BufRead, Read},
};

/// What is done between two workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A message there and one back.
    Latency,
    /// Windows of messages, each answered by one.
    Messages,
    /// Windows of writes to the other's memory.
    Write,
    /// Windows of reads.
    Read,
    /// Additions to words of the other's memory that fetch the old values.
    FetchAdd,
    /// Additions that fetch nothing.
    Add,
}

impl Kind {
    pub(super) const ALL: [Self; 6] =
        [Self::Latency, Self::Messages, Self::Write, Self::Read, Self::FetchAdd, Self::Add];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Messages => "messages",
            Self::Write => "write",
            Self::Read => "read",
            Self::FetchAdd => "fetch-add",
            Self::Add => "add",
        }
    }
}

/// An order to both workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) kind: Kind,
    /// Bytes of each operation.
    pub(super) size: usize,
    /// Operations that are outstanding at once.
    pub(super) window: usize,
    /// Windows.
    pub(super) count: usize,
}

/// No order asks for more memory.
pub(super) const MEMORY: usize = 1 << 26;
/// Bytes of a line, at most.
const LINE: u64 = 4096;

impl Order {
    /// Windows of an order, at most.
    pub(super) const MOST: usize = 1 << 20;

    /// From a line that begins with `run`; `None` for any other, or one that asks for too much.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("run ")?.split(' ');
        let name = words.next()?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name)?;
        let mut number = || words.next()?.parse::<usize>().ok();
        let order = Self { kind, size: number()?, window: number()?, count: number()? };
        let fits = order.size.checked_mul(order.window).is_some_and(|bytes| bytes <= MEMORY);
        (fits && (1..=4096).contains(&order.window) && (1..=Self::MOST).contains(&order.count))
            .then_some(order)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} {} {} {}", self.kind.name(), self.size, self.window, self.count)
    }
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Took {
    pub(super) seconds: f64,
    /// Nanoseconds of single operations; zero where several were outstanding.
    pub(super) percentiles: [f64; 5],
}

/// The names of the percentiles, the last of which is the largest.
pub(super) const PERCENTILES: [&str; 5] = ["p50", "p90", "p99", "p999", "max"];

impl Took {
    /// Of the times of single operations, in nanoseconds.
    pub(super) fn of(seconds: f64, mut nanos: Vec<f64>) -> Self {
        nanos.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let last = nanos.len().saturating_sub(1);
            nanos.get((last as f64 * part).round() as usize).copied().unwrap_or(0.0)
        };
        Self { seconds, percentiles: [0.5, 0.9, 0.99, 0.999, 1.0].map(at) }
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let values = values(line.strip_prefix("done ")?);
        let number = |name: &str| values.get(name)?.parse::<f64>().ok();
        let mut percentiles = [0.0; 5];
        for (place, name) in percentiles.iter_mut().zip(PERCENTILES) {
            *place = number(name)?;
        }
        Some(Self { seconds: number("seconds")?, percentiles })
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "done seconds={:.9}", self.seconds)?;
        for (name, nanos) in PERCENTILES.iter().zip(self.percentiles) {
            write!(f, " {name}={nanos:.1}")?;
        }
        Ok(())
    }
}

/// The lines of `input` until its end or an error. Who is at the other end may be anybody, and cannot
/// make one longer than any of ours is.
pub(super) fn lines(mut input: impl BufRead) -> impl Iterator<Item = io::Result<String>> {
    std::iter::from_fn(move || {
        let mut line = String::new();
        match input.by_ref().take(LINE).read_line(&mut line) {
            Ok(0) => None,
            Ok(_) if line.pop() == Some('\n') => Some(Ok(line)),
            Ok(_) => Some(Err(io::Error::new(io::ErrorKind::InvalidData, "a line has no end"))),
            Err(error) => Some(Err(error)),
        }
    })
}

/// The values of a line's words.
pub(super) fn values(line: &str) -> HashMap<&str, &str> {
    line.split(' ').filter_map(|word| word.split_once('=')).collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(*pair.get(1)?)?) as u8);
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back() {
        let order = Order { kind: Kind::FetchAdd, size: 8, window: 1, count: 100 };
        assert_eq!(Order::parse(&order.to_string()), Some(order));
        for bad in ["", "run", "run sing 1 1 1", "run write 1 0 1", "run write 999999999 4096 1"] {
            assert_eq!(Order::parse(bad), None, "{bad}");
        }
        let took = Took { seconds: 1.5, percentiles: [1.0, 2.0, 3.0, 4.0, 5.5] };
        assert_eq!(Took::parse(&took.to_string()), Some(took));
        assert_eq!(Took::parse("done seconds=1"), None);
        assert_eq!(unhex(&hex(b"\x00\xfe.")), Some(b"\x00\xfe.".to_vec()));
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("0g"), None);
    }

    #[test]
    fn lines_have_an_end() {
        let read = |bytes: &[u8]| lines(bytes).map(Result::ok).collect::<Vec<_>>();
        assert_eq!(read(b"met\ndone 1\n"), [Some("met".to_owned()), Some("done 1".to_owned())]);
        assert_eq!(read(b"me"), [None]);
        assert_eq!(read(&[b'x'; 5000])[0], None);
        assert_eq!(read(b"\xff\n"), [None]);
    }

    #[test]
    fn percentiles_of_few_and_of_many() {
        assert_eq!(Took::of(1.0, vec![]).percentiles, [0.0; 5]);
        let took = Took::of(1.0, (0..=1000).rev().map(f64::from).collect());
        assert_eq!(took.percentiles, [500.0, 900.0, 990.0, 999.0, 1000.0]);
    }
}
