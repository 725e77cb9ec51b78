//! The packets and records of `tcp;ofi_rxm` against recorded connections of libfabric 2.6.

#[expect(dead_code, reason = "whole streams are for those who parse streams")]
mod capture;

use fabric_core::{
    op::AtomicKind,
    rdm_over_msg::{
        packet::{AtomicResponse, HEAD_LEN, Head, Packet, Parsed, Place, parse},
        record::{Acceptance, ConnectionId, Features, FlowControl, Refusal, Request},
    },
};
use provider_tcp::frame::{
    Endian,
    cm::{CM_HEADER_LEN, CmHeader, CmKind},
    head::{Header, Op, Parsed as Framed, parse as frame},
};

use capture::{Capture, captures};

fn records() -> impl Iterator<Item = Capture> {
    captures().into_iter().filter(|capture| capture.name.starts_with("rxm-"))
}

fn record(name: &str) -> Capture {
    records().find(|capture| capture.name == name).expect(name)
}

/// What the messages of a record carry, in the order in which they were seen.
fn packets(capture: &Capture) -> Vec<&[u8]> {
    let data = capture.blocks.iter().filter(|block| !block.is_cm());
    let packet = |bytes| {
        let mut header = Header::default();
        match frame(bytes, Endian::Native, false, &mut header) {
            Ok(Framed::Whole(len)) if header.op() == Op::Message => Some(&bytes[len..]),
            Ok(Framed::Whole(_)) => None,
            other => panic!("{other:?}"),
        }
    };
    data.filter_map(|block| packet(&block.bytes[..])).collect()
}

/// The headers that we send for a packet.
fn ours(parsed: &Parsed<'_>) -> Head {
    let head = match &parsed.packet {
        Packet::Eager(message) => Head::eager(message),
        Packet::Segment(message, segment) => {
            Head::segment(message, *segment, parsed.body.len() as u16)
        }
        Packet::Announcement(message, _) => Head::announcement(message),
        Packet::ReadDone => Head::read_done(),
        Packet::WriteReady(_) => Head::write_ready(),
        Packet::WriteDone => Head::write_done(),
        Packet::Credit(count) => Head::credit(*count),
        Packet::Atomic(request) => Head::atomic(request, parsed.body.len() + 96),
        Packet::AtomicResponse(_) => panic!("has a request"),
    };
    head.about(parsed.connection as u32, parsed.message)
}

/// Whatever stands in fields that a kind of packet does not use.
const LEFT_OVER: [std::ops::Range<usize>; 2] = [32..HEAD_LEN, 24..32];

#[test]
fn our_packets_are_theirs() {
    let mut seen = 0;
    for capture in records() {
        for bytes in packets(&capture) {
            let parsed = parse(bytes).unwrap_or_else(|error| panic!("{}: {error}", capture.name));
            if matches!(parsed.packet, Packet::AtomicResponse(_)) {
                continue;
            }
            let mut theirs = bytes[..HEAD_LEN].to_vec();
            let mut head = ours(&parsed).bytes().to_vec();
            if matches!(parsed.packet, Packet::ReadDone | Packet::WriteDone | Packet::WriteReady(_))
            {
                for field in LEFT_OVER {
                    theirs[field.clone()].fill(0);
                    head[field].fill(0);
                }
            }
            assert_eq!(head, theirs, "{}: {parsed:?}", capture.name);
            if let Packet::Announcement(_, ranges) | Packet::WriteReady(ranges) = parsed.packet {
                assert_eq!(ranges.bytes(), parsed.body);
            }
            seen += 1;
        }
    }
    assert_eq!(seen, 6 + 3 + 2 + 3 + 1);
}

#[test]
fn atomic_operation_and_response() {
    let capture = record("rxm-atomic");
    let [request, response] = packets(&capture)[..] else { panic!("{capture:?}") };
    let Packet::Atomic(sum) = parse(request).unwrap().packet else { panic!("{request:?}") };
    assert_eq!((sum.kind, sum.datatype, sum.op), (AtomicKind::Base, 0, 2));
    let [range] = sum.ranges.as_slice() else { panic!("{sum:?}") };
    assert_eq!((range.addr, range.len, range.key), (0, 1, 0xc0de));
    assert_eq!(request[HEAD_LEN..HEAD_LEN + 96], sum.ranges_bytes());

    let parsed = parse(response).unwrap();
    let answer = AtomicResponse { outcome: Ok(()) };
    assert_eq!(parsed.packet, Packet::AtomicResponse(answer));
    let head = Head::atomic_response(&sum, 8).about(parsed.connection as u32, parsed.message);
    assert_eq!([&head.bytes()[..], &answer.bytes(0)].concat(), response);
}

#[test]
fn segments_of_a_message() {
    let capture = record("rxm-tagged-sar");
    let segments: Vec<_> = packets(&capture).into_iter().map(|p| parse(p).unwrap()).collect();
    let places: Vec<_> = segments
        .iter()
        .map(|parsed| match parsed.packet {
            Packet::Segment(message, segment) => {
                assert_eq!((message.size, message.tag), (40000, 2));
                (segment.number, segment.place, parsed.body.len())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [(0, Place::First, 16384), (1, Place::Middle, 16384), (2, Place::Last, 7232)];
    assert_eq!(places, expected);
}

#[test]
fn records_of_connections() {
    let user_data = |name: &str| -> Vec<(CmKind, Vec<u8>)> {
        let capture = record(name);
        let cm = capture.blocks.iter().filter(|block| block.is_cm());
        cm.map(|block| {
            let (head, data) = block.bytes.split_first_chunk::<CM_HEADER_LEN>().unwrap();
            (CmHeader::parse(head).unwrap().kind, data.to_vec())
        })
        .collect()
    };
    let [(CmKind::Request, request), (CmKind::Response, answer)] =
        &user_data("rxm-tagged-small")[..]
    else {
        panic!("two messages")
    };
    let parsed = Request::parse(request, 16384).unwrap();
    let expected = Request {
        port: 0xb2bb,
        flow_control: FlowControl::Off,
        eager_limit: 16384,
        receives: 4096,
        id: ConnectionId { owner: 0x45d5, index: 0 },
        features: Features::default(),
    };
    assert_eq!(parsed, expected);
    assert_eq!(parsed.bytes()[..], request[..]);
    let parsed = Acceptance::parse(answer).unwrap();
    assert_eq!((parsed.id.owner, parsed.receives), (0x459c, 4096));
    assert_eq!(parsed.bytes()[..], answer[..]);

    let [(CmKind::Request, request), (CmKind::Reject, refusal)] =
        &user_data("rxm-nack-eager-limit")[..]
    else {
        panic!("two messages")
    };
    assert!(Request::parse(request, 8192).is_err());
    assert_eq!(Refusal::parse(refusal), Refusal::Refused);
    assert_eq!(Refusal::Refused.bytes()[..], refusal[..]);
}
