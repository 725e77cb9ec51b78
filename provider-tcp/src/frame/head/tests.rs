//! Round trips of every kind of message, every split of a header, and what must be refused.

mod hostile;

use proptest::prelude::*;

use fabric_core::op::RmaIov;

use super::*;

const EVERY: [Op; 12] = [
    Op::Message,
    Op::Ack,
    Op::Tagged,
    Op::Read,
    Op::ReadResponse,
    Op::Write,
    Op::Rts,
    Op::Cts,
    Op::Data,
    Op::Atomic,
    Op::AtomicResponse,
    Op::Error,
];

const LONGEST: usize = isize::MAX as usize;
const INDEX: RtsIndex = RtsIndex::new(7, false).expect("an index");
const RANGE: RmaIov = RmaIov { addr: 0x10044, len: 64, key: 0xc0de };

/// A header of a kind, with two ranges where it has ranges.
fn sample(op: Op) -> Header {
    let two = ranges(&[RANGE, RmaIov { addr: 0, len: 1, key: !0 }]);
    let sum = Atomic { kind: AtomicKind::Fetch, datatype: 7, op: 2 };
    match op {
        Op::Message => Header::message(100),
        Op::Ack => Header::ack(),
        Op::Tagged => Header::tagged(0x1122_3344_5566_7788, 100),
        Op::Read => Header::read(two),
        Op::ReadResponse => Header::read_response(64),
        Op::Write => Header::write(two),
        Op::Rts => Header::rts(INDEX, 5, 65536),
        Op::Cts => Header::cts(INDEX),
        Op::Data => Header::data(INDEX, 65536),
        Op::Atomic => Header::atomic(sum, two).expect("fits memory"),
        Op::AtomicResponse => Header::atomic_response(8),
        Op::Error => Header::error(Refusal { errno: Errno::ENOKEY, instead_of: Answer::Atomic }),
    }
}

fn ranges(ranges: &[RmaIov]) -> Ranges {
    Ranges::new(ranges).expect("good ranges")
}

fn bytes(header: &Header, endian: Endian) -> Vec<u8> {
    let mut room = [0xee; HEAD_MAX];
    let len = header.emit(endian, 0x5a, &mut room);
    assert!(room[len..].iter().all(|byte| *byte == 0xee));
    room[..len].to_vec()
}

/// What a parse comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Short(usize),
    Whole(Header, usize),
}

/// Parses over a fresh header and over headers that have something in every field.
fn outcome(bytes: &[u8], endian: Endian, extensions: bool) -> Result<Outcome, HeadError> {
    let before = [Header::ack(), sample(Op::Rts), sample(Op::Atomic)];
    let [fresh, used @ ..] = before.map(|mut header| {
        let before = header;
        Ok(match parse(bytes, endian, extensions, &mut header)? {
            Parsed::Whole(len) => Outcome::Whole(header, len),
            Parsed::Short(needed) => {
                assert_eq!(header, before);
                Outcome::Short(needed)
            }
        })
    });
    assert_eq!(used, [fresh; 2]);
    fresh
}

fn parse_native(bytes: &[u8]) -> Result<Outcome, HeadError> {
    outcome(bytes, Endian::Native, true)
}

/// A header with some bytes changed.
fn with(op: Op, changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = bytes(&sample(op), Endian::Native);
    for (at, change) in changes {
        bytes[*at..at + change.len()].copy_from_slice(change);
    }
    bytes
}

fn word(value: u64) -> [u8; 8] {
    value.to_ne_bytes()
}

/// Refused, and with no fewer bytes than the base; later bytes change nothing.
fn refused(bytes: &[u8]) -> HeadError {
    let error = parse_native(bytes).expect_err("must be refused");
    let longer = [bytes, &[0xa5; HEAD_MAX]].concat();
    assert_eq!(parse_native(&longer), Err(error));
    let text = error.to_string();
    assert!(text.contains("accepted"), "{text}");
    error
}

#[test]
fn the_longest_header_fits_exactly() {
    let four = ranges(&[RANGE; 4]);
    let atomic = Atomic { kind: AtomicKind::Base, datatype: 7, op: 2 };
    let longest = Header::atomic(atomic, four).expect("fits memory").with_cq_data(1);
    assert_eq!(longest.header_len(), HEAD_MAX);
    assert_eq!(Header::write(four).with_cq_data(1).header_len(), 120);
}

