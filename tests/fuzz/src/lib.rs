//! What is asked of the parsers for any bytes at all. libFuzzer calls these functions with inputs of
//! its own; `cargo test` calls them with the inputs in `corpus`.

use fabric_core::rdm_over_msg::{
    packet::{self, HEAD_LEN, Head, Packet},
    record::{Acceptance, Refusal, Request},
};
use provider_tcp::frame::{
    Endian,
    cm::{CM_HEADER_LEN, CmHeader, CmMessage},
    extension::Extension,
    head::{HEAD_MAX, HeadError, Header, Parsed, parse},
    record::Greeting,
};

/// A connection message: what is understood is what we would send, but for fields without use.
pub fn cm(bytes: &[u8]) {
    let Some((head, data)) = bytes.split_first_chunk::<CM_HEADER_LEN>() else { return };
    let Ok(parsed) = CmHeader::parse(head) else { return };
    let data = &data[..parsed.len.min(data.len())];
    let ours = CmMessage::new(parsed.kind, data).expect("as long as the parser allows");
    let (head, sent) = ours.bytes().split_first_chunk().expect("a header");
    assert_eq!(sent, data);
    let again = CmHeader::parse(head).expect("what we send can be read");
    assert_eq!(again, CmHeader { len: data.len(), endian: Endian::Native, ..parsed });
}

/// User data: the record is kept to the bit, and what is an extension comes back as it was.
pub fn record(bytes: &[u8]) {
    let Ok(greeting) = Greeting::parse(bytes) else {
        assert!(bytes.len() < 8);
        return;
    };
    assert_eq!(greeting.record.bytes(), bytes[..8]);
    assert_eq!(Extension::parse(&bytes[8..]), greeting.extension);
    let ours = greeting.user_data();
    assert_eq!(Greeting::parse(ours.as_slice()), Ok(greeting));
}

/// A stream of messages. The first byte of the input chooses byte order (bit 0), our own kinds of
/// messages (bit 1) and the pieces in which the stream comes (the rest; zero is one piece).
pub fn head(input: &[u8]) {
    let Some((&choice, stream)) = input.split_first() else { return };
    let endian = if choice & 1 == 0 { Endian::Native } else { Endian::Swapped };
    let extensions = choice & 2 != 0;
    let piece = usize::from(choice >> 2);

    let mut rest = stream;
    loop {
        let mut header = Header::default();
        let whole = parse(rest, endian, extensions, &mut header);
        if piece > 0 {
            in_pieces(rest, piece, endian, extensions, (whole, header));
        }
        let Ok(Parsed::Whole(len)) = whole else { return };
        written_again(&header, endian, extensions, &rest[..len]);
        let next = rest[len..].get(header.payload_len()..);
        match next {
            Some(next) => rest = next,
            None => return,
        }
    }
}

/// The same header, or the same error, comes of bytes that arrive a few at a time.
fn in_pieces(
    bytes: &[u8],
    piece: usize,
    endian: Endian,
    extensions: bool,
    expected: (Result<Parsed, HeadError>, Header),
) {
    let mut header = Header::default();
    let mut have = 0;
    loop {
        let parsed = parse(&bytes[..have], endian, extensions, &mut header);
        if let Ok(Parsed::Short(needed)) = parsed {
            assert!(have < needed && needed <= HEAD_MAX);
            if have < bytes.len() {
                have = bytes.len().min(have + piece);
                continue;
            }
        }
        assert_eq!((parsed, header), expected);
        return;
    }
}

/// What we would send for a header is read as that header. It is no longer than what was received.
fn written_again(header: &Header, endian: Endian, extensions: bool, received: &[u8]) {
    let mut room = [0; HEAD_MAX];
    let len = header.emit(endian, received[7], &mut room);
    assert!(len <= received.len());
    let mut again = Header::default();
    assert_eq!(parse(&room[..len], endian, extensions, &mut again), Ok(Parsed::Whole(len)));
    assert_eq!(again, *header);
}

/// A packet of reliable datagrams over connected endpoints: what is understood is what we would send,
/// but for fields without use.
pub fn packet(bytes: &[u8]) {
    let Ok(parsed) = packet::parse(bytes) else { return };
    let (head, front) = match &parsed.packet {
        Packet::Eager(message) => (Head::eager(message), Vec::new()),
        Packet::Segment(message, segment) => {
            let len = u16::try_from(parsed.body.len()).expect("a length of 16 bits");
            (Head::segment(message, *segment, len), Vec::new())
        }
        Packet::Announcement(message, ranges) => {
            assert!(message.size <= ranges.len() as u64);
            (Head::announcement(message), ranges.bytes().to_vec())
        }
        Packet::ReadDone => (Head::read_done(), Vec::new()),
        Packet::WriteReady(ranges) => (Head::write_ready(), ranges.bytes().to_vec()),
        Packet::WriteDone => (Head::write_done(), Vec::new()),
        Packet::Credit(count) => (Head::credit(*count), Vec::new()),
        Packet::Atomic(request) => {
            let front = request.ranges_bytes().to_vec();
            (Head::atomic(request, front.len() + parsed.body.len()), front)
        }
        // Its headers echo those of a request.
        Packet::AtomicResponse(_) => return,
    };
    // Only the lower half of a connection's name is ours to choose.
    let head = head.about(parsed.connection as u32, parsed.message);
    let has_body =
        matches!(parsed.packet, Packet::Eager(_) | Packet::Segment(..) | Packet::Atomic(_));
    let body = if has_body { parsed.body } else { &[] };
    let ours = [&head.bytes()[..], &front, body].concat();
    assert!(ours.len() <= bytes.len().max(HEAD_LEN));
    let again = packet::parse(&ours).expect("what we send can be read");
    assert_eq!(again.packet, parsed.packet);
    assert_eq!(again.message, parsed.message);
}

/// What such endpoints connect with.
pub fn private_data(bytes: &[u8]) {
    let limit = bytes.get(8..12).and_then(|limit| limit.try_into().ok()).map(u32::from_ne_bytes);
    if let Ok(request) = Request::parse(bytes, limit.unwrap_or(0)) {
        assert_eq!(Request::parse(&request.bytes(), request.eager_limit), Ok(request));
    }
    if let Some(acceptance) = Acceptance::parse(bytes) {
        assert_eq!(Acceptance::parse(&acceptance.bytes()), Some(acceptance));
    }
    let refusal = Refusal::parse(bytes);
    assert_eq!(Refusal::parse(&refusal.bytes()), refusal);
}
