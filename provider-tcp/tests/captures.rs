//! The parsers against recorded connections of libfabric 2.6, and our own bytes against theirs.
//!
//! In `captures`, a block is one message with its direction. Long payloads are cut short there and
//! continued with zeros here. A record may leave out messages between two blocks.

mod capture;

use std::collections::BTreeMap;

use proptest::prelude::*;
use provider_tcp::frame::{
    Endian,
    cm::{CM_HEADER_LEN, CmHeader, CmKind, CmMessage},
    head::{Answer, HEAD_MAX, Header, Op, Parsed, parse},
    record::{Greeting, answer_version, rendezvous_allowed},
};

use capture::{Block, Capture, captures};

/// The header of a block of data, which must be one whole message.
fn header(block: &Block) -> (Header, usize) {
    let mut header = Header::default();
    match parse(&block.bytes, Endian::Native, false, &mut header) {
        Ok(Parsed::Whole(len)) => {
            assert_eq!(len + header.payload_len(), block.bytes.len(), "{block:?}");
            (header, len)
        }
        other => panic!("{other:?}: {block:?}"),
    }
}

fn data_blocks() -> Vec<Block> {
    captures()
        .into_iter()
        .flat_map(|capture| capture.blocks)
        .filter(|block| !block.is_cm())
        .collect()
}

/// The record's own word for a kind of message.
fn name(op: Op) -> &'static str {
    match op {
        Op::Message | Op::Ack => "msg",
        Op::Tagged => "tag",
        Op::Read => "read_req",
        Op::ReadResponse => "read_rsp",
        Op::Write => "write",
        Op::Rts => "tag_rts",
        Op::Cts => "cts",
        Op::Data => "data",
        Op::Atomic | Op::AtomicResponse | Op::Error => "none of theirs",
    }
}

#[test]
fn every_message_is_understood() {
    let mut counts = BTreeMap::new();
    for block in data_blocks() {
        let (header, _) = header(&block);
        assert_eq!(block.kind, name(header.op()));
        *counts.entry(format!("{:?}", header.op())).or_insert(0) += 1;
    }
    let expected = [
        ("Ack", 5),
        ("Cts", 4),
        ("Data", 3),
        ("Message", 20),
        ("Read", 4),
        ("ReadResponse", 3),
        ("Rts", 4),
        ("Tagged", 8),
        ("Write", 7),
    ];
    let expected = expected.map(|(op, count)| (op.to_owned(), count));
    assert_eq!(counts, BTreeMap::from(expected));
}

#[test]
fn our_headers_are_theirs() {
    for block in data_blocks() {
        let (header, len) = header(&block);
        let mut ours = [0xee; HEAD_MAX];
        let mut theirs = block.bytes[..len].to_vec();
        // The number of ranges where there are none, and the count of messages, are left-overs.
        if !header.op().has_ranges() {
            theirs[5] = 0;
        }
        assert_eq!(header.emit(Endian::Native, theirs[7], &mut ours), len);
        assert_eq!(ours[..len], theirs, "{block:?}");
    }
}

#[test]
fn contents_of_the_records() {
    let find = |name: &str, kind: &str| {
        let capture = captures().into_iter().find(|capture| capture.name == name).expect(name);
        let block = capture.blocks.into_iter().find(|block| block.kind == kind).expect(kind);
        header(&block).0
    };
    let rts = find("rdm-rendezvous-cqdata-ack", "tag_rts");
    assert_eq!(rts.cq_data(), Some(0xcafe_f00d_1234_5678));
    assert_eq!((rts.tag(), rts.message_len()), (0x1122_3344_5566_7788, 40000));
    assert_eq!(rts.answer(), Some(Answer::Ack));
    let data = find("rdm-rendezvous-cqdata-ack", "data");
    assert_eq!((data.index(), data.cq_data()), (rts.index(), None));
    assert_eq!(data.flags(), rts.flags());
    let write = find("rma-writedata", "write");
    assert_eq!(write.cq_data(), Some(0x0123_4567_89ab_cdef));
    let read = find("rma-read", "read_req");
    let [range] = read.ranges().as_slice() else { panic!("{read:?}") };
    assert_eq!((range.addr, range.len, range.key), (0x10044, 64, 0xc0de));
}

