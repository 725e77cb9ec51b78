//! Packets of a peer that breaks the protocol: its connection ends, and nothing else.

use super::{
    super::{
        Event, Token, Transport,
        packet::{AtomicRequest, Head, Message, Place, Ranges, Segment},
        record::{Acceptance, ConnectionId, Features, FlowControl, Request},
    },
    at::At,
    node::{LIMITS, Node, iov, meta, nodes, pattern, settle, want},
    world::{Conn, Script, Shared, TestTransport, owned, regions},
};
use crate::{
    Errno,
    atomic::{atomic_op, datatype},
    op::{AtomicKind, RecvOp, RmaIov},
};

/// A node, a good peer of it, and one that is made up and connected.
struct Scene {
    _shared: Shared,
    node: Node,
    good: Node,
    bad: TestTransport,
    conn: Conn,
}

/// How the node numbers the made-up peer.
const BAD: u64 = 1;

impl Scene {
    fn new(tag: u64) -> Self {
        Self::with(Script::default(), tag)
    }

    fn with(script: Script, tag: u64) -> Self {
        let (shared, mut list) = nodes(2, script, LIMITS);
        let (mut good, mut node) = (list.pop().unwrap(), list.pop().unwrap());
        // A message between the two is on its way all the time.
        let mut large = pattern(1, 9000);
        good.send(meta(0, 1), Some(tag), &[iov(&mut large)]).unwrap();
        settle(&mut [&mut node, &mut good]);
        std::mem::forget(large);
        let mut bad = shared.transport(At(3, 7), regions());
        bad.listen().unwrap();
        node.knows(At(3, 7));
        let words = Request {
            port: 7,
            flow_control: FlowControl::Off,
            eager_limit: LIMITS.eager,
            receives: 1,
            id: ConnectionId { owner: 9, index: 0 },
            features: Features::default(),
        };
        let conn = bad.connect(Token(1), At(1, 7), &words.bytes()).unwrap();
        settle(&mut [&mut node]);
        let events = heard(&mut bad);
        let [Event::Connected { data, .. }] = &events[..] else { panic!("{events:?}") };
        let index = Acceptance::parse(data).unwrap().id.index;
        assert_eq!(u64::from(index), BAD);
        Self { _shared: shared, node, good, bad, conn }
    }

    fn say(&mut self, packet: &[u8]) {
        self.bad.say(self.conn, packet);
        settle(&mut [&mut self.node]);
    }

    /// The connection has ended, and that of the good peer has not.
    fn assert_let_go(mut self, what: &str) {
        let events = heard(&mut self.bad);
        let ended = events.iter().any(|event| matches!(event, Event::Ended { .. }));
        assert!(ended, "{what}: {events:?}");
        assert_eq!(self.node.engine.conns.len(), 1, "{what}");
        settle(&mut [&mut self.node, &mut self.good]);
        assert!(self.good.sent().is_empty());
    }

    fn assert_kept(mut self, what: &str) {
        let events = heard(&mut self.bad);
        let ended = events.iter().any(|event| matches!(event, Event::Ended { .. }));
        assert!(!ended, "{what}");
        assert_eq!(self.node.engine.conns.len(), 2, "{what}");
    }
}

fn heard(peer: &mut TestTransport) -> Vec<Event<TestTransport>> {
    let mut events = Vec::new();
    peer.poll(&mut events, &mut ());
    events
}

fn packet(head: Head, (conn, message): (u32, u64), body: &[u8]) -> Vec<u8> {
    [&head.about(conn, message).bytes()[..], body].concat()
}

fn message(size: u64) -> Message {
    Message { tagged: true, tag: 5, size, data: None }
}

fn segment(size: u64, place: Place, len: usize, conn: u32) -> Vec<u8> {
    let head = Head::segment(&message(size), Segment { number: 0, place }, len as u16);
    packet(head, (conn, 8), &vec![7; len])
}

