//! The programs of `hosts.rs` over TCP, as far as they do not know the inside of shared memory, and
//! those that only a network needs: other hosts, cables that are pulled, strangers at the port. Those
//! that `rxm_hosts.rs` has, too, are in `networks`.
//!
//! What every run is held to is in `percale_tests::rig`. A peer that cannot be reached is given up
//! after one second here, and a host after three seconds without a sign of life where that matters.

mod networks;

use std::path::Path;

use percale_tests::{
    rig::{Program, long, unshare},
    upstream,
};

/// Direct copies are no matter of networks.
const NO_DENIAL: [&str; 2] = ["none", "1"];

fn program(name: &str) -> Program {
    Program::new(name).with("PERCALE_PROVIDER", "tcp").with("FI_TCP_CONNECT_TIMEOUT", "1")
}

/// With other hosts, which need network namespaces of their own.
fn hosts(name: &str, cases: &[&str]) {
    if unshare(&[]).is_none() {
        return;
    }
    let program = Program::new(name)
        .with("PERCALE_PROVIDER", "tcp")
        .with("FI_TCP_CONNECT_TIMEOUT", "3")
        .with("FI_TCP_PEER_TIMEOUT", "3");
    for case in cases {
        program.run(&[case]);
    }
}

fn wires(cases: &[&str]) {
    hosts("wires", cases);
}

#[test]
fn a_peer_may_die_at_any_moment() {
    program("deaths").run(&["any-moment", if long() { "500" } else { "100" }]);
}

/// The same for three times as many seconds, in which the kernel asks ever more rarely.
#[test]
fn a_peer_that_computes_for_long() {
    if long() {
        program("deaths").with("FI_TCP_PEER_TIMEOUT", "3").run(&["quiet"]);
    }
}

/// Connected endpoints: an event queue and a completion queue that are slept on beside a thread that looks.
#[test]
fn a_server_that_sleeps_forgets_no_client() {
    program("attendants").run(&[if long() { "30" } else { "2" }]);
}

#[test]
fn a_sleeping_child_does_not_keep_its_dead_parents_port() {
    program("successors").run(&["orphaned"]);
}

#[test]
fn a_child_with_an_endpoint_of_its_own() {
    program("forked").run(&["opens"]);
}

#[test]
fn a_child_does_not_hide_its_parents_end() {
    program("forked").run(&["survives"]);
}

#[test]
fn visitors_that_are_no_peers() {
    program("strangers").run(&["scanners", "1000"]);
}

/// Whoever has asked for a connection hears what became of it, and the log why.
#[test]
fn connections_that_do_not_come_up() {
    program("misfits").run(&["connections"]);
}

/// Neither taken nor turned away: nobody spins meanwhile.
#[test]
fn connections_wait_for_descriptors() {
    program("misfits").run(&["listening"]);
}

#[test]
fn a_peer_of_another_protocol_is_told_no() {
    program("strangers").run(&["layered"]);
}

#[test]
fn a_message_for_which_there_is_no_memory() {
    program("strangers").run(&["memory"]);
}

/// What a connection takes, what many idle ones cost, and their end.
#[test]
fn many_peers_of_one_endpoint() {
    program("throng").with("FI_TCP_CONNECT_TIMEOUT", "60").run(&[if long() {
        "2000"
    } else {
        "500"
    }]);
}

/// A thousand sends of 8 B, of 60 KiB and of 8 MiB, before any receive is posted, both ways.
#[test]
fn sends_of_three_sizes_before_any_receive() {
    program("queues").run(&["sizes"]);
}

/// The same with a peer that has another library: what it keeps is its own affair, ours is bounded.
#[test]
fn sends_before_any_receive_to_another_library() {
    let Some(upstream) = upstream() else {
        eprintln!("there is no other library to talk to");
        return;
    };
    let directory = upstream.parent().and_then(Path::to_str).expect("a path of letters");
    program("queues").run(&["sizes-with", directory]);
}

#[test]
fn no_wake_up_is_lost() {
    program("wakes").run(&["kinds", if long() { "20000" } else { "3000" }]);
}

#[test]
fn two_sleepers_share_one_core() {
    program("wakes").run(&["one-core", "5000"]);
}

#[test]
fn closing_in_any_order() {
    program("lifetimes").run(&["orders"]);
}

#[test]
fn manners_of_a_guest() {
    program("guest").run(&["manners"]);
}

#[test]
fn a_message_beyond_four_gib() {
    let beyond = "4294967297";
    program("huge").run(&[NO_DENIAL[0], NO_DENIAL[1], "send", beyond]);
    if long() {
        for kind in ["send", "write", "read"] {
            for size in ["2147483647", "2147483648", "4294967295", "4294967296", beyond] {
                program("huge").run(&[NO_DENIAL[0], NO_DENIAL[1], kind, size]);
            }
        }
    }
}

#[test]
fn two_hosts() {
    wires(&["traffic", "link-local"]);
}

/// An interruption that TCP gets over is nothing to tell of.
#[test]
fn a_loose_cable() {
    wires(&["loose"]);
}

/// Sends, receives, reads and writes under way, only a receive, a hand-shake that the peer has not
/// answered: all end within the bound.
#[test]
fn a_pulled_cable() {
    wires(&["mid-stream", "idle", "hand-shake", "before"]);
}

#[test]
fn a_pulled_cable_wakes_a_sleeper() {
    wires(&["asleep"]);
}

/// Eleven cables and a bridge that leads nowhere, and nothing is configured.
#[test]
fn neighbours_among_many_interfaces() {
    wires(&["many"]);
}

/// A client whose address is hidden sends, reads and writes.
#[test]
fn behind_an_address_translator() {
    wires(&["behind"]);
}

/// Nobody can connect to a host, but operations towards it use what it has begun.
#[test]
fn behind_a_wall() {
    hosts("routes", &["wall"]);
}

/// Endpoints at two interfaces on one subnet are told apart.
#[test]
fn two_interfaces_on_one_subnet() {
    hosts("routes", &["twins"]);
}

/// An endpoint at all addresses, and peers that reach it at different ones.
#[test]
fn a_host_in_two_subnets() {
    hosts("routes", &["homes"]);
}