#[test]
fn our_connection_messages_are_theirs() {
    let mut counts = BTreeMap::new();
    for block in captures().into_iter().flat_map(|capture| capture.blocks).filter(Block::is_cm) {
        let (head, data) = block.bytes.split_first_chunk::<CM_HEADER_LEN>().expect("a header");
        let parsed = CmHeader::parse(head).expect("a good header");
        assert_eq!((parsed.len, parsed.endian), (data.len(), Endian::Native));
        let ours = CmMessage::new(parsed.kind, data).expect("fits");
        assert_eq!(ours.bytes(), block.bytes);
        *counts.entry(format!("{:?}", parsed.kind)).or_insert(0) += 1;
    }
    let expected = [("Reject", 2), ("Request", 11), ("Response", 9)];
    assert_eq!(counts, expected.map(|(kind, count)| (kind.to_owned(), count)).into());
}

#[test]
fn records_of_reliable_datagram_endpoints() {
    let mut seen = 0;
    for Capture { name, blocks } in captures() {
        let connection: Vec<_> = blocks.iter().filter(|block| block.is_cm()).collect();
        let [request, response] = connection[..] else { continue };
        if !name.starts_with("r") || name.starts_with("rxm") {
            continue;
        }
        let [request, response] = [request, response].map(|block| {
            let data = &block.bytes[CM_HEADER_LEN..];
            let greeting = Greeting::parse(data).expect("a record");
            assert_eq!((greeting.extension, greeting.user_data().as_slice()), (None, data));
            greeting.record
        });
        assert_eq!(response.version, answer_version(request.version, Endian::Native));
        assert!(rendezvous_allowed(response.version, Endian::Native));
        assert_eq!(response.port, request.port);
        seen += 1;
    }
    assert_eq!(seen, 6);
}

/// What a receiver makes of a stream that comes in pieces: kinds, and bytes of payload.
#[derive(Debug, Default, PartialEq)]
struct Receiver {
    unread: Vec<u8>,
    introduced: bool,
    kinds: Vec<Option<Op>>,
    payloads: Vec<u8>,
    /// Payload that is still to come.
    owed: usize,
}

impl Receiver {
    fn feed(&mut self, piece: &[u8]) {
        self.unread.extend_from_slice(piece);
        while self.step() {}
    }

    fn step(&mut self) -> bool {
        let now = self.owed.min(self.unread.len());
        self.payloads.extend(self.unread.drain(..now));
        self.owed -= now;
        if self.owed > 0 || self.unread.is_empty() {
            return false;
        }
        if !self.introduced {
            let Some(head) = self.unread.first_chunk() else { return false };
            let head = CmHeader::parse(head).expect("a connection message");
            self.take(None, CM_HEADER_LEN, head.len);
            self.introduced = head.kind != CmKind::Reject;
            return true;
        }
        let mut header = Header::default();
        match parse(&self.unread, Endian::Native, false, &mut header).expect("a message") {
            Parsed::Short(needed) => {
                assert!(needed > self.unread.len());
                false
            }
            Parsed::Whole(len) => {
                self.take(Some(header.op()), len, header.payload_len());
                true
            }
        }
    }

    fn take(&mut self, kind: Option<Op>, len: usize, payload: usize) {
        self.unread.drain(..len);
        self.kinds.push(kind);
        self.owed = payload;
    }
}

fn receive(stream: &[u8], introduced: bool, mut cuts: Vec<usize>) -> Receiver {
    let mut receiver = Receiver { introduced, ..Receiver::default() };
    cuts.sort_unstable();
    let mut from = 0;
    for cut in cuts {
        receiver.feed(&stream[from..cut]);
        from = cut;
    }
    receiver.feed(&stream[from..]);
    receiver
}

/// Each direction of each connection, without what lies in the middle of long payloads: that is
/// neither recorded nor looked at.
fn streams() -> Vec<(Vec<u8>, bool)> {
    captures().iter().flat_map(Capture::streams).collect()
}

#[test]
fn streams_cut_once_anywhere() {
    for (stream, introduced) in streams() {
        let whole = receive(&stream, introduced, vec![]);
        assert_eq!((whole.owed, whole.unread.len()), (0, 0));
        for cut in (0..stream.len()).filter(|cut| *cut < 700 || cut % 997 == 0) {
            assert_eq!(receive(&stream, introduced, vec![cut]), whole);
        }
        let bytewise = (0..stream.len().min(600)).collect();
        assert_eq!(receive(&stream, introduced, bytewise), whole);
    }
}

proptest! {
    #[test]
    fn streams_cut_at_random(which in any::<prop::sample::Index>(),
                             cuts: Vec<prop::sample::Index>) {
        let streams = streams();
        let (stream, introduced) = which.get(&streams);
        let cuts = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        let whole = receive(stream, *introduced, vec![]);
        prop_assert_eq!(receive(stream, *introduced, cuts), whole);
    }
}
