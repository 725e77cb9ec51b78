//! Two transports in one process.

use fabric_core::wire::{Head, Source, WireRx, WireTx};

use super::*;

#[test]
fn the_probe_word_stays_where_it_was_announced() {
    let wire = ShmWire::open(&Info::default()).unwrap();
    let (at, value) = wire.tx.hello.probe;
    assert_eq!(std::ptr::from_ref::<u64>(&wire._probe) as u64, at);
    assert_eq!(*wire._probe, value);
}

/// Two endpoints that have met; what the second is called by the first.
fn pair() -> (ShmWire, ShmWire, PeerId) {
    let mut a = ShmWire::open(&Info::default()).unwrap();
    let mut b = ShmWire::open(&Info::default()).unwrap();
    a.enable(false).unwrap();
    b.enable(false).unwrap();
    let name = b.name().to_vec();
    let peer = a.peer(&name).unwrap();
    (a, b, peer)
}

fn small(n: u64) -> Head {
    Head { op: 1, flags: 0, a: n, b: 0 }
}

/// Fills the ring to `peer` and returns how many packets went in.
fn flood(wire: &mut ShmWire, peer: PeerId) -> u64 {
    let mut count = 0;
    while wire.tx.try_emit(peer, small(count), &Source::fixed(&[])).is_ok() {
        count += 1;
    }
    count
}

#[test]
fn a_full_page_is_left_for_a_large_ring() {
    let (mut a, mut b, peer) = pair();
    assert_eq!(flood(&mut a, peer), 15);
    let more = flood(&mut a, peer);
    assert!(more >= 200, "nobody has read anything");
    let mut next = 0;
    while next < 15 + more {
        assert_eq!(b.poll_event(true), None);
        let Some(from) = b.rx.next_ready() else { continue };
        while let Some(packet) = b.rx.peek(from).unwrap() {
            assert_eq!(packet.head.a, if next < 15 { next } else { next - 15 });
            b.rx.consume(from);
            next += 1;
        }
    }
}

#[test]
fn a_consumer_that_breaks_the_rules_ends_once() {
    let (mut a, _b, peer) = pair();
    flood(&mut a, peer);
    flood(&mut a, peer);
    a.tx.break_ring(peer);
    let refused = a.tx.try_emit(peer, small(1), &Source::fixed(&[]));
    assert_eq!(refused, Err(Refused::Down(Errno::EPROTO)));
    assert_eq!(a.tx.try_emit(peer, small(2), &Source::fixed(&[])), refused);
    assert!(!a.arm(&[]), "there is something to tell");
    assert_eq!(a.poll_event(true), Some(Event::Down(peer, Errno::EPROTO)));
    assert_eq!(a.poll_event(true), None);
}
