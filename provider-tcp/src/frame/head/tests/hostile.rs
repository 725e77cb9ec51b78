//! Each rule of a header broken, one at a time.

use super::*;

#[test]
fn version_and_op() {
    for op in EVERY {
        assert_eq!(refused(&with(op, &[(0, &[99])])), HeadError::Version { found: 99 });
    }
    for code in (8..0x40).chain(0x43..=0xff) {
        let error = HeadError::Op { found: code, extensions: true };
        assert_eq!(refused(&with(Op::Message, &[(1, &[code])])), error);
    }
    for op in EVERY {
        let parsed = outcome(&bytes(&sample(op), Endian::Native), Endian::Native, false);
        let ours = Err(HeadError::Op { found: op.code(), extensions: false });
        if op.code() >= 0x40 { assert_eq!(parsed, ours) } else { assert!(parsed.is_ok()) }
    }
}

#[test]
fn flags() {
    for (op, accepted) in [(Op::Tagged, 0x008f), (Op::Rts, 0x008f), (Op::Cts, 0x009f)] {
        for bit in (0..16).filter(|bit| accepted >> bit & 1 == 0) {
            let flags = (1u16 << bit).to_ne_bytes();
            let error = HeadError::Flags { found: 1 << bit, accepted };
            assert_eq!(refused(&with(op, &[(2, &flags)])), error);
        }
    }
}

/// What only our own kind says is nothing that others may say.
#[test]
fn a_posted_receive_is_told_to_our_own_kind() {
    let posted = bytes(&sample(Op::Cts).with_flags(HeadFlags::POSTED), Endian::Native);
    let parsed = outcome(&posted, Endian::Native, true);
    assert!(
        matches!(parsed, Ok(Outcome::Whole(header, ..)) if header.flags() == HeadFlags::POSTED)
    );
    let error = HeadError::Flags { found: 0x0010, accepted: 0x008f };
    assert_eq!(outcome(&posted, Endian::Native, false), Err(error));
}

/// Every header size but the right one, for every kind.
#[test]
fn header_size() {
    for op in EVERY {
        let right = sample(op).header_len() as u8;
        for size in (0..=u8::MAX).filter(|size| *size != right) {
            let error = HeadError::HeaderSize { op, found: size, accepted: right };
            assert_eq!(refused(&with(op, &[(6, &[size]), (8, &word(1 << 20))])), error);
        }
    }
}

#[test]
fn size() {
    for op in EVERY {
        let header = sample(op);
        let len = header.header_len() as u64;
        for size in [0, 1, len - 1, len + LONGEST as u64 + 1, u64::MAX] {
            let error = refused(&with(op, &[(8, &word(size))]));
            assert!(matches!(error, HeadError::Size { found, .. } if found == size), "{error}");
        }
        let right = len + header.payload_len() as u64;
        let any = op.has_payload() && !op.has_ranges();
        for size in [right - 1, right + 1, len + LONGEST as u64] {
            if any {
                assert!(parse_native(&with(op, &[(8, &word(size))])).is_ok());
            } else if size != right {
                refused(&with(op, &[(8, &word(size))]));
            }
        }
    }
}

#[test]
fn indices() {
    for op in [Op::Rts, Op::Cts, Op::Data] {
        let error = HeadError::Index { op, found: 0, accepted: u16::MAX };
        assert_eq!(refused(&with(op, &[(4, &[0, 0])])), error);
        // Others have one byte, and anything in the second.
        for found in [0, 255] {
            let bytes = with(op, &[(4, &[found, 9])]);
            let error = HeadError::Index { op, found: found.into(), accepted: 254 };
            assert_eq!(outcome(&bytes, Endian::Native, false), Err(error));
        }
    }
    for found in [1 << 63, u64::MAX] {
        assert_eq!(refused(&with(Op::Rts, &[(24, &word(found))])), HeadError::MessageLen { found });
    }
}

#[test]
fn number_of_ranges() {
    for op in EVERY.into_iter().filter(|op| op.has_ranges()) {
        for found in 5..=u8::MAX {
            let error = HeadError::RangeCount { found: found.into() };
            assert_eq!(refused(&with(op, &[(5, &[found])])), error);
        }
        for found in [0, 1, 3, 4] {
            let error = refused(&with(op, &[(5, &[found])]));
            assert!(matches!(error, HeadError::HeaderSize { .. }), "{error}");
        }
    }
    assert_eq!(Ranges::new(&[RANGE; 5]), Err(HeadError::RangeCount { found: 5 }));
}

#[test]
fn ranges_that_wrap() {
    for op in EVERY.into_iter().filter(|op| op.has_ranges()) {
        let at = sample(op).op.fixed_len();
        for (addr, len) in [(u64::MAX, 1), (2, u64::MAX - 1), (1 << 63, 1 << 63)] {
            let error = refused(&with(op, &[(at, &word(addr)), (at + 8, &word(len))]));
            assert_eq!(error, HeadError::Range { addr, len });
        }
        // Together more than memory; then more than a word.
        for [first, second] in [[LONGEST as u64, 1], [1, LONGEST as u64], [8, !8]] {
            let lens: [(usize, &[u8]); 3] =
                [(at, &word(0)), (at + 8, &word(first)), (at + 32, &word(second))];
            let error = refused(&with(op, &lens));
            assert_eq!(error, HeadError::RangeTotal { last: second });
        }
    }
}

#[test]
fn payload_other_than_the_ranges() {
    for op in [Op::Write, Op::Atomic] {
        let at = op.fixed_len();
        let [len, sum] = [sample(op).header_len(), 65].map(|len| len as u64);
        for payload in [0, 1, sum - 1, sum + 1, 2 * sum] {
            let error = refused(&with(op, &[(8, &word(len + payload))]));
            let accepted = Sizes::Exactly(len + sum);
            assert_eq!(error, HeadError::Size { op, found: len + payload, accepted });
        }
        refused(&with(op, &[(at + 8, &word(63))]));
    }
}

#[test]
fn words_of_ours() {
    for found in [3, 0x0100_0000, 1 << 63 | 1, u64::MAX] {
        assert_eq!(refused(&with(Op::Atomic, &[(16, &word(found))])), HeadError::Atomic { found });
    }
    for found in [0, 1 << 31, 5 | 1 << 32, 5 | 0x40 << 32, 5 | 1 << 63, u64::MAX] {
        assert_eq!(refused(&with(Op::Error, &[(16, &word(found))])), HeadError::Refusal { found });
    }
}
