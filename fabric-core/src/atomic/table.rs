//! HOT. The table of operations, datatypes and families.

use atomic_op::*;

use crate::{Errno, Result, op::AtomicKind};

/// Values of `enum fi_datatype`.
pub mod datatype {
    /// Signed, 8 bits.
    pub const INT8: u32 = 0;
    /// Unsigned, 8 bits.
    pub const UINT8: u32 = 1;
    /// Signed, 16 bits.
    pub const INT16: u32 = 2;
    /// Unsigned, 16 bits.
    pub const UINT16: u32 = 3;
    /// Signed, 32 bits.
    pub const INT32: u32 = 4;
    /// Unsigned, 32 bits.
    pub const UINT32: u32 = 5;
    /// Signed, 64 bits.
    pub const INT64: u32 = 6;
    /// Unsigned, 64 bits.
    pub const UINT64: u32 = 7;
    /// IEEE single precision.
    pub const FLOAT: u32 = 8;
    /// IEEE double precision.
    pub const DOUBLE: u32 = 9;
    /// Two single precision numbers, real part first.
    pub const FLOAT_COMPLEX: u32 = 10;
    /// Two double precision numbers.
    pub const DOUBLE_COMPLEX: u32 = 11;
    /// The C compiler's `long double`.
    pub const LONG_DOUBLE: u32 = 12;
    /// Two `long double` numbers.
    pub const LONG_DOUBLE_COMPLEX: u32 = 13;
    /// Signed, 128 bits.
    pub const INT128: u32 = 14;
    /// Unsigned, 128 bits.
    pub const UINT128: u32 = 15;
    /// IEEE half precision.
    pub const FLOAT16: u32 = 16;
    /// Truncated single precision.
    pub const BFLOAT16: u32 = 17;
    /// 8-bit float, 4 exponent bits.
    pub const FLOAT8_E4M3: u32 = 18;
    /// 8-bit float, 5 exponent bits.
    pub const FLOAT8_E5M2: u32 = 19;
    /// No data; collectives only.
    pub const VOID: u32 = 256;
}

/// Values of `enum fi_op`. Below, "operand" is the initiator's element and "target" the remote one.
pub mod atomic_op {
    /// The smaller of both.
    pub const MIN: u32 = 0;
    /// The larger of both.
    pub const MAX: u32 = 1;
    /// Sum; integers wrap.
    pub const SUM: u32 = 2;
    /// Product; integers wrap.
    pub const PROD: u32 = 3;
    /// One if any is non-zero, else zero.
    pub const LOR: u32 = 4;
    /// One if both are non-zero, else zero.
    pub const LAND: u32 = 5;
    /// Bitwise or.
    pub const BOR: u32 = 6;
    /// Bitwise and.
    pub const BAND: u32 = 7;
    /// One if exactly one is non-zero, else zero.
    pub const LXOR: u32 = 8;
    /// Bitwise exclusive or.
    pub const BXOR: u32 = 9;
    /// Fetches the target, changes nothing.
    pub const ATOMIC_READ: u32 = 10;
    /// Replaces the target.
    pub const ATOMIC_WRITE: u32 = 11;
    /// Replaces the target if the comparison value equals it.
    pub const CSWAP: u32 = 12;
    /// ... if the comparison value differs from it.
    pub const CSWAP_NE: u32 = 13;
    /// ... if the comparison value is less than or equal to it.
    pub const CSWAP_LE: u32 = 14;
    /// ... if the comparison value is less than it.
    pub const CSWAP_LT: u32 = 15;
    /// ... if the comparison value is greater than or equal to it.
    pub const CSWAP_GE: u32 = 16;
    /// ... if the comparison value is greater than it.
    pub const CSWAP_GT: u32 = 17;
    /// Replaces those bits of the target that are set in the comparison value.
    pub const MSWAP: u32 = 18;
    /// Declared by the interface, offered by no datatype.
    pub const DIFF: u32 = 19;
    /// No operation; collectives only.
    pub const NOOP: u32 = 256;
}

/// Bytes of one element; `None` for values that are no datatype, and for `FI_VOID`, which has none.
///
/// Having a size says nothing about atomic operations: ask [`valid`].
pub const fn datatype_size(datatype: u32) -> Option<usize> {
    use datatype::*;
    Some(match datatype {
        INT8 | UINT8 | FLOAT8_E4M3 | FLOAT8_E5M2 => 1,
        INT16 | UINT16 | FLOAT16 | BFLOAT16 => 2,
        INT32 | UINT32 | FLOAT => 4,
        INT64 | UINT64 | DOUBLE | FLOAT_COMPLEX => 8,
        DOUBLE_COMPLEX | LONG_DOUBLE | INT128 | UINT128 => 16,
        LONG_DOUBLE_COMPLEX => 32,
        _ => return None,
    })
}

/// Whether the combination exists; returns the bytes of one element.
///
/// Everything else, values outside the enumerations included, is [`Errno::EOPNOTSUPP`]: the
/// interface has one answer for "not here" and applications probe with it. Elements wider than the
/// widest CPU atomic (8 bytes) and the short floating point formats have no operations.
pub const fn valid(kind: AtomicKind, datatype: u32, op: u32) -> Result<usize> {
    let offered = match kind {
        AtomicKind::Base => UPDATES,
        AtomicKind::Fetch => UPDATES | bit(ATOMIC_READ),
        AtomicKind::Compare => COMPARES,
    };
    if op > MSWAP || offered & datatype_ops(datatype) & bit(op) == 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    match datatype_size(datatype) {
        Some(size) => Ok(size),
        None => Err(Errno::EOPNOTSUPP),
    }
}

