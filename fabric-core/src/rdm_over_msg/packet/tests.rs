use super::*;
use crate::{
    Errno,
    atomic::{atomic_op, datatype},
    op::RmaIov,
};
use proptest::prelude::*;

fn bytes(head: Head, body: &[u8]) -> Vec<u8> {
    [&head.about(7, 0x1122).bytes()[..], body].concat()
}

fn read(bytes: &[u8]) -> (Packet, &[u8]) {
    let parsed = parse(bytes).unwrap();
    assert_eq!((parsed.connection, parsed.message), (7, 0x1122));
    (parsed.packet, parsed.body)
}

fn range(addr: u64, len: usize) -> RmaIov {
    RmaIov { addr, len, key: 0xc0de }
}

fn sum(ranges: &[RmaIov]) -> AtomicRequest {
    AtomicRequest {
        kind: AtomicKind::Fetch,
        datatype: datatype::UINT32 as u8,
        op: atomic_op::SUM as u8,
        size: 4,
        ranges: Ranges::new(ranges).unwrap(),
    }
}

const TEXT: &[u8] = b"as it is";

fn message() -> Message {
    Message { tagged: true, tag: u64::MAX - 1, size: TEXT.len() as u64, data: Some(0xdada) }
}

#[test]
fn messages_come_back() {
    for message in [
        message(),
        Message { data: None, ..message() },
        Message { tagged: false, tag: 0, ..message() },
    ] {
        let eager = bytes(Head::eager(&message), TEXT);
        assert_eq!(read(&eager), (Packet::Eager(message), TEXT));
        for place in [Place::First, Place::Middle, Place::Last] {
            let (message, segment) =
                (Message { size: 99, ..message }, Segment { number: 3, place });
            let part = bytes(Head::segment(&message, segment, TEXT.len() as u16), TEXT);
            assert_eq!(read(&part), (Packet::Segment(message, segment), TEXT));
        }
    }
}

#[test]
fn ranges_come_back() {
    let ranges = Ranges::new(&[range(0, 5), range(u64::MAX - 3, 3)]).unwrap();
    let announcement = bytes(Head::announcement(&message()), &ranges.bytes());
    assert_eq!(read(&announcement).0, Packet::Announcement(message(), ranges));
    let ready = bytes(Head::write_ready(), &ranges.bytes());
    assert_eq!(read(&ready).0, Packet::WriteReady(ranges));
    assert_eq!(Ranges::new(&[]), None);
    assert_eq!(Ranges::new(&[range(0, 1); 5]), None);
    assert_eq!(Ranges::new(&[range(u64::MAX, 1)]), None);
    assert_eq!(Ranges::new(&[range(0, usize::MAX), range(0, 1)]), None);
}

#[test]
fn answers_come_back() {
    assert_eq!(read(&bytes(Head::read_done(), &[])).0, Packet::ReadDone);
    assert_eq!(read(&bytes(Head::write_done(), &[])).0, Packet::WriteDone);
    assert_eq!(read(&bytes(Head::credit(64), &[])).0, Packet::Credit(64));
    for outcome in [Ok(()), Err(Errno::EACCES)] {
        let response = AtomicResponse { outcome };
        let body = [&response.bytes(TEXT.len())[..], TEXT].concat();
        let request = sum(&[range(0, 4)]);
        let all = bytes(Head::atomic_response(&request, body.len()), &body);
        assert_eq!(read(&all), (Packet::AtomicResponse(response), TEXT));
    }
}

#[test]
fn atomic_operations_come_back() {
    let fetch = sum(&[range(16, 4), range(0, 4)]);
    let compare = AtomicRequest { kind: AtomicKind::Compare, op: atomic_op::CSWAP as u8, ..fetch };
    let get = AtomicRequest { op: atomic_op::ATOMIC_READ as u8, ..fetch };
    for (request, len) in [(fetch, 8), (compare, 16), (get, 0)] {
        let values = vec![9; len];
        let body = [&request.ranges_bytes()[..], &values].concat();
        let all = bytes(Head::atomic(&request, body.len()), &body);
        assert_eq!(read(&all), (Packet::Atomic(request), &values[..]));
        for wrong in [&all[..all.len() - 1], &[&all[..], &[0]].concat()] {
            assert!(matches!(parse(wrong), Err(PacketError::Size { .. })));
        }
    }
}

/// A packet with one byte changed.
fn spoiled(all: &[u8], at: usize, byte: u8) -> PacketError {
    let mut all = all.to_vec();
    all[at] = byte;
    parse(&all).unwrap_err()
}

