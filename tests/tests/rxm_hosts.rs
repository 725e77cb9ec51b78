//! The programs of `hosts.rs` and `tcp_hosts.rs` over `tcp;ofi_rxm`: what the protocol of its own adds
//! to what connections are proved to do there. Those that differ in nothing are in `networks`.
//!
//! A peer that cannot be reached is given up after one second here.

mod networks;

use percale_tests::rig::{Program, long};

/// Direct copies are no matter of networks.
const NO_DENIAL: [&str; 2] = ["none", "1"];

fn program(name: &str) -> Program {
    Program::new(name).with("PERCALE_PROVIDER", "tcp;ofi_rxm").with("FI_TCP_CONNECT_TIMEOUT", "1")
}

#[test]
fn a_peer_may_die_at_any_moment() {
    program("deaths").run(&["any-moment", if long() { "500" } else { "50" }]);
}

#[test]
fn visitors_that_are_no_peers() {
    program("strangers").run(&["scanners", "300"]);
}

/// What a connection takes, what many idle ones cost, and their end.
#[test]
fn many_peers_of_one_endpoint() {
    let peers = if long() { "2000" } else { "500" };
    program("throng").with("FI_TCP_CONNECT_TIMEOUT", "60").run(&[peers]);
}

/// Moves 16 GiB.
#[test]
fn sends_of_three_sizes_before_any_receive() {
    if long() {
        program("queues").run(&["sizes"]);
    }
}

#[test]
fn no_wake_up_is_lost() {
    program("wakes").run(&["kinds", if long() { "20000" } else { "2000" }]);
}

#[test]
fn a_message_beyond_four_gib() {
    program("huge").run(&[NO_DENIAL[0], NO_DENIAL[1], "send", "4294967297"]);
}
