//! One thread sleeps while others drive the engine.

use super::{node::pair, wire::Script};
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
