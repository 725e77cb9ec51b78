//! Numbers for people, and from them.

use std::{fmt::Write, ops::RangeInclusive};

/// Three digits that count.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `4096` as `4 KiB`.
pub(super) fn bytes(size: usize) -> String {
    match size {
        size if size >= 1 << 20 && size.is_multiple_of(1 << 20) => format!("{} MiB", size >> 20),
        size if size >= 1 << 10 && size.is_multiple_of(1 << 10) => format!("{} KiB", size >> 10),
        size => format!("{size} B"),
    }
}

/// `4K` as 4096, if that is within the limits.
pub(super) fn size(text: &str, limits: RangeInclusive<usize>) -> Result<usize, String> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let (digits, shift) = match (bare.strip_suffix('K'), bare.strip_suffix('M')) {
        (Some(digits), _) => (digits, 10),
        (_, Some(digits)) => (digits, 20),
        _ => (bare, 0),
    };
    let bytes = digits.parse::<usize>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.filter(|bytes| limits.contains(bytes)).ok_or_else(|| {
        let (least, most) = (bytes_short(*limits.start()), bytes_short(*limits.end()));
        format!("{text:?} is no size from {least} to {most}, as in 8, 4K or 1M")
    })
}

/// As it is typed.
fn bytes_short(size: usize) -> String {
    bytes(size).trim_end_matches(['B', 'i']).replace(' ', "")
}

/// Columns of numbers end below each other.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |i: usize| rows.iter().filter_map(|row| row.get(i)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|i| width(i).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a text cannot fail.
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let values = [123.4, 12.34, 1.234, 0.1234].map(short);
        assert_eq!(values, ["123", "12.3", "1.23", "0.123"]);
        let sizes = [8, 4096, 5000, 1 << 20].map(bytes);
        assert_eq!(sizes, ["8 B", "4 KiB", "5000 B", "1 MiB"]);
        let rows = [["a", "bb"], ["ccc", "d"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows), "    a  bb\n  ccc   d\n");
    }

    #[test]
    fn numbers_from_people() {
        let size = |text| size(text, 1..=32 << 20);
        assert_eq!((size("8"), size("4k"), size("1MiB")), (Ok(8), Ok(4096), Ok(1 << 20)));
        for bad in ["0", "1G", "x", "", "K", "99999999999999999999", "64M"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert!(size("0").unwrap_err().contains("from 1 to 32M"));
    }
}
