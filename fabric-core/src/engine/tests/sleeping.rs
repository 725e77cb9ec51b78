//! One thread sleeps while others drive the engine.

use super::{node::pair, wire::Script};
use crate::wire::Wire;

#[test]
fn who_sleeps_is_armed_or_woken() {
    let (_net, mut node, _peer) = pair(Script::default());
    let engine = &mut node.engine;
    engine.wire.busy = true;
    assert!(!engine.arm());
    assert!(!engine.wire.woken, "nobody slept");

    engine.wire.busy = false;
    assert!(engine.arm(), "one goes to sleep");
    assert!(engine.arm(), "and another");
    assert!(!engine.wire.woken);

    engine.wire.busy = true;
    assert!(!engine.arm(), "a third is to look first, and may never come back");
    assert!(engine.wire.woken);
    engine.progress();
    engine.hand_on();
    assert!(!engine.arm() && engine.wire.woken, "a sleeper may not have run yet");

    engine.wire.busy = false;
    assert!(engine.arm() && !engine.wire.woken, "whoever sleeps is armed again");
}

#[test]
fn what_is_left_behind_is_told_once_and_until_armed() {
    let (_net, mut node, _peer) = pair(Script::default());
    let engine = &mut node.engine;
    assert!(engine.arm());
    engine.hand_on();
    assert!(!engine.wire.woken, "nothing is left");
    engine.wire.changed = true;
    engine.hand_on();
    assert!(engine.wire.woken);
    engine.progress();
    engine.hand_on();
    assert!(engine.wire.woken);
    engine.wire.changed = false;
    assert!(engine.arm() && !engine.wire.woken);
    assert!(!engine.wire.changed());
}
