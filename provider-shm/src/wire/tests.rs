use std::time::{Duration, Instant};

use fabric_core::{
    wait::{Bell, Deadline, sleep_on},
    wire::{Head, Refused, Source, WireRx, WireTx},
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, bind, listen, socket_with};

use super::*;

/// An endpoint's transport under a name, or under one of its own.
fn open(name: &[u8]) -> ShmWire {
    let mut wire = ShmWire::open(&Info { src_addr: name.into(), ..Info::default() }).unwrap();
    wire.enable(false).unwrap();
    wire
}

fn emit(wire: &mut ShmWire, to: &[u8], a: u64) -> Result<(), Refused> {
    let peer = wire.peer(to).unwrap();
    wire.tx.try_emit(peer, Head { op: 1, flags: 0, a, b: 0 }, &Source::fixed(&[]))
}

/// Everything that happens, and the words of what arrives.
fn look(wire: &mut ShmWire) -> (Vec<Event>, Vec<u64>) {
    let (mut events, mut words) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        while let Some(event) = wire.poll_event(true) {
            events.push(event);
        }
        while let Some(peer) = wire.rx.next_ready() {
            while let Some(packet) = wire.rx.peek(peer).unwrap() {
                words.push(packet.head.a);
                wire.rx.consume(peer);
            }
        }
    }
    (events, words)
}

#[test]
fn the_probe_word_stays_where_it_was_announced() {
    let wire = ShmWire::open(&Info::default()).unwrap();
    let (at, value) = wire.tx.hello.probe;
    assert_eq!(std::ptr::from_ref::<u64>(&wire._probe) as u64, at);
    assert_eq!(*wire._probe, value);
}

#[test]
fn packets_are_there_for_a_receiver_that_looks_later() {
    let (mut a, mut b) = (open(b""), open(b""));
    let name = b.name().to_vec();
    emit(&mut a, &name, 1).unwrap();
    emit(&mut a, &name, 2).unwrap();
    a.close();
    let (events, words) = look(&mut b);
    assert_eq!(words, [1, 2]);
    assert_eq!(events, [Event::Down(0, Errno::ECONNRESET)]);
}

#[test]
fn a_successor_is_apart_from_one_that_never_answered() {
    let mut a = open(b"");
    let (name, here) = (unique().unwrap(), a.name().to_vec());
    let mut old = open(&name);
    emit(&mut a, &name, 1).unwrap();
    old.close();
    let mut new = open(&name);
    emit(&mut new, &here, 2).unwrap();

    let (events, words) = look(&mut a);
    assert_eq!((events, words), (vec![Event::Down(0, Errno::ECONNRESET)], vec![2]));
    emit(&mut a, &name, 3).unwrap();
    assert_eq!(look(&mut new), (vec![], vec![3]));
    assert_eq!(look(&mut a), (vec![], vec![]), "the old one's end is not the new one's");
}

#[test]
fn two_connections_of_one_endpoint_are_one_peer() {
    let (mut a, mut b) = (open(b""), open(b""));
    let (to_a, to_b) = (a.name().to_vec(), b.name().to_vec());
    emit(&mut a, &to_b, 1).unwrap();
    emit(&mut b, &to_a, 2).unwrap();
    assert_eq!(look(&mut a), (vec![], vec![2]));
    assert_eq!(look(&mut b), (vec![], vec![1]));
}

#[test]
fn whoever_cannot_be_answered_hears_of_it() {
    let (mut a, mut b) = (open(b""), open(b""));
    let name = b.name().to_vec();
    emit(&mut a, &name, 1).unwrap();
    assert_eq!(look(&mut b), (vec![], vec![1]));
    assert_eq!(b.tx.open_no_ring(0), Err(Refused::Down(Errno::EOTHER)));
    assert_eq!(look(&mut b), (vec![Event::Down(0, Errno::EOTHER)], vec![]));
    assert_eq!(look(&mut a), (vec![Event::Down(0, Errno::ECONNRESET)], vec![]));
}

