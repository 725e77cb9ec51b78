//! Connections of reliable datagrams.

use fabric_core::rdm_over_msg::{Event as Told, Token};

use super::*;

/// Packets of reliable datagrams: copied on the way out, told when they are done, received in the
/// order in which they come, and held back where the protocol asks for that.
#[test]
fn packets_of_reliable_datagrams() {
    let mut engine = engine(RXE);
    engine.open_layer(1000).unwrap();
    let receives = mock::shared_receives();
    assert!(receives >= 64);
    let token = Token(7);
    let conn = engine.layer_connect(token, None, peer(), b"who").unwrap();
    let told = |engine: &mut Engine| {
        engine.progress();
        engine.look();
        std::mem::take(&mut engine.layer_parts().unwrap().1.events)
    };
    for kind in
        [RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ESTABLISHED]
    {
        mock::event(kind, 0, &[2, b'm', b'e']);
        engine.look();
    }
    match &told(&mut engine)[..] {
        [Told::Connected { conn: Token(7), data }] => assert_eq!(data, b"me"),
        other => panic!("{other:?}"),
    }

    engine.layer_send(conn, b"head", &Buffers::EMPTY, None).unwrap();
    engine.layer_send(conn, &[1; 600], &Buffers::EMPTY, Some(Token(9))).unwrap();
    let refused = engine.layer_send(conn, &[1; 1001], &Buffers::EMPTY, None);
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

    engine.layer_send(conn, &[1; 600], &Buffers::EMPTY, Some(Token(10))).unwrap();
    mock::event(RDMA_CM_EVENT_DISCONNECTED, 0, &[]);
    let ended = told(&mut engine);
    let reason = Errno::ECONNRESET;
    assert!(
        matches!(&ended[..], [Told::Ended { conn: Token(7), reason: told }] if *told == reason),
        "{ended:?}"
    );
    let again = engine.layer_send(conn, b"x", &Buffers::EMPTY, None);
    assert_eq!(again.unwrap_err(), Errno::ENOTCONN);
    assert_eq!(engine.layer_owes(), 0);
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
