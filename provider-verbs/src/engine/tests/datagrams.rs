//! Connections of reliable datagrams.

use fabric_core::rdm_over_msg::{Event as Told, Token};

use super::*;

/// The connection 7, which is up.
fn connect(engine: &mut Engine) -> Handle {
    let conn = engine.layer_connect(Token(7), None, peer(), b"who").unwrap();
    for kind in
        [RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ESTABLISHED]
    {
        mock::event(kind, 0, &[2, b'm', b'e']);
        engine.look();
    }
    conn
}

/// What has happened since the last time.
fn told(engine: &mut Engine) -> Vec<Told<crate::links::Links>> {
    engine.progress();
    engine.look();
    std::mem::take(&mut engine.layer_parts().unwrap().1.events)
}

/// Packets of reliable datagrams: copied on the way out, told when they are done, received in the
/// order in which they come, and held back where the protocol asks for that.
#[test]
fn packets_of_reliable_datagrams() {
    let mut engine = engine(RXE);
    engine.open_layer(1000).unwrap();
    let receives = mock::shared_receives();
    assert!(receives >= 64);
    let conn = connect(&mut engine);
    match &told(&mut engine)[..] {
        [Told::Connected { conn: Token(7), data }] => assert_eq!(data, b"me"),
        other => panic!("{other:?}"),
    }

    engine.layer_send(conn, b"head", &Buffers::EMPTY, None, false).unwrap();
    engine.layer_send(conn, &[1; 600], &Buffers::EMPTY, Some(Token(9)), false).unwrap();
    let refused = engine.layer_send(conn, &[1; 1001], &Buffers::EMPTY, None, false);
    assert_eq!(refused.unwrap_err(), Errno::EMSGSIZE);
    let posted = mock::posted().0;
    assert_eq!(posted.len(), 2);
    assert_eq!(posted[0].flags & IBV_SEND_INLINE, IBV_SEND_INLINE);
    assert_eq!((posted[1].pieces[0].1, posted[1].flags & IBV_SEND_INLINE), (600, 0));
    mock::complete_send(0, IBV_WC_SUCCESS);
    mock::complete_send(1, IBV_WC_SUCCESS);
    let done = told(&mut engine);
    assert!(matches!(&done[..], [Told::Done { token: Token(9), outcome: Ok(()) }]), "{done:?}");

    mock::complete_shared(0, 30);
    engine.layer_pause(conn, true);
    assert!(told(&mut engine).is_empty(), "held back");
    assert_eq!(mock::shared_receives(), receives, "and posted again all the same");
    engine.layer_pause(conn, false);
    match &told(&mut engine)[..] {
        [Told::Packet { conn: Token(7), packet }] => assert_eq!(packet.len(), 30),
        other => panic!("{other:?}"),
    }

    engine.layer_send(conn, &[1; 600], &Buffers::EMPTY, Some(Token(10)), false).unwrap();
    mock::event(RDMA_CM_EVENT_DISCONNECTED, 0, &[]);
    let ended = told(&mut engine);
    let reason = Errno::ECONNRESET;
    assert!(
        matches!(&ended[..], [Told::Ended { conn: Token(7), reason: told }] if *told == reason),
        "{ended:?}"
    );
    let again = engine.layer_send(conn, b"x", &Buffers::EMPTY, None, false);
    assert_eq!(again.unwrap_err(), Errno::ENOTCONN);
    assert_eq!(engine.layer_owes(), 0);
}

/// The device tells of what somebody waits for, and of enough others that room and packets come back.
#[test]
fn packets_that_nobody_waits_for_are_told_of_by_others() {
    let mut engine = engine(RXE);
    engine.open_layer(1000).unwrap();
    let conn = connect(&mut engine);
    told(&mut engine);
    for _ in 0..40 {
        engine.layer_send(conn, b"small", &Buffers::EMPTY, None, false).unwrap();
    }
    let posted = mock::posted().0;
    let signalled: Vec<usize> = (0..40).filter(|at| posted[*at].is_told()).collect();
    assert_eq!(signalled, [32], "one in 33 of 128");
    mock::complete_send(32, IBV_WC_SUCCESS);
    assert!(told(&mut engine).is_empty());
    engine.layer_send(conn, b"waited for", &Buffers::EMPTY, Some(Token(9)), false).unwrap();
    assert!(mock::posted().0[40].is_told());
    mock::complete_send(40, IBV_WC_SUCCESS);
    assert_eq!(told(&mut engine).len(), 1);
    assert_eq!(engine.layer_owes(), 0, "those before it are done, too");

    engine.layer_send(conn, b"small", &Buffers::EMPTY, None, false).unwrap();
    assert_eq!(engine.layer_owes(), 2, "the last one, and the one that shows its end");
    assert!(mock::posted().0[42].is_told());
    assert_eq!(engine.layer_owes(), 2);
    mock::complete_send(42, IBV_WC_SUCCESS);
    told(&mut engine);
    assert_eq!(engine.layer_owes(), 0);
}