#[test]
fn layout_of_ours() {
    let one = ranges(&[RANGE]);
    let swap = Atomic { kind: AtomicKind::Compare, datatype: 5, op: 12 };
    let header =
        Header::atomic(swap, one).expect("fits memory").with_cq_data(0x0102_0304_0506_0708);
    let expected = [
        &[3, 0x40, 0, 1, 0, 1, 56, 0x5a][..],
        &(56u64 + 128).to_be_bytes(),
        &[1, 2, 3, 4, 5, 6, 7, 8],
        &[0, 0, 0, 0, 0, 12, 5, 2],
        &0x10044u64.to_be_bytes(),
        &64u64.to_be_bytes(),
        &0xc0deu64.to_be_bytes(),
    ];
    assert_eq!(bytes(&header, Endian::Swapped), expected.concat());
    let error = Header::error(Refusal { errno: Errno::ENOKEY, instead_of: Answer::Read });
    let expected =
        [&[3, 0x42, 0, 0, 0, 0, 24, 0x5a][..], &24u64.to_be_bytes(), &[0, 0, 0, 3, 0, 0, 1, 10]];
    assert_eq!(bytes(&error, Endian::Swapped), expected.concat());
}

#[test]
fn every_prefix_asks_for_more() {
    for endian in [Endian::Native, Endian::Swapped] {
        for op in EVERY {
            for header in [sample(op), sample(op).with_cq_data(9)] {
                let bytes = bytes(&header, endian);
                for len in 0..bytes.len() {
                    let needed = if len < BASE_LEN { BASE_LEN } else { bytes.len() };
                    let parsed = outcome(&bytes[..len], endian, true);
                    assert_eq!(parsed, Ok(Outcome::Short(needed)), "{op:?}, {len} bytes");
                }
                let whole = Outcome::Whole(header, bytes.len());
                assert_eq!(outcome(&bytes, endian, true), Ok(whole), "{op:?}");
                let more = [&bytes[..], &[0xa5; 200]].concat();
                assert_eq!(outcome(&more, endian, true), Ok(whole), "{op:?}");
            }
        }
    }
}

#[test]
fn constructors_keep_to_the_kind() {
    let flags = HeadFlags::REMOTE_DATA | HeadFlags::DELIVERY_COMPLETE;
    for op in EVERY {
        let header = sample(op).with_flags(flags);
        assert_eq!(header.cq_data(), None, "{op:?}");
        let answer = match op {
            Op::Read => Some(Answer::Read),
            Op::Atomic => Some(Answer::Atomic),
            Op::Message | Op::Tagged | Op::Write | Op::Rts | Op::Data => Some(Answer::Ack),
            _ => None,
        };
        assert_eq!(header.answer(), answer, "{op:?}");
        let header = header.with_cq_data(3).with_flags(HeadFlags::empty());
        assert_eq!(header.answer(), answer.filter(|answer| *answer != Answer::Ack), "{op:?}");
        assert_eq!(header.cq_data(), op.carries_data().then_some(3), "{op:?}");
        assert_eq!(header.op(), op);
    }
    // As peers do: the bytes of an announced message repeat the announcement's flags.
    let data = Header::data(INDEX, 40000).with_flags(flags);
    assert_eq!((data.flags(), data.header_len()), (flags, BASE_LEN));
    let sum = Atomic { kind: AtomicKind::Base, datatype: 7, op: 2 };
    let sum = Header::atomic(sum, ranges(&[RANGE])).expect("fits");
    assert_eq!([sum, sum.with_flags(flags)].map(|sum| sum.answer()), [None, Some(Answer::Ack)]);
    let read = Atomic { kind: AtomicKind::Fetch, datatype: 7, op: 10 };
    assert_eq!(Header::atomic(read, ranges(&[RANGE])).expect("fits").payload_len(), 0);
    let compare = Atomic { kind: AtomicKind::Compare, datatype: 7, op: 12 };
    let long = ranges(&[RmaIov { len: LONGEST, ..RANGE }]);
    assert_eq!(Header::atomic(compare, long), None);
    let index = |value| [false, true].map(|ours| RtsIndex::new(value, ours).map(RtsIndex::get));
    assert_eq!([0, 1, 254].map(index), [[None; 2], [Some(1); 2], [Some(254); 2]]);
    assert_eq!([255, 65535].map(index), [[None, Some(255)], [None, Some(65535)]]);
}

#[test]
fn what_nobody_reads_may_be_anything() {
    for op in EVERY {
        let mut places = vec![(7, vec![0xff])];
        if !op.has_ranges() {
            places.push((5, vec![0xff]));
        }
        if !matches!(op, Op::Message | Op::Ack | Op::Rts | Op::Cts | Op::Data) {
            places.push((4, vec![2]));
        }
        places.push((2, 0x0082u16.to_ne_bytes().to_vec()));
        for (at, change) in places {
            let bytes = with(op, &[(at, &change)]);
            let whole = Outcome::Whole(sample(op), bytes.len());
            // Our own kind has an index' second byte where ranges are counted.
            let ours = at != 5 || !matches!(op, Op::Rts | Op::Cts | Op::Data);
            let parsed = outcome(&bytes, Endian::Native, ours);
            assert_eq!(parsed, Ok(whole), "{op:?}, byte {at}");
        }
    }
    assert_eq!(
        parse_native(&with(Op::Message, &[(4, &[5])])),
        Ok(Outcome::Whole(sample(Op::Message), 16))
    );
}

