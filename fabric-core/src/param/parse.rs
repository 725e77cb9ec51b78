//! SETUP. Text to values: the forgiving rules of the C interface, and strict ones for ourselves.

/// Base 16 behind `0x`, 8 behind `0`, else 10; what is no number is 0, what is too large wraps.
pub(super) fn c_int(text: &str) -> i32 {
    lenient(text) as i32
}

/// As [`c_int`]; a negative number wraps.
pub(super) fn c_size(text: &str) -> usize {
    lenient(text) as usize
}

/// Numbers of the whole text only, in the same bases.
pub(super) fn strict<T: TryFrom<i128>>(text: &str) -> Option<T> {
    let (negative, digits) = sign(text.trim());
    let (radix, digits) = base(digits);
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    T::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// Truth values, in any case.
pub(super) fn truth(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|w| w.eq_ignore_ascii_case(text));
    if is(&["1", "true", "yes", "on"]) {
        Some(true)
    } else if is(&["0", "false", "no", "off"]) {
        Some(false)
    } else {
        None
    }
}

fn lenient(text: &str) -> u64 {
    let (negative, digits) = sign(text.trim_start());
    let (radix, digits) = base(digits);
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    // A number beyond 64 bits stays at the largest one, as strtoull(3) does.
    let magnitude = match &digits[..end] {
        "" => 0,
        run => u64::from_str_radix(run, radix).unwrap_or(u64::MAX),
    };
    if negative { magnitude.wrapping_neg() } else { magnitude }
}

fn sign(text: &str) -> (bool, &str) {
    match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    }
}

fn base(digits: &str) -> (u32, &str) {
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => (16, hex),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lenient_numbers() {
        for (text, value) in
            [("12", 12), (" 0x10", 16), ("0600", 0o600), ("junk", 0), ("", 0), ("7up", 7)]
        {
            assert_eq!(c_int(text), value, "{text:?}");
        }
        assert_eq!(c_int("-3"), -3);
        assert_eq!(c_size("-1"), usize::MAX);
        assert_eq!(c_size("999999999999999999999999"), usize::MAX);
    }

    #[test]
    fn strict_numbers() {
        assert_eq!(strict::<usize>("4096"), Some(4096));
        assert_eq!(strict::<usize>("0x10"), Some(16));
        assert_eq!(strict::<usize>("0"), Some(0));
        assert_eq!(strict::<i32>("-2"), Some(-2));
        for junk in ["", "-", "4k", "-1", "0x", "08", "1 2", "٣", "99999999999999999999999999"] {
            assert_eq!(strict::<usize>(junk), None, "{junk:?}");
        }
        assert_eq!(strict::<i32>("4294967296"), None);
    }

    #[test]
    fn truths() {
        assert_eq!(truth("Yes"), Some(true));
        assert_eq!(truth("OFF"), Some(false));
        assert_eq!(truth("2"), None);
        assert_eq!(truth(""), None);
    }

    proptest! {
        #[test]
        fn any_text_parses_to_something(text in ".{0,40}") {
            let _ = (c_int(&text), c_size(&text), strict::<usize>(&text), truth(&text));
        }
    }
}