/// Many connections with a packet each that the device does not tell of do not keep all of them.
#[test]
fn half_of_the_packets_come_back_by_themselves() {
    let mut engine = engine(RXE);
    engine.open_layer(1000).unwrap();
    let big = [1; 900];
    let mut told_of = 0;
    for _ in 0..8 {
        let conn = connect(&mut engine);
        for _ in 0..32 {
            engine.layer_send(conn, &big, &Buffers::EMPTY, None, false).unwrap();
        }
        told_of += mock::posted().0.iter().filter(|send| send.is_told()).count();
    }
    assert_eq!(told_of, 128, "of 256, from the half on");
    let conn = connect(&mut engine);
    let full = engine.layer_send(conn, &big, &Buffers::EMPTY, None, false);
    assert_eq!(full.unwrap_err(), Errno::EAGAIN);
}

/// Messages with `FI_MORE` are copied and wait, and go in one call with the next one.
#[test]
fn packets_that_others_follow_go_together() {
    let mut engine = engine(RXE);
    engine.open_layer(1000).unwrap();
    let conn = connect(&mut engine);
    for _ in 0..3 {
        engine.layer_send(conn, b"small", &Buffers::EMPTY, None, true).unwrap();
    }
    assert_eq!(mock::posted().0.len(), 0);
    engine.layer_send(conn, b"small", &Buffers::EMPTY, None, false).unwrap();
    let (posted, calls) = mock::posted();
    assert_eq!((posted.len(), calls), (4, 1));
    let inline: Vec<bool> = posted.iter().map(|send| send.flags & IBV_SEND_INLINE != 0).collect();
    assert_eq!(inline, [false, false, false, true], "what waits is not the program's memory");
    engine.layer_send(conn, b"small", &Buffers::EMPTY, None, true).unwrap();
    engine.progress();
    assert_eq!(mock::posted().0.len(), 5, "the next progress call takes it along");
}

/// A message that is done to the protocol above, and that the device does not take after all, is the
/// end of its connection.
#[test]
fn packets_that_do_not_leave_end_their_connection() {
    let mut engine = engine(RXE);
    engine.open_layer(1000).unwrap();
    let conn = connect(&mut engine);
    told(&mut engine);
    mock::fail("post_send", &[0, libc::EINVAL]);
    for _ in 0..3 {
        engine.layer_send(conn, b"small", &Buffers::EMPTY, None, true).unwrap();
    }
    match &told(&mut engine)[..] {
        [Told::Ended { conn: Token(7), reason }] => assert_eq!(*reason, Errno::EINVAL),
        other => panic!("{other:?}"),
    }
    assert!(engine.eps.get(conn).is_none());
}

/// However large packets are, and however many peers there are, the memory is bounded.
#[test]
fn packets_of_any_size_take_bounded_memory() {
    for (packet, receives) in [(16_448, 512), (65_599, 511), (16 << 20, 4)] {
        let before = mock::shared_receives();
        let mut engine = engine(RXE);
        engine.open_layer(packet).unwrap();
        assert_eq!(mock::shared_receives() - before, receives, "{packet}");
    }
}

#[test]
fn reliable_datagrams_whose_peer_refuses() {
    let mut engine = engine(RXE);
    engine.open_layer(1000).unwrap();
    let conn = engine.layer_connect(Token(7), None, peer(), b"who").unwrap();
    for kind in [RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED] {
        mock::event(kind, 0, &[]);
        engine.look();
    }
    mock::event(RDMA_CM_EVENT_REJECTED, 28, &[2, 1, 2]);
    engine.look();
    let told = std::mem::take(&mut engine.layer_parts().unwrap().1.events);
    match &told[..] {
        [Told::Refused { conn: Token(7), data, reason, met: true }] => {
            assert_eq!((&data[..], *reason), (&[1, 2][..], Errno::ECONNREFUSED));
        }
        other => panic!("{other:?}"),
    }
    assert!(engine.eps.get(conn).is_none(), "nothing is left of it");
    assert_eq!(engine.queues.iter().map(|queue| queue.reserved).sum::<u32>(), 0);
}
