//! Peers that do not keep up: what they make wait, and whom.

use fabric_core::{
    Errno,
    op::{RecvOp, RmaIov, RmaKind},
};

use super::{
    super::pressure::ASKED_MAX,
    net::{Script, Shared},
    node::{LIMITS, Node, introduce, iov, meta, pair, pattern, settle, succeeded, want},
    stranger::{Claim, Stranger},
};
use crate::frame::head::{BASE_LEN, HeadFlags, Header, Ranges, RtsIndex};

const KEY: u64 = 7;
const LEN: usize = 16 << 10;

fn ranges(len: usize) -> Ranges {
    Ranges::new(&[RmaIov { addr: 0, len, key: KEY }]).unwrap()
}

/// Bytes of memory that wait to leave, and answers.
fn waiting(node: &Node) -> (usize, usize) {
    let conns = node.engine.conns.iter();
    conns.map(|(_, conn)| (conn.tx.out.len(), conn.tx.control.len())).max().unwrap()
}

/// Asks until nothing is taken any more, then takes the answers; returns how many requests were
/// taken at first, and how many bytes came back for them.
fn flood(request: &Header, payload: &[u8]) -> (usize, usize) {
    let shared = Shared::new(Script::default());
    let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
    let mut memory = pattern(1, LEN);
    let _region = a.expose(KEY, &mut memory);
    let mut stranger = Stranger::admitted(&shared, "10.0.0.2", &mut a);
    let (mut asked, mut refused) = (0, 0);
    while refused < 20 {
        if stranger.say(request, payload) {
            (asked, refused) = (asked + 1, 0);
        } else {
            refused += 1;
            a.engine.progress();
        }
        assert!(asked < 20 * ASKED_MAX, "everything is taken");
    }
    let (staged, answers) = waiting(&a);
    assert!(staged <= 128 << 10, "{staged} bytes are staged");
    assert!(answers <= 3 * ASKED_MAX, "{answers} answers wait");
    let (mut bytes, mut got, mut quiet) = (vec![0; 1 << 20], 0, 0);
    while quiet < 20 {
        match stranger.take(&mut bytes).unwrap() {
            0 => quiet += 1,
            n => (got, quiet) = (got + n, 0),
        }
        a.engine.progress();
    }
    (asked, got)
}

/// Whoever asks and takes no answer is not listened to any more, until it takes them.
#[test]
fn answers_that_nobody_takes() {
    let (reads, got) = flood(&Header::read(ranges(LEN)), &[]);
    assert!(reads > ASKED_MAX);
    assert_eq!(got, reads * (BASE_LEN + LEN));
    let write = Header::write(ranges(8)).with_flags(HeadFlags::DELIVERY_COMPLETE);
    let (writes, got) = flood(&write, &[5; 8]);
    assert!(writes > ASKED_MAX);
    assert_eq!(got, writes * BASE_LEN);
}

/// Both ask for more than either keeps waiting, and all of that is on its way before any answer.
#[test]
fn two_that_ask_each_other_for_more_than_may_wait() {
    const ASK: usize = 2 * ASKED_MAX + 600;
    const EACH: usize = 4000;
    let (_, mut a, mut b) = pair(Script { room: ASK * 40 + 5000, ..Script::default() });
    let mut memory = [pattern(1, EACH), pattern(2, EACH)];
    let [of_a, of_b] = &mut memory;
    let _regions = (a.expose(KEY, of_a), b.expose(KEY, of_b));
    let mut places = [vec![0; EACH], vec![0; EACH]];
    let [to_a, to_b] = &mut places;
    let [to_a, to_b] = [[iov(to_a)], [iov(to_b)]];
    a.rma_into(meta(1, 0), RmaKind::Read, &to_a, (0, KEY)).unwrap();
    settle(&mut [&mut a, &mut b]);
    assert_eq!(succeeded(&a.sent()), 1);
    // All of them bring the same bytes.
    for (node, dest, to) in [(&mut a, 1, &to_a), (&mut b, 0, &to_b)] {
        for n in 0..ASK {
            node.rma_into(meta(dest, n), RmaKind::Read, to, (0, KEY)).unwrap();
        }
    }
    let mut done = [0, 0];
    while done != [ASK; 2] {
        let before = done;
        for _ in 0..5 {
            settle(&mut [&mut a, &mut b]);
            done[0] += succeeded(&a.sent());
            done[1] += succeeded(&b.sent());
        }
        assert_ne!(done, before, "of {ASK}");
    }
    assert_eq!((places[0] == pattern(2, EACH), places[1] == pattern(1, EACH)), (true, true));
    a.assert_idle();
    b.assert_idle();
}