#[test]
fn what_ends_a_connection() {
    let ranges = Ranges::new(&[RmaIov { addr: 0, len: 8, key: 1 }]).unwrap();
    let own = BAD as u32;
    let mut unknown = packet(Head::read_done(), (own, 0), &[]);
    unknown[1] = 9;
    let good = packet(Head::eager(&message(8)), (own, 0), &[1; 8]);
    let request = AtomicRequest {
        kind: AtomicKind::Base,
        datatype: datatype::UINT8 as u8,
        op: atomic_op::SUM as u8,
        size: 1,
        ranges,
    };
    let huge = Message { size: u64::MAX, ..message(0) };
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("an unknown kind", vec![unknown]),
        ("less than headers", vec![good[..63].to_vec()]),
        ("nothing", vec![Vec::new()]),
        ("less than announced", vec![good[..70].to_vec()]),
        ("a segment for somebody else", vec![segment(16, Place::First, 8, own + 1)]),
        ("a segment without a beginning", vec![segment(16, Place::Middle, 8, own)]),
        ("an end without a beginning", vec![segment(16, Place::Last, 8, own)]),
        (
            "two beginnings",
            vec![segment(16, Place::First, 8, own), segment(16, Place::First, 8, own)],
        ),
        (
            "too many bytes",
            vec![segment(16, Place::First, 8, own), segment(16, Place::Last, 9, own)],
        ),
        (
            "too few bytes",
            vec![segment(16, Place::First, 8, own), segment(16, Place::Last, 7, own)],
        ),
        (
            "an end too late",
            vec![segment(16, Place::First, 16, own), segment(16, Place::Middle, 1, own)],
        ),
        ("a read of nothing", vec![packet(Head::read_done(), (own, 77), &[])]),
        ("a write of nothing", vec![packet(Head::write_done(), (own, 77), &[])]),
        ("room for nothing", vec![packet(Head::write_ready(), (own, 77), &ranges.bytes())]),
        (
            "an answer to nothing",
            vec![packet(Head::atomic_response(&request, 8), (own, 77), &[0; 8])],
        ),
        (
            "an announcement of less",
            vec![packet(Head::announcement(&huge), (own, 1), &ranges.bytes())],
        ),
    ];
    for (what, packets) in cases {
        // Packets may be taken where they have been received.
        for (with_receive, told) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
            let mut scene = Scene::with(Script { told, ..Script::default() }, 99);
            let mut to = vec![0; 64];
            if with_receive {
                scene.node.trecv(7, 5, &mut to);
            }
            for packet in &packets {
                scene.say(packet);
            }
            let taken = with_receive && scene.node.engine.core.inbox.posted_len() == 0;
            if taken {
                // The message that has taken it will not come whole.
                assert_eq!(scene.node.received()[0].err().err, Errno::EPROTO, "{what}");
            }
            let peer = scene.node.engine.core.peers.get(BAD as u32).unwrap();
            assert_eq!(peer.load.kept, 0, "{what}");
            scene.assert_let_go(what);
        }
    }
}

#[test]
fn what_means_nothing_is_let_through() {
    let mut scene = Scene::new(99);
    scene.say(&packet(Head::credit(u64::MAX), (0, 0), &[]));
    let mut odd = packet(Head::eager(&message(8)), (BAD as u32, 0), &[1; 8]);
    (odd[0], odd[32], odd[33], odd[35]) = (9, 9, 9, 9);
    odd[16..24].fill(0xff);
    odd[24..32].fill(0xff);
    scene.say(&odd);
    assert_eq!(scene.node.engine.core.inbox.waiting_len(), 2);
    scene.assert_kept("versions and left-overs");
}

