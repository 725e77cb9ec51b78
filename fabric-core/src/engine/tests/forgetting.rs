//! Which peers must not be forgotten.

use super::{
    node::{Node, pair, settle, want},
    pattern,
    wire::Script,
};
use crate::op::RecvOp;

fn in_use(node: &Node, peer: usize) -> bool {
    node.engine.core.peers_in_use()[peer]
}

#[test]
fn a_peer_is_in_use_while_its_message_waits() {
    let (_net, mut a, mut b) = pair(Script::default());
    let (mut from, mut to) = (pattern(1, 100), vec![0; 100]);
    a.tsend(1, 1, 5, &mut from);
    settle(&mut [&mut a, &mut b]);
    assert!(!in_use(&a, 1), "nothing is left of a message that was sent");
    assert!(in_use(&b, 0));
    b.trecv(2, 5, &mut to);
    assert_eq!(b.received()[0].ok().len, 100);
    assert!(!in_use(&b, 0));
}

#[test]
fn a_peer_is_in_use_while_a_receive_names_it() {
    let (_net, mut a, mut b) = pair(Script::default());
    b.recv(RecvOp { src: 0, ..want(7, 5) }).unwrap();
    b.trecv(8, 6, &mut []);
    assert!(in_use(&b, 0));
    b.engine.cancel(7);
    assert!(!in_use(&b, 0), "the other receive names nobody");
    b.engine.cancel(8);
    settle(&mut [&mut a, &mut b]);
}

#[test]
fn a_peer_is_in_use_while_an_operation_to_it_waits() {
    let script = Script { room: 1, ..Script::default() };
    let (_net, mut a, mut b) = pair(script);
    let (mut from, mut to) = (pattern(1, 8), vec![0; 8]);
    a.tsend(1, 1, 5, &mut from);
    a.tsend(1, 2, 5, &mut from);
    assert!(in_use(&a, 1));
    b.trecv(3, 5, &mut to);
    b.trecv(4, 5, &mut to);
    settle(&mut [&mut a, &mut b]);
    assert_eq!(a.sent().len(), 2);
    assert!(!in_use(&a, 1) && !in_use(&b, 0));
}