#[test]
fn nothing_is_sent_before_the_ring_is_on_its_way() {
    let name = unique().unwrap();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let (listener, silent) = (socket(), socket());
    let address = socket_address(&name).unwrap();
    bind(&listener, &address).unwrap();
    // Room for one.
    listen(&listener, 0).unwrap();
    rustix::net::connect(&silent, &address).unwrap();

    let mut wire = open(b"");
    for _ in 0..3 {
        assert_eq!(emit(&mut wire, &name, 1), Err(Refused::Again));
        assert_eq!(look(&mut wire).0, []);
        assert!(!wire.arm(&[0]), "nobody rings when there is room");
    }
    drop(accept_with(&listener, flags).unwrap());
    assert_eq!(look(&mut wire).0, [Event::Writable(0)]);
    emit(&mut wire, &name, 1).unwrap();
    assert!(wire.arm(&[0]));
}

#[test]
fn a_peer_that_goes_while_it_cannot_be_reached_is_down() {
    let name = unique().unwrap();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let (listener, silent) = (socket(), socket());
    bind(&listener, &socket_address(&name).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    rustix::net::connect(&silent, &socket_address(&name).unwrap()).unwrap();
    let mut wire = open(b"");
    assert_eq!(emit(&mut wire, &name, 1), Err(Refused::Again));
    drop(listener);
    assert_eq!(look(&mut wire).0, [Event::Down(0, Errno::ECONNREFUSED)]);
}

#[test]
fn visitors_are_forgotten_and_their_numbers_used_again() {
    let mut host = open(b"");
    let here = host.name().to_vec();
    let friend = host.peer(b"friend").unwrap();
    for visit in 0..10 * CROWD as u64 {
        let mut visitor = open(b"");
        emit(&mut visitor, &here, visit).unwrap();
        visitor.close();
        assert_eq!(look(&mut host).1, [visit]);
        if host.is_crowded() {
            let gone = host.forget_unused(|peer, address| {
                assert_eq!(peer == friend, address == b"fi_shm://friend\0");
                peer == friend
            });
            assert_eq!(gone.len(), CROWD - 1);
        }
    }
    assert_eq!(host.tx.peers.len(), CROWD);
    assert_eq!(host.peer(b"friend"), Ok(friend));
}

#[test]
fn who_is_connected_is_not_forgotten() {
    let mut host = open(b"");
    let here = host.name().to_vec();
    let (mut calls, mut called) = (open(b""), open(b""));
    emit(&mut calls, &here, 1).unwrap();
    look(&mut host);
    let name = called.name().to_vec();
    emit(&mut host, &name, 2).unwrap();
    assert_eq!(host.forget_unused(|_, _| false), []);
    calls.close();
    called.close();
    while host.events.len() < 2 {
        host.look_at_sockets();
    }
    assert_eq!(host.forget_unused(|_, _| false), [], "the news of their ends is still to be told");
    look(&mut host);
    assert_eq!(host.forget_unused(|_, _| false).len(), 2);
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

/// Reads everything at every endpoint.
fn read_all(wires: &mut [ShmWire]) -> Vec<Vec<u64>> {
    wires.iter_mut().map(|wire| look(wire).1).collect()
}

/// An endpoint that knows so many peers, of which some are there.
fn in_a_crowd(known: usize, there: usize) -> (ShmWire, Vec<ShmWire>, Vec<PeerId>) {
    let mut wire = open(b"");
    let mut others: Vec<_> = (0..there).map(|_| open(b"")).collect();
    let mut peers = Vec::new();
    for other in &mut others {
        peers.push(wire.peer(other.name()).unwrap());
    }
    for absent in there..known {
        wire.peer(format!("absent-{absent}").as_bytes()).unwrap();
    }
    (wire, others, peers)
}

fn send_long(wire: &mut ShmWire, peer: PeerId, a: u64) -> bool {
    const LONG: usize = 4000;
    let fits = wire.tx.grow(peer, LONG);
    let bytes = [0; LONG];
    let len = if fits { LONG } else { 8 };
    wire.tx.try_emit(peer, small(a), &Source::fixed(&bytes[..len])).unwrap();
    fits
}

#[test]
fn a_pair_alone_has_the_largest_ring() {
    let (mut a, _b, peer) = pair();
    assert!(a.tx.grow(peer, 80 << 10));
    assert_eq!(a.tx.ring_bytes(peer), 256 << 10);
}

#[test]
fn rings_of_many_keep_to_their_share() {
    for known in [15, 63, 191] {
        let (mut wire, mut others, peers) = in_a_crowd(known, 24.min(known));
        let mut large = 0;
        for (n, &peer) in peers.iter().enumerate() {
            large += usize::from(send_long(&mut wire, peer, n as u64));
        }
        let words = read_all(&mut others);
        assert!(words.iter().enumerate().all(|(n, words)| words == &[n as u64]));
        let (bytes, share) = wire.tx.bytes_of_share();
        assert!(bytes <= share, "{known}: {bytes} of {share}");
        assert!(share * (known + 1) <= 150 << 20);
        assert!(large >= 15.min(peers.len()), "{known}: {large}");
    }
}

#[test]
fn first_contacts_take_large_rings_back() {
    let (mut wire, mut others, peers) = in_a_crowd(24, 24);
    let count = peers.len() as u64;
    assert!(peers.iter().take(12).all(|peer| send_long(&mut wire, *peer, 0)));
    read_all(&mut others);
    assert_eq!(wire.tx.ring_bytes(peers[0]), 256 << 10);
    // As many as a whole node becomes known later.
    wire.tx.known = 6000;
    for round in 1..4 {
        for &peer in &peers {
            emit_at(&mut wire, peer, round * count);
        }
        assert!(read_all(&mut others).iter().all(|words| words == &[round * count]));
    }
    let sizes: Vec<_> = peers.iter().map(|peer| wire.tx.ring_bytes(*peer) >> 10).collect();
    assert_eq!(sizes, [4; 24]);
}

fn emit_at(wire: &mut ShmWire, peer: PeerId, a: u64) {
    wire.tx.try_emit(peer, small(a), &Source::fixed(&[])).unwrap();
}

#[test]
fn a_resting_ring_makes_room_for_a_busy_pair() {
    let (mut wire, mut others, peers) = in_a_crowd(191, 24);
    let mut next = vec![0; peers.len()];
    let mut got = vec![Vec::new(); peers.len()];
    let mut long = vec![0; peers.len()];
    // Each peer in turn is the only one that is busy.
    for turn in 0..peers.len() * 4 {
        let now = turn % peers.len();
        for _ in 0..3 {
            long[now] += u32::from(send_long(&mut wire, peers[now], next[now]));
            next[now] += 1;
            wire.tx.a_while_later();
        }
        for (got, words) in got.iter_mut().zip(read_all(&mut others)) {
            got.extend(words);
        }
        let (bytes, share) = wire.tx.bytes_of_share();
        assert!(bytes <= share, "{bytes} of {share}");
    }
    for ((got, next), long) in got.iter().zip(&next).zip(&long) {
        assert!(got.iter().copied().eq(0..*next), "order is kept");
        assert!(*long >= 6, "{long} of {next}");
    }
}

#[test]
fn a_ring_that_is_waited_for_is_not_taken_back() {
    let (mut wire, mut others, peers) = in_a_crowd(24, 2);
    assert!(wire.tx.grow(peers[0], 4000));
    flood(&mut wire, peers[0]);
    read_all(&mut others);
    wire.tx.known = usize::from(u16::MAX);
    emit_at(&mut wire, peers[1], 1);
    assert!(wire.tx.max_payload(peers[0]) > 4000, "the one that was refused may be as long");
    emit_at(&mut wire, peers[0], 1);
    read_all(&mut others);
    wire.tx.a_while_later();
    for _ in 0..2 {
        assert!(!wire.tx.grow(peers[1], 4000));
        wire.tx.a_while_later();
    }
    assert_eq!(wire.tx.ring_bytes(peers[0]), 4096);
}

#[test]
fn pressure_goes_along_with_a_ring() {
    let (mut a, mut b, peer) = pair();
    emit_at(&mut a, peer, 1);
    assert_eq!(look(&mut b).1, [1]);
    b.rx.set_pressure(0, true);
    assert!(a.tx.pressure(peer));
    assert!(a.tx.grow(peer, 4000));
    emit_at(&mut a, peer, 2);
    assert_eq!(look(&mut b).1, [2]);
    assert!(a.tx.pressure(peer), "the reader has come to another ring");
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

#[test]
fn what_sleepers_are_told() {
    let mut a = ShmWire::open(&Info::default()).unwrap();
    let mut b = open(b"");
    a.enable(true).unwrap();
    let name = a.name().to_vec();
    emit(&mut b, &name, 1).unwrap();
    assert_eq!(look(&mut a), (vec![], vec![1]));
    assert!(a.arm(&[]));

    emit(&mut b, &name, 2).unwrap();
    assert!(is_readable(&a), "the bell");
    assert_eq!(a.poll_event(true), None);
    assert!(!is_readable(&a) && a.changed(), "another thread has heard it");
    a.bell().ring();
    assert!(becomes_readable(&a));
    assert_eq!(look(&mut a), (vec![], vec![2]));
    assert!(is_readable(&a), "and looks again before the sleeper has run");
    a.bell().rest();
    assert!(a.arm(&[]) && !is_readable(&a));
}

/// What cannot be read for lack of a descriptor keeps nobody from sleeping, for a while.
#[test]
fn sleepers_look_again_for_a_descriptor() {
    let mut a = ShmWire::open(&Info::default()).unwrap();
    let mut b = open(b"");
    a.enable(true).unwrap();
    let name = a.name().to_vec();
    emit(&mut b, &name, 1).unwrap();
    assert!(is_readable(&a), "a newcomer");
    for _ in 0..2 {
        a.starved = vec![LISTENER];
        let begin = Instant::now();
        assert!(a.arm(&[]));
        let quiet = !is_readable(&a);
        assert!(quiet || begin.elapsed() > Duration::from_millis(1));
        assert!(becomes_readable(&a) && !a.changed());
    }
    assert_eq!(look(&mut a), (vec![], vec![1]));
    assert!(a.starved.is_empty() && a.changed());
    assert!(a.arm(&[]) && !is_readable(&a));
    let mut c = open(b"");
    emit(&mut c, &name, 2).unwrap();
    assert!(is_readable(&a), "newcomers are watched for again");
    assert_eq!(look(&mut a), (vec![], vec![2]));
}

#[test]
fn an_endpoint_that_could_not_be_enabled_can_be_later() {
    let name = unique().unwrap();
    let mut first = open(&name);
    let mut second = ShmWire::open(&Info { src_addr: name.into(), ..Info::default() }).unwrap();
    for _ in 0..2 {
        assert_eq!(second.enable(true), Err(Errno::EADDRINUSE));
    }
    first.close();
    second.enable(true).unwrap();
    second.bell().ring();
    assert!(becomes_readable(&second));
    second.bell().rest();
    assert!(second.arm(&[]) && !is_readable(&second));
}

fn is_readable(wire: &ShmWire) -> bool {
    sleep_on(wire.sockets.as_fd(), Deadline::from_millis(0)).is_ok()
}

fn becomes_readable(wire: &ShmWire) -> bool {
    sleep_on(wire.sockets.as_fd(), Deadline::from_millis(5000)).is_ok()
}
