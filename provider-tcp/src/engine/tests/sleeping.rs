//! One thread sleeps while others drive the engine.

use fabric_core::{flags::Flags, op::TxMeta};

use super::{
    net::Script,
    node::{Node, iov, meta, pair, settle, succeeded},
};

/// Posts a message that waits for company.
fn stage(node: &mut Node, bytes: &mut [u8]) {
    let meta = TxMeta { flags: Flags::COMPLETION | Flags::MORE, ..meta(1, 1) };
    node.send(meta, Some(1), &[iov(bytes)]).unwrap();
    node.engine.hand_on();
}

#[test]
fn what_is_staged_wakes_the_sleeper_until_it_has_armed() {
    let (_, mut a, mut b) = pair(Script::default());
    let (mut sent, mut room) = ([1; 8], [0; 8]);
    stage(&mut a, &mut sent);
    assert!(!a.engine.net.bell.0, "nobody sleeps");
    settle(&mut [&mut a, &mut b]);
    assert!(a.engine.arm());
    stage(&mut a, &mut sent);
    assert!(a.engine.net.bell.0);
    // Whoever posts also polls, and may be done before the sleeper has run.
    a.engine.progress();
    a.engine.hand_on();
    assert!(a.engine.net.bell.0);
    stage(&mut a, &mut sent);
    assert!(a.engine.net.bell.0);

    a.engine.progress();
    assert!(a.engine.arm() && !a.engine.net.bell.0);
    stage(&mut a, &mut sent);
    assert!(a.engine.net.bell.0, "and again");
    for _ in 0..4 {
        b.trecv(1, 1, &mut room);
        settle(&mut [&mut a, &mut b]);
    }
    assert_eq!((succeeded(&a.sent()), succeeded(&b.received())), (4, 4));
}