/// The names of others' messages, and one's own twice.
#[test]
fn nobody_answers_for_another() {
    let name = |node: &Node| {
        let mut works = node.engine.core.works.iter();
        let name = works.next().map(|(handle, _)| handle.raw());
        name.unwrap()
    };
    for head in [Head::read_done(), Head::write_ready()] {
        let mut scene = Scene::new(99);
        // To the good peer, which has no receive for it.
        let mut large = pattern(2, 9000);
        scene.node.send(meta(1, 4), Some(6), &[iov(&mut large)]).unwrap();
        settle(&mut [&mut scene.node, &mut scene.good]);
        let ranges = Ranges::new(&[RmaIov { addr: 0, len: 9000, key: 1 }]).unwrap();
        let name = name(&scene.node);
        scene.say(&packet(head, (BAD as u32, name), &ranges.bytes()));
        assert!(scene.node.sent().is_empty());
        assert_eq!(scene.node.engine.core.works.len(), 1);
        let mut to = vec![0; 9000];
        scene.good.trecv(3, 6, &mut to);
        settle(&mut [&mut scene.node, &mut scene.good]);
        scene.node.sent()[0].ok();
        assert!(to == large);
        scene.assert_let_go("another's message");
    }
    let mut scene = Scene::new(99);
    let mut large = pattern(2, 9000);
    scene.node.send(meta(2, 4), Some(6), &[iov(&mut large)]).unwrap();
    settle(&mut [&mut scene.node]);
    let name = name(&scene.node);
    let done = packet(Head::read_done(), (BAD as u32, name), &[]);
    scene.say(&done);
    scene.node.sent()[0].ok();
    scene.say(&done);
    scene.assert_let_go("twice");
}

/// Memory that a peer announces and does not have.
#[test]
fn an_announcement_of_nothing() {
    let mut scene = Scene::new(99);
    let mut to = vec![0; 8000];
    let pieces = [iov(&mut to)];
    scene.node.recv(RecvOp { iov: &pieces, ..want(7, 5) }).unwrap();
    let ranges = Ranges::new(&[RmaIov { addr: 1 << 40, len: 8000, key: 0xbad }]).unwrap();
    let announcement = Head::announcement(&message(8000));
    scene.say(&packet(announcement, (BAD as u32, 5), &ranges.bytes()));
    heard(&mut scene.bad);
    settle(&mut [&mut scene.node]);
    assert!(scene.node.received()[0].err().err != Errno::ETRUNC);
    assert_eq!(scene.node.engine.core.works.len(), 0);
}

/// Room for a message is filled as far as it goes, and refused where there is none.
#[test]
fn room_of_any_size() {
    for room in [0, 1, 8999, 9000, 20_000] {
        let mut scene = Scene::new(99);
        let mut large = pattern(2, 9000);
        scene.node.send(meta(2, 4), Some(6), &[iov(&mut large)]).unwrap();
        settle(&mut [&mut scene.node]);
        let mut events = heard(&mut scene.bad);
        let Some(Event::Packet { packet: announced, .. }) = events.pop() else { panic!() };
        let memory = owned(&vec![0; room.max(1)]);
        let access = crate::flags::Flags::REMOTE_WRITE;
        let (_exposure, ranges) = scene.bad.expose(memory.buffers(), access).unwrap();
        let range = RmaIov { len: room, ..ranges.as_slice()[0] };
        let ranges = Ranges::new(&[range]).unwrap();
        let mut name = [0; 8];
        name.copy_from_slice(&announced[16..24]);
        let name = u64::from_ne_bytes(name);
        scene.say(&packet(Head::write_ready(), (BAD as u32, name), &ranges.bytes()));
        heard(&mut scene.bad);
        settle(&mut [&mut scene.node]);
        assert_eq!(scene.node.sent().len(), 1, "room for {room}");
        let mut got = vec![0; room.max(1)];
        memory.buffers().gather(0, &mut got);
        let len = room.min(9000);
        assert!(got[..len] == large[..len], "room for {room}");
        assert_eq!(scene.node.engine.core.works.len(), 0);
    }
}
