//! One thread sleeps while others drive the engine.

use super::{
    node::{LIMITS, nodes, pair},
    wire::Script,
};
use crate::wire::Wire;

#[test]
fn whoever_tries_to_sleep_in_vain_wakes_the_sleepers() {
    let (_net, mut node, _peer) = pair(Script::default());
    let engine = &mut node.engine;
    assert!(engine.arm());
    engine.wire.busy = true;
    assert!(!engine.arm() && engine.wire.rings, "bells may have been used up");
    engine.progress();
    engine.hand_on();
    assert!(!engine.arm() && engine.wire.rings, "a sleeper may not have run yet");
    engine.wire.busy = false;
    assert!(engine.arm() && !engine.wire.rings);
}

#[test]
fn what_is_left_behind_is_told_once_and_until_armed() {
    let (_net, mut node, _peer) = pair(Script::default());
    let engine = &mut node.engine;
    assert!(engine.arm());
    engine.hand_on();
    assert!(!engine.wire.rings, "nothing is left");
    engine.wire.changed = true;
    engine.hand_on();
    assert!(engine.wire.rings);
    engine.progress();
    engine.hand_on();
    assert!(engine.wire.rings);
    engine.wire.changed = false;
    assert!(engine.arm() && !engine.wire.rings);
    assert!(!engine.wire.changed());
}

#[test]
fn who_finds_no_room_wakes_nobody_who_waits_for_it() {
    let (net, mut nodes) = nodes(3, Script { room: 1, ..Script::default() }, LIMITS);
    let mut bytes = [[0; 8]; 4];
    let [first, second, third, fourth] = &mut bytes;
    nodes[0].tsend(1, 1, 7, first);
    nodes[0].tsend(1, 2, 7, second);
    assert!(nodes[0].engine.arm(), "one packet waits");
    for _ in 0..2 {
        nodes[0].engine.progress();
        nodes[0].engine.hand_on();
        assert!(!nodes[0].engine.wire.rings, "another one would be told, and tell us");
    }

    nodes[0].tsend(2, 3, 7, third);
    nodes[0].tsend(2, 4, 7, fourth);
    nodes[0].engine.hand_on();
    assert!(nodes[0].engine.wire.rings, "nobody waits for room for this one yet");
    assert!(nodes[0].engine.arm() && !nodes[0].engine.wire.rings);

    nodes[1].trecv(1, 7, first);
    nodes[1].engine.progress();
    net.net().script.room = 2;
    nodes[0].tsend(1, 5, 7, first);
    nodes[0].engine.progress();
    nodes[0].tsend(1, 6, 7, first);
    nodes[0].engine.hand_on();
    assert!(nodes[0].engine.wire.rings, "what it had waited for has come, and is used up");
}