/// One that is not there, and one that takes nothing, are refused before a third is.
#[test]
fn a_peer_that_takes_nothing_leaves_room_for_others() {
    let shared = Shared::new(Script { room: 1000, ..Script::default() });
    let names = ["10.0.0.1:0", "10.0.0.2:0", "10.0.0.3:0", "10.0.0.4:0"];
    let [mut a, mut gone, mut asleep, mut b] = names.map(|at| Node::new(&shared, at, at, LIMITS));
    introduce(&mut [&mut a, &mut gone, &mut asleep, &mut b]);
    drop(gone);
    let mut hello = pattern(1, 8);
    a.send(meta(2, 0), Some(1), &[iov(&mut hello)]).unwrap();
    settle(&mut [&mut a, &mut asleep]);
    let (mut taken, mut large) = ([0, 0], pattern(2, 5000));
    for (taken, dest) in taken.iter_mut().zip([1, 2]) {
        let refused = loop {
            match a.send(meta(dest, 1), Some(2), &[iov(&mut large)]) {
                Ok(()) => *taken += 1,
                Err(reason) => break reason,
            }
        };
        assert_eq!(refused, Errno::EAGAIN);
    }
    assert!(taken[0] >= 64 << 10 && taken[1] >= 16 << 10, "{taken:?}");
    for n in 0..100 {
        let mut room = vec![0; 5000];
        let receive = [iov(&mut room)];
        b.recv(RecvOp { iov: &receive, ..want(n, 3) }).unwrap();
        a.send(meta(3, 3), Some(3), &[iov(&mut large)]).unwrap();
        for _ in 0..50 {
            settle(&mut [&mut b]);
            a.engine.progress();
        }
        assert_eq!(succeeded(&b.received()), 1, "message {n}");
        assert!(room == large);
    }
}

/// Announced messages that nobody wants yet are no obstacle to what comes behind them.
#[test]
fn a_small_message_behind_many_large_ones() {
    const LARGE: usize = 70_000;
    let (_, mut a, mut b) = pair(Script::default());
    let (mut large, mut small) = (pattern(1, LARGE), pattern(2, 8));
    for n in 0..1000 {
        a.send(meta(1, n), Some(n as u64), &[iov(&mut large)]).unwrap();
    }
    a.send(meta(1, 1000), Some(1000), &[iov(&mut small)]).unwrap();
    let mut room = vec![0; 8];
    b.trecv(1, 1000, &mut room);
    settle(&mut [&mut a, &mut b]);
    assert_eq!((succeeded(&b.received()), &room), (1, &small));
    let mut room = vec![0; LARGE];
    for n in [500, 999, 0].into_iter().chain(1..500).chain(501..999) {
        room.fill(0);
        b.trecv(2, n, &mut room);
        while b.received().is_empty() {
            a.engine.progress();
            b.engine.progress();
        }
        assert!(room == large, "message {n}");
    }
    settle(&mut [&mut a, &mut b]);
    assert_eq!(succeeded(&a.sent()), 1001);
    a.assert_idle();
    b.assert_idle();
}

/// Nobody announces under an index that is in use, or more than may wait.
#[test]
fn announcements_without_end() {
    let shared = Shared::new(Script::default());
    let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
    let rts = |index| Header::rts(RtsIndex::new(index, true).unwrap(), 5, 100);
    let mut other = Stranger::admitted(&shared, "10.0.0.2", &mut a);
    (1..=254).for_each(|index| assert!(other.say(&rts(index), &[])));
    settle(&mut [&mut a]);
    assert!(!other.has_ended());
    assert!(other.say(&rts(7), &[]));
    settle(&mut [&mut a]);
    assert!(other.has_ended());

    let claim = Claim { port: 8, nonce: 7, epoch: Some(3) };
    let mut ours = Stranger::new(&shared, "10.0.0.3", &mut a, claim);
    settle(&mut [&mut a]);
    let most = ASKED_MAX as u16;
    for index in 1..=most + 1 {
        assert!(!ours.has_ended(), "before {index}");
        while !ours.say(&rts(index), &[]) {
            a.engine.progress();
        }
    }
    settle(&mut [&mut a]);
    assert!(ours.has_ended());
    a.assert_idle();
}

