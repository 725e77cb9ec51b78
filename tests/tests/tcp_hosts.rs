//! The programs of `hosts.rs` over TCP, as far as they do not know the inside of shared memory, and
//! those that only a network needs: other hosts, cables that are pulled, strangers at the port.
//!
//! What every run is held to is in `percale_tests::rig`. A peer that cannot be reached is given up
//! after one second here, and a host after three seconds without a sign of life where that matters.

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
fn fifty_kills_leave_nothing() {
    program("deaths").run(&["cycles"]);
}

#[test]
fn operations_of_every_kind_end_with_their_peer() {
    program("deaths").run(&["pending"]);
}

#[test]
fn a_peer_may_die_at_any_moment() {
    program("deaths").run(&["any-moment", if long() { "500" } else { "100" }]);
}

#[test]
fn a_sleeper_learns_of_its_peers_end() {
    program("deaths").run(&["asleep"]);
}

/// Who computes, or is stopped, for three times the bound with full sockets is not dead.
#[test]
fn a_quiet_peer_is_not_a_dead_one() {
    program("deaths").with("FI_TCP_PEER_TIMEOUT", "1").run(&["quiet"]);
}

/// The same for three times as many seconds, in which the kernel asks ever more rarely.
#[test]
fn a_peer_that_computes_for_long() {
    if long() {
        program("deaths").with("FI_TCP_PEER_TIMEOUT", "3").run(&["quiet"]);
    }
}

#[test]
fn a_restarted_peer_is_not_taken_for_its_dead_predecessor() {
    program("successors").run(&["restarted"]);
}

#[test]
fn a_sleeping_child_does_not_keep_its_dead_parents_port() {
    program("successors").run(&["orphaned"]);
}

/// Messages to somebody who comes later, or never.
#[test]
fn a_server_that_is_not_there_yet() {
    program("restarts").run(&["early"]);
}

/// Thousands of attempts.
#[test]
fn nobody_is_at_many_addresses() {
    program("restarts").run(&["never"]);
}

#[test]
fn a_server_is_started_anew_twenty_times() {
    program("restarts").run(&["again", "20"]);
}

#[test]
fn two_reach_for_each_other_at_once() {
    program("restarts").run(&["crossing", if long() { "2000" } else { "200" }]);
}

/// 40 descriptors, 200 clients one by one and 60 at once.
#[test]
fn a_server_without_descriptors_turns_clients_away() {
    program("exhausted").run(&["clients"]);
}

#[test]
fn a_client_without_descriptors_is_told() {
    program("exhausted").run(&["connects"]);
}

#[test]
fn a_child_that_closes_what_it_has_inherited() {
    program("forked").run(&["closes"]);
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

#[test]
fn three_hundred_visitors_say_half_a_word() {
    program("strangers").run(&["half-open"]);
}

#[test]
fn a_peer_of_another_protocol_is_told_no() {
    program("strangers").run(&["layered"]);
}

#[test]
fn headers_with_impossible_numbers() {
    program("strangers").run(&["headers"]);
}

/// Who says that a live peer has been started anew.
#[test]
fn a_live_peer_in_whose_name_another_comes() {
    program("strangers").with("FI_TCP_CONNECT_TIMEOUT", "5").run(&["forged"]);
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

#[test]
fn thousands_of_addresses_are_forgotten() {
    program("shortage").run(&["names"]);
}

#[test]
fn six_hundred_endpoints() {
    program("floods").run(&["endpoints"]);
}

#[test]
fn cancelled_receives_complete_once() {
    program("floods").run(&["cancelled"]);
}

#[test]
fn both_flood_before_either_receives() {
    program("floods").run(&["both-ways"]);
}

#[test]
fn messages_that_nobody_waits_for() {
    program("floods").run(&["unexpected"]);
}

#[test]
fn a_cut_message_is_not_the_last() {
    program("floods").run(&["truncated"]);
}

#[test]
fn a_small_queue_loses_nothing() {
    program("queues").run(&["small"]);
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
fn sixteen_senders_of_unexpected_messages() {
    program("queues").run(&["senders"]);
}

/// Who has read a completion may call nothing any more: what has completed is under way.
#[test]
fn what_has_completed_arrives() {
    program("queues").run(&["leaves"]);
}

#[test]
fn an_error_names_its_peer() {
    program("queues").run(&["third"]);
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
fn address_vectors_agree_with_a_model() {
    program("vector").run(&[if long() { "200000" } else { "10000" }]);
}

/// Hints that are wrong in one way: the report names that attribute first.
#[test]
fn reasons_name_the_wrong_attribute() {
    program("wrong").run(&[]);
}

#[test]
fn closing_in_any_order() {
    program("lifetimes").run(&["orders"]);
}

#[test]
fn endpoints_close_beside_a_reader() {
    program("lifetimes").run(&["churn", if long() { "2000" } else { "200" }]);
}

#[test]
fn threads_share_an_endpoint() {
    program("lifetimes").run(&["threads", if long() { "20" } else { "2" }]);
}

/// The target makes no call, serves everything and sleeps.
#[test]
fn automatic_progress() {
    program("guest").run(&["automatic"]);
}

/// The sender makes no call once it has posted.
#[test]
fn what_is_posted_leaves() {
    program("guest").run(&["posted"]);
}

#[test]
fn transfers_of_every_kind_and_size() {
    program("transfers").run(&NO_DENIAL);
}

#[test]
fn manners_of_a_guest() {
    program("guest").run(&["manners"]);
}

/// Sockets are full of other things.
#[test]
fn atomics_that_find_no_room() {
    program("edges").run(&["full-rings"]);
}

/// Whoever opens its whole address space is asked for what is not there.
#[test]
fn addresses_where_nothing_is() {
    program("edges").run(&["address-space"]);
}

/// An answer that has begun to leave ends with its region, and the reader is told.
#[test]
fn a_region_closed_under_a_read() {
    program("edges").run(&["closed-region"]);
}

#[test]
fn injected_messages_outlive_their_endpoint() {
    program("edges").run(&["injected"]);
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