#[test]
fn what_is_no_packet() {
    let eager = bytes(Head::eager(&message()), TEXT);
    for len in 0..HEAD_LEN {
        assert_eq!(parse(&eager[..len]), Err(PacketError::Short { len, needed: HEAD_LEN }));
    }
    let size = |said, there| PacketError::Size { said, there };
    assert_eq!(parse(&eager[..HEAD_LEN + 3]), Err(size(8, 3)));
    assert_eq!(spoiled(&eager, 40, 9), size(9, 8));
    assert_eq!(spoiled(&eager, 47, 0x80), size(0x8000_0000_0000_0008, 8));
    assert_eq!(spoiled(&eager, 1, 9), PacketError::Kind(9));
    assert_eq!(spoiled(&eager, 1, 255), PacketError::Kind(255));
    for op in [2, 6, 255] {
        assert_eq!(spoiled(&eager, 34, op), PacketError::Operation { kind: 0, op });
    }

    let segment = Segment { number: 0, place: Place::Last };
    let segment = bytes(Head::segment(&message(), segment, 8), TEXT);
    assert_eq!(spoiled(&segment, 24, 0), PacketError::Place(0));
    assert_eq!(spoiled(&segment, 24, 4), PacketError::Place(0));
    assert_eq!(spoiled(&segment, 2, 7), size(7, 8));

    let ranges = Ranges::new(&[range(0, 8)]).unwrap();
    let announcement = bytes(Head::announcement(&message()), &ranges.bytes());
    for count in [0, 5, 255] {
        let at = HEAD_LEN + 96;
        assert_eq!(spoiled(&announcement, at, count), PacketError::Ranges { count });
    }
    // More bytes than memory has room for, and addresses that wrap.
    assert_eq!(spoiled(&announcement, 40, 9), PacketError::Ranges { count: 1 });
    let mut wraps = announcement.clone();
    wraps[HEAD_LEN..HEAD_LEN + 8].fill(0xff);
    assert_eq!(parse(&wraps), Err(PacketError::Ranges { count: 1 }));
    let short = parse(&announcement[..announcement.len() - 1]);
    assert_eq!(short, Err(PacketError::Short { len: 167, needed: 168 }));
}

#[test]
fn what_is_no_atomic_operation() {
    let request = sum(&[range(0, 4)]);
    let body = [&request.ranges_bytes()[..], &[1; 4]].concat();
    let all = bytes(Head::atomic(&request, body.len()), &body);
    assert_eq!(spoiled(&all, 34, 0), PacketError::Operation { kind: 4, op: 0 });
    assert_eq!(spoiled(&all, 34, 9), PacketError::Operation { kind: 4, op: 9 });
    assert_eq!(spoiled(&all, 56, 200), PacketError::Atomic { datatype: 200, op: 2 });
    assert_eq!(spoiled(&all, 58, 0), PacketError::Ranges { count: 0 });
    assert_eq!(spoiled(&all, 58, 5), PacketError::Ranges { count: 5 });
    // So many elements that their bytes cannot be counted.
    assert_eq!(spoiled(&all, HEAD_LEN + 15, 0x80), PacketError::Ranges { count: 1 });
    assert_eq!(spoiled(&all, HEAD_LEN + 8, 2), PacketError::Size { said: 8, there: 4 });
    let response = bytes(Head::atomic_response(&request, 8), &[0; 8]);
    assert_eq!(spoiled(&response, HEAD_LEN + 7, 1), PacketError::Size { said: 1, there: 0 });
    assert!(parse(&response[..HEAD_LEN + 7]).is_err());
}

#[test]
fn a_status_is_an_error_whatever_it_is() {
    let head = Head::atomic_response(&sum(&[range(0, 4)]), 8);
    let status = |status: i32| {
        let body = [&status.to_be_bytes()[..], &[0; 4]].concat();
        match parse(&bytes(head, &body)).unwrap().packet {
            Packet::AtomicResponse(response) => response.outcome,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(status(0), Ok(()));
    assert_eq!(status(-Errno::EACCES.get()), Err(Errno::EACCES));
    for odd in [i32::MIN, i32::MAX, 1, -4711] {
        assert!(status(odd).is_err());
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..10, op in 0u8..10) {
        let mut bytes = bytes;
        if bytes.len() > 34 {
            (bytes[1], bytes[34]) = (kind, op);
        }
        if let Ok(parsed) = parse(&bytes) {
            prop_assert!(parsed.body.len() <= bytes.len() - HEAD_LEN);
        }
    }
}