/// What keeping a message takes beside its bytes counts, too.
#[test]
fn messages_without_bytes_are_not_kept_without_end() {
    let shared = Shared::new(Script { room: 1 << 20, ..Script::default() });
    let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
    let mut stranger = Stranger::admitted(&shared, "10.0.0.2", &mut a);
    let (mut said, mut refused) = (0, 0);
    while refused < 10 {
        if stranger.say(&Header::message(0), &[]) {
            (said, refused) = (said + 1, 0);
        } else {
            refused += 1;
            a.engine.progress();
        }
        assert!(said < 1 << 18, "everything is taken");
    }
    let rx = a.state().rx;
    let context = a.engine.core.contexts.get(rx).unwrap();
    assert!(context.kept() <= 16 << 20);
    assert!(context.inbox.waiting_len() <= 1 << 17);
}

/// Both have so much on its way to the other that nothing more leaves, and one asks for something behind
/// that: the other's answer is behind what nobody here has receives for.
#[test]
fn what_is_asked_behind_two_floods_is_answered() {
    const EACH: usize = 60 << 10;
    const MANY: usize = 600;
    let (_shared, mut a, mut b) = pair(Script { room: 1 << 20, ..Script::default() });
    let mut memory = pattern(1, LEN);
    let _region = b.expose(KEY, &mut memory);
    let (mut flood, mut place) = (pattern(2, EACH), vec![0; EACH]);
    let mut posted = [0; 2];
    let [own, others] = &mut posted;
    for (node, to, posted) in [(&mut a, 1, own), (&mut b, 0, others)] {
        while *posted < MANY && node.send(meta(to, 1), Some(9), &[iov(&mut flood)]).is_ok() {
            *posted += 1;
        }
    }
    settle(&mut [&mut a, &mut b]);
    let mut sent = succeeded(&a.sent());
    assert!(sent < posted[0] && succeeded(&b.sent()) < posted[1], "neither takes more");

    let mut got = vec![0; 100];
    a.rma(meta(1, 7), RmaKind::Read, &mut got, (0, KEY)).unwrap();
    settle(&mut [&mut a, &mut b]);
    sent += succeeded(&a.sent());
    assert!(sent < posted[0], "it has not left");
    for _ in 0..posted[0] {
        b.trecv(2, 9, &mut place);
    }
    for _ in 0..100 {
        settle(&mut [&mut a, &mut b]);
        sent += succeeded(&a.sent());
    }
    assert_eq!(sent, posted[0] + 1, "no receive was posted here");
    assert_eq!(got, memory[..100]);
}

/// The end of a peer is not behind what waits for receives. All that it has sent can be received.
#[test]
fn a_flood_does_not_hide_its_senders_end() {
    let shared = Shared::new(Script { room: 1 << 20, ..Script::default() });
    let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
    let mut stranger = Stranger::admitted(&shared, "10.0.0.2", &mut a);
    let payload = pattern(3, LEN);
    let (mut said, mut refused) = (0, 0);
    while refused < 10 {
        if stranger.say(&Header::message(LEN), &payload) {
            (said, refused) = (said + 1, 0);
        } else {
            refused += 1;
            a.engine.progress();
        }
    }
    assert!(a.engine.conns.iter().any(|(_, conn)| conn.is_stalled()));
    drop(stranger);
    settle(&mut [&mut a]);
    assert_eq!(a.engine.conns.iter().count(), 0, "it has left");
    let mut place = vec![0; LEN];
    for message in 0..said {
        a.recv(RecvOp { iov: &[iov(&mut place)], tagged: false, ..want(1, 0) }).unwrap();
        assert!(succeeded(&a.received()) == 1 && place == payload, "message {message}");
    }
    a.assert_idle();
}

/// Of an ended stream, too, nothing is kept for a length that is only said.
#[test]
fn an_ended_stream_may_not_say_any_length() {
    let shared = Shared::new(Script { room: 1 << 20, ..Script::default() });
    let mut a = Node::new(&shared, "10.0.0.1:0", "10.0.0.1:0", LIMITS);
    let mut stranger = Stranger::admitted(&shared, "10.0.0.2", &mut a);
    assert!(stranger.say(&Header::message(2 << 30), &[]));
    settle(&mut [&mut a]);
    assert!(a.engine.conns.iter().any(|(_, conn)| conn.is_stalled()));
    drop(stranger);
    settle(&mut [&mut a]);
    assert_eq!(a.engine.conns.iter().count(), 0);
    let context = a.engine.core.contexts.get(a.state().rx).unwrap();
    assert_eq!((context.kept(), context.inbox.waiting_len()), (0, 0));
}