const fn bit(op: u32) -> u32 {
    1 << op
}

/// Operations of a datatype in any family.
const fn datatype_ops(datatype: u32) -> u32 {
    match datatype {
        datatype::INT8..=datatype::UINT64 => ANY,
        datatype::FLOAT | datatype::DOUBLE => ANY & !BITWISE,
        datatype::FLOAT_COMPLEX => ANY & !BITWISE & !ORDERED,
        _ => 0,
    }
}

const UPDATES: u32 = bit(MIN)
    | bit(MAX)
    | bit(SUM)
    | bit(PROD)
    | bit(LOR)
    | bit(LAND)
    | bit(BOR)
    | bit(BAND)
    | bit(LXOR)
    | bit(BXOR)
    | bit(ATOMIC_WRITE);

const COMPARES: u32 = bit(CSWAP)
    | bit(CSWAP_NE)
    | bit(CSWAP_LE)
    | bit(CSWAP_LT)
    | bit(CSWAP_GE)
    | bit(CSWAP_GT)
    | bit(MSWAP);

const ANY: u32 = UPDATES | COMPARES | bit(ATOMIC_READ);

/// Meaningless on floating point numbers.
const BITWISE: u32 = bit(BOR) | bit(BAND) | bit(BXOR) | bit(MSWAP);

/// Meaningless on complex numbers.
const ORDERED: u32 =
    bit(MIN) | bit(MAX) | bit(CSWAP_LE) | bit(CSWAP_LT) | bit(CSWAP_GE) | bit(CSWAP_GT);

#[cfg(test)]
mod tests {
    use super::*;

    /// One line per datatype, one column per operation 0 to 19; the family's columns only.
    /// Rows: base and fetch (columns 0 to 11), compare (columns 12 to 18).
    const UPDATE_ROWS: [(&str, &str); 20] = [
        // min max sum prod lor land bor band lxor bxor read write
        ("int8", "xxxxxxxxxxrx"),
        ("uint8", "xxxxxxxxxxrx"),
        ("int16", "xxxxxxxxxxrx"),
        ("uint16", "xxxxxxxxxxrx"),
        ("int32", "xxxxxxxxxxrx"),
        ("uint32", "xxxxxxxxxxrx"),
        ("int64", "xxxxxxxxxxrx"),
        ("uint64", "xxxxxxxxxxrx"),
        ("float", "xxxxxx..x.rx"),
        ("double", "xxxxxx..x.rx"),
        ("float complex", "..xxxx..x.rx"),
        ("double complex", "............"),
        ("long double", "............"),
        ("long double complex", "............"),
        ("int128", "............"),
        ("uint128", "............"),
        ("float16", "............"),
        ("bfloat16", "............"),
        ("float8 e4m3", "............"),
        ("float8 e5m2", "............"),
    ];

    fn compare_row(datatype: usize) -> &'static str {
        match datatype {
            0..8 => "xxxxxxx",
            8 | 9 => "xxxxxx.",
            10 => "xx.....",
            _ => ".......",
        }
    }

    const SIZES: [usize; 20] = [1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16, 32, 16, 16, 2, 2, 1, 1];

    #[test]
    fn whole_table() {
        for (datatype, (name, row)) in UPDATE_ROWS.iter().enumerate() {
            for op in 0..32 {
                let update = row.chars().nth(op).unwrap_or('.');
                let compare = op.checked_sub(12).and_then(|c| compare_row(datatype).chars().nth(c));
                let expected = [
                    (AtomicKind::Base, update == 'x'),
                    (AtomicKind::Fetch, update != '.'),
                    (AtomicKind::Compare, compare == Some('x')),
                ];
                for (kind, exists) in expected {
                    let want = if exists { Ok(SIZES[datatype]) } else { Err(Errno::EOPNOTSUPP) };
                    let got = valid(kind, datatype as u32, op as u32);
                    assert_eq!(got, want, "{kind:?} {name} op {op}");
                }
            }
        }
    }

    #[test]
    fn values_outside_the_enumerations() {
        let odd = [20, 31, 32, 33, 63, 64, 255, 256, 257, 1 << 16, i32::MAX as u32, u32::MAX];
        for kind in [AtomicKind::Base, AtomicKind::Fetch, AtomicKind::Compare] {
            for value in odd {
                assert_eq!(valid(kind, value, SUM), Err(Errno::EOPNOTSUPP));
                assert_eq!(valid(kind, datatype::INT32, value), Err(Errno::EOPNOTSUPP));
                assert_eq!(valid(kind, value, value), Err(Errno::EOPNOTSUPP));
            }
        }
        assert!(odd.iter().all(|&value| datatype_size(value).is_none()));
        for (datatype, size) in SIZES.iter().enumerate() {
            assert_eq!(datatype_size(datatype as u32), Some(*size));
        }
    }
}