/// Peers of some years ago: a flag, and the tag of an untagged message behind its data.
#[test]
fn an_old_tag_is_skipped() {
    let flags = 0x0081u16.to_ne_bytes();
    let changes: [(usize, &[u8]); 3] = [(2, &flags), (6, &[32]), (8, &word(132))];
    let tagged = [with(Op::Message, &changes), word(3).to_vec(), word(9).to_vec()].concat();
    let header = Header::message(100).with_cq_data(3);
    assert_eq!(parse_native(&tagged), Ok(Outcome::Whole(header, 32)));
    let untold = [&tagged[..2], &0x0001u16.to_ne_bytes(), &tagged[4..]].concat();
    assert_eq!(
        refused(&untold),
        HeadError::HeaderSize { op: Op::Message, found: 32, accepted: 24 }
    );
}

fn any_ranges() -> impl Strategy<Value = Ranges> {
    let range = (any::<u64>(), prop_oneof![0..100usize, 0..LONGEST / 8], any::<u64>());
    prop::collection::vec(range, 0..=RANGES_MAX).prop_map(|parts| {
        let all: Vec<RmaIov> = parts
            .into_iter()
            .map(|(addr, len, key)| RmaIov { addr: addr % (u64::MAX - len as u64), len, key })
            .collect();
        ranges(&all)
    })
}

fn any_atomic() -> impl Strategy<Value = Atomic> {
    let kind =
        prop_oneof![Just(AtomicKind::Base), Just(AtomicKind::Fetch), Just(AtomicKind::Compare)];
    let op = prop_oneof![Just(10), any::<u8>()];
    (kind, any::<u8>(), op).prop_map(|(kind, datatype, op)| Atomic { kind, datatype, op })
}

fn any_header() -> impl Strategy<Value = Header> {
    let len = || prop_oneof![0..100usize, 0..=LONGEST];
    let index = || any::<NonZeroU16>().prop_map(RtsIndex);
    let answer = prop_oneof![Just(Answer::Ack), Just(Answer::Read), Just(Answer::Atomic)];
    let refusal = (1..=i32::MAX, answer)
        .prop_map(|(errno, instead_of)| Refusal { errno: Errno::new(errno), instead_of });
    let plain = prop_oneof![
        len().prop_map(Header::message),
        Just(Header::ack()),
        (any::<u64>(), len()).prop_map(|(tag, len)| Header::tagged(tag, len)),
        any_ranges().prop_map(Header::read),
        len().prop_map(Header::read_response),
        any_ranges().prop_map(Header::write),
        (index(), any::<u64>(), len()).prop_map(|(index, tag, len)| Header::rts(index, tag, len)),
        index().prop_map(Header::cts),
        (index(), len()).prop_map(|(index, len)| Header::data(index, len)),
        (any_atomic(), any_ranges())
            .prop_filter_map("fits memory", |(atomic, ranges)| Header::atomic(atomic, ranges)),
        len().prop_map(Header::atomic_response),
        refusal.prop_map(Header::error),
    ];
    let flags = any::<u16>().prop_map(HeadFlags::from_bits_truncate);
    (plain, any::<Option<u64>>(), flags).prop_map(|(header, data, flags)| {
        let only_in_cts = HeadFlags::POSTED;
        let flags = if header.op() == Op::Cts { flags } else { flags.difference(only_in_cts) };
        let header = header.with_flags(flags);
        data.map_or(header, |data| header.with_cq_data(data))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read(header in any_header(), id: u8, swapped: bool) {
        let endian = if swapped { Endian::Swapped } else { Endian::Native };
        let mut room = [0xee; HEAD_MAX];
        let len = header.emit(endian, id, &mut room);
        prop_assert_eq!(room[7], id);
        prop_assert_eq!(outcome(&room, endian, true), Ok(Outcome::Whole(header, len)));
    }

    /// Correct headers with a few bytes changed get further than noise.
    #[test]
    fn no_bytes_do_harm(header in any_header(), changes: Vec<(u8, u8)>, len in 0..=HEAD_MAX) {
        let mut room = [0; HEAD_MAX];
        header.emit(Endian::Native, 0, &mut room);
        for (at, value) in changes.iter().take(3) {
            room[usize::from(*at) % HEAD_MAX] = *value;
        }
        match parse_native(&room[..len]) {
            Ok(Outcome::Short(needed)) => prop_assert!(needed > len && needed <= HEAD_MAX),
            Ok(Outcome::Whole(header, consumed)) => {
                prop_assert!(consumed <= len);
                let again = bytes(&header, Endian::Native);
                prop_assert_eq!(parse_native(&again), Ok(Outcome::Whole(header, again.len())));
            }
            Err(_) => {}
        }
    }
}
